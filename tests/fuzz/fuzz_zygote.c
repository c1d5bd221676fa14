/* Any bytes as an order to the zygote. The words of a sound one are those of the plan that it came from. */
#include "tests/fuzz/fuzz.h"
#include "worker/isolation/zygote_message.h"

static void words_hold(const struct zygote_order *order, const char *words, char **pointers)
{
    struct child_plan plan = {.kind = CHILD_PROGRAM,
                              .descriptor_count = order->descriptor_count,
                              .arguments = (const char *const *)pointers,
                              .environment = (const char *const *)pointers + order->argument_count + 1};
    for (unsigned i = 0; i < plan.descriptor_count; i++)
        plan.descriptors[i] = (order->descriptors_sent >> i & 1) != 0 ? 0 : -1;
    struct zygote_order again;
    invariant(zygote_order_of(&again, order->number, &plan));
    invariant(again.words_length == order->words_length && again.argument_count == order->argument_count);
    invariant(again.environment_count == order->environment_count);
    invariant(again.descriptors_sent == order->descriptors_sent);
    char *written = memory_zeroed(again.words_length, 1);
    zygote_words_write(&plan, written);
    invariant(memcmp(written, words, again.words_length) == 0);
    free(written);
}

static void order_holds(const struct zygote_order *order, const uint8_t *rest)
{
    char *words = fuzz_copy(rest, order->words_length);
    char **pointers = memory_zeroed((size_t)order->argument_count + order->environment_count + 2, sizeof *pointers);
    if (zygote_words_split(order, words, pointers) && order->child_kind == CHILD_PROGRAM)
        words_hold(order, words, pointers);
    free(pointers);
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zygote_order order = {.kind = 0};
    memcpy(&order, data, size < sizeof order ? size : sizeof order);
    for (unsigned descriptors = 0; descriptors <= ZYGOTE_DESCRIPTORS_MAX; descriptors++)
        if (zygote_order_is_sound(&order, size, descriptors) && order.kind == ORDER_SPAWN && order.words_in_file == 0)
            order_holds(&order, data + sizeof order);
    return 0;
}
