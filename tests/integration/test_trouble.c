/* What a worker says of nodes that die, refuse or hold foreign values, and of texts of tasks that try to forge the
 * log. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/one_fleet.h"

/* Every task ran once, none beside another of its resource, and nothing is left. */
static void assert_all_done_once(unsigned tasks)
{
    assert_int_equal(fleet_noted_all(&fleet, "end "), tasks);
    assert_int_equal(fleet_noted_all(&fleet, "begin "), tasks);
    assert_int_equal(fleet_noted_all(&fleet, "clash "), 0);
    assert_int_equal(fleet_left(&fleet), 0);
}

/* --- lock nodes ------------------------------------------------------------------------------------------------- */

TEST(losing_the_majority_is_said_and_survived)
{
    unsigned worker = fleet_work(&fleet, NULL);
    fleet_push_many(&fleet, "guarded", 1, 0, 1);
    test_await(fleet_noted(&fleet, "end t1") == 1);
    redis_server_kill(fleet.locks.servers[0]);
    redis_server_kill(fleet.locks.servers[1]);
    test_await(fleet_logged(&fleet, worker, "lock_quorum_missing nodes=3 nodes_up=1 voters=1"));
    fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"later\",\"resource\":\"r\"}");
    redis_server_restart(fleet.locks.servers[1]);
    test_await(fleet_logged(&fleet, worker, "lock_node_trust node=lock2 state=excluded reason=unrecorded"));
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
    lock_cluster_mark(&fleet.locks, 1);
    test_await(fleet_noted(&fleet, "end later") == 1);
    one_fleet_stop(worker);
    assert_all_done_once(2);
}

/* Tasks take locks, one after the other, until the log says it. Returns how many. */
static unsigned work_until(unsigned worker, const char *event)
{
    unsigned before = fleet_noted_all(&fleet, "end "), count = 0;
    while (!fleet_logged(&fleet, worker, event)) {
        fleet_push(&fleet, "{\"class\":\"guarded\",\"args\":[],\"jid\":\"t%u\",\"resource\":\"r\"}", before + count);
        count++;
        test_await(fleet_noted_all(&fleet, "end ") == before + count);
    }
    return count;
}

TEST(a_lock_node_that_hangs_is_told_and_holds_nobody_up)
{
    unsigned worker = fleet_work(&fleet, NULL);
    unsigned tasks = work_until(worker, "node_up node=lock1");
    redis_server_pause(fleet.locks.servers[0]);
    tasks += work_until(worker, "lock_node_silent node=lock1 ");
    redis_server_resume(fleet.locks.servers[0]);
    tasks += work_until(worker, "lock_node_answers node=lock1");
    assert_false(fleet_logged(&fleet, worker, "lock_quorum_missing"));
    one_fleet_stop(worker);
    assert_all_done_once(tasks);
}

static void lock_nodes_configure(unsigned count, const char *setting)
{
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(lock_cluster_ask(&fleet.locks, i, "CONFIG SET %s", setting), "OK");
}

TEST(lock_nodes_that_answer_with_errors_are_told_with_their_words)
{
    unsigned worker = fleet_work(&fleet, NULL);
    lock_nodes_configure(2, "maxmemory 1");
    fleet_push_many(&fleet, "guarded", 1, 0, 1);
    test_await(fleet_logged(&fleet, worker, "lock_node_refused node=lock1 error=OOM reason=\"OOM "));
    test_await(fleet_logged(&fleet, worker, "lock_no_quorum nodes_up=3 reason=\"too few lock nodes grant it: lock"));
    lock_nodes_configure(2, "maxmemory 0");
    test_await(fleet_noted(&fleet, "end t1") == 1);
    one_fleet_stop(worker);
    assert_all_done_once(1);
}

/* --- the queue node --------------------------------------------------------------------------------------------- */

/* The error of the server does not say which key it means. */
TEST(foreign_values_are_told_with_their_keys)
{
    free(fleet_ask(&fleet, "SET queue:jobs foreign"));
    unsigned idle = fleet_work(&fleet, NULL);
    test_await(fleet_logged(&fleet, idle, "queue_node_refused node=queue error=WRONGTYPE keys=queue:jobs "));
    one_fleet_stop(idle);
    free(fleet_ask(&fleet, "DEL queue:jobs"));
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"back\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.worker = "stop_timeout = \"100ms\";"});
    test_await(fleet_noted(&fleet, "begin back") == 1);
    free(fleet_ask(&fleet, "SET queue:jobs foreign"));
    fleet_signal(&fleet, worker, SIGTERM);
    test_await(fleet_logged(&fleet, worker, "error=WRONGTYPE keys=\"hf:2:process:host1:"));
    test_await(fleet_logged(&fleet, worker, " queue:jobs\" reason="));
    free(fleet_ask(&fleet, "DEL queue:jobs"));
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
}

/* --- what is thrown away ---------------------------------------------------------------------------------------- */

TEST(that_dead_is_full_is_said)
{
    free(fleet_ask(&fleet, "EVAL \"for i = 1, 9999 do redis.call('ZADD', 'dead', i, i) end return 1\" 0"));
    unsigned worker = fleet_work(&fleet, NULL);
    test_await(fleet_logged(&fleet, worker, "dead_full entries=9999 "));
    one_fleet_stop(worker);
}

/* --- secrets and the log ---------------------------------------------------------------------------------------- */

/* All that others may see of the process. */
static char *public_text(struct fleet *place, unsigned worker)
{
    char path[64], bytes[4096], *text = NULL, *log = fleet_log(place, worker);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)place->workers[worker].pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t length = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    for (size_t i = 0; i < length; i++)
        if (bytes[i] == '\0')
            bytes[i] = ' ';
    bytes[length] = '\0';
    assert_true(asprintf(&text, "%s\n%s", bytes, log) > 0);
    free(log);
    return text;
}

TEST(a_wrong_password_is_said_without_saying_it)
{
    struct fleet locked;
    char setting[128], path[96];
    fleet_start(&locked, &(struct redis_server_options){.password = "the-right-one"}, 1);
    snprintf(path, sizeof path, "%s/secret", locked.directory);
    snprintf(setting, sizeof setting, "password_file = \"%s\";", path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fprintf(file, "hunter2-is-wrong\n");
    fclose(file);
    unsigned worker = fleet_work(&locked, &(struct fleet_setup){.queue_node = setting});
    test_await(fleet_logged(&locked, worker, "WRONGPASS"));
    char *text = public_text(&locked, worker);
    assert_contains(text, "node=queue");
    assert_lacks(text, "hunter2");
    assert_lacks(text, "the-right-one");
    free(text);
    fleet_clean(&locked);
    fleet_stop(&locked);
}

/* Each line begins as lines do, and holds nothing that a terminal would obey. */
static void assert_log_is_sound(char *log)
{
    char *rest = log, *line;
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        if (strncmp(line, "20", 2) != 0 || strlen(line) < 30 || line[23] != 'Z')
            fail_msg("no line of ours: %s", line);
        for (const char *byte = line; *byte != '\0'; byte++)
            if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
                fail_msg("a control character in: %s", line);
    }
}

TEST(texts_of_tasks_cannot_forge_log_lines)
{
    fleet_push(&fleet,
               "{\"class\":\"evil\\n2026-01-01T00:00:00.000Z info forged\\u001b[31m\",\"args\":[],\"jid\":\"a\"}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"two\\nlines\\u001b[2J\\u0085\\r\"],\"jid\":\"b\\u000ab\"}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[0,\"two\\nlines\\u001b[2J\\u0085\\r\"],\"jid\":\"c c=\\\"d\"}");
    free(fleet_ask(&fleet, "LPUSH queue:jobs \"not\\njson\\x1b[2J\\x00\\xff\""));
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.arguments = "--drain"});
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_left(&fleet), 4);
    char *log = fleet_log(&fleet, worker);
    assert_contains(log, "two\\x0Alines");
    assert_log_is_sound(log);
    free(log);
}

RUN_FLEET_TESTS
