/* holdfast unlock, over real lock nodes and a real worker: what is taken away, who is told, and what is let alone. */
#include "tests/support/holding_fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/http_ask.h"
#include "tests/support/private_directory.h"

#define TOKEN "the token of this test"

static int unlock(const char *resource)
{
    return run_with("unlock", "--force", resource);
}

static void given_value(const char *key, const char *value, unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        lock_cluster_ask(&fleet.locks, i, "SET %s %s PX 50000", key, value);
}

static void assert_value(unsigned node, const char *key, const char *value)
{
    assert_string_equal(lock_cluster_ask(&fleet.locks, node, "GET %s", key), value);
}

/* --- without a word ----------------------------------------------------------------------------------------------- */

TEST(without_force_nothing_is_done)
{
    given_a_holder();
    assert_int_equal(run_command("unlock", "r", NULL), 1);
    assert_contains(result.out, "task     first, class hold, queue jobs");
    assert_contains(result.error,
                    "nothing was done: say --force to tell its process that it lost the lock, delete this "
                    "on every lock node and let who waits go");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 3);
    assert_int_equal(fleet_number(&fleet, "LLEN hf:2:calls:none"), 0);
    assert_false(is_noted("lost first"));
    assert_int_equal(run_with("unlock", "--json", "r"), 1);
    assert_contains(result.out, "\"forced\":false,\"told\":[],\"woke\":false}");
}

/* --- the holder --------------------------------------------------------------------------------------------------- */

TEST(the_running_handler_is_told)
{
    unsigned worker = given_a_holder();
    assert_int_equal(unlock("r"), 0);
    assert_string_equal(result.error, "");
    assert_contains(result.out, "was told that it lost the lock.");
    test_await(is_noted("lost first host0 1 0"));
    test_await(is_noted("end first host0"));
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    char *entry = fleet_ask(&fleet, "ZRANGE retry 0 -1");
    assert_contains(entry, "\"error_class\":\"HF::LockLost\"");
    assert_contains(entry, "an operator took it away (holdfast unlock)");
    assert_contains(entry, "\"hf_fence\":\"");
    assert_lacks(entry, "retry_count");
    free(entry);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_true(strtoull(lock_cluster_fence(&fleet.locks, i, "lock:r"), NULL, 10) > 0);
    test_await(fleet_logged(&fleet, worker, "task_ended ending=lock_lost jid=first"));
}

/* A task that only waits for the lock, or holds another one, is nobody's holder. */
TEST(others_of_the_process_go_on)
{
    given_a_holder();
    holder_push("jobs", "other", "s");
    test_await(is_noted("begin other host0"));
    assert_int_equal(unlock("r"), 0);
    test_await(is_noted("end first host0"));
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:s"), 3);
    assert_false(is_noted("lost other"));
}

/* It believes until it wakes; then the call is what it hears, long before its ttl is over. */
TEST(a_stopped_worker_is_told_when_it_goes_on)
{
    unsigned worker = given_a_holder();
    fleet_signal(&fleet, worker, SIGSTOP);
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "was called and did not answer within 2 s: it is stopped or stuck.");
    assert_contains(result.out, "lock1: deleted");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
    holder_start("\"other\"");
    holder_push("other", "second", "r");
    test_await(is_noted("begin second host1"));
    fleet_signal(&fleet, worker, SIGCONT);
    test_await(is_noted("lost first host0 1 0"));
    test_await(fleet_logged(&fleet, worker, "text=\"LOSE first\""));
    test_await(is_noted("end first host0"));
    assert_false(is_noted("lost second"));
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 3); /* the other's */
}

TEST(a_dead_worker_is_not_waited_for)
{
    unsigned worker = given_a_holder();
    one_fleet_kill(worker);
    free(fleet_ask(&fleet, "EVAL \"local all = redis.call('ZRANGE', KEYS[1], 0, -1) for i = 1, #all do "
                           "redis.call('ZADD', KEYS[1], 1, all[i]) end\" 1 hf:2:processes"));
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "#1 could not be told");
    assert_contains(result.out, "its lease has ended");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
}

TEST(a_value_of_another_program_is_deleted_too)
{
    given_a_configuration();
    for (unsigned i = 0; i < 3; i++)
        lock_cluster_ask(&fleet.locks, i,
                         "EVAL \"return redis.call('SET', 'lock:r', string.char(0, 27, 91, 51, 255, 10, 155))\" 0");
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "value    \"\\x00\\x1b[3\\xff\\x0a\\x9b\"");
    assert_contains(result.out, "#1 could not be told");
    assert_null(strchr(result.out, 27));
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
}

/* --- what is let alone -------------------------------------------------------------------------------------------- */

/* While the command waits for a stopped holder, the lock passes on to somebody else on one node. */
TEST(a_value_that_was_not_shown_stays)
{
    char path[128];
    unsigned worker = given_a_holder();
    unsigned calls = redis_server_calls(fleet.queue, "lpush");
    config_path(path);
    fleet_signal(&fleet, worker, SIGSTOP);
    program_result_free(&result);
    struct program program = program_start((const char *const[]){"unlock", "-c", path, "--force", "r", NULL}, -1);
    test_await(redis_server_calls(fleet.queue, "lpush") > calls);
    lock_cluster_ask(&fleet.locks, 0, "SET lock:r another");
    lock_cluster_ask(&fleet.locks, 1, "DEL lock:r");
    result = program_wait(&program);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "lock1: another value is there by now, of the next holder, and stays");
    assert_contains(result.out, "lock2: was gone already");
    assert_contains(result.out, "lock3: deleted");
    assert_value(0, "lock:r", "another");
    assert_value(2, "lock:r", "(nil)");
}

TEST(what_could_not_be_shown_stays)
{
    given_a_configuration();
    lock_cluster_ask(&fleet.locks, 0, "LPUSH lock:r a");
    lock_cluster_ask(&fleet.locks, 1, "EVAL \"return redis.call('SET', 'lock:r', string.rep('x', 513))\" 0");
    lock_cluster_ask(&fleet.locks, 2, "EVAL \"return redis.call('SET', 'lock:r', string.rep('x', 512))\" 0");
    assert_int_equal(unlock("r"), 1);
    assert_contains(result.out, "lock1: not deleted: it is nothing that could be shown");
    assert_contains(result.out, "lock2: not deleted: it is nothing that could be shown");
    assert_contains(result.out, "lock3: deleted");
    assert_contains(result.out, "No task was let go");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 2);
}

TEST(a_leftover_is_taken_away)
{
    given_a_configuration();
    given_value("lock:r", "leftover", 1);
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "lock1: deleted");
    assert_contains(result.out, "lock2: had nothing");
    assert_value(0, "lock:r", "(nil)");
}

/* Somebody deleted its value on a majority, and it has not noticed yet. */
TEST(a_holder_that_believes_without_a_majority_is_told)
{
    given_a_holder();
    given_value("lock:r", "another", 2);
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "#1 could not be told");
    assert_contains(result.out, "was told that it lost the lock.");
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    char *entry = fleet_ask(&fleet, "ZRANGE retry 0 -1");
    assert_contains(entry, "an operator took it away (holdfast unlock)");
    free(entry);
}

TEST(only_this_resource_is_freed)
{
    given_a_configuration();
    given_value("lock:r", "a", 3);
    given_value("lock:rr", "a", 3);
    given_value("r", "a", 3);
    assert_int_equal(unlock("r"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:rr"), 3);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "r"), 3);
}

TEST(a_node_that_is_away_is_told)
{
    given_a_configuration();
    given_value("lock:r", "a", 3);
    redis_server_kill(fleet.locks.servers[1]);
    assert_int_equal(unlock("r"), 75);
    assert_contains(result.out, "lock2: not known: ");
    assert_value(0, "lock:r", "(nil)");
    assert_value(2, "lock:r", "(nil)");
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

TEST(the_oldest_that_waits_is_let_go)
{
    given_a_configuration();
    given_value("lock:r", "a", 3);
    given_a_waiter("r", 3, "old", 3600, false, true);
    given_a_waiter("r", 5, "young", 3600, false, true);
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "The task that has waited longest for it, if any does, was let go.");
    char *task = fleet_ask(&fleet, "LRANGE queue:parked 0 -1");
    assert_contains(task, "\"jid\":\"old\"");
    assert_lacks(task, "\"jid\":\"young\"");
    free(task);
    assert_int_equal(fleet_number(&fleet, "ZCARD schedule"), 1);
}

/* Of one process and of another: both are parked while the lock is held for long, and run one after the other. */
TEST(tasks_that_workers_parked_go_on)
{
    given_a_holder();
    holder_start("\"other\"");
    holder_push("jobs", "second", "r");
    test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r") == 1);
    holder_push("other", "third", "r");
    test_await(fleet_number(&fleet, "ZCARD hf:2:waiting:resource:r") == 2);
    assert_int_equal(unlock("r"), 0);
    test_await(is_noted("end first host0"));
    test_await(is_noted("begin second host0"));
    assert_false(is_noted("begin third"));
    assert_int_equal(unlock("r"), 0);
    test_await(is_noted("end second host0"));
    test_await(is_noted("begin third host1"));
}

/* A waiter that was stranded is worth the command, too. */
TEST(a_free_lock_lets_the_oldest_go)
{
    given_a_configuration();
    given_a_waiter("r", 3, "old", 3600, false, true);
    assert_int_equal(run_command("unlock", "r", NULL), 1);
    assert_contains(result.error, "nobody holds it; with --force, who waits for it would be let go");
    assert_int_equal(fleet_number(&fleet, "LLEN queue:parked"), 0);
    assert_int_equal(run_command("unlock", "r", "--force"), 2); /* behind -- it is another resource */
    assert_int_equal(unlock("r"), 1);
    assert_contains(result.error, "holdfast unlock: nobody held it");
    assert_lacks(result.out, "be told");
    assert_lacks(result.out, "had nothing");
    assert_int_equal(fleet_number(&fleet, "LLEN queue:parked"), 1);
}

static int unlock_seat(const char *seat)
{
    char path[128];
    config_path(path);
    program_result_free(&result);
    result =
        program_run_arguments((const char *const[]){"unlock", "-c", path, "--force", "--seat", seat, "r", NULL}, -1);
    return result.exit_code;
}

static void given_two_seats_in_use(void)
{
    for (unsigned seat = 2; seat <= 3; seat++)
        for (unsigned i = 0; i < 3; i++)
            lock_cluster_ask(&fleet.locks, i, "SET lock:hf:seat:%u:r theirs PX 600000", seat);
}

/* A seat that was not named is taken only where it is the only one. */
TEST(of_several_seats_one_must_be_named)
{
    given_a_configuration();
    given_two_seats_in_use();
    assert_int_equal(unlock("r"), 1);
    assert_contains(result.error, "several of its seats are in use, so nothing was done: name one with --seat");
    assert_contains(result.out, "\"r\" has 2 seats in use:");
    assert_int_equal(run_with("unlock", "--json", "r"), 1);
    assert_contains(result.out, "\"told\":[],\"woke\":false}");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:2:r"), 3);
    assert_int_equal(unlock_seat("9"), 1);
    assert_contains(result.out, "Seat 9 of \"r\" is free.");
    assert_contains(result.error, "nobody held it");
    assert_lacks(result.out, "had nothing");
    assert_int_equal(unlock_seat("2"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:2:r"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:3:r"), 3);
    assert_int_equal(unlock("r"), 0);
    assert_contains(result.out, "Seat 3 of \"r\" is held.");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:3:r"), 0);
}

static bool has_said(const struct program *program, const char *text)
{
    char *error = program_error_text(program);
    bool has = strstr(error, text) != NULL;
    free(error);
    return has;
}

TEST(in_a_browser_a_seat_can_be_named)
{
    char config[128], directory[PRIVATE_DIRECTORY_MAX], http[PRIVATE_DIRECTORY_MAX + 8], token[sizeof http + 8];
    const char *headers = "Authorization: Bearer " TOKEN "\r\n";
    given_a_configuration();
    given_two_seats_in_use();
    config_path(config);
    private_directory_create(directory);
    snprintf(http, sizeof http, "%s/http", directory);
    snprintf(token, sizeof token, "%s.token", http);
    int fd = open(token, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, TOKEN, strlen(TOKEN)), strlen(TOKEN));
    close(fd);
    struct program serve =
        program_start((const char *const[]){"serve", "-c", config, "--listen", http, "--token-file", token, NULL}, -1);
    test_await(has_said(&serve, "serve_started"));
    assert_contains(http_ask(http, "POST", "/api/change/unlock", headers, "name=r"), "\"exit_code\":1,");
    assert_contains(http_ask(http, "POST", "/api/change/unlock", headers, "name=r&seat=2"), "\"exit_code\":0,");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:2:r"), 0);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:hf:seat:3:r"), 3);
    assert_contains(http_ask(http, "POST", "/api/change/unlock", headers, "name=r&seat=3+--help"), "\"exit_code\":2,");
    assert_int_equal(kill(serve.pid, SIGTERM), 0);
    program_result_free(&result);
    result = program_wait(&serve);
    assert_contains(result.error, "serve_action action=unlock name=r option=- ");
    assert_contains(result.error, "serve_action action=unlock name=r option=\"--seat=2\" ");
    unlink(token);
    assert_int_equal(rmdir(directory), 0);
}

TEST(without_the_queue_node_the_lock_is_taken_away)
{
    given_a_configuration();
    given_value("lock:r", "a", 3);
    redis_server_kill(fleet.queue);
    assert_int_equal(unlock("r"), 75);
    assert_contains(result.error, "holdfast unlock: ");
    assert_contains(result.out, "the queue node could not be asked");
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:r"), 0);
    redis_server_restart(fleet.queue);
}

TEST(what_was_done_is_told_to_programs)
{
    char path[128];
    given_a_holder();
    config_path(path);
    program_result_free(&result);
    result = program_run_arguments((const char *const[]){"unlock", "-c", path, "--force", "--json", "r", NULL}, -1);
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "{\"resource\":\"r\",\"prefix\":\"lock:\",\"state\":\"held\"");
    assert_contains(result.out, "\"jid\":\"first\"");
    assert_contains(result.out, "\"taking\":\"");
    assert_contains(result.out, "\"forced\":true,\"told\":[\"heard\"],\"woke\":true}\n");
}

RUN_GROUP(one_fleet_set_up, one_fleet_tear_down, NULL, holding_clean)
