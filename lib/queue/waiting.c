/* The calls of waiting.h: each encodes one script. What ends with a call is kept in the slot until the call of all
 * slots that asked is encoded. */
#include "queue/waiting.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

/* A task that may be tried any moment looks again after this time, */
#define SOON_MIN_NS (5 * NS_PER_MS)
#define SOON_MAX_NS (50 * NS_PER_MS)
/* and one that is not the oldest after this, in case nothing else wakes it. */
#define FAR_MIN_NS (3600 * NS_PER_S)
#define FAR_MAX_NS (7200 * NS_PER_S)

enum { PARK_LOST, PARK_PARKED, PARK_AGAIN, PARK_FULL };
enum { FREE_IS_DUE = 2 };
enum { SKIP_LOST, SKIP_ENDED, SKIP_WAITS };
#define NOBODY UINT_MAX

/* A queue_free: in queue->frees until the queue is destroyed, in queue->idle_frees while it is not in use. */
struct free_call {
    struct list link, idle_link;
    struct retried_call retried_call;
    struct queue *queue;
    int64_t after_ns; /* of its waiting_end */
    bool is_asking;
};

static void list_encode(const struct queue_keys *keys, const char *list, struct buffer *out)
{
    queue_keys_request(keys->waiting_prefix, list, out);
    queue_keys_request(keys->waiters_prefix, list, out);
}

/* Lists of one group share a stamp of when they were freed last (stamps.lua): there are so many that groups rarely
 * collide. All have five digits, so that the claim script cuts them out of a text without looking for their ends. */
enum { GROUPS = 1 << 14, GROUP_OF_NO_LIST = 10000 };

static uint16_t group_of(const char *list)
{
    return (uint16_t)(GROUP_OF_NO_LIST + 1 + hash_bytes(0, list, strlen(list)) % GROUPS);
}

static void microseconds_encode(int64_t ns, struct buffer *out)
{
    redis_request_integer(out, ns / NS_PER_US);
}

/* --- parking ------------------------------------------------------------------------------------------------------ */

/* The slot still has its task, under the new id, so that no copy of the call is taken for a new one. */
static void slot_keeps(struct queue *queue, unsigned number, enum queue_answer answer)
{
    queue_slot_holds(&queue->slots[number], queue->slots[number].next);
    queue_slot_answer(queue, number, answer);
}

static void park_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct claim_slot *slot = list_owner(retried_call, struct claim_slot, wait);
    struct queue *queue = retried_call_queue(retried_call);
    unsigned number = (unsigned)(slot - queue->slots);
    bool fits = reply->kind == REDIS_ARRAY && reply->count == 3;
    switch (fits ? reply->elements[0].integer : PARK_LOST) {
    case PARK_PARKED:
        if (queue->options.parked != NULL)
            queue->options.parked(queue->options.context, reply->elements[2].integer * NS_PER_US);
        slot_keeps(queue, number, QUEUE_NOTHING);
        return;
    case PARK_AGAIN:
        slot->seen_us = reply->elements[1].integer;
        slot_keeps(queue, number, QUEUE_KEPT);
        return;
    case PARK_FULL:
        slot_keeps(queue, number, QUEUE_FULL);
        return;
    default:
        queue_slot_lost(queue, number, NULL, 0);
    }
}

void queue_park(struct queue *queue, unsigned number, const struct waiting_task *task, const char *payload,
                size_t length)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->wait.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_park, 7 + 2 * (size_t)task->other_count, 17);
    redis_request_texts(out, queue->keys.process, queue->keys.schedule);
    list_encode(&queue->keys, task->list, out);
    redis_request_texts(out, queue->keys.freed, queue->keys.contended, queue->keys.paused);
    for (unsigned i = 0; i < task->other_count; i++) {
        queue_keys_request(queue->keys.waiting_prefix, task->others[i], out);
        queue_keys_request(queue->keys.waiters_prefix, task->others[i], out);
    }
    claim_encode(slot, number, out);
    redis_request_texts(out, task->list, task->jid, task->queue, task->class_name, task->set);
    redis_request_integer(out, task->seen_us);
    microseconds_encode(task->near_ns, out);
    microseconds_encode(random_between(FAR_MIN_NS, FAR_MAX_NS), out);
    microseconds_encode(random_between(SOON_MIN_NS, SOON_MAX_NS), out);
    redis_request_integer(out, task->waiters_max);
    redis_request_texts(out, task->may_retry ? "1" : "0", queue->keys.queue_prefix);
    redis_request_integer(out, group_of(task->list));
    redis_request_bytes(out, payload, length);
    slot->wait.done = park_done;
    retried_call_start(&slot->wait);
}

/* --- skipping ----------------------------------------------------------------------------------------------------- */

static void skip_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct claim_slot *slot = list_owner(retried_call, struct claim_slot, wait);
    struct queue *queue = retried_call_queue(retried_call);
    unsigned number = (unsigned)(slot - queue->slots);
    switch (reply->kind == REDIS_INTEGER ? reply->integer : SKIP_LOST) {
    case SKIP_ENDED:
        slot_keeps(queue, number, QUEUE_NOTHING);
        return;
    case SKIP_WAITS:
        slot_keeps(queue, number, QUEUE_KEPT);
        return;
    default:
        queue_slot_lost(queue, number, NULL, 0);
    }
}

void queue_skip(struct queue *queue, unsigned number, const struct queue_task_name *task, const char *const *lists,
                unsigned list_count)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    struct buffer *out = &slot->wait.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_skip, 5 + (size_t)list_count, 5);
    redis_request_text(out, queue->keys.process);
    claim_encode_unique(queue, task, out);
    redis_request_text(out, queue->keys.cancels);
    queue_keys_request(queue->keys.iteration_prefix, task->jid, out);
    queue_keys_request(queue->keys.recovered_prefix, task->jid, out);
    for (unsigned i = 0; i < list_count; i++)
        queue_keys_request(queue->keys.waiting_prefix, lists[i], out);
    claim_encode(slot, number, out);
    redis_request_texts(out, task->jid, task->is_cancelled ? "1" : "0");
    slot->wait.done = skip_done;
    retried_call_start(&slot->wait);
}

/* --- successors --------------------------------------------------------------------------------------------------- */

/* An answer about a claim counts as long as the slot has it and no call changes it. */
static void claim_judge(struct queue *queue, unsigned number, bool is_there)
{
    struct claim_slot *slot = &queue->slots[number];
    if (slot->asking || !slot->holds || memcmp(slot->confirms, slot->id, CLAIM_ID_BYTES) != 0)
        return;
    if (is_there && slot->is_confirmed && queue->options.confirmed != NULL)
        queue->options.confirmed(queue->options.context, number);
    if (is_there)
        return;
    slot->holds = slot->has_id = false;
    if (queue->options.lost != NULL)
        queue->options.lost(queue->options.context, number);
}

static void keep_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct claim_slot *slot = list_owner(retried_call, struct claim_slot, keep);
    struct queue *queue = retried_call_queue(retried_call);
    claim_judge(queue, (unsigned)(slot - queue->slots), reply->kind == REDIS_INTEGER && reply->integer == 1);
}

/* A call that confirms or keeps the claim is about to leave, so earlier questions get no answer any more. */
static void claim_asked(struct claim_slot *slot, bool is_confirmed)
{
    invariant(slot->holds && !slot->asking);
    retried_call_cancel(&slot->keep);
    memcpy(slot->confirms, slot->id, CLAIM_ID_BYTES);
    slot->is_confirmed = is_confirmed;
}

void queue_keep(struct queue *queue, unsigned number, const struct waiting_claim *claim)
{
    struct claim_slot *slot = &queue->slots[number];
    struct buffer *out = &slot->keep.request;
    claim_asked(slot, claim->kept_ns == 0);
    buffer_clear(out);
    redis_request_script(out, &queue_script_confirm, 2, 6);
    redis_request_texts(out, queue->keys.process, queue->keys.successors);
    redis_request_integer(out, number);
    redis_request_bytes(out, slot->id, CLAIM_ID_BYTES);
    redis_request_texts(out, claim->list, claim->jid, claim->holder_jid);
    microseconds_encode(claim->kept_ns, out);
    retried_call_start(&slot->keep);
}

static void successor_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    static const struct redis_reply missing = {.kind = REDIS_NIL};
    struct claim_slot *slot = list_owner(retried_call, struct claim_slot, wait);
    struct queue *queue = retried_call_queue(retried_call);
    bool fits = reply->kind == REDIS_ARRAY && reply->count == 4;
    if (fits && slot->settles_for != NOBODY)
        claim_judge(queue, slot->settles_for, redis_reply_is_text(&reply->elements[3], "1"));
    if (fits)
        queue->has_cancels = reply->elements[1].kind == REDIS_STRING && reply->elements[1].bytes[0] == '1';
    slot->has_no_progress = false; /* this call does not look */
    queue_slot_read(queue, (unsigned)(slot - queue->slots), fits ? &reply->elements[0] : &missing,
                    fits ? reply->elements[2].integer : 0);
}

void queue_claim_successor(struct queue *queue, unsigned number, const struct waiting_successor *successor)
{
    struct claim_slot *slot = queue_slot_ask(queue, number);
    const struct claim_slot *holder = &queue->slots[successor->holder];
    struct buffer *out = &slot->wait.request;
    invariant(successor->holder < queue->options.slots && slot->holds == (successor->ended_jid != NULL));
    slot->settles_for = successor->ended_jid != NULL && holder->holds && !holder->asking ? successor->holder : NOBODY;
    if (slot->settles_for != NOBODY)
        claim_asked(&queue->slots[successor->holder], true);
    buffer_clear(out);
    redis_request_script(out, &queue_script_claim_successor, 7,
                         12 + (size_t)queue->options.name_count + successor->class_count);
    redis_request_texts(out, queue->keys.process, queue->keys.paused, queue->keys.cancels, queue->keys.schedule);
    queue_keys_request(queue->keys.waiting_prefix, successor->list, out);
    queue_keys_request(queue->keys.waiters_prefix, successor->list, out);
    redis_request_text(out, queue->keys.successors);
    claim_encode(slot, number, out);
    redis_request_integer(out, successor->holder);
    redis_request_bytes(out, holder->asking ? holder->next : holder->id, CLAIM_ID_BYTES);
    redis_request_texts(out, successor->holder_jid, successor->ended_jid != NULL ? successor->ended_jid : "",
                        successor->set, queue->keys.queue_prefix, successor->list);
    microseconds_encode(successor->kept_ns, out);
    redis_request_integer(out, queue->options.name_count);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        redis_request_text(out, queue->names[i]);
    for (unsigned i = 0; i < successor->class_count; i++)
        redis_request_text(out, successor->classes[i]);
    slot->wait.done = successor_done;
    retried_call_start(&slot->wait);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

void queue_settle_and_free(struct queue *queue, unsigned number, bool claim_next, const struct waiting_end *end)
{
    struct claim_slot *slot = &queue->slots[number];
    invariant(end->list_count <= FREED_LISTS_MAX);
    buffer_clear(&slot->freed);
    for (unsigned i = 0; i < end->list_count; i++) {
        queue_keys_request(queue->keys.waiting_prefix, end->lists[i], &slot->freed);
        slot->freed_groups[i] = end->is_handed_on ? GROUP_OF_NO_LIST : group_of(end->lists[i]);
    }
    size_t jid = end->jid != NULL ? strnlen(end->jid, sizeof slot->freed_jid - 1) : 0;
    memcpy(slot->freed_jid, end->jid != NULL ? end->jid : "", jid);
    slot->freed_jid[jid] = '\0';
    slot->freed_lists = end->list_count;
    slot->is_handed_on = end->is_handed_on;
    queue_slot_gather(queue, number, claim_next);
}

void waiting_encode_freed_keys(const struct queue *queue, const unsigned *slots, unsigned count, struct buffer *out)
{
    redis_request_texts(out, queue->keys.schedule, queue->keys.freed);
    for (unsigned i = 0; i < count; i++)
        if (queue->slots[slots[i]].freed_lists > 0)
            buffer_append(out, queue->slots[slots[i]].freed.bytes, queue->slots[slots[i]].freed.length);
}

void waiting_encode_freed(struct queue *queue, const unsigned *slots, unsigned count, struct buffer *out)
{
    struct buffer *text = &queue->request;
    redis_request_texts(out, queue->keys.queue_prefix, queue->keys.waiting_prefix, queue->keys.waiters_prefix);
    buffer_clear(text);
    for (unsigned i = 0; i < count; i++)
        for (unsigned l = 0; l < queue->slots[slots[i]].freed_lists; l++)
            queue_append_number(text, queue->slots[slots[i]].freed_groups[l]);
    redis_request_bytes(out, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < count; i++) {
        const struct claim_slot *slot = &queue->slots[slots[i]];
        buffer_append_text(text, slot->freed_lists > 0 ? slot->freed_jid : "");
        buffer_append(text, "\n", 1);
    }
    redis_request_bytes(out, text->bytes, text->length);
}

static void free_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct free_call *call = list_owner(retried_call, struct free_call, retried_call);
    struct queue *queue = call->queue;
    if (reply->kind == REDIS_INTEGER && reply->integer == FREE_IS_DUE && queue->options.parked != NULL)
        queue->options.parked(queue->options.context, call->after_ns);
    call->is_asking = false;
    list_append(&queue->idle_frees, &call->idle_link);
}

static struct free_call *free_call_new(struct queue *queue)
{
    struct list *idle = list_take_first(&queue->idle_frees);
    if (idle != NULL)
        return list_owner(idle, struct free_call, idle_link);
    struct free_call *call = memory_new(struct free_call);
    call->queue = queue;
    list_init(&call->link);
    list_init(&call->idle_link);
    retried_call_init(&call->retried_call, &queue->retried_calls, free_done);
    list_append(&queue->frees, &call->link);
    return call;
}

void waiting_request_free(const struct queue_keys *keys, const struct waiting_end *end, struct buffer *out)
{
    redis_request_script(out, &queue_script_free, 3 + 2 * (size_t)end->list_count, 5 + (size_t)end->list_count);
    redis_request_texts(out, keys->schedule, keys->paused, keys->freed);
    for (unsigned i = 0; i < end->list_count; i++)
        list_encode(keys, end->lists[i], out);
    redis_request_texts(out, keys->queue_prefix, end->jid != NULL ? end->jid : "", end->is_handed_on ? "1" : "0");
    redis_request_integer(out, end->wakes > 0 ? end->wakes : 1);
    microseconds_encode(end->after_ns, out);
    for (unsigned i = 0; i < end->list_count; i++)
        redis_request_integer(out, group_of(end->lists[i]));
}

void queue_free(struct queue *queue, const struct waiting_end *end)
{
    struct free_call *call = free_call_new(queue);
    buffer_clear(&call->retried_call.request);
    waiting_request_free(&queue->keys, end, &call->retried_call.request);
    call->after_ns = end->after_ns;
    call->is_asking = true;
    retried_call_start(&call->retried_call);
}

bool waiting_frees(const struct queue *queue)
{
    for (const struct list *link = queue->frees.next; link != &queue->frees; link = link->next)
        if (list_owner(link, const struct free_call, link)->is_asking)
            return true;
    return false;
}

/* --- what is known ------------------------------------------------------------------------------------------------ */

bool queue_has_waiters(const struct queue *queue, unsigned slot)
{
    return queue->slots[slot].has_waiters;
}

int64_t queue_seen_us(const struct queue *queue, unsigned slot)
{
    return queue->slots[slot].seen_us;
}

void waiting_init(struct queue *queue)
{
    list_init(&queue->frees);
    list_init(&queue->idle_frees);
    for (unsigned i = 0; i < queue->options.slots; i++) {
        retried_call_init(&queue->slots[i].wait, &queue->retried_calls, park_done);
        retried_call_init(&queue->slots[i].keep, &queue->retried_calls, keep_done);
    }
}

void waiting_fini(struct queue *queue)
{
    struct list *link = NULL;
    while ((link = list_take_first(&queue->frees)) != NULL) {
        struct free_call *call = list_owner(link, struct free_call, link);
        retried_call_fini(&call->retried_call);
        free(call);
    }
    for (unsigned i = 0; i < queue->options.slots; i++) {
        retried_call_fini(&queue->slots[i].wait);
        retried_call_fini(&queue->slots[i].keep);
        buffer_fini(&queue->slots[i].freed);
    }
}
