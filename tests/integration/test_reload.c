/* SIGHUP: what is reloadable is taken by the running worker, the rest is named, and a bad file changes nothing. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/one_fleet.h"

static unsigned start(const struct fleet_setup *setup)
{
    unsigned worker = fleet_work(&fleet, setup);
    test_await(fleet_logged(&fleet, worker, "worker_started"));
    return worker;
}

static void reload(unsigned worker, const struct fleet_setup *setup)
{
    fleet_configure(&fleet, worker, setup);
    fleet_reload(&fleet, worker);
}

TEST(a_reload_without_a_change_changes_nothing)
{
    unsigned worker = start(&(struct fleet_setup){.threads = 2});
    reload(worker, &(struct fleet_setup){.threads = 2});
    test_await(fleet_logged(&fleet, worker, "reloaded changed=0 after_restart=0"));
    one_fleet_stop(worker);
}

TEST(the_level_of_the_log_changes)
{
    unsigned worker = start(NULL);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"unseen\"}");
    test_await(fleet_noted(&fleet, "end unseen") == 1);
    reload(worker, &(struct fleet_setup){.worker = "log_level = \"debug\";"});
    test_await(fleet_logged(&fleet, worker, "setting_changed setting=\"worker.log_level\""));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"seen\"}");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=done jid=seen"));
    assert_false(fleet_logged(&fleet, worker, "task_started jid=unseen"));
    one_fleet_stop(worker);
}

TEST(the_format_of_the_log_changes)
{
    static const struct fleet_setup as_json = {.worker = "log_format = \"json\";"};
    unsigned worker = start(NULL);
    fleet_configure(&fleet, worker, &as_json);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(
        fleet_logged(&fleet, worker, "\"level\":\"info\",\"msg\":\"reloaded\",\"changed\":1,\"after_restart\":0}\n"));
    reload(worker, &(struct fleet_setup){.worker = NULL});
    assert_true(fleet_logged(&fleet, worker, "info reloaded changed=1 after_restart=0\n"));
    one_fleet_stop(worker);
    worker = start(&as_json);
    one_fleet_stop(worker);
    char *log = fleet_log(&fleet, worker);
    for (const char *line = log; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "{\"time\":\"2", 10);
    free(log);
}

/* Tasks that were only added up are told at the level that they were added up at. With one thread, the line of the last
 * task comes after those of the others. */
TEST(a_reload_that_silences_the_log_loses_no_task)
{
    enum { TASKS = 300 };
    unsigned worker = start(&(struct fleet_setup){.threads = 1}), summed = 0;
    for (unsigned i = 0; i < TASKS; i++)
        fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"t%u\"}", i);
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"\"],\"jid\":\"last\",\"retry\":false}");
    test_await(fleet_logged(&fleet, worker, " task_ended ending=discarded jid=last "));
    fleet_configure(&fleet, worker, &(struct fleet_setup){.threads = 1, .worker = "log_level = \"warn\";"});
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, "setting_changed setting=\"worker.log_level\""));
    one_fleet_stop(worker);
    char *log = fleet_log(&fleet, worker);
    for (const char *at = log; (at = strstr(at, " tasks_summed done=")) != NULL;)
        summed += (unsigned)strtoul(at += strlen(" tasks_summed done="), NULL, 10);
    free(log);
    assert_int_equal(fleet_logged_times(&fleet, worker, " task_ended ending=done ") + summed, TASKS);
}

/* By what the worker does: a handler that listens is stopped at once. */
TEST(the_stop_timeout_changes)
{
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"long\"}");
    unsigned worker = start(&(struct fleet_setup){.worker = "stop_timeout = \"10m\";"});
    test_await(fleet_noted(&fleet, "begin long") == 1);
    reload(worker, &(struct fleet_setup){.worker = "stop_timeout = \"0s\";"});
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "stopped long"), 1);
}

/* A task that began under the old settings ends under them. */
TEST(the_settings_of_a_class_change_for_tasks_that_come)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[1500],\"jid\":\"old\",\"resource\":\"r\"}");
    unsigned worker = start(&(struct fleet_setup){.classes = "{ class = \"guarded\"; lock = \"required\"; }"});
    test_await(fleet_noted(&fleet, "begin old") == 1);
    reload(worker, &(struct fleet_setup){.classes = "{ class = \"guarded\"; lock = \"required\"; retry = \"0\"; "
                                                    "on_conflict = \"fail\"; }"});
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"new\",\"resource\":\"r\"}");
    test_await(fleet_logged(&fleet, worker, "task_ended ending=dead jid=new"));
    test_await(fleet_noted(&fleet, "end old") == 1);
    one_fleet_stop(worker);
    assert_int_equal(fleet_noted(&fleet, "begin new"), 0);
}

/* The class needed a lock, then it has none: two of its tasks would run at once. */
TEST(what_a_class_locks_changes_when_its_last_task_has_ended)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[700],\"jid\":\"old\",\"resource\":\"r\"}");
    unsigned worker = start(
        &(struct fleet_setup){.classes = "{ class = \"guarded\"; lock = \"required\"; retry_queue = \"elsewhere\"; }"});
    test_await(fleet_noted(&fleet, "begin old") == 1);
    test_await(lock_cluster_holders(&fleet.locks, "lock:r") == 3);
    reload(worker, &(struct fleet_setup){.classes = "{ class = \"guarded\"; lock = \"none\"; }"});
    reload(worker, &(struct fleet_setup){.classes = "{ class = \"guarded\"; lock = \"none\"; retry = \"1\"; }"});
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[0],\"jid\":\"new\",\"resource\":\"r\"}");
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"other\"}");
    test_await(fleet_noted(&fleet, "end other") == 1);
    test_await(fleet_noted(&fleet, "end new") == 1);
    one_fleet_stop(worker);
    char *journal = fleet_journal(&fleet);
    assert_true(strstr(journal, "begin new") > strstr(journal, "end old"));
    assert_null(strstr(strstr(journal, "begin new"), "token r")); /* it ran without a lock */
    free(journal);
    assert_int_equal(fleet_left(&fleet), 0);
}

static bool has_schedule(const char *schedule)
{
    char *noted = fleet_ask(&fleet, "HGET hf:2:periodic soon");
    bool is_it = strstr(noted, schedule) != NULL;
    free(noted);
    return is_it;
}

TEST(periodic_tasks_change)
{
    static const char sections[] = "periodic = ({ name = \"soon\"; cron = \"0 0 1 %d *\"; class = \"note\"; });\n";
    char text[128];
    unsigned worker = start(&(struct fleet_setup){.threads = 2});
    for (int month = 1; month <= 2; month++) {
        snprintf(text, sizeof text, sections, month);
        reload(worker, &(struct fleet_setup){.threads = 2, .sections = text});
        snprintf(text, sizeof text, " 0 0 1 %d * UTC", month);
        test_await(has_schedule(text));
    }
    one_fleet_stop(worker);
}

TEST(what_cannot_change_is_named)
{
    unsigned worker = start(&(struct fleet_setup){.threads = 2});
    reload(worker, &(struct fleet_setup){.threads = 3, .queue_node = "call_timeout = \"2s\";"});
    test_await(fleet_logged(&fleet, worker,
                            "warn setting_waits setting=\"worker.threads\" before=2 after=3 "
                            "advice=\"takes effect after a restart\""));
    test_await(fleet_logged(&fleet, worker, "setting_waits setting=\"queue_node.call_timeout\""));
    test_await(fleet_logged(&fleet, worker, "reloaded changed=0 after_restart=2"));
    fleet_signal(&fleet, worker, SIGTTIN);
    test_await(fleet_logged(&fleet, worker, "threads=2"));
    one_fleet_stop(worker);
}

TEST(a_file_with_an_error_changes_nothing)
{
    unsigned worker = start(&(struct fleet_setup){.worker = "log_level = \"info\";"});
    reload(worker, &(struct fleet_setup){.worker = "log_level = \"debug\"; thread = 3;"});
    test_await(fleet_logged(&fleet, worker, "error config_finding text="));
    test_await(fleet_logged(&fleet, worker, "there is no such key"));
    test_await(fleet_logged(&fleet, worker, "reload_refused errors=1"));
    assert_false(fleet_logged(&fleet, worker, "setting_changed"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"quiet\"}");
    test_await(fleet_noted(&fleet, "end quiet") == 1);
    one_fleet_stop(worker);
    assert_false(fleet_logged(&fleet, worker, "task_started"));
}

/* The file alone is good, but not with the lock nodes that run: their timeout waits for a restart, the ttl would not.
 */
TEST(settings_that_do_not_fit_what_runs_change_nothing)
{
    unsigned worker = start(&(struct fleet_setup){.lock_node = "timeout = \"400ms\";"});
    reload(worker,
           &(struct fleet_setup){.lock = "ttl = \"500ms\"; prefix = \"lock:\";", .lock_node = "timeout = \"50ms\";"});
    test_await(fleet_logged(&fleet, worker, "reload_refused errors=1"));
    test_await(fleet_logged(&fleet, worker, "quarter of the ttl"));
    one_fleet_stop(worker);
}

/* Requests that come while one is under way are not lost, and none is done twice at once. */
TEST(many_reloads_end_in_the_last_file)
{
    unsigned worker = start(NULL);
    for (unsigned i = 0; i < 20; i++)
        fleet_signal(&fleet, worker, SIGHUP);
    fleet_configure(&fleet, worker, &(struct fleet_setup){.worker = "stop_timeout = \"7s\";"});
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, "before=\"\\\"25s\\\"\" after=\"\\\"7s\\\"\""));
    one_fleet_stop(worker);
}

RUN_FLEET_TESTS
