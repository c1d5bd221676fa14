/* The end of a worker that drains: it asks the queue node what there is left to do, and stops when that is nothing. On
 * the loop.
 *
 * Nothing is left when the queues are empty, no process has a task of them, none of their tasks waits for a lock or a
 * share of the runners, and none will come back soon. It does not wait for paused queues, for what is scheduled for
 * later, and for failed tasks until their retry is due. */
#include "worker/worker_state.h"

/* Tasks that were put aside a moment ago, or became due while the promoter looked. */
#define DRAIN_SLACK_NS (5 * NS_PER_S)

static void drain_told(void *context, const struct queue_backlog *backlog)
{
    struct worker *worker = context;
    if (!backlog->known || worker->idle_count < worker->runner_count)
        return;
    if (backlog->waiting > 0)
        worker_wake_idle(worker);
    else if (backlog->pending == 0)
        worker_stop(worker, "drained");
}

static int64_t longer(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Tasks that could not have their lock and have no place in a line, by `delay` for example, come back within this. */
static int64_t drain_horizon_ns(const struct config *config)
{
    int64_t longest_ns = longer(config->lock.ttl_ns, 2 * config->lock.park_delay_ns);
    for (size_t i = 0; i < config->class_count; i++)
        longest_ns = longer(longest_ns, 2 * config->classes[i].conflict_delay_ns);
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
                    drain_horizon_ns(worker->options.config), drain_told);
}
