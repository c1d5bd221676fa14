/* Two slots share a runner: while the one runs a task under a lock for which others wait, the other claims the one
 * that has waited longest, its heir, and asks for the lock in the process's own line, right behind the holder. When
 * the holder ends, the lock nodes change its value for the heir's in one step, and the runner goes on with the heir.
 *
 *     holder runs ──▶ mate: queue_heir ──▶ claimed, waits for the lock ──▶ holder ends: lock handed on ──▶ heir runs,
 *                                    └──▶ nothing: the mate is idle                  and its mate looks for the next
 *
 * The queue keeps the heir for this process for about a ttl, and again whenever the process says so: one that stands
 * still loses its heir to others when it loses its lock. So an heir starts only when the queue has confirmed its claim.
 * The call that settles its holder asks that as well, or one that leaves beside it.
 *
 * Rules: of a pair at most one claims from the queues or runs, so a pair is as much work as a runner can do. A
 * holder that ends while its heir is being claimed waits for that answer, keeping the lock. A chain of heirs ends
 * after so many tasks or so long a time, so that other hosts have their turn. On the loop. */
#include <stdio.h>

#include "base/log.h"
#include "worker/worker_state.h"

#define KEPT_MIN_NS (1 * NS_PER_S)

static bool is_holding(const struct slot *slot)
{
    return slot->has_lock && redlock_validity_left_ns(redlock_lock_validity(slot->lock)) > 0;
}

bool slot_has_heir(const struct slot *slot)
{
    const struct slot *mate = slot->mate;
    return is_holding(slot) && mate->is_heir && mate->flow.state == FLOW_LOCKING && !mate->flow.claim_lost;
}

bool slot_waits_for_heir(const struct slot *slot)
{
    return is_holding(slot) && slot->mate->is_heir && slot->mate->flow.state == FLOW_CLAIMING;
}

/* --- the chain ---------------------------------------------------------------------------------------------------- */

void slot_chain_go_on(struct slot *slot, bool handed_over)
{
    const struct slot *before = slot->mate;
    slot->chain.length = handed_over ? before->chain.length + 1 : 1;
    slot->chain.since = handed_over ? before->chain.since : slot->locked_at;
}

static bool chain_may_go_on(const struct slot *slot)
{
    const struct config_lock *lock = &slot->worker->options.config->lock;
    struct instant end = instant_after(slot->chain.since, lock->hand_over_ns);
    return slot->chain.length < lock->hand_over_tasks && instant_before(loop_now(slot->worker->loop), end);
}

/* The chain is over and others wait: the one that is woken is for whoever is idle. In the call that wakes it nothing is
 * claimed, or this process would always be the first. */
static bool yields(const struct slot *slot)
{
    struct worker *worker = slot->worker;
    return slot->left.kind == SLOT_LEFT_FREE && slot->waiting.resource_count > 0 && !chain_may_go_on(slot) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop));
}

/* --- the search --------------------------------------------------------------------------------------------------- */

static bool may_have_heir(struct slot *slot)
{
    struct worker *worker = slot->worker;
    return slot->flow.state == FLOW_READY && is_holding(slot) && !slot->has_ended &&
           slot->rules.hold_at_least_ns == 0 && worker_may_claim(worker) && chain_may_go_on(slot) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop));
}

void slot_seek_heir(struct slot *slot)
{
    struct slot *mate = slot->mate;
    if (mate->flow.state != FLOW_IDLE || !may_have_heir(slot))
        return;
    mate->is_heir = true;
    slot_perform(mate, flow_wake(&mate->flow));
}

/* The slot's task has ended and its lock goes to its mate: then the call that settles the one claims the heir of the
 * other. It gives up the place in one list, so that is for tasks that had to do with one; and it settles a claim, which
 * a task that runs at most once has no more. */
bool slot_goes_on_as_heir(struct slot *slot)
{
    struct worker *worker = slot->worker;
    return slot->left.kind == SLOT_LEFT_TO_HEIR && slot->waiting.count == 1 && !slot->rules.at_most_once &&
           slot->mate->rules.hold_at_least_ns == 0 && worker_may_claim(worker) &&
           slot->chain.length + 1 < worker->options.config->lock.hand_over_tasks && chain_may_go_on(slot) &&
           contention_has_waiters(worker->contention, slot->waiting.names[0], loop_now(worker->loop));
}

/* Those who look for claims that are kept no longer look about once a second. */
static int64_t kept_ns(const struct worker *worker)
{
    return worker->terms.ttl_ns > KEPT_MIN_NS ? worker->terms.ttl_ns : KEPT_MIN_NS;
}

void slot_heir_claim(struct slot *slot)
{
    struct worker *worker = slot->worker;
    const struct slot *holder = slot->mate;
    const char *ended = slot->left.kind == SLOT_LEFT_TO_HEIR ? slot->left.jid : NULL;
    if (ended != NULL)
        slot->mate->is_confirming = true; /* by the same call */
    char set[DIGEST_TEXT_SIZE];
    waiting_names_digest(&holder->waiting, set);
    snprintf(slot->heir_of, sizeof slot->heir_of, "%s", holder->jid);
    slot->claims = true;
    worker->claimed++;
    worker_listen(worker);
    queue_heir(worker->queue, slot->number,
               &(struct waiting_heir){.list = holder->waiting.names[0],
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
    loop_timer_set(worker->loop, &slot->keep, loop_after(worker->loop, kept_ns(worker) / 2));
}

static void claim_keep(struct slot *slot, int64_t for_ns)
{
    queue_keep(slot->worker->queue, slot->number,
               &(struct waiting_claim){
                   .list = slot->waiting.names[0], .jid = slot->jid, .holder_jid = slot->heir_of, .kept_ns = for_ns});
}

void slot_keep_fire(struct loop_timer *timer)
{
    struct slot *slot = list_owner(timer, struct slot, keep);
    bool is_waiting = slot->is_heir && slot->flow.state == FLOW_LOCKING && !slot->flow.claim_lost;
    if (!is_waiting || slot->is_confirming)
        return;
    claim_keep(slot, kept_ns(slot->worker));
    keep_later(slot);
}

void slot_heir_confirm(struct slot *slot)
{
    if (!slot->is_confirming)
        claim_keep(slot, 0);
    slot->is_confirming = true;
}

void slot_confirmed(void *context, unsigned number)
{
    struct worker *worker = context;
    struct slot *slot = &worker->slots[number];
    slot_perform(slot, flow_confirmed(&slot->flow));
}

/* Its lock is lost, and its handler may take long to notice: the heir waits where others can find it. */
void slot_heir_dismiss(struct slot *slot)
{
    struct slot *mate = slot->mate;
    if (slot->flow.state == FLOW_READY && mate->is_heir && mate->flow.state == FLOW_LOCKING)
        redlock_lock_release(mate->lock);
}

/* It was refused itself, and has gone back to its place, which is before its heir's. */
void slot_heir_send_back(struct slot *slot)
{
    struct slot *mate = slot->mate;
    mate->is_sent_back = mate->is_heir && mate->flow.state == FLOW_LOCKING;
    if (mate->is_sent_back)
        redlock_lock_release(mate->lock);
}

/* Nobody waits whom this process could serve; it asks again when it hears of somebody. */
void slot_heir_missing(struct slot *slot)
{
    const struct slot *holder = slot->mate;
    if (slot->is_heir && slot->flow.state == FLOW_CLAIMING && holder->waiting.resource_count > 0)
        contention_note_waiters(slot->worker->contention, holder->waiting.names[0], false,
                                loop_now(slot->worker->loop));
}

/* A task was parked behind a lock that may be held here. */
void slots_seek_heir(struct worker *worker, const char *list)
{
    if (contention_taken(worker->contention, list) == 0)
        return;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->has_lock && strcmp(slot->waiting.names[0], list) == 0)
            slot_seek_heir(slot);
    }
}

/* The call that settled its last task saw whether somebody waits for what it had. */
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
    return is_holding(holder) || (holder->flow.state == FLOW_LOCKING && holder->is_heir);
}

/* Whether the claimed task is what was asked for, and its holder still there to hand the lock on. */
void slot_heir_judge(struct slot *slot)
{
    char own[DIGEST_TEXT_SIZE], holders[DIGEST_TEXT_SIZE];
    slot->was_deserted = false;
    if (!slot->is_heir)
        return;
    waiting_names_digest(&slot->waiting, own);
    waiting_names_digest(&slot->mate->waiting, holders);
    slot->is_heir = will_hand_on(slot->mate) && slot->waiting.resource_count > 0 && strcmp(own, holders) == 0;
    slot->is_confirming = false;
    if (slot->is_heir)
        keep_later(slot);
    slot->was_deserted = !slot->is_heir && slot->waiting.resource_count > 0; /* those who waited longer go first */
}

/* --- the pair ----------------------------------------------------------------------------------------------------- */

/* True when the slot may claim from the queues: its runner is free, and no others are to go first. Otherwise the pair
 * asks when both are idle. */
bool slot_may_claim(struct slot *slot)
{
    if (!worker_may_claim(slot->worker))
        return false;
    bool is_alone = slot->mate->flow.state == FLOW_IDLE;
    bool may_claim = is_alone && !yields(slot);
    slot->owes_claim = !may_claim;
    if (is_alone)
        slot->mate->owes_claim = false;
    return may_claim;
}

void slot_rest(struct slot *slot)
{
    struct slot *mate = slot->mate;
    slot->is_heir = false;
    if (mate->flow.state != FLOW_IDLE) {
        slot_seek_heir(mate);
        return;
    }
    if ((slot->owes_claim || mate->owes_claim) && worker_may_claim(slot->worker)) {
        slot->owes_claim = mate->owes_claim = false;
        slot_wake(slot);
        return;
    }
    if (list_is_empty(&mate->idle_link))
        worker_rest(slot->worker, slot);
}
