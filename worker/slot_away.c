/* Runs of a slot's task outside of the worker, and the end of the time that a run has. On the loop.
 *
 * Whoever has to stop is asked first, which a handler in a thread or in a process sees by cancelled(), and a program by
 * SIGTERM; when its grace is over, the zygote kills it. What is asked, and when it is killed, is on the slot's berth of
 * the board, so it also happens when this process is stopped. */
#include "base/log.h"
#include "worker/worker_state.h"

/* Between the kill and the time at which the worker abandons what runs: the zygote reaps the process, and tells the
 * worker, also on a machine that has much else to do. A stop now has less time. */
#define REAP_NS     (500 * NS_PER_MS)
#define REAP_NOW_NS (150 * NS_PER_MS)

static struct slot *slot_of(struct isolated_run *run)
{
    return list_owner(run, struct slot, away);
}

static void kill_by(struct slot *slot, struct instant at)
{
    struct worker *worker = slot->worker;
    if (berth_kill_by(worker->options.board, slot->job.berth, at))
        launcher_ring(worker->launcher);
}

/* Also by the board alone: the worker may stand still while it stops. */
void slot_end_with_worker(struct slot *slot)
{
    const struct worker *worker = slot->worker;
    if (slot->is_away)
        kill_by(slot, instant_after(worker->abandon_at, worker->hurrying ? -REAP_NOW_NS : -REAP_NS));
}

void slot_interrupt(struct slot *slot)
{
    struct worker *worker = slot->worker;
    if (!slot->is_away)
        return;
    isolation_interrupt(worker->isolation, &slot->away);
    kill_by(slot, loop_after(worker->loop, slot->rules.grace_ns));
    if (worker->stopping)
        slot_end_with_worker(slot);
}

void slot_warn(struct slot *slot)
{
    if (slot->is_away)
        isolation_interrupt(slot->worker->isolation, &slot->away);
}

/* --- the time that it has ----------------------------------------------------------------------------------------- */

static void time_is_over(struct loop_timer *timer)
{
    struct slot *slot = list_owner(timer, struct slot, timeout);
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "task_timed_out", "jid=%s class=%s slot=%u seconds=%.1f", log_value(slot->jid, jid),
              log_value(slot->envelope.class_name, class_name), slot->number,
              (double)slot->rules.timeout_ns / (double)NS_PER_S);
    job_cancel(&slot->job, HF_TIMEOUT);
    slot_interrupt(slot);
}

/* Also by the board alone: the loop may be stuck by then. */
static void time_begin(struct slot *slot)
{
    if (slot->rules.timeout_ns == 0)
        return;
    struct instant end = loop_after(slot->worker->loop, slot->rules.timeout_ns);
    loop_timer_set(slot->worker->loop, &slot->timeout, end);
    if (slot->is_away)
        kill_by(slot, instant_after(end, slot->rules.grace_ns));
}

void slot_time_end(struct slot *slot)
{
    loop_timer_clear(slot->worker->loop, &slot->timeout);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void away_began(struct isolated_run *run)
{
    struct slot *slot = slot_of(run);
    slot->run_started = instant_now();
    time_begin(slot);
    if (slot->worker->stopping)
        slot_end_with_worker(slot);
    if (atomic_load(&slot->worker->options.board->must_stop)) /* the others were told when that was set */
        slot_interrupt(slot);
}

static void away_ended(struct isolated_run *run, int code)
{
    struct slot *slot = slot_of(run);
    slot->is_away = false;
    slot->run_ended = instant_now();
    slot->started = code != ISOLATION_NOT_STARTED;
    slot->code = code;
    slot_run_ended(slot);
}

void slot_away_init(struct slot *slot)
{
    slot->away = (struct isolated_run){
        .job = &slot->job, .berth = slot->job.berth, .rules = &slot->rules, .began = away_began, .ended = away_ended};
    list_init(&slot->away.link);
    loop_timer_init(&slot->timeout, time_is_over);
}

void slot_submit(struct slot *slot)
{
    struct worker *worker = slot->worker;
    slot->handed_over = loop_now(worker->loop);
    berth_open(slot->job.berth, slot->jid, slot->envelope.class_name);
    if (slot->rules.isolation == CONFIG_ISOLATION_THREAD) {
        time_begin(slot);
        runner_pool_submit(worker->pool, &slot->work);
        return;
    }
    if (slot->lock != NULL)
        redlock_lock_publish_to(slot->lock, &slot->job.berth->validity);
    atomic_store(&slot->job.berth->is_locked, slot->lock != NULL);
    slot->is_away = true;
    slot->run_started = slot->handed_over; /* if it is put off before it began */
    slot->away.handler = slot->handler;
    slot->away.lock = slot->lock;
    isolation_start(worker->isolation, &slot->away);
}

bool slot_unsubmit(struct slot *slot)
{
    struct worker *worker = slot->worker;
    bool withdrawn = slot->is_away ? isolation_withdraw(worker->isolation, &slot->away)
                                   : runner_pool_withdraw(worker->pool, &slot->work);
    if (!withdrawn)
        return false;
    slot->is_away = false;
    slot_time_end(slot);
    berth_close(slot->job.berth);
    return true;
}
