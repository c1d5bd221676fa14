/* The mutex of libredlock and what the system does to its process: fork, no descriptors left, and real threads. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/client_fixture.h"

/* --- fork --------------------------------------------------------------------------------------------------------- */

/* 0 if the child can do nothing to what its parent has, and take a lock by a client of its own. */
static int child_check(struct redlock_mutex *mutex, struct redlock_held *held)
{
    struct redlock_mutex other = mutex_of("other");
    struct redlock_held *mine = NULL;
    struct redlock_counters counters;
    struct redlock_request request = {.resources = &other.name, .resource_count = 1};
    redlock_mutex_cancel(mutex);
    redlock_client_counters(client, &counters);
    if (redlock_mutex_unlock(mutex) != REDLOCK_NOT_HELD || redlock_mutex_valid_for_ms(mutex) != 0 ||
        redlock_mutex_valid_until_ms(mutex) != 0 || !redlock_mutex_in_danger(mutex) ||
        redlock_mutex_token(mutex) != 0 || redlock_mutex_seat(mutex) != 0 || redlock_mutex_lost_fd(mutex) != -1 ||
        redlock_mutex_touch(mutex) || redlock_mutex_lock(mutex) != REDLOCK_INVALID ||
        redlock_mutex_lock(&other) != REDLOCK_INVALID)
        return 1;
    if (redlock_held_valid_for_ms(held) != 0 || redlock_held_verify(held) || redlock_held_extend(held, 1000, NULL, 0) ||
        redlock_held_token(held) != 0 || redlock_client_release(held, REDLOCK_BACKGROUND) != REDLOCK_NOT_HELD ||
        counters.attempts != 0 || redlock_client_acquire(client, NULL, &request, &mine, NULL, 0) != REDLOCK_INVALID ||
        redlock_client_news_fd(client) != -1 || redlock_client_dispatch(client) != 0)
        return 2;
    redlock_client_close(client);
#if defined(__SANITIZE_THREAD__)
    return 0; /* the sanitizer starts no thread in such a child */
#endif
    other.client = redlock_client_open(&cluster.options, NULL, 0);
    if (redlock_mutex_lock(&other) != REDLOCK_ACQUIRED || redlock_mutex_unlock(&other) != REDLOCK_RELEASED)
        return 3;
    redlock_client_close(other.client);
    return 0;
}

TEST(a_child_after_fork_does_nothing_to_the_locks_of_its_parent)
{
    const char *name = "held";
    struct redlock_mutex mutex = mutex_of("r");
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    struct redlock_held *held = NULL;
    mutex.limit = 2;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_client_acquire(client, NULL, &request, &held, NULL, 0), REDLOCK_ACQUIRED);
    pid_t child = fork();
    if (child == 0)
        _exit(child_check(&mutex, held));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(redlock_mutex_valid_for_ms(&mutex) > 0);
    assert_true(redlock_mutex_touch(&mutex));
    assert_true(redlock_held_verify(held));
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static struct rlimit usual;

/* From now on none can be opened. */
static void descriptors_exhaust(void)
{
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    int next = open("/dev/null", O_RDONLY);
    assert_true(next >= 0);
    close(next);
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void descriptors_restore(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

TEST(without_a_descriptor_left_locks_go_on)
{
    struct redlock_mutex mutex = mutex_of("r"), other = mutex_of("s");
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    descriptors_exhaust();
    int lost = redlock_mutex_lost_fd(&mutex), news = redlock_client_news_fd(client);
    enum redlock_answer answer = redlock_mutex_lock(&other);
    struct redlock_client *second = redlock_client_open(&cluster.options, reason, sizeof reason);
    descriptors_restore();
    assert_int_equal(lost, -1);
    assert_int_equal(news, -1);
    assert_int_equal(answer, REDLOCK_ACQUIRED); /* by the connections that are there */
    assert_null(second);
    assert_contains(reason, "event loop");
    assert_true(redlock_mutex_lost_fd(&mutex) >= 0);
    assert_true(redlock_client_news_fd(client) >= 0);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    assert_int_equal(redlock_mutex_unlock(&other), REDLOCK_RELEASED);
}

/* --- real threads ------------------------------------------------------------------------------------------------- */

static _Atomic enum redlock_answer answered_inside;

static struct redlock_held *held;

static void held_inside(void)
{
    const char *name = "t";
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    struct redlock_held *none = NULL;
    struct redlock_counters counters;
    char why[256];
    assert_int_equal(redlock_client_acquire(client, NULL, &request, &none, why, sizeof why), REDLOCK_INVALID);
    assert_contains(why, "must not wait");
    assert_false(redlock_held_extend(held, 1000, why, sizeof why));
    assert_contains(why, "must not wait");
    assert_false(redlock_held_verify(held));
    redlock_client_counters(client, &counters);
    assert_int_equal(counters.acquired, 2);
    redlock_client_close(client);
    assert_int_equal(redlock_client_release(held, REDLOCK_AWAIT), REDLOCK_STILL_HELD);
    assert_int_equal(redlock_client_release(held, REDLOCK_BACKGROUND), REDLOCK_RELEASED);
}

static void block_inside(struct redlock_mutex *mutex, enum redlock_news news)
{
    struct redlock_mutex *other = mutex->context;
    if (news != REDLOCK_NEWS_DANGER)
        return;
    assert_false(redlock_mutex_touch(mutex));
    assert_contains(mutex->reason, "must not wait");
    assert_int_equal(redlock_mutex_unlock(mutex), REDLOCK_STILL_HELD);
    assert_contains(mutex->reason, "must not wait");
    held_inside();
    answered_inside = redlock_mutex_lock(other);
}

TEST(a_callback_on_the_thread_of_the_client_cannot_block_it)
{
    struct redlock_mutex other = mutex_of("s"), mutex = mutex_of("r");
    mutex.terms.ttl_ms = 4 * CLUSTER_TIMEOUT_MS; /* danger comes soon */
    mutex.told = block_inside;
    mutex.context = &other;
    const char *name = "u";
    struct redlock_request request = {.resources = &name, .resource_count = 1};
    assert_int_equal(redlock_client_acquire(client, NULL, &request, &held, NULL, 0), REDLOCK_ACQUIRED);
    answered_inside = REDLOCK_ACQUIRED;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    pause_first(QUORUM);
    test_await(answered_inside == REDLOCK_INVALID);
    assert_contains(other.reason, "must not wait");
    resume_first(QUORUM);
    redlock_mutex_unlock(&mutex);
    test_await(lock_cluster_keys(&cluster) == 0);
}

static _Atomic bool is_inside, may_return;

static void linger_inside(struct redlock_mutex *mutex, enum redlock_news news)
{
    (void)mutex;
    (void)news;
    is_inside = true;
    while (!may_return)
        poll(NULL, 0, 1);
}

static void *dispatch(void *argument)
{
    (void)argument;
    while (redlock_client_dispatch(client) == 0)
        poll(NULL, 0, 1);
    return NULL;
}

static _Atomic bool is_unlocked;

static void *unlock(void *argument)
{
    redlock_mutex_unlock(argument);
    is_unlocked = true;
    return NULL;
}

TEST(an_unlock_waits_for_the_callback)
{
    pthread_t teller, leaver;
    struct redlock_mutex mutex = mutex_of("r");
    mutex.terms.ttl_ms = 4 * CLUSTER_TIMEOUT_MS;
    mutex.told = linger_inside;
    mutex.is_dispatched = true;
    is_inside = may_return = is_unlocked = false;
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    assert_int_equal(pthread_create(&teller, NULL, dispatch, NULL), 0);
    pause_first(QUORUM);
    test_await(is_inside);
    resume_first(QUORUM);
    assert_int_equal(pthread_create(&leaver, NULL, unlock, &mutex), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_false(is_unlocked);
        poll(NULL, 0, 5);
    }
    may_return = true;
    pthread_join(leaver, NULL);
    pthread_join(teller, NULL);
    assert_true(is_unlocked);
}

static struct redlock_owner owner;
static _Atomic unsigned failures;

static void *enter_often(void *argument)
{
    (void)argument;
    struct redlock_mutex mutex = mutex_of("r");
    mutex.owner = &owner;
    mutex.terms.wait_ms = 60000;
    for (unsigned i = 0; i < 50; i++) {
        if (redlock_mutex_lock(&mutex) != REDLOCK_ACQUIRED) {
            failures++;
            continue;
        }
        if (i % 4 == 0)
            failures += !redlock_mutex_touch(&mutex);
        failures += redlock_mutex_unlock(&mutex) == REDLOCK_NOT_HELD;
    }
    return NULL;
}

static void *cancel_often(void *argument)
{
    for (unsigned i = 0; i < 200; i++) {
        redlock_mutex_cancel(argument);
        sched_yield();
    }
    return NULL;
}

TEST(threads_of_an_owner_and_those_who_cancel_do_not_get_in_their_way)
{
    pthread_t threads[4], canceller;
    struct redlock_mutex mutex = mutex_of("c");
    failures = 0;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_often, NULL), 0);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_often, &mutex), 0);
    for (unsigned i = 0; i < 100; i++) {
        enum redlock_answer answer = redlock_mutex_lock(&mutex);
        assert_true(answer == REDLOCK_ACQUIRED || answer == REDLOCK_CANCELLED);
        if (answer == REDLOCK_ACQUIRED)
            redlock_mutex_unlock(&mutex);
    }
    pthread_join(canceller, NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_null(owner.holds);
}

RUN_GROUP(one_cluster_set_up, one_cluster_tear_down, client_set_up, client_tear_down)
