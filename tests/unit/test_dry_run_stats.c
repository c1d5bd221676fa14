/* The statistics counts what it is told of tasks: waits from the push to the lock, holds, changeovers, who waits, who
 * ended and how often. */
#include "tests/unit/stats_fixture.h"

/* --- one task ----------------------------------------------------------------------------------------------------- */

TEST(a_task_waits_from_its_push_to_its_lock_and_holds_until_it_leaves)
{
    push("a", "r0", 100);
    assert_int_equal(stats_outstanding(stats), 1);
    assert_true(done("a", "r0", 102, 103, 108));
    assert_int_equal(stats_outstanding(stats), 0);
    finish(1000, 1100);
    const struct result_resource *r0 = resource_named("r0");
    assert_int_equal(result.pushed, 1);
    assert_int_equal(result.ended, 1);
    assert_int_equal(result.done, 1);
    assert_true(result.is_drained);
    assert_near(result.measured_for, 1, 0);
    assert_near(result.throughput, 1, 0);
    assert_near(result.wait.mean, 0.003, 0);
    assert_near(result.hold.mean, 0.005, 0);
    assert_near(result.acquire.mean, 0.001, 0);
    assert_near(result.wait.p99, 0.003, ROUNDED);
    assert_near(r0->wait_mean, 0.003, 0);
    assert_near(r0->wait_p50, 0.003, ROUNDED);
    assert_near(r0->hold_mean, 0.005, 0);
    assert_near(r0->hold_second_moment, 25e-6, 1e-6);
    assert_near(r0->share_held, 0.005, 1e-6);
    assert_near(r0->waiters, 0.003, 1e-6);
    assert_near(r0->load, 1, 0);
    assert_near(result.utilisation, 0.006 / 8, 1e-6);
    assert_near(result.tries_per_hold, 1, 0);
}

TEST(only_what_is_measured_makes_rates_and_waits_and_all_of_it_totals)
{
    stats_destroy(stats);
    begin(500);
    stats_load_ended(stats, at(1000));
    push("warm", "r0", 100);
    done("warm", "r0", 101, 400, 600); /* held for 100 ms of the measured part */
    push("a", "r0", 700);
    done("a", "r0", 701, 702, 712);
    push("late", "r0", 900);
    done("late", "r0", 901, 902, 1600); /* for 98 ms of it */
    push("after", "r0", 1100);
    done("after", "r0", 1101, 1601, 1602);
    finish(1000, 2000);
    assert_int_equal(result.pushed, 4);
    assert_int_equal(result.ended, 4);
    assert_near(result.measured_for, 0.5, 0);
    assert_near(result.throughput, 4, 0);   /* "warm" and "a" ended in it */
    assert_int_equal(result.wait.count, 2); /* "a" and "late" were pushed in it */
    assert_near(result.wait.mean, 0.002, 0);
    assert_int_equal(result.hold.count, 2);
    assert_near(resource_named("r0")->share_held, (100 + 10 + 98) / 500.0, 1e-6);
    assert_near(resource_named("r0")->load, 4, 0);
    assert_int_equal(resource_named("r0")->arrived, 4);
}

TEST(what_is_parked_comes_again_and_waits_all_the_time)
{
    push("a", "r0", 100);
    assert_false(
        stays((struct stay){"a", "r0", FLOW_PARKED, .claimed = 102, .asked = 102, .left = 104, .had_refusal = true}));
    assert_int_equal(stats_outstanding(stats), 1);
    assert_true(done("a", "r0", 150, 151, 161));
    finish(1000, 1000);
    assert_int_equal(result.parked, 1);
    assert_int_equal(resource_named("r0")->parks, 1);
    assert_int_equal(resource_named("r0")->refusals, 1);
    assert_near(result.wait.mean, 0.051, 1e-6);
    assert_near(resource_named("r0")->waiters, 0.051, 1e-6);
    assert_near(result.tries_per_hold, 2, 0);
    assert_near(result.overheads.park_cost, 0.002, 1e-6);
}

/* What it held when the fault came, and what came then, would be taken for what tasks cost. */
TEST(what_a_fault_delays_is_no_cost_of_a_task)
{
    for (unsigned i = 0; i < 4; i++) {
        push("a", "r0", 100 + 100 * i);
        assert_true(done("a", "r0", 100 + 100 * i, 101 + 100 * i, 106 + 100 * i));
    }
    push("stuck", "r0", 499);
    stats_disturbed(stats, at(500));
    stats_disturbed(stats, at(800)); /* the first counts */
    assert_true(done("stuck", "r0", 499, 700, 900));
    push("late", "r0", 600);
    assert_true(done("late", "r0", 910, 911, 916));
    finish(1000, 1000);
    assert_int_equal(result.wait.count, 6);
    const struct result_overheads *overheads = &result.overheads;
    assert_int_equal(overheads->base.count, 4);
    assert_near(moments_time(&overheads->base).mean, 0.001, 1e-6);
    assert_near(overheads->claim_extra, 0.001, 1e-6);
    assert_near(overheads->hold_extra, 0, 1e-6);
    assert_int_equal(overheads->changeover.count, 0);
}

TEST(how_many_resources_a_task_takes_is_counted)
{
    static const char *const names[] = {"r0", "r1", "r2"};
    push("one", "r0", 10);
    stats_pushed(stats, "three", names, 3, at(20));
    finish(1000, 1000);
    assert_near(result.overheads.together, 2, 1e-6);
}

TEST(what_failed_comes_again_and_is_not_waiting_meanwhile)
{
    push("a", "r0", 100);
    assert_false(
        stays((struct stay){"a", "r0", FLOW_FAILED, .claimed = 101, .asked = 101, .locked = 102, .left = 110}));
    assert_true(done("a", "r0", 500, 503, 513));
    finish(1000, 1000);
    assert_int_equal(result.failed, 1);
    assert_int_equal(result.ended, 1);
    assert_int_equal(result.wait.count, 1); /* the first try's */
    assert_near(resource_named("r0")->waiters, 0.005, 1e-6);
    assert_int_equal(resource_named("r0")->held, 2);
    assert_near(result.overheads.tries, 2, 0);
}

TEST(every_ending_is_final_or_not)
{
    static const bool is_final[FLOW_ENDINGS] = {
        [FLOW_DONE] = true,      [FLOW_DISCARDED] = true, [FLOW_DEAD] = true,    [FLOW_EXPIRED] = true,
        [FLOW_CANCELLED] = true, [FLOW_REFUSED] = true,   [FLOW_INVALID] = true, [FLOW_NO_RESOURCE] = true,
        [FLOW_SKIPPED] = true,   [FLOW_DROPPED] = true};
    for (enum flow_ending ending = 0; ending < FLOW_ENDINGS; ending++) {
        push("a", "r0", 10);
        assert_int_equal(stays((struct stay){"a", "r0", ending, .claimed = 11, .left = 12}), is_final[ending]);
        assert_int_equal(stats_outstanding(stats), !is_final[ending]);
        if (!is_final[ending])
            assert_true(done("a", "r0", 13, 14, 15));
    }
    finish(1000, 1000);
    assert_int_equal(result.pushed, FLOW_ENDINGS);
    assert_int_equal(result.ended, FLOW_ENDINGS);
    assert_int_equal(result.failed, 2); /* failed; discarded, because a failure had no retry */
    assert_int_equal(result.dead, 4);   /* dead, refused, invalid, no resource */
    assert_int_equal(result.skipped, 1);
    assert_int_equal(result.dropped, 1);
    assert_int_equal(result.given_back, 1);
    assert_int_equal(result.lost, 1);
    assert_int_equal(result.twice, 0);
}

TEST(who_ends_twice_and_who_never_does_are_counted)
{
    push("a", "r0", 10);
    push("b", "r0", 10);
    assert_true(done("a", "r0", 11, 12, 13));
    assert_false(done("a", "r0", 21, 22, 23));
    finish(1000, 1000);
    assert_int_equal(result.twice, 1);
    assert_int_equal(result.left, 1);
    assert_int_equal(result.pushed, 2);
    assert_false(result.is_drained);
    assert_near(resource_named("r0")->waiters, (0.003 - 0.001) + 0.99, 0.01); /* "b" waits to the end */
}

/* --- several ------------------------------------------------------------------------------------------------------ */

TEST(a_changeover_is_from_one_holder_to_the_next_that_waited_whatever_the_order_of_records)
{
    push("a", "r0", 10);
    push("b", "r0", 11);
    push("c", "r0", 12);
    /* the second holder's process is read first */
    stays((struct stay){"b", "r0", FLOW_DONE, .claimed = 13, .asked = 13, .locked = 22, .left = 30, .process = 1});
    stays((struct stay){"a", "r0", FLOW_DONE, .claimed = 11, .asked = 11, .locked = 12, .left = 20});
    stays((struct stay){"c", "r0", FLOW_PARKED, .claimed = 13, .left = 14});
    stays(
        (struct stay){"c", "r0", FLOW_DONE, .claimed = 31, .asked = 31, .locked = 34, .left = 40, .handed_over = true});
    push("d", "r0", 100); /* nobody is before it */
    done("d", "r0", 101, 102, 110);
    finish(1000, 1000);
    const struct result_resource *r0 = resource_named("r0");
    assert_int_equal(r0->changeovers, 2);
    assert_near(r0->changeover_mean, (2 + 4) / 2 * 1e-3, 1e-6);
    assert_near(moments_time(&result.overheads.changeover).second_moment, (4 + 16) / 2 * 1e-6, 1e-6);
    assert_int_equal(r0->lone_changeovers, 1); /* when the first left, both others waited */
    assert_near(r0->lone_changeover_mean, 4e-3, 1e-6);
    assert_near(r0->lone_changeover_second_moment, 16e-6, 1e-6);
    assert_near(moments_time(&result.overheads.crowd_changeover).mean, 2e-3, 1e-6);
    assert_int_equal(r0->hand_overs, 1);
    assert_int_equal(r0->waiters_max, 3);
}

TEST(who_is_overtaken_makes_it_a_changeover_all_the_same)
{
    push("a", "r0", 10);
    push("b", "r0", 11);
    done("a", "r0", 11, 12, 20);
    push("c", "r0", 22);
    done("c", "r0", 23, 24, 30); /* while the second slept between two tries */
    done("b", "r0", 12, 35, 40);
    push("d", "r0", 50);
    done("d", "r0", 51, 52, 60);
    finish(1000, 1000);
    const struct result_resource *r0 = resource_named("r0");
    assert_int_equal(r0->changeovers, 2);
    assert_int_equal(r0->lone_changeovers, 2);
    assert_near(r0->changeover_mean, (4 + 5) / 2.0 * 1e-3, 1e-6);
}

TEST(the_base_latency_is_of_those_that_nobody_was_in_the_way_of)
{
    push("a", "r0", 10); /* alone: 3 ms */
    done("a", "r0", 12, 13, 18);
    push("b", "r0", 30);
    push("c", "r0", 31); /* behind b */
    done("b", "r0", 31, 31, 40);
    done("c", "r0", 32, 50, 60);
    for (unsigned i = 0; i < 9; i++) { /* the last of them finds all runners taken */
        char jid[8], name[8];
        snprintf(jid, sizeof jid, "x%u", i);
        snprintf(name, sizeof name, "s%u", i);
        push(jid, name, 100);
    }
    for (unsigned i = 0; i < 9; i++) {
        char jid[8], name[8];
        snprintf(jid, sizeof jid, "x%u", i);
        snprintf(name, sizeof name, "s%u", i);
        done(jid, name, 101, i == 8 ? 190 : 102, 200);
    }
    finish(1000, 1000);
    assert_int_equal(result.overheads.base.count, 10);
    assert_near(moments_time(&result.overheads.base).mean, (3 + 1 + 8 * 2) / 10.0 * 1e-3, 1e-6);
}

TEST(all_resources_of_a_task_are_counted)
{
    const char *both[] = {"r0", "r1"};
    stats_pushed(stats, "a", both, 2, at(10));
    done("a", "r0", 11, 12, 20);
    finish(1000, 1000);
    assert_int_equal(result.resource_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(result.resources[i].held, 1);
        assert_near(result.resources[i].share_held, 0.008, 1e-6);
    }
    assert_int_equal(result.hold.count, 1);
}

TEST(of_several_resources_nobody_may_be_in_the_way_at_any)
{
    const char *both[] = {"r0", "r1"};
    stats_pushed(stats, "a", both, 2, at(10));
    done("a", "r0", 11, 13, 20);
    push("b", "r1", 30);
    stats_pushed(stats, "c", both, 2, at(31)); /* somebody is */
    done("b", "r1", 31, 32, 40);
    done("c", "r0", 41, 42, 50);
    finish(1000, 1000);
    assert_int_equal(result.overheads.base.count, 2); /* the first, and the second of one resource */
    assert_near(moments_time(&result.overheads.base).mean, (3 + 2) / 2.0 * 1e-3, 1e-6);
}

TEST(a_closed_loop_knows_how_long_its_pushes_take)
{
    plan.arrivals = DRY_RUN_CLOSED;
    plan.population = 2;
    stats_destroy(stats);
    begin(0);
    push("a", "r0", 10);
    push("b", "r1", 10);
    assert_true(done("a", "r0", 11, 12, 20));
    push("c", "r0", 25);
    assert_true(done("b", "r1", 11, 12, 26));
    push("d", "r0", 33);
    finish(1000, 1000);
    assert_near(result.overheads.next_push, (5 + 7) / 2.0 * 1e-3, 1e-6);
}

TEST(a_closed_loop_lacks_what_ended_or_comes_again_by_a_clock)
{
    plan.arrivals = DRY_RUN_CLOSED;
    plan.population = 2;
    stats_destroy(stats);
    begin(0);
    assert_int_equal(stats_missing(stats), 2);
    push("a", "r0", 10);
    push("b", "r1", 10);
    assert_int_equal(stats_missing(stats), 0);
    stays((struct stay){"a", "r0", FLOW_PARKED, .claimed = 11, .asked = 11, .left = 12});
    assert_int_equal(stats_missing(stats), 0);
    stays((struct stay){"a", "r0", FLOW_FAILED, .claimed = 13, .asked = 13, .locked = 14, .left = 20});
    assert_int_equal(stats_missing(stats), 1);
    push("c", "r0", 21);
    assert_int_equal(stats_missing(stats), 0);
    assert_true(done("a", "r0", 50, 51, 60)); /* its retry took nobody's place */
    assert_int_equal(stats_missing(stats), 0);
    assert_true(done("b", "r1", 50, 51, 60));
    assert_int_equal(stats_missing(stats), 1);
    plan.arrivals = DRY_RUN_OPEN;
    assert_int_equal(stats_missing(stats), 0);
    finish(1000, 1000);
    assert_near(result.overheads.next_push, 0.001, 1e-6);
}

/* --- overlaps and deaths ------------------------------------------------------------------------------------------ */

TEST(overlaps_and_refusals_are_told_of_their_resource)
{
    push("a", "r0", 1);
    push("b", "r0", 1);
    push("c", "r1", 1);
    event(RECORD_ENTER, "a", "r0", 5, 0, 10);
    event(RECORD_ENTER, "b", "r0", 6, 1, 12);
    event(RECORD_LEAVE, "b", "r0", 6, 1, 14);
    event(RECORD_LEAVE, "a", "r0", 5, 0, 16);
    event(RECORD_ENTER, "c", "r1", 1, 0, 17);
    event(RECORD_LEAVE, "c", "r1", 1, 0, 18);
    finish(1000, 1000);
    assert_int_equal(result.overlaps, 1);
    assert_int_equal(result.overlaps_unfenced, 0);
    assert_int_equal(result.fence_refusals, 1);
    assert_int_equal(resource_named("r0")->overlaps, 1);
    assert_int_equal(resource_named("r0")->fence_refusals, 1);
    assert_int_equal(resource_named("r1")->overlaps, 0);
}

TEST(what_a_dead_process_held_is_over_and_its_task_waits_again)
{
    push("z", "r0", 100);
    push("a", "r0", 100);
    push("b", "r0", 101);
    done("z", "r0", 101, 102, 105);
    event(RECORD_ENTER, "a", "r0", 5, 0, 110);
    stats_process_died(stats, 0, at(150));
    event(RECORD_ENTER, "b", "r0", 6, 1, 160);
    stays((struct stay){"b", "r0", FLOW_DONE, .claimed = 102, .asked = 102, .locked = 160, .left = 170, .process = 1});
    stays((struct stay){"a", "r0", FLOW_DONE, .claimed = 180, .asked = 180, .locked = 181, .left = 190, .process = 1});
    finish(1000, 1000);
    const struct result_resource *r0 = resource_named("r0");
    assert_int_equal(result.overlaps, 0);
    assert_int_equal(r0->changeovers, 0); /* that was no changeover */
    assert_near(r0->share_held, (3 + 40 + 10 + 9) * 1e-3, 1e-6);
    assert_near(r0->waiters, (2 + 10 + 31 + 59) * 1e-3, 1e-6); /* the one that died twice */
}

/* What another host held in between is not seen here: only what was handed over here was the next one for sure. */
TEST(of_several_hosts_only_a_hand_over_is_a_changeover)
{
    plan.hosts = 2;
    push("a", "r0", 100);
    push("b", "r0", 101);
    push("c", "r0", 102);
    assert_true(done("a", "r0", 100, 102, 110));
    assert_true(done("b", "r0", 101, 190, 200));
    assert_true(stays((struct stay){"c", "r0", FLOW_DONE, .claimed = 103, .asked = 103, .locked = 202, .left = 210,
                                    .handed_over = true}));
    push("d", "r0", 300);
    assert_true(stays((struct stay){"d", "r0", FLOW_DONE, .claimed = 301, .asked = 301, .locked = 350, .left = 360,
                                    .had_refusal = true}));
    finish(1000, 3100);
    assert_int_equal(resource_named("r0")->changeovers, 1);
    assert_near(resource_named("r0")->changeover_mean, 0.002, 1e-6);
    assert_int_equal(result.overheads.base.count, 1);
    assert_near(moments_time(&result.overheads.base).mean, 0.002, 1e-6);
}

RUN_TESTS_BETWEEN(setup, teardown)
