/* Turns of slots: gathering, and the claim script. See queue.h for the protocol. */
#include "queue/queue_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/random.h"
#include "queue/scripts.h"
#include "queue/serving_order.h"

#define CLAIM_BYTES_DEFAULT (1 << 20)

enum { CLAIM_NOTES = 4 };

/* One script call: the slots that share it. */
struct turn {
    struct list link;      /* in queue->turns */
    struct list idle_link; /* in queue->idle_turns */
    struct retried_call retried_call;
    struct queue *queue;
    unsigned *order; /* of the queues, as the call looks at them */
    unsigned count;
    unsigned slots[];
};

/* --- the connection ------------------------------------------------------------------------------------------- */

/* Emptying the database also unlists this process. */
static void call_refused(struct retried_calls *retried_calls, const struct redis_result *result)
{
    static const char unlisted[] = "UNLISTED";
    if (strncmp(result->reason, unlisted, sizeof unlisted - 1) == 0)
        queue_enlist(list_owner(retried_calls, struct queue, retried_calls));
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct queue *queue = context;
    if (state == REDIS_NODE_UP) {
        queue_enlist(queue);
        retried_calls_connected(&queue->retried_calls);
    } else {
        recovery_permit_broken(&queue->permit);
    }
    queue->was_up = queue->was_up || state == REDIS_NODE_UP;
    if (queue->options.changed != NULL)
        queue->options.changed(queue->options.context, state);
}

/* Reads what the call saw: which queues are paused (the bells, which come first, stand for them), whether there are
 * tasks to cancel, the node's time, and for which slots' locks a task waits. */
static void turn_notes(struct queue *queue, const struct turn *turn, const struct redis_reply *notes)
{
    if (notes[0].kind == REDIS_STRING && notes[0].length >= queue->options.name_count)
        queue_note_paused(queue, turn->order, notes[0].bytes, queue->options.name_count);
    queue->has_cancels = notes[1].kind == REDIS_STRING && notes[1].length == 1 && notes[1].bytes[0] == '1';
    bool tells = notes[3].kind == REDIS_STRING && notes[3].length == turn->count;
    for (unsigned i = 0; i < turn->count; i++)
        queue->slots[turn->slots[i]].has_waiters = tells && notes[3].bytes[i] == '1';
}

static void turn_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    static const struct redis_reply missing = {.kind = REDIS_NIL};
    struct turn *turn = list_owner(retried_call, struct turn, retried_call);
    struct queue *queue = turn->queue;
    bool fits = reply->kind == REDIS_ARRAY && reply->count == turn->count + CLAIM_NOTES;
    if (fits)
        turn_notes(queue, turn, &reply->elements[turn->count]);
    int64_t seen_us = fits ? reply->elements[turn->count + 2].integer : 0;
    for (unsigned i = 0; i < turn->count; i++)
        queue_slot_read(queue, turn->slots[i], fits ? &reply->elements[i] : &missing, seen_us);
    list_append(&queue->idle_turns, &turn->idle_link);
}

/* --- the turn of all slots that asked -------------------------------------------------------------------------- */

static struct turn *turn_new(struct queue *queue)
{
    struct list *idle = list_take_first(&queue->idle_turns);
    if (idle != NULL)
        return list_owner(idle, struct turn, idle_link);
    struct turn *turn = memory_zeroed(1, sizeof *turn + queue->options.slots * sizeof turn->slots[0]);
    turn->queue = queue;
    turn->order = memory_zeroed(queue->options.name_count, sizeof turn->order[0]);
    list_init(&turn->link);
    list_init(&turn->idle_link);
    retried_call_init(&turn->retried_call, &queue->retried_calls, turn_done);
    list_append(&queue->turns, &turn->link);
    return turn;
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

static void slots_encode(struct queue *queue, const struct turn *turn, struct buffer *out)
{
    struct buffer *text = &queue->request;
    buffer_clear(text);
    for (unsigned i = 0; i < turn->count; i++)
        queue_append_number(text, turn->slots[i]);
    redis_request_bytes(out, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < turn->count; i++) {
        unsigned char sign = sign_of(&queue->slots[turn->slots[i]]);
        buffer_append(text, &sign, 1);
    }
    redis_request_bytes(out, text->bytes, text->length);
    buffer_clear(text);
    for (unsigned i = 0; i < turn->count; i++) {
        const struct claim_slot *slot = &queue->slots[turn->slots[i]];
        buffer_append(text, slot->has_id ? (const char *)slot->id : "----------------", CLAIM_ID_BYTES);
        buffer_append(text, slot->next, CLAIM_ID_BYTES);
    }
    redis_request_bytes(out, text->bytes, text->length);
}

static unsigned turn_freed_lists(const struct turn *turn)
{
    unsigned lists = 0;
    for (unsigned i = 0; i < turn->count; i++)
        lists += turn->queue->slots[turn->slots[i]].freed_lists;
    return lists;
}

static void turn_encode(struct turn *turn)
{
    struct queue *queue = turn->queue;
    struct buffer *out = &turn->retried_call.request;
    size_t lists = 2 * (size_t)queue->options.name_count, freed = turn_freed_lists(turn);
    serving_order_draw(turn->order, queue->options.weights, queue->options.name_count, random_below, NULL);
    buffer_clear(out);
    redis_request_script(out, &queue_script_claim, 3 + lists + (freed > 0 ? 2 + freed : 0),
                         6 + lists + (freed > 0 ? 5 : 0));
    lists_encode(queue, turn->order, out);
    if (freed > 0)
        waiting_encode_freed_keys(queue, turn->slots, turn->count, out);
    redis_request_integer(out, (int64_t)queue->options.claim_bytes);
    redis_request_integer(out, (int64_t)lists);
    redis_request_integer(out, turn->count);
    for (size_t i = 0; i < lists; i++)
        redis_request_text(out, queue->names[turn->order[i % queue->options.name_count]]);
    slots_encode(queue, turn, out);
    if (freed > 0)
        waiting_encode_freed(queue, turn->slots, turn->count, out);
}

static void gather_send(struct loop_hook *hook)
{
    struct queue *queue = list_owner(hook, struct queue, gather);
    struct turn *turn = turn_new(queue);
    turn->count = queue->gathered_count;
    memcpy(turn->slots, queue->gathered, turn->count * sizeof turn->slots[0]);
    queue->gathered_count = 0;
    turn_encode(turn);
    queue->counters.claim_calls++;
    retried_call_start(&turn->retried_call);
}

void queue_turn(struct queue *queue, unsigned slot, bool claim_next)
{
    queue->slots[slot].freed_lists = 0;
    queue_slot_gather(queue, slot, claim_next);
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static unsigned *weights_copy(const unsigned *weights, unsigned count)
{
    unsigned *copy = memory_zeroed(count, sizeof copy[0]);
    memcpy(copy, weights, count * sizeof copy[0]);
    return copy;
}

static void options_take(struct queue *queue, const struct queue_options *options)
{
    invariant(options->name_count >= 1 && options->slots >= 1);
    queue->options = *options;
    if (queue->options.claim_bytes == 0)
        queue->options.claim_bytes = CLAIM_BYTES_DEFAULT;
    if (queue->options.lease_ns == 0)
        queue->options.lease_ns = QUEUE_LEASE_DEFAULT_NS;
    queue->identity = memory_text(options->identity);
    queue->names = memory_zeroed(options->name_count, sizeof queue->names[0]);
    for (unsigned i = 0; i < options->name_count; i++)
        queue->names[i] = memory_text(options->names[i]);
    if (options->weights != NULL)
        queue->options.weights = weights_copy(options->weights, options->name_count);
    queue_keys_init(&queue->keys, options->space != NULL ? options->space : "", options->identity);
}

/* A process must reconnect within the time before others declare it dead (recovery_permit.h). */
static int64_t backoff_max(const struct queue *queue)
{
    int64_t configured = queue->options.node.backoff_max_ns > 0 ? queue->options.node.backoff_max_ns : 2 * NS_PER_S;
    int64_t quarter = queue->options.lease_ns / 4;
    return configured < quarter ? configured : quarter;
}

static void node_open(struct queue *queue)
{
    struct redis_node_options *node = &queue->options.node;
    node->backoff_max_ns = backoff_max(queue);
    node->scripts = queue_scripts;
    node->script_count = QUEUE_SCRIPT_COUNT;
    node->changed = node_changed;
    node->context = queue;
    /* One call may carry every slot's payload, one of them of any size that a producer dared. */
    node->reply_limit = (size_t)512 << 20;
    node->element_limit = 4096;
    node->unanswered_limit = (size_t)1 << 30;
    queue->node = redis_node_create(queue->loop, node);
}

struct queue *queue_create(struct loop *loop, const struct queue_options *options)
{
    struct queue *queue = memory_new(struct queue);
    queue->loop = loop;
    options_take(queue, options);
    queue->slots = memory_zeroed(options->slots, sizeof queue->slots[0]);
    queue->gathered = memory_zeroed(options->slots, sizeof queue->gathered[0]);
    loop_hook_init(&queue->gather, gather_send);
    list_init(&queue->turns);
    list_init(&queue->idle_turns);
    retried_calls_init(&queue->retried_calls, loop, options->timeout_ns, &queue->counters.repeats);
    queue->retried_calls.refused = call_refused;
    moves_init(queue);
    waiting_init(queue);
    claim_slots_init(queue);
    node_open(queue);
    queue->retried_calls.node = queue->node;
    blocking_claims_create(queue);
    process_lease_create(queue);
    return queue;
}

static void turns_free(struct queue *queue)
{
    struct list *link = NULL;
    while ((link = list_take_first(&queue->turns)) != NULL) {
        struct turn *turn = list_owner(link, struct turn, link);
        retried_call_fini(&turn->retried_call);
        free(turn->order);
        free(turn);
    }
}

void queue_destroy(struct queue *queue)
{
    loop_hook_cancel(&queue->gather);
    loop_timer_clear(queue->loop, &queue->leave_timer);
    process_lease_destroy(queue);
    blocking_claims_destroy(queue);
    redis_node_destroy(queue->node);
    turns_free(queue);
    moves_fini(queue);
    waiting_fini(queue);
    retried_call_fini(&queue->presence);
    retried_calls_fini(&queue->retried_calls);
    queue_keys_fini(&queue->keys);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        free(queue->names[i]);
    free(queue->names);
    free((void *)queue->options.weights);
    free(queue->identity);
    free(queue->slots);
    free(queue->gathered);
    buffer_fini(&queue->request);
    free(queue);
}

bool queue_has_cancels(const struct queue *queue)
{
    return queue->has_cancels;
}

bool queue_was_reached(const struct queue *queue)
{
    return queue->was_up;
}

struct wall_time queue_now(const struct queue *queue)
{
    if (queue->told_us == 0)
        return wall_now();
    return (struct wall_time){queue->told_us + instant_since(queue->told_at, loop_now(queue->loop)) / NS_PER_US};
}

struct redis_node *queue_node(struct queue *queue)
{
    return queue->node;
}

const struct queue_keys *queue_keys_of(const struct queue *queue)
{
    return &queue->keys;
}

const struct queue_counters *queue_counters(const struct queue *queue)
{
    return &queue->counters;
}

/* --- the end of the process --------------------------------------------------------------------------------------- */

#define LOOK_NS (5 * NS_PER_MS)

static void leave_end(struct queue *queue, bool left)
{
    loop_timer_clear(queue->loop, &queue->leave_timer);
    redis_call_cancel(&queue->leave_call);
    void (*done)(void *context, bool left) = queue->left;
    queue->left = NULL;
    if (done != NULL)
        done(queue->options.context, left);
}

static void leave_answered(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, leave_call);
    if (result->outcome == REDIS_VALUE)
        leave_end(queue, result->reply->kind == REDIS_INTEGER && result->reply->integer == 0);
    /* else: the timer tries again; the script finds nothing the second time */
}

static void leave_send(struct queue *queue)
{
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_leave, 2 + 2 * (size_t)queue->options.name_count, 2);
    redis_request_texts(out, queue->keys.processes, queue->keys.process);
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        queue_keys_request_bell(&queue->keys, queue->names[i], out);
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    }
    redis_request_texts(out, queue->identity, queue->keys.queue_prefix);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    queue->leave_call.done = leave_answered;
    if (!redis_node_call(queue->node, out, deadline, &queue->leave_call))
        return; /* the timer tries again */
}

/* Waits for slots whose last call is on its way or will be repeated: a finished task must not be given back. Waits for
 * releases, too: other tasks wait for those locks. */
static bool slots_settle(const struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.slots; i++)
        if (queue->slots[i].asking)
            return true;
    return waiting_frees(queue);
}

static void leave_look(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, leave_timer);
    if (!queue->was_up) {
        leave_end(queue, true);
        return;
    }
    if (instant_reached(loop_now(queue->loop), queue->leave_by)) {
        leave_end(queue, false);
        return;
    }
    loop_timer_set(queue->loop, timer, loop_after(queue->loop, LOOK_NS));
    bool settled = !slots_settle(queue) || instant_reached(loop_now(queue->loop), queue->settle_by);
    if (blocking_claims_end(queue) && settled && !redis_call_is_outstanding(&queue->leave_call))
        leave_send(queue);
}

void queue_leave(struct queue *queue, struct instant deadline, void (*done)(void *context, bool left))
{
    queue->leaving = true;
    queue->listening = false;
    queue->left = done;
    queue->leave_by = deadline;
    queue->settle_by = instant_after(deadline, -instant_since(loop_now(queue->loop), deadline) / 2);
    retried_call_cancel(&queue->presence); /* it must not list the process again afterwards */
    process_lease_stop(queue);
    loop_timer_init(&queue->leave_timer, leave_look);
    leave_look(&queue->leave_timer);
}

void queue_leave_by(struct queue *queue, struct instant deadline)
{
    queue->leave_by = instant_earlier(queue->leave_by, deadline);
    queue->settle_by = instant_earlier(queue->settle_by, queue->leave_by);
}

/* --- backlog ------------------------------------------------------------------------------------------------------ */

/* Counts the remaining work, for a worker that stops once it is done. Runs on the loop. */

static void backlog_told(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, count_call);
    struct queue_backlog backlog = {.known = result->outcome == REDIS_VALUE && result->reply->kind == REDIS_ARRAY &&
                                             result->reply->count == 2};
    if (backlog.known) {
        backlog.waiting = result->reply->elements[0].integer;
        backlog.pending = result->reply->elements[1].integer;
    }
    queue->counted(queue->options.context, &backlog);
}

void queue_count(struct queue *queue, int64_t since_ns, int64_t horizon_ns,
                 void (*told)(void *context, const struct queue_backlog *backlog))
{
    struct buffer *out = &queue->request;
    size_t names = queue->options.name_count;
    redis_call_cancel(&queue->count_call);
    queue->counted = told;
    queue->count_call.done = backlog_told;
    buffer_clear(out);
    redis_request_script(out, &queue_script_backlog, 5 + names, 6 + names);
    redis_request_texts(out, queue->keys.schedule, queue->keys.retry, queue->keys.paused, queue->keys.processes,
                        queue->keys.contended);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    redis_request_integer(out, since_ns / NS_PER_S);
    redis_request_integer(out, horizon_ns / NS_PER_S);
    redis_request_texts(out, queue->keys.process_prefix, queue->keys.any_bell_prefix, queue->keys.waiting_prefix,
                        queue->keys.places_prefix);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        redis_request_text(out, queue->names[i]);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    if (!redis_node_call(queue->node, out, deadline, &queue->count_call))
        told(queue->options.context, &(struct queue_backlog){.known = false});
}
