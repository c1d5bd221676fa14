/* The flow of a task whose lock is held: what it does instead of running, and what that costs it. */
#include "tests/support/test.h"

#include "tests/unit/flow_fixture.h"

static struct flow flow_locking(const struct flow_task *task)
{
    struct flow flow = flow_claiming();
    assert_true(flow_claimed(&flow, task).lock);
    return flow;
}

static struct flow_task conflicting(enum flow_conflict on_conflict)
{
    struct flow_task task = locked;
    task.on_conflict = on_conflict;
    return task;
}

static void assert_waits(struct flow_step step, enum flow_move move)
{
    assert_true(step.release);
    assert_false(step.ends);
    assert_false(step.lock);
    assert_false(step.run);
    assert_int_equal(step.move, move);
}

TEST(a_refused_lock_parks_the_task_and_claims_the_next_after_it)
{
    for (int refusal = FLOW_BUSY; refusal <= FLOW_NO_QUORUM; refusal++) {
        struct flow flow = flow_locking(&locked);
        assert_waits(flow_refused(&flow, (enum flow_refusal)refusal), FLOW_MOVE_PARK);
        struct flow_step step = flow_nothing(&flow);
        assert_true(step.ends);
        assert_int_equal(step.ending, FLOW_PARKED);
        assert_int_equal(step.move, FLOW_MOVE_CLAIM);
    }
}

TEST(a_lock_that_is_known_to_be_held_is_not_asked_for)
{
    struct flow_task task = locked;
    task.must_wait = true;
    struct flow flow = flow_claiming();
    assert_waits(flow_claimed(&flow, &task), FLOW_MOVE_PARK);
    task.on_conflict = FLOW_CONFLICT_SKIP;
    flow = flow_claiming();
    assert_waits(flow_claimed(&flow, &task), FLOW_MOVE_SKIP);
    task.lacks_runner = true; /* which has nothing to do with its lock */
    flow = flow_claiming();
    assert_waits(flow_claimed(&flow, &task), FLOW_MOVE_PARK);
    struct flow_task unlocked = plain;
    unlocked.lacks_runner = true;
    flow = flow_claiming();
    assert_waits(flow_claimed(&flow, &unlocked), FLOW_MOVE_PARK);
}

TEST(a_lock_that_was_freed_since_is_asked_for_again)
{
    struct flow flow = flow_locking(&locked);
    flow_refused(&flow, FLOW_BUSY);
    assert_false(flow.retried);
    assert_true(flow_not_yet(&flow, false).lock);
    assert_true(flow.retried);
    assert_int_equal(flow.state, FLOW_LOCKING);
    assert_waits(flow_refused(&flow, FLOW_BUSY), FLOW_MOVE_PARK);
    assert_waits(flow_not_yet(&flow, true), FLOW_MOVE_PARK); /* somebody here has it by now */
}

TEST(a_share_that_was_freed_since_is_used_without_a_lock_that_nobody_wants)
{
    struct flow_task unlocked = plain;
    unlocked.lacks_runner = true;
    struct flow flow = flow_claiming();
    flow_claimed(&flow, &unlocked);
    assert_waits(flow_not_yet(&flow, true), FLOW_MOVE_PARK); /* somebody here has it by now */
    struct flow_step step = flow_not_yet(&flow, false);
    assert_true(step.run);
    assert_false(step.lock);
    assert_int_equal(flow.state, FLOW_READY);
}

TEST(each_class_has_its_way_with_a_held_lock)
{
    struct flow_task skips = conflicting(FLOW_CONFLICT_SKIP), delays = conflicting(FLOW_CONFLICT_DELAY),
                     fails = conflicting(FLOW_CONFLICT_FAIL);
    struct flow flow = flow_locking(&skips);
    assert_waits(flow_refused(&flow, FLOW_BUSY), FLOW_MOVE_SKIP);
    assert_int_equal(flow_nothing(&flow).ending, FLOW_SKIPPED);

    flow = flow_locking(&delays);
    assert_ends(flow_refused(&flow, FLOW_BUSY), FLOW_PARKED, FLOW_MOVE_DELAY);

    fails.if_failed = FLOW_RUN_FAILED;
    flow = flow_locking(&fails);
    assert_ends(flow_refused(&flow, FLOW_BUSY), FLOW_FAILED, FLOW_MOVE_RETRY);
    fails.if_failed = FLOW_RUN_EXHAUSTED;
    flow = flow_locking(&fails);
    assert_ends(flow_refused(&flow, FLOW_BUSY), FLOW_DEAD, FLOW_MOVE_BURY);
    fails.if_failed = FLOW_RUN_HOPELESS;
    flow = flow_locking(&fails);
    assert_ends(flow_refused(&flow, FLOW_BUSY), FLOW_DISCARDED, FLOW_MOVE_CLAIM);

    flow = flow_locking(&fails); /* nobody is known to hold it */
    assert_waits(flow_refused(&flow, FLOW_UNDECIDED), FLOW_MOVE_PARK);
    flow = flow_locking(&skips);
    assert_waits(flow_refused(&flow, FLOW_NO_QUORUM), FLOW_MOVE_PARK);
}

TEST(a_task_that_was_claimed_before_is_parked_whatever_its_class_says)
{
    struct flow_task task = conflicting(FLOW_CONFLICT_SKIP);
    struct flow flow = flow_locking(&task);
    flow_refused(&flow, FLOW_BUSY);
    assert_waits(flow_not_yet(&flow, false), FLOW_MOVE_PARK); /* the queue node knows it */
    task.ran_before = true;
    flow = flow_locking(&task);
    assert_waits(flow_refused(&flow, FLOW_BUSY), FLOW_MOVE_PARK);
    task.on_conflict = FLOW_CONFLICT_FAIL;
    flow = flow_locking(&task);
    assert_waits(flow_refused(&flow, FLOW_BUSY), FLOW_MOVE_PARK);
}

TEST(a_crowd_has_its_policy)
{
    static const struct {
        enum flow_crowd on_crowd;
        enum flow_ending ending;
        enum flow_move move;
    } cases[] = {
        {FLOW_CROWD_DEAD, FLOW_DEAD, FLOW_MOVE_BURY},
        {FLOW_CROWD_DROP, FLOW_DROPPED, FLOW_MOVE_CLAIM},
        {FLOW_CROWD_DELAY, FLOW_PARKED, FLOW_MOVE_DELAY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct flow_task task = locked;
        task.on_crowd = cases[i].on_crowd;
        struct flow flow = flow_locking(&task);
        flow_refused(&flow, FLOW_BUSY);
        assert_ends(flow_crowded(&flow), cases[i].ending, cases[i].move);
    }
}

TEST(without_a_quorum_a_class_may_fail_open)
{
    struct flow_task task = locked;
    task.fails_open = true;
    struct flow flow = flow_locking(&task);
    struct flow_step step = flow_refused(&flow, FLOW_NO_QUORUM);
    assert_true(step.run && step.release && !step.ends);
    flow = flow_locking(&task); /* who is held up has no such excuse */
    assert_waits(flow_refused(&flow, FLOW_BUSY), FLOW_MOVE_PARK);
}

TEST(what_waits_is_given_back_when_the_process_stops)
{
    struct flow flow = flow_locking(&locked);
    flow_refused(&flow, FLOW_BUSY);
    flow_stop(&flow, false);
    struct flow kept = flow, crowded = flow, lost = flow;
    assert_ends(flow_not_yet(&kept, false), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    assert_ends(flow_crowded(&crowded), FLOW_GIVEN_BACK, FLOW_MOVE_GIVE_BACK);
    crowded = flow_locking(&locked);
    flow_refused(&crowded, FLOW_BUSY);
    flow_claim_gone(&crowded, false);
    assert_ends(flow_crowded(&crowded), FLOW_CLAIM_LOST, FLOW_MOVE_CLAIM);
    assert_int_equal(flow_claim_lost(&lost).ending, FLOW_CLAIM_LOST);
    struct flow_step step = flow_nothing(&flow);
    assert_true(step.ends && step.ending == FLOW_PARKED && step.move == FLOW_MOVE_NONE);
}

RUN_TESTS
