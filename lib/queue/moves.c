/* Settles single tasks: moves them out of a slot into a list or a sorted set, or ends them. One script each.
 * Every call names the id that it expects in the slot and the one that it leaves, so it can be repeated until it is
 * answered. */
#include <string.h>

#include "base/invariant.h"
#include "base/random.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

/* --- answers ----------------------------------------------------------------------------------------------------- */

/* The answers of every script; MOVE_NOT means that it did something else instead. */
enum { MOVE_LOST, MOVE_DONE, MOVE_NOT };

static enum queue_answer done_answer(const struct claim_slot *slot)
{
    if (slot->sets_right)
        return QUEUE_LOST;
    return slot->opens ? QUEUE_OPENED : QUEUE_NOTHING;
}

static void move_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct claim_slot *slot = list_owner(retried_call, struct claim_slot, move);
    struct queue *queue = retried_call_queue(retried_call);
    unsigned number = (unsigned)(slot - queue->slots);
    enum queue_answer answer = done_answer(slot);
    long long code = reply->kind == REDIS_INTEGER ? reply->integer : MOVE_LOST;
    bool is_cancelled = slot->opens && code == MOVE_NOT, is_refused = slot->may_refuse && code == MOVE_NOT;
    slot->sets_right = slot->opens = slot->may_refuse = false;
    if (code != MOVE_DONE && !is_cancelled && !is_refused) {
        queue_slot_lost(queue, number, NULL, 0);
        return;
    }
    if (!is_cancelled)
        queue_slot_holds(slot, slot->next);
    queue_slot_answer(queue, number, is_cancelled ? QUEUE_CANCELLED : is_refused ? QUEUE_REFUSED : answer);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static const char *state_key(const struct queue *queue, enum queue_state state)
{
    switch (state) {
    case QUEUE_RETRY:
        return queue->keys.retry;
    case QUEUE_SCHEDULE:
        return queue->keys.schedule;
    case QUEUE_DEAD:
        return queue->keys.dead;
    }
    invariant_unreachable("a state outside its enum");
}

void queue_postpone(struct queue *queue, unsigned number, enum queue_state state, int64_t delay_ns,
                    const struct queue_task_name *task, const char *payload, size_t length)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_postpone, 3, 9);
    redis_request_texts(out, queue->keys.process, state_key(queue, state));
    claim_encode_unique(queue, task, out);
    claim_encode(slot, number, out);
    redis_request_seconds(out, delay_ns / NS_PER_US);
    redis_request_bytes(out, payload, length);
    redis_request_text(out, task->jid);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, state == QUEUE_DEAD ? DEAD_ENTRIES : 0);
    redis_request_text(out, task->is_ended ? "1" : "0");
    retried_call_start(&slot->move);
}

void queue_unserved(struct queue *queue, unsigned number, const struct queue_unserved *task, const char *payload,
                    size_t length)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    slot->may_refuse = true;
    buffer_clear(out);
    redis_request_script(out, &queue_script_unserved, 5, 11);
    redis_request_texts(out, queue->keys.process, queue->keys.retry, queue->keys.processes, queue->keys.unserved);
    queue_keys_request(queue->keys.unserved_prefix, task->class_name, out);
    claim_encode(slot, number, out);
    redis_request_seconds(out, task->delay_ns / NS_PER_US);
    redis_request_bytes(out, payload, length);
    redis_request_texts(out, task->class_name, task->jid, queue->keys.space, task->may_fail ? "1" : "0");
    redis_request_seconds(out, task->failed_delay_ns / NS_PER_US);
    redis_request_text(out, queue->keys.process_prefix);
    retried_call_start(&slot->move);
}

void queue_finish(struct queue *queue, unsigned number, const struct queue_task_name *task)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_finish, 4, 5);
    redis_request_text(out, queue->keys.process);
    claim_encode_unique(queue, task, out);
    redis_request_text(out, queue->keys.cancels);
    queue_keys_request(queue->keys.iteration_prefix, task->jid, out);
    claim_encode(slot, number, out);
    redis_request_texts(out, task->jid, task->is_cancelled ? "1" : "0");
    retried_call_start(&slot->move);
}

/* --- an end that takes something along --------------------------------------------------------------------------- */

static bool is_same_target(const struct queue_follow_up *one, const struct queue_follow_up *other)
{
    if (one->queue == NULL || other->queue == NULL)
        return one->queue == other->queue;
    return strcmp(one->queue, other->queue) == 0;
}

/* How many from `first` on go to the same list or set: neighbours share a command. */
static size_t group_size(const struct queue_extras *extras, size_t first)
{
    size_t end = first + 1;
    while (end < extras->follow_up_count && is_same_target(&extras->follow_ups[first], &extras->follow_ups[end]))
        end++;
    return end - first;
}

static void group_encode(const struct queue_follow_up *group, size_t size, struct buffer *out)
{
    redis_request_text(out, group->queue != NULL ? group->queue : "");
    redis_request_integer(out, (int64_t)size);
    for (size_t i = 0; i < size; i++) {
        if (group->queue == NULL)
            redis_request_integer(out, group[i].at_us);
        redis_request_bytes(out, group[i].payload.bytes, group[i].payload.length);
    }
}

/* Numbers of keys and of arguments. */
static void groups_count(const struct queue_extras *extras, size_t *keys, size_t *arguments)
{
    *keys = *arguments = 0;
    for (size_t i = 0; i < extras->follow_up_count; i += group_size(extras, i)) {
        size_t size = group_size(extras, i);
        *keys += 1;
        *arguments += 2 + (extras->follow_ups[i].queue != NULL ? size : 2 * size);
    }
}

static void extras_encode_keys(const struct queue *queue, const char *jid, const struct queue_extras *extras,
                               struct buffer *out)
{
    if (extras->result.bytes != NULL)
        queue_keys_request(queue->keys.result_prefix, jid, out);
    else
        redis_request_text(out, "");
    redis_request_text(out, queue->keys.queues);
    for (size_t i = 0; i < extras->follow_up_count; i += group_size(extras, i)) {
        if (extras->follow_ups[i].queue != NULL)
            queue_keys_request_queue(&queue->keys, extras->follow_ups[i].queue, out);
        else
            redis_request_text(out, queue->keys.schedule);
    }
}

static void extras_encode(const struct queue_extras *extras, struct buffer *out)
{
    int64_t ttl_ms = extras->result_ttl_ns / NS_PER_MS; /* the node would refuse 0 after it has moved the task */
    redis_request_bytes(out, extras->result.bytes, extras->result.length);
    redis_request_integer(out, ttl_ms > 0 ? ttl_ms : 1);
    for (size_t i = 0; i < extras->follow_up_count; i += group_size(extras, i))
        group_encode(&extras->follow_ups[i], group_size(extras, i), out);
}

void queue_finish_with(struct queue *queue, unsigned number, const struct queue_task_name *task,
                       const struct queue_extras *extras)
{
    invariant(extras->follow_up_count <= QUEUE_FOLLOW_UPS_MAX);
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    size_t keys = 0, arguments = 0;
    groups_count(extras, &keys, &arguments);
    slot->may_refuse = true;
    buffer_clear(out);
    redis_request_script(out, &queue_script_finish_with, 6 + keys, 7 + arguments);
    redis_request_text(out, queue->keys.process);
    claim_encode_unique(queue, task, out);
    redis_request_text(out, queue->keys.cancels);
    queue_keys_request(queue->keys.iteration_prefix, task->jid, out);
    extras_encode_keys(queue, task->jid, extras, out);
    claim_encode(slot, number, out);
    redis_request_texts(out, task->jid, task->is_cancelled ? "1" : "0");
    extras_encode(extras, out);
    retried_call_start(&slot->move);
}

/* --- the last question ------------------------------------------------------------------------------------------- */

void queue_open(struct queue *queue, unsigned number, const char *jid, bool finishes)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    slot->opens = true;
    slot->opens_empty = finishes;
    buffer_clear(out);
    redis_request_script(out, &queue_script_open, 3, 5);
    redis_request_text(out, queue->keys.process);
    queue_keys_request(queue->keys.iteration_prefix, jid, out);
    redis_request_text(out, queue->keys.cancels);
    claim_encode(slot, number, out);
    redis_request_texts(out, jid, finishes ? "1" : "0");
    retried_call_start(&slot->move);
}

/* --- back to its queue ------------------------------------------------------------------------------------------- */

void queue_give_back(struct queue *queue, unsigned number, const char *name)
{
    (void)queue_slot_ask(queue, number);
    claim_give_back(queue, number, name);
}

/* --- uncounted recoveries ----------------------------------------------------------------------------------------- */

static void uncounted(struct retried_call *retried_call, const struct redis_reply *reply)
{
    (void)reply;
    list_owner(retried_call, struct claim_slot, uncount)->uncounting = false;
}

void queue_uncount_recovery(struct queue *queue, unsigned number, const char *jid)
{
    struct claim_slot *slot = &queue->slots[number];
    if (slot->uncounting || queue->leaving)
        return;
    struct buffer *out = &slot->uncount.request;
    slot->uncounting = true;
    buffer_clear(out);
    redis_request_begin(out, 3);
    redis_request_text(out, "HDEL");
    queue_keys_request(queue->keys.recovered_prefix, jid, out);
    redis_request_text(out, queue->identity);
    retried_call_start(&slot->uncount);
}

void moves_init(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.slots; i++) {
        retried_call_init(&queue->slots[i].move, &queue->retried_calls, move_done);
        retried_call_init(&queue->slots[i].uncount, &queue->retried_calls, uncounted);
    }
}

void moves_fini(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.slots; i++) {
        retried_call_fini(&queue->slots[i].move);
        retried_call_fini(&queue->slots[i].uncount);
    }
}
