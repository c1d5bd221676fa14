/* One slot: performs what flow.c decides. A slot stands for one runner: it claims a task, takes the lock on the
 * runner's behalf, hands the task to the runners, and settles it. Runs on the loop; only slot_run runs on a runner,
 * between the two hand-offs, and touches nothing but the job, the code and the two facts about the run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/random.h"
#include "worker/startup.h"
#include "worker/worker_state.h"

/* A class that nobody serves may be served after a deployment: looked at again soon, without using up a retry. */
#define UNKNOWN_CLASS_DELAY_NS (30 * NS_PER_S)

static void slot_perform(struct slot *slot, const struct flow_step *step);

static void perform(struct slot *slot, struct flow_step step)
{
    slot_perform(slot, &step);
}

/* --- the claimed task ------------------------------------------------------------------------------------------ */

static struct flow_task task_look(struct slot *slot)
{
    struct flow_task task = {0};
    slot->invalid = ERROR_NONE;
    slot->handler = NULL;
    slot->jid[0] = '\0';
    task.is_valid = envelope_parse(&slot->envelope, slot->payload.bytes, slot->payload.length, &slot->worker->limits,
                                   &slot->invalid);
    if (!task.is_valid)
        return task;
    if (slot->envelope.jid[0] != '\0')
        snprintf(slot->jid, sizeof slot->jid, "%s", slot->envelope.jid);
    else
        envelope_new_jid(slot->jid);
    slot->handler = plugins_find(slot->worker->options.plugins, slot->envelope.class_name);
    task.is_known = slot->handler != NULL;
    if (!task.is_known)
        return task;
    enum config_lock_mode mode = startup_lock_mode(slot->worker->options.config, slot->handler);
    task.must_lock = mode == CONFIG_LOCK_REQUIRED;
    task.wants_lock = mode != CONFIG_LOCK_NONE && slot->envelope.resource_count > 0;
    return task;
}

static void task_take(struct slot *slot, const char *queue, const char *payload, size_t length)
{
    slot->order = slot->worker->taken++;
    snprintf(slot->queue, sizeof slot->queue, "%s", queue);
    buffer_clear(&slot->payload);
    buffer_append(&slot->payload, payload, length);
    failure_clear(&slot->job.failure);
    slot->started = false;
    if (slot->worker->report.first_claim.ns == 0)
        slot->worker->report.first_claim = loop_now(slot->worker->loop);
    struct flow_task task = task_look(slot);
    perform(slot, flow_claimed(&slot->flow, &task));
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
        worker->wake_next = 1;
        perform(slot, flow_nothing(&slot->flow));
        return;
    case QUEUE_LOST:
        perform(slot, flow_claim_lost(&slot->flow));
        return;
    }
    invariant_unreachable("an answer outside its enum");
}

/* --- the lock --------------------------------------------------------------------------------------------------- */

static void lock_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock;
    struct slot *slot = context;
    if (event->kind != REDLOCK_EVENT_ANSWER)
        return; /* a loss reaches the handler through the deadline, and the flow when the run ends */
    if (event->answer == REDLOCK_ACQUIRED) {
        report_lock_wait(&slot->worker->report, event, slot->envelope.resources[0]);
        perform(slot, flow_locked(&slot->flow));
        return;
    }
    if (event->answer == REDLOCK_NO_QUORUM)
        worker_no_quorum(slot->worker);
    failure_set(&slot->job.failure, "HF::LockRefused", "%s: %s", slot->envelope.resources[0], event->reason);
    perform(slot, flow_refused(&slot->flow));
}

static void lock_take(struct slot *slot)
{
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    snprintf(owner, sizeof owner, "%.60s:%ld:%u:%.40s", slot->worker->options.config->worker.host, (long)getpid(),
             slot->number, slot->jid);
    slot->lock = redlock_lock_create(slot->worker->locks, &slot->worker->terms, lock_event, slot);
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
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

/* The handler's own opinion of the arguments, if it has one. */
static bool arguments_pass(struct slot *slot)
{
    char reason[256] = "";
    const struct text_span *args = &slot->envelope.args;
    if (slot->handler->check == NULL || slot->handler->check(args->bytes, args->length, reason, sizeof reason))
        return true;
    reason[sizeof reason - 1] = '\0';
    failure_set(&slot->job.failure, "HF::BadArguments", "%s", reason);
    return false;
}

/* On a runner. The deadline is checked as its first act: the lock may have run out while the task waited here. */
static void slot_run(struct work *work)
{
    struct slot *slot = list_owner(work, struct slot, work);
    slot->run_started = instant_now();
    slot->started = job_lock_is_valid(&slot->job);
    if (slot->started)
        slot->code =
            arguments_pass(slot) ? slot->handler->run(&slot->job, plugin_handler_state(slot->handler)) : HF_BURY;
}

static enum flow_result failed_result(struct slot *slot)
{
    switch (failure_fate(&slot->envelope)) {
    case FAILURE_RETRY:
        return FLOW_RUN_FAILED;
    case FAILURE_DEAD:
        return FLOW_RUN_EXHAUSTED;
    case FAILURE_VANISHES:
        return FLOW_RUN_HOPELESS;
    }
    invariant_unreachable("a fate outside its enum");
}

static enum flow_result run_result(struct slot *slot)
{
    if (!slot->started)
        return FLOW_RUN_NOT_STARTED;
    switch (slot->code) {
    case HF_OK:
        return FLOW_RUN_OK;
    case HF_DISCARD:
        return FLOW_RUN_DISCARDED;
    case HF_BURY:
        failure_set(&slot->job.failure, "HF::Buried", "its handler buried it");
        return FLOW_RUN_BURIED;
    case HF_CANCELLED:
        if (job_was_cancelled(&slot->job))
            return FLOW_RUN_CANCELLED;
        failure_set(&slot->job.failure, "HF::BadResult", "its handler says that it was cancelled, and it was not");
        return failed_result(slot);
    case HF_FAIL:
        failure_set(&slot->job.failure, "HF::Failed", "its handler failed without giving a reason");
        return failed_result(slot);
    default:
        failure_set(&slot->job.failure, "HF::BadResult", "its handler returned %d, which is no result", slot->code);
        return failed_result(slot);
    }
}

static void slot_submit(struct slot *slot)
{
    runner_pool_submit(slot->worker->pool, &slot->work);
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
        slot_submit(serial->running);
}

static void slot_ran(struct loop_message *message)
{
    struct slot *slot = list_owner(message, struct slot, work.done);
    struct worker *worker = slot->worker;
    bool lost = slot->started && !job_lock_is_valid(&slot->job);
    worker->report.runs += slot->started;
    if (slot->started)
        histogram_record(&worker->report.run, instant_since(slot->run_started, loop_now(worker->loop)) / NS_PER_US);
    enum flow_result result = run_result(slot);
    if (lost) {
        failure_clear(&slot->job.failure);
        failure_set(&slot->job.failure, "HF::LockLost", "its lock was lost while it ran, so its result was refused");
    }
    job_finish(&slot->job);
    serial_leave(slot);
    perform(slot, flow_ran(&slot->flow, result, lost));
}

static struct serial *serial_of(struct slot *slot)
{
    for (unsigned i = 0; i < slot->worker->serial_count; i++)
        if (slot->worker->serials[i].handler == slot->handler)
            return &slot->worker->serials[i];
    return NULL;
}

static void run_start(struct slot *slot)
{
    slot->job.envelope = &slot->envelope;
    slot->job.queue = slot->queue;
    slot->job.jid = slot->jid;
    slot->job.deadline = slot->lock != NULL ? redlock_lock_deadline(slot->lock) : NULL;
    slot->job.must_stop = &slot->worker->must_stop;
    slot->started = false;
    slot->serial = slot->handler->flags & HF_SERIAL ? serial_of(slot) : NULL;
    if (slot->serial != NULL && slot->serial->running != NULL) {
        list_append(&slot->serial->waiting, &slot->serial_link);
        return;
    }
    if (slot->serial != NULL)
        slot->serial->running = slot;
    slot_submit(slot);
}

/* --- moves ------------------------------------------------------------------------------------------------------ */

static void record_move(struct slot *slot, enum queue_place place, int64_t delay_ns, bool counts)
{
    struct buffer *text = &slot->worker->text;
    buffer_clear(text);
    failure_write(&slot->job.failure, &slot->envelope, slot->queue, slot->jid, counts, wall_now(), text);
    queue_postpone(slot->worker->queue, slot->number, place, delay_ns, text->bytes, text->length);
}

static void task_retry(struct slot *slot)
{
    if (slot->handler != NULL) {
        record_move(slot, QUEUE_RETRY, failure_delay_ns(&slot->envelope), true);
        return;
    }
    failure_set(&slot->job.failure, "HF::UnknownClass", "no plugin of this worker serves the class %s",
                slot->envelope.class_name);
    record_move(slot, QUEUE_RETRY, UNKNOWN_CLASS_DELAY_NS + random_between(0, UNKNOWN_CLASS_DELAY_NS / 3), false);
}

/* The entry must say where it came from, or it would be promoted to the default queue; and it must have a jid, or two
 * tasks of the same text would be one entry of the sorted set. */
static void origin_write(struct slot *slot, struct buffer *out)
{
    struct buffer name = {0}, id = {0};
    envelope_append_string(&name, slot->queue, strlen(slot->queue));
    envelope_append_string(&id, slot->jid, strlen(slot->jid));
    envelope_rewrite(&slot->envelope,
                     (struct envelope_change[]){{"queue", {name.bytes, name.length}}, {"jid", {id.bytes, id.length}}},
                     2, out);
    buffer_fini(&name);
    buffer_fini(&id);
}

/* Contention is no failure: the payload goes as it is, if it names its queue and itself. */
static void task_park(struct slot *slot)
{
    int64_t delay_ns = slot->worker->options.config->lock.park_delay_ns;
    struct buffer *text = &slot->worker->text;
    buffer_clear(text);
    if (strcmp(slot->envelope.queue, slot->queue) == 0 && slot->envelope.jid[0] != '\0')
        buffer_append(text, slot->payload.bytes, slot->payload.length);
    else
        origin_write(slot, text);
    queue_postpone(slot->worker->queue, slot->number, QUEUE_SCHEDULE, delay_ns + random_between(0, delay_ns / 2),
                   text->bytes, text->length);
}

static void task_bury(struct slot *slot)
{
    struct buffer *text = &slot->worker->text;
    if (slot->handler != NULL) {
        failure_set(&slot->job.failure, "HF::NoResource", "the class %s needs a lock and the task names no resource",
                    slot->envelope.class_name);
        record_move(slot, QUEUE_DEAD, 0, slot->started);
        return;
    }
    buffer_clear(text);
    envelope_write_invalid(slot->payload.bytes, slot->payload.length, slot->queue, slot->invalid.text, wall_now(),
                           text);
    queue_postpone(slot->worker->queue, slot->number, QUEUE_DEAD, 0, text->bytes, text->length);
}

/* Each goes back to the head of its queue, so what was claimed last has to go first: a worker that stops gives back
 * several in one turn, and leaves the queue as it found it. */
static void slot_give_back(struct slot *slot)
{
    struct worker *worker = slot->worker;
    struct list *place = worker->given_back.next;
    while (place != &worker->given_back && list_owner(place, struct slot, back_link)->order > slot->order)
        place = place->next;
    list_append(place, &slot->back_link);
    loop_at_turn_end(worker->loop, LOOP_GATHER, &worker->give_back);
}

void slots_give_back(struct loop_hook *hook)
{
    struct worker *worker = list_owner(hook, struct worker, give_back);
    for (struct list *link; (link = list_take_first(&worker->given_back)) != NULL;) {
        struct slot *slot = list_owner(link, struct slot, back_link);
        queue_give_back(worker->queue, slot->number, slot->queue);
    }
}

static void move_perform(struct slot *slot, enum flow_move move)
{
    struct worker *worker = slot->worker;
    switch (move) {
    case FLOW_MOVE_NONE:
        return;
    case FLOW_MOVE_CLAIM:
    case FLOW_MOVE_FINISH:
        slot->claims = move == FLOW_MOVE_CLAIM && worker_may_claim(worker);
        worker->claimed += slot->claims;
        worker_listen(worker);
        queue_turn(worker->queue, slot->number, slot->claims);
        return;
    case FLOW_MOVE_RETRY:
        task_retry(slot);
        return;
    case FLOW_MOVE_PARK:
        task_park(slot);
        return;
    case FLOW_MOVE_BURY:
        task_bury(slot);
        return;
    case FLOW_MOVE_GIVE_BACK:
        slot_give_back(slot);
        return;
    }
    invariant_unreachable("a move outside its enum");
}

static enum log_level ending_level(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DONE:
    case FLOW_PARKED:
    case FLOW_GIVEN_BACK:
        return LOG_DEBUG;
    case FLOW_DISCARDED:
        return LOG_INFO;
    default:
        return LOG_WARN;
    }
}

static const char *ending_reason(const struct slot *slot, enum flow_ending ending)
{
    return ending == FLOW_INVALID ? slot->invalid.text : slot->job.failure.message;
}

static void ending_tell(struct slot *slot, enum flow_ending ending)
{
    slot->worker->report.endings[ending]++;
    slot->worker->report.last_ending = loop_now(slot->worker->loop);
    if (!log_is_on(ending_level(ending)))
        return;
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX], queue[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    log_event(ending_level(ending), "task_ended", "ending=%s jid=%s class=%s queue=%s slot=%u reason=%s",
              flow_ending_name(ending), log_quote(slot->jid, jid),
              log_quote(slot->invalid.text[0] == '\0' ? slot->envelope.class_name : NULL, class_name),
              log_quote(slot->queue, queue), slot->number, log_quote(ending_reason(slot, ending), reason));
}

static void slot_perform(struct slot *slot, const struct flow_step *step)
{
    if (step->release)
        lock_leave(slot);
    move_perform(slot, step->move);
    if (step->ends)
        ending_tell(slot, step->ending);
    if (step->lock)
        lock_take(slot);
    if (step->run)
        run_start(slot);
    if (slot->flow.state == FLOW_IDLE)
        worker_rest(slot->worker, slot);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

void slot_wake(struct slot *slot)
{
    perform(slot, flow_wake(&slot->flow));
}

/* What waits for its turn among the serial ones was not submitted, so it needs no withdrawing. */
static bool slot_withdraw(struct slot *slot)
{
    bool waits = slot->serial != NULL && slot->serial->running != slot;
    if (!waits && !runner_pool_withdraw(slot->worker->pool, &slot->work))
        return false;
    serial_leave(slot);
    return true;
}

void slot_stop(struct slot *slot)
{
    enum flow_state before = slot->flow.state;
    bool withdrawn = before == FLOW_READY && slot_withdraw(slot);
    if (before == FLOW_IDLE) {
        slot->flow.stopping = true;
        return;
    }
    perform(slot, flow_stop(&slot->flow, withdrawn));
    if (before == FLOW_LOCKING)
        redlock_lock_release(slot->lock);
}

void slot_init(struct slot *slot, struct worker *worker, unsigned number)
{
    slot->worker = worker;
    slot->number = number;
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
    envelope_fini(&slot->envelope);
    buffer_fini(&slot->payload);
}
