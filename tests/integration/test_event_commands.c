/* The command that is run when something happens to a task: what it is told, how many run, and what becomes of those
 * that fail, hang, or are too many. */
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/support/http_server.h"
#include "tests/support/launcher_fixture.h"
#include "tests/support/log_capture.h"
#include "tests/support/loop_until.h"
#include "tests/support/program_fixture.h"
#include "worker/events/event_commands.h"

static struct event_commands *commands;
static struct config_event settings;
static char *command_words[2], *event_words[2];

static int set_up(void **state)
{
    if (program_set_up(state) != 0)
        return -1;
    event_words[0] = strdup("dead");
    event_words[1] = strdup("expired");
    settings = (struct config_event){
        .command = {command_words, 0}, .events = {event_words, 2}, .timeout_ns = 20 * NS_PER_S, .parallel = 2};
    commands = event_commands_create(loop, launcher, &settings, "host-1");
    return 0;
}

static int tear_down(void **state)
{
    event_commands_destroy(commands);
    free(event_words[0]);
    free(event_words[1]);
    free(command_words[0]);
    free(command_words[1]);
    command_words[0] = command_words[1] = NULL;
    return program_tear_down(state);
}

/* A script that is told, as its first argument, the directory that the test may write to. */
static void use(const char *script)
{
    char place[512];
    snprintf(place, sizeof place, "%s", script_path("."));
    command_words[0] = strdup(script_write(script));
    command_words[1] = strdup(place);
    settings.command.count = 2;
}

static void tell(const char *name)
{
    event_commands_tell(commands, &(struct event){.name = name,
                                                  .jid = "0123456789abcdef01234567",
                                                  .class_name = "sums",
                                                  .queue = "low",
                                                  .resource = "account:7",
                                                  .error_class = "Net::Timeout",
                                                  .message = "no \"answer\"\n\x1b",
                                                  .fence = "17",
                                                  .at = {1763785000123456}});
}

static bool is_idle(void *context)
{
    (void)context;
    return !event_commands_are_busy(commands);
}

#define await_idle() launcher_until(is_idle, NULL)

static const char *content_of(const char *name)
{
    static char text[65536];
    FILE *file = fopen(script_path(name), "re");
    size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

static bool has_content(void *text)
{
    return strcmp(content_of("out"), text) == 0;
}

#define await_content(text) launcher_until(has_content, (void *)(uintptr_t)(text))

/* --- what it is told ---------------------------------------------------------------------------------------------- */

TEST(it_is_told_what_happened)
{
    setenv("HOLDFAST_SECRET", "of the worker", 1);
    use("{ cat; echo \"$HF_EVENT,$HF_JID,$HF_CLASS,$HOLDFAST_SECRET,$(pwd)\"; } >>$1/out");
    tell("dead");
    await_idle();
    assert_string_equal(content_of("out"),
                        "{\"event\":\"dead\",\"jid\":\"0123456789abcdef01234567\",\"class\":\"sums\",\"queue\":\"low\","
                        "\"resource\":\"account:7\",\"error_class\":\"Net::Timeout\",\"message\":\"no \\\"answer\\\"\\n"
                        "\\u001b\",\"fence\":\"17\",\"host\":\"host-1\",\"at\":1763785000.123}\n"
                        "dead,0123456789abcdef01234567,sums,,/\n");
}

TEST(it_gets_what_the_configuration_gives_it)
{
    static char directory[] = "/usr", variable[] = "STAGE=two words";
    char **variables = memory_zeroed(2, sizeof variables[0]);
    variables[0] = memory_text(variable);
    event_commands_set_environment(commands, variables);
    settings.surroundings.directory = directory;
    use("echo \"$HF_EVENT,$STAGE,$(pwd)\" >>$1/out");
    tell("dead");
    await_idle();
    assert_string_equal(content_of("out"), "dead,two words,/usr\n");
}

TEST(what_is_not_known_is_left_out)
{
    use("cat >>$1/out");
    event_commands_tell(commands, &(struct event){.name = "expired", .jid = "", .queue = "low", .at = {2000000}});
    await_idle();
    assert_string_equal(content_of("out"),
                        "{\"event\":\"expired\",\"queue\":\"low\",\"host\":\"host-1\",\"at\":2.000}\n");
}

TEST(nothing_is_run_that_nobody_asks_for)
{
    tell("dead"); /* there is no command */
    assert_true(is_idle(NULL));
    use("cat >>$1/out");
    assert_false(event_commands_want(commands, "skipped"));
    tell("skipped");
    assert_true(is_idle(NULL));
}

TEST(what_it_prints_is_in_the_log)
{
    use("echo out; echo err >&2");
    log_capture_begin();
    tell("dead");
    await_idle();
    const char *log = log_capture_end(NULL);
    assert_contains(log, "info event_output event=dead jid=0123456789abcdef01234567 stream=stdout text=out\n");
    assert_contains(log, "stream=stderr text=err\n");
    assert_lacks(log, "event_command_failed");
}

/* --- how many ----------------------------------------------------------------------------------------------------- */

TEST(no_more_run_at_once_than_may)
{
    use("echo begun >>$1/out; while [ ! -e $1/go ]; do sleep 0.01; done; echo ended >>$1/out");
    for (int i = 0; i < 5; i++)
        tell("dead");
    await_content("begun\nbegun\n");
    loop_for(loop, 100 * NS_PER_MS);
    assert_string_equal(content_of("out"), "begun\nbegun\n");
    settings.parallel = 5;
    fclose(fopen(script_path("go"), "we"));
    await_idle();
    unsigned lines = 0;
    for (const char *at = content_of("out"); *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 10);
}

TEST(too_many_are_dropped_and_counted)
{
    use("while [ ! -e $1/go ]; do sleep 0.01; done");
    log_capture_begin();
    for (int i = 0; i < 2 + EVENTS_WAITING_MAX + 7; i++)
        tell("dead");
    loop_for(loop, 1100 * NS_PER_MS);
    const char *log = log_capture_end(NULL);
    assert_contains(log, "warn events_dropped count=7 ");
    settings.command.count = 0; /* who waits is let go */
    fclose(fopen(script_path("go"), "we"));
    await_idle();
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(a_failure_is_a_warning)
{
    use("echo 'no such ticket' >&2; exit 3");
    log_capture_begin();
    tell("dead");
    await_idle();
    free(command_words[0]);
    command_words[0] = strdup("/no/such/command");
    tell("dead");
    await_idle();
    const char *log = log_capture_end(NULL);
    assert_contains(log, "warn event_command_failed event=dead jid=0123456789abcdef01234567 "
                         "reason=\"it exited with status 3: no such ticket\"\n");
    assert_contains(log, "reason=\"/no/such/command: cannot be started: there is no such file");
}

TEST(one_that_hangs_is_killed)
{
    use("trap '' TERM; echo $$ >$1/out; while :; do sleep 0.05; done");
    settings.timeout_ns = 300 * NS_PER_MS;
    log_capture_begin();
    tell("dead");
    await_idle();
    assert_contains(log_capture_end(NULL), "reason=\"it ran for longer than on_event.timeout\"");
    assert_true(process_is_dead((pid_t)strtol(content_of("out"), NULL, 10)));
}

static bool has_begun(void *context)
{
    (void)context;
    return strchr(content_of("out"), '\n') != NULL;
}

TEST(what_runs_at_the_end_is_killed)
{
    use("echo $$ >$1/out; while :; do sleep 0.05; done");
    log_capture_begin();
    for (int i = 0; i < 4; i++)
        tell("dead");
    launcher_until(has_begun, NULL);
    pid_t pid = (pid_t)strtol(content_of("out"), NULL, 10);
    event_commands_destroy(commands);
    commands = NULL;
    test_await(process_is_dead(pid));
    const char *log = log_capture_end(NULL);
    assert_contains(log, "reason=\"it was killed, because the worker ends\"");
    assert_contains(log, "events_dropped count=2 ");
}

/* --- the command that ships --------------------------------------------------------------------------------------- */

/* conf/event-webhook as the command, with `secret` in the file that it is to read. */
static void use_webhook(const struct http_server *server, const char *path, const char *secret)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", http_server_port(server), path);
    char line[2 * PATH_MAX], *here = getcwd(NULL, 0);
    snprintf(line, sizeof line,
             "printf '%s\nnot this\n' >$1/secret; chmod 600 $1/secret; exec %s/conf/event-webhook --secret-file "
             "$1/secret %s",
             secret, here, url);
    free(here);
    use(line);
}

static const char *header_of(const char *request, const char *name)
{
    static char value[2][256];
    static unsigned turn;
    const char *found = strstr(request, name);
    assert_non_null(found);
    turn ^= 1;
    snprintf(value[turn], sizeof value[0], "%.*s", (int)strcspn(found, "\r"), found);
    return value[turn];
}

TEST(a_webhook_is_called_until_it_takes_the_event)
{
    static const char *const answers[] = {"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
                                          "HTTP/1.1 204 Taken\r\n\r\n", NULL};
    struct http_server *server = http_server_start(answers);
    use_webhook(server, "/hook", "s3cret");
    log_capture_begin();
    tell("dead");
    await_idle();
    assert_lacks(log_capture_end(NULL), "event_command_failed");
    assert_int_equal(http_server_requests(server), 2);
    for (unsigned i = 0; i < 2; i++) {
        const char *request = http_server_request(server, i);
        assert_contains(request, "POST /hook HTTP/1.1\r\n");
        assert_contains(request, "\r\n\r\n{\"event\":\"dead\",\"jid\":\"0123456789abcdef01234567\"");
        http_request_expect_signature(request, "Holdfast-Signature", "s3cret");
    }
    assert_string_equal(header_of(http_server_request(server, 0), "Holdfast-Event-Id"),
                        header_of(http_server_request(server, 1), "Holdfast-Event-Id"));
    http_server_stop(server);
}

TEST(what_a_webhook_refuses_is_not_sent_again)
{
    static const char *const answers[] = {"HTTP/1.1 302 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
                                          NULL};
    struct http_server *server = http_server_start(answers);
    use_webhook(server, "/", "s3cret");
    log_capture_begin();
    tell("dead");
    await_idle();
    assert_contains(log_capture_end(NULL), "not delivered after 1 tries: status 302");
    assert_int_equal(http_server_requests(server), 1);
    http_server_stop(server);
}

RUN_TESTS_WITH(set_up, tear_down)
