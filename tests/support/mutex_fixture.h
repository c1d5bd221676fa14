/* What tests of the mutex share beside client_fixture.h: threads that wait for one, and what it is told. */
#ifndef SUPPORT_MUTEX_FIXTURE_H
#define SUPPORT_MUTEX_FIXTURE_H

#include <pthread.h>

#include "tests/support/client_fixture.h"

static inline struct redlock_mutex mutex_of_owner(const char *name, struct redlock_owner *owner)
{
    struct redlock_mutex mutex = mutex_of(name);
    mutex.owner = owner;
    return mutex;
}

static inline void lock(struct redlock_mutex *mutex)
{
    enum redlock_answer answer = redlock_mutex_lock(mutex);
    if (answer != REDLOCK_ACQUIRED)
        fail_msg("%s: %s", redlock_answer_name(answer), mutex->reason);
}

static inline struct redlock_counters counted(void)
{
    struct redlock_counters counters;
    redlock_client_counters(client, &counters);
    return counters;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static int64_t delays[8];

static inline int64_t delay_of(struct redlock_mutex *mutex, unsigned attempts)
{
    assert_ptr_equal(mutex->context, delays);
    return delays[attempts];
}

static enum redlock_answer waited;

static inline void *wait_long(void *argument)
{
    waited = redlock_mutex_lock(argument);
    return NULL;
}

/* Threads that lock. */
static inline unsigned lockers(void)
{
    pthread_mutex_lock(&client->lock);
    unsigned count = client->lockers;
    pthread_mutex_unlock(&client->lock);
    return count;
}

/* Starts a thread that locks. It waits, and can be cancelled, when this returns. */
static inline pthread_t locker_start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    unsigned before = lockers();
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    test_await(lockers() > before);
    return thread;
}

/* --- danger and loss ---------------------------------------------------------------------------------------------- */

/* Both return when the news are there: the loop takes what is due before it counts. */
static inline void danger_await(const struct redlock_mutex *mutex)
{
    test_await(redlock_mutex_in_danger(mutex));
    (void)counted();
}

static inline void loss_await(const struct redlock_mutex *mutex)
{
    test_await(redlock_mutex_valid_until_ms(mutex) == 0);
    (void)counted();
}

struct told {
    _Atomic unsigned dangers, losses; /* counted by the client's thread */
    bool unlocks;
    enum redlock_ending ending;
};

static inline void note(struct redlock_mutex *mutex, enum redlock_news news)
{
    struct told *told = mutex->context;
    told->dangers += news == REDLOCK_NEWS_DANGER;
    told->losses += news == REDLOCK_NEWS_LOST;
    if (news == REDLOCK_NEWS_LOST)
        assert_int_equal(redlock_mutex_valid_for_ms(mutex), 0);
    else
        assert_true(redlock_mutex_in_danger(mutex));
    if (told->unlocks)
        told->ending = redlock_mutex_unlock(mutex);
}

#endif
