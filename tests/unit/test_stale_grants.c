/* What may be left of locks, and when those who wait are told again that they are free. */
#include "tests/support/test.h"

#include "worker/locks/stale_grants.h"

#define TTL_NS (10 * NS_PER_S)

static struct instant at(int64_t ms)
{
    return (struct instant){1000 * NS_PER_S + ms * NS_PER_MS};
}

static int set_up(void **state)
{
    *state = stale_grants_create();
    return 0;
}

static int tear_down(void **state)
{
    stale_grants_destroy(*state);
    return 0;
}

static void assert_told_at(struct stale_grants *table, int64_t ms, const char *list)
{
    assert_int_equal(stale_grants_next(table).ns, at(ms).ns);
    assert_null(stale_grants_due(table, instant_after(at(ms), -1)));
    const char *told = stale_grants_due(table, at(ms));
    assert_non_null(told);
    assert_string_equal(told, list);
}

static void assert_nothing_left(struct stale_grants *table)
{
    assert_int_equal(stale_grants_next(table).ns, INSTANT_NEVER.ns);
    assert_null(stale_grants_due(table, at(3600000)));
}

TEST(nothing_is_due_where_nothing_is_noted)
{
    assert_nothing_left(*state);
    stale_grants_destroy(NULL);
}

TEST(pauses_grow_until_the_ttl_is_over)
{
    struct stale_grants *table = *state;
    stale_grants_note(table, "resource:a", at(0), 5 * NS_PER_S);
    static const int64_t told[] = {100, 300, 700, 1500, 2500, 3500, 4500};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_told_at(table, told[i], "resource:a");
    assert_nothing_left(table);
}

TEST(who_is_told_late_is_told_once)
{
    struct stale_grants *table = *state;
    stale_grants_note(table, "resource:a", at(0), TTL_NS);
    assert_string_equal(stale_grants_due(table, at(5000)), "resource:a");
    assert_null(stale_grants_due(table, at(5000)));
    assert_told_at(table, 5200, "resource:a");
}

TEST(noted_again_it_stays_longer_and_is_told_no_faster)
{
    struct stale_grants *table = *state;
    stale_grants_note(table, "resource:a", at(0), NS_PER_S);
    assert_told_at(table, 100, "resource:a");
    stale_grants_note(table, "resource:a", at(250), NS_PER_S);
    assert_told_at(table, 300, "resource:a");
    stale_grants_note(table, "resource:a", at(300), 2 * NS_PER_S);
    assert_told_at(table, 700, "resource:a");
    assert_told_at(table, 1500, "resource:a");
    assert_nothing_left(table);
    stale_grants_note(table, "resource:a", at(4000), NS_PER_S); /* that was another time */
    assert_told_at(table, 4100, "resource:a");
}

TEST(a_shorter_time_does_not_end_a_longer_one)
{
    struct stale_grants *table = *state;
    stale_grants_note(table, "resource:a", at(0), TTL_NS);
    stale_grants_note(table, "resource:a", at(0), 150 * NS_PER_MS);
    assert_told_at(table, 100, "resource:a");
    assert_told_at(table, 300, "resource:a");
}

TEST(lists_are_told_in_the_order_of_their_times)
{
    struct stale_grants *table = *state;
    stale_grants_note(table, "resource:a", at(0), 250 * NS_PER_MS);
    stale_grants_note(table, "resource:b", at(20), 250 * NS_PER_MS);
    assert_told_at(table, 100, "resource:a");
    assert_told_at(table, 120, "resource:b");
    assert_nothing_left(table);
    stale_grants_note(table, "class:c", at(0), 250 * NS_PER_MS); /* what was forgotten is used again */
    assert_told_at(table, 100, "class:c");
}

TEST(of_too_many_the_oldest_is_forgotten)
{
    struct stale_grants *table = *state;
    char list[32];
    for (int i = 0; i < STALE_GRANTS_MAX; i++) {
        snprintf(list, sizeof list, "resource:%d", i);
        stale_grants_note(table, list, at(i), 150 * NS_PER_MS);
    }
    stale_grants_note(table, "resource:0", at(STALE_GRANTS_MAX), 150 * NS_PER_MS); /* not the oldest any more */
    stale_grants_note(table, "resource:new", at(STALE_GRANTS_MAX), 150 * NS_PER_MS);
    unsigned told = 0;
    for (const char *due = NULL; (due = stale_grants_due(table, at(10000))) != NULL; told++)
        assert_string_not_equal(due, "resource:1");
    assert_int_equal(told, STALE_GRANTS_MAX);
    assert_nothing_left(table);
}

RUN_TESTS_WITH(set_up, tear_down)
