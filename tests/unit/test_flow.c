/* The flow of a task: every order of events that a slot can meet. */
#include "tests/support/test.h"

#include "tests/unit/flow_fixture.h"

static const struct flow_task opened = {.is_valid = true, .is_known = true, .must_open = true};
static const struct flow_task once = {.is_valid = true, .is_known = true, .must_open = true, .at_most_once = true};
static const struct flow_task unique = {.is_valid = true, .is_known = true, .is_unique = true};
static const struct flow_task leaving = {.is_valid = true, .is_known = true, .wants_lock = true, .leaves_more = true};

static struct flow flow_running(const struct flow_task *task)
{
    struct flow flow = flow_claiming();
    struct flow_step step = flow_claimed(&flow, task);
    if (step.lock)
        step = flow_locked(&flow);
    if (step.open)
        step = flow_opened(&flow);
    assert_true(step.run);
    assert_int_equal(flow.state, FLOW_READY);
    return flow;
}

TEST(a_task_without_resource_runs_at_once)
{
    struct flow flow = flow_claiming();
    struct flow_step step = flow_claimed(&flow, &plain);
    assert_true(step.run);
    assert_false(step.lock);
}

TEST(a_locked_task_runs_only_when_its_lock_is_held)
{
    struct flow flow = flow_claiming();
    struct flow_step step = flow_claimed(&flow, &locked);
    assert_true(step.lock);
    assert_false(step.run);
    assert_true(flow_locked(&flow).run);
}

TEST(a_done_task_is_finished_and_the_next_claimed_in_one_move)
{
    struct flow flow = flow_running(&locked);
    assert_ends(flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD), FLOW_DONE, FLOW_MOVE_CLAIM);
    assert_int_equal(flow.state, FLOW_CLAIMING);
    assert_true(flow_claimed(&flow, &plain).run);
}

TEST(what_must_not_run_leaves_by_the_move_that_fits)
{
    struct flow flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){0}), FLOW_INVALID, FLOW_MOVE_BURY);
    flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){.is_valid = true, .is_known = true, .must_lock = true}),
                FLOW_NO_RESOURCE, FLOW_MOVE_BURY);
    flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){.is_valid = true, .is_known = true, .is_refused = true}),
                FLOW_REFUSED, FLOW_MOVE_BURY);
    flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){.is_valid = true, .is_expired = true}), FLOW_EXPIRED,
                FLOW_MOVE_CLAIM);
}

/* It waits in the queue store, or fails as the queue store says: like any failure, but never without a record. */
TEST(a_class_that_is_not_served_waits_or_fails)
{
    static const struct {
        enum flow_result failed;
        enum flow_ending ending;
        enum flow_move move;
    } ends[] = {{FLOW_RUN_FAILED, FLOW_FAILED, FLOW_MOVE_RETRY},
                {FLOW_RUN_EXHAUSTED, FLOW_DEAD, FLOW_MOVE_BURY},
                {FLOW_RUN_HOPELESS, FLOW_DEAD, FLOW_MOVE_BURY}};
    const struct flow_task unknown = {.is_valid = true};
    struct flow flow = flow_claiming();
    struct flow_step step = flow_claimed(&flow, &unknown);
    assert_int_equal(step.move, FLOW_MOVE_UNSERVED);
    assert_true(step.release);
    assert_false(step.ends);
    step = flow_nothing(&flow);
    assert_true(step.ends);
    assert_int_equal(step.ending, FLOW_UNKNOWN_CLASS);
    assert_int_equal(step.move, FLOW_MOVE_CLAIM);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        flow = flow_claiming();
        flow_claimed(&flow, &unknown);
        assert_ends(flow_unserved(&flow, ends[i].failed), ends[i].ending, ends[i].move);
    }
    flow = flow_claiming();
    flow_claimed(&flow, &unknown);
    assert_int_equal(flow_claim_lost(&flow).ending, FLOW_CLAIM_LOST);
}

/* Nothing of it is judged but what could never be run. */
TEST(a_class_that_is_not_to_be_served_now_is_put_off)
{
    struct flow flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){.is_valid = true,
                                                        .is_known = true,
                                                        .is_put_off = true,
                                                        .must_lock = true,
                                                        .wants_lock = true,
                                                        .must_wait = true,
                                                        .lacks_runner = true}),
                FLOW_PUT_OFF, FLOW_MOVE_DELAY);
    assert_int_equal(flow_nothing(&flow).move, FLOW_MOVE_CLAIM);
    flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &(struct flow_task){.is_valid = true, .is_refused = true, .is_put_off = true}),
                FLOW_REFUSED, FLOW_MOVE_BURY);
}

TEST(a_unique_task_ends_by_a_call_of_its_own)
{
    struct flow flow = flow_running(&unique);
    assert_ends(flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD), FLOW_DONE, FLOW_MOVE_FINISH);
    assert_int_equal(flow_nothing(&flow).move, FLOW_MOVE_CLAIM);
}

/* Its lock goes with the move, and it has ended when that is answered. */
TEST(a_task_that_leaves_something_has_ended_when_that_is_there)
{
    struct flow flow = flow_running(&leaving);
    struct flow_step step = flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    assert_int_equal(step.move, FLOW_MOVE_FINISH_WITH);
    assert_true(step.release);
    assert_false(step.ends);
    step = flow_nothing(&flow);
    assert_true(step.ends);
    assert_int_equal(step.ending, FLOW_DONE);
    assert_int_equal(step.move, FLOW_MOVE_CLAIM);

    flow = flow_running(&leaving);
    flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    assert_int_equal(flow_stop(&flow, false).move, FLOW_MOVE_NONE);
    step = flow_nothing(&flow);
    assert_int_equal(step.ending, FLOW_DONE);
    assert_int_equal(flow.state, FLOW_IDLE);

    flow = flow_running(&leaving);
    assert_ends(flow_ran(&flow, FLOW_RUN_DISCARDED, FLOW_HELD), FLOW_DISCARDED, FLOW_MOVE_CLAIM);
}

TEST(what_cannot_leave_what_it_wants_has_failed)
{
    struct flow flow = flow_running(&leaving);
    flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    assert_ends(flow_finish_refused(&flow, FLOW_RUN_FAILED), FLOW_FAILED, FLOW_MOVE_RETRY);
    flow = flow_running(&leaving);
    flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    assert_ends(flow_finish_refused(&flow, FLOW_RUN_EXHAUSTED), FLOW_DEAD, FLOW_MOVE_BURY);
    flow = flow_running(&leaving);
    flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    assert_int_equal(flow_claim_lost(&flow).ending, FLOW_CLAIM_LOST);
}

TEST(a_cancelled_task_does_not_run)
{
    struct flow flow = flow_claiming();
    assert_true(flow_claimed(&flow, &opened).open);
    assert_ends(flow_unwanted(&flow), FLOW_CANCELLED, FLOW_MOVE_CANCEL);
    assert_true(flow.task.is_cancelled);
    flow = flow_running(&plain);
    assert_ends(flow_ran(&flow, FLOW_RUN_UNWANTED, FLOW_HELD), FLOW_CANCELLED, FLOW_MOVE_CANCEL);
    assert_true(flow.task.is_cancelled);
    flow = flow_running(&plain);
    flow.task.is_cancelled = true; /* and the handler went on to the end */
    assert_ends(flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD), FLOW_DONE, FLOW_MOVE_FINISH);
}

/* Whatever comes first, the lock or the word of the queue. */
TEST(a_successor_starts_when_its_claim_is_confirmed)
{
    static const struct flow_task successor = {
        .is_valid = true, .is_known = true, .wants_lock = true, .must_confirm = true};
    struct flow flow = flow_claiming();
    assert_true(flow_claimed(&flow, &successor).lock);
    struct flow_step step = flow_locked(&flow);
    assert_true(step.confirm && !step.run && !step.open);
    assert_true(flow_confirmed(&flow).run);

    flow = flow_claiming();
    flow_claimed(&flow, &successor);
    assert_false(flow_confirmed(&flow).run);
    assert_true(flow_locked(&flow).run);

    flow = flow_claiming();
    flow_claimed(&flow, &successor);
    flow_locked(&flow);
    assert_ends(flow_claim_gone(&flow, false), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);

    flow = flow_claiming();
    flow_claimed(&flow, &successor);
    flow_locked(&flow);
    flow_stop(&flow, false);
    assert_ends(flow_confirmed(&flow), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
}

/* Whatever it is that begins the run. */
TEST(nothing_begins_while_the_lease_is_over)
{
    struct flow flow = flow_claiming();
    struct flow_step step = flow_guard(&flow, flow_claimed(&flow, &plain), false);
    assert_true(step.confirm && !step.run);
    assert_int_equal(flow.state, FLOW_CONFIRMING);
    assert_false(flow_guard(&flow, flow_renewed(&flow), false).run); /* by an answer that was read too late */
    assert_true(flow_guard(&flow, flow_renewed(&flow), true).run);
    assert_int_equal(flow.state, FLOW_READY);
    assert_false(flow_renewed(&flow).run);

    flow = flow_claiming();
    assert_true(flow_guard(&flow, flow_claimed(&flow, &locked), false).lock);
    step = flow_guard(&flow, flow_locked(&flow), false);
    assert_true(step.confirm && !step.run && step.release); /* whoever recovers the task needs the lock */
    assert_false(flow_doubted(&flow).release);
    struct flow renewed = flow;
    assert_ends(flow_claim_gone(&flow, false), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);
    step = flow_guard(&renewed, flow_renewed(&renewed), true);
    assert_true(step.lock && !step.run);
    assert_true(flow_guard(&renewed, flow_locked(&renewed), true).run);

    flow = flow_claiming();
    assert_true(flow_guard(&flow, flow_claimed(&flow, &opened), false).open);
    assert_true(flow_guard(&flow, flow_opened(&flow), false).confirm);
    assert_true(flow_renewed(&flow).run); /* it is not asked again */

    flow = flow_claiming();
    flow_claimed(&flow, &once);
    assert_true(flow_guard(&flow, flow_opened(&flow), false).run); /* it has ended: nobody else can have it */

    flow = flow_claiming();
    flow_guard(&flow, flow_claimed(&flow, &plain), false);
    flow_stop(&flow, false);
    assert_ends(flow_renewed(&flow), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
}

/* The lease does not keep the claim of a successor. */
TEST(a_successor_waits_for_both_its_claim_and_the_lease)
{
    static const struct flow_task successor = {
        .is_valid = true, .is_known = true, .wants_lock = true, .must_confirm = true};
    struct flow flow = flow_claiming();
    flow_claimed(&flow, &successor);
    assert_true(flow_guard(&flow, flow_locked(&flow), false).confirm);
    assert_false(flow_guard(&flow, flow_renewed(&flow), true).run);
    assert_true(flow_guard(&flow, flow_confirmed(&flow), false).lock);
    assert_true(flow_guard(&flow, flow_locked(&flow), true).run);

    flow = flow_claiming();
    flow_claimed(&flow, &successor);
    assert_false(flow_guard(&flow, flow_locked(&flow), true).release);
    assert_true(flow_doubted(&flow).release); /* the lease ends while the question is open */
    assert_true(flow_confirmed(&flow).lock);
    assert_true(flow_locked(&flow).run);
}

/* Who had to wait after all was asked about by the park. */
TEST(a_successor_that_was_parked_and_kept_needs_no_confirmation)
{
    static const struct flow_task successor = {
        .is_valid = true, .is_known = true, .wants_lock = true, .must_confirm = true};
    struct flow flow = flow_claiming();
    flow_claimed(&flow, &successor);
    flow_refused(&flow, FLOW_UNDECIDED);
    assert_true(flow_not_yet(&flow, false).lock);
    assert_true(flow_locked(&flow).run);
}

TEST(what_runs_at_most_once_never_runs_again)
{
    for (int result = FLOW_RUN_FAILED; result <= FLOW_RUN_NOT_STARTED; result++) {
        struct flow flow = flow_running(&once);
        struct flow_step step = flow_ran(&flow, (enum flow_result)result, FLOW_HELD);
        assert_int_not_equal(step.move, FLOW_MOVE_RETRY);
        assert_int_not_equal(step.move, FLOW_MOVE_GIVE_BACK);
    }
    struct flow flow = flow_running(&once);
    assert_ends(flow_ran(&flow, FLOW_RUN_OK, FLOW_LOST), FLOW_DEAD, FLOW_MOVE_BURY);
    flow = flow_running(&once);
    assert_false(flow_may_withdraw(&flow));
    flow_claim_gone(&flow, false); /* it runs elsewhere, if anywhere */
    assert_true(flow_may_withdraw(&flow));
    flow = flow_claiming();
    flow_claimed(&flow, &once);
    flow_stop(&flow, false);
    assert_true(flow_opened(&flow).run);
}

TEST(a_claim_in_other_hands_ends_the_task_without_a_move)
{
    struct flow running = flow_running(&locked);
    assert_int_equal(flow_claim_gone(&running, false).move, FLOW_MOVE_NONE);
    assert_ends(flow_ran(&running, FLOW_RUN_OK, FLOW_HELD), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);

    flow_claimed(&running, &locked); /* that was about the task before */
    assert_true(flow_locked(&running).run);

    struct flow waiting = flow_running(&locked);
    assert_ends(flow_claim_gone(&waiting, true), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);

    for (int is_refused = 0; is_refused < 2; is_refused++) {
        struct flow locking = flow_claiming();
        flow_claimed(&locking, &locked);
        flow_claim_gone(&locking, false);
        assert_ends(is_refused ? flow_refused(&locking, FLOW_BUSY) : flow_locked(&locking), FLOW_CLAIM_LOST,
                    FLOW_MOVE_CLAIM);
    }

    struct flow opening = flow_claiming();
    flow_claimed(&opening, &opened);
    assert_ends(flow_claim_lost(&opening), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);
}

TEST(every_result_has_its_ending)
{
    static const struct {
        enum flow_result result;
        enum flow_ending ending;
        enum flow_move move;
    } cases[] = {
        {FLOW_RUN_OK, FLOW_DONE, FLOW_MOVE_CLAIM},
        {FLOW_RUN_DISCARDED, FLOW_DISCARDED, FLOW_MOVE_CLAIM},
        {FLOW_RUN_HOPELESS, FLOW_DISCARDED, FLOW_MOVE_CLAIM},
        {FLOW_RUN_SNOOZED, FLOW_SNOOZED, FLOW_MOVE_SNOOZE},
        {FLOW_RUN_FAILED, FLOW_FAILED, FLOW_MOVE_RETRY},
        {FLOW_RUN_EXHAUSTED, FLOW_DEAD, FLOW_MOVE_BURY},
        {FLOW_RUN_BURIED, FLOW_DEAD, FLOW_MOVE_BURY},
        {FLOW_RUN_CANCELLED, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK},
        {FLOW_RUN_NOT_STARTED, FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct flow flow = flow_running(&plain);
        assert_ends(flow_ran(&flow, cases[i].result, FLOW_HELD), cases[i].ending, cases[i].move);
    }
}

TEST(E38_the_result_of_a_run_whose_lock_was_lost_is_refused)
{
    for (int result = FLOW_RUN_OK; result <= FLOW_RUN_CANCELLED; result++) {
        struct flow flow = flow_running(&locked);
        assert_ends(flow_ran(&flow, (enum flow_result)result, FLOW_LOST), FLOW_LOCK_LOST, FLOW_MOVE_RETRY);
    }
    struct flow flow = flow_running(&locked);
    assert_ends(flow_ran(&flow, FLOW_RUN_NOT_STARTED, FLOW_LOST), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
}

static struct flow_step lost_step(enum flow_on_lost on_lost, bool at_most_once, enum flow_hold hold,
                                  enum flow_result result)
{
    struct flow_task task = at_most_once ? once : locked;
    task.on_lost = on_lost;
    struct flow flow = flow_running(&task);
    return flow_ran(&flow, result, hold);
}

TEST(a_task_whose_lock_was_lost_goes_where_its_class_says)
{
    for (int result = FLOW_RUN_OK; result <= FLOW_RUN_CANCELLED; result++) {
        enum flow_result ran = (enum flow_result)result;
        assert_ends(lost_step(FLOW_ON_LOST_RETRY, false, FLOW_LOST, ran), FLOW_LOCK_LOST, FLOW_MOVE_RETRY);
        assert_ends(lost_step(FLOW_ON_LOST_REQUEUE, false, FLOW_LOST, ran), FLOW_LOCK_LOST, FLOW_MOVE_GIVE_BACK);
        assert_ends(lost_step(FLOW_ON_LOST_DEAD, false, FLOW_LOST, ran), FLOW_DEAD, FLOW_MOVE_BURY);
        for (int on_lost = FLOW_ON_LOST_RETRY; on_lost <= FLOW_ON_LOST_DEAD; on_lost++) /* it never runs again */
            assert_ends(lost_step((enum flow_on_lost)on_lost, true, FLOW_LOST, ran), FLOW_DEAD, FLOW_MOVE_BURY);
    }
}

/* With the usual on_lost it is a failure, whose result says what comes of it; another on_lost is taken all the same. */
TEST(a_lock_that_was_held_too_long_is_a_failure_of_the_task)
{
    enum flow_hold hold = FLOW_HELD_TOO_LONG;
    assert_ends(lost_step(FLOW_ON_LOST_RETRY, false, hold, FLOW_RUN_FAILED), FLOW_FAILED, FLOW_MOVE_RETRY);
    assert_ends(lost_step(FLOW_ON_LOST_RETRY, false, hold, FLOW_RUN_EXHAUSTED), FLOW_DEAD, FLOW_MOVE_BURY);
    assert_ends(lost_step(FLOW_ON_LOST_RETRY, false, hold, FLOW_RUN_HOPELESS), FLOW_DISCARDED, FLOW_MOVE_CLAIM);
    assert_ends(lost_step(FLOW_ON_LOST_REQUEUE, false, hold, FLOW_RUN_FAILED), FLOW_LOCK_LOST, FLOW_MOVE_GIVE_BACK);
    assert_ends(lost_step(FLOW_ON_LOST_DEAD, false, hold, FLOW_RUN_FAILED), FLOW_DEAD, FLOW_MOVE_BURY);
    assert_ends(lost_step(FLOW_ON_LOST_RETRY, true, hold, FLOW_RUN_FAILED), FLOW_DEAD, FLOW_MOVE_BURY);
}

TEST(stopping_gives_back_what_has_not_started)
{
    struct flow claiming = flow_claiming();
    assert_int_equal(flow_stop(&claiming, false).move, FLOW_MOVE_NONE);
    assert_ends(flow_claimed(&claiming, &plain), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);

    struct flow locking = flow_claiming();
    flow_claimed(&locking, &locked);
    flow_stop(&locking, false);
    assert_ends(flow_refused(&locking, FLOW_BUSY), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);

    struct flow late = flow_claiming();
    flow_claimed(&late, &locked);
    flow_stop(&late, false);
    assert_ends(flow_locked(&late), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);

    struct flow ready = flow_running(&plain);
    assert_ends(flow_stop(&ready, true), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    assert_int_equal(flow_nothing(&ready).move, FLOW_MOVE_NONE);
    assert_int_equal(ready.state, FLOW_IDLE);
}

TEST(what_comes_after_its_worker_became_quiet_goes_back)
{
    struct flow_task late = locked;
    late.comes_late = late.is_expired = late.must_wait = true;
    struct flow flow = flow_claiming();
    assert_ends(flow_claimed(&flow, &late), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
}

/* Its handler runs on, so its lock must outlive the process. */
TEST(an_abandoned_task_goes_back_and_keeps_its_lock)
{
    struct flow flow = flow_running(&locked);
    struct flow_step step = flow_abandon(&flow);
    assert_int_equal(step.move, FLOW_MOVE_GIVE_BACK);
    assert_true(step.ends && step.ending == FLOW_GIVEN_BACK);
    assert_false(step.release);
    assert_int_equal(flow_nothing(&flow).move, FLOW_MOVE_NONE);

    struct flow gone = flow_running(&locked);
    flow_claim_gone(&gone, false);
    step = flow_abandon(&gone);
    assert_int_equal(step.move, FLOW_MOVE_NONE);
    assert_int_equal(step.ending, FLOW_CLAIM_LOST);
    assert_false(step.release);
}

TEST(stopping_lets_what_runs_finish_and_claims_no_more)
{
    struct flow flow = flow_running(&locked);
    assert_int_equal(flow_stop(&flow, false).move, FLOW_MOVE_NONE);
    assert_ends(flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD), FLOW_DONE, FLOW_MOVE_FINISH);
    assert_int_equal(flow_nothing(&flow).move, FLOW_MOVE_NONE);
    assert_int_equal(flow.state, FLOW_IDLE);
}

TEST(a_lost_claim_is_told_and_tried_again_once)
{
    struct flow flow = flow_running(&plain);
    flow_ran(&flow, FLOW_RUN_OK, FLOW_HELD);
    struct flow_step step = flow_claim_lost(&flow);
    assert_int_equal(step.ending, FLOW_CLAIM_LOST);
    assert_int_equal(step.move, FLOW_MOVE_CLAIM);
    step = flow_claim_lost(&flow);
    assert_int_equal(step.move, FLOW_MOVE_NONE);
    assert_int_equal(flow.state, FLOW_IDLE);
}

TEST(a_claim_that_found_nothing_allows_another_try)
{
    struct flow flow = flow_claiming();
    assert_int_equal(flow_claim_lost(&flow).move, FLOW_MOVE_CLAIM);
    flow_nothing(&flow);
    assert_int_equal(flow_wake(&flow).move, FLOW_MOVE_CLAIM);
    assert_int_equal(flow_claim_lost(&flow).move, FLOW_MOVE_CLAIM);
}

static struct flow_step random_event(struct flow *flow, unsigned random)
{
    const struct flow_task tasks[] = {
        {0},
        plain,
        opened,
        once,
        unique,
        locked,
        leaving,
        {.is_valid = true},
        {.is_valid = true, .is_expired = true},
        {.is_valid = true, .is_known = true, .must_lock = true},
        {.is_valid = true, .is_known = true, .wants_lock = true, .must_open = true},
        {.is_valid = true, .is_known = true, .wants_lock = true, .on_lost = FLOW_ON_LOST_REQUEUE},
        {.is_valid = true, .is_known = true, .wants_lock = true, .on_lost = FLOW_ON_LOST_DEAD},
        {.is_valid = true, .is_known = true, .wants_lock = true, .on_conflict = FLOW_CONFLICT_SKIP},
        {.is_valid = true, .is_known = true, .wants_lock = true, .must_wait = true, .on_crowd = FLOW_CROWD_DROP},
        {.is_valid = true, .is_known = true, .wants_lock = true, .fails_open = true},
        {.is_valid = true, .is_known = true, .lacks_runner = true},
        {.is_valid = true, .is_known = true, .wants_lock = true, .must_confirm = true, .must_open = true},
    };
    unsigned kinds = sizeof tasks / sizeof tasks[0];
    if (flow->has_task && random % 16 == 0 && flow->state != FLOW_SETTLING && flow->state != FLOW_FINISHING)
        return flow_claim_gone(flow, random % 32 == 0);
    switch (flow->state) {
    case FLOW_IDLE:
        return flow_wake(flow);
    case FLOW_CLAIMING:
        if (random % 4 == 0)
            return flow_nothing(flow);
        if (random % 4 == 1)
            return flow_claim_lost(flow);
        return flow_claimed(flow, &tasks[random / 4 % kinds]);
    case FLOW_LOCKING:
        return random % 2 ? flow_locked(flow) : flow_refused(flow, (enum flow_refusal)(random / 2 % 3));
    case FLOW_PARKING:
        return random % 4 == 0   ? flow_claim_lost(flow)
               : random % 4 == 1 ? flow_not_yet(flow, random / 4 % 2)
               : random % 4 == 2 ? flow_crowded(flow)
                                 : flow_nothing(flow);
    case FLOW_UNSERVED:
        return random % 3 == 0   ? flow_claim_lost(flow)
               : random % 3 == 1 ? flow_unserved(flow, random / 4 % 2 ? FLOW_RUN_FAILED : FLOW_RUN_HOPELESS)
                                 : flow_nothing(flow);
    case FLOW_SKIPPING:
        return random % 3 == 0   ? flow_claim_lost(flow)
               : random % 3 == 1 ? flow_not_yet(flow, random / 4 % 2)
                                 : flow_nothing(flow);
    case FLOW_CONFIRMING:
        return random % 2 ? flow_confirmed(flow) : flow_renewed(flow);
    case FLOW_OPENING:
        return random % 3 == 0 ? flow_unwanted(flow) : random % 3 == 1 ? flow_opened(flow) : flow_claim_lost(flow);
    case FLOW_READY:
        return flow_ran(flow, (enum flow_result)(random % (FLOW_RUN_NOT_STARTED + 1)),
                        (enum flow_hold)(random / 16 % 3));
    case FLOW_FINISHING:
        return random % 3 == 0   ? flow_claim_lost(flow)
               : random % 3 == 1 ? flow_finish_refused(flow, random / 4 % 2 ? FLOW_RUN_FAILED : FLOW_RUN_EXHAUSTED)
                                 : flow_nothing(flow);
    case FLOW_SETTLING:
        return random % 3 == 0 ? flow_claim_lost(flow) : flow_nothing(flow);
    }
    return (struct flow_step){0};
}

static bool has_left(enum flow_state state)
{
    return state == FLOW_IDLE || state == FLOW_CLAIMING || state == FLOW_SETTLING;
}

/* Every claimed task ends exactly once, and what it had is let go of before. */
TEST(every_claimed_task_ends_exactly_once)
{
    unsigned seed = 12345, ended = 0;
    bool working = false; /* a task was claimed and has not ended */
    bool has_lock = false;
    struct flow flow = {0};
    for (int i = 0; i < 300000; i++) {
        seed = seed * 1103515245u + 12345u;
        bool was_claiming = flow.state == FLOW_CLAIMING, was_settling = flow.state == FLOW_SETTLING;
        struct flow_step step = random_event(&flow, seed >> 16);
        step = flow_guard(&flow, step, seed >> 8 & 1);
        if (step.release)
            has_lock = false;
        assert_true(!step.ends || working || was_claiming || was_settling); /* the last two: a lost claim */
        assert_true(!working || has_left(flow.state) == step.ends);
        has_lock = has_lock || step.lock;
        assert_true(!step.ends || !has_lock);
        assert_true(!has_lock || flow.state == FLOW_LOCKING || flow.state == FLOW_CONFIRMING ||
                    flow.state == FLOW_OPENING || flow.state == FLOW_READY);
        ended += step.ends;
        working = !has_left(flow.state);
    }
    assert_true(ended > 1000);
}

RUN_TESTS
