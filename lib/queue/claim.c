/* Claims tasks: one call of the claim script for the slots that asked within a cycle of the loop. It settles what they
 * have done, and claims the next tasks (scripts/claim.lua). Runs on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"
#include "queue/serving_order.h"

enum { CLAIM_NOTES = 5 };

/* One script call: the slots that share it. */
struct claim_call {
    struct list link;      /* in queue->claim_calls */
    struct list idle_link; /* in queue->idle_claim_calls */
    struct retried_call retried_call;
    struct queue *queue;
    unsigned *order; /* of the queues, as the call looks at them */
    unsigned count;
    unsigned slots[];
};

/* A note with a character for each slot, or with none. */
static char note_of_slot(const struct redis_reply *note, const struct claim_call *call, unsigned index)
{
    return note->kind == REDIS_STRING && note->length == call->count ? note->bytes[index] : '\0';
}

/* Reads what the call saw: which queues are paused (the lists of blocking claims, which come first, stand for them),
 * whether there are tasks to cancel, the node's time, for which slots' locks a task waits, and which tasks are new to
 * dashboards. */
static void call_notes(struct queue *queue, const struct claim_call *call, const struct redis_reply *notes)
{
    if (notes[0].kind == REDIS_STRING && notes[0].length >= queue->options.name_count)
        queue_note_paused(queue, call->order, notes[0].bytes, queue->options.name_count);
    queue->has_cancels = notes[1].kind == REDIS_STRING && notes[1].length == 1 && notes[1].bytes[0] == '1';
    for (unsigned i = 0; i < call->count; i++) {
        queue->slots[call->slots[i]].has_waiters = note_of_slot(&notes[3], call, i) == '1';
        queue->slots[call->slots[i]].has_no_progress = note_of_slot(&notes[4], call, i) == '0';
    }
}

static void call_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    static const struct redis_reply missing = {.kind = REDIS_NIL};
    struct claim_call *call = list_owner(retried_call, struct claim_call, retried_call);
    struct queue *queue = call->queue;
    bool fits = reply->kind == REDIS_ARRAY && reply->count == call->count + CLAIM_NOTES;
    if (fits)
        call_notes(queue, call, &reply->elements[call->count]);
    int64_t seen_us = fits ? reply->elements[call->count + 2].integer : 0;
    for (unsigned i = 0; i < call->count; i++)
        queue_slot_read(queue, call->slots[i], fits ? &reply->elements[i] : &missing, seen_us);
    list_append(&queue->idle_claim_calls, &call->idle_link);
}

/* The slots ask again, each with what it asked for, in smaller calls. */
static void call_divide(struct retried_call *retried_call)
{
    struct claim_call *call = list_owner(retried_call, struct claim_call, retried_call);
    struct queue *queue = call->queue;
    memcpy(queue->gathered + queue->gathered_count, call->slots, call->count * sizeof call->slots[0]);
    queue->gathered_count += call->count;
    list_append(&queue->idle_claim_calls, &call->idle_link);
    loop_at_cycle_end(queue->loop, LOOP_GATHER, &queue->gather);
}

static struct claim_call *call_new(struct queue *queue)
{
    struct list *idle = list_take_first(&queue->idle_claim_calls);
    if (idle != NULL)
        return list_owner(idle, struct claim_call, idle_link);
    struct claim_call *call = memory_zeroed(1, sizeof *call + queue->options.slots * sizeof call->slots[0]);
    call->queue = queue;
    call->order = memory_zeroed(queue->options.name_count, sizeof call->order[0]);
    list_init(&call->link);
    list_init(&call->idle_link);
    retried_call_init(&call->retried_call, &queue->retried_calls, call_done);
    call->retried_call.divide = call_divide;
    list_append(&queue->claim_calls, &call->link);
    return call;
}

static uint64_t random_below(void *context, uint64_t below)
{
    (void)context;
    return (uint64_t)random_between(0, (int64_t)below - 1);
}

static void lists_encode(struct queue *queue, const unsigned *order, struct buffer *out)
{
    redis_request_texts(out, queue->keys.process, queue->keys.paused, queue->keys.cancels);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_bell(&queue->keys, queue->names[order[i]], out);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_queue(&queue->keys, queue->names[order[i]], out);
}

static unsigned char sign_of(const struct claim_slot *slot)
{
    unsigned locks = slot->freed_lists;
    return (unsigned char)('0' + (slot->wants ? 1u : 0) + (locks > 0 && slot->is_handed_on ? 2u : 0) + 4 * locks);
}

static void slots_encode(struct queue *queue, const struct claim_call *call, struct buffer *out)
{
    struct buffer *text = &queue->request;
    buffer_clear(text);
    for (unsigned i = 0; i < call->count; i++)
        queue_append_number(text, call->slots[i]);
    redis_request_bytes(out, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < call->count; i++) {
        unsigned char sign = sign_of(&queue->slots[call->slots[i]]);
        buffer_append(text, &sign, 1);
    }
    redis_request_bytes(out, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < call->count; i++) {
        const struct claim_slot *slot = &queue->slots[call->slots[i]];
        buffer_append(text, slot->has_id ? (const char *)slot->id : "----------------", CLAIM_ID_BYTES);
        buffer_append(text, slot->next, CLAIM_ID_BYTES);
    }
    redis_request_bytes(out, text->bytes, text->length);
}

static unsigned freed_lists(const struct queue *queue, const unsigned *slots, unsigned count)
{
    unsigned lists = 0;
    for (unsigned i = 0; i < count; i++)
        lists += queue->slots[slots[i]].freed_lists;
    return lists;
}

static void call_encode(struct claim_call *call)
{
    struct queue *queue = call->queue;
    struct buffer *out = &call->retried_call.request;
    size_t lists = 2 * (size_t)queue->options.name_count, freed = freed_lists(queue, call->slots, call->count);
    serving_order_draw(call->order, queue->options.weights, queue->options.name_count, random_below, NULL);
    buffer_clear(out);
    redis_request_script(out, &queue_script_claim, 3 + lists + (freed > 0 ? 2 + freed : 0),
                         6 + lists + (freed > 0 ? 5 : 0) + queue->asks_for_progress);
    lists_encode(queue, call->order, out);
    if (freed > 0)
        waiting_encode_freed_keys(queue, call->slots, call->count, out);
    redis_request_integer(out, (int64_t)queue->options.claim_bytes);
    redis_request_integer(out, (int64_t)lists);
    redis_request_integer(out, call->count);
    for (size_t i = 0; i < lists; i++)
        redis_request_text(out, queue->names[call->order[i % queue->options.name_count]]);
    slots_encode(queue, call, out);
    if (freed > 0)
        waiting_encode_freed(queue, call->slots, call->count, out);
    if (queue->asks_for_progress)
        redis_request_text(out, queue->keys.iteration_prefix);
}

/* If all claimed in one call, they would wait together while the node works, and the node while they run. The ends of
 * locked tasks go together: these wait for the lock nodes, and two calls cost more than one. */
static unsigned call_slots(const struct queue *queue)
{
    unsigned received = answer_window_most(&queue->retried_calls.window);
    unsigned most = queue->options.call_slots, count = queue->gathered_count;
    if (most > 0 && most < count && freed_lists(queue, queue->gathered, count) == 0)
        count = most;
    return received < count ? received : count;
}

/* What is too many for one call leaves with the next cycle, so that the node answers the two apart. */
static void gather_send(struct loop_hook *hook)
{
    struct queue *queue = list_owner(hook, struct queue, gather);
    struct claim_call *call = call_new(queue);
    call->count = call->retried_call.brings = call_slots(queue);
    memcpy(call->slots, queue->gathered, call->count * sizeof call->slots[0]);
    queue->gathered_count -= call->count;
    memmove(queue->gathered, queue->gathered + call->count, queue->gathered_count * sizeof queue->gathered[0]);
    if (queue->gathered_count > 0)
        loop_timer_set(queue->loop, &queue->gather_rest, loop_now(queue->loop));
    else
        loop_timer_clear(queue->loop, &queue->gather_rest);
    call_encode(call);
    queue->counters.claim_calls++;
    retried_call_start(&call->retried_call);
}

static void gather_rest_fire(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, gather_rest);
    loop_at_cycle_end(queue->loop, LOOP_GATHER, &queue->gather);
}

void queue_settle_and_claim(struct queue *queue, unsigned slot, bool claim_next)
{
    queue->slots[slot].freed_lists = 0;
    queue_slot_gather(queue, slot, claim_next);
}

bool queue_has_no_progress(struct queue *queue, unsigned slot)
{
    queue->asks_for_progress = true;
    return queue->slots[slot].has_no_progress;
}

void claims_init(struct queue *queue)
{
    queue->gathered = memory_zeroed(queue->options.slots, sizeof queue->gathered[0]);
    loop_hook_init(&queue->gather, gather_send);
    loop_timer_init(&queue->gather_rest, gather_rest_fire);
    list_init(&queue->claim_calls);
    list_init(&queue->idle_claim_calls);
}

void claims_free(struct queue *queue)
{
    struct list *link = NULL;
    while ((link = list_take_first(&queue->claim_calls)) != NULL) {
        struct claim_call *call = list_owner(link, struct claim_call, link);
        retried_call_fini(&call->retried_call);
        free(call->order);
        free(call);
    }
}
