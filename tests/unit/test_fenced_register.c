/* The judge of the tests with hosts: what it must find, it finds, and what is right it leaves alone. */
#include "tests/support/test.h"

#include "tests/support/fenced_register.h"

static struct fenced_register *all;

static int create(void **state)
{
    (void)state;
    all = fenced_register_create();
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    fenced_register_destroy(all);
    return 0;
}

static struct fenced_verdict judge(void)
{
    return fenced_register_judge(all, NULL);
}

struct reader {
    const char *jid;
    uint64_t token, fenced, plain;
};

static enum fenced_answer reads(struct reader *reader)
{
    reader->plain = plain_register_read(all, "r");
    return fenced_register_read(all, "r", reader->token, &reader->fenced);
}

/* What became of it at the fence. */
static enum fenced_answer writes(const struct reader *reader)
{
    plain_register_write(all, "r", reader->token, reader->jid, reader->plain + 1);
    return fenced_register_write(all, "r", reader->token, reader->jid, reader->fenced + 1);
}

static void tasks_one_after_the_other_are_counted_by_both(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        char jid[] = {'k', (char)('0' + i), '\0'};
        struct reader reader = {jid, 10 + i, 0, 0};
        assert_int_equal(reads(&reader), FENCED_DONE);
        assert_int_equal(writes(&reader), FENCED_DONE);
    }
    struct fenced_verdict verdict = judge();
    assert_int_equal(verdict.resources, 1);
    assert_int_equal(verdict.applied, 5);
    assert_int_equal(verdict.miscounted + verdict.refused + verdict.stale + verdict.lost + verdict.repeated, 0);
    assert_int_equal(plain_register_read(all, "r"), 5);
}

/* The oldest argument against locks that expire. */
static void a_late_write_is_refused_by_the_fence_and_does_damage_without(void **state)
{
    (void)state;
    struct reader paused = {"k1", 10, 0, 0}, other = {"k2", 11, 0, 0};
    reads(&paused);
    reads(&other);
    assert_int_equal(writes(&other), FENCED_DONE);
    assert_int_equal(writes(&paused), FENCED_STALE);
    struct fenced_verdict verdict = judge();
    assert_int_equal(verdict.refused, 1);
    assert_int_equal(verdict.applied, 1);
    assert_int_equal(verdict.miscounted, 0);
    assert_int_equal(verdict.stale, 1);
    assert_int_equal(verdict.lost, 1);
}

/* Whoever reads has told its token before: nothing that is older can come in between. */
static void the_older_one_is_refused_even_when_it_writes_first(void **state)
{
    (void)state;
    struct reader paused = {"k1", 10, 0, 0}, other = {"k2", 11, 0, 0};
    reads(&paused);
    reads(&other);
    assert_int_equal(writes(&paused), FENCED_STALE);
    assert_int_equal(writes(&other), FENCED_DONE);
    struct fenced_verdict verdict = judge();
    assert_int_equal(verdict.miscounted, 0);
    assert_int_equal(verdict.applied, 1);
    assert_int_equal(verdict.stale, 0);
    assert_int_equal(verdict.lost, 1);
}

static void tokens_that_do_not_exclude_show_in_the_count(void **state)
{
    (void)state;
    struct reader one = {"k1", 10, 0, 0}, two = {"k2", 10, 0, 0};
    reads(&one);
    reads(&two);
    assert_int_equal(writes(&one), FENCED_DONE);
    assert_int_equal(writes(&two), FENCED_DONE);
    assert_int_equal(judge().applied, 2);
    assert_int_equal(judge().miscounted, 1);
}

static void a_task_that_runs_again_adds_nothing(void **state)
{
    (void)state;
    struct reader first = {"k1", 10, 0, 0}, again = {"k1", 11, 0, 0};
    reads(&first);
    writes(&first);
    reads(&again);
    assert_int_equal(writes(&again), FENCED_REPEATED);
    struct fenced_verdict verdict = judge();
    assert_int_equal(verdict.applied, 1);
    assert_int_equal(verdict.repeated, 2);
    assert_int_equal(verdict.miscounted + verdict.lost, 0);
}

static void without_a_token_nothing_passes(void **state)
{
    (void)state;
    struct reader reader = {"k1", 0, 0, 0};
    assert_int_equal(reads(&reader), FENCED_STALE);
    assert_int_equal(writes(&reader), FENCED_STALE);
    fenced_register_held(all, "r", 0, "k1", 1, 2);
    assert_int_equal(judge().unfenced, 1);
    assert_int_equal(judge().refused, 0);
    assert_int_equal(judge().applied, 0);
}

/* --- certainty ---------------------------------------------------------------------------------------------------- */

static void who_is_certain_at_once_overlaps(void **state)
{
    (void)state;
    fenced_register_held(all, "r", 10, "k1", 100, 200);
    fenced_register_held(all, "r", 11, "k2", 201, 300);
    fenced_register_held(all, "s", 9, "k3", 150, 250);
    assert_int_equal(judge().overlaps, 0);
    fenced_register_held(all, "r", 12, "k4", 300, 400);
    assert_int_equal(judge().overlaps, 1);
    fenced_register_held(all, "r", 13, "k5", 110, 120);
    assert_int_equal(judge().overlaps, 2);
    assert_int_equal(judge().disorder, 2); /* its token is larger than those of two who came later */
    assert_int_equal(judge().holds, 5);
}

static void who_never_was_certain_overlaps_with_nobody(void **state)
{
    (void)state;
    fenced_register_held(all, "r", 10, "k1", 100, 200);
    fenced_register_held(all, "r", 10, "k2", 150, 149);
    assert_int_equal(judge().overlaps + judge().disorder, 0);
}

static void a_later_run_needs_a_larger_token(void **state)
{
    (void)state;
    fenced_register_held(all, "r", 10, "k1", 100, 200);
    fenced_register_held(all, "r", 10, "k2", 201, 300);
    assert_int_equal(judge().disorder, 1);
    fenced_register_held(all, "r", 11, "k3", 301, 400);
    assert_int_equal(judge().disorder, 1);
}

#define register_test(function) cmocka_unit_test_setup_teardown(function, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        register_test(tasks_one_after_the_other_are_counted_by_both),
        register_test(a_late_write_is_refused_by_the_fence_and_does_damage_without),
        register_test(the_older_one_is_refused_even_when_it_writes_first),
        register_test(tokens_that_do_not_exclude_show_in_the_count),
        register_test(a_task_that_runs_again_adds_nothing),
        register_test(without_a_token_nothing_passes),
        register_test(who_is_certain_at_once_overlaps),
        register_test(who_never_was_certain_overlaps_with_nobody),
        register_test(a_later_run_needs_a_larger_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
