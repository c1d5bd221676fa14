/* What the process knows of its claims: what each slot holds. Calls that claim, moves, waiting and the
 * process lease use this. On the loop. */
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/random.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

/* --- what the node said ---------------------------------------------------------------------------------------- */

void queue_note_time(struct queue *queue, int64_t us)
{
    if (us <= 0)
        return;
    queue->told_us = us;
    queue->told_at = loop_now(queue->loop);
}

struct wall_time queue_now(const struct queue *queue)
{
    if (queue->told_us == 0)
        return wall_now();
    return (struct wall_time){queue->told_us + instant_since(queue->told_at, loop_now(queue->loop)) / NS_PER_US};
}

void queue_note_paused(struct queue *queue, const unsigned *order, const char *flags, size_t length)
{
    for (size_t i = 0; i < length && i < queue->options.name_count; i++)
        blocking_claim_pause(&queue->blocking_claims[order != NULL ? order[i] : i], flags[i] == '1');
}

/* --- asking ---------------------------------------------------------------------------------------------------- */

struct claim_slot *queue_slot_ask(struct queue *queue, unsigned number)
{
    invariant(number < queue->options.slots);
    struct claim_slot *slot = &queue->slots[number];
    invariant(!slot->asking);
    slot->asking = true;
    random_bytes(slot->next, CLAIM_ID_BYTES);
    return slot;
}

void queue_slot_gather(struct queue *queue, unsigned number, bool claim_next)
{
    queue_slot_ask(queue, number)->wants = claim_next;
    queue->gathered[queue->gathered_count++] = number;
    loop_at_cycle_end(queue->loop, LOOP_GATHER, &queue->gather);
}

void claim_encode(const struct claim_slot *slot, unsigned number, struct buffer *out)
{
    redis_request_integer(out, number);
    redis_request_bytes(out, slot->id, slot->has_id ? CLAIM_ID_BYTES : 0);
    redis_request_bytes(out, slot->next, CLAIM_ID_BYTES);
}

void claim_encode_unique(const struct queue *queue, const struct queue_task_name *task, struct buffer *out)
{
    if (task->unique != NULL)
        queue_keys_request(queue->keys.unique_prefix, task->unique, out);
    else
        redis_request_text(out, "");
}

void claim_give_back(struct queue *queue, unsigned number, const char *name)
{
    struct claim_slot *slot = &queue->slots[number];
    random_bytes(slot->next, CLAIM_ID_BYTES);
    struct buffer *out = &slot->move.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_give_back, 2, 3);
    redis_request_text(out, queue->keys.process);
    queue_keys_request_queue(&queue->keys, name, out);
    claim_encode(slot, number, out);
    retried_call_start(&slot->move);
}

/* --- answers --------------------------------------------------------------------------------------------------- */

void queue_slot_holds(struct claim_slot *slot, const void *id)
{
    memcpy(slot->id, id, CLAIM_ID_BYTES);
    slot->has_id = true;
}

static void slot_tell(struct queue *queue, unsigned number, enum queue_answer answer, const char *name,
                      const char *payload, size_t length)
{
    struct claim_slot *slot = &queue->slots[number];
    slot->asking = false;
    slot->holds = answer == QUEUE_CLAIMED || answer == QUEUE_CANCELLED || answer == QUEUE_KEPT ||
                  answer == QUEUE_FULL || answer == QUEUE_REFUSED || (answer == QUEUE_OPENED && !slot->opens_empty);
    queue->counters.claims += answer == QUEUE_CLAIMED;
    queue->options.answered(queue->options.context, number, answer, name, payload, length);
}

void queue_slot_answer(struct queue *queue, unsigned number, enum queue_answer answer)
{
    slot_tell(queue, number, answer, NULL, NULL, 0);
}

const char *claim_cut(const char *text, size_t length, char name[TASK_NAME_MAX])
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
    const char *payload = claim_cut(text, length, name);
    queue_slot_holds(&queue->slots[number], queue->slots[number].next);
    if (payload != NULL) {
        slot_tell(queue, number, QUEUE_CLAIMED, name, payload, length - (size_t)(payload - text));
        return;
    }
    log_event(LOG_ERROR, "claim_unreadable", "slot=%u bytes=%zu", number, length);
    queue_slot_answer(queue, number, QUEUE_LOST);
}

/* The claim is gone. If a process recovered it, we are no longer listed. If the node has an older state (a
 * fail-over), the slot holds another id and perhaps a task, which goes back before the slot goes on. */
void queue_slot_lost(struct queue *queue, unsigned number, const char *claim, size_t length)
{
    char name[TASK_NAME_MAX];
    struct claim_slot *slot = &queue->slots[number];
    slot->has_id = false;
    queue_enlist(queue);
    if (length >= CLAIM_ID_BYTES)
        queue_slot_holds(slot, claim);
    if (length > CLAIM_ID_BYTES && claim_cut(claim + CLAIM_ID_BYTES, length - CLAIM_ID_BYTES, name) != NULL) {
        log_event(LOG_WARN, "claim_older",
                  "slot=%u advice=\"the node had an older task in this slot, probably after a failover; it goes back "
                  "to its queue\"",
                  number);
        slot->sets_right = true;
        claim_give_back(queue, number, name);
        return;
    }
    queue_slot_answer(queue, number, QUEUE_LOST);
}

void queue_slot_read(struct queue *queue, unsigned number, const struct redis_reply *claim, int64_t seen_us)
{
    struct claim_slot *slot = &queue->slots[number];
    slot->seen_us = seen_us;
    queue_note_time(queue, seen_us);
    bool tells = claim->kind == REDIS_STRING;
    bool is_ours = tells && claim->length >= CLAIM_ID_BYTES && memcmp(claim->bytes, slot->next, CLAIM_ID_BYTES) == 0;
    if (!is_ours) {
        queue_slot_lost(queue, number, tells ? claim->bytes : NULL, tells ? claim->length : 0);
    } else if (claim->length > CLAIM_ID_BYTES) {
        slot_claimed(queue, number, claim->bytes + CLAIM_ID_BYTES, claim->length - CLAIM_ID_BYTES);
    } else {
        queue_slot_holds(slot, slot->next);
        queue_slot_answer(queue, number, QUEUE_NOTHING);
    }
}
