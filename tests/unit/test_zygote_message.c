/* Orders to the zygote as bytes: written, checked and taken apart again. */
#include "tests/support/test.h"

#include "worker/isolation/zygote_message.h"

static const char *const arguments[] = {"/bin/program", "", "two words", NULL};
static const char *const environment[] = {"A=1", "B=", NULL};
static const struct child_plan plan = {.kind = CHILD_PROGRAM,
                                       .descriptors = {5, -1, 7},
                                       .descriptor_count = 3,
                                       .arguments = arguments,
                                       .environment = environment,
                                       .open_files = 64};

static struct zygote_order order_made(void)
{
    struct zygote_order order;
    assert_true(zygote_order_of(&order, 12, &plan));
    return order;
}

TEST(the_words_come_out_as_they_went_in)
{
    struct zygote_order order = order_made();
    assert_int_equal(order.words_length, 13 + 1 + 10 + 4 + 3);
    char words[64], *pointers[7];
    zygote_words_write(&plan, words);
    assert_true(zygote_words_split(&order, words, pointers));
    for (int i = 0; i < 3; i++)
        assert_string_equal(pointers[i], arguments[i]);
    assert_null(pointers[3]);
    for (int i = 0; i < 2; i++)
        assert_string_equal(pointers[4 + i], environment[i]);
    assert_null(pointers[6]);
}

TEST(a_directory_is_the_last_word)
{
    struct child_plan placed = plan;
    placed.directory = "/srv";
    placed.environment = NULL;
    struct zygote_order order;
    char words[64], *pointers[6];
    assert_true(zygote_order_of(&order, 1, &placed));
    zygote_words_write(&placed, words);
    assert_true(zygote_order_is_sound(&order, sizeof order + order.words_length, 2));
    assert_true(zygote_words_split(&order, words, pointers));
    assert_int_equal(order.environment_count, 1);
    assert_string_equal(pointers[4], "/srv");
    order.has_directory = 2;
    assert_false(zygote_order_is_sound(&order, sizeof order + order.words_length, 2));
    order.has_directory = 1;
    order.environment_count = 0;
    assert_false(zygote_order_is_sound(&order, sizeof order + order.words_length, 2));
}

TEST(an_environment_may_be_empty)
{
    struct child_plan bare = plan;
    bare.environment = NULL;
    struct zygote_order order;
    char words[64], *pointers[5] = {(char *)words, (char *)words, (char *)words, (char *)words, (char *)words};
    assert_true(zygote_order_of(&order, 1, &bare));
    zygote_words_write(&bare, words);
    assert_true(zygote_words_split(&order, words, pointers));
    assert_string_equal(pointers[2], "two words");
    assert_null(pointers[3]);
    assert_null(pointers[4]);
}

TEST(words_of_another_number_are_refused)
{
    struct zygote_order order = order_made();
    char words[64], *pointers[16];
    zygote_words_write(&plan, words);
    order.environment_count++;
    assert_false(zygote_words_split(&order, words, pointers));
    order.environment_count -= 2;
    assert_false(zygote_words_split(&order, words, pointers));
    order = order_made();
    words[order.words_length - 1] = 'x'; /* no end */
    assert_false(zygote_words_split(&order, words, pointers));
}

static bool is_sound(const struct zygote_order *order, unsigned descriptors)
{
    return zygote_order_is_sound(order, sizeof *order + order->words_length, descriptors);
}

TEST(an_order_is_checked_before_it_is_believed)
{
    struct zygote_order order = order_made();
    assert_int_equal(order.descriptors_sent, 5);
    assert_true(is_sound(&order, 2));
    assert_false(is_sound(&order, 1));
    assert_false(is_sound(&order, 3));
    assert_false(zygote_order_is_sound(&order, sizeof order + order.words_length - 1, 2));
    assert_false(zygote_order_is_sound(&order, sizeof order - 1, 2));
    struct zygote_order bad = order;
    bad.descriptor_count = CHILD_DESCRIPTORS_MAX + 1;
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.descriptors_sent = 9; /* beyond those of the plan */
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.kind = ORDER_BYE + 1;
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.child_kind = CHILD_PROGRAM + 1;
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.argument_count = 0;
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.environment_count = UINT32_MAX;
    assert_false(is_sound(&bad, 2));
    bad = order;
    bad.words_length = ZYGOTE_WORDS_MAX + 1;
    assert_false(is_sound(&bad, 2));
}

TEST(other_orders_have_nothing_behind_them)
{
    struct zygote_order ring = {.kind = ORDER_RING};
    assert_true(zygote_order_is_sound(&ring, sizeof ring, 0));
    assert_false(zygote_order_is_sound(&ring, sizeof ring + 1, 0));
    assert_false(zygote_order_is_sound(&ring, sizeof ring, 1));
}

TEST(long_words_go_into_a_file_and_too_long_ones_nowhere)
{
    static char word[ZYGOTE_WORDS_MAX];
    const char *words[] = {word, NULL};
    struct child_plan big = {.kind = CHILD_PROGRAM, .arguments = words};
    struct zygote_order order;
    memset(word, 'w', sizeof word - 1);
    word[ZYGOTE_WORDS_INLINE_MAX - 1] = '\0';
    assert_true(zygote_order_of(&order, 1, &big));
    assert_false(order.words_in_file);
    word[ZYGOTE_WORDS_INLINE_MAX - 1] = 'w';
    assert_true(zygote_order_of(&order, 1, &big));
    assert_true(order.words_in_file);
    assert_int_equal(order.words_length, ZYGOTE_WORDS_MAX);
    assert_true(zygote_order_is_sound(&order, sizeof order, 1));
    assert_false(zygote_order_is_sound(&order, sizeof order, 0));
    big.environment = (const char *const[]){"", NULL};
    assert_false(zygote_order_of(&order, 1, &big));
}

RUN_TESTS
