/* holdfast push: what it prints, what arrives at the node, and how it exits. Trouble with the node is in
 * test_push_nodes.c. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "queue/envelope.h"
#include "tests/support/private_directory.h"
#include "tests/support/push_fixture.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/terminal.h"

/* The oldest task of a queue, parsed. */
static char *task_parse(const char *queue, struct envelope *envelope)
{
    struct error error = ERROR_NONE;
    char *text = redis_server_command(server, "LINDEX queue:%s -1", queue);
    *envelope = (struct envelope){.member_count = 0};
    if (!envelope_parse(envelope, text, strlen(text), &ENVELOPE_LIMITS_DEFAULT, &error))
        fail_msg("%s: %s", text, error.text);
    return text;
}

/* --- one task ----------------------------------------------------------------------------------------------------- */

TEST(test_one_task)
{
    push(WORDS("echo"));
    assert_exit(0);
    assert_string_equal(result.error, "");
    struct envelope task;
    char *text = task_parse("default", &task);
    assert_int_equal(strlen(result.out), 25);
    assert_memory_equal(result.out, task.jid, 24);
    assert_string_equal(task.class_name, "echo");
    assert_int_equal(task.args.length, 2);
    assert_int_equal(task.resource_count, 0);
    assert_int_equal(task.retry_max, 25);
    assert_reply(server, "default", "SMEMBERS queues");
    envelope_fini(&task);
    free(text);
}

/* The plugins of this build are at hand. */
TEST(test_arguments_that_a_worker_would_refuse)
{
    push(WORDS("sleep", "[\"8s\"]"));
    assert_exit(0);
    assert_contains(result.error, "holdfast push: warning: a worker buries a task sleep with these arguments: ");
    push(WORDS("sleep", "[\"1\"]", "--queue", "../x"));
    push(WORDS("../jobs/sleep", "[\"8s\"]"));
    assert_exit(0);
    assert_string_equal(result.error, "");
}

/* With a terminal as standard error. The caller frees what was said there. */
static char *push_at_terminal(const char *const *words)
{
    int terminal = terminal_open(), other = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC), status = 0;
    const char *arguments[ARGUMENTS_MAX + 1];
    char program[4096], *said = calloc(1, 4096);
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    complete(words, arguments + 1);
    arguments[0] = program;
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDOUT_FILENO);
        dup2(other, STDERR_FILENO);
        execv(program, (char **)(uintptr_t)arguments);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    ssize_t length = read(terminal, said, 4095);
    said[length > 0 ? length : 0] = '\0';
    close(other);
    close(terminal);
    return said;
}

TEST(test_a_task_that_nobody_serves_is_told_at_a_terminal)
{
    char *said = push_at_terminal(WORDS("echo", "[]", "--jid", "lonely"));
    assert_contains(said, "no living worker serves the queue default; `holdfast why lonely` says what to do");
    free(said);
    free(redis_server_command(server, "ZADD hf:2:processes 99999999999 h:1:a"));
    free(redis_server_command(server, "SADD processes h:1:a"));
    free(redis_server_command(server, "HSET h:1:a info '{\"queues\":[\"default\"]}' hf_classes other"));
    said = push_at_terminal(WORDS("echo"));
    assert_contains(said, "no living worker serves the class echo; ");
    free(said);
    free(redis_server_command(server, "HSET h:1:a hf_classes echo"));
    said = push_at_terminal(WORDS("echo"));
    assert_string_equal(said, "");
    free(said);
    push(WORDS("other")); /* a script is not told */
    assert_string_equal(result.error, "");
}

TEST(test_all_options_of_one_task)
{
    push(WORDS("bank.transfer", "[1e400, 123456789012345678901234567890 ,\"\\u00e9\xc3\xa9\"]", "--queue", "urgent",
               "-r", "account:\xc3\xa9", "--resource", "account:\"b\"", "-r", "account:a", "--jid", "my-own", "--retry",
               "3"));
    assert_exit(0);
    assert_string_equal(result.out, "my-own\n");
    struct envelope task;
    char *text = task_parse("urgent", &task);
    assert_string_equal(task.jid, "my-own");
    assert_string_equal(task.queue, "urgent");
    assert_int_equal(task.retry_max, 3);
    assert_int_equal(task.resource_count, 3);
    assert_string_equal(task.resources[0], "account:\"b\"");
    assert_string_equal(task.resources[2], "account:\xc3\xa9");
    static const char args[] = "[1e400, 123456789012345678901234567890 ,\"\\u00e9\xc3\xa9\"]";
    assert_int_equal(task.args.length, sizeof args - 1);
    assert_memory_equal(task.args.bytes, args, sizeof args - 1);
    envelope_fini(&task);
    free(text);
}

TEST(test_one_task_as_json)
{
    push(WORDS("a \"class\"", "--json", "--jid", "j", "-q", "q"));
    assert_exit(0);
    assert_string_equal(result.out, "{\"jid\":\"j\",\"class\":\"a \\\"class\\\"\",\"queue\":\"q\"}\n");
}

TEST(test_a_task_at_a_time)
{
    push(WORDS("echo", "--at", "2100-01-01T01:00:00.5+01:00", "--json", "--jid", "j", "--tag", "night", "--expires-in",
               "90s"));
    assert_exit(0);
    assert_string_equal(result.out, "{\"jid\":\"j\",\"class\":\"echo\",\"queue\":\"default\",\"at\":4102444800.5}\n");
    char *text = redis_server_command(server, "ZRANGEBYSCORE schedule 4102444800.5 4102444800.5");
    assert_contains(text, "\"tags\":[\"night\"],\"created_at\":");
    assert_contains(text, "\"expires_in\":90.0,\"expires_at\":4102444890.5}");
    assert_lacks(text, "enqueued_at");
    assert_lacks(text, "\"at\"");
    free(text);
    push(WORDS("echo", "--in", "1h"));
    assert_exit(0);
    assert_int_equal(strlen(result.out), 25);
    assert_reply(server, "2", "ZCARD schedule");
    push(WORDS("echo", "--at", "1000000000", "--json"));
    assert_lacks(result.out, "\"at\"");
    assert_length("default", 1);
}

TEST(test_lines_with_times)
{
    push_text(WORDS("-", "--in", "1h"), "{\"class\":\"t\",\"args\":[],\"at\":4102444800}\n"
                                        "{\"class\":\"t\",\"args\":[],\"at\":1}\n"
                                        "{\"class\":\"t\",\"args\":[]}\n"
                                        "{\"class\":\"t\",\"args\":[],\"at\":1000000000}\n");
    assert_exit(0);
    assert_contains(result.out, "4 tasks pushed");
    assert_reply(server, "3", "ZCARD schedule");
    assert_reply(server, "1", "ZCOUNT schedule 4102444800 4102444800");
    assert_length("default", 1);
}

/* What Lua says about one task and the node's time. */
static void assert_seconds_from_now(const char *look, long long least, long long most)
{
    char *text = redis_server_command(server,
                                      "EVAL \"local now = tonumber(redis.call('TIME')[1]) local function task(text) "
                                      "return cjson.decode(text) end return math.floor(%s - now)\" 0",
                                      look);
    assert_in_range(strtoll(text, NULL, 10) + 100000, least + 100000, most + 100000);
    free(text);
}

TEST(durations_count_by_the_clock_of_the_node)
{
    if (getenv("HOLDFAST_SANITIZED") != NULL)
        test_skip("a clock that is preloaded comes before the library of the sanitizer");
    static const int64_t offsets_ns[] = {-120 * NS_PER_S, 3600 * NS_PER_S};
    for (size_t i = 0; i < sizeof offsets_ns / sizeof offsets_ns[0]; i++) {
        char path[PRIVATE_DIRECTORY_MAX];
        int file = private_file_create(path);
        const int64_t clock[2] = {offsets_ns[i]};
        free(redis_server_command(server, "FLUSHALL"));
        assert_int_equal(write(file, clock, sizeof clock), sizeof clock);
        stepped_clock_enter(path);
        push(WORDS("echo", "--in", "1000s", "--expires-in", "500s"));
        assert_exit(0);
        push_text(WORDS("-"), "{\"class\":\"t\",\"args\":[],\"at\":3000}\n{\"class\":\"t\",\"args\":[]}\n");
        stepped_clock_leave();
        assert_exit(0);
        assert_seconds_from_now("redis.call('ZRANGE', 'schedule', 0, 0, 'WITHSCORES')[2]", 900, 1000);
        assert_seconds_from_now("task(redis.call('ZRANGE', 'schedule', 0, 0)[1]).expires_at", 1400, 1500);
        assert_seconds_from_now("redis.call('ZRANGE', 'schedule', 1, 1, 'WITHSCORES')[2]", 2900, 3000);
        assert_seconds_from_now("task(redis.call('LINDEX', 'queue:default', 0)).created_at", -100, 0);
        close(file);
        unlink(path);
    }
}

/* Nothing is added to these lines that would tell them apart. */
TEST(test_the_same_line_twice_is_two_tasks)
{
    push_text(WORDS("-", "--in", "1h"), "{\"class\":\"t\",\"args\":[],\"jid\":\"j\",\"created_at\":1.5}\n"
                                        "{\"class\":\"t\",\"args\":[],\"jid\":\"j\",\"created_at\":1.5}\n");
    assert_exit(0);
    assert_reply(server, "2", "ZCARD schedule");
    push(WORDS("t", "[]", "--jid", "k", "--unique", "--at", "2100-01-01T00:00:00Z"));
    char *text = redis_server_command(server, "ZRANGE schedule -1 -1");
    free(redis_server_command(server,
                              "EVAL \"return redis.call('DEL', unpack(redis.call('KEYS', 'hf:2:unique:*')))\" 0"));
    push_text(WORDS("-", "--unique", "--at", "2100-01-01T00:00:00Z"), text);
    assert_exit(0);
    assert_reply(server, "4", "ZCARD schedule");
    free(text);
}

TEST(test_a_unique_task)
{
    push(WORDS("echo", "[1]", "--unique", "--jid", "one"));
    assert_exit(0);
    push(WORDS("echo", "[1]", "--unique=1m"));
    assert_exit(1);
    assert_contains(result.error, "not pushed: the task one has this class and these arguments");
    assert_string_equal(result.out, "");
    push(WORDS("echo", "[2]", "--unique=1m"));
    assert_exit(0);
    push_text(WORDS("echo", "-", "--unique", "--json"), "[1]\n[3]\n[2]\n[4]\n");
    assert_exit(1);
    assert_contains(result.error, "line 1: not pushed: the task one has");
    assert_contains(result.error, "line 3: not pushed: ");
    assert_contains(result.out, "{\"pushed\":2,\"duplicate\":2,");
    assert_contains(result.out, "\"complete\":true");
    assert_length("default", 4);
    assert_reply(server, "4", "EVAL \"return #redis.call('KEYS', 'hf:2:unique:*')\" 0");
}

TEST(test_a_task_that_is_never_retried)
{
    push(WORDS("echo", "--retry", "false"));
    struct envelope task;
    char *text = task_parse("default", &task);
    assert_true(task.retry_off);
    envelope_fini(&task);
    free(text);
}

TEST(test_wrong_use)
{
    static const struct {
        const char *words[8];
        const char *says;
    } uses[] = {
        {{NULL}, "name a class"},
        {{"echo", "5", NULL}, "array"},
        {{"echo", "[1", NULL}, "[1"},
        {{"echo", "[\"caf\xe9\"]", NULL}, "not UTF-8"}, /* other arguments would be another task */
        {{"echo", "{\"a\":1}", NULL}, "array"},
        {{"echo", "[]", "more", NULL}, "more"},
        {{"echo", "[]", "-", NULL}, "unexpected"},
        {{"", NULL}, "class"},
        {{"echo", "-q", "a b", NULL}, "queue"},
        {{"echo", "-q", "hf:x", NULL}, "queue"},
        {{"echo", "-r", "", NULL}, "resource"},
        {{"echo", "-r", "hf:lock", NULL}, "hf:"},
        {{"echo", "-r", "\xff", NULL}, "UTF-8"},
        {{"echo", "--retry", "often", NULL}, "--retry"},
        {{"echo", "--retry", "-1", NULL}, "--retry"},
        {{"echo", "--at", "tomorrow", NULL}, "--at"},
        {{"echo", "--in", "5", NULL}, "--in"},
        {{"echo", "--at", "1795284000", "--in", "5s", NULL}, "not both"},
        {{"echo", "--unique=long", NULL}, "--unique"},
        {{"echo", "--unique=0", NULL}, "--unique: 0 would end at once"},
        {{"echo", "--unique=0s", NULL}, "--unique: 0s would end at once"},
        {{"echo", "--at", "1", NULL}, "--at: 1 seconds since 1970 are hardly meant"},
        {{"echo", "--expires-in", "x", NULL}, "--expires-in"},
        {{"echo", "--tag", "\xff", NULL}, "tag"},
        {{"echo", "--jid", "\xc3\xa9", NULL}, "jid"},
        {{"-", "--jid", "x", NULL}, "--jid"},
        {{"echo", "--wait=5", NULL}, "--wait"},
        {{"-", "--wait", NULL}, "--wait is for one task"},
        {{"echo", "--wait", "--dry-run", NULL}, "--wait is for one task"},
        {{"echo", "--wait", "--jid", "x", NULL}, "--wait is for one task"},
        {{"echo", "--node-timeout", "5", NULL}, "--node-timeout"},
        {{"echo", "--database", "x", NULL}, "--database"},
        {{"echo", "-p", "0", NULL}, "--port"},
        {{"echo", "-p", "99999", NULL}, "--port"},
        {{"echo", "-c", "/nowhere", NULL}, "-c FILE"},
        {{"echo", "--socket", "/nowhere", NULL}, "--socket"},
        {{"echo", "--user", "me", NULL}, "--user"},
        {{"echo", "--resourse", "x", NULL}, "--resource"},
    };
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        push(uses[i].words);
        assert_exit(2);
        assert_contains(result.error, uses[i].says);
        assert_string_equal(result.out, "");
    }
    assert_reply(server, "0", "DBSIZE");
}

/* Runs it with a standard output that takes nothing. */
static void push_without_output(const char *const *words, int input)
{
    const char *arguments[ARGUMENTS_MAX];
    complete(words, arguments);
    struct program program = program_start_to(arguments, input, open("/dev/full", O_RDWR | O_CLOEXEC));
    program_result_free(&result);
    result = program_wait(&program);
}

TEST(test_what_was_pushed_is_said_when_the_result_cannot_be)
{
    static const char lines[] = "{\"class\":\"t\",\"args\":[]}\n{\"class\":\"t\",\"args\":[]}\n";
    push_without_output(WORDS("echo", "--jid", "mine"), -1);
    assert_exit(1);
    assert_contains(result.error, "could not be written, but the task mine was pushed");
    assert_length("default", 1);
    push_without_output(WORDS("-"), input_of(lines, sizeof lines - 1));
    assert_exit(1);
    assert_contains(result.error, "could not be written, but 2 of 2 tasks were pushed");
    push_without_output(WORDS("echo", "--dry-run"), -1);
    assert_exit(1);
    assert_lacks(result.error, "was pushed");
}

TEST(test_only_checking)
{
    push(WORDS("echo", "[1]", "--dry-run", "--jid", "j"));
    assert_exit(0);
    assert_contains(result.out, "{\"class\":\"echo\",\"args\":[1],\"jid\":\"j\",\"queue\":\"default\",\"retry\":true,");
    push_text(WORDS("-", "--dry-run"), "{\"class\":\"t\",\"args\":[]}\n\n{\"class\":\"t\",\"args\":[]}\n");
    assert_exit(0);
    assert_string_equal(result.out, "2 tasks are fine\n");
    push_text(WORDS("-", "--dry-run", "-k"), "{\"class\":\"t\",\"args\":[]}\nx\n{\"class\":\"t\"}\n");
    assert_exit(1);
    assert_contains(result.error, "line 2: ");
    assert_contains(result.error, "line 3: ");
    assert_reply(server, "0", "DBSIZE");
}

/* --- standard input ----------------------------------------------------------------------------------------------- */

TEST(test_bulk)
{
    enum { TASKS = 20000 };
    struct buffer text = {0};
    for (int i = 0; i < TASKS; i++)
        buffer_format(&text, "{\"class\":\"t\",\"args\":[%d],\"resource\":\"r%d\"%s}\n", i, i % 7,
                      i % 2 == 0 ? ",\"queue\":\"even\"" : "");
    push_from(WORDS("-", "-q", "odd"), input_of(text.bytes, text.length));
    assert_exit(0);
    assert_contains(result.out, "20000 tasks pushed in ");
    assert_string_equal(result.error, "");
    assert_length("even", TASKS / 2);
    assert_length("odd", TASKS / 2);
    assert_reply(server, "even\nodd", "SORT queues ALPHA");
    assert_reply(server, "in order",
                 "EVAL \"for q = 1, 2 do local all = redis.call('LRANGE', KEYS[q], 0, -1) for i = 1, #all do "
                 "local n = 2 * (#all - i) + q - 1 "
                 "if not string.find(all[i], 'args.:.' .. n .. '%%],') then return all[i] end end end return 'in "
                 "order'\" 2 queue:even queue:odd");
    assert_reply(
        server, "20000",
        "EVAL \"local seen, n = {}, 0 for q = 1, 2 do for _, t in ipairs(redis.call('LRANGE', KEYS[q], 0, -1)) "
        "do local j = cjson.decode(t).jid if not seen[j] then n = n + 1 seen[j] = true end end end return n\" "
        "2 queue:even queue:odd");
    buffer_fini(&text);
}

TEST(test_arguments_as_lines)
{
    push_text(WORDS("render", "--stdin", "-r", "screen", "--json"), "[1]\r\n\n  [ ]\n[\"last\"]");
    assert_exit(0);
    assert_contains(
        result.out,
        "{\"pushed\":3,\"duplicate\":0,\"unknown\":0,\"refused\":0,\"not_sent\":0,\"bad_lines\":0,\"lines\":4,"
        "\"complete\":true,\"seconds\":");
    assert_length("default", 3);
    struct envelope task;
    char *text = task_parse("default", &task);
    assert_string_equal(task.class_name, "render");
    assert_string_equal(task.resources[0], "screen");
    assert_memory_equal(task.args.bytes, "[1]", 3);
    envelope_fini(&task);
    free(text);
}

TEST(test_no_lines_at_all)
{
    push_text(WORDS("-"), "");
    assert_exit(0);
    assert_contains(result.out, "0 tasks pushed");
}

/* Half a surrogate pair and U+0000 are JSON, and the handler's affair. */
TEST(arguments_arrive_as_they_are)
{
    push(WORDS("echo", "[\"\\ud83d\\u0000\", 12345678901234567890]"));
    assert_exit(0);
    char *text = redis_server_command(server, "LINDEX queue:default 0");
    assert_contains(text, "\"args\":[\"\\ud83d\\u0000\", 12345678901234567890]");
    free(text);
}

/* The bytes of a large task with all kinds of text arrive as they are. */
TEST(test_a_large_task_keeps_its_bytes)
{
    struct buffer text = {0};
    buffer_append_text(&text, "{\"class\":\"\xf0\x9f\x90\x99\",\"args\":[\"");
    while (text.length < 1000000)
        buffer_append_text(&text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x99\\u0000\\ud83d\\udc19\\/ \\\"x");
    buffer_append_text(&text, "\", -0, 1E+400, {\"k\":[]}]");
    size_t length = text.length;
    buffer_append_text(&text, "}\n");
    push_from(WORDS("-"), input_of(text.bytes, text.length));
    assert_exit(0);
    char *pushed = redis_server_command(server, "LINDEX queue:default 0");
    assert_true(strlen(pushed) > length);
    assert_memory_equal(pushed, text.bytes, length);
    free(pushed);
    buffer_fini(&text);
}

TEST(test_a_bad_line_stops_the_reading)
{
    struct buffer text = {0};
    for (int i = 1; i <= 5000; i++)
        buffer_format(&text, i == 3001 ? "{\"class\":\"t\",\"args\":[%d]\n" : "{\"class\":\"t\",\"args\":[%d]}\n", i);
    push_from(WORDS("-"), input_of(text.bytes, text.length));
    assert_exit(1);
    assert_contains(result.error, "holdfast push: line 3001: ");
    assert_contains(result.error, "nothing after line 3001 was pushed");
    assert_contains(result.out, "3000 tasks pushed");
    assert_length("default", 3000);

    free(redis_server_command(server, "FLUSHALL"));
    push_from(WORDS("-", "--keep-going", "--json"), input_of(text.bytes, text.length));
    assert_exit(1);
    assert_contains(result.error, "line 3001: ");
    assert_contains(result.out, "{\"pushed\":4999,");
    assert_contains(result.out, "\"bad_lines\":1,\"lines\":5000,\"complete\":true,");
    assert_length("default", 4999);
    buffer_fini(&text);
}

TEST(test_many_bad_lines_are_counted)
{
    struct buffer text = {0};
    for (int i = 1; i <= 100; i++)
        buffer_append_text(&text, "nonsense\n");
    buffer_append_text(&text, "[]\n");
    push_from(WORDS("t", "-", "-k"), input_of(text.bytes, text.length));
    assert_exit(1);
    assert_contains(result.error, "line 1: ");
    assert_contains(result.error, "line 20: ");
    assert_lacks(result.error, "line 21: ");
    assert_contains(result.error, "and 80 more");
    assert_contains(result.out, "1 task pushed");
    buffer_fini(&text);
}

TEST(test_a_line_that_is_too_long)
{
    struct buffer text = {0};
    buffer_append_text(&text, "[1]\n[\"");
    while (text.length < 3000000)
        buffer_append_text(&text, "xxxxxxxxxx");
    buffer_append_text(&text, "\"]\n[2]\n");
    push_from(WORDS("t", "-", "-k"), input_of(text.bytes, text.length));
    assert_exit(1);
    assert_contains(result.error, "line 2: longer than ");
    assert_length("default", 2);
    buffer_fini(&text);
}

/* Lines of a pipe are pushed when they come, not when the pipe ends. */
TEST(test_lines_are_pushed_as_they_come)
{
    int fds[2];
    const char *arguments[ARGUMENTS_MAX];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    complete(WORDS("t", "-"), arguments);
    struct program program = program_start(arguments, fds[0]);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(fds[1], "[1]\n", 4), 4);
        test_await(queue_probe_number(server, "LLEN queue:default") == i);
    }
    close(fds[1]);
    result = program_wait(&program);
    assert_exit(0);
    assert_contains(result.out, "3 tasks pushed");
}

static void assert_accounted_for(int number)
{
    int fds[2];
    const char *arguments[ARGUMENTS_MAX];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    complete(WORDS("t", "-"), arguments);
    struct program program = program_start(arguments, fds[0]);
    assert_int_equal(write(fds[1], "[1]\n[2]\n", 8), 8);
    test_await(queue_probe_number(server, "LLEN queue:default") == 2);
    kill(program.pid, number);
    result = program_wait(&program);
    close(fds[1]);
    assert_exit(1);
    assert_contains(result.error, number == SIGINT ? "interrupted" : "told to stop");
    assert_contains(result.error, "nothing after line 2 was pushed");
    assert_contains(result.out, "2 tasks pushed");
}

TEST(an_interrupt_is_accounted_for)
{
    assert_accounted_for(SIGINT);
}

TEST(a_terminal_that_is_closed_is_accounted_for)
{
    assert_accounted_for(SIGHUP);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, push_set_up, push_tear_down)
