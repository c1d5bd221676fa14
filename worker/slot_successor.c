/* Which slot claims a task, and which one: from the queues, or the task that is to have the lock of its partner's.
 *
 * Two slots share a runner. Of such a pair at most one claims from the queues or runs, so a pair is as much work as a
 * runner can do. While the one runs a task under a lock for which others wait, the other claims the one that has waited
 * longest, its successor, and requests the lock in the process's own list of waiters, right behind the holder. When the
 * holder ends, the lock nodes change its value for the successor's in one step, and the runner goes on with the
 * successor.
 *
 *     holder runs ─▶ queue_claim_successor ─▶ claimed, waits for the lock ─▶ holder ends: lock handed on ─▶ successor
 *                         └─▶ nothing: the partner is idle               runs, its partner looks for the next
 *
 * The queue keeps the successor for this process for about a ttl, and longer whenever the process renews that: a
 * process that is stopped loses its successor to others when it loses its lock. So a successor starts only when the
 * queue has confirmed its claim. The call that settles its holder confirms that as well, or one that leaves beside it.
 *
 * Where several may hold the resource, the successor gets the very seat of its holder. Another seat may become free
 * before, so it waits for a short while only, and is then parked again, as the oldest.
 *
 * A holder that ends while its successor is being claimed waits for that answer, keeping the lock. A run of hand-offs
 * ends after so many tasks or so long a time, so that other hosts have their turn, or clients that are no workers. */
#include <stdio.h>
#include <string.h>

#include "queue/waiting.h"
#include "worker/locks/contention.h"
#include "worker/worker_state.h"

#define KEPT_MIN_NS (1 * NS_PER_S)
/* Where several may hold the resource, a successor waits so long for one of them. A hand-over saves a round to the
 * queue node, which is nothing beside a hold of that length. */
#define SUCCESSOR_PATIENCE_NS (100 * NS_PER_MS)

/* --- from the queues ---------------------------------------------------------------------------------------------- */

bool worker_may_claim(const struct worker *worker)
{
    bool enough = worker->options.max_tasks > 0 && worker->claimed >= worker->options.max_tasks;
    return worker->ready && !worker->quiet && !worker->stopping && !enough;
}

/* Only while an idle slot can claim: a blocking claim of a busy process would keep the task from idle ones. */
void worker_listen(struct worker *worker)
{
    queue_listen(worker->queue, worker->idle_count > 0 && worker_may_claim(worker));
}

/* --- who is next -------------------------------------------------------------------------------------------------- */

static bool is_holding(const struct slot *slot)
{
    return slot->has_lock && redlock_validity_left_ns(redlock_lock_validity(slot->lock)) > 0;
}

bool slot_has_successor(const struct slot *slot)
{
    const struct slot *partner = slot->partner;
    return partner->is_successor && partner->flow.state == FLOW_LOCKING && !partner->flow.claim_lost &&
           is_holding(slot);
}

bool slot_waits_for_successor(const struct slot *slot)
{
    return slot->partner->is_successor && slot->partner->flow.state == FLOW_CLAIMING && is_holding(slot);
}

void slot_hand_offs_go_on(struct slot *slot, bool handed_over)
{
    const struct slot *before = slot->partner;
    slot->hand_offs.length = handed_over ? before->hand_offs.length + 1 : 1;
    slot->hand_offs.since = handed_over ? before->hand_offs.since : slot->locked_at;
}

static bool hand_offs_may_go_on(const struct slot *slot)
{
    const struct config_lock *lock = &slot->worker->options.config->lock;
    struct instant end = instant_after(slot->hand_offs.since, lock->hand_over_ns);
    if (redlock_lock_gives_way(slot->lock != NULL ? slot->lock : slot->partner->lock))
        return false;
    return slot->hand_offs.length < lock->hand_over_tasks && instant_before(loop_now(slot->worker->loop), end);
}

/* The run of hand-offs is over and others wait: any idle process may claim the task that is woken. The call that wakes
 * it claims nothing, or this process would always be first. */
static bool yields(const struct slot *slot)
{
    const struct worker *worker = slot->worker;
    return slot->left.kind == SLOT_LEFT_FREE && slot->waiting.resource_count > 0 && !hand_offs_may_go_on(slot) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop));
}

/* True when the slot may claim from the queues: its runner is free, and no others are to go first. Otherwise the pair
 * asks when both are idle. */
bool slot_may_claim(struct slot *slot)
{
    if (!worker_may_claim(slot->worker))
        return false;
    bool is_alone = slot->partner->flow.state == FLOW_IDLE;
    bool may_claim = is_alone && !yields(slot);
    slot->claim_deferred = !may_claim;
    if (is_alone)
        slot->partner->claim_deferred = false;
    return may_claim;
}

/* --- the successor ------------------------------------------------------------------------------------------------ */

/* Where several may hold the resource, another seat may become free before the holder's. */
static bool holds_for_long(const struct slot *slot)
{
    return slot->rules.limit > 1 &&
           instant_since(slot->locked_at, loop_now(slot->worker->loop)) > SUCCESSOR_PATIENCE_NS;
}

bool slot_may_have_successor(const struct slot *slot)
{
    const struct worker *worker = slot->worker;
    return !holds_for_long(slot) && slot->flow.state == FLOW_READY && slot->has_lock && !slot->has_ended &&
           slot->rules.hold_at_least_ns == 0 && worker_may_claim(worker) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop)) &&
           hand_offs_may_go_on(slot) && is_holding(slot);
}

/* The slot's task has ended and its lock goes to its partner: then the call that settles the one claims the successor
 * of the other. It gives up the position in one list, so that is for tasks that had to do with one; and it settles a
 * claim, which a task that runs at most once has no more. */
bool slot_goes_on_as_successor(const struct slot *slot)
{
    const struct worker *worker = slot->worker;
    return slot->left.kind == SLOT_LEFT_TO_SUCCESSOR && slot->waiting.count == 1 && !slot->rules.at_most_once &&
           slot->partner->rules.hold_at_least_ns == 0 && worker_may_claim(worker) &&
           slot->hand_offs.length + 1 < worker->options.config->lock.hand_over_tasks && hand_offs_may_go_on(slot) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop));
}

/* Other processes look for expired reservations about once a second. */
static int64_t kept_ns(const struct worker *worker)
{
    return ns_from_ms(worker->terms.ttl_ms) > KEPT_MIN_NS ? ns_from_ms(worker->terms.ttl_ms) : KEPT_MIN_NS;
}

void slot_successor_claim(struct slot *slot)
{
    struct worker *worker = slot->worker;
    const struct slot *holder = slot->partner;
    const char *ended = slot->left.kind == SLOT_LEFT_TO_SUCCESSOR ? slot->left.jid : NULL;
    if (ended != NULL)
        slot->partner->is_confirming = true; /* by the same call */
    char set[DIGEST_TEXT_SIZE];
    waiting_names_digest(&holder->waiting, set);
    snprintf(slot->successor_of, sizeof slot->successor_of, "%s", holder->jid);
    slot->claims = true;
    worker->claimed++;
    worker_listen(worker);
    queue_claim_successor(worker->queue, slot->number,
                          &(struct waiting_successor){.list = holder->waiting.names[0],
                                                      .set = set,
                                                      .kept_ns = kept_ns(worker),
                                                      .holder = holder->number,
                                                      .holder_jid = holder->jid,
                                                      .ended_jid = ended,
                                                      .classes = worker->class_names,
                                                      .class_count = worker->class_count});
    slot->left.kind = SLOT_LEFT_NOTHING;
}

static void keep_later(struct slot *slot)
{
    struct worker *worker = slot->worker;
    int64_t ns = slot->rules.limit > 1 ? SUCCESSOR_PATIENCE_NS : kept_ns(worker) / 2;
    loop_timer_set(worker->loop, &slot->keep, loop_after(worker->loop, ns));
}

static void claim_keep(struct slot *slot, int64_t for_ns)
{
    queue_keep(
        slot->worker->queue, slot->number,
        &(struct waiting_claim){
            .list = slot->waiting.names[0], .jid = slot->jid, .holder_jid = slot->successor_of, .kept_ns = for_ns});
}

static void keep_fire(struct loop_timer *timer)
{
    struct slot *slot = list_owner(timer, struct slot, keep);
    bool is_waiting = slot->is_successor && slot->flow.state == FLOW_LOCKING && !slot->flow.claim_lost;
    if (!is_waiting || slot->is_confirming)
        return;
    if (slot->rules.limit > 1) {
        slot->is_sent_back = slot->has_waited = true;
        redlock_lock_release(slot->lock);
        return;
    }
    claim_keep(slot, kept_ns(slot->worker));
    keep_later(slot);
}

void slot_successor_confirm(struct slot *slot)
{
    if (!slot->is_confirming)
        claim_keep(slot, 0);
    slot->is_confirming = true;
}

/* Its lock is lost, and its handler may take long to notice: the successor waits where others can find it. */
void slot_successor_dismiss(struct slot *slot)
{
    struct slot *partner = slot->partner;
    if (slot->flow.state == FLOW_READY && partner->is_successor && partner->flow.state == FLOW_LOCKING)
        redlock_lock_release(partner->lock);
}

/* The slot was refused its lock and waits again, in its old position before its successor. */
void slot_successor_send_back(struct slot *slot)
{
    struct slot *partner = slot->partner;
    partner->is_sent_back = partner->is_successor && partner->flow.state == FLOW_LOCKING;
    if (partner->is_sent_back)
        redlock_lock_release(partner->lock);
}

/* No waiting task can run in this process. It asks again when another task starts to wait. */
void slot_successor_missing(struct slot *slot)
{
    const struct slot *holder = slot->partner;
    if (slot->is_successor && slot->flow.state == FLOW_CLAIMING && holder->waiting.resource_count > 0)
        contention_note_waiters(slot->worker->contention, holder->waiting.names[0], false,
                                loop_now(slot->worker->loop));
}

/* The call that settled its last task saw whether a task waits for what it had. */
void slot_waiters_note(struct slot *slot)
{
    struct worker *worker = slot->worker;
    if (!slot->asks_for_waiters)
        return;
    slot->asks_for_waiters = false;
    if (slot->waiting.resource_count > 0)
        contention_note_waiters(worker->contention, slot->waiting.names[0],
                                queue_has_waiters(worker->queue, slot->number), loop_now(worker->loop));
}

/* It has the lock, or it is about to have it from the slot's own last task. */
static bool will_hand_on(const struct slot *holder)
{
    return is_holding(holder) || (holder->flow.state == FLOW_LOCKING && holder->is_successor);
}

/* Whether the claimed task needs what its holder has, and the holder is still there to hand the lock on. */
void slot_successor_judge(struct slot *slot)
{
    char own[DIGEST_TEXT_SIZE], holders[DIGEST_TEXT_SIZE];
    slot->was_deserted = false;
    if (!slot->is_successor)
        return;
    waiting_names_digest(&slot->waiting, own);
    waiting_names_digest(&slot->partner->waiting, holders);
    slot->is_successor = will_hand_on(slot->partner) && slot->waiting.resource_count > 0 && strcmp(own, holders) == 0 &&
                         redlock_lock_seat(slot->partner->lock) <= slot->rules.limit; /* it may be lower by now */
    slot->is_confirming = false;
    if (slot->is_successor)
        keep_later(slot);
    slot->was_deserted = !slot->is_successor && slot->waiting.resource_count > 0; /* those who waited longer go first */
}

void slot_claim_init(struct slot *slot)
{
    loop_timer_init(&slot->keep, keep_fire);
}
