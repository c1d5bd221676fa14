/* What a process knows about the lists of those who wait. */
#include "tests/support/test.h"

#include "worker/locks/contention.h"

static struct instant at(int64_t ms)
{
    return (struct instant){ms * NS_PER_MS};
}

static struct contention *table;

static void set_up(void)
{
    table = contention_create(7);
}

static void tear_down(void)
{
    contention_destroy(table);
}

TEST(what_is_taken_here_is_counted_exactly)
{
    assert_int_equal(contention_taken(table, "resource:a"), 0);
    contention_take(table, "resource:a");
    contention_take(table, "resource:a");
    contention_take(table, "class:a");
    assert_int_equal(contention_taken(table, "resource:a"), 2);
    contention_leave(table, "resource:a");
    assert_int_equal(contention_taken(table, "resource:a"), 1);
    contention_leave(table, "resource:a");
    assert_int_equal(contention_taken(table, "resource:a"), 0);
    assert_int_equal(contention_taken(table, "class:a"), 1);
}

TEST(what_is_held_elsewhere_is_believed_for_its_time)
{
    struct contention_held held = {0};
    contention_note_held(table, "resource:a", at(100), (struct contention_held){.seen_us = 42, .free_at = at(5000)});
    assert_true(contention_is_held(table, "resource:a", at(99), &held));
    assert_int_equal(held.seen_us, 42);
    assert_true(held.free_at.ns == at(5000).ns);
    assert_false(contention_is_held(table, "resource:a", at(100), &held));
    contention_note_held(table, "resource:a", at(200), (struct contention_held){.seen_us = 43, .free_at = at(5000)});
    contention_forget_held(table, "resource:a");
    assert_false(contention_is_held(table, "resource:a", at(150), &held));
    assert_false(contention_is_held(table, "resource:b", at(0), &held));
}

TEST(waiters_are_believed_in_for_a_while)
{
    int64_t end = CONTENTION_MEMORY_NS / NS_PER_MS;
    contention_note_waiters(table, "resource:a", true, at(0));
    assert_true(contention_has_waiters(table, "resource:a", at(end - 1)));
    assert_false(contention_has_waiters(table, "resource:a", at(end)));
    contention_note_waiters(table, "resource:a", true, at(end));
    contention_note_waiters(table, "resource:a", false, at(end));
    assert_false(contention_has_waiters(table, "resource:a", at(end)));
    contention_note_waiters(table, "resource:never", false, at(end));
    assert_false(contention_has_waiters(table, "resource:never", at(end)));
}

/* Producers choose the names. */
TEST(cached_is_bounded_and_what_is_taken_is_not_forgotten)
{
    struct contention_held held = {0};
    char name[64];
    contention_take(table, "resource:0");
    for (int i = 0; i < 3 * CONTENTION_CACHED_MAX; i++) {
        snprintf(name, sizeof name, "resource:%d", i);
        contention_note_held(table, name, at(100), (struct contention_held){.seen_us = i, .free_at = at(5000)});
    }
    assert_int_equal(contention_taken(table, "resource:0"), 1);
    assert_false(contention_is_held(table, "resource:0", at(0), &held)); /* the oldest the cache went first */
    assert_true(contention_is_held(table, name, at(0), &held));
    snprintf(name, sizeof name, "resource:%d", 2 * CONTENTION_CACHED_MAX);
    assert_true(contention_is_held(table, name, at(0), &held));
    snprintf(name, sizeof name, "resource:%d", 2 * CONTENTION_CACHED_MAX - 1);
    assert_false(contention_is_held(table, name, at(0), &held));
    snprintf(name, sizeof name, "resource:%d", 3 * CONTENTION_CACHED_MAX - 1);
    contention_note_held(table, name, at(100), (struct contention_held){0}); /* which was the last one already */
    snprintf(name, sizeof name, "resource:%d", 2 * CONTENTION_CACHED_MAX);
    assert_true(contention_is_held(table, name, at(0), &held));
    contention_leave(table, "resource:0");
}

/* What is known of a list, as a plain array would have it. */
struct known {
    char name[100];
    unsigned taken;
    int64_t held_ms, seen_us, waiters_ms;
};

enum { KNOWN = 3000, STEPS = 60000 };

static void known_check(const struct known *known, int64_t now_ms)
{
    struct contention_held held = {0};
    assert_int_equal(contention_taken(table, known->name), known->taken);
    bool is_held = contention_is_held(table, known->name, at(now_ms), &held);
    assert_int_equal(is_held, now_ms < known->held_ms);
    if (is_held)
        assert_int_equal(held.seen_us, known->seen_us);
    assert_int_equal(contention_has_waiters(table, known->name, at(now_ms)), now_ms < known->waiters_ms);
}

static void known_change(struct known *known, unsigned what, int64_t now_ms)
{
    if (what == 0) {
        known->held_ms = now_ms + 500;
        known->seen_us = now_ms;
        contention_note_held(table, known->name, at(known->held_ms), (struct contention_held){.seen_us = now_ms});
    } else if (what == 1) {
        known->held_ms = 0;
        contention_forget_held(table, known->name);
    } else if (what == 2 || what == 3) {
        known->waiters_ms = what == 2 ? now_ms + CONTENTION_MEMORY_NS / NS_PER_MS : 0;
        contention_note_waiters(table, known->name, what == 2, at(now_ms));
    } else if (what == 4 && known->taken > 0) {
        known->taken--;
        contention_leave(table, known->name);
    } else {
        known->taken++;
        contention_take(table, known->name);
    }
}

/* More lists than there are buckets, some of long names, and fewer than the cache keeps. */
TEST(each_list_has_what_was_noted_of_it)
{
    static struct known known[KNOWN];
    uint32_t dice = 1;
    for (unsigned i = 0; i < KNOWN; i++)
        known[i] = (struct known){0};
    for (unsigned i = 0; i < KNOWN; i++)
        snprintf(known[i].name, sizeof known[i].name, "resource:%0*u", i % 2 == 0 ? 1 : 50 + (int)(i % 30), i);
    for (int64_t step = 0; step < STEPS; step++) {
        dice = dice * 1664525 + 1013904223;
        struct known *one = &known[(dice >> 8) % KNOWN];
        known_change(one, (dice >> 20) % 6, step / 10);
        known_check(one, step / 10);
        known_check(&known[step % KNOWN], step / 10);
    }
    for (unsigned i = 0; i < KNOWN; i++)
        for (; known[i].taken > 0; known[i].taken--)
            contention_leave(table, known[i].name);
    for (unsigned i = 0; i < KNOWN; i++)
        known_check(&known[i], STEPS / 10);
}

TEST(lists_are_named_in_the_order_of_the_locks)
{
    struct waiting_names names = {0}, same = {0}, other = {0};
    char set[DIGEST_TEXT_SIZE], same_set[DIGEST_TEXT_SIZE], other_set[DIGEST_TEXT_SIZE];
    waiting_names_set(&names, (const char *const[]){"b", "a", "b"}, 3, "mail", false);
    waiting_names_set(&same, (const char *const[]){"a", "b"}, 2, "mail", false);
    waiting_names_set(&other, (const char *const[]){"a", "b"}, 2, NULL, false); /* of a class with all runners */
    assert_int_equal(names.count, 3);
    assert_int_equal(names.resource_count, 2);
    assert_string_equal(names.names[0], "resource:a");
    assert_string_equal(names.names[1], "resource:b");
    assert_string_equal(waiting_names_class(&names), "class:mail");
    assert_null(waiting_names_class(&other));
    assert_string_equal(waiting_names_resource(names.names[1]), "b");
    assert_string_equal(waiting_names_resource("class:mail"), "class:mail");
    waiting_names_digest(&names, set);
    waiting_names_digest(&same, same_set);
    waiting_names_digest(&other, other_set);
    assert_string_equal(set, same_set);
    assert_string_not_equal(set, other_set);
    waiting_names_set(&same, (const char *const[]){"ab"}, 1, NULL, false);
    waiting_names_digest(&same, same_set);
    assert_string_not_equal(other_set, same_set);
    waiting_names_set(&same, (const char *const[]){"a:b"}, 1, "mail", true); /* several may hold it */
    assert_string_equal(same.names[0], "seats:a:b");
    assert_string_equal(waiting_names_class(&same), "class:mail");
    assert_string_equal(waiting_names_resource(same.names[0]), "a:b");
    waiting_names_clear(&names);
    assert_int_equal(names.count, 0);
    assert_int_equal(names.text.length, 0);
    assert_null(waiting_names_class(&names));
    waiting_names_fini(&names);
    waiting_names_fini(&same);
    waiting_names_fini(&other);
}

TEST(as_many_lists_as_there_can_be)
{
    struct waiting_names names = {0};
    char texts[REDLOCK_RESOURCES_MAX][8];
    const char *resources[REDLOCK_RESOURCES_MAX];
    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "%03u", i);
        resources[i] = texts[i];
    }
    waiting_names_set(&names, resources, REDLOCK_RESOURCES_MAX, "mail", false);
    assert_int_equal(names.count, WAITING_NAMES_MAX);
    assert_string_equal(names.names[0], "resource:000");
    assert_string_equal(waiting_names_class(&names), "class:mail");
    waiting_names_fini(&names);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
