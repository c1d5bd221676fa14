/* The lease of a process at the queue node. Each renewal also compares what the node knows of the process with what the
 * process knows of itself.
 *
 * An unanswered renewal is not repeated: the next one is due soon enough, and the lease counts as not held. An answer
 * is compared only with slots that have no call outstanding: calls leave on the same connection and in order, so for
 * those slots the node knew what we know. Runs on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

enum { RENEWALS_A_LEASE = 3 };
/* The clocks of the node and of the process may run at different rates: so much of the lease is not relied on. */
enum { LEASE_DRIFT_PARTS = 100 };

/* What renew_lease.lua answers. */
enum {
    RENEWAL_STATE,
    RENEWAL_RUN_ID,
    RENEWAL_PAUSED,
    RENEWAL_DEAD,
    RENEWAL_CLAIMS,
    RENEWAL_SERVING,
    RENEWAL_NOW,
    RENEWAL_ANSWERS
};

/* --- a claim that nobody here knows of --------------------------------------------------------------------------- */

static void stray_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct queue *queue = list_owner(retried_call, struct queue, stray);
    struct claim_slot *slot = &queue->slots[queue->strayed.slot];
    queue->strayed.busy = false;
    if (!slot->asking && reply->kind == REDIS_INTEGER && reply->integer == 1)
        queue_slot_holds(slot, queue->strayed.next);
}

/* `claim` is its id and the name of its queue. */
static void stray_give_back(struct queue *queue, unsigned number, const struct redis_reply *claim)
{
    char name[256];
    size_t length = claim->length - CLAIM_ID_BYTES;
    if (queue->strayed.busy || length >= sizeof name)
        return;
    memcpy(name, claim->bytes + CLAIM_ID_BYTES, length);
    name[length] = '\0';
    log_event(LOG_WARN, "claim_unheard", "slot=%u advice=\"a late call claimed this task; it goes back to its queue\"",
              number);
    queue->strayed.busy = true;
    queue->strayed.slot = number;
    random_bytes(queue->strayed.next, CLAIM_ID_BYTES);
    struct buffer *out = &queue->stray.request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_give_back, 2, 3);
    redis_request_text(out, queue->keys.process);
    queue_keys_request_queue(&queue->keys, name, out);
    redis_request_integer(out, number);
    redis_request_bytes(out, claim->bytes, CLAIM_ID_BYTES);
    redis_request_bytes(out, queue->strayed.next, CLAIM_ID_BYTES);
    retried_call_start(&queue->stray);
}

/* --- comparing --------------------------------------------------------------------------------------------------- */

/* The claim of a slot among the node's claims, or NULL. */
static const struct redis_reply *claim_find(const struct redis_reply *claims, unsigned number)
{
    for (size_t i = 0; i + 1 < claims->count; i += 2)
        if (claims->elements[i].kind == REDIS_STRING && strtoul(claims->elements[i].bytes, NULL, 10) == number)
            return claims->elements[i + 1].length >= CLAIM_ID_BYTES ? &claims->elements[i + 1] : NULL;
    return NULL;
}

static void slot_compare(struct queue *queue, unsigned number, const struct redis_reply *claims)
{
    struct claim_slot *slot = &queue->slots[number];
    const struct redis_reply *claim = claim_find(claims, number);
    bool same = claim != NULL && slot->has_id && memcmp(claim->bytes, slot->id, CLAIM_ID_BYTES) == 0;
    if (slot->asking)
        return;
    bool is_lost = slot->holds && !same;
    if (is_lost) {
        slot->holds = slot->has_id = false;
        if (queue->options.lost != NULL)
            queue->options.lost(queue->options.context, number);
    }
    if (claim != NULL && !same && !slot->asking)
        stray_give_back(queue, number, claim);
}

/* Others count from when the node executed the renewal, which was not before it was sent. */
static struct instant relied_on_until(const struct queue *queue)
{
    int64_t lease_ns = queue->options.lease_ns;
    return instant_after(queue->lease_sent, lease_ns - lease_ns / LEASE_DRIFT_PARTS);
}

static void renewal_read(struct queue *queue, const struct redis_reply *answers)
{
    bool is_lost = redis_reply_is_text(&answers[RENEWAL_STATE], "lost");
    if (!is_lost)
        recovery_permit_renewed(&queue->permit, redis_reply_is_text(&answers[RENEWAL_STATE], "held"),
                                answers[RENEWAL_RUN_ID].kind == REDIS_STRING ? answers[RENEWAL_RUN_ID].bytes : "",
                                queue->lease_sent);
    if (answers[RENEWAL_PAUSED].kind == REDIS_STRING)
        queue_note_paused(queue, NULL, answers[RENEWAL_PAUSED].bytes, answers[RENEWAL_PAUSED].length);
    queue_note_time(queue, answers[RENEWAL_NOW].integer);
    queue->serving = answers[RENEWAL_SERVING].kind == REDIS_INTEGER ? (unsigned)answers[RENEWAL_SERVING].integer : 0;
    for (unsigned i = 0; i < queue->options.slots && answers[RENEWAL_CLAIMS].kind == REDIS_ARRAY; i++)
        slot_compare(queue, i, &answers[RENEWAL_CLAIMS]);
    if (!is_lost && queue->options.renewed != NULL)
        queue->options.renewed(queue->options.context, relied_on_until(queue));
    if (is_lost && queue->is_listed) /* else it knows */
        queue_enlist_anew(queue);
    if (recovery_permit_may_recover(&queue->permit, loop_now(queue->loop)))
        recovery_start(queue->recovery, &answers[RENEWAL_DEAD]);
}

/* --- beating ----------------------------------------------------------------------------------------------------- */

static void renewal_answered(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, lease_call);
    bool fits =
        result->outcome == REDIS_VALUE && result->reply->kind == REDIS_ARRAY && result->reply->count == RENEWAL_ANSWERS;
    if (queue->leaving)
        return;
    if (fits)
        renewal_read(queue, result->reply->elements);
    else
        recovery_permit_broken(&queue->permit);
}

static void renewal_send(struct queue *queue)
{
    struct buffer *out = &queue->request;
    if (redis_call_is_outstanding(&queue->lease_call) || !queue->is_listed || queue->leaving)
        return;
    buffer_clear(out);
    redis_request_script(out, &queue_script_renew_lease, 3, 4 + (size_t)queue->options.name_count);
    redis_request_texts(out, queue->keys.processes, queue->keys.process, queue->keys.paused, queue->identity);
    queue_request_lease(queue, out);
    redis_request_integer(out, RECOVERY_DEAD_MAX);
    redis_request_text(out, queue->keys.process_prefix);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        redis_request_text(out, queue->names[i]);
    queue->lease_sent = loop_now(queue->loop);
    queue->lease_call.done = renewal_answered;
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    if (!redis_node_call(queue->node, out, deadline, &queue->lease_call))
        recovery_permit_broken(&queue->permit);
}

static void renewal_fire(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, lease_timer);
    int64_t interval_ns = queue->options.lease_ns / RENEWALS_A_LEASE;
    /* Spreads the renewals of many processes, and is never later than a third of the lease. */
    int64_t wait_ns = random_between(interval_ns - interval_ns / 8, interval_ns);
    loop_timer_set(queue->loop, timer, loop_after(queue->loop, wait_ns));
    renewal_send(queue);
}

unsigned queue_serving(const struct queue *queue)
{
    return queue->serving;
}

void process_lease_create(struct queue *queue)
{
    queue->permit.lease_ns = queue->options.lease_ns;
    retried_call_init(&queue->stray, &queue->retried_calls, stray_done);
    queue->recovery = recovery_create(queue);
    loop_timer_init(&queue->lease_timer, renewal_fire);
    /* The first one follows the enlisting. */
    loop_timer_set(queue->loop, &queue->lease_timer,
                   loop_after(queue->loop, queue->options.lease_ns / RENEWALS_A_LEASE));
}

void process_lease_stop(struct queue *queue)
{
    loop_timer_clear(queue->loop, &queue->lease_timer);
    redis_call_cancel(&queue->lease_call);
    recovery_stop(queue->recovery);
}

void process_lease_destroy(struct queue *queue)
{
    process_lease_stop(queue);
    recovery_destroy(queue->recovery);
    retried_call_fini(&queue->stray);
}
