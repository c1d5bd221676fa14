/* What a fleet of workers does with tasks, seen from outside: real processes, real servers. How workers stop is in
 * test_stop.c, what trouble does to them in test_trouble.c. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/contended.h"

/* Runs one worker until nothing is left to do. */
static void work_until_drained(const struct fleet_setup *setup)
{
    struct fleet_setup draining = setup != NULL ? *setup : (struct fleet_setup){0};
    draining.arguments = "--drain";
    assert_int_equal(fleet_wait(&fleet, fleet_work(&fleet, &draining)), 0);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

TEST(two_processes_do_each_of_2000_locked_tasks_once)
{
    struct fleet_setup setup = {.threads = 8, .arguments = "--drain"};
    fleet_push_many(&fleet, "guarded", 2000, 0, 500);
    unsigned first = fleet_work(&fleet, &setup), second = fleet_work(&fleet, &setup);
    assert_int_equal(fleet_wait(&fleet, first), 0);
    assert_int_equal(fleet_wait(&fleet, second), 0);
    assert_int_equal(fleet_noted_all(&fleet, "end "), 2000);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 2000);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    for (unsigned i = 1; i <= 2000; i += 333) {
        char line[32];
        snprintf(line, sizeof line, "end t%u", i);
        assert_int_equal(fleet_noted(&fleet, line), 1);
    }
    assert_int_equal(fleet_left(&fleet), 0);
    assert_int_equal(lock_cluster_keys(&fleet.locks), 0);
}

TEST(tasks_start_in_the_order_of_pushing)
{
    fleet_push_many(&fleet, "note", 5, 0, 0);
    work_until_drained(&(struct fleet_setup){.threads = 1});
    char *journal = fleet_journal(&fleet);
    assert_string_equal(journal, "begin t1\nend t1\nbegin t2\nend t2\nbegin t3\nend t3\nbegin t4\nend t4\n"
                                 "begin t5\nend t5\n");
    free(journal);
}

TEST(an_idle_worker_takes_a_task_that_is_pushed)
{
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_logged(&fleet, worker, "node_up node=queue"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"late\"}");
    test_await(fleet_noted(&fleet, "end late") == 1);
}

static int workers_wait(void)
{
    int waiting = -1;
    char *facts = fleet_ask(&fleet, "INFO clients");
    const char *line = strstr(facts, "blocked_clients:");
    if (line == NULL || sscanf(line, "blocked_clients:%d", &waiting) != 1)
        fail_msg("no blocked_clients in %s", facts);
    free(facts);
    return waiting;
}

/* A worker whose bell waits gets a long task and then no other, though three are pushed. */
static unsigned busy_with_one(const struct fleet_setup *setup)
{
    unsigned busy = fleet_work(&fleet, setup);
    test_await(workers_wait() == 1);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[60000],\"jid\":\"long\"}");
    test_await(fleet_noted(&fleet, "begin long") == 1);
    fleet_push_many(&fleet, "note", 3, 0, 0);
    return busy;
}

TEST(a_busy_worker_leaves_tasks_to_others)
{
    unsigned busy = busy_with_one(&(struct fleet_setup){.threads = 1});
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 3);
    fleet_work(&fleet, &(struct fleet_setup){.threads = 1});
    test_await(fleet_noted_all(&fleet, "end t") == 3);
    fleet_signal(&fleet, busy, SIGKILL);
}

TEST(max_tasks_leaves_the_rest_to_others)
{
    unsigned worker = busy_with_one(&(struct fleet_setup){.threads = 2, .arguments = "--max-tasks 1"});
    test_await(fleet_number(&fleet, "LLEN queue:jobs") == 3);
    fleet_signal(&fleet, worker, SIGKILL);
}

/* --- ends that scripts ask for ------------------------------------------------------------------------------------ */

TEST(max_tasks_is_exact)
{
    fleet_push_many(&fleet, "note", 20, 0, 0);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 4, .arguments = "--max-tasks 7"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "end "), 7);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 13);
    assert_int_equal(fleet_left(&fleet), 13);
}

TEST(max_tasks_waits_until_there_are_so_many)
{
    fleet_push_many(&fleet, "note", 3, 0, 0);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 4, .arguments = "--max-tasks 5"});
    test_await(fleet_noted_all(&fleet, "end ") == 3);
    fleet_push_many(&fleet, "note", 3, 0, 0);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "end "), 5);
    assert_int_equal(fleet_left(&fleet), 1);
}

TEST(drain_ends_at_once_when_there_is_nothing)
{
    work_until_drained(NULL);
    assert_int_equal(fleet_number(&fleet, "DBSIZE"), 0);
}

/* --- tasks that end otherwise ------------------------------------------------------------------------------------- */

TEST(drain_does_what_is_due_and_leaves_what_is_for_others)
{
    free(fleet_ask(&fleet,
                   "ZADD schedule 1 '{\"class\":\"note\",\"args\":[],\"jid\":\"foreign\",\"queue\":\"others\"}'"));
    free(fleet_ask(&fleet, "ZADD schedule 2 '{\"class\":\"note\",\"args\":[],\"jid\":\"own\",\"queue\":\"jobs\"}'"));
    work_until_drained(NULL);
    assert_int_equal(fleet_noted(&fleet, "end own"), 1);
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 1);
}

TEST(a_class_nobody_serves_is_retried_and_not_counted)
{
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[1],\"jid\":\"u1\"}");
    work_until_drained(NULL);
    char *entry = fleet_ask(&fleet, "ZRANGE retry 0 -1");
    assert_contains(entry, "\"jid\":\"u1\"");
    assert_contains(entry, "\"error_class\":\"HF::UnknownClass\"");
    assert_contains(entry, "no plugin of this worker serves the class tomorrow");
    assert_contains(entry, "\"queue\":\"jobs\"");
    assert_lacks(entry, "retry_count");
    free(entry);
    assert_int_equal(fleet_left(&fleet), 1);
}

/* Counted from the first time on: the grace is none. */
TEST(a_class_nobody_serves_fails_by_the_rules_of_its_task)
{
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[],\"jid\":\"buried1\",\"retry\":false}");
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[],\"jid\":\"buried2\",\"retry\":0}");
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[],\"jid\":\"again\",\"retry\":3}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "unknown_class_grace = \"0s\";"});
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 2);
    test_await(fleet_logged(&fleet, worker, "class_unserved class=tomorrow tasks=3 "));
    one_fleet_stop(worker);
    assert_int_equal(fleet_left(&fleet), 3);
    char *again = fleet_ask(&fleet, "ZRANGE retry 0 -1"), *buried1 = fleet_ask(&fleet, "ZRANGE dead 0 0"),
         *buried2 = fleet_ask(&fleet, "ZRANGE dead 1 1");
    const char *const entries[] = {again, buried1, buried2};
    for (size_t i = 0; i < 3; i++) {
        assert_contains(entries[i], "\"error_class\":\"HF::UnknownClass\"");
        assert_contains(entries[i], "\"failed_at\":");
        assert_contains(entries[i], "\"retry_count\":0");
    }
    assert_contains(again, "\"jid\":\"again\"");
    assert_contains(again, "\"hf_unserved_at\":");
    assert_contains(buried1, "\"jid\":\"buried");
    assert_lacks(buried1, "hf_unserved_at");
    free(again);
    free(buried1);
    free(buried2);
    char *waiting = fleet_ask(&fleet, "ZRANGE hf:2:unserved:tomorrow 0 -1");
    assert_string_equal(waiting, "again");
    free(waiting);
    char *log = fleet_log(&fleet, worker);
    assert_null(strstr(strstr(log, "class_unserved") + 1, "class_unserved"));
    assert_lacks(log, "ending=unknown_class");
    free(log);
}

TEST(a_class_nobody_serves_is_logged_under_the_name_that_its_tasks_give)
{
    fleet_push(&fleet, "{\"class\":\"to\\nmorrow\",\"args\":[],\"jid\":\"odd\",\"retry\":false}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "unknown_class_grace = \"0s\";"});
    test_await(fleet_logged(&fleet, worker, "class_unserved "));
    assert_true(fleet_logged(&fleet, worker, "class_unserved class=\"to\\x0Amorrow\" tasks=1 "));
}

TEST(a_class_that_others_announce_is_not_counted_however_long_it_takes)
{
    free(fleet_ask(&fleet, "ZADD hf:2:processes 9000000000 other:1:a"));
    free(fleet_ask(&fleet, "HSET other:1:a hf_classes \"today\\ntomorrow\""));
    fleet_push(&fleet, "{\"class\":\"tomorrow\",\"args\":[],\"jid\":\"u1\",\"retry\":false,\"hf_unserved_at\":1.5}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "unknown_class_grace = \"1s\";"});
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    char *entry = fleet_ask(&fleet, "ZRANGE retry 0 -1");
    assert_contains(entry, "\"hf_unserved_at\":1.5");
    assert_lacks(entry, "retry_count");
    free(entry);
    one_fleet_stop(worker);
}

TEST(what_is_not_json_is_buried_and_can_be_recovered)
{
    free(fleet_ask(&fleet, "LPUSH queue:jobs '{\"class\":oops'"));
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[],\"jid\":\"after\"}");
    work_until_drained(NULL);
    char *entry = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    assert_contains(entry, "\"class\":\"hf.invalid\"");
    assert_contains(entry, "\"args\":[\"{\\\"class\\\":oops\"]");
    assert_contains(entry, "error_message");
    free(entry);
    assert_int_equal(fleet_noted(&fleet, "end after"), 1);
    assert_int_equal(fleet_left(&fleet), 1);
}

TEST(a_task_that_must_be_locked_and_names_nothing_is_buried)
{
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"bare\"}");
    work_until_drained(NULL);
    char *entry = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    assert_contains(entry, "\"jid\":\"bare\"");
    assert_contains(entry, "HF::NoResource");
    free(entry);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), 0);
}

TEST(a_failure_is_retried_with_the_fields_of_the_job_format)
{
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[12345678901234567890123],\"jid\":\"f1\",\"retry\":3}");
    work_until_drained(NULL);
    char *entry = fleet_ask(&fleet, "ZRANGE retry 0 -1");
    assert_contains(entry, "\"args\":[12345678901234567890123]");
    assert_contains(entry, "\"error_class\":\"Witness::Failure\"");
    assert_contains(entry, "\"error_message\":\"told to fail, attempt 0\"");
    assert_contains(entry, "\"retry_count\":0");
    assert_contains(entry, "\"failed_at\":");
    assert_lacks(entry, "retried_at");
    free(entry);
    assert_int_equal(fleet_noted(&fleet, "begin f1"), 1);
}

TEST(the_last_failure_goes_to_dead)
{
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"f2\",\"retry\":2,\"retry_count\":1,"
                       "\"failed_at\":1.5}");
    work_until_drained(NULL);
    char *entry = fleet_ask(&fleet, "ZRANGE dead 0 -1");
    assert_contains(entry, "\"error_message\":\"told to fail, attempt 2\"");
    assert_contains(entry, "\"retry_count\":2");
    assert_contains(entry, "\"retried_at\":");
    free(entry);
    assert_int_equal(fleet_number(&fleet, "ZCARD retry"), 0);
}

/* --- the lock is held by somebody else ---------------------------------------------------------------------------- */

/* By a value as this program's locks have it: a lock of another client is looked at again and again. */
/* As a task of another worker does: nobody listens for its release at the lock nodes. */
static void hold_on_all_nodes(const char *resource, unsigned ttl_ms)
{
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:%s %032d:other:1:0:somebody PX %u", resource, 0, ttl_ms);
}

TEST(a_drain_waits_for_a_lock_that_lasts_longer_than_its_own)
{
    hold_on_all_nodes("busy", 7500);
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"w1\",\"resource\":\"busy\"}");
    work_until_drained(&(struct fleet_setup){.lock = "ttl = \"500ms\"; park_delay = \"100ms\"; prefix = \"lock:\";",
                                             .lock_node = "timeout = \"100ms\";"});
    assert_int_equal(fleet_noted(&fleet, "end w1"), 1);
    assert_int_equal(fleet_left(&fleet), 0);
}

TEST(a_drain_waits_for_what_a_dead_worker_had)
{
    static const struct fleet_setup leased = {.worker = "lease = \"4s\";"};
    unsigned worker = fleet_work(&fleet, &leased);
    fleet_push(&fleet, "{\"class\":\"note\",\"args\":[200],\"jid\":\"orphan\"}");
    test_await(fleet_noted(&fleet, "begin orphan") == 1);
    fleet_signal(&fleet, worker, SIGKILL);
    work_until_drained(&leased);
    assert_int_equal(fleet_noted(&fleet, "end orphan"), 1);
    assert_int_equal(fleet_left(&fleet), 0);
}

TEST(what_was_only_parked_is_none_of_max_tasks)
{
    hold_on_all_nodes("busy", 60000);
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"w1\",\"resource\":\"busy\"}");
    fleet_push_many(&fleet, "note", 3, 0, 0);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 1, .arguments = "--max-tasks 2"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_noted_all(&fleet, "end "), 2);
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 1);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static long peak_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

#define PUSH_KIBIBYTES                                                                                                 \
    "local fill = string.rep('x', 940) "                                                                               \
    "for i = 1, 100000 do redis.call('LPUSH', 'queue:jobs', '{\\\"class\\\":\\\"echo\\\",\\\"args\\\":[\\\"' .. fill " \
    ".. '\\\"],\\\"jid\\\":\\\"m' .. i .. '\\\",\\\"resource\\\":\\\"m' .. i .. '\\\"}') end"

/* With a single lock node, because a worker keeps what it has sent to one that stands still while others go on. */
TEST(memory_stays_flat_however_long_the_queue_is)
{
    if (getenv("HOLDFAST_SANITIZED") != NULL)
        test_skip("a sanitizer keeps memory");
    char node[64];
    struct redis_server *single = redis_server_start(NULL); /* those of the fleet are of a group */
    snprintf(node, sizeof node, "{ host = \"127.0.0.1\"; port = %u; }", redis_server_port(single));
    free(fleet_ask(&fleet, "EVAL \"%s\" 0", PUSH_KIBIBYTES));
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.threads = 16,
                                                 .plugin = "echo",
                                                 .lock_nodes = node,
                                                 .classes = "{ class = \"echo\"; mode = \"efficiency\"; }"});
    test_await(fleet_number(&fleet, "LLEN queue:jobs") <= 80000);
    long kib = peak_kib(fleet.workers[worker].pid);
    print_message("peak of the resident memory: %ld KiB\n", kib);
    assert_in_range(kib, 1000, 10 * 1000 * 1000 / 1024);
    assert_true(redis_server_calls(single, "set") > 10000);
    one_fleet_stop(worker);
    redis_server_destroy(single);
}

RUN_FLEET_TESTS
