/* Whole workers whose handlers run in processes: what a run may cost, and that nobody runs on without its lock (G2). */
#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "tests/support/one_fleet.h"
#include "tests/support/worker_child.h"
#include "worker/worker.h"

static const char in_processes[] = "{ class = \"note\"; isolation = \"process\"; },"
                                   "{ class = \"careful\"; isolation = \"process\"; },"
                                   "{ class = \"count\"; isolation = \"process\"; },"
                                   "{ class = \"fail\"; isolation = \"process\"; },"
                                   "{ class = \"moody\"; isolation = \"process\"; },"
                                   "{ class = \"picky\"; isolation = \"process\"; },"
                                   "{ class = \"guarded\"; isolation = \"process\"; }";
static const struct fleet_setup away = {.classes = in_processes};

TEST(tasks_run_in_processes_as_in_threads)
{
    unsigned worker = fleet_work(&fleet, &away);
    fleet_push_many(&fleet, "guarded", 200, 1, 5);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"why\",\"My::Error\"],\"jid\":\"f\"}");
    fleet_push(&fleet, "{\"class\":\"picky\",\"args\":[1],\"jid\":\"p\"}");
    fleet_push(&fleet, "{\"class\":\"moody\",\"args\":[20,\"x\",\"fail\"],\"jid\":\"x\"}");
    fleet_push(&fleet, "{\"class\":\"count\",\"args\":[1,50],\"jid\":\"c\"}");
    test_await(fleet_noted_all(&fleet, "end t") == 200);
    test_await(fleet_noted(&fleet, "end x") == 1);
    test_await(fleet_noted(&fleet, "end c") == 1);
    assert_int_equal(fleet_noted_all(&fleet, "clash"), 0);
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1");
    assert_contains(retry, "My::Error");
    assert_contains(retry, "why, attempt 0");
    free(retry);
    char *dead = fleet_ask(&fleet, "zrange dead 0 -1");
    assert_contains(dead, "HF::BadArguments");
    free(dead);
    one_fleet_stop(worker);
}

TEST(what_is_put_off_since_its_plugin_does_not_open_says_so)
{
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.plugin = "restless",
                                                               .settings = "opening = \"exit\";",
                                                               .worker = "log_tasks = \"failures\";",
                                                               .classes = "{ class = \"restless\"; }"});
    fleet_push(&fleet, "{\"class\":\"restless\",\"args\":[\"ok\"],\"jid\":\"late\"}");
    test_await(fleet_logged(&fleet, worker, "warn task_ended ending=snoozed jid=late class=restless queue=jobs "));
    assert_true(fleet_logged(&fleet, worker,
                             " reason=\"the plugin restless did not open in its process: exited with status 0\"\n"));
    one_fleet_stop(worker);
}

TEST(a_run_that_takes_too_long_is_killed)
{
    unsigned worker = fleet_work(
        &fleet, &(struct fleet_setup){
                    .classes = "{ class = \"note\"; isolation = \"process\"; timeout = \"50ms\"; grace = \"50ms\"; }"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"deaf\"}");
    test_await(fleet_number(&fleet, "zcard retry") == 1);
    char *retry = fleet_ask(&fleet, "zrange retry 0 -1");
    assert_contains(retry, "HF::TimedOut");
    free(retry);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[0],\"jid\":\"next\"}");
    test_await(fleet_noted(&fleet, "end next") == 1);
    assert_int_equal(fleet_noted(&fleet, "end deaf"), 0);
    one_fleet_stop(worker);
}

/* --- when it is killed -------------------------------------------------------------------------------------------- */

/* As the zygote reads it; INT64_MAX = at no time. */
static int64_t kill_time(struct run_table *run_table)
{
    int64_t first = INT64_MAX;
    for (unsigned i = 0; i < run_table->run_entry_count; i++) {
        int64_t at = atomic_load(&run_table_entry(run_table, i)->kill_at);
        first = at < first ? at : first;
    }
    return first;
}

/* From so long after `since` on, and at most so long from now: what is late here only makes that wider. */
static void await_kill_time(struct run_table *run_table, struct instant since, int64_t after_ns)
{
    test_await(kill_time(run_table) != INT64_MAX);
    assert_in_range(kill_time(run_table), since.ns + after_ns, instant_now().ns + after_ns);
}

/* A run of a handler that does not listen, and the run table on which it is. */
static struct run_table *deaf_run(unsigned *worker, const char *class_settings, const char *worker_settings)
{
    char classes[256];
    struct run_table *run_table = run_table_create(WORKER_SLOTS(1));
    snprintf(classes, sizeof classes, "{ class = \"note\"; isolation = \"process\"; %s }", class_settings);
    *worker =
        worker_child_start(&fleet, &(struct fleet_setup){.threads = 1, .classes = classes, .worker = worker_settings},
                           NULL, NULL, run_table);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"deaf\"}");
    test_await(fleet_noted(&fleet, "begin deaf") == 1);
    return run_table;
}

TEST(a_run_is_killed_after_its_timeout_and_its_grace)
{
    unsigned worker;
    struct instant since = instant_now();
    struct run_table *run_table = deaf_run(&worker, "timeout = \"1h\"; grace = \"10m\";", NULL);
    await_kill_time(run_table, since, 70 * 60 * NS_PER_S);
    run_table_destroy(run_table);
}

TEST(a_run_that_is_called_off_is_killed_after_its_grace)
{
    unsigned worker;
    struct run_table *run_table = deaf_run(&worker, "grace = \"10m\";", NULL);
    assert_int_equal(kill_time(run_table), INT64_MAX);
    struct instant since = instant_now();
    char *identity = fleet_ask(&fleet, "zrange hf:2:processes 0 0");
    free(fleet_ask(&fleet, "zadd hf:2:cancels 1 deaf"));
    free(fleet_ask(&fleet, "lpush hf:2:calls:%s 'CANCEL deaf'", identity));
    free(identity);
    await_kill_time(run_table, since, 10 * 60 * NS_PER_S);
    run_table_destroy(run_table);
}

/* It is known from the beginning of the stop on, for a worker that stands still in the middle of it. */
TEST(a_run_is_killed_before_the_stop_of_its_worker_is_over)
{
    unsigned worker;
    struct run_table *run_table = deaf_run(&worker, "", "stop_timeout = \"1h\";");
    assert_int_equal(kill_time(run_table), INT64_MAX);
    struct instant since = instant_now();
    fleet_signal(&fleet, worker, SIGTERM);
    await_kill_time(run_table, since,
                    3600 * NS_PER_S + 1500 * NS_PER_MS); /* 2 s, but for a moment in which it is reaped */
    run_table_destroy(run_table);
}

/* --- G2 ----------------------------------------------------------------------------------------------------------- */

TEST(G2_a_run_ends_with_its_lock_also_when_the_worker_stands_still)
{
    unsigned first = fleet_work(&fleet, &away);
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[600000,\"thing\"],\"jid\":\"a\",\"resource\":\"thing\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    fleet_signal(&fleet, first, SIGSTOP);
    unsigned second = fleet_work(&fleet, &(struct fleet_setup){.classes = in_processes});
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"b\",\"resource\":\"thing\"}");
    test_await(fleet_noted(&fleet, "end b") == 1);
    fleet_signal(&fleet, first, SIGCONT);
    test_await(fleet_number(&fleet, "zcard retry") + fleet_number(&fleet, "llen queue:jobs") +
                   (long long)fleet_noted(&fleet, "begin a") >=
               2);
    assert_int_equal(fleet_noted(&fleet, "end a"), 0);
    one_fleet_kill(first);
    one_fleet_kill(second);
}

/* The first child of a process; 0 = none. */
static pid_t child_of(pid_t parent)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &child) != 1)
        child = 0;
    fclose(file);
    return (pid_t)child;
}

static bool has_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

TEST(nothing_is_left_of_a_worker_that_was_killed)
{
    unsigned worker = fleet_work(&fleet, &away);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"a\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    pid_t zygote = child_of(fleet.workers[worker].pid), runner = child_of(zygote);
    assert_true(zygote > 0 && runner > 0);
    one_fleet_kill(worker);
    test_await(has_gone(runner) && has_gone(zygote));
    test_await(fleet_logged(&fleet, worker, "task_was_running"));
}

TEST(a_worker_whose_zygote_was_killed_ends_and_so_does_what_ran)
{
    /* What was killed with its zygote cannot end in time, and is not waited for. */
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = in_processes, .worker = "stop_timeout = \"1h\";"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"a\"}");
    test_await(fleet_noted(&fleet, "begin a") == 1);
    pid_t zygote = child_of(fleet.workers[worker].pid), runner = child_of(zygote);
    kill(zygote, SIGKILL);
    test_await(has_gone(runner));
    assert_int_not_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_left(&fleet), 1); /* the task was given back, or waits to be recovered */
    test_await(fleet_logged(&fleet, worker, "zygote_lost"));
}

/* After its grace, long before the worker gives up: it may stand still for longer than the last moment lasts. */
TEST(a_stop_gives_back_what_does_not_listen)
{
    static const char classes[] = "{ class = \"guarded\"; isolation = \"process\"; grace = \"100ms\"; },"
                                  "{ class = \"careful\"; isolation = \"process\"; }";
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.classes = classes, .worker = "stop_timeout = \"10ms\";"});
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[600000],\"jid\":\"deaf\",\"resource\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"listens\"}");
    test_await(fleet_noted(&fleet, "begin deaf") == 1);
    test_await(fleet_noted(&fleet, "begin listens") == 1);
    one_fleet_stop(worker); /* with 0: a run in a process is killed, not abandoned */
    assert_int_equal(fleet_number(&fleet, "llen queue:jobs"), 2);
    assert_int_equal(fleet_left(&fleet), 2);
    assert_int_equal(fleet_noted(&fleet, "stopped listens"), 1);
}

TEST(a_called_off_run_is_killed_after_its_grace)
{
    unsigned worker = fleet_work(
        &fleet, &(struct fleet_setup){.classes = "{ class = \"note\"; isolation = \"process\"; grace = \"50ms\"; }"});
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[600000],\"jid\":\"long\"}");
    test_await(fleet_noted(&fleet, "begin long") == 1);
    char *identity = fleet_ask(&fleet, "zrange hf:2:processes 0 0");
    free(fleet_ask(&fleet, "zadd hf:2:cancels 1 long"));
    free(fleet_ask(&fleet, "lpush hf:2:calls:%s 'CANCEL long'", identity));
    free(identity);
    test_await(fleet_logged(&fleet, worker, "ending=cancelled jid=long"));
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

RUN_FLEET_TESTS
