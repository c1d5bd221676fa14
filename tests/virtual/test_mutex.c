/* The mutex of libredlock: what a program does with it, and what it must not be able to do. When and for how long is in
 * test_mutex_time.c: here the clock may be real, and no thread need run in time. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/support/mutex_fixture.h"

enum { THREADS = 16, ROUNDS = 20, MANY = 10000 };

/* --- locking ------------------------------------------------------------------------------------------------------ */

TEST(it_needs_nothing_but_a_client_and_a_name)
{
    struct redlock_mutex mutex = {.client = client, .name = "r"}, other = {.client = client, .name = "r"};
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    test_await(lock_cluster_holders(&cluster, "lock:r") >= QUORUM); /* a node that is asked too late grants nothing */
    assert_true(redlock_mutex_token(&mutex) > 0);
    assert_true(redlock_mutex_valid_for_ms(&mutex) > 0);
    assert_false(redlock_mutex_in_danger(&mutex));
    assert_true(redlock_mutex_lost_fd(&mutex) >= 0);
    assert_int_equal(redlock_mutex_try_lock(&other), REDLOCK_BUSY);
    assert_contains(other.reason, "held by");
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    test_await(lock_cluster_keys(&cluster) == 0);
    assert_int_equal(redlock_mutex_try_lock(&other), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
}

TEST(several_names_are_locked_all_or_none)
{
    const char *names[] = {"b", "a", "b"}, *in_the_way[] = {"c", "a"};
    struct redlock_mutex mutex = mutex_of(NULL), other = mutex_of(NULL), third = mutex_of("c");
    mutex.names = names;
    mutex.name_count = 3;
    other.names = in_the_way;
    other.name_count = 2;
    lock(&mutex);
    assert_int_equal(redlock_mutex_try_lock(&other), REDLOCK_BUSY);
    lock(&third);
    assert_int_equal(redlock_mutex_unlock(&third), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(a_limit_lets_so_many_in)
{
    struct redlock_mutex mutexes[3] = {mutex_of("r"), mutex_of("r"), mutex_of("r")};
    for (unsigned i = 0; i < 3; i++)
        mutexes[i].limit = 2;
    lock(&mutexes[0]);
    lock(&mutexes[1]);
    assert_int_equal(redlock_mutex_seat(&mutexes[0]) + redlock_mutex_seat(&mutexes[1]), 3);
    assert_int_equal(redlock_mutex_try_lock(&mutexes[2]), REDLOCK_BUSY);
    assert_int_equal(redlock_mutex_seat(&mutexes[2]), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(redlock_mutex_unlock(&mutexes[i]), REDLOCK_RELEASED);
}

TEST(readers_share_a_name_and_a_writer_has_it_alone)
{
    struct redlock_mutex readers[2] = {mutex_of("r"), mutex_of("r")}, writer = mutex_of("r");
    readers[0].shared = readers[1].shared = true;
    lock(&readers[0]);
    lock(&readers[1]);
    assert_int_equal(redlock_mutex_try_lock(&writer), REDLOCK_BUSY);
    assert_int_equal(redlock_mutex_unlock(&readers[0]), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_try_lock(&writer), REDLOCK_BUSY);
    uint64_t read_under = redlock_mutex_token(&readers[1]);
    assert_int_equal(redlock_mutex_unlock(&readers[1]), REDLOCK_RELEASED);
    lock(&writer);
    assert_true(redlock_mutex_token(&writer) > read_under && read_under > 0);
    assert_int_equal(redlock_mutex_try_lock(&readers[0]), REDLOCK_BUSY);
    assert_int_equal(redlock_mutex_unlock(&writer), REDLOCK_RELEASED);
}

TEST(a_shared_mutex_has_no_limit)
{
    struct redlock_mutex mutex = mutex_of("r");
    mutex.shared = true;
    mutex.limit = 2;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "has no limit");
}

static volatile unsigned total;
static _Atomic unsigned failures;

static void *hammer(void *argument)
{
    (void)argument;
    struct redlock_mutex mutex = mutex_of("total");
    mutex.terms.wait_ms = 600000;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (redlock_mutex_lock(&mutex) != REDLOCK_ACQUIRED) {
            failures++;
            continue;
        }
        unsigned before = total;
        poll(NULL, 0, 1);
        total = before + 1;
        failures += redlock_mutex_unlock(&mutex) != REDLOCK_RELEASED;
    }
    return NULL;
}

static void threads_run(void *(*run)(void *), void *argument)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, argument), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST(a_number_under_the_mutexes_of_many_threads_is_exact)
{
    failures = 0;
    total = 0;
    threads_run(hammer, NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(total, THREADS * ROUNDS);
}

TEST(one_touch_at_a_time_is_enough_for_all_threads_of_an_owner)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of_owner("r", &owner);
    lock(&mutex);
    uint64_t before = counted().extensions;
    for (unsigned i = 0; i < 10; i++)
        assert_true(redlock_mutex_touch(&mutex));
    assert_true(counted().extensions >= before + 10);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

/* --- cancelling --------------------------------------------------------------------------------------------------- */

static void wait_and_cancel(struct redlock_mutex *mutex)
{
    pthread_t thread = locker_start(wait_long, mutex);
    poll(NULL, 0, 500);
    redlock_mutex_cancel(mutex);
    pthread_join(thread, NULL);
    assert_int_equal(waited, REDLOCK_CANCELLED);
    assert_contains(mutex->reason, "given up");
}

TEST(another_thread_can_cancel_an_attempt)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of("r"), other = mutex_of_owner("r", &owner);
    lock(&mutex);
    redlock_mutex_cancel(&other); /* there is none yet */
    other.terms.wait_ms = INT64_MAX;
    wait_and_cancel(&other); /* it waits for this process */
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    for (unsigned i = 0; i < NODES; i++)
        (void)lock_cluster_ask(&cluster, i, "SET lock:r somebody PX 3600000");
    wait_and_cancel(&other); /* for somebody else */
    other.terms.wait_ms = 0;
    other.terms.tries = 2;
    other.delay_ms = delay_of;
    other.context = delays;
    delays[1] = 3600000;
    wait_and_cancel(&other); /* for its own delay */
    for (unsigned i = 0; i < NODES; i++)
        (void)lock_cluster_ask(&cluster, i, "DEL lock:r");
    delays[1] = 0;
    assert_int_equal(redlock_mutex_lock(&other), REDLOCK_ACQUIRED);
    redlock_mutex_cancel(&other); /* it is decided */
    assert_true(redlock_mutex_touch(&other));
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
}

/* A call that locks, on a thread of its own. */
struct attempt {
    struct redlock_mutex mutex;
    pthread_t thread;
    enum redlock_answer answer;
    _Atomic bool has_ended;
};

static void *attempt_run(void *argument)
{
    struct attempt *attempt = argument;
    attempt->answer = redlock_mutex_lock(&attempt->mutex);
    attempt->has_ended = true;
    return NULL;
}

/* It waits when this returns. */
static void attempt_start(struct attempt *attempt)
{
    attempt->thread = locker_start(attempt_run, attempt);
    poll(NULL, 0, 500);
    assert_false(attempt->has_ended);
}

static void attempt_was_cancelled(struct attempt *attempt)
{
    pthread_join(attempt->thread, NULL);
    assert_int_equal(attempt->answer, REDLOCK_CANCELLED);
    assert_contains(attempt->mutex.reason, "given up");
}

static struct attempt attempt_with_delay(struct redlock_owner *owner)
{
    struct attempt attempt = {.mutex = mutex_of_owner("r", owner)};
    attempt.mutex.terms.tries = 2;
    attempt.mutex.delay_ms = delay_of;
    attempt.mutex.context = delays;
    delays[1] = 3600000;
    return attempt;
}

TEST(threads_of_an_owner_can_be_cancelled_at_once)
{
    struct redlock_owner owner = {0};
    struct attempt first = attempt_with_delay(&owner), second = {.mutex = mutex_of_owner("r", &owner)};
    second.mutex.terms.wait_ms = 60000;
    ask_first(NODES, "SET lock:r somebody PX 3600000");
    attempt_start(&first);
    attempt_start(&second); /* it waits for the first */
    redlock_mutex_cancel(&first.mutex);
    redlock_mutex_cancel(&second.mutex);
    attempt_was_cancelled(&first);
    attempt_was_cancelled(&second);
    ask_first(NODES, "DEL lock:r");
}

TEST(closing_the_client_cancels_all_attempts)
{
    struct redlock_owner owner = {0};
    struct attempt attempts[] = {
        {.mutex = mutex_of("r")},               /* waits for somebody else, */
        {.mutex = mutex_of("r")},               /* for another thread, */
        attempt_with_delay(&owner),             /* for its own delay, */
        {.mutex = mutex_of_owner("r", &owner)}, /* for another thread of its owner */
    };
    enum { COUNT = sizeof attempts / sizeof attempts[0] };
    ask_first(NODES, "SET lock:r somebody PX 3600000");
    for (unsigned i = 0; i < COUNT; i++) {
        if (attempts[i].mutex.delay_ms == NULL)
            attempts[i].mutex.terms.wait_ms = INT64_MAX;
        attempt_start(&attempts[i]);
    }
    redlock_client_close(client);
    for (unsigned i = 0; i < COUNT; i++)
        attempt_was_cancelled(&attempts[i]);
    ask_first(NODES, "DEL lock:r");
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
}

static void closing_set(bool is_closing)
{
    pthread_mutex_lock(&client->lock);
    client->is_closing = is_closing;
    pthread_mutex_unlock(&client->lock);
}

/* The nodes grant it after the client has begun to close, which its thread finds out afterwards. */
TEST(what_is_granted_to_a_client_that_closes_is_released)
{
    struct attempt attempt = {.mutex = mutex_of("r")};
    attempt.mutex.terms.wait_ms = INT64_MAX;
    ask_first(NODES, "SET lock:r somebody PX 3600000");
    attempt_start(&attempt);
    test_await(counted().attempts > 0);
    closing_set(true);
    ask_first(NODES, "DEL lock:r");
    attempt_was_cancelled(&attempt);
    assert_int_equal(counted().acquired, 1);
    test_await(lock_cluster_keys(&cluster) == 0);
    closing_set(false);
}

static void *close_client(void *argument)
{
    redlock_client_close(argument);
    return NULL;
}

static void lockers_count(unsigned change)
{
    pthread_mutex_lock(&client->lock);
    client->lockers += change;
    pthread_mutex_unlock(&client->lock);
}

static unsigned is_closing(void)
{
    return client->close_by.ns != 0;
}

/* A thread that looked just before the client began to close asks its loop when that no longer cancels anything. */
TEST(what_is_asked_of_a_client_that_closes_is_cancelled)
{
    const char *name = "r";
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    struct redlock_held *held = NULL;
    pthread_t closer;
    lockers_count(1); /* as that thread */
    assert_int_equal(pthread_create(&closer, NULL, close_client, client), 0);
    test_await(loop_look(is_closing));
    assert_int_equal(redlock_client_acquire(client, NULL, &request, &held, reason, sizeof reason), REDLOCK_CANCELLED);
    assert_contains(reason, "given up");
    lockers_count(-1u);
    pthread_join(closer, NULL);
    client = redlock_client_open(&cluster.options, reason, sizeof reason);
    assert_non_null(client);
}

/* --- owners ------------------------------------------------------------------------------------------------------- */

TEST(an_owner_enters_again_with_the_same_token)
{
    const char *names[] = {"a", "b"};
    struct redlock_owner owner = {.name = "nightly"};
    struct redlock_mutex both = mutex_of_owner(NULL, &owner), part = mutex_of_owner("b", &owner);
    both.names = names;
    both.name_count = 2;
    lock(&both);
    uint64_t attempts = counted().attempts;
    int64_t valid_until = redlock_mutex_valid_until_ms(&both);
    lock(&both);
    lock(&part);
    assert_int_equal(counted().attempts, attempts);
    assert_int_equal(redlock_mutex_token(&part), redlock_mutex_token(&both));
    assert_int_equal(redlock_mutex_valid_until_ms(&part), valid_until);
    assert_contains(lock_cluster_ask(&cluster, 0, "GET lock:b"), ":nightly");
    assert_int_equal(redlock_mutex_unlock(&both), REDLOCK_STILL_HELD);
    lock(&both); /* after an exit that was not the last */
    assert_int_equal(counted().attempts, attempts);
    assert_int_equal(redlock_mutex_unlock(&both), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&both), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&both), REDLOCK_NOT_HELD);
    assert_true(redlock_mutex_valid_for_ms(&part) > 0);
    assert_int_equal(redlock_mutex_unlock(&part), REDLOCK_RELEASED); /* the last exit, whoever it is */
    assert_int_equal(redlock_mutex_unlock(&part), REDLOCK_NOT_HELD);
    test_await(lock_cluster_keys(&cluster) == 0);
    lock(&part);
    assert_true(redlock_mutex_token(&part) > 0);
    assert_int_equal(redlock_mutex_unlock(&part), REDLOCK_RELEASED);
}

TEST(another_owner_waits)
{
    struct redlock_owner one = {0}, two = {0};
    struct redlock_mutex mutex = mutex_of_owner("r", &one), other = mutex_of_owner("r", &two), mine = mutex_of("r");
    lock(&mutex);
    assert_int_equal(redlock_mutex_try_lock(&other), REDLOCK_BUSY);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_NOT_HELD);
    assert_int_equal(redlock_mutex_try_lock(&mine), REDLOCK_BUSY);
    assert_true(redlock_mutex_touch(&mutex));
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    lock(&other);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
}

TEST(what_would_wait_for_itself_is_refused)
{
    const char *names[] = {"a", "b"};
    struct redlock_owner owner = {0};
    struct redlock_mutex one = mutex_of_owner("a", &owner), both = mutex_of_owner(NULL, &owner), mine = mutex_of("c");
    both.names = names;
    both.name_count = 2;
    lock(&one);
    assert_int_equal(redlock_mutex_lock(&both), REDLOCK_INVALID);
    assert_contains(both.reason, "would wait for itself");
    lock(&mine);
    assert_int_equal(redlock_mutex_lock(&mine), REDLOCK_INVALID);
    assert_contains(mine.reason, "locked already");
    assert_int_equal(redlock_mutex_unlock(&mine), REDLOCK_RELEASED);
    one.name = "other"; /* while it is locked */
    assert_int_equal(redlock_mutex_lock(&one), REDLOCK_INVALID);
    one.name = "a";
    assert_int_equal(redlock_mutex_unlock(&one), REDLOCK_RELEASED);
    lock(&both);
    assert_int_equal(redlock_mutex_unlock(&both), REDLOCK_RELEASED);
}

TEST(an_owner_that_reads_does_not_become_a_writer)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex reader = mutex_of_owner("a", &owner), writer = mutex_of_owner("a", &owner);
    reader.shared = true;
    lock(&reader);
    assert_int_equal(redlock_mutex_lock(&writer), REDLOCK_INVALID);
    assert_contains(writer.reason, "for reading");
    assert_int_equal(redlock_mutex_unlock(&reader), REDLOCK_RELEASED);
    lock(&writer);
    lock(&reader);
    assert_int_equal(redlock_mutex_token(&reader), redlock_mutex_token(&writer));
    assert_int_equal(redlock_mutex_unlock(&writer), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&reader), REDLOCK_RELEASED);
}

TEST(an_owner_enters_only_a_seat_that_it_may_have)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex other = mutex_of("r"), mutex = mutex_of_owner("r", &owner), again = mutex;
    lock(&other); /* it has the first seat */
    mutex.limit = 2;
    lock(&mutex);
    assert_int_equal(redlock_mutex_seat(&mutex), 2);
    assert_int_equal(redlock_mutex_lock(&again), REDLOCK_INVALID);
    assert_contains(again.reason, "a seat beyond");
    again.limit = 3;
    lock(&again);
    assert_int_equal(redlock_mutex_seat(&again), 2);
    assert_int_equal(redlock_mutex_unlock(&again), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
    mutex.limit = 0;
    lock(&mutex); /* what has no limit has the first seat */
    lock(&again);
    assert_int_equal(redlock_mutex_seat(&mutex), 0);
    assert_int_equal(redlock_mutex_seat(&again), 1);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&again), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_seat(&again), 0);
}

TEST(nobody_enters_after_danger)
{
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of_owner("r", &owner), again = mutex_of_owner("r", &owner);
    lock(&mutex);
    pause_first(QUORUM);
    test_await(redlock_mutex_in_danger(&mutex));
    assert_int_equal(redlock_mutex_lock(&again), REDLOCK_IN_DANGER);
    assert_contains(again.reason, "in danger or lost");
    test_await(redlock_mutex_valid_for_ms(&mutex) == 0);
    assert_int_equal(redlock_mutex_lock(&again), REDLOCK_IN_DANGER);
    resume_first(QUORUM);
    enum redlock_ending ending = redlock_mutex_unlock(&mutex); /* after loss */
    assert_true(ending == REDLOCK_RELEASED || ending == REDLOCK_EXPIRED || ending == REDLOCK_UNKNOWN);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_NOT_HELD);
    again.terms.wait_ms = 60000;
    lock(&again);
    assert_int_equal(redlock_mutex_unlock(&again), REDLOCK_RELEASED);
}

static struct redlock_owner shared_owner;

/* Every thread enters what the first of them has acquired, and the last one out releases. */
static void *enter_often(void *argument)
{
    (void)argument;
    struct redlock_mutex mutex = mutex_of_owner("r", &shared_owner);
    mutex.terms.wait_ms = 600000;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (redlock_mutex_lock(&mutex) != REDLOCK_ACQUIRED) {
            failures++;
            continue;
        }
        failures += redlock_mutex_valid_for_ms(&mutex) == 0;
        poll(NULL, 0, 1);
        failures += redlock_mutex_unlock(&mutex) == REDLOCK_NOT_HELD;
    }
    return NULL;
}

TEST(the_threads_of_an_owner_share_one_lock)
{
    failures = 0;
    uint64_t before = counted().acquired;
    threads_run(enter_often, NULL);
    assert_int_equal(failures, 0);
    assert_null(shared_owner.holds);
    assert_true(counted().acquired - before < THREADS * ROUNDS / 2);
    test_await(lock_cluster_keys(&cluster) == 0);
}

static void *try_now(void *argument)
{
    waited = redlock_mutex_try_lock(argument);
    return NULL;
}

TEST(an_attempt_of_the_owner_keeps_its_other_threads_waiting_for_as_long_as_they_want)
{
    pthread_t hasty;
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of("r"), first = mutex_of_owner("r", &owner), second = first;
    lock(&mutex);
    first.terms.wait_ms = INT64_MAX;
    pthread_t patient = locker_start(wait_long, &first);
    assert_int_equal(pthread_create(&hasty, NULL, try_now, &second), 0);
    pthread_join(hasty, NULL);
    assert_int_equal(waited, REDLOCK_BUSY);
    assert_contains(second.reason, "another thread of its owner");
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    pthread_join(patient, NULL);
    assert_int_equal(waited, REDLOCK_ACQUIRED);
    lock(&second);
    assert_int_equal(redlock_mutex_unlock(&first), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_mutex_unlock(&second), REDLOCK_RELEASED);
}

/* --- danger and loss ---------------------------------------------------------------------------------------------- */

TEST(a_callback_can_run_where_the_program_wants)
{
    struct told told = {0}, second = {0}, early = {.unlocks = true}, never = {0};
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of_owner("r", &owner), inner = mutex, other = mutex_of("s");
    struct redlock_mutex left = mutex_of("t");
    struct told *contexts[] = {&told, &second, &early, &never};
    struct redlock_mutex *all[] = {&mutex, &inner, &other, &left};
    for (unsigned i = 0; i < 4; i++) {
        all[i]->told = note;
        all[i]->is_dispatched = true;
        all[i]->context = contexts[i];
        all[i]->terms.ttl_ms = 60000; /* nobody is lost while it is unlocked without an answer */
        lock(all[i]);
    }
    struct pollfd poll_for = {.fd = redlock_client_news_fd(client), .events = POLLIN};
    assert_true(poll_for.fd >= 0);
    assert_int_equal(poll_for.fd, redlock_client_news_fd(client));
    assert_int_equal(poll(&poll_for, 1, 0), 0);
    assert_int_equal(redlock_client_dispatch(client), 0);
    pause_first(QUORUM);
    test_await(poll(&poll_for, 1, 0) == 1);
    for (unsigned i = 0; i < 4; i++)
        danger_await(all[i]);
    assert_int_equal(told.dangers, 0);
    redlock_mutex_unlock(&left);
    memset(&left, 0xff, sizeof left); /* nobody looks at it any more */
    assert_int_equal(redlock_client_dispatch(client), 3);
    assert_int_equal(told.dangers + second.dangers + early.dangers, 3);
    assert_int_equal(never.dangers, 0);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_NOT_HELD); /* its callback did that */
    assert_int_equal(poll(&poll_for, 1, 0), 0);
    loss_await(&mutex);
    redlock_mutex_unlock(&inner); /* before it is told of the loss */
    assert_int_equal(redlock_client_dispatch(client), 1);
    assert_int_equal(told.losses, 1);
    assert_int_equal(second.losses + early.losses, 0);
    resume_first(QUORUM);
    redlock_mutex_unlock(&mutex);
}

static pthread_t locking;
static _Atomic unsigned told_here, told_there;

static void note_thread(struct redlock_mutex *mutex, enum redlock_news news)
{
    (void)mutex;
    if (news == REDLOCK_NEWS_LOST)
        *(pthread_equal(pthread_self(), locking) ? &told_here : &told_there) += 1;
}

/* The lease is over before the thread that locks knows that it has it. */
TEST(a_callback_never_runs_on_the_thread_that_locks)
{
    struct redlock_mutex mutex = mutex_of("r");
    mutex.told = note_thread;
    locking = pthread_self();
    told_here = told_there = 0;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(redlock_mutex_try_lock_for(&mutex, 1000, 1), REDLOCK_ACQUIRED);
        test_await(told_here + told_there == i + 1);
        redlock_mutex_unlock(&mutex);
    }
    assert_int_equal(told_here, 0);
}

static _Atomic unsigned running, most_running, ended;
static _Atomic bool may_end;

static void note_slowly(struct redlock_mutex *mutex, enum redlock_news news)
{
    (void)mutex, (void)news;
    if (++running > most_running)
        most_running = running;
    test_await(may_end);
    running--;
    ended++;
}

static void *dispatch(void *calls)
{
    *(_Atomic unsigned *)calls = redlock_client_dispatch(client);
    return NULL;
}

TEST(a_mutex_is_told_one_thing_after_the_other)
{
    struct redlock_mutex mutex = mutex_of("r");
    _Atomic unsigned calls = 0;
    pthread_t thread;
    running = most_running = ended = 0;
    may_end = false;
    mutex.told = note_slowly;
    mutex.is_dispatched = true;
    lock(&mutex);
    pause_first(QUORUM);
    test_await(redlock_mutex_in_danger(&mutex));
    struct pollfd poll_for = {.fd = redlock_client_news_fd(client), .events = POLLIN};
    test_await(poll(&poll_for, 1, 0) == 1);
    assert_int_equal(pthread_create(&thread, NULL, dispatch, (void *)&calls), 0);
    test_await(running == 1);
    loss_await(&mutex);
    may_end = true; /* for us, if we are told while that one still is */
    assert_int_equal(redlock_client_dispatch(client), 0);
    pthread_join(thread, NULL);
    assert_int_equal(calls, 2);
    assert_int_equal(most_running, 1);
    resume_first(QUORUM);
    redlock_mutex_unlock(&mutex);
}

/* --- bad input ---------------------------------------------------------------------------------------------------- */

static void refused(const char *name, const char *why)
{
    struct redlock_mutex mutex = mutex_of(name);
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, why);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_NOT_HELD);
}

TEST(names_have_bounds)
{
    char long_name[4098];
    const char *many[REDLOCK_RESOURCES_MAX + 1];
    memset(long_name, 'x', sizeof long_name);
    long_name[4097] = '\0';
    refused("", "has no name");
    refused(NULL, "no resource was named");
    refused(long_name, "longer than 512 bytes");
    long_name[512] = '\0';
    const char *good[] = {long_name, "two\nlines", " ", "hf:jid" /* behind a prefix it is free */, "\xff\x01"};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct redlock_mutex mutex = mutex_of(good[i]), other = mutex_of(good[i]);
        lock(&mutex);
        assert_int_equal(redlock_mutex_try_lock(&other), REDLOCK_BUSY);
        assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    }
    struct redlock_mutex mutex = mutex_of("r");
    mutex.name_count = 1;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "set one of them");
    mutex.name = NULL;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "are NULL");
    for (unsigned i = 0; i <= REDLOCK_RESOURCES_MAX; i++)
        many[i] = "same";
    mutex.names = many;
    mutex.name_count = REDLOCK_RESOURCES_MAX + 1;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "17 resources: one lock has at most 16");
}

TEST(without_a_prefix_no_name_is_a_key_of_ours)
{
    struct redlock_options options = cluster.options;
    options.key_prefix = NULL;
    struct redlock_client *bare = redlock_client_open(&options, reason, sizeof reason);
    struct redlock_mutex mutex = mutex_of("hf:lock:group");
    mutex.client = bare;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "begins with \"hf:\"");
    redlock_client_close(bare);
}

TEST(terms_have_bounds)
{
    static const struct {
        struct redlock_terms terms;
        const char *why;
    } cases[] = {
        {{.ttl_ms = -1}, "ttl must be"},
        {{.ttl_ms = 1}, "ttl must be"}, /* below a round trip */
        {{.ttl_ms = 60001}, "ttl must be"},
        {{.ttl_ms = 4 * CLIENT_TIMEOUT_MS - 1}, "a quarter of the ttl"},
        {{.wait_ms = -1}, "wait must not be negative"},
        {{.max_hold_ms = -1}, "hold must not be negative"},
        {{.retry_delay_ms = -1}, "retry delay"},
        {{.tries = 1001}, "tries must be"},
    };
    struct redlock_mutex mutex = mutex_of("r");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mutex.terms = cases[i].terms;
        assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
        assert_contains(mutex.reason, cases[i].why);
    }
    mutex.terms = (struct redlock_terms){0};
    assert_int_equal(redlock_mutex_try_lock_for(&mutex, -1, 0), REDLOCK_INVALID);
    assert_int_equal(redlock_mutex_try_lock_for(&mutex, 0, -1), REDLOCK_INVALID);
    lock(&mutex);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

TEST(a_ttl_above_that_of_the_group_is_refused)
{
    struct lock_cluster hasty;
    lock_cluster_start_group(&hasty, 3, 9000);
    struct redlock_client *other = redlock_client_open(&hasty.options, reason, sizeof reason);
    struct redlock_mutex mutex = {.client = other, .name = "r"};
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "above the max_ttl of the lock group, 9000 ms");
    mutex.terms.ttl_ms = 9000;
    lock(&mutex);
    assert_false(redlock_mutex_extend(&mutex, 9001));
    assert_true(redlock_mutex_extend(&mutex, 9000));
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    redlock_client_close(other);
    lock_cluster_stop(&hasty);
}

TEST(null_is_a_mutex_that_is_not_locked)
{
    struct redlock_mutex mutex = {.name = "r"};
    assert_int_equal(redlock_mutex_lock(NULL), REDLOCK_INVALID);
    assert_int_equal(redlock_mutex_try_lock(NULL), REDLOCK_INVALID);
    assert_int_equal(redlock_mutex_try_lock_for(NULL, 1, 1), REDLOCK_INVALID);
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_INVALID);
    assert_contains(mutex.reason, "the client is NULL");
    struct redlock_mutex *none[] = {NULL, &mutex};
    for (unsigned i = 0; i < 2; i++) {
        redlock_mutex_cancel(none[i]);
        assert_int_equal(redlock_mutex_unlock(none[i]), REDLOCK_NOT_HELD);
        assert_false(redlock_mutex_touch(none[i]));
        assert_false(redlock_mutex_extend(none[i], 1000));
        assert_int_equal(redlock_mutex_valid_until_ms(none[i]), 0);
        assert_int_equal(redlock_mutex_valid_for_ms(none[i]), 0);
        assert_true(redlock_mutex_in_danger(none[i]));
        assert_int_equal(redlock_mutex_token(none[i]), 0);
        assert_int_equal(redlock_mutex_lost_fd(none[i]), -1);
    }
    assert_int_equal(redlock_client_news_fd(NULL), -1);
    assert_int_equal(redlock_client_dispatch(NULL), 0);
    assert_false(redlock_held_extend(NULL, 1, reason, sizeof reason));
}

TEST(an_owner_belongs_to_one_client)
{
    struct redlock_client *second = redlock_client_open(&cluster.options, reason, sizeof reason);
    struct redlock_owner owner = {0};
    struct redlock_mutex mutex = mutex_of_owner("r", &owner), other = mutex_of_owner("s", &owner);
    other.client = second;
    lock(&mutex);
    assert_int_equal(redlock_mutex_lock(&other), REDLOCK_INVALID);
    assert_contains(other.reason, "another client");
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    lock(&other);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
    redlock_client_close(second);
}

TEST(ten_thousand_are_locked_at_once)
{
    struct redlock_mutex *mutexes = memory_zeroed(MANY, sizeof *mutexes);
    char(*names)[16] = memory_zeroed(MANY, sizeof *names);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "many:%u", i);
        mutexes[i] = mutex_of(names[i]);
        mutexes[i].terms.ttl_ms = 60000;
        lock(&mutexes[i]);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_true(redlock_mutex_valid_for_ms(&mutexes[i]) > 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(redlock_mutex_unlock(&mutexes[i]), REDLOCK_RELEASED);
    free(mutexes);
    free(names);
}

RUN_GROUP(patient_cluster_set_up, one_cluster_tear_down, client_set_up, client_tear_down)
