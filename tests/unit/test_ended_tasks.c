#include "tests/support/test.h"

#include "worker/events/ended_tasks.h"

static const struct instant start = {NS_PER_S};

TEST(who_ended_is_found_with_the_time_since)
{
    int64_t age_ns = 0;
    struct ended_tasks *ended = ended_tasks_create(7);
    assert_false(ended_tasks_find(ended, "a", start, &age_ns));
    ended_tasks_note(ended, "a", start);
    assert_true(ended_tasks_find(ended, "a", instant_after(start, 3 * NS_PER_S), &age_ns));
    assert_int_equal(age_ns, 3 * NS_PER_S);
    assert_false(ended_tasks_find(ended, "b", start, &age_ns));
    ended_tasks_note(ended, "a", instant_after(start, NS_PER_S));
    assert_true(ended_tasks_find(ended, "a", instant_after(start, 3 * NS_PER_S), &age_ns));
    assert_int_equal(age_ns, 2 * NS_PER_S);
    ended_tasks_destroy(ended);
}

/* Those that ended last are known, nearly all of them, and nobody else is. */
TEST(many_push_out_the_older_ones_and_are_not_mistaken_for_others)
{
    enum { ALL = 4 * ENDED_TASKS_MAX, LAST = ENDED_TASKS_MAX / 8 };
    int64_t age_ns = 0;
    unsigned found = 0;
    char jid[32];
    struct ended_tasks *ended = ended_tasks_create(7);
    for (unsigned i = 0; i < ALL; i++) {
        snprintf(jid, sizeof jid, "ended%u", i);
        ended_tasks_note(ended, jid, start);
        snprintf(jid, sizeof jid, "other%u", i);
        assert_false(ended_tasks_find(ended, jid, start, &age_ns));
    }
    for (unsigned i = ALL - LAST; i < ALL; i++) {
        snprintf(jid, sizeof jid, "ended%u", i);
        found += ended_tasks_find(ended, jid, start, &age_ns);
    }
    assert_true(found > LAST * 85 / 100);
    ended_tasks_destroy(ended);
}

RUN_TESTS
