/* The threads that run handlers, and the two hand-offs of each task: loop -> runner -> loop.
 *
 * The loop submits work and flushes once a cycle; a runner takes the oldest, runs it, posts it back to the loop and
 * takes the next without sleeping if there is one. Runners are woken one by one: a woken runner wakes the next only if
 * work remains. So few threads run a burst of short tasks, while long tasks get a thread each within a few wake-ups.
 * The last runner to sleep is woken first, because its caches are warm. One mutex guards the lists of ready work and of
 * sleepers. It is held for a few instructions and released before the next wake. Results come back by loop_post.
 *
 * Start and stop: thread_pool_create starts all threads or none; thread_pool_destroy waits for the runs in progress. */
#ifndef WORKER_THREAD_POOL_H
#define WORKER_THREAD_POOL_H

#include "base/error.h"
#include "base/loop.h"

struct thread_pool;

struct work {
    struct loop_message done; /* done.deliver runs on the loop after `run` */
    struct list link;
    void (*run)(struct work *work); /* on a runner */
};

struct thread_pool *thread_pool_create(struct loop *loop, unsigned threads, struct error *error) MUST_CHECK;
void thread_pool_destroy(struct thread_pool *pool);

/* Loop thread. The work starts after the end of this cycle. */
void thread_pool_submit(struct thread_pool *pool, struct work *work);
/* Loop thread. True if no runner has taken the work: it will not run, and `done` is not delivered. */
bool thread_pool_withdraw(struct thread_pool *pool, struct work *work);

#endif
