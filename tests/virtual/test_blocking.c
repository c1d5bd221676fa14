/* The blocking client: many threads, one loop thread behind them, real servers. */
#include "tests/support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/client_fixture.h"

enum { THREADS = 16, RESOURCES = 3, ROUNDS = 20 };

static struct redlock_terms terms;

static int set_up(void **state)
{
    terms = quick_terms(10000, 3);
    return client_set_up(state);
}

static enum redlock_answer acquire(const char *resource, struct redlock_held **held)
{
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = "thread"};
    return redlock_client_acquire(client, &terms, &request, held, reason, sizeof reason);
}

/* --- one thread ------------------------------------------------------------------------------------------------- */

TEST(acquire_and_release_leave_no_key)
{
    struct redlock_held *held = NULL;
    assert_int_equal(acquire("r", &held), REDLOCK_ACQUIRED);
    assert_non_null(held);
    test_await(lock_cluster_holders(&cluster, "lock:r") >= QUORUM); /* a node that is asked too late grants nothing */
    int64_t left = redlock_held_valid_for_ms(held);
    assert_true(left > 0 && left < terms.ttl_ms);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
    test_await(lock_cluster_keys(&cluster) == 0);
}

TEST(who_comes_second_is_told_busy_with_a_reason)
{
    struct redlock_held *first = NULL, *second = NULL;
    assert_int_equal(acquire("r", &first), REDLOCK_ACQUIRED);
    assert_int_equal(acquire("r", &second), REDLOCK_BUSY);
    assert_null(second);
    assert_contains(reason, "held by thread for ");
    assert_int_equal(redlock_client_release(first, REDLOCK_AWAIT), REDLOCK_RELEASED);
}

TEST(requests_and_terms_outside_the_limits_are_invalid)
{
    struct redlock_held *held = NULL;
    assert_int_equal(acquire("", &held), REDLOCK_INVALID);
    assert_null(held);
    assert_contains(reason, "resource 1 has no name");
    terms.ttl_ms = 100;
    assert_int_equal(acquire("r", &held), REDLOCK_INVALID);
    assert_contains(reason, "ttl must be from 500 ms to 60 s");
    terms = (struct redlock_terms){.ttl_ms = 0}; /* the defaults are good */
    assert_int_equal(acquire("r", &held), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
}

TEST(options_that_make_no_redlock_are_refused)
{
    struct redlock_node twice[] = {cluster.nodes[0], cluster.nodes[1], cluster.nodes[0]};
    struct redlock_options options = {.nodes = twice, .node_count = 3};
    assert_null(redlock_client_open(&options, reason, sizeof reason));
    assert_contains(reason, "same server");
    options.node_count = 2;
    assert_null(redlock_client_open(&options, reason, sizeof reason));
    assert_contains(reason, "must be odd");
    options.node_count = 0;
    assert_null(redlock_client_open(&options, reason, sizeof reason));
    assert_contains(reason, "0 lock nodes: use 3 or 5");
}

TEST(a_held_lock_is_extended_behind_its_holder)
{
    struct redlock_counters counters;
    struct redlock_held *held = NULL;
    assert_int_equal(acquire("r", &held), REDLOCK_ACQUIRED);
    do {
        redlock_client_counters(client, &counters);
        assert_true(redlock_held_valid_for_ms(held) > 0);
        poll(NULL, 0, 5);
    } while (counters.extensions < 6);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
}

TEST(the_holder_sees_that_a_majority_hangs)
{
    struct redlock_held *held = NULL;
    assert_int_equal(acquire("r", &held), REDLOCK_ACQUIRED);
    pause_first(QUORUM);
    assert_true(redlock_held_valid_for_ms(held) < terms.ttl_ms);
    test_await(redlock_held_valid_for_ms(held) == 0);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_UNKNOWN);
    resume_first(QUORUM);
}

TEST(without_a_majority_nobody_blocks)
{
    struct redlock_held *held = NULL;
    kill_first(NODES);
    assert_int_equal(acquire("r", &held), REDLOCK_NO_QUORUM);
    assert_null(held);
    struct redlock_client *late = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(late); /* a node that is down is no error */
    redlock_client_close(late);
}

/* --- many threads ----------------------------------------------------------------------------------------------- */

/* What the locks protect: plain numbers, read and written in two steps. */
static volatile unsigned totals[RESOURCES];
static _Atomic unsigned failures;

static void *hammer(void *argument)
{
    unsigned noise = (unsigned)(uintptr_t)argument * 2654435761u + 1u;
    struct redlock_terms patient = quick_terms(10000, 1000);
    patient.retry_delay_ms = 20; /* a holder that gets no processor for seconds is waited for */
    for (unsigned i = 0; i < ROUNDS; i++) {
        char name[16], why[256];
        unsigned which = (i + noise) % RESOURCES;
        snprintf(name, sizeof name, "total%u", which);
        const char *resource = name;
        struct redlock_request request = {.resources = &resource, .resource_count = 1};
        struct redlock_held *held = NULL;
        if (redlock_client_acquire(client, &patient, &request, &held, why, sizeof why) != REDLOCK_ACQUIRED) {
            failures++;
            continue;
        }
        unsigned before = totals[which];
        sched_yield();
        totals[which] = before + 1;
        redlock_client_release(held, (i + noise) % 2 ? REDLOCK_AWAIT : REDLOCK_BACKGROUND);
    }
    return NULL;
}

TEST(numbers_under_locks_of_many_threads_are_exact)
{
    pthread_t threads[THREADS];
    memset((void *)totals, 0, sizeof totals);
    failures = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(totals[0] + totals[1] + totals[2], THREADS * ROUNDS);
    test_await(lock_cluster_keys(&cluster) == 0);
}

/* --- readers and writers ------------------------------------------------------------------------------------------ */

static atomic_uint readers_inside, readers_met, writers_inside;

/* Every fourth thread writes. */
static void *read_or_write(void *argument)
{
    bool writes = (uintptr_t)argument % 4 == 0;
    const char *resource = "r";
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .shared = !writes};
    struct redlock_terms patient = terms;
    patient.wait_ms = 60000;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct redlock_held *held = NULL;
        char why[256];
        if (redlock_client_acquire(client, &patient, &request, &held, why, sizeof why) != REDLOCK_ACQUIRED)
            return "not acquired";
        atomic_uint *inside = writes ? &writers_inside : &readers_inside;
        unsigned others = atomic_fetch_add(inside, 1);
        if (atomic_load(&writers_inside) != writes || (writes && (others > 0 || atomic_load(&readers_inside) > 0)))
            return "a writer was not alone";
        if (!writes && others > 0)
            atomic_fetch_add(&readers_met, 1);
        if (!redlock_held_verify(held)) /* meanwhile others come */
            return "lost";
        atomic_fetch_sub(inside, 1);
        redlock_client_release(held, REDLOCK_AWAIT);
    }
    return NULL;
}

TEST(threads_that_write_are_alone_and_those_that_read_are_not)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_or_write, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *why = NULL;
        pthread_join(threads[i], &why);
        if (why != NULL)
            fail_msg("%s", (const char *)why);
    }
    assert_true(atomic_load(&readers_met) > 0);
    test_await(lock_cluster_keys(&cluster) == 0);
}

TEST(closing_waits_for_releases_in_the_background)
{
    struct redlock_held *held[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        char name[16];
        snprintf(name, sizeof name, "own%u", i);
        assert_int_equal(acquire(name, &held[i]), REDLOCK_ACQUIRED);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(redlock_client_release(held[i], REDLOCK_BACKGROUND), REDLOCK_RELEASED);
    redlock_client_close(client);
    assert_int_equal(lock_cluster_keys(&cluster), 0);
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
}

/* --- waiting ---------------------------------------------------------------------------------------------------- */

static enum redlock_answer waiting_answers[THREADS];

static void *wait_long(void *argument)
{
    const char *resource = "r";
    char why[256];
    struct redlock_terms patient = terms;
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = "waiting"};
    struct redlock_held *held = NULL;
    patient.wait_ms = 3600000;
    enum redlock_answer answer = redlock_client_acquire(client, &patient, &request, &held, why, sizeof why);
    if (answer == REDLOCK_ACQUIRED)
        redlock_client_release(held, REDLOCK_AWAIT);
    waiting_answers[(uintptr_t)argument] = answer;
    return NULL;
}

static unsigned locks_in_use(void)
{
    return client->group->locks_in_use;
}

/* All of them wait when this returns: a client may be closed only once nobody begins to use it. */
static void waiting_threads_start(pthread_t *threads)
{
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_long, (void *)i), 0);
    test_await(loop_look(locks_in_use) == THREADS);
}

TEST(closing_ends_all_who_wait)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < NODES; i++) /* somebody else has it, for longer than anybody would wait for this test */
        (void)lock_cluster_ask(&cluster, i, "SET lock:r somebody PX 3600000");
    waiting_threads_start(threads);
    redlock_client_close(client);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiting_answers[i], REDLOCK_CANCELLED);
    }
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
}

RUN_GROUP(patient_cluster_set_up, one_cluster_tear_down, set_up, client_tear_down)
