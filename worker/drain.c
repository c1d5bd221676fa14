/* The end of a worker that drains: it asks the queue node what there is left to do, and stops when that is nothing. On
 * the loop. */
#include "worker/worker_state.h"

/* `--drain` also waits for tasks that were parked a moment ago, or became due while the promoter looked. */
#define DRAIN_SLACK_NS (5 * NS_PER_S)

static void drain_told(void *context, const struct queue_backlog *backlog)
{
    struct worker *worker = context;
    if (!backlog->known || worker->idle_count < worker->runner_count)
        return;
    if (backlog->waiting > 0)
        worker_wake_idle(worker);
    else if (backlog->scheduled == 0)
        worker_stop(worker, "drained");
}

/* For so long a task may have been parked that this process could run: while the lock of a holder that died, or of
 * another program, runs out, or because too few lock nodes could be asked. */
static int64_t drain_horizon_ns(const struct config_lock *lock)
{
    int64_t longest_ns = lock->ttl_ns > 2 * lock->park_delay_ns ? lock->ttl_ns : 2 * lock->park_delay_ns;
    return longest_ns + DRAIN_SLACK_NS;
}

/* What the promoter has seen and left where it is, is for others. */
void worker_drain_look(struct worker *worker)
{
    struct instant seen = promoter_seen(worker->promoter);
    if (worker->quiet)
        worker_stop(worker, "drained"); /* it takes nothing more, so nothing would change */
    else if (worker->ready && seen.ns != 0)
        queue_count(worker->queue, instant_since(seen, loop_now(worker->loop)) + DRAIN_SLACK_NS,
                    drain_horizon_ns(&worker->options.config->lock), drain_told);
}
