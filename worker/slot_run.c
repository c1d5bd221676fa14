/* The run of a slot's task: handing it to the runners, running it, taking the result back. On the loop; only slot_run
 * is on a runner, between the two hand-offs, and touches nothing but the job, the code and the two facts about the
 * run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/task/crash_note.h"
#include "worker/task/run_result.h"
#include "worker/worker_state.h"

/* The handler's own opinion of the arguments, if it has one. */
static bool arguments_pass(struct slot *slot)
{
    char reason[256] = "";
    const struct text_span *args = &slot->envelope.args;
    if (slot->handler->check == NULL || slot->handler->check(args->bytes, args->length, reason, sizeof reason))
        return true;
    reason[sizeof reason - 1] = '\0';
    failure_set(&slot->job.outcome.failure, "HF::BadArguments", "%s", reason);
    return false;
}

/* On a runner. The deadline is checked as its first act: the lock may have run out while the task waited here. */
void slot_run(struct work *work)
{
    struct slot *slot = list_owner(work, struct slot, work);
    slot->run_started = instant_now();
    slot->started = job_lock_is_valid(&slot->job);
    if (!slot->started)
        return;
    crash_note_run_begin(slot->number);
    slot->code = job_is_unwanted(&slot->job) ? HF_CANCELLED
                 : arguments_pass(slot)      ? slot->handler->run(&slot->job, plugin_handler_state(slot->handler))
                                             : HF_BURY;
    slot->run_ended = instant_now();
    crash_note_run_end();
}

enum flow_result slot_failed_result(struct slot *slot)
{
    return run_failed_result(&slot->envelope, &slot->rules, wall_now(), &slot->fate);
}

static enum flow_result run_result(struct slot *slot)
{
    struct run_end end = {.job = &slot->job,
                          .envelope = &slot->envelope,
                          .rules = &slot->rules,
                          .started = slot->started,
                          .code = slot->code};
    enum flow_result result = run_result_of(&end, wall_now(), &slot->fate);
    return result == FLOW_RUN_OK && !slot_outcome_take(slot) ? slot_failed_result(slot) : result;
}

static bool is_failure(enum flow_result result)
{
    return result == FLOW_RUN_FAILED || result == FLOW_RUN_EXHAUSTED || result == FLOW_RUN_HOPELESS ||
           result == FLOW_RUN_BURIED;
}

/* Its turn has come. */
static void slot_go(struct slot *slot)
{
    if (!slot_progress_begin(slot))
        slot_submit(slot);
}

void slot_serial_leave(struct slot *slot)
{
    struct serial *serial = slot->serial;
    if (serial == NULL)
        return;
    slot->serial = NULL;
    list_remove(&slot->serial_link);
    if (serial->running != slot)
        return;
    struct list *next = list_take_first(&serial->waiting);
    serial->running = next != NULL ? list_owner(next, struct slot, serial_link) : NULL;
    if (serial->running != NULL)
        slot_go(serial->running);
}

static enum flow_hold hold_of(const struct slot *slot)
{
    if (!slot->started || job_lock_is_valid(&slot->job))
        return FLOW_HELD;
    return job_lock_loss(&slot->job) == HF_HELD_TOO_LONG ? FLOW_HELD_TOO_LONG : FLOW_LOST;
}

/* How a lock was lost that the loop was not told of yet, the clock alone decides. */
static const char *loss_text(const struct slot *slot)
{
    static const char *const texts[] = {
        [REDLOCK_LOST_DEADLINE] = "it could not be extended in time",
        [REDLOCK_LOST_TAKEN] =
            "a majority of the lock nodes had it no more: it had expired there, or somebody deleted it",
        [REDLOCK_LOST_MAX_HOLD] = "it was held for as long as its class may (max_hold)",
        [REDLOCK_LOST_CLOCK] = "the clock of this machine stood still, so how long it was held is not known",
        [REDLOCK_LOST_FORFEIT] = "an operator took it away (holdfast unlock)",
    };
    if (atomic_load_explicit(&slot->job.berth->lost, memory_order_relaxed) != HF_NOT_CANCELLED)
        return texts[slot->loss];
    return texts[slot->hold == FLOW_HELD_TOO_LONG ? REDLOCK_LOST_MAX_HOLD : REDLOCK_LOST_DEADLINE];
}

/* What the handler says of a run whose lock was lost does not count (E38). */
static enum flow_result lost_result(struct slot *slot)
{
    job_outcome_clear(&slot->job.outcome);
    failure_set(&slot->job.outcome.failure, "HF::LockLost",
                "its lock was lost while it ran, so its result was refused: %s", loss_text(slot));
    enum flow_result result = slot_failed_result(slot);
    if (slot->hold == FLOW_LOST || slot->flow.task.on_lost != FLOW_ROAD_RETRY)
        slot->fate = NULL; /* the road of its class decides */
    return result;
}

/* A run that comes again without being a failure is counted then. */
static void run_count(struct slot *slot, enum flow_result result)
{
    bool requeued = slot->hold != FLOW_HELD && slot->flow.task.on_lost == FLOW_ROAD_REQUEUE;
    bool comes_again = result == FLOW_RUN_CANCELLED || result == FLOW_RUN_SNOOZED || requeued;
    if (slot->started && !comes_again)
        presence_count(slot->worker->presence, slot, slot->hold != FLOW_HELD || is_failure(result));
}

/* Also of a run whose lock was lost: that is when a fence has something to refuse. */
static void fenced_off_count(struct slot *slot)
{
    char jid[LOG_QUOTE_MAX], resource[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    bool has_failed = slot->code == HF_FAIL || slot->code == HF_BURY;
    if (!has_failed || slot->resources.count == 0 ||
        strcmp(slot->job.outcome.failure.error_class, "HF::FencedOff") != 0)
        return;
    lock_metrics_count(slot->worker->lock_metrics, slot->envelope.class_name, slot->resources.names[0],
                       LOCK_EVENT_FENCED_OFF);
    slot_observe_fenced_off(slot);
    slot->was_refused = true;
    log_event(LOG_WARN, "write_refused", "jid=%s resource=%s fence=%s reason=%s", log_value(slot->jid, jid),
              log_value(slot->resources.names[0], resource), slot->job.fence,
              log_value(slot->job.outcome.failure.message, reason));
}

void slot_ran(struct loop_message *message)
{
    slot_run_ended(list_owner(message, struct slot, work.done));
}

void slot_run_ended(struct slot *slot)
{
    struct worker *worker = slot->worker;
    berth_close(slot->job.berth);
    slot_time_end(slot);
    if (slot->abandoned)
        return;
    worker->report.runs += slot->started;
    if (slot->started)
        histogram_record(&worker->report.run, instant_since(slot->run_started, slot->run_ended) / NS_PER_US);
    if (slot->started)
        fenced_off_count(slot);
    slot->hold = hold_of(slot);
    slot->result = slot->hold == FLOW_HELD ? run_result(slot) : lost_result(slot);
    run_count(slot, slot->result);
    job_finish(&slot->job);
    slot_serial_leave(slot);
    slot->has_ended = true;
    if (!slot_waits_for_heir(slot))
        slot_settle(slot);
}

void slot_settle(struct slot *slot)
{
    if (!slot->has_ended)
        return;
    slot->has_ended = false;
    slot_perform(slot, flow_ran(&slot->flow, slot->result, slot->hold));
}

/* By class: the run of a handler that was replaced counts as one of its successor. */
static struct serial *serial_of(struct slot *slot)
{
    struct list *serials = &slot->worker->serials;
    for (struct list *link = serials->next; link != serials; link = link->next) {
        struct serial *serial = list_owner(link, struct serial, link);
        if (strcmp(serial->class_name, slot->handler->class_name) == 0)
            return serial;
    }
    struct serial *serial = memory_new(struct serial);
    serial->class_name = slot->handler->class_name;
    list_init(&serial->waiting);
    list_init(&serial->link);
    list_append(serials, &serial->link);
    return serial;
}

void serials_free(struct worker *worker)
{
    for (struct list *link; worker->slots != NULL && (link = list_take_first(&worker->serials)) != NULL;)
        free(list_owner(link, struct serial, link));
}

static int64_t lock_hold_until(const struct slot *slot)
{
    struct instant until = redlock_lock_hold_until(slot->lock);
    return until.ns != INSTANT_NEVER.ns ? until.ns : 0;
}

/* The queue node has a task again that ended here: it lost what it was told last, or somebody pushed the jid twice. */
static void repeat_tell(const struct slot *slot)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX];
    int64_t age_ns = 0;
    if (!ended_tasks_find(slot->worker->ended, slot->jid, loop_now(slot->worker->loop), &age_ns))
        return;
    log_event(
        LOG_WARN, "task_seen_before",
        "jid=%s class=%s queue=%s seconds=%.3f advice=\"a task of this jid ended here so long ago, and runs again\"",
        log_value(slot->jid, jid), log_value(slot->envelope.class_name, class_name), log_value(slot->queue, queue),
        (double)age_ns / (double)NS_PER_S);
}

void slot_run_start(struct slot *slot)
{
    slot_log_started(slot);
    repeat_tell(slot);
    slot->job.class_name = slot->envelope.class_name;
    slot->job.args = slot->envelope.args;
    slot->job.attempt = envelope_attempt(&slot->envelope);
    slot->job.queue = slot->queue;
    slot->job.jid = slot->jid;
    slot->job.resources = slot->resources.names;
    slot->job.resource_count = slot->lock != NULL ? slot->resources.count : 0;
    slot->job.backtrace_lines = slot->rules.backtrace;
    slot->job.validity = slot->lock != NULL ? redlock_lock_validity(slot->lock) : NULL;
    atomic_store_explicit(&slot->job.berth->hold_until, slot->lock != NULL ? lock_hold_until(slot) : 0,
                          memory_order_relaxed);
    slot->job.checkpoint = NULL;
    slot->job.reports_progress = (slot->handler->flags & HF_PROGRESS) != 0;
    slot->job.keeps_result = slot->rules.result_ttl_ns > 0;
    slot->job.may_push = !slot->rules.at_most_once;
    slot->job.task_limits = slot->worker->limits;
    slot->handed_over = loop_now(slot->worker->loop);
    slot->started = false;
    slot->serial = slot->handler->flags & HF_SERIAL ? serial_of(slot) : NULL;
    if (slot->serial != NULL && slot->serial->running != NULL) {
        list_append(&slot->serial->waiting, &slot->serial_link);
        return;
    }
    if (slot->serial != NULL)
        slot->serial->running = slot;
    slot_go(slot);
    slot_seek_heir(slot);
}
