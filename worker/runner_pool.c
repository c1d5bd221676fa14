#include "worker/runner_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/crash_note.h"

struct runner_pool {
    struct loop *loop;
    struct list submitted; /* the loop's own, until the end of the turn */
    struct loop_hook flush;
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t work_or_stop;
    struct list ready;
    unsigned asleep;
    bool waking; /* a signal was sent and the runner it woke has not run yet */
    bool stopping;
    unsigned threads;
    pthread_t runners[];
};

/* With the mutex held. One at a time: the woken runner wakes the next if there is more. */
static void wake_one(struct runner_pool *pool)
{
    if (list_is_empty(&pool->ready) || pool->waking || pool->asleep == 0)
        return;
    pool->waking = true;
    pthread_cond_signal(&pool->work_or_stop);
}

static struct work *work_wait(struct runner_pool *pool)
{
    while (list_is_empty(&pool->ready) && !pool->stopping) {
        pool->asleep++;
        pthread_cond_wait(&pool->work_or_stop, &pool->mutex);
        pool->asleep--;
        pool->waking = false;
    }
    struct list *first = list_take_first(&pool->ready);
    wake_one(pool);
    return first != NULL ? list_owner(first, struct work, link) : NULL;
}

static void *runner_run(void *argument)
{
    struct runner_pool *pool = argument;
    struct work *work = NULL;
    struct crash_stack stack;
    crash_note_thread_begin(&stack);
    pthread_mutex_lock(&pool->mutex);
    while ((work = work_wait(pool)) != NULL) {
        pthread_mutex_unlock(&pool->mutex);
        work->run(work);
        loop_post(pool->loop, &work->done);
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static void pool_flush(struct loop_hook *hook)
{
    struct runner_pool *pool = list_owner(hook, struct runner_pool, flush);
    struct list *link = NULL;
    pthread_mutex_lock(&pool->mutex);
    while ((link = list_take_first(&pool->submitted)) != NULL)
        list_append(&pool->ready, link);
    wake_one(pool);
    pthread_mutex_unlock(&pool->mutex);
}

void runner_pool_submit(struct runner_pool *pool, struct work *work)
{
    list_append(&pool->submitted, &work->link);
    loop_at_turn_end(pool->loop, LOOP_GATHER, &pool->flush);
}

bool runner_pool_withdraw(struct runner_pool *pool, struct work *work)
{
    pthread_mutex_lock(&pool->mutex);
    bool waits = !list_is_empty(&work->link);
    if (waits)
        list_remove(&work->link);
    pthread_mutex_unlock(&pool->mutex);
    return waits;
}

/* Signals belong to the loop thread, but those of a crash. */
static bool runner_start(struct runner_pool *pool, unsigned number)
{
    sigset_t all, before;
    char name[16];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&pool->runners[number], NULL, runner_run, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return false;
    snprintf(name, sizeof name, "hf-run-%u", number + 1);
    pthread_setname_np(pool->runners[number], name);
    pool->threads++;
    return true;
}

struct runner_pool *runner_pool_create(struct loop *loop, unsigned threads, struct error *error)
{
    struct runner_pool *pool = memory_zeroed(1, sizeof *pool + threads * sizeof pool->runners[0]);
    pool->loop = loop;
    list_init(&pool->submitted);
    list_init(&pool->ready);
    loop_hook_init(&pool->flush, pool_flush);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work_or_stop, NULL);
    for (unsigned i = 0; i < threads; i++) {
        if (runner_start(pool, i))
            continue;
        error_set(error, "only %u of %u runner threads could be started: raise the limit or lower `threads`", i,
                  threads);
        runner_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void runner_pool_destroy(struct runner_pool *pool)
{
    loop_hook_cancel(&pool->flush);
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work_or_stop);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->threads; i++)
        pthread_join(pool->runners[i], NULL);
    pthread_cond_destroy(&pool->work_or_stop);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
