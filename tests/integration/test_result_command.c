/* holdfast result: what it prints and with what it exits, for every state that a task can be in, and while it moves. */
#include "tests/support/admin_fixture.h"

#include <string.h>

#define TASK(jid, more)   "'{\"class\":\"echo\",\"args\":[],\"jid\":\"" jid "\"" more "}'"
#define RECORD(jid, text) "'{\"jid\":\"" jid "\",\"class\":\"echo\",\"ended_at\":1000.25,\"result\":" text "}'"

enum { NONE_TO_COME = 1, NONE_YET = 75 };

static void assert_none(int exit_code, const char *text, const char *json)
{
    admin("result", "j1");
    assert_int_equal(result.exit_code, exit_code);
    assert_string_equal(result.out, "");
    assert_contains(result.error, text);
    admin("result", "j1", "--json");
    assert_int_equal(result.exit_code, exit_code);
    assert_string_equal(result.error, "");
    assert_contains(result.out, json);
}

TEST(a_result_is_printed)
{
    given("SET hf:2:result:j1 " RECORD("j1", "{\"a\":[1, 2.50]}"));
    admin_good("result", "j1");
    assert_string_equal(result.out, "{\"a\":[1, 2.50]}\n");
    admin_good("result", "j1", "--json");
    assert_string_equal(result.out,
                        "{\"jid\":\"j1\",\"state\":\"done\",\"ended_at\":1000.25,\"result\":{\"a\":[1, 2.50]}}\n");
    admin_good("result", "j1", "--wait");
    assert_string_equal(result.out, "{\"a\":[1, 2.50]}\n");
}

TEST(a_cancelled_task_says_so)
{
    given("SET hf:2:result:j1 '{\"jid\":\"j1\",\"class\":\"echo\",\"ended_at\":1000.25,\"cancelled\":true}'");
    assert_none(NONE_TO_COME, "j1 has no result: it was cancelled at 1970-01-01T00:16:40Z",
                "{\"jid\":\"j1\",\"state\":\"cancelled\",\"ended_at\":1000.25,\"result\":null}");
    admin("result", "j1", "--wait");
    assert_int_equal(result.exit_code, NONE_TO_COME);
}

TEST(a_result_cannot_steer_a_terminal)
{
    given("SET hf:2:result:j1 \"{\\\"ended_at\\\":1.0,\\\"result\\\":\\\"\\xc2\\x9b2J\\xe2\\x80\\xae\\\"}\"");
    admin_good("result", "j1");
    assert_lacks(result.out, "\xc2\x9b");
    assert_lacks(result.out, "\xe2\x80\xae");
    admin("result", "j2");
    assert_lacks(result.error, "\x1b");
}

TEST(every_state_has_its_answer)
{
    assert_none(NONE_TO_COME,
                "j1 has no result. It is nowhere: ", "{\"jid\":\"j1\",\"state\":\"gone\",\"reason\":\"gone\"");
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    assert_none(NONE_YET, "j1 has no result yet. No worker is alive. Start one",
                "\"state\":\"queue\",\"reason\":\"no_worker\"");
    given("DEL queue:q");
    given("ZADD schedule 9000000000 " TASK("j1", ""));
    assert_none(NONE_YET, "It is scheduled for ", "\"state\":\"schedule\",\"reason\":\"scheduled\"");
    given("DEL schedule");
    given("ZADD retry 9000000000 " TASK("j1", ",\"error_class\":\"E\",\"error_message\":\"oops\""));
    assert_none(NONE_YET, "It failed with \"E: oops\", and is tried again in ",
                "\"state\":\"retry\",\"reason\":\"retry\"");
    assert_contains(result.out, "\"error\":\"E: oops\"");
    given("DEL retry");
    given("ZADD hf:2:processes 99999999999 h:1:a");
    given("EVAL \"redis.call('HSET', KEYS[1], '3', '0123456789abcdefq' .. string.char(10) .. ARGV[1])\" 1 "
          "hf:2:process:h:1:a " TASK("j1", ""));
    assert_none(NONE_YET, "h:1:a has just taken it", "\"state\":\"claims\",\"reason\":\"starts\"");
    given("DEL hf:2:process:h:1:a");
    given("ZADD dead 1000 " TASK("j1", ",\"error_class\":\"E\",\"error_message\":\"oops\""));
    assert_none(NONE_TO_COME, ": \"E: oops\". When the cause is mended", "\"state\":\"dead\",\"reason\":\"dead\"");
}

/* A result of an earlier run is one, whatever became of the jid since. */
TEST(a_result_counts_more_than_a_state)
{
    given("SET hf:2:result:j1 " RECORD("j1", "7"));
    given("ZADD dead 1000 " TASK("j1", ""));
    admin_good("result", "j1");
    assert_string_equal(result.out, "7\n");
}

TEST(what_was_not_looked_at_may_still_come)
{
    given("EVAL \"for i = 1, 30 do redis.call('LPUSH', 'queue:q', '{}') end redis.call('SADD', 'queues', 'q')\" 0");
    admin("result", "j1", "--scan-limit", "10");
    assert_int_equal(result.exit_code, NONE_YET);
    assert_contains(result.error, "It was not found among the entries that were looked at");
}

TEST(foreign_values_are_no_results)
{
    given("SET hf:2:result:j1 {}");
    admin("result", "j1");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "was not written by a worker");
    given("DEL hf:2:result:j1");
    given("LPUSH hf:2:result:j1 x");
    admin("result", "j1");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "WRONGTYPE");
}

TEST(mistakes_are_told)
{
    admin("result");
    assert_int_equal(result.exit_code, 2);
    admin("result", "with\nline");
    assert_int_equal(result.exit_code, 2);
    admin("result", "j1", "--wait=soon");
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "--wait");
    admin("result", "j1", "--scan-limit", "0");
    assert_int_equal(result.exit_code, 2);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static struct program waiting_start(const char *wait)
{
    return program_start((const char *const[]){"result", "j1", wait, "-c", admin_config, NULL}, -1);
}

/* It has looked so often at the result. */
static void await_looks(unsigned looks)
{
    test_await(redis_server_calls(server, "get") >= looks);
}

static void assert_ends(struct program *program, int exit_code, const char *out, const char *error)
{
    struct program_result ended = program_wait(program);
    assert_contains(ended.error, error);
    assert_string_equal(ended.out, out);
    assert_int_equal(ended.exit_code, exit_code);
    program_result_free(&ended);
}

TEST(waiting_ends_when_the_result_is_there)
{
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    struct program program = waiting_start("--wait");
    await_looks(3);
    given("DEL queue:q");
    given("SET hf:2:result:j1 " RECORD("j1", "\"done\""));
    assert_ends(&program, 0, "\"done\"\n", "");
}

/* No look of a wait is told, but for what ends it: once. */
TEST(waiting_ends_when_the_result_is_no_text)
{
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    struct program program = waiting_start("--wait");
    await_looks(3);
    given("LPUSH hf:2:result:j1 x");
    struct program_result ended = program_wait(&program);
    const char *told = strstr(ended.error, "holdfast result: the node refused: WRONGTYPE");
    assert_non_null(told);
    assert_lacks(told + 1, "holdfast result: ");
    assert_int_equal(ended.exit_code, 1);
    program_result_free(&ended);
}

TEST(waiting_ends_when_the_task_is_dead)
{
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    struct program program = waiting_start("--wait");
    await_looks(2);
    given("DEL queue:q");
    given("ZADD dead 1000 " TASK("j1", ",\"error_class\":\"E\",\"error_message\":\"oops\""));
    assert_ends(&program, NONE_TO_COME, "", "j1 has no result. It died ");
}

TEST(waiting_ends_when_the_task_is_gone)
{
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    struct program program = waiting_start("--wait=1h");
    await_looks(2);
    given("DEL queue:q");
    assert_ends(&program, NONE_TO_COME, "", "j1 has no result. It is nowhere: ");
}

TEST(waiting_ends_when_its_time_is_over)
{
    given("ZADD schedule 9000000000 " TASK("j1", ""));
    struct program program = waiting_start("--wait=300ms");
    assert_ends(&program, NONE_YET, "", "no result yet. It is scheduled for ");
}

TEST(waiting_can_be_interrupted)
{
    given("ZADD schedule 9000000000 " TASK("j1", ""));
    struct program program = waiting_start("--wait");
    await_looks(2);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    struct program_result ended = program_wait(&program);
    assert_int_equal(ended.exit_code, NONE_YET);
    program_result_free(&ended);
}

/* As in the background of a script, whose Ctrl-C is not meant for it. */
TEST(what_the_caller_ignores_interrupts_no_waiting)
{
    given("ZADD schedule 9000000000 " TASK("j1", ""));
    signal(SIGINT, SIG_IGN);
    struct program program = waiting_start("--wait");
    signal(SIGINT, SIG_DFL);
    await_looks(2);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    await_looks(4);
    given("DEL schedule");
    assert_ends(&program, NONE_TO_COME, "", "no result");
}

/* The states are not walked through with every look. */
TEST(waiting_costs_little)
{
    given("SADD queues q");
    given("LPUSH queue:q " TASK("j1", ""));
    struct program program = waiting_start("--wait");
    await_looks(4);
    unsigned searches = redis_server_calls(server, "lrange");
    assert_true(searches <= 2);
    given("SET hf:2:result:j1 " RECORD("j1", "1"));
    assert_ends(&program, 0, "1\n", "");
}

/* --- holdfast push --wait ---------------------------------------------------------------------------------------- */

/* Starts it; `jid` is that of the task when it is in its queue. */
static struct program push_start(const char *wait, const char *more, char jid[25])
{
    struct program program =
        program_start((const char *const[]){"push", "-c", admin_config, "echo", wait, more, NULL}, -1);
    test_await(queue_probe_number(server, "LLEN queue:default") == 1);
    char *task = redis_server_command(server, "LINDEX queue:default 0");
    const char *found = strstr(task, "\"jid\":\"");
    assert_non_null(found);
    snprintf(jid, 25, "%.24s", found + strlen("\"jid\":\""));
    free(task);
    return program;
}

static void given_a_result(const char *jid)
{
    given("SET hf:2:result:%s '{\"jid\":\"%s\",\"class\":\"echo\",\"ended_at\":1000.25,\"result\":\"done\"}'", jid,
          jid);
}

TEST(push_waits_for_its_result)
{
    char jid[25];
    struct program program = push_start("--wait", NULL, jid);
    await_looks(2);
    given("DEL queue:default");
    given_a_result(jid);
    assert_ends(&program, 0, "\"done\"\n", "");
}

TEST(push_prints_one_object)
{
    char jid[25], expected[128];
    struct program program = push_start("--wait=1h", "--json", jid);
    given_a_result(jid);
    snprintf(expected, sizeof expected,
             "{\"jid\":\"%s\",\"state\":\"done\",\"ended_at\":1000.25,\"result\":\"done\"}\n", jid);
    assert_ends(&program, 0, expected, "");
}

/* Its time begins before the task is pushed. */
TEST(push_names_the_task_when_it_gives_up)
{
    char jid[25], expected[64];
    struct program program = push_start("--wait=4s", NULL, jid);
    snprintf(expected, sizeof expected, "`holdfast result %s --wait`", jid);
    assert_ends(&program, NONE_YET, "", expected);
}

TEST(push_names_the_setting_when_no_result_was_kept)
{
    char jid[25];
    struct program program = push_start("--wait", NULL, jid);
    given("DEL queue:default");
    assert_ends(&program, NONE_TO_COME, "", "only a class with a result_ttl leaves a result");
}

TEST(push_waits_for_nothing_that_is_not_pushed)
{
    given("SET queue:default text");
    admin("push", "echo", "--wait");
    assert_int_equal(result.exit_code, 1);
    assert_string_equal(result.out, "");
    assert_int_equal(redis_server_calls(server, "get"), 0);
}

RUN_ADMIN_TESTS
