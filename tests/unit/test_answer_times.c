/* How long an answer is waited for, from what answers took of late. */
#include "tests/support/test.h"

#include "redis/answer_times.h"

#define LEAST (50 * NS_PER_MS)
#define MOST  (500 * NS_PER_MS)

static const struct instant start = {1000 * NS_PER_S};
static struct answer_times times;

static struct instant at(int64_t seconds)
{
    return instant_after(start, seconds * NS_PER_S);
}

static void note(int64_t ms, struct instant now)
{
    answer_times_note(&times, ms * NS_PER_MS, now);
}

static void assert_patience(int64_t ms, struct instant now)
{
    assert_int_equal(answer_timeout_ns(&times, LEAST, MOST, now), ms * NS_PER_MS);
}

static void forget_all(void)
{
    times = (struct answer_times){0};
}

TEST(without_an_answer_it_is_the_least)
{
    assert_patience(50, start);
}

TEST(it_is_twice_the_longest_answer_within_its_bounds)
{
    static const int64_t took_and_waits[][2] = {{1, 50},    {25, 50},   {26, 52},    {100, 200},
                                                {250, 500}, {251, 500}, {90000, 500}};
    for (size_t i = 0; i < sizeof took_and_waits / sizeof took_and_waits[0]; i++) {
        note(took_and_waits[i][0], start);
        assert_patience(took_and_waits[i][1], start);
    }
    answer_times_note(&times, INT64_MAX, start);
    assert_patience(500, start);
}

TEST(quick_answers_do_not_hide_a_slow_one)
{
    note(100, start);
    for (unsigned i = 0; i < 100000; i++)
        note(0, instant_after(start, i * 100 * NS_PER_US));
    assert_patience(200, at(10));
}

/* After 30 s at the earliest, and after a minute at the latest. */
TEST(a_slow_answer_is_forgotten)
{
    note(1, start);
    note(100, at(29));
    note(1, at(30));
    assert_patience(200, at(59));
    note(1, at(60));
    assert_patience(50, at(60));
}

TEST(a_slow_answer_is_forgotten_without_others)
{
    note(100, start);
    assert_patience(200, at(59));
    assert_patience(50, at(60));
    note(1, at(60));
    assert_patience(50, at(60));
    note(100, at(61));
    note(1, at(119));
    assert_patience(200, at(119));
    assert_patience(50, at(120));
}

RUN_TESTS_BETWEEN(forget_all, NULL)
