#include "worker/flow.h"

#include "base/invariant.h"

const char *flow_ending_name(enum flow_ending ending)
{
    static const char *const names[FLOW_ENDINGS] = {
        [FLOW_DONE] = "done",
        [FLOW_DISCARDED] = "discarded",
        [FLOW_FAILED] = "failed",
        [FLOW_DEAD] = "dead",
        [FLOW_EXPIRED] = "expired",
        [FLOW_SNOOZED] = "snoozed",
        [FLOW_CANCELLED] = "cancelled",
        [FLOW_REFUSED] = "refused",
        [FLOW_INVALID] = "invalid",
        [FLOW_NO_RESOURCE] = "no_resource",
        [FLOW_UNKNOWN_CLASS] = "unknown_class",
        [FLOW_PUT_OFF] = "put_off",
        [FLOW_PARKED] = "parked",
        [FLOW_SKIPPED] = "skipped",
        [FLOW_DROPPED] = "dropped",
        [FLOW_LOCK_LOST] = "lock_lost",
        [FLOW_GIVEN_BACK] = "given_back",
        [FLOW_CLAIM_LOST] = "claim_lost",
    };
    invariant((unsigned)ending < FLOW_ENDINGS);
    return names[ending];
}

static struct flow_step claim_or_rest(struct flow *flow)
{
    flow->has_task = false;
    if (flow->stopping) {
        flow->state = FLOW_IDLE;
        return (struct flow_step){0};
    }
    flow->state = FLOW_CLAIMING;
    return (struct flow_step){.move = FLOW_MOVE_CLAIM};
}

static struct flow_step end_by_move(struct flow *flow, enum flow_ending ending, enum flow_move move)
{
    flow->state = FLOW_SETTLING;
    return (struct flow_step){.release = true, .ends = true, .ending = ending, .move = move};
}

/* Done with the task, and the call that says so claims the next one, where one call can do both. */
static struct flow_step end_and_claim(struct flow *flow, enum flow_ending ending)
{
    if (flow->stopping || flow->task.is_unique || flow->task.is_cancelled)
        return end_by_move(flow, ending, FLOW_MOVE_FINISH);
    flow->has_task = false;
    flow->state = FLOW_CLAIMING;
    return (struct flow_step){.release = true, .ends = true, .ending = ending, .move = FLOW_MOVE_CLAIM};
}

static struct flow_step end_cancelled(struct flow *flow)
{
    flow->task.is_cancelled = true;
    return end_by_move(flow, FLOW_CANCELLED, FLOW_MOVE_CANCEL);
}

/* The task is in other hands: nothing is moved, the lock is let go. */
static struct flow_step end_lost(struct flow *flow)
{
    struct flow_step step = claim_or_rest(flow);
    step.release = step.ends = true;
    step.ending = FLOW_CLAIM_LOST;
    return step;
}

/* Whether it has ended the answer says. */
static struct flow_step finish_with(struct flow *flow)
{
    flow->state = FLOW_FINISHING;
    return (struct flow_step){.release = true, .ending = FLOW_DONE, .move = FLOW_MOVE_FINISH_WITH};
}

static struct flow_step give_back(struct flow *flow)
{
    return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
}

static struct flow_step run(struct flow *flow)
{
    flow->state = FLOW_READY;
    return (struct flow_step){.run = true};
}

static struct flow_step open_or_run(struct flow *flow)
{
    if (flow->task.must_confirm) {
        flow->state = FLOW_CONFIRMING;
        return (struct flow_step){.confirm = true};
    }
    if (!flow->task.must_open)
        return run(flow);
    flow->state = FLOW_OPENING;
    return (struct flow_step){.open = true};
}

/* --- a lock that is taken ---------------------------------------------------------------------------------------- */

static struct flow_step park(struct flow *flow)
{
    flow->state = FLOW_PARKING;
    return (struct flow_step){.release = true, .move = FLOW_MOVE_PARK};
}

static struct flow_step skip(struct flow *flow)
{
    flow->state = FLOW_SKIPPING;
    return (struct flow_step){.release = true, .move = FLOW_MOVE_SKIP};
}

static struct flow_step ask_for_lock(struct flow *flow)
{
    flow->state = FLOW_LOCKING;
    return (struct flow_step){.lock = true};
}

static struct flow_step leave_unserved(struct flow *flow)
{
    flow->state = FLOW_UNSERVED;
    return (struct flow_step){.release = true, .move = FLOW_MOVE_UNSERVED};
}

/* What failed goes where any failure goes. */
static struct flow_step end_failed(struct flow *flow)
{
    switch (flow->task.if_failed) {
    case FLOW_RUN_EXHAUSTED:
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    case FLOW_RUN_HOPELESS:
        return end_and_claim(flow, FLOW_DISCARDED);
    default:
        return end_by_move(flow, FLOW_FAILED, FLOW_MOVE_RETRY);
    }
}

static struct flow_step wait_or_not(struct flow *flow)
{
    switch (flow->task.on_conflict) {
    case FLOW_CONFLICT_PARK:
        return park(flow);
    case FLOW_CONFLICT_SKIP:
        return flow->task.ran_before ? park(flow) : skip(flow);
    case FLOW_CONFLICT_DELAY:
        return end_by_move(flow, FLOW_PARKED, FLOW_MOVE_DELAY);
    case FLOW_CONFLICT_FAIL:
        return flow->task.ran_before ? park(flow) : end_failed(flow);
    }
    invariant_unreachable("a conflict outside its enum");
}

struct flow_step flow_not_yet(struct flow *flow, bool must_wait)
{
    invariant(flow->state == FLOW_PARKING || flow->state == FLOW_SKIPPING);
    bool was_skipping = flow->state == FLOW_SKIPPING;
    flow->task.must_confirm = false; /* the answer is about its claim */
    if (flow->claim_lost)
        return end_lost(flow);
    if (flow->stopping)
        return give_back(flow);
    flow->retried = flow->retried || !was_skipping;
    if (was_skipping || must_wait)
        return park(flow);
    return flow->task.wants_lock ? ask_for_lock(flow) : open_or_run(flow);
}

struct flow_step flow_crowded(struct flow *flow)
{
    invariant(flow->state == FLOW_PARKING);
    if (flow->claim_lost)
        return end_lost(flow);
    if (flow->stopping)
        return give_back(flow);
    switch (flow->task.on_crowd) {
    case FLOW_CROWD_DEAD:
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    case FLOW_CROWD_DROP:
        return end_and_claim(flow, FLOW_DROPPED);
    case FLOW_CROWD_DELAY:
        return end_by_move(flow, FLOW_PARKED, FLOW_MOVE_DELAY);
    }
    invariant_unreachable("a crowd outside its enum");
}

/* --- claiming --------------------------------------------------------------------------------------------------- */

struct flow_step flow_wake(struct flow *flow)
{
    invariant(flow->state == FLOW_IDLE);
    return claim_or_rest(flow);
}

struct flow_step flow_claimed(struct flow *flow, const struct flow_task *task)
{
    invariant(flow->state == FLOW_CLAIMING);
    flow->task = *task;
    flow->has_task = true;
    flow->lost_once = flow->claim_lost = flow->committed = flow->retried = flow->let_go = false;
    if (flow->stopping || task->comes_late)
        return give_back(flow);
    if (!task->is_valid)
        return end_by_move(flow, FLOW_INVALID, FLOW_MOVE_BURY);
    if (task->is_expired)
        return end_and_claim(flow, FLOW_EXPIRED);
    if (task->is_refused)
        return end_by_move(flow, FLOW_REFUSED, FLOW_MOVE_BURY);
    if (!task->is_known)
        return leave_unserved(flow);
    if (task->is_put_off)
        return end_by_move(flow, FLOW_PUT_OFF, FLOW_MOVE_DELAY);
    if (task->must_lock && !task->wants_lock)
        return end_by_move(flow, FLOW_NO_RESOURCE, FLOW_MOVE_BURY);
    if (task->lacks_runner)
        return park(flow);
    if (task->wants_lock && task->must_wait)
        return wait_or_not(flow);
    return task->wants_lock ? ask_for_lock(flow) : open_or_run(flow);
}

/* The slot is empty: the task has left it. */
static struct flow_step end_left(struct flow *flow, enum flow_ending ending)
{
    struct flow_step step = claim_or_rest(flow);
    step.ends = true;
    step.ending = ending;
    return step;
}

struct flow_step flow_nothing(struct flow *flow)
{
    flow->lost_once = false;
    switch (flow->state) {
    case FLOW_PARKING:
        return end_left(flow, FLOW_PARKED);
    case FLOW_SKIPPING:
        return end_left(flow, FLOW_SKIPPED);
    case FLOW_UNSERVED:
        return end_left(flow, FLOW_UNKNOWN_CLASS);
    case FLOW_FINISHING:
        return end_left(flow, FLOW_DONE);
    case FLOW_SETTLING:
        return claim_or_rest(flow);
    case FLOW_CLAIMING:
        flow->state = FLOW_IDLE;
        return (struct flow_step){0};
    case FLOW_IDLE:
    case FLOW_LOCKING:
    case FLOW_CONFIRMING:
    case FLOW_OPENING:
    case FLOW_READY:
        break;
    }
    invariant_unreachable("nothing was asked for");
}

struct flow_step flow_unserved(struct flow *flow, enum flow_result failed)
{
    invariant(flow->state == FLOW_UNSERVED);
    /* Nobody ran it, so it leaves a record, also where its own failures would leave none. */
    flow->task.if_failed = failed == FLOW_RUN_HOPELESS ? FLOW_RUN_EXHAUSTED : failed;
    return end_failed(flow);
}

/* A claim is lost to a recovery, which cleans our slots; the next claim starts afresh. */
struct flow_step flow_claim_lost(struct flow *flow)
{
    invariant(flow->state != FLOW_IDLE && flow->state != FLOW_LOCKING && flow->state != FLOW_CONFIRMING &&
              flow->state != FLOW_READY);
    bool again = !flow->lost_once, was_opening = flow->state == FLOW_OPENING;
    struct flow_step step = {0};
    flow->lost_once = true;
    flow->has_task = false;
    flow->state = FLOW_IDLE;
    if (again)
        step = claim_or_rest(flow);
    step.release = was_opening; /* in the other states it was let go with the move */
    step.ends = true;
    step.ending = FLOW_CLAIM_LOST;
    return step;
}

struct flow_step flow_claim_gone(struct flow *flow, bool withdrawn)
{
    flow->claim_lost = flow->has_task;
    if (flow->state == FLOW_CONFIRMING || (flow->state == FLOW_READY && withdrawn))
        return end_lost(flow);
    return (struct flow_step){0};
}

/* --- before the run --------------------------------------------------------------------------------------------- */

struct flow_step flow_locked(struct flow *flow)
{
    invariant(flow->state == FLOW_LOCKING);
    if (flow->claim_lost)
        return end_lost(flow);
    return flow->stopping ? give_back(flow) : open_or_run(flow);
}

struct flow_step flow_refused(struct flow *flow, enum flow_refusal refusal)
{
    invariant(flow->state == FLOW_LOCKING);
    if (flow->claim_lost)
        return end_lost(flow);
    if (flow->stopping)
        return give_back(flow);
    if (refusal == FLOW_BUSY)
        return wait_or_not(flow);
    if (refusal == FLOW_UNDECIDED || !flow->task.fails_open)
        return park(flow);
    struct flow_step step = open_or_run(flow);
    step.release = true;
    return step;
}

struct flow_step flow_doubted(struct flow *flow)
{
    bool lets_go = flow->state == FLOW_CONFIRMING && flow->task.wants_lock && !flow->let_go;
    flow->let_go = flow->let_go || lets_go;
    return (struct flow_step){.release = lets_go};
}

static struct flow_step hold_back(struct flow *flow, struct flow_step step)
{
    flow->state = FLOW_CONFIRMING;
    step.run = false;
    step.confirm = true;
    return step;
}

/* What begins here may run to its end, whoever else has the task by then. */
struct flow_step flow_guard(struct flow *flow, struct flow_step step, bool is_leased)
{
    if (is_leased || flow->committed)
        return step;
    if (step.run)
        step = hold_back(flow, step);
    step.release |= flow_doubted(flow).release;
    return step;
}

struct flow_step flow_renewed(struct flow *flow)
{
    if (flow->state != FLOW_CONFIRMING || flow->task.must_confirm)
        return (struct flow_step){0};
    if (flow->stopping)
        return give_back(flow);
    bool locks_again = flow->let_go;
    flow->let_go = false;
    return locks_again ? ask_for_lock(flow) : open_or_run(flow);
}

struct flow_step flow_confirmed(struct flow *flow)
{
    flow->task.must_confirm = false;
    return flow_renewed(flow);
}

/* Also while stopping a task that has ended already is run: it would be gone otherwise. */
struct flow_step flow_opened(struct flow *flow)
{
    invariant(flow->state == FLOW_OPENING);
    flow->committed = flow->task.at_most_once;
    flow->task.must_open = false;
    return flow->stopping && !flow->committed ? give_back(flow) : run(flow);
}

struct flow_step flow_unwanted(struct flow *flow)
{
    invariant(flow->state == FLOW_OPENING);
    return end_cancelled(flow);
}

/* --- after it --------------------------------------------------------------------------------------------------- */

/* What would run again is buried instead when the task was ended before it ran. */
static struct flow_step end_unfinished(struct flow *flow, enum flow_ending ending, enum flow_move move)
{
    if (flow->committed)
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    return end_by_move(flow, ending, move);
}

static struct flow_step end_by_on_lost(struct flow *flow)
{
    switch (flow->task.on_lost) {
    case FLOW_ON_LOST_RETRY:
        return end_unfinished(flow, FLOW_LOCK_LOST, FLOW_MOVE_RETRY);
    case FLOW_ON_LOST_REQUEUE:
        return end_unfinished(flow, FLOW_LOCK_LOST, FLOW_MOVE_GIVE_BACK);
    case FLOW_ON_LOST_DEAD:
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    }
    invariant_unreachable("an on_lost outside its enum");
}

struct flow_step flow_ran(struct flow *flow, enum flow_result result, enum flow_hold hold)
{
    invariant(flow->state == FLOW_READY && flow->has_task);
    if (flow->claim_lost)
        return end_lost(flow);
    if (result == FLOW_RUN_NOT_STARTED)
        return end_unfinished(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    if (hold == FLOW_LOST || (hold == FLOW_HELD_TOO_LONG && flow->task.on_lost != FLOW_ON_LOST_RETRY))
        return end_by_on_lost(flow);
    switch (result) {
    case FLOW_RUN_OK:
        return flow->task.leaves_more ? finish_with(flow) : end_and_claim(flow, FLOW_DONE);
    case FLOW_RUN_DISCARDED:
    case FLOW_RUN_HOPELESS:
        return end_and_claim(flow, FLOW_DISCARDED);
    case FLOW_RUN_UNWANTED:
        return end_cancelled(flow);
    case FLOW_RUN_SNOOZED:
        return end_unfinished(flow, FLOW_SNOOZED, FLOW_MOVE_SNOOZE);
    case FLOW_RUN_FAILED:
        return end_unfinished(flow, FLOW_FAILED, FLOW_MOVE_RETRY);
    case FLOW_RUN_EXHAUSTED:
    case FLOW_RUN_BURIED:
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    case FLOW_RUN_CANCELLED:
        return end_unfinished(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    case FLOW_RUN_NOT_STARTED:
        break;
    }
    invariant_unreachable("a result outside its enum");
}

struct flow_step flow_finish_refused(struct flow *flow, enum flow_result failed)
{
    invariant(flow->state == FLOW_FINISHING && failed != FLOW_RUN_OK);
    flow->state = FLOW_READY;
    return flow_ran(flow, failed, FLOW_HELD);
}

/* --- stopping --------------------------------------------------------------------------------------------------- */

bool flow_may_withdraw(const struct flow *flow)
{
    return flow->state == FLOW_READY && (!flow->committed || flow->claim_lost);
}

/* CLAIMING, CONFIRMING, OPENING and SETTLING wait for their answer, LOCKING for the cancelled lock's, a run for its
 * end. */
struct flow_step flow_stop(struct flow *flow, bool withdrawn)
{
    flow->stopping = true;
    if (flow->state == FLOW_READY && withdrawn)
        return flow->claim_lost ? end_lost(flow) : give_back(flow);
    return (struct flow_step){0};
}

struct flow_step flow_abandon(struct flow *flow)
{
    invariant(flow->state == FLOW_READY);
    flow->stopping = true;
    struct flow_step step =
        flow->claim_lost ? end_lost(flow) : end_unfinished(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    step.release = false;
    return step;
}
