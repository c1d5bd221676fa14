/* What the statistics sums up: what processes and nodes say of themselves, the lines of the series, the display, more
 * resources than it tells apart; and that the model stands beside what was measured. */
#include "worker/dry_run/count/stats_private.h"

#include "tests/unit/stats_fixture.h"

/* --- processes and nodes ------------------------------------------------------------------------------------------ */

static void process_tells(unsigned process, double ms, int64_t cpu_ms, uint64_t requests, unsigned extensions)
{
    static struct redlock_node_counters node;
    memset(&node, 0, sizeof node);
    node.requests = requests;
    node.granted = requests / 2;
    for (uint64_t i = 0; i < requests; i++)
        histogram_record(&node.latency, 200);
    const struct redlock_node_counters *nodes[] = {&node, &node, &node};
    static struct histogram rounds;
    memset(&rounds, 0, sizeof rounds);
    for (unsigned i = 0; i < extensions; i++)
        histogram_record(&rounds, 900);
    struct record record = {.kind = RECORD_PROCESS,
                            .process = {.at = at(ms),
                                        .runners = 4,
                                        .busy = 2,
                                        .cpu_ns = cpu_ms * NS_PER_MS,
                                        .extensions = &rounds,
                                        .nodes = nodes,
                                        .node_count = 3}};
    stats_record(stats, process, &record);
}

TEST(what_processes_say_is_added_up_over_their_lives)
{
    push("a", "r0", 100);
    done("a", "r0", 101, 102, 103);
    process_tells(0, 500, 100, 10, 1);
    process_tells(1, 500, 100, 20, 2);
    process_tells(0, 1000, 200, 30, 3);
    process_tells(1, 1000, 300, 40, 4);
    stats_process_died(stats, 1, at(1200));
    process_tells(1, 1500, 50, 5, 1); /* another one, of the same number */
    process_tells(0, 1500, 300, 50, 3);
    finish(2000, 2000);
    assert_int_equal(result.node_count, 3);
    assert_int_equal(result.nodes[2].requests, 50 + 40 + 5);
    assert_int_equal(result.nodes[2].commands_sent, 95);
    assert_int_equal(result.nodes[0].granted, 25 + 20 + 2);
    assert_near(result.nodes[0].latency.mean, 200e-6, 1e-6);
    assert_int_equal(result.nodes[0].latency.count, (50 - 10) + (40 - 20));
    assert_int_equal(result.extend.count, (3 - 1) + (4 - 2));
    assert_int_equal(result.host_count, 1);
    /* 400 ms of processor in 1.5 s of processes: a share of each, and there are two */
    assert_near(result.hosts[0].cpu_share, 0.4 / 1.5 * 2, 1e-6);
    assert_near(result.commands_per_hold, 95, 1e-6);
}

TEST(nodes_count_for_themselves_even_when_they_are_started_anew)
{
    struct stats_node_sample sample = {
        .name = "n1", .address = "127.0.0.1:1", .at = at(0), .commands = 1000, .cpu_s = 5};
    stats_node(stats, 0, &sample);
    sample = (struct stats_node_sample){.name = "n1", .at = at(1000), .commands = 3000, .cpu_s = 5.4};
    stats_node(stats, 0, &sample);
    sample = (struct stats_node_sample){.name = "n1", .at = at(2000), .commands = 500, .cpu_s = 0.2};
    stats_node(stats, 0, &sample);
    stats_node(stats, 3, &(struct stats_node_sample){.name = "queue", .is_queue_node = true, .at = at(0)});
    finish(2000, 2000);
    assert_int_equal(result.node_count, 2);
    assert_string_equal(result.nodes[0].name, "n1");
    assert_int_equal(result.nodes[0].commands_counted, 2000 + 500);
    assert_near(result.nodes[0].cpu_share, 0.6 / 2, 1e-6);
    assert_true(result.nodes[1].is_queue_node);
}

/* --- as it goes --------------------------------------------------------------------------------------------------- */

TEST(the_series_has_a_line_a_second)
{
    push("a", "r0", 100);
    push("b", "r0", 200);
    done("a", "r0", 101, 110, 500);
    process_tells(0, 900, 10, 1, 1);
    stats_second(stats, at(1000));
    stays((struct stay){"b", "r0", FLOW_DONE, .claimed = 201, .asked = 201, .locked = 501, .left = 1600,
                        .handed_over = true});
    stats_second(stats, at(3000));
    stats_second(stats, at(3000)); /* no time has gone by */
    finish(3000, 3000);
    assert_int_equal(result.second_count, 2);
    const struct result_second *one = &result.seconds[0], *two = &result.seconds[1];
    assert_near(one->at, 1, 0);
    assert_near(one->pushed, 2, 0);
    assert_near(one->ended, 1, 0);
    assert_near(one->waiting, 1, 0);
    assert_near(one->busy, (0.399 + 0.499) / 8, ROUNDED); /* of 8 runners: "a", and "b" from its predecessor's end */
    assert_near(one->wait_p99, 0.010, ROUNDED);
    assert_near(one->extend_p99, 0.0009, ROUNDED);
    assert_near(two->at, 3, 0);
    assert_near(two->ended, 0.5, 0);
    assert_near(two->handed_over, 0.5, 0);
    assert_near(two->hold_p50, 1.099, ROUNDED);
    assert_near(two->wait_p50, 0.301, ROUNDED);
    assert_near(two->busy, 0.6 / 2 / 8, ROUNDED);
}

/* Also what was not seen to end: its process died, or the run did. */
TEST(runners_are_busy_for_as_long_as_they_are_taken)
{
    for (const char *const *jid = (const char *const[]){"a", "b", "c", NULL}; *jid != NULL; jid++)
        push(*jid, *jid, 100);
    event(RECORD_ENTER, "a", "a", 1, 0, 500);
    event(RECORD_ENTER, "b", "b", 2, 1, 500);
    for (int second = 1; second <= 4; second++) {
        stats_second(stats, at(second * 1000));
        if (second == 2)
            stats_process_died(stats, 1, at(2000));
    }
    stays((struct stay){"c", "c", FLOW_DONE, .claimed = 1800, .asked = 1800, .locked = 1900, .left = 2200});
    finish(4000, 4000);
    static const double taken[] = {0.5 + 0.5, 1 + 1 + 0.2, 1 + 0.2, 1};
    for (size_t i = 0; i < 4; i++)
        assert_near(result.seconds[i].busy, taken[i] / 8, 1e-6);
    assert_near(result.utilisation, (1 + 2.2 + 1.2 + 1) / 8 / 4, 1e-6);
}

TEST(the_display_shows_who_waits_for_what)
{
    struct stats_live live;
    for (unsigned i = 0; i < 20; i++) {
        char jid[8], name[8];
        snprintf(jid, sizeof jid, "j%u", i);
        snprintf(name, sizeof name, "r%u", i < 5 ? 0 : i);
        push(jid, name, 10);
    }
    event(RECORD_ENTER, "j0", "r0", 1, 0, 20);
    stats_live(stats, at(1000), &live);
    assert_int_equal(live.pushed, 20);
    assert_int_equal(live.outstanding, 20);
    assert_int_equal(live.runners, 8);
    assert_int_equal(live.hot_count, STATS_HOT_MAX);
    assert_string_equal(live.hot[0].name, "r0");
    assert_int_equal(live.hot[0].waiters, 4); /* one is inside */
    assert_int_equal(live.hot[1].waiters, 1);
    done("j0", "r0", 11, 12, 500);
    stats_live(stats, at(1000), &live);
    assert_int_equal(live.ended, 1);
    assert_near(live.hot[0].share_held, 0.488, 1e-6);
    finish(1000, 1000);
}

TEST(many_tasks_and_resources_are_told_apart)
{
    enum { TASKS = 6000, RESOURCES = 3000 };
    char jid[16], name[16];
    for (unsigned i = 0; i < TASKS; i++) {
        snprintf(jid, sizeof jid, "%u", i);
        snprintf(name, sizeof name, "r%u", i % RESOURCES);
        push(jid, name, 10);
    }
    assert_int_equal(stats_outstanding(stats), TASKS);
    for (unsigned i = 0; i < TASKS; i++) {
        snprintf(jid, sizeof jid, "%u", i * 7 % TASKS); /* in another order */
        snprintf(name, sizeof name, "r%u", i * 7 % TASKS % RESOURCES);
        assert_true(done(jid, name, 11, 12, 13));
    }
    finish(1000, 1000);
    assert_int_equal(result.ended, TASKS);
    assert_int_equal(result.twice, 0);
    assert_true(result.is_drained);
    assert_int_equal(result.resource_count + result.resources_left_out, RESOURCES);
    for (size_t i = 0; i < result.resource_count; i++)
        assert_int_equal(result.resources[i].held, 2);
}

/* The table of a million ends by the same rule, which a smaller one shows sooner. */
TEST(more_resources_than_are_told_apart_take_bounded_memory_and_the_greatest_are_reported)
{
    enum { TOLD_APART = 30000, GREATEST = 17777 };
    plan.popularity.count = DRY_RUN_RESOURCES_MAX;
    stats_destroy(stats);
    begin(0);
    assert_int_equal(stats->resources.limit, DRY_RUN_RESOURCES_MAX);
    stats->resources.limit = TOLD_APART;
    for (unsigned i = 0; i < TOLD_APART + 10; i++) {
        char jid[16], name[16];
        snprintf(jid, sizeof jid, "%u", i);
        snprintf(name, sizeof name, "r%u", i);
        unsigned times = i == GREATEST ? 40 : 1;
        for (unsigned j = 0; j < times; j++) {
            push(jid, name, i / 1000.0);
            done(jid, name, i / 1000.0, i / 1000.0 + 1, i / 1000.0 + 2);
        }
    }
    finish(2000, 2000);
    assert_int_equal(result.resource_count, RESULT_RESOURCES_MAX);
    assert_int_equal(result.resources_left_out, TOLD_APART - RESULT_RESOURCES_MAX);
    assert_int_equal(stats->resources.count, TOLD_APART);
    assert_string_equal(result.resources[0].name, "r17777");
    assert_int_equal(result.resources[0].arrived, 40);
    assert_near(result.resources[0].wait_p50, 0.001, ROUNDED);
    assert_int_equal(result.ended, TOLD_APART + 10 + 39);
}

/* --- beside the model --------------------------------------------------------------------------------------------- */

static uint64_t chance;

static double uniform(void)
{
    chance += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = (chance ^ (chance >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

/* A resource with a base latency of 1 ms and a changeover of 0.5 ms, at which tasks come by chance. */
struct played {
    const char *name;
    double rate, now, left;
    unsigned tasks;
};

/* In slices of a second: records of different resources are told nearly in order. */
static void play_until(struct played *resource, double end)
{
    while (resource->now < end) {
        char jid[32];
        double now = resource->now, before = resource->left;
        bool waits = now < before;
        double locked = waits ? before + 0.5 : now + 1;
        double left = locked + 0.2 + distribution_at(&plan.hold, uniform()) * 1e3;
        snprintf(jid, sizeof jid, "%s-%u", resource->name, resource->tasks++);
        push(jid, resource->name, now);
        stays((struct stay){jid, resource->name, FLOW_DONE, .claimed = waits ? locked - 0.1 : now + 0.4,
                            .asked = waits ? now + 0.4 : now + 0.5, .locked = locked, .left = left,
                            .handed_over = waits});
        resource->left = left;
        resource->now -= log1p(-uniform()) / resource->rate * 1e3;
    }
}

TEST(the_model_stands_beside_what_was_measured)
{
    plan.hold = (struct distribution){.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005};
    plan.threads = 400;
    stats_destroy(stats);
    begin(0);
    chance = 3;
    struct played played[] = {{.name = "r0", .rate = 150}, {.name = "r1", .rate = 90}, {.name = "r2", .rate = 5}};
    const double end = 400e3;
    for (double ms = 1000; ms <= end; ms += 1000)
        for (unsigned i = 0; i < 3; i++)
            play_until(&played[i], ms);
    finish(end, end);
    static const double full[] = {0.855, 0.513, 0.0285};
    for (unsigned i = 0; i < 3; i++) {
        const struct result_resource *resource = &result.resources[i];
        assert_true(resource->expected.is_known);
        assert_near(resource->expected.wait, resource->wait_mean, i == 0 ? 0.1 : 0.05);
        assert_near(resource->expected.throughput, resource->throughput, 0.02);
        assert_near(resource->expected.utilisation, full[i], 0.03);
    }
    assert_true(result.expected.is_known);
    assert_near(result.expected.wait, result.wait.mean, 0.1);
    assert_contains(result.formula, "Pollaczek");
    const struct result_resource *r0 = &result.resources[0];
    assert_true(r0->wait_error > 0 && r0->wait_error < r0->wait_mean / 3);
    assert_true(fabs(r0->wait_mean - r0->expected.wait) < 2 * r0->wait_error);
}

static void crash(unsigned process, const char *class_name, int signal, bool hangs)
{
    const struct record record = {.kind = RECORD_CRASH,
                                  .crash = {.at = at(10), .class_name = class_name, .signal = signal, .hangs = hangs}};
    stats_record(stats, process, &record);
}

TEST(checks_that_crash_are_told_by_class)
{
    crash(0, "transfer", SIGSEGV, false);
    crash(1, "render", SIGKILL, true);
    crash(1, "transfer", SIGSEGV, false);
    crash(0, "mail", 0, false);
    finish(1000, 1000);
    assert_string_equal(result.crashed_checks, "transfer (SIGSEGV) for 2 tasks, render (it hangs) for 1 task, mail (it "
                                               "ended its process) for 1 task");
    assert_int_equal(result_tone(&result), RESULT_BAD);
}

TEST(more_classes_than_there_is_room_for_are_counted)
{
    char name[] = "class-a";
    for (unsigned i = 0; i < 20; i++, name[6]++)
        crash(0, name, SIGABRT, false);
    finish(1000, 1000);
    assert_contains(result.crashed_checks, "class-p (SIGABRT) for 1 task, and more classes for 4");
}

RUN_TESTS_BETWEEN(setup, teardown)
