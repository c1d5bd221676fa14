/* Takes the lock of a slot's task, reacts to danger and loss, and releases it. On the loop.
 *
 * What a task needs is taken in the process's own table first (contention.h), and left together with the task, whatever
 * became of the lock: while it is there, other tasks of the process that need it are parked without a request to the
 * lock nodes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/random.h"
#include "queue/waiting.h"
#include "worker/locks/contention.h"
#include "worker/locks/late_releases.h"
#include "worker/locks/program_releases.h"
#include "worker/worker_state.h"

/* Others that look at the same time find out by their own refusal; one of this process's in a second is enough. */
#define HELD_BELIEVED_NS (1 * NS_PER_S)
#define EXPIRY_SPREAD_NS (50 * NS_PER_MS)
#define SOON_MIN_NS      (5 * NS_PER_MS)
#define SOON_MAX_NS      (50 * NS_PER_MS)
#define ASKING_LOOK_NS   (200 * NS_PER_MS)
#define SHARE_LOOK_NS    (1 * NS_PER_S)
#define PATIENCE_MAX_NS  (10 * NS_PER_S)
enum { OWNER_JID_MAX = 40 };

/* --- what the process has ----------------------------------------------------------------------------------------- */

static void names_take(struct slot *slot)
{
    /* A successor inherits the holder's share of the runners as soon as the holder leaves it, and the holder's seat
     * where a resource has several. */
    bool inherits = slot->is_successor && slot->partner->taken == slot->partner->waiting.count;
    unsigned count = !inherits ? slot->waiting.count : slot->rules.limit > 1 ? 0 : slot->waiting.resource_count;
    for (; slot->taken < count; slot->taken++)
        contention_take(slot->worker->contention, slot->waiting.names[slot->taken]);
}

static void names_leave(struct slot *slot)
{
    for (; slot->taken > 0; slot->taken--)
        contention_leave(slot->worker->contention, slot->waiting.names[slot->taken - 1]);
    if (slot->partner->is_successor && slot->partner->flow.state == FLOW_LOCKING)
        names_take(slot->partner);
}

void slot_runner_take(struct slot *slot)
{
    names_take(slot);
}

static void wait_plan(struct slot *slot, const char *list, int64_t near_ns, int64_t seen_us)
{
    slot->wait.list = list;
    slot->wait.near_ns = near_ns;
    slot->wait.seen_us = seen_us;
    slot->wait.is_in_list = false;
}

/* A holder of this process counts as alive for a ttl, and wakes the waiters when it ends. A task that only asks for the
 * lock may be refused and wait in turn, behind the task that is judged now: then no task would look. */
static int64_t taken_near_ns(const struct worker *worker, const char *list)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        for (unsigned r = 0; slot->has_lock && r < slot->waiting.resource_count; r++)
            if (strcmp(slot->waiting.names[r], list) == 0)
                return ns_from_ms(worker->terms.ttl_ms) + random_between(0, EXPIRY_SPREAD_NS);
    }
    return SOON_MAX_NS + random_between(0, ASKING_LOOK_NS);
}

/* How long a task of several resources waits for its lock in its slot; 0 = it is parked. Woken by the end of one holder
 * after the other, it may never find all of them free. A lock that waits keeps its turn of all, in this process and at
 * the nodes. That keeps a runner, and others from what is free: so one task of a process waits, each for a quarter of
 * its time, and not at first. */
static int64_t patience_ns(const struct slot *slot)
{
    const struct worker *worker = slot->worker;
    bool may_wait = slot->waiting.resource_count > 1 && slot->envelope.parked_at.us != 0 && !slot->is_successor &&
                    slot->rules.on_conflict == CONFIG_CONFLICT_PARK &&
                    (worker->patient == NULL || worker->patient == slot);
    if (!may_wait)
        return 0;
    int64_t ttl_ns = ns_from_ms(worker->terms.ttl_ms), most_ns = ttl_ns < PATIENCE_MAX_NS ? ttl_ns : PATIENCE_MAX_NS;
    int64_t waited_ns = (queue_now(worker->queue).us - slot->envelope.parked_at.us) * NS_PER_US;
    return waited_ns / most_ns % 4 == 1 ? most_ns : 0;
}

bool slot_must_wait(struct slot *slot)
{
    struct worker *worker = slot->worker;
    struct instant now = loop_now(worker->loop);
    int64_t own_us = queue_seen_us(worker->queue, slot->number);
    struct contention_held held;
    if (slot->is_successor || patience_ns(slot) > 0)
        return false;
    if (slot->was_deserted) {
        wait_plan(slot, slot->waiting.names[0], random_between(SOON_MIN_NS, SOON_MAX_NS), own_us);
        slot->wait.is_in_list = true;
        slot->was_deserted = false;
        return true;
    }
    for (unsigned i = 0; i < slot->waiting.resource_count; i++) {
        const char *list = slot->waiting.names[i];
        if (contention_taken(worker->contention, list) >= slot->rules.limit) {
            wait_plan(slot, list, taken_near_ns(worker, list), own_us);
            return true;
        }
        if (contention_is_held(worker->contention, list, now, &held) &&
            (!held.is_left || slot->rules.on_conflict == CONFIG_CONFLICT_PARK)) {
            wait_plan(slot, list, instant_since(now, held.free_at) + random_between(0, EXPIRY_SPREAD_NS),
                      held.seen_us < own_us ? held.seen_us : own_us);
            return true;
        }
    }
    return false;
}

bool slot_lacks_runner(struct slot *slot)
{
    const char *list = waiting_names_class(&slot->waiting);
    if (list == NULL || slot->is_successor || contention_taken(slot->worker->contention, list) < slot->rules.share)
        return false;
    wait_plan(slot, list, SHARE_LOOK_NS + random_between(0, EXPIRY_SPREAD_NS),
              queue_seen_us(slot->worker->queue, slot->number));
    return true;
}

/* --- events of a lock --------------------------------------------------------------------------------------------- */

/* Since the task was parked for the first time, by the queue node's clock; else since the lock was requested. */
static int64_t waited_ns(const struct slot *slot, const struct redlock_event *event)
{
    int64_t parked_us = slot->envelope.parked_at.us;
    int64_t since_ns = parked_us > 0 ? (queue_now(slot->worker->queue).us - parked_us) * NS_PER_US : 0;
    return since_ns > event->waited_ns ? since_ns : event->waited_ns;
}

static void patience_end(struct slot *slot)
{
    if (slot->worker->patient == slot)
        slot->worker->patient = NULL;
}

void slot_lock_taken(struct slot *slot, const struct redlock_event *event)
{
    patience_end(slot);
    uint64_t token = redlock_lock_token(slot->lock);
    if (token != 0)
        *decimal_write(slot->job.fence, token) = '\0';
    slot->job.seat = redlock_lock_seat(slot->lock);
    failure_clear(&slot->job.outcome.failure); /* of an earlier refusal */
    slot->is_successor = false;
    slot->has_lock = true;
    slot->locked_at = loop_now(slot->worker->loop);
    slot->locked.at = wall_now();
    slot->locked.waited_ns = waited_ns(slot, event);
    snprintf(slot->locked.predecessor, sizeof slot->locked.predecessor, "%s",
             event->handed_over ? slot->successor_of : "");
    slot_hand_offs_go_on(slot, event->handed_over);
    for (unsigned i = 0; i < slot->waiting.resource_count; i++)
        contention_forget_held(slot->worker->contention, slot->waiting.names[i]);
    job_verifier_open(&slot->verifier, slot->lock);
}

static enum flow_refusal refusal_of(enum redlock_answer answer)
{
    switch (answer) {
    case REDLOCK_BUSY:
        return FLOW_BUSY;
    case REDLOCK_SPLIT:
    case REDLOCK_TOO_SLOW:
    case REDLOCK_CANCELLED:
    case REDLOCK_IN_DANGER:
        return FLOW_UNDECIDED;
    default:
        return FLOW_NO_QUORUM;
    }
}

static void busy_note(struct slot *slot, const struct redlock_event *event)
{
    struct worker *worker = slot->worker;
    const char *list = slot->waiting.names[event->resource];
    int64_t left_ns = event->remaining_ns > 0 ? event->remaining_ns : ns_from_ms(worker->terms.ttl_ms);
    bool is_looked_at = event->look_again_ns > 0 && event->look_again_ns < left_ns;
    left_ns = is_looked_at ? event->look_again_ns : left_ns;
    int64_t seen_us = queue_seen_us(worker->queue, slot->number);
    int64_t believed_ns = left_ns < HELD_BELIEVED_NS ? left_ns : HELD_BELIEVED_NS;
    contention_note_held(
        worker->contention, list, loop_after(worker->loop, believed_ns),
        (struct contention_held){.seen_us = seen_us, .free_at = loop_after(worker->loop, left_ns + NS_PER_MS)});
    if (!is_looked_at)
        program_releases_expect(worker->program_releases, event->holder, list, slot->resources.names[event->resource],
                                slot->rules.limit, loop_after(worker->loop, left_ns + NS_PER_S));
    wait_plan(slot, list, left_ns + NS_PER_MS + (is_looked_at ? 0 : random_between(0, EXPIRY_SPREAD_NS)), seen_us);
}

void slot_lock_may_be_free(void *context, const char *list)
{
    struct worker *worker = context;
    contention_forget_held(worker->contention, list);
    queue_free(worker->queue, &(struct waiting_end){.lists = &list, .list_count = 1});
}

/* The lock was meant for this successor, so no other task knows that it is free, or will be in a moment. The usual
 * cause of the refusal is a key that the previous holder left. */
static void inheritance_failed(struct slot *slot)
{
    queue_free(slot->worker->queue,
               &(struct waiting_end){.lists = slot->waiting.names, .list_count = slot->waiting.resource_count});
}

/* Its remaining keys may have refused other tasks, which now take the lock for held. A process that ends wakes them at
 * once, because it cannot do so later. */
static void stale_grants_tell(struct slot *slot)
{
    struct worker *worker = slot->worker;
    late_releases_doubt(worker->late_releases, slot->waiting.names, slot->waiting.resource_count);
    if (worker->stopping)
        queue_free(worker->queue,
                   &(struct waiting_end){.lists = slot->waiting.names, .list_count = slot->waiting.resource_count});
}

void slot_lock_trouble_tell(struct worker *worker, enum redlock_answer answer, const char *reason)
{
    struct instant now = loop_now(worker->loop);
    if (instant_before(now, instant_after(worker->trouble_told, NS_PER_S)))
        return;
    worker->trouble_told = now;
    char why[LOG_QUOTE_MAX];
    if (answer == REDLOCK_NO_QUORUM)
        log_event(LOG_WARN, "lock_no_quorum",
                  "nodes_up=%u reason=%s advice=\"tasks are parked until a majority of the lock nodes grants locks\"",
                  redlock_group_nodes_up(worker->locks), log_value(reason, why));
    else
        log_event(
            LOG_ERROR, "lock_refused",
            "reason=%s advice=\"tasks are parked: lower lock.ttl and reload, or raise max_ttl of the lock nodes\"",
            log_value(reason, why));
}

enum flow_refusal slot_lock_refused(struct slot *slot, const struct redlock_event *event)
{
    struct worker *worker = slot->worker;
    bool was_successor = slot->is_successor;
    patience_end(slot);
    enum flow_refusal refusal =
        was_successor && event->answer == REDLOCK_BUSY ? FLOW_UNDECIDED : refusal_of(event->answer);
    if (was_successor && !slot->is_sent_back) /* else nothing was freed, or who freed it says so */
        inheritance_failed(slot);
    if (event->may_obstruct || (was_successor && event->attempts > 0))
        stale_grants_tell(slot);
    bool has_waited = slot->has_waited;
    slot->is_successor = slot->is_sent_back = slot->has_waited = false;
    int64_t seen_us = queue_seen_us(worker->queue, slot->number);
    int64_t delay_ns = worker->options.config->lock.park_delay_ns;
    if (refusal == FLOW_BUSY)
        busy_note(slot, event);
    else if (has_waited)
        wait_plan(slot, slot->waiting.names[0], taken_near_ns(worker, slot->waiting.names[0]), seen_us);
    else if (refusal == FLOW_UNDECIDED)
        wait_plan(slot, slot->waiting.names[0], random_between(SOON_MIN_NS, SOON_MAX_NS), seen_us);
    else
        wait_plan(slot, slot->waiting.names[0], delay_ns + random_between(0, delay_ns / 2), seen_us);
    slot->wait.is_in_list = was_successor;
    if (event->answer == REDLOCK_NO_QUORUM || event->answer == REDLOCK_INVALID)
        slot_lock_trouble_tell(worker, event->answer, event->reason);
    failure_set(&slot->job.outcome.failure, "HF::LockRefused", "%s: %s", slot->resources.names[event->resource],
                event->reason);
    if (refusal == FLOW_BUSY && slot->flow.task.on_conflict == FLOW_CONFLICT_FAIL)
        slot->flow.task.if_failed = slot_failed_result(slot);
    else if (refusal == FLOW_NO_QUORUM && slot->flow.task.fails_open)
        failure_clear(&slot->job.outcome.failure); /* it runs all the same */
    return refusal;
}

void slot_lock_lost(struct slot *slot, enum redlock_loss loss)
{
    /* The handler knows by the clock, the flow asks when the run ends; this is about the reason. */
    slot->loss = loss;
    slot_observe_lost(slot);
    job_lock_lost(&slot->job, loss == REDLOCK_LOST_MAX_HOLD ? HF_HELD_TOO_LONG : HF_LOCK_LOST);
    slot_interrupt(slot);
}

/* --- asking and leaving ------------------------------------------------------------------------------------------- */

void slot_lock_take(struct slot *slot,
                    void (*told)(struct redlock_lock *lock, void *context, const struct redlock_event *event))
{
    size_t jid = strnlen(slot->jid, OWNER_JID_MAX);
    memcpy(slot->owner + slot->owner_start, slot->jid, jid);
    slot->owner[slot->owner_start + jid] = '\0';
    struct redlock_terms terms = slot->worker->terms;
    terms.max_hold_ms = ms_from_ns(slot->rules.max_hold_ns);
    terms.unfenced = slot->rules.unfenced;
    names_take(slot);
    slot_observe_asking(slot);
    /* What is parked costs nothing, and is woken at the right moment. */
    unsigned seat = slot->is_successor ? redlock_lock_seat(slot->partner->lock) : 0;
    terms.wait_ms = ms_from_ns(patience_ns(slot)); /* anew: since slot_must_wait another task may have begun to wait */
    if (terms.wait_ms > 0)
        slot->worker->patient = slot;
    bool is_parked_when_busy =
        !slot->is_successor && slot->flow.task.on_conflict == FLOW_CONFLICT_PARK && terms.wait_ms == 0;
    slot->lock = redlock_lock_create(slot->worker->locks, &terms, told, slot);
    bool taken = redlock_lock_acquire(slot->lock, &(struct redlock_request){.resources = slot->resources.names,
                                                                            .resource_count = slot->resources.count,
                                                                            .owner = slot->owner,
                                                                            .limit = slot->rules.limit,
                                                                            .seat = seat,
                                                                            .waits_here = slot->is_successor,
                                                                            .leaves_when_busy = is_parked_when_busy,
                                                                            .comes_back = is_parked_when_busy});
    invariant(taken); /* the limits of a task are the lock's */
}

/* How long a lock stays after a run that succeeded; 0 = it is given up. */
static int64_t linger_ns(const struct slot *slot, enum flow_ending ending)
{
    int64_t held_ns = instant_since(slot->locked_at, loop_now(slot->worker->loop));
    return ending == FLOW_DONE && slot->rules.hold_at_least_ns > held_ns ? slot->rules.hold_at_least_ns - held_ns : 0;
}

static void lock_let_go(struct slot *slot, int64_t stays_ns)
{
    struct redlock_lock *lock = slot->lock;
    slot->lock = NULL;
    job_verifier_close(&slot->verifier);
    if (!slot->has_lock) {
        redlock_lock_destroy(lock);
        return;
    }
    slot->held_ns = instant_since(slot->locked_at, loop_now(slot->worker->loop));
    slot->locked.left_at = wall_now();
    redlock_lock_publish_to(lock, NULL);
    if (stays_ns > 0)
        redlock_lock_linger(lock, stays_ns);
    else
        redlock_lock_release(lock);
    bool wakes = slot->left.kind == SLOT_LEFT_FREE || slot->left.gives_way;
    late_releases_add(slot->worker->late_releases, lock, slot->waiting.names, wakes ? slot->waiting.resource_count : 0);
}

/* A task that is in a waiting list, and does not ask for its lock again soon: it expired, or its class does not wait
 * for a lock that is held, though it waited for a quorum. Others would wait for it until it counts as lost on its
 * way. */
static bool waited_in_vain(const struct slot *slot, const struct flow_step *step)
{
    bool is_parked = step->ending == FLOW_PARKED && step->move != FLOW_MOVE_DELAY;
    bool waits_on = is_parked || step->ending == FLOW_GIVEN_BACK || step->ending == FLOW_UNKNOWN_CLASS ||
                    step->ending == FLOW_CLAIM_LOST ||
                    (step->ending == FLOW_PUT_OFF && slot->envelope.list[0] == '\0'); /* nor was it in a list before */
    return slot->envelope.parked_at.us != 0 && !waits_on;
}

/* It had what it needed, with a lock or without, as far as its class may do that. */
static bool had_all(const struct slot *slot)
{
    return slot->has_lock || (slot->lock == NULL && slot->taken > 0);
}

/* The list of its class, if it had a share and another task may wait for that. */
static const char *share_left(const struct slot *slot, bool ends)
{
    const char *list = slot->taken == slot->waiting.count ? waiting_names_class(&slot->waiting) : NULL;
    bool is_told =
        list != NULL && (ends || contention_has_waiters(slot->worker->contention, list, loop_now(slot->worker->loop)));
    return is_told ? list : NULL;
}

/* Other clients have their turn: the tasks of this process keep away from the lock, and the oldest waiter is due
 * afterwards. */
static void left_to_others(struct slot *slot)
{
    struct worker *worker = slot->worker;
    struct instant until = loop_after(worker->loop, REDLOCK_TURN_NS);
    for (unsigned i = 0; i < slot->waiting.resource_count; i++)
        contention_note_held(worker->contention, slot->waiting.names[i], until,
                             (struct contention_held){.seen_us = INT64_MAX, .free_at = until, .is_left = true});
    slot->left.kind = SLOT_LEFT_LINGERS;
    slot->left.after_ns = REDLOCK_TURN_NS;
    slot->left.gives_way = true;
}

/* What becomes of the lists that it was in the way of; slot_moves.c sends that to the queue node. */
static void left_note(struct slot *slot, const struct flow_step *step)
{
    bool ends = step->ends || step->move == FLOW_MOVE_FINISH_WITH;
    struct slot_left *left = &slot->left;
    *left = (struct slot_left){.kind = SLOT_LEFT_NOTHING, .share = share_left(slot, ends)};
    if (!ends)
        return;
    left->jid = step->ending != FLOW_CLAIM_LOST ? slot->jid : NULL; /* else others have the task, and its position */
    if (!had_all(slot) && !waited_in_vain(slot, step))
        return;
    left->after_ns = slot->has_lock ? linger_ns(slot, step->ending) : 0;
    if (left->after_ns > 0) {
        left->kind = SLOT_LEFT_LINGERS;
        return;
    }
    left->kind = slot_has_successor(slot) ? SLOT_LEFT_TO_SUCCESSOR : SLOT_LEFT_FREE;
    if (left->kind == SLOT_LEFT_FREE && slot->has_lock && redlock_lock_gives_way(slot->lock)) {
        left_to_others(slot);
        return;
    }
    left->share = NULL; /* freed with the others, or the successor's */
}

void slot_lock_leave(struct slot *slot, const struct flow_step *step)
{
    left_note(slot, step);
    names_leave(slot);
    if (slot->lock != NULL)
        lock_let_go(slot, slot->left.gives_way ? 0 : slot->left.after_ns);
    slot->has_lock = false;
}

void slot_lock_init(struct slot *slot)
{
    job_verifier_init(&slot->verifier, slot->worker->loop, slot->worker->verify_patience_ns);
    int start = snprintf(slot->owner, sizeof slot->owner - OWNER_JID_MAX,
                         "%.60s:%d:%u:", slot->worker->options.config->worker.host, (int)getpid(), slot->number);
    slot->owner_start = (size_t)start;
}
