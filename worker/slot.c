/* One slot: performs what flow.c decides. A slot stands for one runner: it claims a task, takes the lock on the
 * runner's behalf, hands the task to the runners (slot_run.c), and settles it (slot_moves.c). Runs on the loop. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/random.h"
#include "worker/worker_state.h"

/* --- the claimed task ------------------------------------------------------------------------------------------ */

/* Twice for every task: snprintf would take a twentieth of its time. */
static void text_keep(char *to, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

/* What the task says and cannot be meant so is left out, and that is told. */
static void ignored_tell(const struct slot *slot)
{
    char jid[LOG_QUOTE_MAX];
    if (slot->envelope.ignored != NULL)
        log_event(LOG_WARN, "task_member_ignored", "jid=%s reason=\"%s\"", log_quote(slot->jid, jid),
                  slot->envelope.ignored);
}

/* The text is read; false when it is no task. */
static bool task_read(struct slot *slot)
{
    slot->invalid = ERROR_NONE;
    slot->handler = NULL;
    slot->jid[0] = '\0';
    if (!envelope_parse(&slot->envelope, slot->payload.bytes, slot->payload.length, &slot->worker->limits,
                        &slot->invalid))
        return false;
    if (slot->envelope.jid[0] != '\0')
        text_keep(slot->jid, sizeof slot->jid, slot->envelope.jid);
    else
        envelope_new_jid(slot->jid);
    ignored_tell(slot);
    slot->handler = plugins_find(slot->worker->options.plugins, slot->envelope.class_name);
    const struct config *config = slot->worker->options.config;
    slot->rules = task_rules_of(&slot->envelope, config, slot->handler);
    if (slot->rules.refused_class == NULL && !config_queue_allows(config, slot->queue, slot->envelope.class_name)) {
        slot->rules.refused_class = "HF::ClassNotAllowed";
        slot->rules.refused_reason = "its queue may not run tasks of its class";
    }
    return true;
}

static enum flow_road road_of(enum config_on_lost on_lost)
{
    switch (on_lost) {
    case CONFIG_LOST_RETRY:
        return FLOW_ROAD_RETRY;
    case CONFIG_LOST_REQUEUE:
        return FLOW_ROAD_REQUEUE;
    case CONFIG_LOST_DEAD:
        return FLOW_ROAD_DEAD;
    }
    invariant_unreachable("a road outside its enum");
}

static struct flow_task task_look(struct slot *slot)
{
    const struct task_rules *rules = &slot->rules;
    if (!task_read(slot))
        return (struct flow_task){.is_valid = false};
    struct flow_task task = {.is_valid = true,
                             .is_known = slot->handler != NULL,
                             .is_refused = rules->refused_class != NULL,
                             .is_expired = rules->expiry.us != 0 && task_rules_expired(rules, wall_now()),
                             .is_unique = slot->envelope.unique[0] != '\0'};
    if (!task.is_known)
        return task;
    task.must_lock = rules->must_lock;
    task.wants_lock = rules->mode != CONFIG_MODE_NONE && slot->envelope.resource_count > 0;
    task.on_lost = road_of(rules->on_lost);
    task.at_most_once = rules->at_most_once;
    task.must_open = task.at_most_once || queue_has_cancels(slot->worker->queue);
    return task;
}

static void task_take(struct slot *slot, const char *queue, const char *payload, size_t length)
{
    slot->order = slot->worker->taken++;
    text_keep(slot->queue, sizeof slot->queue, queue);
    buffer_clear(&slot->payload);
    buffer_append(&slot->payload, payload, length);
    failure_clear(&slot->job.failure);
    backtrace_clear(&slot->job.backtrace);
    atomic_store_explicit(&slot->job.asked, HF_NOT_CANCELLED, memory_order_relaxed);
    atomic_store_explicit(&slot->job.lost, HF_NOT_CANCELLED, memory_order_relaxed);
    slot->job.fence[0] = '\0';
    slot->started = false;
    slot->hold = FLOW_HELD;
    slot->fate = NULL;
    if (slot->worker->report.first_claim.ns == 0)
        slot->worker->report.first_claim = loop_now(slot->worker->loop);
    struct flow_task task = task_look(slot);
    slot_perform(slot, flow_claimed(&slot->flow, &task));
}

/* It has been settled: what is told from now on is not about it. An abandoned handler still reads all this. */
static void task_forget(struct slot *slot)
{
    if (slot->abandoned)
        return;
    slot->jid[0] = slot->queue[0] = slot->job.fence[0] = '\0';
    slot->envelope.class_name = "";
    slot->fate = NULL;
    failure_clear(&slot->job.failure);
}

void slot_answered(void *context, unsigned number, enum queue_answer answer, const char *queue, const char *payload,
                   size_t length)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    if (answer != QUEUE_CLAIMED && slot->claims)
        worker->claimed--;
    slot->claims = false;
    switch (answer) {
    case QUEUE_CLAIMED:
        task_take(slot, queue, payload, length);
        worker_wake_idle(worker);
        return;
    case QUEUE_NOTHING:
        task_forget(slot);
        worker->wake_next = 1;
        slot_perform(slot, flow_nothing(&slot->flow));
        return;
    case QUEUE_LOST:
        /* Also when the task had ended here and only its settling came too late: nobody died of it. */
        if (slot->jid[0] != '\0')
            queue_absolve(worker->queue, number, slot->jid);
        slot_perform(slot, flow_claim_lost(&slot->flow));
        return;
    case QUEUE_OPENED:
        slot_perform(slot, flow_opened(&slot->flow));
        return;
    case QUEUE_CANCELLED:
        slot_perform(slot, flow_unwanted(&slot->flow));
        return;
    case QUEUE_KEPT:
    case QUEUE_FULL:
        invariant_unreachable("nobody was parked or skipped");
    }
    invariant_unreachable("an answer outside its enum");
}

/* --- the lock --------------------------------------------------------------------------------------------------- */

static void lock_taken(struct slot *slot)
{
    char jid[LOG_QUOTE_MAX], resource[LOG_QUOTE_MAX];
    uint64_t token = redlock_lock_token(slot->lock);
    if (token != 0)
        snprintf(slot->job.fence, sizeof slot->job.fence, "%" PRIu64, token);
    job_verifier_open(&slot->verifier, slot->lock);
    if (log_is_on(LOG_DEBUG))
        log_event(LOG_DEBUG, "task_locked", "jid=%s slot=%u resource=%s resources=%u fence=%s",
                  log_quote(slot->jid, jid), slot->number, log_quote(slot->envelope.resources[0], resource),
                  slot->envelope.resource_count, token != 0 ? slot->job.fence : "-");
}

static void lock_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock;
    struct slot *slot = context;
    if (event->kind == REDLOCK_EVENT_LOST) {
        /* The handler knows by the clock, the flow asks when the run ends; this is about the reason. */
        slot->loss = event->loss;
        job_lock_lost(&slot->job, event->loss == REDLOCK_LOST_MAX_HOLD ? HF_HELD_TOO_LONG : HF_LOCK_LOST);
    }
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return;
    if (event->answer == REDLOCK_ACQUIRED) {
        report_lock_wait(&slot->worker->report, event, slot->envelope.resources[0]);
        lock_taken(slot);
        slot_perform(slot, flow_locked(&slot->flow));
        return;
    }
    if (event->answer == REDLOCK_NO_QUORUM || event->answer == REDLOCK_INVALID)
        worker_lock_trouble(slot->worker, event->answer, event->reason);
    failure_set(&slot->job.failure, "HF::LockRefused", "%s: %s", slot->envelope.resources[0], event->reason);
    slot_perform(slot, flow_refused(&slot->flow));
}

static void lock_take(struct slot *slot)
{
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    snprintf(owner, sizeof owner, "%.60s:%ld:%u:%.40s", slot->worker->options.config->worker.host, (long)getpid(),
             slot->number, slot->jid);
    struct redlock_terms terms = slot->worker->terms;
    terms.max_hold_ns = slot->rules.max_hold_ns;
    terms.unfenced = slot->rules.unfenced;
    slot->lock = redlock_lock_create(slot->worker->locks, &terms, lock_event, slot);
    bool taken =
        redlock_lock_acquire(slot->lock, &(struct redlock_request){.resources = slot->envelope.resources,
                                                                   .resource_count = slot->envelope.resource_count,
                                                                   .owner = owner});
    invariant(taken); /* the envelope's limits are the lock's */
}

/* The answer to the release is counted by the group; nobody here waits for it. */
static void lock_leave(struct slot *slot)
{
    struct redlock_lock *lock = slot->lock;
    if (lock == NULL)
        return;
    slot->lock = NULL;
    if (!redlock_lock_is_free(lock))
        redlock_lock_release(lock);
    redlock_lock_destroy(lock);
    job_verifier_close(&slot->verifier);
}

static enum log_level ending_level(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DONE:
    case FLOW_PARKED:
    case FLOW_GIVEN_BACK:
        return LOG_DEBUG;
    case FLOW_DISCARDED:
    case FLOW_EXPIRED:
    case FLOW_CANCELLED:
        return LOG_INFO;
    default:
        return LOG_WARN;
    }
}

static const char *ending_reason(const struct slot *slot, enum flow_ending ending)
{
    if (slot->abandoned)
        return "its handler was abandoned"; /* and may be writing into the failure */
    return ending == FLOW_INVALID ? slot->invalid.text : slot->job.failure.message;
}

static void ending_tell(struct slot *slot, enum flow_ending ending)
{
    slot->worker->report.endings[ending]++;
    slot->worker->report.last_ending = loop_now(slot->worker->loop);
    if (!log_is_on(ending_level(ending)))
        return;
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    log_event(ending_level(ending), "task_ended", "ending=%s jid=%s class=%s queue=%s slot=%u%s%s%s%s%s reason=%s",
              flow_ending_name(ending), log_quote(slot->jid, jid),
              log_quote(slot->invalid.text[0] == '\0' ? slot->envelope.class_name : NULL, class_name),
              log_quote(slot->queue, queue), slot->number, slot->job.fence[0] != '\0' ? " fence=" : "", slot->job.fence,
              slot->fate != NULL ? " fate=\"" : "", slot->fate != NULL ? slot->fate : "",
              slot->fate != NULL ? "\"" : "", log_quote(ending_reason(slot, ending), reason));
}

void slot_perform(struct slot *slot, struct flow_step step)
{
    if (step.release)
        lock_leave(slot);
    if (step.ends)
        slot_progress_end(slot, step.ending);
    slot_move(slot, step.move);
    if (step.ends)
        ending_tell(slot, step.ending);
    if (step.lock)
        lock_take(slot);
    if (step.open)
        queue_open(slot->worker->queue, slot->number, slot->jid, slot->flow.task.at_most_once);
    if (step.run)
        slot_run_start(slot);
    if (slot->flow.state == FLOW_IDLE)
        worker_rest(slot->worker, slot);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

void slot_wake(struct slot *slot)
{
    slot_perform(slot, flow_wake(&slot->flow));
}

/* What waits for its turn among the serial ones, or for the state of its progress, was not submitted, so it needs no
 * withdrawing. */
static bool slot_withdraw(struct slot *slot)
{
    if (!flow_may_withdraw(&slot->flow))
        return false;
    bool waits = slot_progress_waits(slot) || (slot->serial != NULL && slot->serial->running != slot);
    if (!waits && !runner_pool_withdraw(slot->worker->pool, &slot->work))
        return false;
    slot_serial_leave(slot);
    return true;
}

void slot_lost(void *context, unsigned number)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    if (!slot->flow.has_task)
        return;
    queue_absolve(worker->queue, number, slot->jid);
    job_cancel(&slot->job, HF_CLAIM_LOST);
    enum flow_state before = slot->flow.state;
    slot->flow.claim_lost = true; /* so that it may be withdrawn, whatever it is */
    slot_perform(slot, flow_claim_gone(&slot->flow, slot_withdraw(slot)));
    if (before == FLOW_LOCKING)
        redlock_lock_release(slot->lock);
}

void slot_cancel(struct slot *slot)
{
    slot->flow.task.is_cancelled = true;
    job_cancel(&slot->job, HF_USER);
}

void slot_stop(struct slot *slot)
{
    enum flow_state before = slot->flow.state;
    bool withdrawn = slot_withdraw(slot);
    if (before == FLOW_IDLE) {
        slot->flow.stopping = true;
        return;
    }
    slot_perform(slot, flow_stop(&slot->flow, withdrawn));
    if (before == FLOW_LOCKING)
        redlock_lock_release(slot->lock);
}

void slot_abandon(struct slot *slot)
{
    slot->abandoned = true;
    slot_perform(slot, flow_abandon(&slot->flow));
}

void slot_init(struct slot *slot, struct worker *worker, unsigned number)
{
    slot->worker = worker;
    slot->number = number;
    job_verifier_init(&slot->verifier, worker->loop, worker->verify_patience_ns);
    slot->work.run = slot_run;
    slot->work.done.deliver = slot_ran;
    list_init(&slot->work.link);
    list_init(&slot->idle_link);
    list_init(&slot->serial_link);
    list_init(&slot->back_link);
}

void slot_fini(struct slot *slot)
{
    job_finish(&slot->job);
    backtrace_clear(&slot->job.backtrace);
    envelope_fini(&slot->envelope);
    buffer_fini(&slot->payload);
}
