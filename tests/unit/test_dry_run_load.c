/* The generated load: the same from the same seed, by chance as it says, and complete tasks. */
#include "tests/support/test.h"

#include <math.h>

#include "base/hash.h"
#include "base/memory.h"
#include "tests/support/popularity_share.h"
#include "worker/dry_run/plan/load_generator.h"

static const struct wall_time NOW = {INT64_C(1795309201250000)};

static struct dry_run_plan plan;

static void set_up(void)
{
    plan_init(&plan);
    memcpy(plan.id, "0123456789ab", DRY_RUN_ID_BYTES);
    plan.seed = 42;
}

static void tear_down(void)
{
    plan_fini(&plan);
}

static void assert_near(double found, double wanted, double within)
{
    if (!(fabs(found - wanted) <= within))
        fail_msg("%.9g is not near %.9g", found, wanted);
}

/* Of so many tasks, all that they say; without the id of the run when `is_anonymous`. */
static uint64_t digest_of(const struct dry_run_plan *of, unsigned tasks, bool is_anonymous)
{
    struct load *load = load_create(of);
    uint64_t digest = 0;
    for (unsigned i = 0; i < tasks; i++) {
        struct load_task task;
        load_next(load, NOW, &task);
        int64_t numbers[] = {task.at_ns, load_hold_ns(of, &of->hold, task.jid, 0), load_fails(of, task.jid, 0)};
        digest = hash_bytes(digest, numbers, sizeof numbers);
        digest = hash_bytes(digest, task.jid + DRY_RUN_ID_BYTES, LOAD_JID_DIGITS - DRY_RUN_ID_BYTES);
        for (unsigned r = 0; r < task.resource_count; r++)
            digest = hash_bytes(digest, task.resources[r], strlen(task.resources[r]));
        if (!is_anonymous)
            digest = hash_bytes(digest, task.text.bytes, task.text.length);
    }
    load_destroy(load);
    return digest;
}

static void make_open(double rate)
{
    plan.arrivals = DRY_RUN_OPEN;
    plan.rate = rate;
    plan.failures = 0.1;
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005};
    plan.popularity = (struct popularity){.kind = POPULARITY_ZIPF, .count = 100, .exponent = 1.1};
    plan_complete(&plan);
}

TEST(the_same_plan_makes_the_same_load)
{
    make_open(200);
    uint64_t digest = digest_of(&plan, 5000, false);
    assert_true(digest_of(&plan, 5000, false) == digest);
    plan.seed = 43;
    assert_true(digest_of(&plan, 5000, true) != digest);
}

/* A later version must not make another load of an old seed: two reports would no longer be comparable. */
TEST(a_seed_makes_this_load_for_ever)
{
    make_open(200);
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 0.005}; /* libm rounds as it likes */
    struct load *load = load_create(&plan);
    struct load_task task;
    static const char *const jids[] = {"0123456789ab73c197ee840d", "0123456789abddafe8107c0d",
                                       "0123456789ab6f0324e6203c"};
    static const char *const resources[] = {"r2", "r11", "r14"};
    static const int64_t at_us[] = {894, 2187, 7713};
    for (unsigned i = 0; i < 3; i++) {
        load_next(load, NOW, &task);
        assert_string_equal(task.jid, jids[i]);
        assert_string_equal(task.resources[0], resources[i]);
        assert_int_equal(task.at_ns / 1000, at_us[i]);
    }
    load_destroy(load);
}

TEST(another_run_of_the_same_seed_has_other_jids_and_the_same_load)
{
    make_open(200);
    uint64_t digest = digest_of(&plan, 5000, true), complete = digest_of(&plan, 5000, false);
    memcpy(plan.id, "ffffffffffff", DRY_RUN_ID_BYTES);
    assert_true(digest_of(&plan, 5000, true) == digest);
    assert_true(digest_of(&plan, 5000, false) != complete);
}

TEST(threads_and_rate_change_neither_holds_nor_resources)
{
    make_open(200);
    struct dry_run_plan point;
    plan_at_point(&point, &plan, 64);
    assert_true(digest_of(&point, 1000, true) == digest_of(&plan, 1000, true));
    point.arrivals = DRY_RUN_CLOSED;
    struct load *open = load_create(&plan), *closed = load_create(&point);
    for (int i = 0; i < 1000; i++) {
        struct load_task a, b;
        load_next(open, NOW, &a);
        load_next(closed, NOW, &b);
        assert_string_equal(a.jid, b.jid);
        assert_string_equal(a.resources[0], b.resources[0]);
        assert_int_equal(b.at_ns, 0);
        assert_int_equal(load_due_ns(closed), 0);
    }
    load_destroy(open);
    load_destroy(closed);
    plan_fini(&point);
}

/* Gaps of a Poisson process have the mean 1/rate, and their deviation is as large; one in e is longer than the mean. */
TEST(open_arrivals_are_a_poisson_process)
{
    enum { TASKS = 100000 };
    make_open(200);
    struct load *load = load_create(&plan);
    double sum = 0, squares = 0;
    int64_t before = 0;
    int longer = 0;
    for (int i = 0; i < TASKS; i++) {
        struct load_task task;
        int64_t due = load_due_ns(load);
        load_next(load, NOW, &task);
        assert_int_equal(task.at_ns, due);
        assert_true(task.at_ns >= before);
        double gap = (double)(task.at_ns - before) / 1e9;
        before = task.at_ns;
        sum += gap;
        squares += gap * gap;
        longer += gap > 0.005;
    }
    load_destroy(load);
    assert_near(sum / TASKS, 0.005, 0.005 * 0.015);
    assert_near(squares / TASKS, 2 * 0.005 * 0.005, 2 * 0.005 * 0.005 * 0.03);
    assert_near(longer / (double)TASKS, exp(-1), 0.006);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

TEST(a_task_is_complete)
{
    plan.resources_per_task = 3;
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "transfer");
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    struct load_task task;
    load_next(load, NOW, &task);
    load_next(load, NOW, &task);
    struct envelope envelope = {0};
    struct error error = ERROR_NONE;
    if (!envelope_parse(&envelope, task.text.bytes, task.text.length, &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s", error.text);
    assert_string_equal(envelope.class_name, "transfer");
    assert_string_equal(envelope.queue, "default");
    assert_string_equal(envelope.jid, task.jid);
    assert_memory_equal(envelope.args.bytes, "[1]", 3);
    assert_int_equal(envelope.created_at.us, NOW.us);
    assert_int_equal(envelope.enqueued_at.us, NOW.us);
    assert_int_equal(envelope.resource_count, 3);
    assert_int_equal(task.resource_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        bool is_there = false;
        for (unsigned j = 0; j < 3; j++)
            is_there |= strcmp(task.resources[j], envelope.resources[i]) == 0;
        assert_true(is_there);
    }
    envelope_fini(&envelope);
    load_destroy(load);
}

TEST(names_of_resources_are_escaped)
{
    popularity_weigh(&plan.popularity, &(struct popular){"a \"b\"\n\\", 1}, 1);
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    struct load_task task;
    load_next(load, NOW, &task);
    struct envelope envelope = {0};
    assert_true(envelope_parse(&envelope, task.text.bytes, task.text.length, &ENVELOPE_LIMITS_DEFAULT, NULL));
    assert_string_equal(envelope.resources[0], "a \"b\"\n\\");
    envelope_fini(&envelope);
    load_destroy(load);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, LOAD_JID_DIGITS);
}

TEST(no_two_jids_are_alike)
{
    enum { TASKS = 200000 };
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    char *jids = memory_zeroed(TASKS, LOAD_JID_DIGITS);
    for (size_t i = 0; i < TASKS; i++) {
        struct load_task task;
        load_next(load, NOW, &task);
        assert_int_equal(strlen(task.jid), LOAD_JID_DIGITS);
        assert_int_equal(strspn(task.jid, "0123456789abcdef"), LOAD_JID_DIGITS);
        assert_memory_equal(task.jid, plan.id, DRY_RUN_ID_BYTES);
        memcpy(jids + i * LOAD_JID_DIGITS, task.jid, LOAD_JID_DIGITS);
    }
    load_destroy(load);
    qsort(jids, TASKS, LOAD_JID_DIGITS, by_bytes);
    for (size_t i = 1; i < TASKS; i++)
        assert_true(memcmp(jids + (i - 1) * LOAD_JID_DIGITS, jids + i * LOAD_JID_DIGITS, LOAD_JID_DIGITS) != 0);
    free(jids);
}

TEST(resources_of_a_task_are_different_and_drawn_by_popularity)
{
    enum { TASKS = 100000 };
    plan.popularity = (struct popularity){.kind = POPULARITY_ZIPF, .count = 20, .exponent = 1.5};
    plan.resources_per_task = 2;
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    unsigned first[20] = {0};
    for (int i = 0; i < TASKS; i++) {
        struct load_task task;
        load_next(load, NOW, &task);
        assert_string_not_equal(task.resources[0], task.resources[1]);
        first[strtol(task.resources[0] + 1, NULL, 10)]++;
    }
    load_destroy(load);
    for (unsigned i = 0; i < 20; i++) {
        double share = popularity_share(&plan.popularity, i);
        assert_near(first[i] / (double)TASKS, share, 5 * sqrt(share / TASKS));
    }
}

/* Of 1,000 the second is a neighbour of the first twice in a thousand tasks. */
TEST(resources_of_a_task_do_not_follow_from_each_other)
{
    plan.popularity.count = 1000;
    plan.resources_per_task = 2;
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    int neighbours = 0;
    for (int i = 0; i < 10000; i++) {
        struct load_task task;
        load_next(load, NOW, &task);
        neighbours += labs(strtol(task.resources[0] + 1, NULL, 10) - strtol(task.resources[1] + 1, NULL, 10)) == 1;
    }
    load_destroy(load);
    assert_in_range(neighbours, 1, 60);
}

TEST(all_resources_at_once_is_all_of_them)
{
    plan.popularity = (struct popularity){.kind = POPULARITY_ZIPF, .count = 16, .exponent = 30};
    plan.resources_per_task = 16;
    plan_complete(&plan);
    struct load *load = load_create(&plan);
    for (int i = 0; i < 100; i++) {
        struct load_task task;
        load_next(load, NOW, &task);
        unsigned seen = 0;
        for (unsigned r = 0; r < task.resource_count; r++)
            seen |= 1U << strtol(task.resources[r] + 1, NULL, 10);
        assert_int_equal(seen, 0xffff);
    }
    load_destroy(load);
}

/* --- draws -------------------------------------------------------------------------------------------------------- */

/* Chi-square of so many draws in 100 bins, 99 degrees of freedom: beyond 160 lies one in 10,000. */
static double chi_square(const unsigned *found, double total)
{
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += (found[i] - total / 100) * (found[i] - total / 100) / (total / 100);
    return sum;
}

TEST(draws_are_uniform)
{
    enum { TASKS = 100000 };
    static const enum load_lot lots[] = {LOAD_HOLD, LOAD_FAILURE};
    plan_complete(&plan);
    for (size_t lot = 0; lot < 2; lot++)
        for (unsigned attempt = 0; attempt < 2; attempt++) {
            struct load *load = load_create(&plan);
            unsigned found[100] = {0}, counted[100] = {0};
            for (int i = 0; i < TASKS; i++) {
                struct load_task task;
                load_next(load, NOW, &task);
                double draw = load_draw(&plan, task.jid, attempt, lots[lot]);
                assert_true(draw >= 0 && draw < 1);
                found[(int)(draw * 100)]++;
                /* Jids in sequence, as other producers may write them. */
                char jid[32];
                snprintf(jid, sizeof jid, "%024d", i);
                counted[(int)(load_draw(&plan, jid, attempt, lots[lot]) * 100)]++;
            }
            load_destroy(load);
            assert_true(chi_square(found, TASKS) < 160);
            assert_true(chi_square(counted, TASKS) < 160);
        }
}

/* Neighbours, purposes, tries and seeds know nothing of each other. */
TEST(draws_are_independent)
{
    enum { TASKS = 100000 };
    double products[4] = {0}, before = 0.5;
    struct dry_run_plan other = plan;
    other.seed = plan.seed + 1;
    for (int i = 0; i < TASKS; i++) {
        char jid[32];
        snprintf(jid, sizeof jid, "%024d", i);
        double draw = load_draw(&plan, jid, 0, LOAD_HOLD) - 0.5;
        products[0] += draw * (before - 0.5);
        products[1] += draw * (load_draw(&plan, jid, 0, LOAD_FAILURE) - 0.5);
        products[2] += draw * (load_draw(&plan, jid, 1, LOAD_HOLD) - 0.5);
        products[3] += draw * (load_draw(&other, jid, 0, LOAD_HOLD) - 0.5);
        before = draw + 0.5;
    }
    for (int i = 0; i < 4; i++) /* the deviation of a mean of products is 1/12/sqrt(TASKS) */
        assert_near(products[i] / TASKS, 0, 5.0 / 12 / sqrt(TASKS));
}

TEST(holds_follow_the_distribution_and_the_speed)
{
    enum { TASKS = 50000 };
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005};
    double sum = 0;
    for (int i = 0; i < TASKS; i++) {
        char jid[32];
        snprintf(jid, sizeof jid, "%d", i);
        sum += (double)load_hold_ns(&plan, &plan.hold, jid, 0);
    }
    assert_near(sum / TASKS, 5e6, 5e6 * 0.02);
    plan.hold = (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 0.005};
    plan.speed = 4;
    assert_int_equal(load_hold_ns(&plan, &plan.hold, "any", 0), 1250000);
}

TEST(so_many_fail_as_the_plan_says)
{
    enum { TASKS = 50000 };
    static const double shares[] = {0, 0.05, 1};
    for (size_t s = 0; s < 3; s++) {
        int failed = 0, again = 0;
        plan.failures = shares[s];
        for (int i = 0; i < TASKS; i++) {
            char jid[32];
            snprintf(jid, sizeof jid, "%d", i);
            bool fails = load_fails(&plan, jid, 0);
            failed += fails;
            again += fails && load_fails(&plan, jid, 1);
        }
        assert_near(failed / (double)TASKS, shares[s], 0.005);
        assert_near(again / (double)TASKS, shares[s] * shares[s], 0.005); /* a second try is drawn anew */
    }
}

RUN_TESTS_BETWEEN(set_up, tear_down)
