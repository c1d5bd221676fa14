/* The verdict names what is full, says how close it is, and advises what the model can put a number to. Of what the
 * data do not tell it says that. */
#include "tests/support/test.h"

#include <math.h>

#include "worker/dry_run/count/expectation.h"
#include "worker/dry_run/count/verdict.h"

enum { RESOURCES = 10 };

static struct result_resource resources[RESOURCES];
static struct result_host host;
static struct result result;

/* A calm run of 20 s: 10 resources at 20 tasks a second each, held for 5 ms, on 2 x 8 threads. */
static int setup(void **state)
{
    static const char *const names[RESOURCES] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"};
    (void)state;
    host = (struct result_host){
        .name = "here", .processes = 2, .threads = 8, .cpu_share = 0.3, .processors = 4, .machine_busy = 0.3};
    result = (struct result){
        .measured_for = 20, .pushed = 4000, .ended = 4000, .done = 4000, .throughput = 200, .overhead_share = 0.1};
    result.overheads = (struct result_overheads){.arrivals = 200,
                                                 .base = {1000, 1000 * 0.0012, 1000 * 1.5e-6},
                                                 .changeover = {500, 500 * 0.0006, 500 * 4e-7},
                                                 .claim_extra = 0.0004,
                                                 .tries = 1};
    result.plan = (struct dry_run_plan){.id = "0123456789ab",
                                        .kind = DRY_RUN_REHEARSAL,
                                        .arrivals = DRY_RUN_OPEN,
                                        .rate = 200,
                                        .hold = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005}};
    result.wait = (struct result_spread){.count = 4000, .mean = 0.002, .p99 = 0.02};
    result.hold = (struct result_spread){.count = 4000, .mean = 0.005};
    result.utilisation = 0.06;
    result.hosts = &host;
    result.host_count = 1;
    result.resources = resources;
    result.resource_count = RESOURCES;
    for (unsigned i = 0; i < RESOURCES; i++)
        resources[i] = (struct result_resource){.name = (char *)(uintptr_t)names[i],
                                                .arrived = 400,
                                                .held = 400,
                                                .load = 20,
                                                .throughput = 20,
                                                .share_held = 0.1,
                                                .hold_mean = 0.005,
                                                .hold_second_moment = 5e-5,
                                                .wait_mean = 0.002,
                                                .changeovers = 40,
                                                .changeover_mean = 0.0006};
    result.nodes[0] = (struct result_node){.name = "n1", .requests = 8000, .granted = 4000, .cpu_share = 0.1};
    result.nodes[1] = (struct result_node){.name = "queue", .is_queue_node = true, .cpu_share = 0.2};
    result.node_count = 2;
    return 0;
}

static bool is_advised(const char *part)
{
    for (unsigned i = 0; i < result.advice_count; i++)
        if (strstr(result.advice[i], part) != NULL)
            return true;
    return false;
}

/* The answer and the advice say it, or do not. */
static bool is_said(const char *part)
{
    return strstr(result.answer, part) != NULL || is_advised(part);
}

/* So much comes for the first resource, and so much of it is served. */
static void load_first(double load, double served)
{
    resources[0].load = load;
    resources[0].throughput = served;
    resources[0].share_held = served * 0.005;
    result.throughput = 180 + served;
    result.overheads.arrivals = 180 + load;
}

static void judge(void)
{
    result.expected = (struct result_expected){0};
    expectation_fill(&result);
    verdict_make(&result);
}

TEST(a_calm_run_has_room_and_fewer_threads_would_do)
{
    host.cpu_share = 0.1;
    host.machine_busy = 0.1;
    result.nodes[1].cpu_share = 0.05;
    resources[3].load = resources[3].throughput = 50;
    resources[3].share_held = 0.25;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_contains(result.answer, "There is room");
    assert_contains(result.answer, "r3");
    assert_true(fabs(result.headroom - 1 / 0.28) < 0.01);
    assert_true(is_advised("Fewer threads would do"));
    assert_true(is_advised("with 4 the model expects")); /* 2 would be taken for more than half of the time */
    assert_false(is_advised("Twice as many threads") || is_advised("More threads"));
    assert_false(is_said("bottleneck") || is_said("overloaded") || is_said("keep up") || is_said("lost"));
    assert_false(is_said("Two handlers") || is_said("processor") || is_said("Nothing is full"));
}

TEST(a_resource_that_is_held_nearly_all_the_time_is_the_bottleneck)
{
    load_first(165, 165);
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_contains(result.answer, "bottleneck is the resource r0");
    assert_contains(result.answer, "82 %"); /* held; with changeovers 92 % */
    assert_true(fabs(result.headroom - 1 / (165 * 0.0056)) < 0.01);
    assert_true(is_advised("More threads would not help"));
    assert_true(is_advised("a fifth shorter"));
    assert_true(is_advised("If r0 were two resources"));
    assert_false(is_said("overloaded") || is_said("others, nearly"));
    load_first(140, 140); /* 78 % */
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_false(is_said("bottleneck") || is_said("More threads would not help"));
}

TEST(a_resource_that_gets_more_than_it_can_serve_is_overloaded)
{
    load_first(250, 178);
    resources[1].load = resources[1].throughput = 170;
    resources[1].share_held = 0.85;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_contains(result.answer, "overloaded");
    assert_contains(result.answer, "250");
    assert_contains(result.answer, "179"); /* 1 / 5.6 ms */
    assert_contains(result.answer, "1 other");
    assert_true(result.headroom < 0.75 && result.headroom > 0.7);
    assert_true(result.expected.is_known && result.expected.wait < 0);
    assert_true(is_advised("still grows")); /* a fifth shorter is not enough */
    assert_true(is_advised("Fewer threads would do"));
    assert_true(is_advised("with 4 the model expects"));
    resources[2].load = resources[2].throughput = 130;
    resources[2].share_held = 0.65;
    result.overheads.arrivals += 110;
    judge();
    assert_true(is_advised("with 8 the model expects")); /* 4 would do as much, and be taken nearly all the time */
}

TEST(where_hardly_a_task_waits_for_another_nothing_is_to_be_shortened_or_divided)
{
    result.overheads.arrivals = result.throughput = 20;
    for (unsigned i = 0; i < RESOURCES; i++) {
        resources[i].load = resources[i].throughput = 2;
        resources[i].share_held = 0.01;
    }
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_true(result.expected.is_known);
    assert_false(is_advised("a fifth shorter") || is_advised("were two resources"));
}

TEST(threads_that_are_all_taken_are_the_bottleneck)
{
    host.processes = 1;
    host.threads = 1;
    host.cpu_share = 0.2;
    result.utilisation = 0.97;
    result.throughput = 160;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RUNNERS);
    assert_contains(result.answer, "number of threads");
    assert_contains(result.answer, "the queue grows");
    assert_true(result.headroom < 0.9);
    assert_true(is_advised("Twice as many threads (2)"));
    assert_false(is_advised("Fewer threads"));
    result.utilisation = 0.8;
    result.throughput = 195;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_false(is_said("number of threads"));
    assert_true(is_advised("Twice as many threads (2)")); /* more than hardly used */
}

TEST(threads_of_a_closed_loop_are_full_and_not_overloaded)
{
    result.plan.arrivals = DRY_RUN_CLOSED;
    result.plan.population = 40;
    result.utilisation = 0.99;
    result.throughput = 190; /* less than came, by chance */
    judge();
    assert_int_equal(result.bottleneck, RESULT_RUNNERS);
    assert_lacks(result.answer, "grows");
    assert_true(result.headroom > 0.99 && result.headroom < 1.05);
    assert_true(result.expected.is_known);
}

TEST(a_loop_that_fills_nothing_is_too_small_and_says_so)
{
    result.plan.arrivals = DRY_RUN_CLOSED;
    result.plan.population = 2;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_contains(result.answer, "Nothing is full, for so few tasks at a time");
    assert_true(result.headroom > 1);
}

TEST(a_node_or_a_process_or_the_machine_that_is_full_is_named)
{
    result.nodes[1].cpu_share = 0.96;
    judge();
    assert_int_equal(result.bottleneck, RESULT_QUEUE_NODE);
    assert_contains(result.answer, "queue node queue");
    assert_true(is_advised("faster processor"));
    assert_false(is_said("lock node") || is_said("worker process"));
    result.nodes[0].cpu_share = 0.98;
    judge();
    assert_int_equal(result.bottleneck, RESULT_LOCK_NODES);
    assert_contains(result.answer, "n1");
    assert_true(is_advised("faster processors for them"));
    assert_false(is_said("queue node"));
    host.cpu_share = 1.99; /* of two processes */
    judge();
    assert_int_equal(result.bottleneck, RESULT_WORKER_CPU);
    assert_true(is_advised("One more worker process"));
    assert_false(is_said("lock node"));
    host.cpu_share = 1.6;
    result.nodes[0].cpu_share = result.nodes[1].cpu_share = 0.84;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_false(is_said("faster processor") || is_said("One more worker process"));
}

TEST(a_machine_that_the_run_fills_is_the_bottleneck)
{
    host.cpu_share = 1.6; /* of two processes */
    host.processors = 2;
    host.machine_busy = 0.99;
    judge();
    assert_int_equal(result.bottleneck, RESULT_MACHINE);
    assert_contains(result.answer, "2 processors busy 99.0 %");
    assert_true(is_advised("a run of several hosts (--name and --hosts)"));
    assert_false(is_advised("what this run started"));
    host.cpu_share = 1.2;
    result.plan.is_local = true; /* then its nodes are on the machine, too: 0.3 */
    judge();
    assert_int_equal(result.bottleneck, RESULT_MACHINE);
    assert_true(is_advised("nodes on machines of their own, in which"));
    assert_false(is_advised("--name"));
}

TEST(a_machine_that_others_fill_is_not_the_bottleneck)
{
    host.machine_busy = 1; /* of 4 processors the run takes 0.4 */
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_lacks(result.answer, "machine");
    assert_lacks(result.answer, "There is room");
    assert_contains(result.answer, "Nothing is full: the fullest is");
    assert_true(result.headroom == 0);
    assert_true(is_advised("4 processors of this machine were busy 100 % of the time, and what this run started took "
                           "10 % of them"));
    assert_int_equal(result_tone(&result), RESULT_FAIR);
    host.machine_busy = 0.9;
    judge();
    assert_contains(result.answer, "There is room");
    assert_false(is_advised("what this run started"));
    assert_int_equal(result_tone(&result), RESULT_GOOD);
    host.machine_busy = -1; /* not known */
    judge();
    assert_contains(result.answer, "There is room");
}

TEST(a_full_resource_is_named_whatever_else_is_full)
{
    load_first(175, 175); /* 98 % */
    host.machine_busy = 1;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_true(is_advised("4 processors of this machine were busy")); /* by others */
    host.cpu_share = 3.6;
    host.processes = 8;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_false(is_advised("of this machine were busy")); /* by the run */
}

TEST(a_load_that_was_not_pushed_in_time_is_no_measure)
{
    host.load_behind = 0.4;
    judge();
    assert_int_equal(result.bottleneck, RESULT_LOAD);
    assert_contains(result.answer, "did not keep up");
    assert_contains(result.answer, "40 % of the pushes came late");
    assert_true(result.headroom == 0);
    assert_true(is_advised("smaller --rate"));
    assert_false(is_advised("model"));
    host.load_behind = 0;
    result.overhead_share = 0.97;
    judge();
    assert_int_equal(result.bottleneck, RESULT_LOAD);
    assert_contains(result.answer, "it used 97 % of one processor");
    assert_lacks(result.answer, "late");
    result.overhead_share = 0.9;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_false(is_said("keep up") || is_said("--rate"));
}

/* --- faults, and what the model does not know --------------------------------------------------------------------- */

static void fault_add(const char *text, bool was_done)
{
    struct result_fault *fault = &result.faults[result.fault_count++];
    *fault = (struct result_fault){.was_done = was_done, .at = 6};
    snprintf(fault->text, sizeof fault->text, "%s", text);
    result.plan.fault_count = result.fault_count;
}

/* Its worker 1 was frozen from the sixth second on. */
TEST(a_run_with_faults_tells_of_them_and_not_of_the_load)
{
    result.wait.mean = 0.226;
    result.wait.p99 = 5.1;
    fault_add("worker process 1 was stopped for 4.0 s: and more of it", true);
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_contains(result.answer, "With its fault (worker process 1 was stopped for 4.0 s) tasks waited 226 ms on "
                                   "average, and one of a hundred 5.10 s or longer, where the model, which knows of no "
                                   "fault, expects 1.");
    assert_true(result.headroom == 0);
    assert_false(is_said("There is room") || is_said("Fewer threads"));
    assert_int_equal(result_tone(&result), RESULT_FAIR);
    fault_add("queue was stopped for 4.0 s", true);
    fault_add("the run ended before its time had come", false);
    load_first(250, 178); /* it says nothing of what looks full either */
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_contains(result.answer, "faults (worker process 1 was stopped for 4.0 s, and 1 more)");
    assert_contains(result.answer, "expects a wait that grows");
    result.wait.count = 99; /* too few for the model */
    judge();
    assert_contains(result.answer, "one of a hundred 5.10 s or longer. How much room there is");
    result.wait.count = result.hold.count = result.done = 0;
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_contains(result.answer, "no task got a lock while it was measured");
    assert_int_equal(result_tone(&result), RESULT_FAIR);
}

TEST(faults_that_were_not_done_change_nothing)
{
    fault_add("the run ended before its time had come", false);
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_contains(result.answer, "There is room");
    assert_lacks(result.answer, "fault");
}

TEST(holds_that_a_fault_made_longer_are_none_of_the_model)
{
    resources[0].hold_mean = 0.05; /* 20 s of them by one that stood still */
    judge();
    assert_true(resources[0].expected.wait < 0); /* it would grow */
    fault_add("worker process 1 was stopped for 20.0 s", true);
    judge();
    assert_true(resources[0].expected.wait > 0 && resources[0].expected.wait < 0.01);
}

TEST(a_wait_that_the_model_does_not_know_is_told_first)
{
    result.wait.mean = 0.226;
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_int_equal(strncmp(result.answer, "Tasks waited 226 ms on average, where the model expects 1.", 58), 0);
    assert_contains(result.answer, "something that it does not know held them up");
    assert_true(result.headroom == 0);
    assert_false(is_said("There is room") || is_said("Fewer threads"));
    assert_int_equal(result_tone(&result), RESULT_FAIR);
    host.machine_busy = 1;
    judge();
    assert_true(is_advised("what this run started"));
    host.load_behind = 0.4;
    judge();
    assert_int_equal(result.bottleneck, RESULT_LOAD);
    assert_int_equal(strncmp(result.answer, "Tasks waited 226 ms on average", 30), 0);
    assert_contains(result.answer, "did not keep up");
    assert_lacks(result.answer, "held them up");
}

TEST(a_wait_near_the_expected_one_is_no_gap)
{
    judge();
    double expected = result.expected.wait;
    result.wait.mean = expected + 0.0049; /* more than twice as long, and hardly longer */
    assert_true(result.wait.mean > 2 * expected);
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    result.wait.mean = expected + 0.0051;
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    result.overheads.base = (struct moments){1000, 1000 * 0.0212, 1000 * 4.5e-4}; /* then it is less than twice */
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
}

TEST(of_what_is_nearly_full_a_long_wait_may_be_chance)
{
    load_first(165, 165);
    judge();
    assert_true(result.expected.wait > 0);
    result.wait.mean = 3 * result.expected.wait + 0.01;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_int_equal(strncmp(result.answer, "The bottleneck", 14), 0);
    assert_true(is_advised("model"));
    result.wait.mean_error = result.wait.mean / 2;
    judge();
    assert_int_equal(strncmp(result.answer, "The bottleneck", 14), 0);
    result.wait.mean_error = result.wait.mean / 100;
    judge();
    assert_int_equal(result.bottleneck, RESULT_RESOURCE);
    assert_int_equal(strncmp(result.answer, "Tasks waited ", 13), 0);
    assert_contains(result.answer, ". The bottleneck is the resource r0");
    assert_lacks(result.answer, "held them up");
    assert_false(is_advised("model"));
}

/* --- too little --------------------------------------------------------------------------------------------------- */

TEST(too_few_tasks_tell_nothing)
{
    result.wait.count = 99;
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_contains(result.answer, "Too little to judge by: 99 tasks got a lock in 20.0 s");
    assert_contains(result.answer, "or push more");
    result.plan.kind = DRY_RUN_SHADOW;
    judge();
    assert_contains(result.answer, "a shadow sees only tasks that are there when it looks");
    assert_lacks(result.answer, "push more");
    assert_int_equal(result.advice_count, 0);
    assert_true(result.headroom == 0);
    assert_false(result.expected.is_known);
    assert_int_equal(result_tone(&result), RESULT_FAIR);
    result.wait.count = 100;
    result.measured_for = 0.9;
    judge();
    assert_contains(result.answer, "Too little to judge by");
    result.measured_for = 1;
    judge();
    assert_lacks(result.answer, "Too little");
}

TEST(a_run_in_which_nothing_ran_is_trouble)
{
    result.wait.count = result.hold.count = 0;
    result.done = 0;
    judge();
    assert_int_equal(result.bottleneck, RESULT_TROUBLE);
    assert_contains(result.answer, "no handler returned");
    result.nodes[0].granted = 0;
    result.nodes[0].errors = 12;
    judge();
    assert_int_equal(result.bottleneck, RESULT_TROUBLE);
    assert_contains(result.answer, "no lock node granted");
    assert_int_equal(result.advice_count, 0);
    result.ended = result.dead = 4000; /* no lock node was asked */
    judge();
    assert_int_equal(result.bottleneck, RESULT_TROUBLE);
    assert_contains(result.answer, "all 4,000 tasks that ended were buried");
    assert_lacks(result.answer, "lock node");
    result.done = 50; /* while it warmed up */
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    result.done = 0;
    result.hold.count = 1;
    judge();
    assert_int_equal(result.bottleneck, RESULT_UNKNOWN);
    assert_lacks(result.answer, "Nothing ran");
}

TEST(overlaps_and_lost_locks_are_spoken_of)
{
    judge();
    assert_false(is_advised("lost") || is_advised("Two handlers"));
    result.lost = 3;
    judge();
    assert_true(is_advised("3 locks were lost"));
    result.overlaps = 1;
    judge();
    assert_true(is_advised("1 time,") || is_advised("1 time "));
    assert_true(is_advised("which would have told"));
    result.overlaps_unfenced = 1;
    judge();
    assert_true(is_advised("not all had tokens"));
}

TEST(names_of_resources_cannot_colour_a_terminal)
{
    load_first(165, 165);
    char name[] = "evil\033[31m";
    resources[0].name = name;
    judge();
    assert_contains(result.answer, "evil");
    assert_true(strchr(result.answer, '\033') == NULL);
    for (unsigned i = 0; i < result.advice_count; i++)
        assert_true(strchr(result.advice[i], '\033') == NULL);
}

TEST(what_the_model_cannot_know_it_does_not_say)
{
    result.plan.arrivals = DRY_RUN_CLOSED;
    result.plan.population = 40;
    result.overheads.tries = 1.2; /* tasks fail, and are away for a time that no formula knows */
    judge();
    assert_false(result.expected.is_known);
    assert_false(is_advised("model"));
    assert_contains(result.formula, "mean value analysis");
}

/* Each of the 10 resources gets 60 of the 200 tasks a second, as each task takes three. */
TEST(a_shadow_whose_tasks_take_three_resources_is_judged)
{
    result.plan.kind = DRY_RUN_SHADOW;
    result.overheads.together = 3;
    for (unsigned i = 0; i < RESOURCES; i++)
        resources[i].load = resources[i].throughput = 60;
    judge();
    assert_int_equal(result.bottleneck, RESULT_NONE);
    assert_true(fabs(result.expected.throughput - 200) < 1e-6);
    assert_contains(result.formula, "several resources a task");
    result.overheads.together = 1;
    judge();
    assert_true(fabs(result.expected.throughput - 600) < 1e-6);
    assert_lacks(result.formula, "several resources a task");
}

TEST(changes_go_where_they_should)
{
    load_first(150, 150);
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    struct result_expected now = expectation_of(&result, &change);
    change.holds = 0.5;
    assert_true(expectation_of(&result, &change).wait < now.wait / 3);
    change = EXPECTATION_AS_IT_WAS;
    change.spread = 3;
    struct result_expected spread = expectation_of(&result, &change);
    assert_true(spread.wait < now.wait / 2);
    assert_true(fabs(spread.throughput - now.throughput) < 1e-6);
    change = EXPECTATION_AS_IT_WAS;
    change.runners = 0.125;
    assert_true(expectation_of(&result, &change).utilisation > 0.8);
}

RUN_TESTS_WITH(setup, NULL)
