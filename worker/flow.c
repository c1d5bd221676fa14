#include "worker/flow.h"

#include "base/invariant.h"

const char *flow_ending_name(enum flow_ending ending)
{
    static const char *const names[FLOW_ENDINGS] = {
        [FLOW_DONE] = "done",
        [FLOW_DISCARDED] = "discarded",
        [FLOW_FAILED] = "failed",
        [FLOW_DEAD] = "dead",
        [FLOW_INVALID] = "invalid",
        [FLOW_NO_RESOURCE] = "no_resource",
        [FLOW_UNKNOWN_CLASS] = "unknown_class",
        [FLOW_PARKED] = "parked",
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

/* Done with the task, and the call that says so claims the next one. */
static struct flow_step end_and_claim(struct flow *flow, enum flow_ending ending)
{
    flow->has_task = false;
    flow->state = FLOW_CLAIMING;
    return (struct flow_step){
        .release = true, .ends = true, .ending = ending, .move = flow->stopping ? FLOW_MOVE_FINISH : FLOW_MOVE_CLAIM};
}

static struct flow_step end_by_move(struct flow *flow, enum flow_ending ending, enum flow_move move)
{
    flow->state = FLOW_SETTLING;
    return (struct flow_step){.release = true, .ends = true, .ending = ending, .move = move};
}

struct flow_step flow_wake(struct flow *flow)
{
    invariant(flow->state == FLOW_IDLE);
    return claim_or_rest(flow);
}

struct flow_step flow_claimed(struct flow *flow, const struct flow_task *task)
{
    invariant(flow->state == FLOW_CLAIMING);
    flow->has_task = true;
    flow->lost_once = false;
    if (flow->stopping)
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    if (!task->is_valid)
        return end_by_move(flow, FLOW_INVALID, FLOW_MOVE_BURY);
    if (!task->is_known)
        return end_by_move(flow, FLOW_UNKNOWN_CLASS, FLOW_MOVE_RETRY);
    if (task->must_lock && !task->wants_lock)
        return end_by_move(flow, FLOW_NO_RESOURCE, FLOW_MOVE_BURY);
    flow->state = task->wants_lock ? FLOW_LOCKING : FLOW_READY;
    return (struct flow_step){.lock = task->wants_lock, .run = !task->wants_lock};
}

struct flow_step flow_nothing(struct flow *flow)
{
    invariant(flow->state == FLOW_CLAIMING || flow->state == FLOW_SETTLING);
    flow->lost_once = false;
    if (flow->state == FLOW_SETTLING)
        return claim_or_rest(flow);
    flow->state = FLOW_IDLE;
    return (struct flow_step){0};
}

/* A claim is lost to a recovery, which cleans our places; the next claim starts afresh. */
struct flow_step flow_claim_lost(struct flow *flow)
{
    invariant(flow->state == FLOW_CLAIMING || flow->state == FLOW_SETTLING);
    bool again = !flow->lost_once;
    struct flow_step step = {0};
    flow->lost_once = true;
    flow->has_task = false;
    flow->state = FLOW_IDLE;
    if (again)
        step = claim_or_rest(flow);
    step.ends = true;
    step.ending = FLOW_CLAIM_LOST;
    return step;
}

struct flow_step flow_locked(struct flow *flow)
{
    invariant(flow->state == FLOW_LOCKING);
    if (flow->stopping)
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    flow->state = FLOW_READY;
    return (struct flow_step){.run = true};
}

struct flow_step flow_refused(struct flow *flow)
{
    invariant(flow->state == FLOW_LOCKING);
    if (flow->stopping)
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    return end_by_move(flow, FLOW_PARKED, FLOW_MOVE_PARK);
}

struct flow_step flow_ran(struct flow *flow, enum flow_result result, bool lock_lost)
{
    invariant(flow->state == FLOW_READY && flow->has_task);
    if (result == FLOW_RUN_NOT_STARTED)
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    if (lock_lost)
        return end_by_move(flow, FLOW_LOCK_LOST, FLOW_MOVE_RETRY);
    switch (result) {
    case FLOW_RUN_OK:
        return end_and_claim(flow, FLOW_DONE);
    case FLOW_RUN_DISCARDED:
    case FLOW_RUN_HOPELESS:
        return end_and_claim(flow, FLOW_DISCARDED);
    case FLOW_RUN_FAILED:
        return end_by_move(flow, FLOW_FAILED, FLOW_MOVE_RETRY);
    case FLOW_RUN_EXHAUSTED:
    case FLOW_RUN_BURIED:
        return end_by_move(flow, FLOW_DEAD, FLOW_MOVE_BURY);
    case FLOW_RUN_CANCELLED:
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    case FLOW_RUN_NOT_STARTED:
        break;
    }
    invariant_unreachable("a result outside its enum");
}

/* CLAIMING and SETTLING wait for their answer, LOCKING for the cancelled lock's, a run for its end. */
struct flow_step flow_stop(struct flow *flow, bool withdrawn)
{
    flow->stopping = true;
    if (flow->state == FLOW_READY && withdrawn)
        return end_by_move(flow, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    return (struct flow_step){0};
}
