/* A worker as a whole: what it tells operators, dashboards and observers, how it ends, and when. */
#include "tests/sim/worker_fixture.h"

#include <sys/mman.h>

/* --- whether it may lock ------------------------------------------------------------------------------------------ */

TEST(lock_nodes_that_are_no_group_end_it)
{
    static const struct {
        unsigned blank;
        bool ends;
    } cases[] = {{1, false}, {2, true}, {3, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene_make(&(struct setting){.threads = 1});
        for (unsigned n = 0; n < cases[i].blank; n++)
            ask(scene.nodes[n], "FLUSHALL");
        worker_start();
        run_for(10 * NS_PER_S);
        assert_int_equal(told_times("lock_group_missing nodes=3 blank="), i);
        assert_int_equal(scene.process->is_alive, !cases[i].ends);
    }
    assert_int_equal(scene.exit_code, EXIT_CODE_FAILURE);
    assert_int_equal(told_times("worker_stopping reason=lock_group_missing busy=0"), 2);
}

TEST(a_ttl_above_that_of_the_group_ends_it)
{
    work(&(struct setting){.ttl_ms = MAX_TTL_MS});
    assert_int_equal(told_times("lock_ttl_too_long"), 0);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    work(&(struct setting){.ttl_ms = MAX_TTL_MS + 1});
    assert_told("lock_ttl_too_long ttl_ms=5001 max_ttl_ms=5000 ");
    assert_ends(EXIT_CODE_FAILURE, instant_after(world_time(), -NS_PER_S), 100);
}

TEST(without_a_majority_nothing_is_claimed)
{
    work(&(struct setting){.threads = 1});
    node_stop(scene.nodes[0], false);
    run_for(NS_PER_S);
    push("first", "act", "[10]", ",\"resource\":\"r\"");
    await_told("handler ends first");
    assert_int_equal(told_times("lock_quorum_missing"), 0);
    node_stop(scene.nodes[1], false);
    await_told("lock_quorum_missing nodes=3 nodes_up=1 voters=1 ");
    push("second", "act", "[10]", ",\"resource\":\"r\"");
    run_for(60 * NS_PER_S);
    assert_queue("*1|$7|second |");
    node_start(scene.nodes[0], SERVER_KEEPS);
    await_told("handler ends second");
    assert_told("lock_quorum_missing");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

TEST(a_worker_without_lock_nodes_claims_at_once)
{
    scene_make(&(struct setting){.has_no_locks = true, .classes = "{ class = \"act\"; lock = \"none\"; }"});
    push("one", "act", "[10]", ",\"resource\":\"r\"");
    worker_start();
    run_for(500 * NS_PER_MS);
    assert_told("lock_nodes=0 ", "handler ends one", "try 0 at seat 0 of nothing for 9223372036854775800 ms\n");
    assert_ends(EXIT_CODE_OK, stop(), 0);
}

/* --- that it turns ------------------------------------------------------------------------------------------------ */

TEST(a_worker_that_has_nothing_to_do_ends_at_once)
{
    work(&(struct setting){.threads = 3});
    assert_told("worker_started identity=host:");
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_told("worker_stopping reason=SIGTERM busy=0");
    assert_string_equal(ask(scene.queue, "DBSIZE"), ":0|");
}

/* The supervisor, by the run table: it starts the next process when this one is up, and kills one whose loop hangs. */
TEST(a_supervisor_sees_that_it_turns)
{
    scene_make(&(struct setting){.process = 1});
    for (unsigned i = 0; i < NODES; i++)
        node_pause(scene.nodes[i]);
    worker_start();
    while (scene.run_table == NULL || !atomic_load(&scene.run_table->is_up))
        run_for(NS_PER_US);
    assert_int_equal(atomic_load(&scene.run_table->heartbeats), 2); /* it is up, and has turned */
    run_for(2 * NS_PER_S);
    assert_false(atomic_load(&scene.run_table->has_asked));
    for (unsigned i = 0; i < NODES; i++)
        node_resume(scene.nodes[i]);
    run_for(3 * NS_PER_S);
    assert_true(atomic_load(&scene.run_table->has_asked));
    assert_in_range(atomic_load(&scene.run_table->heartbeats), 9, 11);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_int_equal(atomic_load(&scene.run_table->heartbeats), 0);
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

static const struct setting stopping = {.threads = 2, .worker = "stop_timeout = \"3s\";"};

TEST(what_runs_may_end_before_the_worker_does)
{
    work(&stopping);
    push("one", "act", "[2000]", "");
    push("two", "act", "[10]", "");
    await_told("handler begins one");
    await_told("handler ends two");
    struct instant told = stop();
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_OK, told, 2000);
    assert_queue("*1|$5|next |");
}

TEST(what_takes_longer_is_cancelled_and_given_back)
{
    work(&stopping);
    push("one", "act", "[60000]", ",\"resource\":\"r\"");
    push("two", "act", "[60000]", "");
    push("next", "act", "[10]", "");
    await_told("handler begins two");
    assert_ends(EXIT_CODE_OK, stop(), 3000);
    assert_told("handlers_cancelled count=2 waiting_for_queue_node=0", "handler stops one: reason 2");
    assert_queue("*1|$13|one two next |");
    assert_string_equal(ask(scene.nodes[0], "EXISTS r"), ":0|");
}

TEST(what_does_not_listen_is_abandoned)
{
    work(&stopping);
    push("one", "act", "[60000,\"deaf\"]", ",\"resource\":\"r\"");
    await_told("handler begins one");
    struct instant told = stop();
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_FAILURE, told, 5000);
    await_told("handlers_abandoned count=1 ");
    await_told("handler_abandoned slot=1 jid=one class=act queue=jobs seconds=5.0\n");
    assert_queue("*1|$9|one next |");
    for (unsigned i = 0; i < NODES; i++)
        assert_string_equal(ask(scene.nodes[i], "EXISTS r"), ":1|");
}

TEST(a_second_signal_stops_now)
{
    work(&stopping);
    push("one", "act", "[60000,\"deaf\"]", "");
    push("two", "act", "[60000]", "");
    await_told("handler begins two");
    (void)stop();
    run_for(NS_PER_S);
    assert_int_equal(told_times("handler stops two"), 0);
    assert_ends(EXIT_CODE_FAILURE, stop(), 200);
    assert_told("worker_stopping_now reason=SIGTERM busy=2");
    assert_queue("*1|$8|one two |");
}

/* The end of a run in a process will not be reported, so nobody waits for it, and its lock expires. */
TEST(a_worker_whose_zygote_died_ends)
{
    static const struct {
        const char *class_name, *args, *told, *left;
        int64_t ms;
    } cases[] = {{"act", "[8000]", "worker_stopping reason=zygote_lost busy=1", "*1|$0||", 7700},
                 {"runner", "[]", "worker_stopping_now reason=zygote_lost busy=1", "*1|$4|one |", 200}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work(&(struct setting){.worker = "stop_timeout = \"1h\";"});
        push("one", cases[i].class_name, cases[i].args, ",\"resource\":\"r\"");
        run_for(300 * NS_PER_MS);
        fleet_zygote_die(scene.zygote);
        assert_ends(EXIT_CODE_FAILURE, world_time(), cases[i].ms);
        assert_told(cases[i].told);
        assert_int_equal(told_times("zygote_lost advice="), i + 1);
        assert_queue(cases[i].left);
        assert_string_equal(ask(scene.nodes[0], "EXISTS r"), i == 0 ? ":0|" : ":1|");
    }
}

TEST(a_queue_node_that_is_gone_delays_the_end_by_so_much)
{
    static const struct {
        bool runs;
        int64_t hurries_ms, ms; /* how long after the first signal the second one comes; -1: none does */
    } cases[] = {{false, -1, 4000}, {true, -1, 7000}, {true, 0, 1200}, {false, 2100, 3600}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work(&stopping);
        push("one", "act", cases[i].runs ? "[60000,\"deaf\"]" : "[1000]", "");
        run_for(500 * NS_PER_MS);
        node_stop(scene.queue, false);
        run_for(NS_PER_S);
        struct instant told = stop();
        if (cases[i].hurries_ms > 0)
            run_for(cases[i].hurries_ms * NS_PER_MS);
        if (cases[i].hurries_ms >= 0)
            (void)stop();
        assert_ends(EXIT_CODE_FAILURE, told, cases[i].ms);
        assert_int_equal(told_times("leave_failed"), i + 1);
        if (cases[i].hurries_ms <= 0) /* else nobody waits for the last one */
            assert_int_equal(told_times("heartbeat_unwritten"), i + 1);
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

TEST(it_does_as_it_is_called)
{
    work(&(struct setting){.threads = 3, .worker = "stop_timeout = \"3s\";"});
    await_told("node_up node=queue/control");
    push("one", "act", "[600000]", ",\"resource\":\"r\"");
    push("two", "act", "[600000]", "");
    push("three", "act", "[3000]", "");
    await_told("handler begins three");
    run_for(6 * NS_PER_S);
    call("ID-signals", "TTIN");
    await_told("tasks_running count=2 busy=2 threads=3\n");
    await_told("task_running slot=");
    assert_int_equal(told_times("task_running slot="), 2);
    call("hf:2:calls:ID", "CANCEL two");
    await_told("handler stops two: reason 4");
    await_told("ending=cancelled jid=two ");
    call("hf:2:calls:ID", "LOSE one");
    await_told("handler stops one: reason 1");
    assert_contains(ask(scene.queue, "ZRANGE retry 0 -1"), "an operator took it away");
    call("ID-signals", "TSTP");
    await_told("worker_quiet reason=called busy=0");
    push("next", "act", "[10]", "");
    run_for(10 * NS_PER_S);
    assert_contains(ask_process(""), "|quiet|$4|true|");
    assert_queue("*1|$5|next |");
    call("ID-signals", "TERM");
    await_told("worker_stopping reason=called busy=0");
    assert_ends(EXIT_CODE_OK, world_time(), 0);
}

TEST(a_call_to_drain_ends_it_when_nothing_runs)
{
    work(&(struct setting){.threads = 2});
    await_told("node_up node=queue/control");
    push("one", "act", "[3000]", "");
    await_told("handler begins one");
    run_for(NS_PER_S);
    call("hf:2:calls:ID", "DRAIN");
    await_told("worker_draining reason=called busy=1");
    push("next", "act", "[10]", "");
    assert_ends(EXIT_CODE_OK, world_time(), 2000);
    assert_told("worker_stopping reason=drained busy=0");
    assert_queue("*1|$5|next |");
}

/* --- with nothing left to do -------------------------------------------------------------------------------------- */

/* Those that were parked do not count, and those to whom a lock is handed do. */
TEST(it_takes_as_many_tasks_as_it_is_to_take)
{
    static const char *const members[] = {"", ",\"resource\":\"q\""};
    for (unsigned i = 0; i < 2; i++) {
        work(&(struct setting){.threads = 2, .max_tasks = 3});
        for (unsigned n = 0; n < NODES; n++)
            ask(scene.nodes[n], "SET r somebody PX 60000");
        push("parked", "act", "[100]", ",\"resource\":\"r\"");
        for (char jid = 'a'; jid < 'g'; jid++)
            push((char[]){jid, '\0'}, "act", "[100]", members[i]);
        await(told_times("worker_stopping reason=max_tasks busy=0") == i + 1);
        assert_ends(EXIT_CODE_OK, world_time(), 0);
        assert_int_equal(told_times("handler begins"), 3 * (i + 1));
    }
    assert_int_equal(told_times("handler begins parked"), 0);
}

/* It waits for what comes back soon: within the longest time for which a task that is in no waiting list stays away. */
TEST(it_ends_when_nothing_is_left)
{
    static const struct {
        const char *lock, *classes;
        unsigned horizon_s;
    } cases[] = {
        {"", "", 7},
        {"park_delay = \"4s\";", "", 13},
        {"", "{ class = \"act\"; conflict_delay = \"6s\"; }, { class = \"serial\"; conflict_delay = \"2s\"; }", 17}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene_make(&(struct setting){.threads = 2, .drains = true, .lock = cases[i].lock, .classes = cases[i].classes});
        for (unsigned k = 0; k < 2; k++)
            ask(scene.queue, "ZADD schedule %lld '{\"class\":\"act\",\"jid\":\"%s\",\"args\":[],\"queue\":\"jobs\"}'",
                (long long)(node_now_us(scene.queue) / US_PER_S + (k + 1) * cases[i].horizon_s - 1 + 3 * k),
                k == 0 ? "soon" : "later");
        push("one", "act", "[900]", ",\"resource\":\"r\"");
        push("two", "act", "[10]", ",\"resource\":\"r\"");
        worker_start();
        await(told_times("worker_stopping reason=drained busy=0") == i + 1);
        assert_ends(EXIT_CODE_OK, world_time(), 0);
        assert_int_equal(told_times("handler ends"), 3 * (i + 1));
        assert_int_equal(told_times("handler ends later"), 0);
    }
}

/* --- what it shows ------------------------------------------------------------------------------------------------ */

static struct {
    unsigned looks;
    struct observed_process process;
    const struct redlock_node_counters *third;
} observed;

static void looked(void *context, const struct observed_process *process)
{
    (void)context;
    observed.looks++;
    observed.process = *process;
    observed.third = process->node_count == NODES ? process->nodes[NODES - 1] : NULL;
}

/* Since its claim; the time in tenths of a second, so that no small delay matters. */
static int tenths(const struct observed_task *task, struct instant at)
{
    return at.ns == 0 ? -1 : (int)(instant_since(task->claimed, at) / (100 * NS_PER_MS));
}

static void task_left(void *context, const struct observed_task *task)
{
    (void)context;
    world_tell("left %s %s of %s with %u: %s, waited %lld, %d %d %d %d %d%s%s%s%s", task->jid, task->class_name,
               task->queue, task->resource_count, flow_ending_name(task->ending),
               (long long)(task->waited_ns / (100 * NS_PER_MS)), tenths(task, task->asked), tenths(task, task->locked),
               tenths(task, task->started), tenths(task, task->ended), tenths(task, task->left),
               task->handed_over ? " handed over" : "", task->had_refusal ? " refused" : "",
               task->was_lost ? " lost" : "", task->was_fenced_off ? " fenced off" : "");
}

static const struct worker_observer observer = {.looked = looked, .task_left = task_left};

TEST(an_observer_sees_how_the_process_stands)
{
    observed.looks = 0;
    work(&(struct setting){.threads = 4, .observer = &observer});
    assert_in_range(observed.looks, 2, 3);
    assert_int_equal(observed.process.busy, 0);
    assert_int_equal(observed.process.runners, 4);
    push("one", "serial", "[3000]", "");
    push("two", "serial", "[3000]", "");
    push("three", "act", "[3000]", ",\"resource\":\"r\"");
    run_for(2 * NS_PER_S);
    assert_int_equal(observed.process.busy, 2);
    assert_non_null(observed.third);
    assert_true(observed.process.extensions->count > 0);
    assert_in_range(observed.process.claim_calls, 3, 8);
    assert_ends(EXIT_CODE_OK, stop(), 1000);
    assert_int_equal(told_times("left "), 3);
    assert_told("left two serial of jobs with 0: given_back, ");
}

TEST(an_observer_sees_what_became_of_tasks)
{
    work(&(struct setting){.threads = 8, .observer = &observer});
    push("one", "serial", "[3050]", "");
    push("two", "serial", "[1000]", "");
    push("three", "act", "[2050]", ",\"resource\":\"r\"");
    push("four", "act", "[550,\"fenced\"]", ",\"resource\":\"q\"");
    push("five", "act", "[850]", ",\"resource\":\"x\"");
    run_for(500 * NS_PER_MS);
    push("six", "act", "[1000]", ",\"resource\":\"x\"");
    run_for(6 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_told("left one serial of jobs with 0: done, waited 0, -1 -1 0 30 30\n",
                "left two serial of jobs with 0: done, waited 30, -1 -1 30 40 40\n",
                "left three act of jobs with 1: done, waited 0, 0 0 0 20 20\n",
                "left four act of jobs with 1: failed, waited 0, 0 0 0 5 5 fenced off\n",
                "left five act of jobs with 1: done, waited 0, 0 0 0 8 8\n",
                "left six act of jobs with 1: parked, waited 0, -1 -1 -1 -1 0\n",
                "left six act of jobs with 1: done, waited 3, 0 3 3 13 13 handed over\n");
}

TEST(dashboards_see_what_runs)
{
    work(&(struct setting){.threads = 3});
    push("one", "act", "[60000]", ",\"resource\":\"r\"");
    run_for(2 * NS_PER_S);
    push("two", "act", "[60000]", "");
    run_for(8 * NS_PER_S);
    assert_contains(ask_process(""), "|busy|$1|2|");
    assert_contains(ask_process(""), "\"concurrency\":3,");
    assert_contains(ask_process(""), "|quiet|$5|false|");
    assert_contains(ask_process(""), "|hf_classes|$39|act|once|program|progress|runner|serial|");
    const char *work = ask_process(":work");
    assert_contains(work, "{\"queue\":\"jobs\",\"payload\":\"{\\\"class\\\":\\\"act\\\",\\\"jid\\\":\\\"two\\\",");
    assert_contains(work, "\"run_at\":1700000001,\"hf_fence\":\"17");
    assert_contains(work, "\"run_at\":1700000003}");
    assert_contains(work, "\"hf_resources\":[\"r\"]}");
    assert_ends(EXIT_CODE_OK, stop(), 25000);
}

TEST(handlers_are_heard)
{
    work(&(struct setting){.threads = 1});
    push("one", "act", "[10,\"speak\"]", "");
    push("two", "act", "[10,\"push\"]", "");
    push("three", "act", "[10,\"result\"]", "");
    push("four", "progress", "[10,\"fail\"]", "");
    push("five", "progress", "[10]", "");
    run_for(5 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_int_equal(told_times("job_says") + told_times("job_event"), 6);
    assert_told("info job_says jid=one class=act text=\"spoken at 1\"\n",
                "warn job_event event=spoken jid=one class=act rows=\"7\" of=\"two words\"\n",
                "error job_says jid=one class=act text=\"spoken at 3\"\n", "handler ends child");
    assert_contains(ask(scene.queue, "GET hf:2:result:three"), "\"class\":\"act\",");
    assert_contains(ask(scene.queue, "GET hf:2:result:three"), "\"result\":{\"rows\":7}}|");
    assert_contains(ask(scene.queue, "HGETALL it-four"), "|c|$10|{\"done\":4}|");
}

TEST(it_reports_what_it_did)
{
    char path[32], text[4096] = "";
    int fd = memfd_create("report", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    work(&(struct setting){.threads = 2, .report_path = path});
    push("one", "act", "[100]", ",\"resource\":\"r\"");
    push("two", "act", "[300,\"fail\"]", "");
    run_for(5 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_contains(text, "{\"host\":\"host\",\"pid\":1");
    assert_contains(text, ",\"threads\":2,\"seconds\":6.0");
    assert_contains(text, ",\"active_seconds\":0.3");
    assert_contains(text, ",\"runs\":2,\"claims\":2,\"claim_calls\":");
    assert_lacks(text, ",\"claim_calls\":0,");
    assert_contains(text, ",\"locks_acquired\":1,");
    assert_contains(text, ",\"lock_waits\":0,");
    work(&(struct setting){.threads = 2, .report_path = "/nowhere/report"});
    assert_ends(EXIT_CODE_FAILURE, stop(), 0);
    assert_told("report_failed reason=\"/nowhere/report: No such file or directory\"");
}

/* However they came to it: parked and woken, or handed on. */
TEST(it_reports_how_many_tasks_had_to_wait_for_their_lock)
{
    char path[32], text[4096] = "";
    int fd = memfd_create("report", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    work(&(struct setting){.threads = 2, .report_path = path});
    for (char jid = 'a'; jid < 'e'; jid++)
        push((char[]){jid, '\0'}, "act", "[100]", ",\"resource\":\"r\"");
    run_for(5 * NS_PER_S);
    assert_ends(EXIT_CODE_OK, stop(), 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_contains(text, ",\"locks_acquired\":4,");
    assert_contains(text, ",\"lock_waits\":3,");
}

RUN_TESTS_WITH(set_up, tear_down)
