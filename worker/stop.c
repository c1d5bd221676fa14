/* How a worker ends.
 *
 *   quiet            nothing is claimed any more, and what calls that are under way still bring goes back; what the
 *                    process has by then goes on, and so does the process. For good.
 *   drain            quiet, and a stop as soon as nothing runs
 *   stop             nothing is started any more either: locks that are being acquired are given up, tasks that no
 *                    runner has taken are given back at the head of their queue; what runs may go on
 *   + stop_timeout   handlers have to stop (cancelled() turns true, reason SHUTDOWN). From now on what is given
 *                    back is gathered and sent together, the task that was claimed last first: so the queue is as it
 *                    was
 *   + grace          a handler that runs on is abandoned: its task is given back, its lock is left to expire (a
 *                    release would let another task write beside it), and the process ends with a failure
 *   leave            once nothing runs, or is waited for any more: blocking claims end, the last call gives back
 *                    what is left and removes the process's traces, then the loop ends once the releases are answered
 *                    and the commands of on_event have ended and the thread that reads the configuration again, for
 *                    which LEAVE_LIMIT are waited too
 * Stop now (a second signal) skips stop_timeout and shortens the rest.
 *
 * Bounds. The handlers have stop_timeout + GRACE. When none runs and only the queue node is waited for, that ends after
 * NODE_WAIT; nobody gains by more. Leaving takes LEAVE_LIMIT and the answers to releases RELEASE_LIMIT at most. So the
 * process ends within stop_timeout + 5 s, and after a stop now within 2 s, whatever handlers and nodes do. If the queue
 * node is unreachable, tasks that could not be given back stay claimed until another process recovers them. */
#include "base/log.h"
#include "queue/promoter.h"
#include "worker/events/event_commands.h"
#include "worker/periodic/periodic.h"
#include "worker/presence/presence.h"
#include "worker/reload.h"
#include "worker/supervisor/service_notify.h"
#include "worker/worker_state.h"

#define LOOK_NS          (10 * NS_PER_MS)
#define GRACE_NS         (2 * NS_PER_S)
#define GRACE_NOW_NS     (200 * NS_PER_MS)
#define NODE_WAIT_NS     (2 * NS_PER_S)
#define LEAVE_LIMIT_NS   (2 * NS_PER_S)
#define LEAVE_NOW_NS     (1 * NS_PER_S)
#define RELEASE_LIMIT_NS (500 * NS_PER_MS)
#define RELEASE_LOOK_NS  (2 * NS_PER_MS)

static void limit_set(struct worker *worker, void (*fire)(struct loop_timer *timer), int64_t after_ns)
{
    loop_timer_clear(worker->loop, &worker->limit);
    loop_timer_init(&worker->limit, fire);
    loop_timer_set(worker->loop, &worker->limit, loop_after(worker->loop, after_ns));
}

static struct worker *limit_worker(struct loop_timer *timer)
{
    return list_owner(timer, struct worker, limit);
}

static unsigned slots_busy(const struct worker *worker)
{
    return worker->runner_count - worker->idle_count;
}

/* Slots with a handler that runs. The other busy ones wait for the queue node. */
static unsigned handlers_running(const struct worker *worker)
{
    unsigned running = 0;
    for (unsigned i = 0; i < worker->slot_count; i++)
        running += worker->slots[i].flow.state == FLOW_READY;
    return running;
}

/* Abandoned locks are never answered, so the wait has an end of its own. */
static void releases_look(struct loop_timer *timer)
{
    struct worker *worker = limit_worker(timer);
    bool over = instant_reached(loop_now(worker->loop), worker->leave_by);
    bool releases = worker->locks != NULL && redlock_group_busy(worker->locks) > 0 && !worker->abandoned;
    bool others = (event_commands_are_busy(worker->event_commands) || reload_is_reading(worker->reload)) &&
                  !instant_reached(loop_now(worker->loop), worker->others_by);
    if (((releases || presence_is_leaving(worker->presence)) && !over) || others)
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
    worker->leave_by = loop_after(worker->loop, RELEASE_LIMIT_NS);
    limit_set(worker, releases_look, 0);
}

/* --- what runs ---------------------------------------------------------------------------------------------------- */

static void slot_tell(const struct slot *slot, enum log_level level, const char *event)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX];
    int64_t ran_ns = instant_since(slot->handed_over, loop_now(slot->worker->loop));
    log_event(level, event, "slot=%u jid=%s class=%s queue=%s seconds=%.1f", slot->number, log_value(slot->jid, jid),
              log_value(slot->envelope.class_name, class_name), log_value(slot->queue, queue),
              (double)ran_ns / (double)NS_PER_S);
}

void worker_tell_running(struct worker *worker)
{
    log_event(LOG_INFO, "tasks_running", "count=%u busy=%u threads=%u", handlers_running(worker), slots_busy(worker),
              worker->runner_count);
    for (unsigned i = 0; i < worker->slot_count; i++)
        if (worker->slots[i].flow.state == FLOW_READY)
            slot_tell(&worker->slots[i], LOG_INFO, "task_running");
}

/* Handlers in a thread or a process see that by cancelled(); programs get SIGTERM, and are killed in time. */
static void handlers_stop(struct worker *worker)
{
    atomic_store(&worker->options.run_table->must_stop, true);
    for (unsigned i = 0; i < worker->slot_count; i++)
        slot_interrupt(&worker->slots[i]);
}

static void handlers_cancel(struct worker *worker)
{
    if (atomic_load(&worker->options.run_table->must_stop))
        return;
    log_event(LOG_WARN, "handlers_cancelled", "count=%u waiting_for_queue_node=%u", handlers_running(worker),
              slots_busy(worker) - handlers_running(worker));
    handlers_stop(worker);
}

static void handlers_abandon(struct worker *worker)
{
    unsigned count = 0;
    for (unsigned i = 0; i < worker->slot_count; i++)
        count += worker->slots[i].flow.state == FLOW_READY && !worker->slots[i].has_ended;
    if (count > 0) {
        worker->abandoned = true;
        log_event(LOG_ERROR, "handlers_abandoned", "count=%u advice=\"their tasks are given back and will run again\"",
                  count);
    }
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->flow.state != FLOW_READY)
            continue;
        if (!slot->has_ended)
            slot_tell(slot, LOG_ERROR, "handler_abandoned");
        slot_abandon(slot);
    }
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

static void leave_start(struct worker *worker)
{
    if (worker->leaving)
        return;
    worker->leaving = true;
    loop_timer_clear(worker->loop, &worker->limit);
    handlers_abandon(worker);
    slots_give_back(&worker->give_back);
    int64_t limit_ns = worker->hurrying ? LEAVE_NOW_NS : LEAVE_LIMIT_NS;
    worker->others_by = loop_after(worker->loop, limit_ns);
    presence_leave(worker->presence, loop_after(worker->loop, limit_ns));
    queue_leave(worker->queue, loop_after(worker->loop, limit_ns), queue_left);
}

/* A task that was ended before it runs may begin to run although the worker stops. */
static void phase_look(struct worker *worker, struct instant now, bool runs)
{
    if (runs == !worker->only_node || worker->hurrying)
        return;
    worker->only_node = !runs;
    worker->abandon_at = instant_after(worker->cancel_at, GRACE_NS);
    if (!runs)
        worker->abandon_at = instant_earlier(worker->abandon_at, instant_after(now, NODE_WAIT_NS));
}

/* While handlers may still come to their end. */
static void stop_look(struct loop_timer *timer)
{
    struct worker *worker = limit_worker(timer);
    struct instant now = loop_now(worker->loop);
    bool runs = handlers_running(worker) > 0;
    limit_set(worker, stop_look, LOOK_NS);
    if (runs && instant_reached(now, worker->cancel_at))
        handlers_cancel(worker);
    if (!runs)
        slots_give_back(&worker->give_back);
    phase_look(worker, now, runs);
    if (instant_reached(now, worker->abandon_at))
        leave_start(worker);
}

/* --- the steps ---------------------------------------------------------------------------------------------------- */

static bool nothing_is_left(const struct worker *worker)
{
    return slots_busy(worker) == 0 || !queue_was_reached(worker->queue);
}

void worker_stop_look(struct worker *worker)
{
    if (worker->stopping && nothing_is_left(worker))
        leave_start(worker);
    else if (worker->draining && !worker->stopping && nothing_is_left(worker))
        worker_stop(worker, "drained");
}

void worker_quiet(struct worker *worker, const char *reason)
{
    if (worker->quiet || worker->stopping)
        return;
    worker->quiet = true;
    promoter_pause(worker->promoter, true);
    presence_tell(worker->presence);
    service_notify_status("quiet");
    periodic_pause(worker->periodic, true);
    log_event(LOG_INFO, "worker_quiet", "reason=%s busy=%u", reason, slots_busy(worker));
    queue_end_listening(worker->queue);
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
    presence_tell(worker->presence);
    service_notify_stopping();
    log_event(LOG_INFO, "worker_stopping", "reason=%s busy=%u", reason, slots_busy(worker));
    struct instant now = loop_now(worker->loop);
    queue_end_listening(worker->queue);
    promoter_pause(worker->promoter, true);
    periodic_pause(worker->periodic, true);
    worker->cancel_at = instant_after(now, worker->options.config->worker.stop_timeout_ns);
    worker->abandon_at = instant_after(worker->cancel_at, GRACE_NS);
    for (unsigned i = 0; i < worker->slot_count; i++) {
        slot_stop(&worker->slots[i]);
        slot_end_with_worker(&worker->slots[i]);
    }
    limit_set(worker, stop_look, 0);
    worker_stop_look(worker);
}

void worker_stop_now(struct worker *worker, const char *reason)
{
    if (worker->hurrying)
        return;
    worker_stop(worker, reason);
    worker->hurrying = true;
    struct instant now = loop_now(worker->loop);
    worker->others_by = instant_earlier(worker->others_by, instant_after(now, LEAVE_NOW_NS));
    log_event(LOG_WARN, "worker_stopping_now", "reason=%s busy=%u", reason, slots_busy(worker));
    worker->abandon_at = instant_earlier(worker->abandon_at, instant_after(now, GRACE_NOW_NS));
    handlers_stop(worker);
    if (worker->leaving)
        queue_leave_by(worker->queue, instant_after(now, LEAVE_NOW_NS));
}

void worker_stop_asked(struct worker *worker, const char *reason)
{
    if (worker->stopping)
        worker_stop_now(worker, reason);
    else
        worker_stop(worker, reason);
}

/* --- with nothing left to do -------------------------------------------------------------------------------------- */

/* A worker that ends when there is nothing to do asks the queue node what is left. Nothing is left when the queues are
 * empty, no process has a task of them, none of their tasks waits for a lock or a share of the runners, and none will
 * come back soon. It does not wait for paused queues, for what is scheduled for later, and for failed tasks until their
 * retry is due. */

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

/* Tasks that could not have their lock and are in no waiting list, by `delay` for example, come back within this. What
 * waits for its class to be served may take longer. */
static int64_t drain_horizon_ns(const struct worker *worker)
{
    const struct config *config = worker->options.config;
    int64_t own_ns = instant_since(loop_now(worker->loop), worker->put_off_until);
    int64_t longest_ns = longer(config->lock.ttl_ns, 2 * config->lock.park_delay_ns);
    for (size_t i = 0; i < config->class_count; i++)
        longest_ns = longer(longest_ns, 2 * config->classes[i].conflict_delay_ns);
    return longer(longest_ns, own_ns) + DRAIN_SLACK_NS;
}

/* What the promoter has seen and left where it is, is for others. */
void worker_drain_look(struct worker *worker)
{
    struct instant seen = promoter_seen(worker->promoter);
    if (worker->quiet)
        worker_stop(worker, "drained"); /* it takes nothing more, so nothing would change */
    else if (worker->ready && seen.ns != 0)
        queue_count(worker->queue, instant_since(seen, loop_now(worker->loop)) + DRAIN_SLACK_NS,
                    drain_horizon_ns(worker), drain_told);
}
