/* Runs a slot's task: hands it to a thread, a process or a program, takes its reports meanwhile, limits its time, and
 * takes its result. On the loop; only handler_run is on a runner, between the two hand-offs. It touches nothing but the
 * job, the code and the two facts about the run.
 *
 * A run that has to stop is asked first: a handler in a thread or a process sees that by cancelled(), and a program
 * gets SIGTERM. When the grace is over, the zygote kills it. The request and the time of the kill are in the slot's run
 * entry, so the kill also happens while this process is stopped.
 *
 * Tasks whose handler reports progress (HF_PROGRESS): their state on the queue node is begun when they start, written
 * every few seconds from the handler's last report, and closed when they leave the slot. A cancellation from a
 * dashboard is seen at the beginning and at every write. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/iteration.h"
#include "queue/task_result.h"
#include "worker/events/ended_tasks.h"
#include "worker/task/crash_note.h"
#include "worker/task/job_host.h"
#include "worker/task/run_outcome.h"
#include "worker/worker_state.h"

/* Between the kill and the time at which the worker abandons what runs: the zygote reaps the process and reports that
 * to the worker, also on a busy machine. A stop now has less time. */
#define REAP_NS     (500 * NS_PER_MS)
#define REAP_NOW_NS (150 * NS_PER_MS)

static struct slot *slot_of(struct isolated_run *run)
{
    return list_owner(run, struct slot, isolated);
}

static void kill_by(struct slot *slot, struct instant at)
{
    struct worker *worker = slot->worker;
    if (run_entry_kill_by(worker->options.run_table, slot->job.run_entry, at))
        launcher_ring(worker->launcher);
}

/* Also by the run table alone: the worker process may be stopped at the time. */
void slot_end_with_worker(struct slot *slot)
{
    const struct worker *worker = slot->worker;
    if (slot->is_isolated)
        kill_by(slot, instant_after(worker->abandon_at, worker->hurrying ? -REAP_NOW_NS : -REAP_NS));
}

void slot_interrupt(struct slot *slot)
{
    struct worker *worker = slot->worker;
    if (!slot->is_isolated)
        return;
    isolation_interrupt(worker->isolation, &slot->isolated);
    kill_by(slot, loop_after(worker->loop, slot->rules.grace_ns));
    if (worker->stopping)
        slot_end_with_worker(slot);
}

void slot_warn(struct slot *slot)
{
    if (slot->is_isolated)
        isolation_interrupt(slot->worker->isolation, &slot->isolated);
}

void slot_cancel(struct slot *slot)
{
    slot->flow.task.is_cancelled = true;
    job_cancel(&slot->job, HF_USER);
    slot_interrupt(slot);
}

void slot_claim_doubt(struct slot *slot)
{
    if (slot->flow.state != FLOW_READY || slot->flow.committed || slot->lock != NULL)
        return;
    job_cancel(&slot->job, HF_CLAIM_LOST);
    slot_interrupt(slot);
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

/* Also by the run table alone: the loop may be stuck by then. */
static void time_begin(struct slot *slot)
{
    if (slot->rules.timeout_ns == 0)
        return;
    struct instant end = loop_after(slot->worker->loop, slot->rules.timeout_ns);
    loop_timer_set(slot->worker->loop, &slot->timeout, end);
    if (slot->is_isolated)
        kill_by(slot, instant_after(end, slot->rules.grace_ns));
}

static void time_end(struct slot *slot)
{
    loop_timer_clear(slot->worker->loop, &slot->timeout);
}

/* --- submitting --------------------------------------------------------------------------------------------------- */

/* If all must stop, the others were interrupted when that was set. */
static void stop_heed(struct slot *slot)
{
    if (slot->worker->stopping)
        slot_end_with_worker(slot);
    if (atomic_load(&slot->worker->options.run_table->must_stop))
        slot_interrupt(slot);
}

static void isolated_began(struct isolated_run *run)
{
    struct slot *slot = slot_of(run);
    slot->run_started = instant_now();
    time_begin(slot);
    stop_heed(slot);
}

static void run_submit(struct slot *slot)
{
    struct worker *worker = slot->worker;
    slot->handed_over = loop_now(worker->loop);
    run_entry_open(slot->job.run_entry, slot->jid, slot->envelope.class_name);
    atomic_store(&slot->job.run_entry->is_claimed, !slot->flow.committed);
    if (slot->rules.isolation == CONFIG_ISOLATION_THREAD) {
        time_begin(slot);
        thread_pool_submit(worker->pool, &slot->work);
        return;
    }
    if (slot->lock != NULL)
        redlock_lock_publish_to(slot->lock, &slot->job.run_entry->validity);
    atomic_store(&slot->job.run_entry->is_locked, slot->lock != NULL);
    bool is_untimed = slot->rules.isolation == CONFIG_ISOLATION_EXEC && slot->rules.timeout_ns == 0;
    slot->is_isolated = true;
    slot->run_started = slot->handed_over; /* of an untimed program, or if it is put off before it began */
    slot->isolated.began = is_untimed ? NULL : isolated_began;
    slot->isolated.handler = slot->handler;
    slot->isolated.lock = slot->lock;
    isolation_start(worker->isolation, &slot->isolated);
    if (is_untimed)
        stop_heed(slot);
}

static bool run_unsubmit(struct slot *slot)
{
    struct worker *worker = slot->worker;
    bool withdrawn = slot->is_isolated ? isolation_withdraw(worker->isolation, &slot->isolated)
                                       : thread_pool_withdraw(worker->pool, &slot->work);
    if (!withdrawn)
        return false;
    slot->is_isolated = false;
    time_end(slot);
    run_entry_close(slot->job.run_entry);
    return true;
}

/* --- what it says ------------------------------------------------------------------------------------------------- */

struct slot_progress {
    struct slot *slot;
    struct iteration *iteration;
    struct job_progress reported;
    bool is_open; /* begun, or about to be */
    bool waits;   /* for the answer before the run */
};

static void run_began(void *context, bool cancelled, const char *cursor, size_t length)
{
    struct slot_progress *progress = context;
    progress->waits = false;
    job_progress_start(&progress->reported, cursor, length);
    progress->slot->job.checkpoint = progress->reported.loaded;
    if (cancelled)
        slot_cancel(progress->slot);
    run_submit(progress->slot);
}

static void report_take(void *context)
{
    struct slot_progress *progress = context;
    char text[ITERATION_BYTES_MAX];
    size_t length = 0;
    if (job_progress_take(&progress->reported, text, &length))
        iteration_save(progress->iteration, text, length);
}

static void run_cancelled(void *context)
{
    struct slot_progress *progress = context;
    slot_cancel(progress->slot);
}

static struct slot_progress *progress_create(struct slot *slot)
{
    struct slot_progress *progress = memory_new(struct slot_progress);
    struct worker *worker = slot->worker;
    progress->slot = slot;
    job_progress_init(&progress->reported);
    progress->iteration =
        iteration_create(worker->loop, &(struct iteration_options){
                                           .node = queue_node(worker->queue),
                                           .keys = queue_keys_of(worker->queue),
                                           .timeout_ns = worker->options.config->queue_node.call_timeout_ns,
                                           .began = run_began,
                                           .look = report_take,
                                           .cancelled = run_cancelled,
                                           .context = progress,
                                       });
    return progress;
}

/* True if the task must wait for what an earlier run of it has left. */
static bool progress_begin(struct slot *slot)
{
    if (!(slot->handler->flags & HF_PROGRESS))
        return false;
    if (slot->progress == NULL)
        slot->progress = progress_create(slot);
    struct slot_progress *progress = slot->progress;
    progress->is_open = true;
    progress->waits =
        !iteration_begin(progress->iteration, slot->jid, queue_has_no_progress(slot->worker->queue, slot->number));
    if (!progress->waits)
        job_progress_start(&progress->reported, NULL, 0);
    return progress->waits;
}

void slot_progress_end(struct slot *slot, enum flow_ending ending)
{
    struct slot_progress *progress = slot->progress;
    if (progress == NULL || !progress->is_open)
        return;
    if (!progress->waits)
        report_take(progress);
    progress->is_open = progress->waits = false;
    iteration_end(progress->iteration, ending == FLOW_DONE || ending == FLOW_DISCARDED || ending == FLOW_CANCELLED);
}

static struct slot *slot_of_job(struct hf_job *job)
{
    return list_owner(job, struct slot, job);
}

static bool link_verify(struct hf_job *job, int64_t limit_ns)
{
    return job_verifier_ask(&slot_of_job(job)->verifier, limit_ns);
}

static int link_descriptor(struct hf_job *job)
{
    return redlock_validity_descriptor(job->validity);
}

static enum log_level level_of(enum hf_log_level level)
{
    static const enum log_level levels[] = {
        [HF_LOG_DEBUG] = LOG_DEBUG, [HF_LOG_INFO] = LOG_INFO, [HF_LOG_WARN] = LOG_WARN, [HF_LOG_ERROR] = LOG_ERROR};
    return levels[level];
}

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    return log_is_on(level_of(level));
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    char said[LOG_QUOTE_MAX], jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    log_event(level_of(level), "job_says", "jid=%s class=%s text=%s", log_value(job->jid, jid),
              log_value(job->class_name, class_name), log_value(text, said));
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], quoted[LOG_QUOTE_MAX], text[LOG_LINE_MAX / 2] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *value = log_value(fields[i].value, quoted);
        if (used + strlen(fields[i].key) + strlen(value) + sizeof " =" > sizeof text)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, " %s=%s", fields[i].key, value);
    }
    log_event(level_of(level), "job_event", "event=%s jid=%s class=%s%s", name, log_value(job->jid, jid),
              log_value(job->class_name, class_name), text);
}

static bool link_progress(struct hf_job *job, const char *json)
{
    struct slot *slot = slot_of_job(job);
    return slot->progress != NULL && job_progress_put(&slot->progress->reported, json);
}

static const struct job_link slot_link = {
    .verify = link_verify,
    .descriptor = link_descriptor,
    .hears = link_hears,
    .log = link_log,
    .event = link_event,
    .progress = link_progress,
};

/* --- what a run leaves behind ------------------------------------------------------------------------------------- */

/* What a large one needed is given back. */
enum { TEXT_KEPT_MAX = 64 * 1024 };

static void buffer_empty(struct buffer *buffer)
{
    if (buffer->capacity > TEXT_KEPT_MAX)
        buffer_fini(buffer);
    buffer_clear(buffer);
}

void slot_outcome_clear(struct slot *slot)
{
    follow_ups_clear(&slot->follow_ups);
    buffer_empty(&slot->follow_ups.texts);
    buffer_empty(&slot->result_record);
}

static bool follow_ups_take(struct slot *slot, struct error *error)
{
    const struct job_outcome *outcome = &slot->job.outcome;
    if (outcome->follow_up_count == 0)
        return true;
    if (slot->flow.committed)
        return error_set(error,
                         "the task runs at most once and had ended before it ran, so nothing can follow from it");
    struct follow_up_parent parent = {
        .jid = slot->jid, .queue = slot->queue, .traceparent = slot->job.traceparent, .limits = slot->worker->limits};
    return follow_ups_read(&slot->follow_ups, &parent, outcome->follow_ups, outcome->follow_up_count,
                           queue_now(slot->worker->queue), error);
}

static bool outcome_take(struct slot *slot)
{
    const struct job_outcome *outcome = &slot->job.outcome;
    struct error error = ERROR_NONE;
    slot_outcome_clear(slot);
    if (!follow_ups_take(slot, &error)) {
        slot_outcome_refuse(slot, error.text);
        return false;
    }
    if (outcome->has_result && slot->rules.result_ttl_ns > 0)
        task_result_write(slot->jid, slot->envelope.class_name, queue_now(slot->worker->queue),
                          text_span_of(&outcome->result), &slot->result_record);
    slot->flow.task.leaves_more = slot->follow_ups.count > 0 || slot->result_record.length > 0;
    return true;
}

void slot_outcome_refuse(struct slot *slot, const char *reason)
{
    job_outcome_clear(&slot->job.outcome);
    failure_set(&slot->job.outcome.failure, "HF::FollowUpRefused", "%s", reason);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* On a runner. The deadlines are checked as its first act: the lock, or the lease, may have run out while the task
 * waited here. */
static void handler_run(struct work *work)
{
    struct slot *slot = list_owner(work, struct slot, work);
    slot->run_started = instant_now();
    slot->started = job_may_begin(&slot->job);
    if (!slot->started)
        return;
    crash_note_run_begin(slot->number);
    slot->code = job_is_unwanted(&slot->job) ? HF_CANCELLED : job_run(&slot->job, slot->handler);
    slot->run_ended = instant_now();
    crash_note_run_end();
}

enum flow_result slot_failed_result(struct slot *slot)
{
    return run_failed_result(&slot->envelope, &slot->rules, queue_now(slot->worker->queue), &slot->outcome_reason);
}

static enum flow_result run_result(struct slot *slot)
{
    struct run_end end = {.job = &slot->job,
                          .envelope = &slot->envelope,
                          .rules = &slot->rules,
                          .started = slot->started,
                          .code = slot->code};
    enum flow_result result = run_result_of(&end, queue_now(slot->worker->queue), &slot->outcome_reason);
    return result == FLOW_RUN_OK && !outcome_take(slot) ? slot_failed_result(slot) : result;
}

static bool is_failure(enum flow_result result)
{
    return result == FLOW_RUN_FAILED || result == FLOW_RUN_EXHAUSTED || result == FLOW_RUN_HOPELESS ||
           result == FLOW_RUN_BURIED;
}

/* No serial one is before it any more. */
static void run_go(struct slot *slot)
{
    if (!progress_begin(slot))
        run_submit(slot);
}

static void serial_leave(struct slot *slot)
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
        run_go(serial->running);
}

static enum flow_hold hold_of(const struct slot *slot)
{
    if (!slot->started || job_lock_is_valid(&slot->job))
        return FLOW_HELD;
    return job_lock_loss(&slot->job) == HF_HELD_TOO_LONG ? FLOW_HELD_TOO_LONG : FLOW_LOST;
}

/* If the loop does not know yet how the lock was lost, the clock alone decides. */
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
    if (atomic_load_explicit(&slot->job.run_entry->lost, memory_order_relaxed) != HF_NOT_CANCELLED)
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
    if (slot->hold == FLOW_LOST || slot->flow.task.on_lost != FLOW_ON_LOST_RETRY)
        slot->outcome_reason = NULL; /* on_lost of its class decides */
    return result;
}

/* A run that comes again without being a failure is counted then. */
static void run_count(struct slot *slot, enum flow_result result)
{
    bool requeued = slot->hold != FLOW_HELD && slot->flow.task.on_lost == FLOW_ON_LOST_REQUEUE;
    bool comes_again = result == FLOW_RUN_CANCELLED || result == FLOW_RUN_SNOOZED || requeued;
    if (slot->started && !comes_again)
        slot_observe_run(slot, slot->hold != FLOW_HELD || is_failure(result));
}

/* Also of a run whose lock was lost: that is when a fence has something to refuse. */
static void fenced_off_note(struct slot *slot)
{
    char jid[LOG_QUOTE_MAX], resource[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    bool has_failed = slot->code == HF_FAIL || slot->code == HF_BURY;
    if (!has_failed || slot->resources.count == 0 ||
        strcmp(slot->job.outcome.failure.error_class, "HF::FencedOff") != 0)
        return;
    slot->was_refused = true;
    log_event(LOG_WARN, "write_refused", "jid=%s resource=%s fence=%s reason=%s", log_value(slot->jid, jid),
              log_value(slot->resources.names[0], resource), slot->job.fence,
              log_value(slot->job.outcome.failure.message, reason));
}

static void run_ended(struct slot *slot)
{
    run_entry_close(slot->job.run_entry);
    time_end(slot);
    if (slot->abandoned)
        return;
    if (slot->started)
        fenced_off_note(slot);
    slot->hold = hold_of(slot);
    slot->result = slot->hold == FLOW_HELD ? run_result(slot) : lost_result(slot);
    run_count(slot, slot->result);
    job_finish(&slot->job);
    serial_leave(slot);
    slot->has_ended = true;
    slot->over(slot);
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

static int64_t lock_hold_until(const struct slot *slot)
{
    struct instant until = redlock_lock_hold_until(slot->lock);
    return until.ns != INSTANT_NEVER.ns ? until.ns : 0;
}

/* The queue node has a task again that ended here: it lost its last writes, or the jid was pushed twice. */
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

bool slot_run_start(struct slot *slot)
{
    slot_log_started(slot);
    repeat_tell(slot);
    slot->outcome_reason = NULL; /* a refusal of its lock is past */
    slot->job.class_name = slot->envelope.class_name;
    slot->job.args = slot->envelope.args;
    slot->job.attempt = envelope_attempt(&slot->envelope);
    slot->job.queue = slot->queue;
    slot->job.jid = slot->jid;
    envelope_traceparent(&slot->envelope, slot->job.traceparent);
    slot->job.resources = slot->resources.names;
    slot->job.resource_count = slot->lock != NULL ? slot->resources.count : 0;
    slot->job.backtrace_lines = slot->rules.backtrace;
    slot->job.validity = slot->lock != NULL ? redlock_lock_validity(slot->lock) : NULL;
    atomic_store_explicit(&slot->job.run_entry->hold_until, slot->lock != NULL ? lock_hold_until(slot) : 0,
                          memory_order_relaxed);
    slot->job.checkpoint = NULL;
    slot->job.reports_progress = (slot->handler->flags & HF_PROGRESS) != 0;
    slot->job.keeps_result = slot->rules.result_ttl_ns > 0;
    slot->job.may_push = !slot->rules.at_most_once;
    slot->job.task_limits = slot->worker->limits;
    slot->handed_over = loop_now(slot->worker->loop);
    slot->serial = slot->handler->flags & HF_SERIAL ? serial_of(slot) : NULL;
    if (slot->serial != NULL && slot->serial->running != NULL) {
        list_append(&slot->serial->waiting, &slot->serial_link);
        return false;
    }
    if (slot->serial != NULL)
        slot->serial->running = slot;
    run_go(slot);
    return true;
}

/* --- withdrawing -------------------------------------------------------------------------------------------------- */

/* For the serial ones before it, or for the state of its progress: then it was not submitted. */
bool slot_run_waits(const struct slot *slot)
{
    bool has_to_wait = slot->serial != NULL && slot->serial->running != slot;
    return has_to_wait || (slot->progress != NULL && slot->progress->waits);
}

bool slot_run_withdraw(struct slot *slot)
{
    if (!flow_may_withdraw(&slot->flow) || (!slot_run_waits(slot) && !run_unsubmit(slot)))
        return false;
    serial_leave(slot);
    return true;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void isolated_ended(struct isolated_run *run, int code)
{
    struct slot *slot = slot_of(run);
    slot->is_isolated = false;
    slot->run_ended = instant_now();
    slot->started = code != ISOLATION_NOT_STARTED;
    slot->code = code;
    run_ended(slot);
}

static void ran(struct loop_message *message)
{
    run_ended(list_owner(message, struct slot, work.done));
}

void slot_run_init(struct slot *slot, void (*over)(struct slot *slot))
{
    slot->over = over;
    slot->job.link = &slot_link;
    slot->isolated = (struct isolated_run){
        .job = &slot->job, .run_entry = slot->job.run_entry, .rules = &slot->rules, .ended = isolated_ended};
    list_init(&slot->isolated.link);
    loop_timer_init(&slot->timeout, time_is_over);
    slot->work.run = handler_run;
    slot->work.done.deliver = ran;
    list_init(&slot->work.link);
    list_init(&slot->serial_link);
}

void slot_run_fini(struct slot *slot)
{
    if (slot->progress == NULL)
        return;
    iteration_destroy(slot->progress->iteration);
    job_progress_fini(&slot->progress->reported);
    free(slot->progress);
}

void serials_free(struct worker *worker)
{
    for (struct list *link; worker->slots != NULL && (link = list_take_first(&worker->serials)) != NULL;)
        free(list_owner(link, struct serial, link));
}
