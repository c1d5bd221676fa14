#include "worker/isolation/thread_pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "base/thread.h"
#include "worker/task/crash_note.h"

/* Each runner sleeps on its own semaphore. A condition variable would double the cost of a wake: the woken thread
 * has to take and release its mutex, often under contention. */
struct runner {
    struct thread_pool *pool;
    struct list link; /* in `asleep` */
    sem_t woken;
    pthread_t thread;
};

struct thread_pool {
    struct loop *loop;
    struct list submitted; /* used by the loop only, until the end of the cycle */
    struct loop_hook flush;
    pthread_mutex_t mutex; /* guards everything below */
    struct list ready;
    struct list asleep; /* the last to sleep comes first: its caches are warm */
    bool waking;        /* a woken runner has not run yet */
    bool stopping;
    unsigned threads;
    struct runner runners[];
};

/* With the mutex held: the runner to wake after its release, NULL = none. One at a time: the woken runner wakes the
 * next if there is more work. */
static struct runner *next_choose(struct thread_pool *pool)
{
    if (list_is_empty(&pool->ready) || pool->waking)
        return NULL;
    struct list *first = list_take_first(&pool->asleep);
    pool->waking = first != NULL;
    return first != NULL ? list_owner(first, struct runner, link) : NULL;
}

static void next_wake(struct runner *chosen)
{
    if (chosen != NULL)
        invariant(sem_post(&chosen->woken) == 0);
}

/* Called with the mutex held; releases it while asleep. The thread that removes a runner from `asleep` wakes it. */
static void runner_sleep(struct runner *runner)
{
    struct thread_pool *pool = runner->pool;
    list_prepend(&pool->asleep, &runner->link);
    pthread_mutex_unlock(&pool->mutex);
    while (sem_wait(&runner->woken) != 0)
        ; /* a signal was caught */
    pthread_mutex_lock(&pool->mutex);
    pool->waking = false;
}

static struct work *work_await(struct runner *runner)
{
    struct thread_pool *pool = runner->pool;
    pthread_mutex_lock(&pool->mutex);
    while (list_is_empty(&pool->ready) && !pool->stopping)
        runner_sleep(runner);
    struct list *first = list_take_first(&pool->ready);
    struct runner *next = next_choose(pool);
    pthread_mutex_unlock(&pool->mutex);
    next_wake(next);
    return first != NULL ? list_owner(first, struct work, link) : NULL;
}

static void *runner_run(void *argument)
{
    struct runner *runner = argument;
    struct work *work = NULL;
    struct crash_stack stack;
    crash_note_thread_begin(&stack);
    while ((work = work_await(runner)) != NULL) {
        work->run(work);
        loop_post(runner->pool->loop, &work->done);
    }
    return NULL;
}

static void pool_flush(struct loop_hook *hook)
{
    struct thread_pool *pool = list_owner(hook, struct thread_pool, flush);
    struct list *link = NULL;
    pthread_mutex_lock(&pool->mutex);
    while ((link = list_take_first(&pool->submitted)) != NULL)
        list_append(&pool->ready, link);
    struct runner *next = next_choose(pool);
    pthread_mutex_unlock(&pool->mutex);
    next_wake(next);
}

void thread_pool_submit(struct thread_pool *pool, struct work *work)
{
    list_append(&pool->submitted, &work->link);
    loop_at_cycle_end(pool->loop, LOOP_GATHER, &pool->flush);
}

bool thread_pool_withdraw(struct thread_pool *pool, struct work *work)
{
    pthread_mutex_lock(&pool->mutex);
    bool waits = !list_is_empty(&work->link);
    if (waits)
        list_remove(&work->link);
    pthread_mutex_unlock(&pool->mutex);
    return waits;
}

static bool runner_start(struct thread_pool *pool, unsigned number)
{
    char name[sizeof "hf-run-4294967295"]; /* the kernel takes 15 bytes: enough for 99,999,999 threads */
    struct runner *runner = &pool->runners[number];
    *runner = (struct runner){.pool = pool};
    list_init(&runner->link);
    invariant(sem_init(&runner->woken, 0, 0) == 0);
    snprintf(name, sizeof name, "hf-run-%u", number + 1);
    if (thread_spawn(&runner->thread, name, runner_run, runner) != 0) {
        sem_destroy(&runner->woken);
        return false;
    }
    pool->threads++;
    return true;
}

struct thread_pool *thread_pool_create(struct loop *loop, unsigned threads, struct error *error)
{
    struct thread_pool *pool = memory_zeroed(1, sizeof *pool + threads * sizeof pool->runners[0]);
    pool->loop = loop;
    list_init(&pool->submitted);
    list_init(&pool->ready);
    list_init(&pool->asleep);
    loop_hook_init(&pool->flush, pool_flush);
    pthread_mutex_init(&pool->mutex, NULL);
    for (unsigned i = 0; i < threads; i++) {
        if (runner_start(pool, i))
            continue;
        error_set(error, "only %u of %u runner threads could be started: raise the limit or lower `threads`", i,
                  threads);
        thread_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void thread_pool_destroy(struct thread_pool *pool)
{
    loop_hook_cancel(&pool->flush);
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    for (struct list *link; (link = list_take_first(&pool->asleep)) != NULL;)
        next_wake(list_owner(link, struct runner, link));
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->threads; i++)
        pthread_join(pool->runners[i].thread, NULL);
    for (unsigned i = 0; i < pool->threads; i++)
        sem_destroy(&pool->runners[i].woken);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
