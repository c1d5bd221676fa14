/* One slot: performs what flow.c decides. A slot stands for a runner, which it shares with its partner: it claims a
 * task (slot_successor.c), takes the lock on the runner's behalf (slot_lock.c), has it run (slot_run.c) by a thread
 * or by a child process, and settles it (slot_moves.c). Runs on the loop. */
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/random.h"
#include "queue/waiting.h"
#include "worker/locks/contention.h"
#include "worker/presence/announced_terms.h"
#include "worker/worker_state.h"

static void slot_perform(struct slot *slot, struct flow_step step);

/* --- the pair ----------------------------------------------------------------------------------------------------- */

static void slot_wake(struct slot *slot)
{
    slot_perform(slot, flow_wake(&slot->flow));
}

/* One sign of work wakes one slot, the next two, then four: a single task costs one claim, a burst a few cycles. */
void worker_wake_idle(struct worker *worker)
{
    if (!worker_may_claim(worker))
        return;
    for (unsigned n = worker->wake_next; n > 0 && worker->idle_count > 0 && worker_may_claim(worker); n--) {
        worker->idle_count--;
        slot_wake(list_owner(list_take_first(&worker->idle), struct slot, idle_link));
    }
    worker->wake_next *= 2;
    if (worker->wake_next > worker->runner_count)
        worker->wake_next = worker->runner_count;
}

/* If its task holds a lock for which others wait. */
static void successor_seek(struct slot *slot)
{
    struct slot *partner = slot->partner;
    if (partner->flow.state != FLOW_IDLE || !slot_may_have_successor(slot))
        return;
    partner->is_successor = true;
    slot_wake(partner);
}

/* A task was parked behind a lock that may be held here. */
static void successors_seek(struct worker *worker, const char *list)
{
    if (contention_taken(worker->contention, list) == 0)
        return;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->has_lock && strcmp(slot->waiting.names[0], list) == 0)
            successor_seek(slot);
    }
}

static void slot_rest(struct slot *slot)
{
    struct worker *worker = slot->worker;
    struct slot *partner = slot->partner;
    slot->is_successor = false;
    if (partner->flow.state != FLOW_IDLE) {
        successor_seek(partner);
        return;
    }
    if ((slot->claim_deferred || partner->claim_deferred) && worker_may_claim(worker)) {
        slot->claim_deferred = partner->claim_deferred = false;
        slot_wake(slot);
        return;
    }
    if (!list_is_empty(&partner->idle_link) || !list_is_empty(&slot->idle_link))
        return;
    list_prepend(&worker->idle, &slot->idle_link);
    worker->idle_count++;
    worker_listen(worker);
    worker->rested(worker);
}

/* Settles a task whose run has ended, if that was put off; else nothing happens. */
static void settle(struct slot *slot)
{
    if (!slot->has_ended)
        return;
    slot->has_ended = false;
    slot_perform(slot, flow_ran(&slot->flow, slot->result, slot->hold));
}

/* --- the claimed task --------------------------------------------------------------------------------------------- */

/* Twice for every task: snprintf would take a twentieth of its time. */
static void text_keep(char *to, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

static void resources_find(struct slot *slot)
{
    slot->bad_resources = ERROR_NONE;
    if (task_resources_resolve(&slot->resources, &slot->envelope, &slot->rules, slot->worker->class_resources,
                               &slot->bad_resources) != TASK_RESOURCES_BAD ||
        slot->rules.refused_class != NULL)
        return;
    slot->rules.refused_class = slot->resources.fault;
    slot->rules.refused_reason = slot->bad_resources.text;
}

/* Parses the payload; false if it is not a task. */
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
    char jid[LOG_QUOTE_MAX];
    if (slot->envelope.ignored != NULL)
        log_event(LOG_WARN, "task_member_ignored", "jid=%s reason=\"%s\"", log_value(slot->jid, jid),
                  slot->envelope.ignored);
    slot->handler = plugins_find(slot->worker->options.plugins, slot->envelope.class_name);
    const struct config *config = slot->worker->options.config;
    slot->rules = task_rules_of(&slot->envelope, config, slot->handler);
    if (slot->rules.refused_class == NULL && !config_queue_allows(config, slot->queue, slot->envelope.class_name)) {
        slot->rules.refused_class = "HF::ClassNotAllowed";
        slot->rules.refused_reason = "its queue may not run tasks of its class";
    }
    resources_find(slot);
    return true;
}

static enum flow_conflict conflict_of(enum config_on_conflict on_conflict)
{
    switch (on_conflict) {
    case CONFIG_CONFLICT_BY_HANDLER: /* merged by now */
    case CONFIG_CONFLICT_PARK:
        return FLOW_CONFLICT_PARK;
    case CONFIG_CONFLICT_SKIP:
        return FLOW_CONFLICT_SKIP;
    case CONFIG_CONFLICT_DELAY:
        return FLOW_CONFLICT_DELAY;
    case CONFIG_CONFLICT_FAIL:
        return FLOW_CONFLICT_FAIL;
    }
    invariant_unreachable("a conflict outside its enum");
}

static enum flow_crowd crowd_of(enum config_on_crowd on_crowd)
{
    switch (on_crowd) {
    case CONFIG_CROWD_DEAD:
        return FLOW_CROWD_DEAD;
    case CONFIG_CROWD_DROP:
        return FLOW_CROWD_DROP;
    case CONFIG_CROWD_DELAY:
        return FLOW_CROWD_DELAY;
    }
    invariant_unreachable("a crowd outside its enum");
}

static enum flow_on_lost on_lost_of(enum config_on_lost on_lost)
{
    switch (on_lost) {
    case CONFIG_LOST_RETRY:
        return FLOW_ON_LOST_RETRY;
    case CONFIG_LOST_REQUEUE:
        return FLOW_ON_LOST_REQUEUE;
    case CONFIG_LOST_DEAD:
        return FLOW_ON_LOST_DEAD;
    }
    invariant_unreachable("an on_lost outside its enum");
}

/* What it locks, and what it has to wait for. */
static void task_contend(struct slot *slot, struct flow_task *task)
{
    const struct task_rules *rules = &slot->rules;
    bool shares = rules->share < slot->worker->runner_count;
    waiting_names_set(&slot->waiting, slot->resources.names, task->wants_lock ? slot->resources.count : 0,
                      shares ? slot->envelope.class_name : NULL, rules->limit > 1);
    slot_successor_judge(slot);
    task->on_conflict = conflict_of(rules->on_conflict);
    task->on_crowd = crowd_of(rules->on_crowd);
    task->fails_open = rules->fails_open;
    task->ran_before = slot->envelope.was_retried;
    task->must_wait = slot_must_wait(slot);
    /* What waits for both waits for the lock: a share of the runners is of no use before. */
    bool waits = task->must_wait && task->on_conflict == FLOW_CONFLICT_PARK;
    task->lacks_runner = !waits && slot_lacks_runner(slot);
    if (!task->must_wait || task->on_conflict != FLOW_CONFLICT_FAIL)
        return;
    failure_set(&slot->job.outcome.failure, "HF::LockRefused", "%s: %s", waiting_names_resource(slot->wait.list),
                rules->limit > 1 ? "as many tasks as may hold it do" : "another task holds it");
    task->if_failed = slot_failed_result(slot);
}

/* Without a majority of the lock nodes nobody knows their group, and nothing can be locked. */
static bool may_serve(const struct slot *slot, bool wants_lock)
{
    struct worker *worker = slot->worker;
    bool locks = wants_lock && (worker->knows_group || !slot->rules.fails_open);
    if (locks && !worker->knows_group)
        slot_lock_trouble_tell(worker, REDLOCK_NO_QUORUM, "no majority of the lock nodes has told its group");
    return announced_terms_allow(worker->announced, slot->envelope.class_name, locks);
}

static struct flow_task task_look(struct slot *slot)
{
    const struct task_rules *rules = &slot->rules;
    waiting_names_clear(&slot->waiting);
    if (!task_read(slot))
        return (struct flow_task){.is_valid = false};
    struct wall_time now = queue_now(slot->worker->queue);
    struct flow_task task = {.is_valid = true,
                             .is_known = slot->handler != NULL,
                             .is_refused = rules->refused_class != NULL,
                             .is_expired = task_rules_expired(rules, now),
                             .is_unique = slot->envelope.unique[0] != '\0'};
    if (!task.is_known)
        return task;
    task.must_lock = rules->must_lock;
    task.wants_lock = rules->mode != CONFIG_MODE_NONE && slot->resources.count > 0;
    task.is_put_off = slot->is_put_off = !may_serve(slot, task.wants_lock);
    task.on_lost = on_lost_of(rules->on_lost);
    task.at_most_once = rules->at_most_once;
    if (rules->mode != CONFIG_MODE_NONE && slot->resources.count == 0 && rules->refused_class == NULL)
        slot_log_unlocked(slot);
    bool was_successor = slot->is_successor;
    task_contend(slot, &task);
    task.must_confirm = slot->is_successor;
    task.must_open =
        task.at_most_once || queue_has_cancels(slot->worker->queue) || (was_successor && !slot->is_successor);
    return task;
}

static void task_take(struct slot *slot, const char *queue, const char *payload, size_t length)
{
    slot->order = slot->worker->taken++;
    slot_observe_claim(slot);
    text_keep(slot->queue, sizeof slot->queue, queue);
    buffer_clear(&slot->payload);
    buffer_append(&slot->payload, payload, length);
    job_outcome_clear(&slot->job.outcome);
    run_entry_clear(slot->job.run_entry);
    slot->job.fence[0] = '\0';
    slot->job.seat = 0;
    slot->started = slot->has_ended = slot->was_told = slot->was_refused = false;
    slot->hold = FLOW_HELD;
    slot->held_ns = 0;
    slot->locked.at.us = slot->locked.left_at.us = 0;
    slot->outcome_reason = NULL;
    slot->unserved_at = (struct wall_time){0};
    struct flow_task task = task_look(slot);
    /* A claim of a process that must be listed anew may be older than what others serve by now. */
    task.comes_late = slot->worker->quiet || !queue_is_listed(slot->worker->queue);
    slot_perform(slot, flow_claimed(&slot->flow, &task));
    settle(slot->partner); /* if it waited for this answer */
}

/* The task is settled, so later events are not about it. An abandoned handler still reads all this. */
static void task_forget(struct slot *slot)
{
    if (slot->abandoned)
        return;
    slot->jid[0] = slot->queue[0] = slot->job.fence[0] = '\0';
    slot->envelope.class_name = "";
    slot->outcome_reason = NULL;
    failure_clear(&slot->job.outcome.failure);
}

/* Its waiting list is full. */
static void waiters_exceeded(struct slot *slot)
{
    failure_clear(&slot->job.outcome.failure);
    failure_set(&slot->job.outcome.failure, "HF::TooManyWaiters", "%s: %u tasks wait for it already",
                waiting_names_resource(slot->wait.list), slot->rules.waiters_max);
    slot_perform(slot, flow_crowded(&slot->flow));
}

/* The slot is empty on the node. A task that was parked or skipped, or left something behind, is logged before it is
 * forgotten. */
static void slot_emptied(struct slot *slot)
{
    bool is_parked = slot->flow.state == FLOW_PARKING;
    bool is_told = !is_parked && slot->flow.state != FLOW_SKIPPING && slot->flow.state != FLOW_FINISHING &&
                   slot->flow.state != FLOW_UNSERVED;
    slot_successor_missing(slot);
    if (is_parked)
        successors_seek(slot->worker, slot->wait.list);
    if (is_told)
        task_forget(slot);
    slot->worker->wake_next = 1;
    slot_perform(slot, flow_nothing(&slot->flow));
    if (!is_told)
        task_forget(slot);
    settle(slot->partner);
}

static void claim_lost(struct slot *slot)
{
    /* Also if the task had ended here and only its settling came too late: that was not a crash. */
    if (slot->jid[0] != '\0')
        queue_uncount_recovery(slot->worker->queue, slot->number, slot->jid);
    slot_perform(slot, flow_claim_lost(&slot->flow));
    settle(slot->partner);
}

/* Of a park: the cached holder is outdated, because the lock was freed since. */
static void task_kept(struct slot *slot)
{
    if (slot->flow.state == FLOW_PARKING)
        contention_forget_held(slot->worker->contention, slot->wait.list);
    bool must_wait = slot_must_wait(slot) || slot_lacks_runner(slot);
    slot_perform(slot, flow_not_yet(&slot->flow, must_wait));
}

/* A key to which a follow-up belongs holds a value of another program. */
static void finish_refused(struct slot *slot)
{
    slot_outcome_refuse(slot, "the key of a queue to which one of its follow-up tasks goes holds something else");
    slot_perform(slot, flow_finish_refused(&slot->flow, slot_failed_result(slot)));
}

void slot_answered(void *context, unsigned number, enum queue_answer answer, const char *queue, const char *payload,
                   size_t length)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    if (answer != QUEUE_CLAIMED && slot->claims) {
        worker->claimed--;
        worker_listen(worker);
    }
    slot->claims = false;
    slot_waiters_note(slot);
    switch (answer) {
    case QUEUE_CLAIMED:
        task_take(slot, queue, payload, length);
        worker_wake_idle(worker);
        return;
    case QUEUE_NOTHING:
        slot_emptied(slot);
        return;
    case QUEUE_KEPT:
        task_kept(slot);
        return;
    case QUEUE_FULL:
        waiters_exceeded(slot);
        return;
    case QUEUE_REFUSED:
        if (slot->flow.state == FLOW_UNSERVED)
            slot_perform(slot, flow_unserved(&slot->flow, slot_failed_result(slot)));
        else
            finish_refused(slot);
        return;
    case QUEUE_LOST:
        claim_lost(slot);
        return;
    case QUEUE_OPENED:
        slot_perform(slot, flow_opened(&slot->flow));
        return;
    case QUEUE_CANCELLED:
        slot_perform(slot, flow_unwanted(&slot->flow));
        return;
    }
    invariant_unreachable("an answer outside its enum");
}

/* --- the lock and the run ----------------------------------------------------------------------------------------- */

static void lock_told(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock;
    struct slot *slot = context;
    if (event->kind == REDLOCK_EVENT_LOST) {
        slot_lock_lost(slot, event->loss);
        settle(slot); /* if it only waits for its successor: there is nothing to hand on */
        slot_successor_dismiss(slot);
    }
    if (event->kind == REDLOCK_EVENT_DANGER)
        slot_warn(slot);
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return;
    slot_observe_answer(slot, event);
    if (event->answer == REDLOCK_ACQUIRED) {
        slot_lock_taken(slot, event);
        slot_perform(slot, flow_locked(&slot->flow));
        return;
    }
    slot_perform(slot, flow_refused(&slot->flow, slot_lock_refused(slot, event)));
    slot_successor_send_back(slot); /* after that, so that it is parked behind this one */
}

static void run_over(struct slot *slot)
{
    if (!slot_waits_for_successor(slot))
        settle(slot);
}

/* --- endings ------------------------------------------------------------------------------------------------------ */

static void slot_confirm(struct slot *slot)
{
    if (slot->flow.task.must_confirm)
        slot_successor_confirm(slot);
    else
        queue_look(slot->worker->queue);
}

static void slot_perform(struct slot *slot, struct flow_step wanted)
{
    struct worker *worker = slot->worker;
    bool is_leased = run_table_is_leased(worker->options.run_table, loop_now(worker->loop));
    struct flow_step step = flow_guard(&slot->flow, wanted, is_leased);
    if (step.release)
        slot_lock_leave(slot, &step);
    if (step.ends) {
        slot->is_successor = false;
        slot_progress_end(slot, step.ending);
    }
    slot_move(slot, step.move);
    if (step.ends)
        slot_ending_tell(slot, step.ending);
    if (step.ends && step.ending == FLOW_CLAIM_LOST) /* the empty slot may be lost as well: that is not about it */
        task_forget(slot);
    if (step.lock)
        slot_lock_take(slot, lock_told);
    if (step.confirm || step.open || step.run)
        slot_runner_take(slot);
    if (step.confirm)
        slot_confirm(slot);
    if (step.open)
        queue_open(worker->queue, slot->number, slot->jid, slot->flow.task.at_most_once);
    if (step.run && slot_run_start(slot))
        successor_seek(slot);
    if (slot->flow.state == FLOW_IDLE)
        slot_rest(slot);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void slot_confirmed(void *context, unsigned number)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    slot_perform(slot, flow_confirmed(&slot->flow));
}

void slots_doubted(struct worker *worker)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        slot_claim_doubt(slot);
        if (slot->flow.state == FLOW_CONFIRMING)
            slot_perform(slot, flow_doubted(&slot->flow));
    }
}

void slots_renewed(struct worker *worker)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->flow.state == FLOW_CONFIRMING)
            slot_perform(slot, flow_renewed(&slot->flow));
    }
}

void slot_lost(void *context, unsigned number)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    if (!slot->flow.has_task)
        return;
    queue_uncount_recovery(worker->queue, number, slot->jid);
    job_cancel(&slot->job, HF_CLAIM_LOST);
    slot_interrupt(slot);
    enum flow_state before = slot->flow.state;
    slot->flow.claim_lost = true; /* so that it may be withdrawn, whatever it is */
    slot_perform(slot, flow_claim_gone(&slot->flow, slot_run_withdraw(slot)));
    if (before == FLOW_LOCKING)
        redlock_lock_release(slot->lock);
}

void slot_stop(struct slot *slot)
{
    settle(slot); /* it waits for a successor no longer */
    enum flow_state before = slot->flow.state;
    bool withdrawn = slot_run_withdraw(slot);
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
    if (slot->has_ended) { /* it only waits for its successor, whose claim is not answered */
        settle(slot);
        return;
    }
    slot->abandoned = true;
    slot_perform(slot, flow_abandon(&slot->flow));
}

void slot_init(struct slot *slot, struct worker *worker, unsigned number)
{
    slot->worker = worker;
    slot->number = number;
    slot->partner = &worker->slots[(number + worker->runner_count) % worker->slot_count];
    slot->job.run_table = worker->options.run_table;
    slot->job.run_entry = run_table_entry(worker->options.run_table, number);
    slot_run_init(slot, run_over);
    slot_lock_init(slot);
    slot_claim_init(slot);
    list_init(&slot->idle_link);
    list_init(&slot->back_link);
}

void slot_fini(struct slot *slot)
{
    loop_timer_clear(slot->worker->loop, &slot->keep);
    job_finish(&slot->job);
    job_outcome_fini(&slot->job.outcome);
    envelope_fini(&slot->envelope);
    task_resources_fini(&slot->resources);
    waiting_names_fini(&slot->waiting);
    buffer_fini(&slot->payload);
    follow_ups_fini(&slot->follow_ups);
    buffer_fini(&slot->result_record);
}
