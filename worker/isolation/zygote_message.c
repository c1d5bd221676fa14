#include "worker/isolation/zygote_message.h"

#include <string.h>

static bool words_count(const char *const *words, uint32_t *count, uint32_t *length)
{
    for (; words != NULL && *words != NULL; words++) {
        size_t more = strnlen(*words, ZYGOTE_WORDS_MAX) + 1;
        if (*length + more > ZYGOTE_WORDS_MAX)
            return false;
        *length += (uint32_t)more;
        *count += 1;
    }
    return true;
}

bool zygote_order_of(struct zygote_order *order, uint64_t number, const struct child_plan *plan)
{
    *order = (struct zygote_order){.kind = ORDER_SPAWN,
                                   .child_kind = plan->kind,
                                   .number = number,
                                   .descriptor_count = plan->descriptor_count,
                                   .is_quiet = plan->is_quiet,
                                   .has_directory = plan->directory != NULL,
                                   .memory_bytes = plan->memory_bytes,
                                   .open_files = plan->open_files};
    for (unsigned i = 0; i < plan->descriptor_count; i++)
        order->descriptors_sent |= plan->descriptors[i] >= 0 ? 1U << i : 0;
    if (plan->kind != CHILD_PROGRAM)
        return true;
    const char *const directory[] = {plan->directory, NULL};
    bool fits = words_count(plan->arguments, &order->argument_count, &order->words_length) &&
                words_count(plan->environment, &order->environment_count, &order->words_length) &&
                words_count(directory, &order->environment_count, &order->words_length);
    order->words_in_file = order->words_length > ZYGOTE_WORDS_INLINE_MAX;
    return fits;
}

static char *words_append(char *at, const char *const *words)
{
    for (; words != NULL && *words != NULL; words++) {
        size_t length = strlen(*words) + 1;
        memcpy(at, *words, length);
        at += length;
    }
    return at;
}

void zygote_words_write(const struct child_plan *plan, char *words)
{
    const char *const directory[] = {plan->directory, NULL};
    words_append(words_append(words_append(words, plan->arguments), plan->environment), directory);
}

static unsigned descriptors_due(const struct zygote_order *order)
{
    unsigned due = order->words_in_file != 0;
    for (unsigned i = 0; i < CHILD_DESCRIPTORS_MAX; i++)
        due += order->descriptors_sent >> i & 1;
    return due;
}

static bool words_are_sound(const struct zygote_order *order, size_t length)
{
    if (order->words_length > ZYGOTE_WORDS_MAX || order->argument_count > order->words_length ||
        order->environment_count > order->words_length - order->argument_count ||
        order->has_directory > (order->environment_count > 0))
        return false;
    if (order->child_kind == CHILD_PROGRAM && order->argument_count == 0)
        return false;
    return length == sizeof *order + (order->words_in_file ? 0 : order->words_length);
}

bool zygote_order_is_sound(const struct zygote_order *order, size_t length, unsigned descriptors)
{
    if (length < sizeof *order)
        return false;
    if (order->kind != ORDER_SPAWN)
        return order->kind <= ORDER_BYE && length == sizeof *order && descriptors == 0;
    return order->child_kind <= CHILD_PROGRAM && order->descriptor_count <= CHILD_DESCRIPTORS_MAX &&
           order->descriptors_sent >> order->descriptor_count == 0 && descriptors == descriptors_due(order) &&
           words_are_sound(order, length);
}

bool zygote_words_split(const struct zygote_order *order, char *words, char **pointers)
{
    char *at = words, *end = words + order->words_length;
    uint32_t all = order->argument_count + order->environment_count;
    for (uint32_t i = 0; i < all; i++) {
        char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (nul == NULL)
            return false;
        if (i == order->argument_count)
            *pointers++ = NULL;
        *pointers++ = at;
        at = nul + 1;
    }
    if (order->environment_count == 0)
        *pointers++ = NULL;
    *pointers = NULL;
    return at == end;
}
