/* How a worker ends.
 *
 *   stop asked for   nothing is claimed or started any more; locks that are being acquired are given up, tasks that
 *                    no runner has taken are given back at the head of their queue; what runs may go on
 *   stop_timeout     handlers are told to stop (cancelled() turns true, reason SHUTDOWN)
 *   + grace          who does not listen is abandoned: its task is given back, its lock is left to expire (a release
 *                    would let somebody else write beside it), and the process ends with a failure
 *   all idle         the bells are silenced, the last call gives back what is left and removes the process's traces,
 *                    then the loop ends once the releases are answered
 * A second signal goes straight to the last step. */
#include "base/log.h"
#include "worker/service_notify.h"
#include "worker/worker_state.h"

#define GRACE_NS         (2 * NS_PER_S)
#define LEAVE_LIMIT_NS   (5 * NS_PER_S)
#define LEAVE_NOW_NS     (1 * NS_PER_S)
#define RELEASE_LIMIT_NS (500 * NS_PER_MS)
#define RELEASE_LOOK_NS  (2 * NS_PER_MS)

static void limit_set(struct worker *worker, void (*fire)(struct loop_timer *timer), int64_t after_ns)
{
    loop_timer_clear(worker->loop, &worker->limit);
    loop_timer_init(&worker->limit, fire);
    loop_timer_set(worker->loop, &worker->limit, instant_after(loop_now(worker->loop), after_ns));
}

static struct worker *limit_worker(struct loop_timer *timer)
{
    return list_owner(timer, struct worker, limit);
}

static unsigned slots_busy(const struct worker *worker)
{
    return worker->slot_count - worker->idle_count;
}

/* Slots with a handler that runs. The other busy ones wait for the queue node. */
static unsigned handlers_running(const struct worker *worker)
{
    unsigned running = 0;
    for (unsigned i = 0; i < worker->slot_count; i++)
        running += worker->slots[i].flow.state == FLOW_READY;
    return running;
}

static double seconds_since(const struct worker *worker, struct instant start)
{
    return (double)instant_since(start, loop_now(worker->loop)) / (double)NS_PER_S;
}

/* Abandoned locks are never answered, so the wait has an end of its own. */
static void releases_look(struct loop_timer *timer)
{
    struct worker *worker = limit_worker(timer);
    bool over = instant_reached(loop_now(worker->loop), worker->leave_by);
    if (worker->locks != NULL && redlock_group_busy(worker->locks) > 0 && !over && !worker->abandoned)
        limit_set(worker, releases_look, RELEASE_LOOK_NS);
    else
        loop_stop(worker->loop);
}

static void queue_left(void *context, bool left)
{
    struct worker *worker = context;
    if (!left)
        log_event(
            LOG_ERROR, "leave_failed",
            "advice=\"the queue node did not take all back: claims of this process stay until they are recovered\"");
    if (!left || worker->abandoned)
        worker->exit_code = EXIT_CODE_FAILURE;
    worker->leave_by = instant_after(loop_now(worker->loop), RELEASE_LIMIT_NS);
    limit_set(worker, releases_look, 0);
}

static void leave_start(struct worker *worker, int64_t limit_ns)
{
    if (worker->leaving)
        return;
    worker->leaving = true;
    worker->abandoned = handlers_running(worker) > 0;
    if (worker->abandoned)
        log_event(LOG_ERROR, "handlers_abandoned", "count=%u advice=\"their tasks are given back and will run again\"",
                  handlers_running(worker));
    loop_timer_clear(worker->loop, &worker->limit);
    queue_leave(worker->queue, instant_after(loop_now(worker->loop), limit_ns), queue_left);
}

static void grace_over(struct loop_timer *timer)
{
    leave_start(limit_worker(timer), LEAVE_LIMIT_NS);
}

static void time_over(struct loop_timer *timer)
{
    struct worker *worker = limit_worker(timer);
    log_event(LOG_WARN, "handlers_cancelled", "count=%u waiting_for_queue_node=%u", handlers_running(worker),
              slots_busy(worker) - handlers_running(worker));
    atomic_store(&worker->must_stop, true);
    limit_set(worker, grace_over, GRACE_NS);
}

static bool nothing_is_left(const struct worker *worker)
{
    return slots_busy(worker) == 0 || !queue_was_reached(worker->queue);
}

void worker_stop_look(struct worker *worker)
{
    if (worker->stopping && nothing_is_left(worker))
        leave_start(worker, LEAVE_LIMIT_NS);
    else if (worker->draining && !worker->stopping && nothing_is_left(worker))
        worker_stop(worker, "drained");
}

void worker_quiet(struct worker *worker, const char *reason)
{
    if (worker->quiet || worker->stopping)
        return;
    worker->quiet = true;
    promoter_pause(worker->promoter, true);
    service_notify_status("quiet");
    periodic_pause(worker->periodic, true);
    log_event(LOG_INFO, "worker_quiet", "reason=%s busy=%u", reason, slots_busy(worker));
    worker_listen(worker);
}

void worker_drain(struct worker *worker, const char *reason)
{
    if (worker->draining || worker->stopping)
        return;
    worker_quiet(worker, reason);
    worker->draining = true;
    log_event(LOG_INFO, "worker_draining", "reason=%s busy=%u", reason, slots_busy(worker));
    worker_stop_look(worker);
}

void worker_stop(struct worker *worker, const char *reason)
{
    if (worker->stopping)
        return;
    worker->stopping = true;
    service_notify_stopping();
    log_event(LOG_INFO, "worker_stopping", "reason=%s busy=%u", reason, slots_busy(worker));
    queue_listen(worker->queue, false);
    periodic_pause(worker->periodic, true);
    limit_set(worker, time_over, worker->options.config->worker.stop_timeout_ns);
    for (unsigned i = 0; i < worker->slot_count; i++)
        slot_stop(&worker->slots[i]);
    if (handlers_running(worker) == 0) /* only the queue node is waited for, and nobody gains by a long wait */
        limit_set(worker, grace_over, GRACE_NS);
    worker_stop_look(worker);
}

void worker_stop_now(struct worker *worker, const char *reason)
{
    if (worker->hurrying)
        return;
    worker->stopping = worker->hurrying = true;
    periodic_pause(worker->periodic, true);
    log_event(LOG_WARN, "worker_stopping_now", "reason=%s busy=%u", reason, slots_busy(worker));
    atomic_store(&worker->must_stop, true);
    leave_start(worker, LEAVE_NOW_NS);
}

void worker_stop_asked(struct worker *worker, const char *reason)
{
    if (worker->stopping)
        worker_stop_now(worker, reason);
    else
        worker_stop(worker, reason);
}

void worker_tell_running(struct worker *worker)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX];
    log_event(LOG_INFO, "tasks_running", "count=%u busy=%u threads=%u", handlers_running(worker), slots_busy(worker),
              worker->slot_count);
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        if (slot->flow.state == FLOW_READY)
            log_event(LOG_INFO, "task_running", "slot=%u jid=%s class=%s queue=%s seconds=%.1f", slot->number,
                      log_quote(slot->jid, jid), log_quote(slot->envelope.class_name, class_name),
                      log_quote(slot->queue, queue), seconds_since(worker, slot->handed_over));
    }
}
