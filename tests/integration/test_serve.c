/* holdfast serve over HTTP, without a browser: who may do what, what it does without its queue node, what it reads
 * again, and what many readers cost. */
#include "tests/support/admin_fixture.h"

#include <glob.h>

#include "tests/support/http_ask.h"
#include "worker/print/exit_code.h"

#define TOKEN       "the token of this test"
#define OTHER_TOKEN "another one, which comes later"
#define BEARER      "Authorization: Bearer "
#define SEARCH      "/api/search/tasks?state=queue&queue=jobs&limit="
enum { SEARCHES_MAX = 32 };

static struct program serve;
static char http[PRIVATE_DIRECTORY_MAX + 16], token_file[PRIVATE_DIRECTORY_MAX + 16];

static void token_write(const char *token)
{
    int fd = open(token_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, token, strlen(token)), strlen(token));
    close(fd);
}

static bool has_logged(const char *text)
{
    char *error = program_error_text(&serve);
    bool found = strstr(error, text) != NULL;
    free(error);
    return found;
}

static void serve_with(const char *prefix, const char *option)
{
    serve = program_start((const char *const[]){"serve", "-c", admin_config, "--listen", http, "--token-file",
                                                token_file, "--prefix", prefix, option, NULL},
                          -1);
    test_await(has_logged("serve_started"));
}

static void serve_begin(const char *prefix)
{
    serve_with(prefix, NULL);
}

static void serve_end(void)
{
    assert_int_equal(kill(serve.pid, SIGTERM), 0);
    program_result_free(&result);
    result = program_wait(&serve);
    serve.pid = 0;
    if (result.exit_code != 0)
        fail_msg("%d: %s", result.exit_code, result.error);
}

static int set_up(void **state)
{
    admin_set_up(state);
    snprintf(http, sizeof http, "%s/http", admin_directory);
    snprintf(token_file, sizeof token_file, "%s/token", admin_directory);
    token_write(TOKEN "\n");
    serve.pid = 0;
    return 0;
}

static int tear_down(void **state)
{
    if (serve.pid != 0) {
        kill(serve.pid, SIGKILL);
        program_result_free(&result);
        result = program_wait(&serve);
    }
    unlink(http);
    unlink(token_file);
    return admin_tear_down(state);
}

static bool says(const char *path, const char *headers, const char *text)
{
    return strstr(http_ask(http, "GET", path, headers, ""), text) != NULL;
}

/* To who has the token: at a unix socket everybody needs it. */
static bool tells(const char *path, const char *text)
{
    return says(path, BEARER TOKEN "\r\n", text);
}

static bool post_says(const char *path, const char *headers, const char *body, const char *text)
{
    return strstr(http_ask(http, "POST", path, headers, body), text) != NULL;
}

/* "Cookie: holdfast=..." of a login. */
static const char *login(const char *form)
{
    static char cookie[128];
    char value[64] = "";
    const char *found = strstr(http_ask(http, "POST", "/api/login", "", form), "Set-Cookie: holdfast=");
    assert_non_null(found);
    assert_int_equal(sscanf(found, "Set-Cookie: holdfast=%63[0-9a-f]", value), 1);
    snprintf(cookie, sizeof cookie, "Cookie: holdfast=%s\r\n", value);
    return cookie;
}

/* --- who may do what ---------------------------------------------------------------------------------------------- */

/* Numbers of JavaScript are doubles. */
TEST(the_page_gets_a_task_as_it_is)
{
    static const char task[] =
        "{\"class\":\"echo\",\"args\":[12345678901234567890,9007199254740993,1e400],\"jid\":\"j1\","
        "\"retry_count\":12345678901234567890}";
    given("SADD queues q");
    given("LPUSH queue:q '%s'", task);
    serve_begin("");
    assert_true(
        tells("/api/search/task?id=j1",
              "\"task\":\"{\\\"class\\\":\\\"echo\\\",\\\"args\\\":[12345678901234567890,9007199254740993,1e400],"));
    assert_true(tells("/api/search/tasks?state=queue&queue=q",
                      "\"args\":[\"12345678901234567890\",\"9007199254740993\",\"1e400\"],"));
}

/* A producer may call a queue anything. */
TEST(metrics_are_text_whatever_queues_are_called)
{
    given("SADD queues \"caf\\xE9\"");
    given("LPUSH \"queue:caf\\xE9\" x");
    serve_begin("");
    test_await(tells("/metrics", "holdfast_fleet_queue_tasks{queue=\"caf\xEF\xBF\xBD\"} 1\n"));
}

TEST(a_wrong_token_is_answered_late)
{
    serve_begin("");
    struct instant asked = instant_now();
    assert_true(post_says("/api/login", "", "user=eve&token=guess", "HTTP/1.1 403 "));
    assert_true(instant_since(asked, instant_now()) >= NS_PER_S);
    assert_true(has_logged("serve_action action=login name=- option=- user=eve peer="));
    asked = instant_now();
    assert_true(post_says("/api/change/pause", BEARER "guess\r\n", "name=jobs", "HTTP/1.1 401 "));
    assert_true(instant_since(asked, instant_now()) >= NS_PER_S);
    assert_true(post_says("/api/change/pause", "", "name=jobs", "HTTP/1.1 401 "));
    assert_true(post_says("/api/change/pause", BEARER TOKEN "\r\n", "name=jobs", "\"exit_code\":0"));
    serve_end();
}

TEST(a_prefix_needs_a_login_for_all)
{
    serve_begin("/hf");
    assert_true(says("/hf/api/state", "", "HTTP/1.1 401 "));
    assert_true(says("/hf/api/state", BEARER TOKEN "\r\n", "HTTP/1.1 200 "));
    const char *found = strstr(http_ask(http, "POST", "/hf/api/login", "", "user=eve&token=the+token+of+this+test"),
                               "Set-Cookie: holdfast=");
    assert_non_null(found);
    assert_non_null(strstr(found, "; Path=/hf/; "));
    serve_end();
}

/* A proxy that adds no header looks like a browser on this machine. */
TEST(a_plain_proxy_is_asked_for_the_token_where_it_may_be)
{
    serve_begin(""); /* a unix socket */
    assert_true(says("/api/state", "", "HTTP/1.1 401 "));
    assert_true(says("/api/session", "", "\"may_read\":false"));
    assert_true(says("/healthz", "", "HTTP/1.1 200 "));
    assert_true(tells("/api/state", "HTTP/1.1 200 "));
    serve_end();

    char path[sizeof http];
    snprintf(path, sizeof path, "%s", http);
    for (int asks_all = 0; asks_all < 2; asks_all++) {
        snprintf(http, sizeof http, "127.0.0.1:0");
        serve_with("", asks_all ? "--login-to-read" : NULL);
        char *error = program_error_text(&serve);
        const char *address = strstr(error, " address=127.0.0.1:");
        assert_non_null(address);
        assert_int_equal(sscanf(address, " address=%31s", http), 1);
        free(error);
        assert_true(says("/api/state", "", asks_all ? "HTTP/1.1 401 " : "HTTP/1.1 200 "));
        assert_true(tells("/api/state", "HTTP/1.1 200 "));
        serve_end();
    }
    snprintf(http, sizeof http, "%s", path);
    admin("serve", "--login-to-read");
    assert_int_equal(result.exit_code, EXIT_CODE_USAGE);
    assert_contains(result.error, "--login-to-read: nobody can log in without --token-file");
}

TEST(an_address_of_others_needs_a_token)
{
    admin("serve", "--listen", "0.0.0.0:0");
    assert_int_equal(result.exit_code, EXIT_CODE_USAGE);
    assert_non_null(strstr(result.error, "--listen: 0.0.0.0:0: other machines can reach it: give --token-file, too"));
    admin("serve", "--listen", "fleet.example:80");
    assert_int_equal(result.exit_code, EXIT_CODE_USAGE);
    assert_non_null(strstr(result.error, "--listen: fleet.example:80: an address to listen on is"));
}

/* --- without its node --------------------------------------------------------------------------------------------- */

TEST(it_starts_before_its_queue_node)
{
    redis_server_kill(server);
    serve_begin("");
    assert_true(tells("/healthz", "HTTP/1.1 200 "));
    assert_true(tells("/", "HTTP/1.1 200 "));
    int watcher = http_ask_begin(http, "GET", "/events", BEARER TOKEN "\r\n", ""); /* so it looks every second */
    test_await(tells("/metrics", "\nholdfast_fleet_queue_node_up 0\n"));
    assert_false(tells("/api/state", "\"away\":null"));
    redis_server_restart(server);
    test_await(tells("/api/state", "\"away\":null"));
    test_await(tells("/metrics", "\nholdfast_fleet_queue_node_up 1\n"));
    serve_end();
    close(watcher);
}

/* --- what is read again ------------------------------------------------------------------------------------------- */

TEST(a_signal_makes_it_read_its_token_again)
{
    char cookie[128];
    serve_begin("");
    snprintf(cookie, sizeof cookie, "%s", login("user=eve&token=the+token+of+this+test"));
    assert_true(says("/api/session", cookie, "\"user\":\"eve\""));
    kill(serve.pid, SIGHUP); /* nothing has changed */
    test_await(has_logged("serve_reloaded changes=yes"));
    assert_true(says("/api/session", cookie, "\"user\":\"eve\""));

    token_write("short\n");
    kill(serve.pid, SIGHUP);
    test_await(has_logged("serve_reload_refused"));
    assert_true(has_logged("a token has at least 16 characters"));
    assert_true(says("/api/session", cookie, "\"user\":\"eve\""));

    token_write(OTHER_TOKEN "\n");
    kill(serve.pid, SIGHUP);
    test_await(says("/api/session", cookie, "\"user\":null"));
    assert_true(post_says("/api/change/pause", BEARER TOKEN "\r\n", "name=jobs", "HTTP/1.1 401 "));
    assert_true(post_says("/api/change/pause", BEARER OTHER_TOKEN "\r\n", "name=jobs", "\"exit_code\":0"));
    serve_end();
}

TEST(a_signal_makes_it_read_its_configuration_again)
{
    struct redis_server *other = redis_server_start(NULL);
    free(redis_server_command(other, "SADD queues elsewhere"));
    free(redis_server_command(other, "LPUSH queue:elsewhere {}"));
    serve_begin("");
    test_await(tells("/api/state", "\"away\":null"));
    assert_false(tells("/api/state", "elsewhere"));
    int watcher = http_ask_begin(http, "GET", "/events", BEARER TOKEN "\r\n", "");
    admin_config_write(redis_server_port(other));
    kill(serve.pid, SIGHUP);
    test_await(tells("/api/state", "\"elsewhere\""));
    assert_true(tells("/api/search/queues", "elsewhere")); /* the commands agree */

    FILE *file = fopen(admin_config, "we");
    fputs("queue_node = { hots = 1; };\n", file);
    fclose(file);
    kill(serve.pid, SIGHUP);
    test_await(has_logged("serve_reload_refused"));
    free(redis_server_command(other, "SADD queues later"));
    free(redis_server_command(other, "LPUSH queue:later {}"));
    test_await(tells("/api/state", "\"later\"")); /* it goes on with what it had */
    serve_end();
    close(watcher);
    redis_server_destroy(other);
}

/* --- many readers ------------------------------------------------------------------------------------------------- */

static unsigned children_of(pid_t pid)
{
    char pattern[64], text[4096];
    glob_t found;
    unsigned count = 0;
    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/children", pid);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "re");
        size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
        for (size_t j = 0; j < length; j++)
            count += text[j] == ' ';
        if (file != NULL)
            fclose(file);
    }
    globfree(&found);
    return count;
}

static int search_begin(unsigned limit)
{
    char path[128];
    snprintf(path, sizeof path, "%s%u", SEARCH, limit);
    return http_ask_begin(http, "GET", path, BEARER TOKEN "\r\n", "");
}

/* The node stands still, so nothing is answered meanwhile but what is refused. */
TEST(readers_search_one_after_the_other)
{
    int fds[SEARCHES_MAX + 1];
    given("LPUSH queue:jobs {}");
    serve_begin("");
    redis_server_pause(server);
    for (unsigned i = 0; i < SEARCHES_MAX + 1; i++)
        fds[i] = search_begin(i + 1);
    unsigned refused = SEARCHES_MAX + 1;
    test_await(({
        for (unsigned i = 0; i < SEARCHES_MAX + 1; i++)
            if (http_ask_is_answered(fds[i]))
                refused = i;
        refused <= SEARCHES_MAX;
    }));
    assert_non_null(strstr(http_ask_end(fds[refused]), "HTTP/1.1 503 ")); /* so it has seen all of them */
    assert_int_equal(children_of(serve.pid), 1);
    redis_server_resume(server);
    for (unsigned i = 0; i < SEARCHES_MAX + 1; i++)
        if (i != refused)
            assert_non_null(strstr(http_ask_end(fds[i]), "{\"exit_code\":0,\"answer\":{"));
    serve_end();
}

TEST(readers_who_ask_for_the_same_share_a_search)
{
    enum { READERS = 2 * SEARCHES_MAX };
    int fds[READERS];
    given("LPUSH queue:jobs {}");
    serve_begin("");
    test_await(tells("/api/state", "\"away\":null"));
    unsigned before = redis_server_calls(server, "lrange");
    redis_server_pause(server);
    int first = search_begin(1000);
    test_await(children_of(serve.pid) == 1);
    for (unsigned i = 0; i < READERS; i++)
        fds[i] = search_begin(7);
    assert_true(tells("/healthz", "HTTP/1.1 200 "));
    redis_server_resume(server);
    assert_non_null(strstr(http_ask_end(first), "{\"exit_code\":0,\"answer\":{"));
    for (unsigned i = 0; i < READERS; i++)
        assert_non_null(strstr(http_ask_end(fds[i]), "{\"exit_code\":0,\"answer\":{"));
    assert_true(redis_server_calls(server, "lrange") - before <= 3); /* a late reader may begin another one */
    serve_end();
}

TEST(it_ends_with_searches_that_wait)
{
    serve_begin("");
    redis_server_pause(server);
    int first = search_begin(1), second = search_begin(2), third = search_begin(3);
    test_await(children_of(serve.pid) == 1);
    serve_end();
    redis_server_resume(server);
    http_ask_end(first);
    http_ask_end(second);
    http_ask_end(third);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
