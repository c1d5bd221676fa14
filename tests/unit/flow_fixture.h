/* Tasks and steps of the flow: what tests/unit/test_flow.c and test_flow_contention.c share. */
#ifndef TESTS_UNIT_FLOW_FIXTURE_H
#define TESTS_UNIT_FLOW_FIXTURE_H

#include "tests/support/test.h"

#include "worker/flow.h"

static const struct flow_task plain = {.is_valid = true, .is_known = true};
static const struct flow_task locked = {.is_valid = true, .is_known = true, .wants_lock = true, .must_lock = true};

static struct flow flow_claiming(void)
{
    struct flow flow = {0};
    struct flow_step step = flow_wake(&flow);
    assert_int_equal(step.move, FLOW_MOVE_CLAIM);
    assert_int_equal(flow.state, FLOW_CLAIMING);
    return flow;
}

static void assert_ends(struct flow_step step, enum flow_ending ending, enum flow_move move)
{
    assert_true(step.ends);
    assert_true(step.release);
    assert_int_equal(step.ending, ending);
    assert_int_equal(step.move, move);
    assert_false(step.lock);
    assert_false(step.run);
}

#endif
