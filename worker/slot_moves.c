/* How the task of a slot leaves it: what is written into its record, which arrow takes it where, and what is told of
 * its end. On the loop.
 *
 * The log has one line when a task has ended (task_log.h says which), and at the level debug one when it starts, which
 * is all that is heard of it when its process is killed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/class_names.h"
#include "queue/task_result.h"
#include "worker/task/run_result.h"
#include "worker/worker_state.h"

/* A class that nobody serves may be served after a deployment: looked at again soon, without using up a retry. */
#define UNSERVED_DELAY_NS (30 * NS_PER_S)

/* --- what a run leaves behind ------------------------------------------------------------------------------------- */

/* What a large one needed is given back. */
enum { TEXT_KEPT_MAX = 64 * 1024 };

static void buffer_empty(struct buffer *buffer)
{
    if (buffer->capacity > TEXT_KEPT_MAX)
        buffer_fini(buffer);
    buffer_clear(buffer);
}

static void outcome_clear(struct slot *slot)
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
    struct follow_up_parent parent = {.jid = slot->jid, .queue = slot->queue, .limits = slot->worker->limits};
    return follow_ups_read(&slot->follow_ups, &parent, outcome->follow_ups, outcome->follow_up_count,
                           queue_now(slot->worker->queue), error);
}

bool slot_outcome_take(struct slot *slot)
{
    const struct job_outcome *outcome = &slot->job.outcome;
    struct error error = ERROR_NONE;
    outcome_clear(slot);
    if (!follow_ups_take(slot, &error)) {
        slot_outcome_refuse(slot, error.text);
        return false;
    }
    if (outcome->has_result && slot->rules.result_ttl_ns > 0)
        task_result_write(slot->jid, slot->envelope.class_name, wall_now(), text_span_of(&outcome->result),
                          &slot->result_record);
    slot->flow.task.leaves_more = slot->follow_ups.count > 0 || slot->result_record.length > 0;
    return true;
}

void slot_outcome_refuse(struct slot *slot, const char *reason)
{
    job_outcome_clear(&slot->job.outcome);
    failure_set(&slot->job.outcome.failure, "HF::FollowUpRefused", "%s", reason);
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

static struct queue_task_name task_name(const struct slot *slot)
{
    const char *unique = slot->flow.task.is_unique ? slot->envelope.unique : NULL;
    return (struct queue_task_name){.jid = slot->jid,
                                    .unique = unique,
                                    .is_ended = slot->flow.committed,
                                    .is_cancelled = slot->flow.task.is_cancelled};
}

static void postpone(struct slot *slot, enum queue_place place, int64_t delay_ns, const struct buffer *text)
{
    struct queue_task_name name = task_name(slot);
    queue_postpone(slot->worker->queue, slot->number, place, delay_ns, &name, text->bytes, text->length);
}

/* What waits for what the task had; nothing when it had nothing, or was told already. */
static struct waiting_end waiting_end_take(struct slot *slot)
{
    unsigned count = slot->left.share != NULL ? slot->waiting.resource_count : slot->waiting.count;
    if (slot->left.kind == SLOT_LEFT_TO_SUCCESSOR)
        slot_successor_confirm(slot->partner);
    struct waiting_end end = {.lists = slot->waiting.names,
                              .list_count = slot->left.kind != SLOT_LEFT_NOTHING ? count : 0,
                              .jid = slot->left.jid,
                              .is_handed_on = slot->left.kind == SLOT_LEFT_TO_SUCCESSOR,
                              .after_ns = slot->left.after_ns};
    slot->left.kind = SLOT_LEFT_NOTHING;
    return end;
}

/* By a call of its own, behind the move. */
static void waiters_tell(struct slot *slot)
{
    struct waiting_end end = waiting_end_take(slot);
    if (end.list_count > 0)
        queue_free(slot->worker->queue, &end);
    if (slot->left.share != NULL)
        queue_free(slot->worker->queue,
                   &(struct waiting_end){.lists = &slot->left.share, .list_count = 1, .jid = slot->left.jid});
    slot->left.share = NULL;
}

/* The same call settles, wakes and claims, where one call can do all. */
static void task_turn(struct slot *slot, bool claims)
{
    bool in_turn = slot->left.kind == SLOT_LEFT_FREE || slot->left.kind == SLOT_LEFT_TO_SUCCESSOR;
    if (!in_turn || slot->left.jid == NULL) {
        queue_turn(slot->worker->queue, slot->number, claims);
        return;
    }
    struct waiting_end end = waiting_end_take(slot);
    slot->asks_for_waiters = true;
    queue_turn_free(slot->worker->queue, slot->number, claims, &end);
}

static void task_claim(struct slot *slot)
{
    struct worker *worker = slot->worker;
    if (slot->is_successor || slot_goes_on_as_successor(slot)) {
        slot->is_successor = true;
        slot_successor_claim(slot);
        return;
    }
    slot->claims = slot_may_claim(slot);
    worker->claimed += slot->claims;
    worker_listen(worker);
    task_turn(slot, slot->claims);
}

static void task_finish(struct slot *slot)
{
    struct queue_task_name name = task_name(slot);
    if (name.unique != NULL || name.is_cancelled)
        queue_finish(slot->worker->queue, slot->number, &name);
    else
        task_turn(slot, false);
}

static void task_finish_with(struct slot *slot)
{
    struct queue_task_name name = task_name(slot);
    const struct buffer *record = &slot->result_record;
    queue_finish_with(slot->worker->queue, slot->number, &name,
                      &(struct queue_extras){.follow_ups = slot->follow_ups.list,
                                             .follow_up_count = slot->follow_ups.count,
                                             .result = {record->length > 0 ? record->bytes : NULL, record->length},
                                             .result_ttl_ns = slot->rules.result_ttl_ns});
    outcome_clear(slot);
}

static const struct buffer *record_write(struct slot *slot, enum queue_place place, bool counts)
{
    struct buffer *text = &slot->worker->text;
    struct failure abandoned;
    failure_clear(&abandoned);
    if (slot->abandoned) /* its runner may be writing what is the slot's own */
        failure_set(&abandoned, "HF::Abandoned", "its process ended before its handler did");
    buffer_clear(text);
    const struct config *config = slot->worker->options.config;
    const struct backtrace *backtrace = &slot->job.outcome.backtrace;
    failure_write(slot->abandoned ? &abandoned : &slot->job.outcome.failure,
                  &(struct failure_record){.envelope = &slot->envelope,
                                           .rules = &slot->rules,
                                           .queue = slot->queue,
                                           .jid = slot->jid,
                                           .started = slot->abandoned || slot->started,
                                           .counts = counts,
                                           .is_final = place == QUEUE_DEAD,
                                           .fence = slot->job.fence,
                                           .unserved_at = slot->unserved_at,
                                           .keep_ms = config->worker.timestamps == CONFIG_TIMES_AS_CAME,
                                           .backtrace = (const char *const *)backtrace->lines,
                                           .backtrace_count = slot->abandoned ? 0 : backtrace->count},
                  wall_now(), text);
    return text;
}

static void record_move(struct slot *slot, enum queue_place place, int64_t delay_ns, bool counts)
{
    postpone(slot, place, delay_ns, record_write(slot, place, counts));
}

static void task_retry(struct slot *slot)
{
    /* It was the lock that failed, not the task. */
    bool counts = slot->hold != FLOW_LOST;
    int64_t delay_ns =
        slot->handler != NULL ? run_retry_delay_ns(&slot->job, &slot->envelope) : slot->unserved_delay_ns;
    record_move(slot, QUEUE_RETRY, delay_ns, counts);
}

/* It fails by itself when the queue node refuses that. */
static void task_unserved(struct slot *slot)
{
    int64_t grace_ns = slot->worker->options.config->worker.unknown_class_grace_ns;
    struct task_unserved unserved =
        task_rules_unserved(slot->envelope.unserved_at, grace_ns, queue_now(slot->worker->queue));
    slot->unserved_at = unserved.since;
    slot->unserved_delay_ns = failure_delay_ns(&slot->envelope);
    failure_set(&slot->job.outcome.failure, "HF::UnknownClass", "no plugin of this worker serves the class %s",
                slot->envelope.class_name);
    const struct buffer *text = record_write(slot, QUEUE_RETRY, false);
    bool comes_back = slot_failed_result(slot) == FLOW_RUN_FAILED;
    slot->fate = NULL;
    queue_unserved(slot->worker->queue, slot->number,
                   &(struct queue_unserved){.jid = slot->jid,
                                            .class_name = slot->envelope.class_name,
                                            .delay_ns = UNSERVED_DELAY_NS + random_between(0, UNSERVED_DELAY_NS / 3),
                                            .may_fail = unserved.is_over,
                                            .failed_delay_ns = comes_back ? slot->unserved_delay_ns : 0},
                   text->bytes, text->length);
}

/* The entry must say where it came from, or it would be promoted to the default queue; it must have a jid, or two tasks
 * of the same text would be one entry of the sorted set; it must go on expiring when it would have; and it says since
 * when it waits, if it is parked, and in which `list` (NULL = in none), so that who takes it out of `schedule` can note
 * that there. */
static void origin_write(struct slot *slot, bool is_parked, const char *list, struct buffer *out)
{
    struct buffer name = {0}, id = {0}, since = {0}, expiry = {0}, line = {0};
    bool waits = slot->envelope.parked_at.us != 0;
    envelope_append_string(&name, slot->queue, strlen(slot->queue));
    envelope_append_string(&id, slot->jid, strlen(slot->jid));
    envelope_append_time(&since, waits ? slot->envelope.parked_at : wall_now());
    envelope_append_time(&expiry, slot->rules.expiry);
    if (list != NULL)
        envelope_append_string(&line, list, strlen(list));
    struct envelope_change changes[] = {{"queue", {name.bytes, name.length}},
                                        {"jid", {id.bytes, id.length}},
                                        {"hf_parked", {is_parked ? since.bytes : NULL, is_parked ? since.length : 0}},
                                        {"hf_line", {line.bytes, line.length}},
                                        {"hf_unserved_at", {NULL, 0}},
                                        {"expires_at", {expiry.bytes, expiry.length}}};
    envelope_rewrite(&slot->envelope, changes, slot->rules.expiry.us != 0 ? 6 : 5, out);
    buffer_fini(&name);
    buffer_fini(&id);
    buffer_fini(&since);
    buffer_fini(&expiry);
    buffer_fini(&line);
}

static bool says_its_origin(const struct slot *slot, const char *list)
{
    const struct envelope *envelope = &slot->envelope;
    return strcmp(envelope->queue, slot->queue) == 0 && envelope->jid[0] != '\0' && envelope->parked_at.us != 0 &&
           envelope->unserved_at.us == 0 && strcmp(envelope->line, list != NULL ? list : "") == 0 &&
           envelope->expires_at.us == slot->rules.expiry.us;
}

/* Contention is no failure: the payload goes as it is, if it says what it must. */
static const struct buffer *parked_text(struct slot *slot, const char *list)
{
    struct buffer *text = &slot->worker->text;
    if (says_its_origin(slot, list))
        return &slot->payload;
    buffer_clear(text);
    origin_write(slot, true, list, text);
    return text;
}

static void task_park(struct slot *slot)
{
    struct worker *worker = slot->worker;
    const struct buffer *text = parked_text(slot, slot->wait.list);
    char set[DIGEST_TEXT_SIZE];
    const char *others[WAITING_NAMES_MAX];
    unsigned other_count = 0;
    bool waits_for_share = slot->wait.list == waiting_names_class(&slot->waiting);
    for (unsigned i = 0; i < slot->waiting.count; i++)
        if (slot->waiting.names[i] != slot->wait.list)
            others[other_count++] = slot->waiting.names[i];
    waiting_names_digest(&slot->waiting, set);
    contention_note_waiters(worker->contention, slot->wait.list, true, loop_now(worker->loop));
    queue_park(worker->queue, slot->number,
               &(struct waiting_task){.list = slot->wait.list,
                                      .jid = slot->jid,
                                      .queue = slot->queue,
                                      .class_name = slot->envelope.class_name,
                                      .set = set,
                                      .seen_us = slot->wait.seen_us,
                                      .near_ns = slot->wait.near_ns,
                                      .waiters_max = waits_for_share ? 0 : slot->rules.waiters_max,
                                      .may_retry = !slot->flow.retried && !slot->wait.is_in_line,
                                      .others = others,
                                      .other_count = other_count},
               text->bytes, text->length);
}

static void task_skip(struct slot *slot)
{
    struct queue_task_name name = task_name(slot);
    queue_skip(slot->worker->queue, slot->number, &name, slot->waiting.names, slot->waiting.count);
}

static void task_delay(struct slot *slot)
{
    int64_t delay_ns = slot->rules.conflict_delay_ns;
    postpone(slot, QUEUE_SCHEDULE, delay_ns + random_between(0, delay_ns / 2), parked_text(slot, NULL));
}

static void task_snooze(struct slot *slot)
{
    struct buffer *text = &slot->worker->text;
    buffer_clear(text);
    origin_write(slot, false, NULL, text);
    postpone(slot, QUEUE_SCHEDULE, run_snooze_ns(&slot->job), text);
}

/* The first reason that there is stays. */
static void bury_reason_set(struct slot *slot)
{
    if (slot->rules.refused_class != NULL)
        failure_set(&slot->job.outcome.failure, slot->rules.refused_class, "%s", slot->rules.refused_reason);
    if (slot->flow.committed)
        failure_set(&slot->job.outcome.failure, "HF::AtMostOnce",
                    "its class lets it run at most once, and its run did not bring it to an end");
    failure_set(&slot->job.outcome.failure, "HF::NoResource",
                "the class %s needs a lock and the task names no resource", slot->envelope.class_name);
}

static void task_bury(struct slot *slot)
{
    struct buffer *text = &slot->worker->text;
    if (slot->abandoned) {
        record_move(slot, QUEUE_DEAD, 0, true);
        return;
    }
    if (slot->invalid.text[0] == '\0') {
        bury_reason_set(slot);
        record_move(slot, QUEUE_DEAD, 0, slot->started || slot->unserved_at.us != 0);
        return;
    }
    buffer_clear(text);
    envelope_write_invalid(slot->payload.bytes, slot->payload.length, slot->queue, slot->invalid.text, wall_now(),
                           text);
    postpone(slot, QUEUE_DEAD, 0, text);
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
    if (!atomic_load(&worker->options.run_table->must_stop)) /* else stop.c gathers them until all are there */
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
    switch (move) {
    case FLOW_MOVE_NONE:
        return;
    case FLOW_MOVE_CLAIM:
        task_claim(slot);
        return;
    case FLOW_MOVE_FINISH:
        task_finish(slot);
        return;
    case FLOW_MOVE_FINISH_WITH:
        task_finish_with(slot);
        return;
    case FLOW_MOVE_RETRY:
        task_retry(slot);
        return;
    case FLOW_MOVE_PARK:
        task_park(slot);
        return;
    case FLOW_MOVE_UNSERVED:
        task_unserved(slot);
        return;
    case FLOW_MOVE_SKIP:
        task_skip(slot);
        return;
    case FLOW_MOVE_DELAY:
        task_delay(slot);
        return;
    case FLOW_MOVE_SNOOZE:
        task_snooze(slot);
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

void slot_move(struct slot *slot, enum flow_move move)
{
    move_perform(slot, move);
    waiters_tell(slot);
}

/* --- on_event ----------------------------------------------------------------------------------------------------- */

/* The word of on_event.events, or NULL. Whatever a task was buried for, it is dead. */
static const char *name_of(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DEAD:
    case FLOW_REFUSED:
    case FLOW_INVALID:
    case FLOW_NO_RESOURCE:
        return "dead";
    case FLOW_SKIPPED:
        return "skipped";
    case FLOW_DROPPED:
        return "dropped";
    case FLOW_LOCK_LOST:
        return "lock_lost";
    case FLOW_FAILED:
        return "failed";
    case FLOW_EXPIRED:
        return "expired";
    default:
        return NULL;
    }
}

/* An abandoned handler may still be writing into the failure. */
static void event_tell(struct slot *slot, const char *name, enum flow_ending ending)
{
    if (!event_commands_want(slot->worker->event_commands, name))
        return;
    const struct failure *failure = &slot->job.outcome.failure;
    bool is_task = ending != FLOW_INVALID;
    const char *message = slot->abandoned ? "its handler was abandoned"
                          : is_task       ? failure->message
                                          : slot->invalid.text;
    event_commands_tell(slot->worker->event_commands,
                        &(struct event){
                            .name = name,
                            .jid = slot->jid,
                            .class_name = is_task ? slot->envelope.class_name : NULL,
                            .queue = slot->queue,
                            .resource = slot->waiting.resource_count > 0 ? slot->resources.names[0] : NULL,
                            .error_class = slot->abandoned ? NULL : failure->error_class,
                            .message = message,
                            .fence = slot->job.fence,
                            .at = wall_now(),
                        });
}

static void on_event_tell(struct slot *slot, enum flow_ending ending)
{
    const char *name = name_of(ending);
    if (name == NULL)
        return;
    event_tell(slot, name, ending);
    /* A lock that was held for too long is lost too, and so is that of a task that is buried for it. Whether an
     * abandoned run began, its runner writes. */
    if (!slot->abandoned && slot->started && slot->hold != FLOW_HELD && ending != FLOW_LOCK_LOST)
        event_tell(slot, "lock_lost", ending);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static double ms_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

static void pair_add(struct buffer *out, const char *key, const char *value)
{
    char quoted[LOG_QUOTE_MAX];
    buffer_format(out, " %s=%s", key, log_value(value, quoted));
}

/* Its lock as far as it has had one. */
static void lock_add(struct buffer *out, const struct slot *slot)
{
    char at[LOG_TIME_SIZE];
    const struct slot_locked *locked = &slot->locked;
    if (locked->at.us == 0)
        return;
    buffer_format(out, " fence=%s locked=%s lock_waited_ms=%.3f", slot->job.fence[0] != '\0' ? slot->job.fence : "-",
                  log_time(locked->at, at), ms_of(locked->waited_ns));
    if (locked->was_handed)
        pair_add(out, "handed_from", slot->successor_of);
    if (locked->left_at.us == 0)
        return;
    buffer_format(out, " released=%s held_ms=%.3f", log_time(locked->left_at, at), ms_of(slot->held_ns));
    if (locked->successor[0] != '\0')
        pair_add(out, "handed_to", locked->successor);
    if (slot->left.after_ns > 0)
        buffer_format(out, " stays_ms=%.3f", ms_of(slot->left.after_ns));
}

/* All that it locks, or would lock. They come last: what is too long for a line is cut. */
static void resources_add(struct buffer *out, const struct slot *slot)
{
    bool locks = slot->resources.count > 0;
    const char *const *names = locks ? slot->resources.names : slot->envelope.resources;
    unsigned count = locks ? slot->resources.count : slot->envelope.resource_count;
    for (unsigned i = 0; i < count; i++)
        pair_add(out, "resource", names[i]);
}

static void line_begin(struct buffer *out, const struct slot *slot)
{
    bool is_task = slot->invalid.text[0] == '\0';
    buffer_clear(out);
    pair_add(out, "jid", slot->jid);
    pair_add(out, "class", is_task ? slot->envelope.class_name : NULL);
    pair_add(out, "queue", slot->queue);
    buffer_format(out, " slot=%u", slot->number);
}

void slot_log_started(struct slot *slot)
{
    struct buffer *out = &slot->worker->text;
    if (!log_is_on(LOG_DEBUG))
        return;
    line_begin(out, slot);
    lock_add(out, slot);
    resources_add(out, slot);
    log_event(LOG_DEBUG, "task_started", "%s", buffer_text(out) + 1);
}

/* --- classes that are not served ---------------------------------------------------------------------------------- */

/* After the first task, so that the line tells of those that come with it; then one a class and minute. */
#define UNSERVED_FIRST_NS (1 * NS_PER_S)
#define UNSERVED_NEXT_NS  (60 * NS_PER_S)

struct unserved_log {
    struct class_names names;
    uint64_t tasks[CLASS_NAMES_MAX];
};

static void unserved_note(struct worker *worker, const char *class_name)
{
    if (worker->unserved == NULL)
        worker->unserved = memory_new(struct unserved_log);
    worker->unserved->tasks[class_names_number(&worker->unserved->names, class_name)]++;
    if (!loop_timer_is_set(&worker->log_unserved))
        loop_timer_set(worker->loop, &worker->log_unserved, loop_after(worker->loop, UNSERVED_FIRST_NS));
}

static bool unserved_tell(struct worker *worker)
{
    struct unserved_log *log = worker->unserved;
    bool is_any = false;
    char class_name[LOG_QUOTE_MAX];
    for (unsigned i = 0; log != NULL && i < log->names.count; i++) {
        if (log->tasks[i] == 0)
            continue;
        is_any = true;
        log_event(LOG_WARN, "class_unserved",
                  "class=%s tasks=%" PRIu64 " advice=\"no plugin of this worker serves it: a worker that does should "
                  "take its queue; holdfast status says whether there is one\"",
                  log_value(log->names.texts[i], class_name), log->tasks[i]);
    }
    free(log);
    worker->unserved = NULL;
    return is_any;
}

void worker_log_unserved(struct worker *worker)
{
    (void)unserved_tell(worker);
}

void worker_log_unserved_fire(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, log_unserved);
    if (unserved_tell(worker))
        loop_timer_set(worker->loop, timer, loop_after(worker->loop, UNSERVED_NEXT_NS));
}

/* --- the end of a task -------------------------------------------------------------------------------------------- */

/* What runs on, abandoned, may be writing whether it has begun. */
static bool has_run(const struct slot *slot)
{
    return slot->abandoned || slot->started;
}

static int64_t ran_ns(const struct slot *slot, struct instant now)
{
    if (slot->abandoned)
        return instant_since(slot->handed_over, now);
    return slot->started ? instant_since(slot->run_started, slot->run_ended) : 0;
}

/* Parked tasks, those of a class that nobody serves and those that were given back unrun have not ended: they come
 * again. */
static enum log_level ending_level(const struct slot *slot, enum flow_ending ending)
{
    bool tells_all = slot->worker->options.config->worker.log_tasks == CONFIG_LOG_TASKS_ALL;
    switch (ending) {
    case FLOW_PARKED:
    case FLOW_UNKNOWN_CLASS:
        return tells_all ? LOG_INFO : LOG_DEBUG;
    case FLOW_GIVEN_BACK:
        return tells_all || has_run(slot) ? LOG_INFO : LOG_DEBUG;
    case FLOW_DONE:
    case FLOW_DISCARDED:
    case FLOW_SKIPPED:
    case FLOW_SNOOZED:
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
    return ending == FLOW_INVALID ? slot->invalid.text : slot->job.outcome.failure.message;
}

/* Since it was put into its queue, until it ran or until now; by the clocks of its producer and of this host. */
static void waited_add(struct buffer *out, const struct slot *slot, struct instant now)
{
    const struct envelope *envelope = &slot->envelope;
    int64_t since_us = envelope->enqueued_at.us != 0 ? envelope->enqueued_at.us : envelope->created_at.us;
    struct instant until = slot->abandoned ? slot->handed_over : slot->started ? slot->run_started : now;
    int64_t waited_ns = (wall_now().us - since_us) * NS_PER_US - instant_since(until, now);
    if (since_us != 0)
        buffer_format(out, " waited_ms=%.3f", ms_of(waited_ns > 0 ? waited_ns : 0));
}

static void ending_write(const struct slot *slot, enum log_level level, enum flow_ending ending, struct instant now)
{
    struct buffer *out = &slot->worker->text;
    const char *reason = ending_reason(slot, ending);
    bool has_more = slot->invalid.text[0] == '\0' && !slot->was_told;
    line_begin(out, slot);
    if (has_more)
        waited_add(out, slot, now);
    if (has_more && has_run(slot))
        buffer_format(out, " ran_ms=%.3f", ms_of(ran_ns(slot, now)));
    if (has_more)
        lock_add(out, slot);
    if (has_more && !slot->abandoned && slot->started && slot->hold != FLOW_HELD)
        buffer_append_text(out, " lost=yes");
    if (has_more && slot->was_refused)
        buffer_append_text(out, " refused=yes");
    if (slot->fate != NULL)
        buffer_format(out, " fate=\"%s\"", slot->fate);
    if (reason[0] != '\0')
        pair_add(out, "reason", reason);
    if (has_more)
        resources_add(out, slot);
    log_event(level, "task_ended", "ending=%s%s", flow_ending_name(ending), buffer_text(out));
}

static void log_ended(struct slot *slot, enum flow_ending ending)
{
    struct worker *worker = slot->worker;
    if (slot->unserved_at.us != 0)
        unserved_note(worker, slot->envelope.class_name);
    struct task_log *log = &worker->task_log;
    enum log_level level = ending_level(slot, ending);
    struct instant now = instant_now(); /* even if nothing is logged: what a replay logs must not change its course */
    enum config_log_tasks mode = log_is_on(LOG_DEBUG) ? CONFIG_LOG_TASKS_ALL : worker->options.config->worker.log_tasks;
    if (!log_is_on(level))
        return;
    if (task_log_is_due(log, now))
        worker_log_sums(worker);
    if (task_log_wants(log, mode, ending, ran_ns(slot, now), now))
        ending_write(slot, level, ending, now);
    else if (task_log_has_sums(log) && !loop_timer_is_set(&worker->log_sums))
        loop_timer_set(worker->loop, &worker->log_sums, log->until);
    slot->was_told = true; /* its claim may be lost yet */
}

static void ending_count(struct slot *slot, enum flow_ending ending)
{
    struct worker *worker = slot->worker;
    worker->report.endings[ending]++;
    if (ending == FLOW_PARKED)
        worker->claimed--; /* the flow parks a task once for each claim, and each claim was counted */
    if (slot->waiting.resource_count == 0)
        return;
    const char *class_name = slot->envelope.class_name, *resource = slot->resources.names[0];
    if (ending == FLOW_PARKED)
        lock_metrics_count(worker->lock_metrics, class_name, resource, LOCK_EVENT_PARKED);
    else if (ending == FLOW_SKIPPED)
        lock_metrics_count(worker->lock_metrics, class_name, resource, LOCK_EVENT_SKIPPED);
}

/* A slot may lose its place at the queue node while it asks for a task. It has none then, and nothing has ended. */
void slot_ending_tell(struct slot *slot, enum flow_ending ending)
{
    if (ending == FLOW_CLAIM_LOST && slot->jid[0] == '\0')
        return;
    ending_count(slot, ending);
    slot->worker->report.last_ending = loop_now(slot->worker->loop);
    if (ending == FLOW_DONE || ending == FLOW_DISCARDED)
        ended_tasks_note(slot->worker->ended, slot->jid, loop_now(slot->worker->loop));
    on_event_tell(slot, ending);
    slot_observe_left(slot, ending);
    log_ended(slot, ending);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

void worker_log_sums(struct worker *worker)
{
    char since[LOG_TIME_SIZE], until[LOG_TIME_SIZE];
    struct instant now = loop_now(worker->loop), end = worker->task_log.until;
    if (!task_log_has_sums(&worker->task_log))
        return;
    struct task_sums sums = task_log_take(&worker->task_log);
    struct wall_time wall = wall_now();
    int64_t ago_us = instant_since(end, now) / NS_PER_US; /* below zero when the process ends before */
    log_event(LOG_INFO, "tasks_summed",
              "done=%" PRIu64 " skipped=%" PRIu64 " snoozed=%" PRIu64 " ran_ms=%.3f since=%s until=%s", sums.done,
              sums.skipped, sums.snoozed, ms_of(sums.ran_ns),
              log_time((struct wall_time){wall.us - ago_us - US_PER_S}, since),
              log_time(ago_us > 0 ? (struct wall_time){wall.us - ago_us} : wall, until));
}

void worker_log_sums_fire(struct loop_timer *timer)
{
    worker_log_sums(list_owner(timer, struct worker, log_sums));
}
