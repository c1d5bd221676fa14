/* How long runs took: the buckets, what is counted together, what is bounded and taken, and how it is read back. */
#include "tests/support/test.h"

#include "queue/class_names.h"
#include "queue/run_durations.h"
#include "tests/support/arguments_text.h"

static const struct wall_time today = {INT64_C(1795194279000000)}, tomorrow = {INT64_C(1795280679000000)};

static int make(void **state)
{
    *state = run_durations_create();
    return 0;
}

static int end(void **state)
{
    run_durations_destroy(*state);
    return 0;
}

/* What a take gives, in the order of the first count of each. */
static const char *taken(struct run_durations *run_durations, struct wall_time at)
{
    struct buffer arguments = {0};
    unsigned pairs = run_durations_take(run_durations, at, &arguments);
    return arguments_text(&arguments, pairs);
}

/* --- buckets ---------------------------------------------------------------------------------------------------- */

TEST(an_octave_has_four_buckets_from_a_microsecond_on)
{
    assert_int_equal(run_durations_bucket_ns(1), 1250);
    assert_int_equal(run_durations_bucket_ns(3), 1750);
    assert_int_equal(run_durations_bucket_ns(4), 2000);
    assert_int_equal(run_durations_bucket_ns(5), 2500);
    assert_int_equal(run_durations_bucket_ns(8), 4000);
    assert_int_equal(run_durations_bucket_ns(40), 1024 * NS_PER_US);
    assert_int_equal(run_durations_bucket_ns(RUN_DURATIONS_BUCKETS), (INT64_C(1) << 36) * NS_PER_US);
}

TEST(a_bucket_begins_where_the_one_before_it_ends)
{
    assert_int_equal(run_durations_bucket_ns(0), 0);
    for (unsigned bucket = 0; bucket < RUN_DURATIONS_BUCKETS; bucket++) {
        assert_true(run_durations_bucket_ns(bucket) < run_durations_bucket_ns(bucket + 1));
        assert_int_equal(run_durations_bucket(run_durations_bucket_ns(bucket)), bucket);
        assert_int_equal(run_durations_bucket(run_durations_bucket_ns(bucket + 1) - 1), bucket);
    }
}

TEST(what_is_too_short_or_too_long_is_in_the_first_or_the_last)
{
    assert_int_equal(run_durations_bucket(INT64_MIN), 0);
    assert_int_equal(run_durations_bucket(-1), 0);
    assert_int_equal(run_durations_bucket(0), 0);
    assert_int_equal(run_durations_bucket(999), 0);
    assert_int_equal(run_durations_bucket((INT64_C(1) << 36) * NS_PER_US), RUN_DURATIONS_BUCKETS - 1);
    assert_int_equal(run_durations_bucket(INT64_MAX), RUN_DURATIONS_BUCKETS - 1);
}

/* --- counting --------------------------------------------------------------------------------------------------- */

TEST_WITH(runs_of_a_class_are_counted_by_bucket_and_taken_once, make, end)
{
    run_durations_count(*state, "transfer", 5 * NS_PER_US);
    run_durations_count(*state, "render", NS_PER_MS);
    run_durations_count(*state, "transfer", 5900);
    run_durations_count(*state, "transfer", 6 * NS_PER_US);
    assert_string_equal(taken(*state, today), "transfer|=9 2 10 1 ;render|=39 1 ;");
    assert_string_equal(taken(*state, today), "");
    run_durations_count(*state, "render", NS_PER_MS);
    assert_string_equal(taken(*state, today), "render|=39 1 ;");
}

TEST_WITH(names_cannot_forge_fields, make, end)
{
    run_durations_count(*state, "a|7\n\x7f", 0);
    assert_string_equal(taken(*state, today), "a_7__|=0 1 ;");
}

/* Their hashes are all even, as that of CLASS_NAMES_OTHERS, so every place of the table has to be tried. */
static void many_count(struct run_durations *run_durations, unsigned from, unsigned to)
{
    char name[32];
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof name, "task%u.%u", i, i);
        run_durations_count(run_durations, name, 0);
    }
}

TEST_WITH(a_process_names_so_many_classes_a_day, make, end)
{
    many_count(*state, 0, CLASS_NAMES_MAX - 1);
    assert_null(strstr(taken(*state, today), CLASS_NAMES_OTHERS));
    many_count(*state, CLASS_NAMES_MAX - 1, CLASS_NAMES_MAX + 9);
    assert_string_equal(taken(*state, today), "hf.others|=0 10 ;");
    many_count(*state, 0, 1); /* has its place, though it was taken */
    many_count(*state, 500, 501);
    assert_string_equal(taken(*state, tomorrow), "task0.0|=0 1 ;hf.others|=0 1 ;");
    many_count(*state, 500, 501);
    assert_string_equal(taken(*state, tomorrow), "task500.500|=0 1 ;");
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

#define text_reply(text) ((struct redis_reply){.kind = REDIS_STRING, .bytes = (text), .length = strlen(text)})

static void pairs_read(struct run_durations_read *read, const char *const *texts, size_t count)
{
    struct redis_reply elements[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++)
        elements[i] = text_reply(texts[i]);
    run_durations_read_add(read, &(struct redis_reply){.kind = REDIS_ARRAY, .elements = elements, .count = count});
}

TEST(classes_are_found_whatever_the_order_and_days_add_up)
{
    static const char *const first[] = {"b|9", "1", "abc|4", "2", "b|0", "3", "ab|143", "4", "a|1", "5"};
    static const char *const second[] = {"b|9", "10", "c|1", "1", "abc|4", "1"};
    struct run_durations_read read = {0};
    pairs_read(&read, first, 10);
    pairs_read(&read, second, 6);
    assert_int_equal(read.count, 5);
    for (size_t i = 1; i < read.count; i++)
        assert_true(strcmp(read.classes[i - 1]->name, read.classes[i]->name) < 0);
    const struct run_durations_class *b = run_durations_read_find(&read, "b");
    assert_int_equal(b->runs, 14);
    assert_int_equal(b->buckets[9], 11);
    assert_int_equal(b->buckets[0], 3);
    assert_int_equal(run_durations_read_find(&read, "ab")->buckets[143], 4);
    assert_int_equal(run_durations_read_find(&read, "abc")->runs, 3);
    assert_null(run_durations_read_find(&read, "abcd"));
    assert_null(run_durations_read_find(&read, ""));
    run_durations_read_fini(&read);
    assert_null(run_durations_read_find(&read, "b"));
}

TEST(what_is_no_field_is_left_out)
{
    static const char *const odd[] = {
        "a",     "1",   "a|", "1",   "|1", "1",   "a|144", "1",   "a|-1", "1",   "a|1x",
        "1",     "a|1", "-1", "a|1", "x",  "a|1", "",      "a|1", "0",    "a|1", "99999999999999999999999",
        "a|b|1", "1",   "a|1"};
    struct run_durations_read read = {0};
    pairs_read(&read, odd, sizeof odd / sizeof odd[0]);
    assert_int_equal(read.count, 0);
    run_durations_read_add(&read, &(struct redis_reply){.kind = REDIS_NIL});
    run_durations_read_add(
        &read, &(struct redis_reply){.kind = REDIS_ARRAY,
                                     .count = 2,
                                     .elements = (struct redis_reply[]){
                                         {.kind = REDIS_STRING, .bytes = "a|1\0x", .length = 5}, text_reply("1")}});
    assert_int_equal(read.count, 0);
    run_durations_read_fini(&read);
}

TEST(a_class_is_found_by_the_name_that_tasks_have)
{
    static const char *const fields[] = {"a_b|4", "2"};
    struct run_durations_read read = {0};
    pairs_read(&read, fields, 2);
    assert_non_null(run_durations_read_find(&read, "a|b"));
    run_durations_read_fini(&read);
}

static bool is_near(double value, double wanted)
{
    return value > wanted * (1 - 1e-9) && value < wanted * (1 + 1e-9);
}

/* 2 runs from 2 to 2.5 us, and 2 from 1024 to 1280. */
TEST(quantiles_are_spread_evenly_within_a_bucket)
{
    struct run_durations_class two = {.runs = 4, .buckets = {[4] = 2, [40] = 2}};
    double seconds[8];
    run_durations_quantiles(&two, seconds, 4);
    assert_true(is_near(seconds[0], 2.125e-6));
    assert_true(is_near(seconds[1], 2.375e-6));
    assert_true(is_near(seconds[2], 1088e-6));
    assert_true(is_near(seconds[3], 1216e-6));
    run_durations_quantiles(&two, seconds, 1); /* the end of the lower half */
    assert_true(is_near(seconds[0], 2.5e-6));
    run_durations_quantiles(&two, seconds, 8);
    for (int i = 1; i < 8; i++)
        assert_true(seconds[i - 1] < seconds[i]);
    struct run_durations_class extremes = {.runs = 2, .buckets = {[0] = 1, [RUN_DURATIONS_BUCKETS - 1] = 1}};
    run_durations_quantiles(&extremes, seconds, 2);
    assert_true(is_near(seconds[0], 0.625e-6));
    assert_true(is_near(seconds[1], 1.875 * 34359.738368));
}

/* Quantiles of as many runs as there are, spread over five decades, are those of the runs to within an eighth. */
TEST(quantiles_are_those_of_the_runs)
{
    enum { RUNS = 1000 };
    struct run_durations_class all = {.runs = RUNS};
    double exact[RUNS], seconds[RUNS], sum = 0, exact_sum = 0;
    for (int i = 0; i < RUNS; i++) {
        int64_t ns = 2000 + (int64_t)i * i * i * 7;
        exact[i] = (double)ns / (double)NS_PER_S;
        all.buckets[run_durations_bucket(ns)]++;
    }
    run_durations_quantiles(&all, seconds, RUNS);
    for (int i = 0; i < RUNS; i++) {
        assert_true(seconds[i] > exact[i] * 0.8 && seconds[i] < exact[i] * 1.25);
        sum += seconds[i];
        exact_sum += exact[i];
    }
    assert_true(sum > exact_sum * 0.99 && sum < exact_sum * 1.01);
}

RUN_TESTS
