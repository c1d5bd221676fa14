/* Settles the task of a slot: writes what its record gets, and moves it to where it belongs now (queue/queue.h). The
 * move that takes a task out may claim the next one in the same call. On the loop. */
#include <string.h>

#include "base/invariant.h"
#include "base/random.h"
#include "queue/task_result.h"
#include "queue/waiting.h"
#include "worker/locks/contention.h"
#include "worker/task/run_outcome.h"
#include "worker/worker_state.h"

/* A class that nobody serves may be served after a deployment: looked at again soon, without using up a retry. */
#define UNSERVED_DELAY_NS (30 * NS_PER_S)
/* What processes with other terms may serve, and this one not yet. */
#define PUT_OFF_MIN_NS (1 * NS_PER_S)
#define PUT_OFF_MAX_NS (15 * NS_PER_S)
/* So long it is known that a task was cancelled. */
#define CANCELLED_KEPT_NS (24 * 3600 * NS_PER_S)
/* The lock nodes may hear later than the queue node for how long a lock stays. Who asked before its end would wait for
 * a ttl. */
#define STAYS_SLACK_NS (5 * NS_PER_MS)

static struct queue_task_name task_name(const struct slot *slot)
{
    const char *unique = slot->flow.task.is_unique ? slot->envelope.unique : NULL;
    return (struct queue_task_name){.jid = slot->jid,
                                    .unique = unique,
                                    .is_ended = slot->flow.committed,
                                    .is_cancelled = slot->flow.task.is_cancelled};
}

static void postpone(struct slot *slot, enum queue_state state, int64_t delay_ns, const struct buffer *text)
{
    struct queue_task_name name = task_name(slot);
    queue_postpone(slot->worker->queue, slot->number, state, delay_ns, &name, text->bytes, text->length);
}

/* The lists that wait for what the task had; none if it had nothing, or if they were passed on already. */
static struct waiting_end waiting_end_take(struct slot *slot)
{
    unsigned count = slot->left.share != NULL ? slot->waiting.resource_count : slot->waiting.count;
    if (slot->left.kind == SLOT_LEFT_TO_SUCCESSOR)
        slot_successor_confirm(slot->partner);
    struct waiting_end end = {.lists = slot->waiting.names,
                              .list_count = slot->left.kind != SLOT_LEFT_NOTHING ? count : 0,
                              .jid = slot->left.jid,
                              .is_handed_on = slot->left.kind == SLOT_LEFT_TO_SUCCESSOR,
                              .after_ns = slot->left.after_ns > 0 ? slot->left.after_ns + STAYS_SLACK_NS : 0};
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
static void task_settle(struct slot *slot, bool claims)
{
    bool in_one_call = slot->left.kind == SLOT_LEFT_FREE || slot->left.kind == SLOT_LEFT_TO_SUCCESSOR;
    if (!in_one_call || slot->left.jid == NULL) {
        queue_settle_and_claim(slot->worker->queue, slot->number, claims);
        return;
    }
    struct waiting_end end = waiting_end_take(slot);
    slot->asks_for_waiters = true;
    queue_settle_and_free(slot->worker->queue, slot->number, claims, &end);
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
    task_settle(slot, slot->claims);
}

static void task_finish(struct slot *slot)
{
    struct queue_task_name name = task_name(slot);
    if (name.unique != NULL || name.is_cancelled)
        queue_finish(slot->worker->queue, slot->number, &name);
    else
        task_settle(slot, false);
}

static void task_finish_with(struct slot *slot, int64_t result_ttl_ns)
{
    struct queue_task_name name = task_name(slot);
    const struct buffer *record = &slot->result_record;
    queue_finish_with(slot->worker->queue, slot->number, &name,
                      &(struct queue_extras){.follow_ups = slot->follow_ups.list,
                                             .follow_up_count = slot->follow_ups.count,
                                             .result = {record->length > 0 ? record->bytes : NULL, record->length},
                                             .result_ttl_ns = result_ttl_ns});
    slot_outcome_clear(slot);
}

/* What its run left before that is nothing. */
static void task_cancel(struct slot *slot)
{
    slot_outcome_clear(slot);
    task_result_write_cancelled(slot->jid, slot->envelope.class_name, queue_now(slot->worker->queue),
                                &slot->result_record);
    task_finish_with(slot, CANCELLED_KEPT_NS);
}

static const struct buffer *record_write(struct slot *slot, enum queue_state state, bool counts)
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
                                           .is_final = state == QUEUE_DEAD,
                                           .fence = slot->job.fence,
                                           .unserved_at = slot->unserved_at,
                                           .keep_ms = config->worker.timestamps == CONFIG_TIMES_AS_CAME,
                                           .backtrace = (const char *const *)backtrace->lines,
                                           .backtrace_count = slot->abandoned ? 0 : backtrace->count},
                  queue_now(slot->worker->queue), text);
    return text;
}

static void record_move(struct slot *slot, enum queue_state state, int64_t delay_ns, bool counts)
{
    postpone(slot, state, delay_ns, record_write(slot, state, counts));
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
    slot->outcome_reason = NULL;
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
 * when it waits, if it is parked, and in which `list` (NULL = in none), so that the promoter, which takes it out of
 * `schedule`, can note that there. */
static void origin_write(struct slot *slot, bool is_parked, const char *list, struct buffer *out)
{
    struct buffer name = {0}, id = {0}, since = {0}, expiry = {0}, list_name = {0};
    bool waits = slot->envelope.parked_at.us != 0;
    envelope_append_string(&name, slot->queue, strlen(slot->queue));
    envelope_append_string(&id, slot->jid, strlen(slot->jid));
    envelope_append_time(&since, waits ? slot->envelope.parked_at : queue_now(slot->worker->queue));
    envelope_append_time(&expiry, slot->rules.expiry);
    if (list != NULL)
        envelope_append_string(&list_name, list, strlen(list));
    struct envelope_change changes[] = {{"queue", {name.bytes, name.length}},
                                        {"jid", {id.bytes, id.length}},
                                        {"hf_parked", {is_parked ? since.bytes : NULL, is_parked ? since.length : 0}},
                                        {"hf_list", {list_name.bytes, list_name.length}},
                                        {"hf_unserved_at", {NULL, 0}},
                                        {"expires_at", {expiry.bytes, expiry.length}}};
    envelope_rewrite(&slot->envelope, changes, slot->rules.expiry.us != 0 ? 6 : 5, out);
    buffer_fini(&name);
    buffer_fini(&id);
    buffer_fini(&since);
    buffer_fini(&expiry);
    buffer_fini(&list_name);
}

static bool says_its_origin(const struct slot *slot, const char *list)
{
    const struct envelope *envelope = &slot->envelope;
    return strcmp(envelope->queue, slot->queue) == 0 && envelope->jid[0] != '\0' && envelope->parked_at.us != 0 &&
           envelope->unserved_at.us == 0 && strcmp(envelope->list, list != NULL ? list : "") == 0 &&
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
                                      .may_retry = !slot->flow.retried && !slot->wait.is_in_list,
                                      .others = others,
                                      .other_count = other_count},
               text->bytes, text->length);
}

static void task_skip(struct slot *slot)
{
    struct queue_task_name name = task_name(slot);
    queue_skip(slot->worker->queue, slot->number, &name, slot->waiting.names, slot->waiting.count);
}

/* For as long as it has been put off so far: soon another process takes it, or nobody serves it for a while. */
static int64_t put_off_ns(const struct slot *slot)
{
    int64_t since_us = slot->envelope.parked_at.us, now_us = queue_now(slot->worker->queue).us;
    int64_t waited_ns = since_us > 0 && since_us < now_us ? (now_us - since_us) * NS_PER_US : 0;
    return waited_ns < PUT_OFF_MIN_NS ? PUT_OFF_MIN_NS : waited_ns > PUT_OFF_MAX_NS ? PUT_OFF_MAX_NS : waited_ns;
}

static void task_delay(struct slot *slot)
{
    struct worker *worker = slot->worker;
    int64_t least_ns = slot->is_put_off ? put_off_ns(slot) : slot->rules.conflict_delay_ns;
    int64_t delay_ns = random_between(least_ns, least_ns + least_ns / 2);
    struct instant back = loop_after(worker->loop, delay_ns);
    if (instant_before(worker->put_off_until, back))
        worker->put_off_until = back;
    postpone(slot, QUEUE_SCHEDULE, delay_ns, parked_text(slot, NULL));
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
    envelope_write_invalid(slot->payload.bytes, slot->payload.length, slot->queue, slot->invalid.text,
                           queue_now(slot->worker->queue), text);
    postpone(slot, QUEUE_DEAD, 0, text);
}

/* Each goes back to the head of its queue, so what was claimed last has to go first: a worker that stops gives back
 * several in one cycle, and leaves the queue as it found it. */
static void slot_give_back(struct slot *slot)
{
    struct worker *worker = slot->worker;
    struct list *before = worker->given_back.next;
    while (before != &worker->given_back && list_owner(before, struct slot, back_link)->order > slot->order)
        before = before->next;
    list_append(before, &slot->back_link);
    if (!atomic_load(&worker->options.run_table->must_stop)) /* else stop.c gathers them until all are there */
        loop_at_cycle_end(worker->loop, LOOP_GATHER, &worker->give_back);
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
    case FLOW_MOVE_CANCEL:
        task_cancel(slot);
        return;
    case FLOW_MOVE_FINISH_WITH:
        task_finish_with(slot, slot->rules.result_ttl_ns);
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
