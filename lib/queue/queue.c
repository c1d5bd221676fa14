/* Turns of slots: gathering, the claim script, and the moves of single tasks. See queue.h for the protocol. */
#include "queue/queue_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/scripts.h"

#define CLAIM_BYTES_DEFAULT (1 << 20)

enum { TASK_NAME_MAX = 256 };

/* One script call: the slots that share it. */
struct turn {
    struct list link;      /* in queue->turns */
    struct list idle_link; /* in queue->idle_turns */
    struct errand errand;
    struct queue *queue;
    unsigned count;
    unsigned slots[];
};

/* --- the connection ------------------------------------------------------------------------------------------- */

static void presence_done(struct errand *errand, const struct redis_reply *reply)
{
    (void)reply;
    list_owner(errand, struct queue, presence)->presenting = false;
}

/* Listed before anything can be claimed, so that the claims of a process that dies can be found. */
static void presence_send(struct queue *queue)
{
    if (queue->presenting || queue->leaving)
        return;
    queue->presenting = true;
    buffer_clear(&queue->presence.request);
    redis_request_script(&queue->presence.request, &queue_script_enlist, 1, 1);
    redis_request_text(&queue->presence.request, queue->keys.processes);
    redis_request_text(&queue->presence.request, queue->identity);
    errand_start(&queue->presence);
}

/* Whoever emptied the database took us off the list too. */
static void call_refused(struct errands *errands, const struct redis_result *result)
{
    static const char unlisted[] = "UNLISTED";
    if (strncmp(result->reason, unlisted, sizeof unlisted - 1) == 0)
        presence_send(list_owner(errands, struct queue, errands));
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct queue *queue = context;
    if (state == REDIS_NODE_UP) {
        presence_send(queue);
        errands_connected(&queue->errands);
    }
    queue->was_up = queue->was_up || state == REDIS_NODE_UP;
    if (queue->options.changed != NULL)
        queue->options.changed(queue->options.context, state);
}

static void give_back_send(struct queue *queue, unsigned number, const char *name);

/* --- answers -------------------------------------------------------------------------------------------------- */

static void slot_holds(struct claim_slot *slot, const void *id)
{
    memcpy(slot->id, id, CLAIM_ID_BYTES);
    slot->has_id = true;
}

static void slot_answer(struct queue *queue, unsigned number, enum queue_answer answer, const char *name,
                        const char *payload, size_t length)
{
    queue->slots[number].asking = false;
    queue->counters.claims += answer == QUEUE_CLAIMED;
    queue->options.answered(queue->options.context, number, answer, name, payload, length);
}

/* Cuts "queue newline payload"; the payload's start, or NULL when our script did not write this. */
static const char *task_cut(const char *text, size_t length, char name[TASK_NAME_MAX])
{
    const char *line = memchr(text, '\n', length);
    if (line == NULL || line - text >= TASK_NAME_MAX)
        return NULL;
    memcpy(name, text, (size_t)(line - text));
    name[line - text] = '\0';
    return line + 1;
}

static void slot_claimed(struct queue *queue, unsigned number, const char *text, size_t length)
{
    char name[TASK_NAME_MAX];
    const char *payload = task_cut(text, length, name);
    slot_holds(&queue->slots[number], queue->slots[number].next);
    if (payload != NULL) {
        slot_answer(queue, number, QUEUE_CLAIMED, name, payload, length - (size_t)(payload - text));
        return;
    }
    log_event(LOG_ERROR, "claim_unreadable", "slot=%u bytes=%zu", number, length);
    slot_answer(queue, number, QUEUE_LOST, NULL, NULL, 0);
}

/* The claim is gone. Where a process that recovered it has been, we are listed no more. Where the node knows an older
 * state (a fail-over), the place holds another id and perhaps a task, which goes back before the slot goes on. */
static void slot_lost(struct queue *queue, unsigned number, const char *place, size_t length)
{
    char name[TASK_NAME_MAX];
    struct claim_slot *slot = &queue->slots[number];
    slot->has_id = false;
    presence_send(queue);
    if (length >= CLAIM_ID_BYTES)
        slot_holds(slot, place);
    if (length > CLAIM_ID_BYTES && task_cut(place + CLAIM_ID_BYTES, length - CLAIM_ID_BYTES, name) != NULL) {
        log_event(LOG_WARN, "claim_older", "slot=%u advice=\"the node knew an older task of it, which is given back\"",
                  number);
        slot->sets_right = true;
        give_back_send(queue, number, name);
        return;
    }
    slot_answer(queue, number, QUEUE_LOST, NULL, NULL, 0);
}

static void slot_read(struct queue *queue, unsigned number, const struct redis_reply *reply)
{
    char kind = reply->kind == REDIS_STRING && reply->length > 0 ? reply->bytes[0] : '\0';
    if (kind == '+') {
        slot_claimed(queue, number, reply->bytes + 1, reply->length - 1);
    } else if (kind == '-') {
        slot_holds(&queue->slots[number], queue->slots[number].next);
        slot_answer(queue, number, QUEUE_NOTHING, NULL, NULL, 0);
    } else {
        bool tells = kind == '!';
        slot_lost(queue, number, tells ? reply->bytes + 1 : NULL, tells ? reply->length - 1 : 0);
    }
}

static void turn_done(struct errand *errand, const struct redis_reply *reply)
{
    static const struct redis_reply missing = {.kind = REDIS_NIL};
    struct turn *turn = list_owner(errand, struct turn, errand);
    struct queue *queue = turn->queue;
    bool fits = reply->kind == REDIS_ARRAY && reply->count == turn->count;
    for (unsigned i = 0; i < turn->count; i++)
        slot_read(queue, turn->slots[i], fits ? &reply->elements[i] : &missing);
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
    list_init(&turn->link);
    list_init(&turn->idle_link);
    errand_init(&turn->errand, &queue->errands, turn_done);
    list_append(&queue->turns, &turn->link);
    return turn;
}

static void lists_encode(struct queue *queue, struct buffer *out)
{
    redis_request_text(out, queue->keys.processes);
    redis_request_text(out, queue->keys.process);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_bell(&queue->keys, queue->names[i], out);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
}

static void turn_encode(struct turn *turn)
{
    struct queue *queue = turn->queue;
    struct buffer *out = &turn->errand.request;
    size_t lists = 2 * (size_t)queue->options.name_count;
    buffer_clear(out);
    redis_request_script(out, &queue_script_claim, 2 + lists, 2 + lists + 4 * (size_t)turn->count);
    lists_encode(queue, out);
    redis_request_text(out, queue->identity);
    redis_request_integer(out, (int64_t)queue->options.claim_bytes);
    for (size_t i = 0; i < lists; i++)
        redis_request_text(out, queue->names[i % queue->options.name_count]);
    for (unsigned i = 0; i < turn->count; i++) {
        struct claim_slot *slot = &queue->slots[turn->slots[i]];
        redis_request_integer(out, turn->slots[i]);
        redis_request_bytes(out, slot->id, slot->has_id ? CLAIM_ID_BYTES : 0);
        redis_request_bytes(out, slot->next, CLAIM_ID_BYTES);
        redis_request_bytes(out, slot->wants ? "1" : "0", 1);
    }
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
    errand_start(&turn->errand);
}

static struct claim_slot *slot_ask(struct queue *queue, unsigned number)
{
    invariant(number < queue->options.slots);
    struct claim_slot *slot = &queue->slots[number];
    invariant(!slot->asking);
    slot->asking = true;
    random_bytes(slot->next, CLAIM_ID_BYTES);
    return slot;
}

void queue_turn(struct queue *queue, unsigned slot, bool claim_next)
{
    slot_ask(queue, slot)->wants = claim_next;
    queue->gathered[queue->gathered_count++] = slot;
    loop_at_turn_end(queue->loop, LOOP_GATHER, &queue->gather);
}

/* --- moves of one task ----------------------------------------------------------------------------------------- */

static void move_done(struct errand *errand, const struct redis_reply *reply)
{
    struct claim_slot *slot = list_owner(errand, struct claim_slot, move);
    struct queue *queue = list_owner(errand->errands, struct queue, errands);
    unsigned number = (unsigned)(slot - queue->slots);
    enum queue_answer answer = slot->sets_right ? QUEUE_LOST : QUEUE_NOTHING;
    slot->sets_right = false;
    if (reply->kind != REDIS_INTEGER || reply->integer != 1) {
        slot_lost(queue, number, NULL, 0);
        return;
    }
    slot_holds(slot, slot->next);
    slot_answer(queue, number, answer, NULL, NULL, 0);
}

static void slot_encode(const struct claim_slot *slot, unsigned number, struct buffer *out)
{
    redis_request_integer(out, number);
    redis_request_bytes(out, slot->id, slot->has_id ? CLAIM_ID_BYTES : 0);
    redis_request_bytes(out, slot->next, CLAIM_ID_BYTES);
}

static const char *place_key(const struct queue *queue, enum queue_place place)
{
    switch (place) {
    case QUEUE_RETRY:
        return queue->keys.retry;
    case QUEUE_SCHEDULE:
        return queue->keys.schedule;
    case QUEUE_DEAD:
        return queue->keys.dead;
    }
    invariant_unreachable("a place outside its enum");
}

void queue_postpone(struct queue *queue, unsigned number, enum queue_place place, int64_t delay_ns, const char *payload,
                    size_t length)
{
    struct claim_slot *slot = slot_ask(queue, number);
    struct buffer *out = &slot->move.request;
    char seconds[32];
    int digits = snprintf(seconds, sizeof seconds, "%.6f", (double)delay_ns / (double)NS_PER_S);
    buffer_clear(out);
    redis_request_script(out, &queue_script_postpone, 2, 7);
    redis_request_text(out, queue->keys.process);
    redis_request_text(out, place_key(queue, place));
    slot_encode(slot, number, out);
    redis_request_bytes(out, seconds, (size_t)digits);
    redis_request_bytes(out, payload, length);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, place == QUEUE_DEAD ? DEAD_ENTRIES : 0);
    errand_start(&slot->move);
}

static void give_back_send(struct queue *queue, unsigned number, const char *name)
{
    struct claim_slot *slot = &queue->slots[number];
    random_bytes(slot->next, CLAIM_ID_BYTES);
    struct buffer *out = &slot->move.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_give_back, 2, 3);
    redis_request_text(out, queue->keys.process);
    queue_keys_request_queue(&queue->keys, name, out);
    slot_encode(slot, number, out);
    errand_start(&slot->move);
}

void queue_give_back(struct queue *queue, unsigned number, const char *name)
{
    (void)slot_ask(queue, number);
    give_back_send(queue, number, name);
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static void options_take(struct queue *queue, const struct queue_options *options)
{
    invariant(options->name_count >= 1 && options->slots >= 1);
    queue->options = *options;
    if (queue->options.claim_bytes == 0)
        queue->options.claim_bytes = CLAIM_BYTES_DEFAULT;
    queue->identity = memory_text(options->identity);
    queue->names = memory_zeroed(options->name_count, sizeof queue->names[0]);
    for (unsigned i = 0; i < options->name_count; i++)
        queue->names[i] = memory_text(options->names[i]);
    queue_keys_init(&queue->keys, options->space != NULL ? options->space : "", options->identity);
}

static void node_open(struct queue *queue)
{
    struct redis_node_options *node = &queue->options.node;
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
    errands_init(&queue->errands, loop, options->timeout_ns, &queue->counters.repeats);
    queue->errands.refused = call_refused;
    for (unsigned i = 0; i < options->slots; i++)
        errand_init(&queue->slots[i].move, &queue->errands, move_done);
    errand_init(&queue->presence, &queue->errands, presence_done);
    node_open(queue);
    queue->errands.node = queue->node;
    bells_create(queue);
    return queue;
}

static void turns_free(struct queue *queue)
{
    struct list *link = NULL;
    while ((link = list_take_first(&queue->turns)) != NULL) {
        struct turn *turn = list_owner(link, struct turn, link);
        errand_fini(&turn->errand);
        free(turn);
    }
}

void queue_destroy(struct queue *queue)
{
    loop_hook_cancel(&queue->gather);
    loop_timer_clear(queue->loop, &queue->leave_timer);
    bells_destroy(queue);
    redis_node_destroy(queue->node);
    turns_free(queue);
    for (unsigned i = 0; i < queue->options.slots; i++)
        errand_fini(&queue->slots[i].move);
    errand_fini(&queue->presence);
    errands_fini(&queue->errands);
    queue_keys_fini(&queue->keys);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        free(queue->names[i]);
    free(queue->names);
    free(queue->identity);
    free(queue->slots);
    free(queue->gathered);
    buffer_fini(&queue->request);
    free(queue);
}

bool queue_was_reached(const struct queue *queue)
{
    return queue->was_up;
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
