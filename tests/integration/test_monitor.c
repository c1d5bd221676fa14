/* What a worker tells over HTTP: its figures, whether it lives, and whether it claims. */
#include "tests/support/test.h"

#include <spawn.h>

#include "base/buffer.h"
#include "tests/support/config_place.h"
#include "tests/support/http_ask.h"
#include "tests/support/one_fleet.h"

static char sections[2 * PRIVATE_DIRECTORY_MAX + 64];
static const char *answer;

static const char *setup_sections(void)
{
    snprintf(sections, sizeof sections, "http = { listen = \"%s/http\"; };\n", fleet.directory);
    return sections;
}

/* All that the socket of that name says to the request; "" when nobody listens. */
static const char *ask_at(const char *name, const char *path, const char *header)
{
    char socket[PRIVATE_DIRECTORY_MAX + 16];
    snprintf(socket, sizeof socket, "%s/%s", fleet.directory, name);
    return answer = http_ask(socket, "GET", path, header, "");
}

static bool says(const char *path, const char *text)
{
    return strstr(ask_at("http", path, ""), text) != NULL;
}

static bool measured(const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    return says("/metrics", whole);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

/* Whether a text is as it has to be, promtool knows. */
static void promtool_check(const char *text)
{
    char path[PRIVATE_DIRECTORY_MAX], *arguments[] = {"promtool", "check", "metrics", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status, fd = private_file_create(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    if (posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ) == 0) {
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0); /* it has told what is wrong */
    } else {
        printf("skipped: promtool is not installed (Debian package prometheus)\n");
    }
    posix_spawn_file_actions_destroy(&actions);
    close(fd);
    unlink(path);
}

TEST(tasks_are_counted)
{
    fleet_work(&fleet, &(struct fleet_setup){.sections = setup_sections()});
    fleet_push_many(&fleet, "note", 3, 1, 1);
    fleet_push(&fleet, "{\"class\":\"invented\",\"args\":[],\"jid\":\"i\"}");
    test_await(measured("holdfast_tasks_total{queue=\"jobs\",class=\"note\",outcome=\"done\"} 3"));
    test_await(measured("holdfast_tasks_total{queue=\"jobs\",class=\"other\",outcome=\"unknown_class\"} 1"));
    assert_true(measured("holdfast_task_run_seconds_count{class=\"note\"} 3"));
    assert_true(measured("holdfast_lock_requests_total{answer=\"acquired\"} 3"));
    assert_true(measured("holdfast_lock_nodes_voting 3"));
    assert_true(measured("holdfast_lock_node_up{node=\"lock2\"} 1"));
    assert_true(measured("holdfast_ready 1"));
    promtool_check(strstr(answer, "\r\n\r\n") + 4);
    ask_at("http", "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert_non_null(strstr(answer, "Content-Type: application/openmetrics-text; version=1.0.0"));
    assert_string_equal(answer + strlen(answer) - 6, "# EOF\n");
    one_fleet_stop(0);
}

/* --- health ------------------------------------------------------------------------------------------------------- */

TEST(readiness_names_its_reason)
{
    fleet_work(&fleet, &(struct fleet_setup){.sections = setup_sections()});
    test_await(says("/readyz", "the worker claims tasks: 3 of 3 lock nodes may vote\n"));
    assert_true(says("/readyz", "HTTP/1.1 200 "));
    redis_server_kill(fleet.locks.servers[0]);
    redis_server_kill(fleet.locks.servers[1]);
    test_await(says("/readyz", "the worker claims nothing: 1 of 3 lock nodes may vote, which is no majority\n"));
    assert_true(says("/readyz", "HTTP/1.1 503 "));
    assert_true(says("/healthz", "HTTP/1.1 200 "));
    fleet_signal(&fleet, 0, SIGTSTP);
    test_await(says("/readyz", "the worker is quiet: it claims nothing more\n"));
    one_fleet_stop(0);
    assert_string_equal(ask_at("http", "/readyz", ""), ""); /* and the socket is gone */
}

TEST(a_stuck_loop_is_told_by_another_thread)
{
    fleet_work(&fleet, &(struct fleet_setup){.sections = setup_sections(), .fault = "claim:before:2:pause=15000"});
    test_await(says("/healthz", "the worker is alive"));
    fleet_push_many(&fleet, "note", 1, 1, 0);
    test_await(says("/healthz", "the loop of the worker has not turned for "));
    assert_true(says("/healthz", "HTTP/1.1 503 "));
    assert_true(says("/readyz", "HTTP/1.1 503 "));
    test_await(says("/healthz", "HTTP/1.1 200 "));
    one_fleet_stop(0);
}

static bool lets_in(const char *token)
{
    char header[64];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    return strstr(ask_at("http", "/healthz", header), "HTTP/1.1 200 ") != NULL;
}

TEST(a_reload_reads_the_token_again)
{
    char path[PRIVATE_DIRECTORY_MAX + 16];
    snprintf(path, sizeof path, "%s/token", fleet.directory);
    snprintf(sections, sizeof sections, "http = { listen = \"%s/http\"; token_file = \"%s\"; };\n", fleet.directory,
             path);
    config_place_write(path, "the first of the tokens", 0600);
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.sections = sections});
    test_await(lets_in("the first of the tokens"));
    config_place_write(path, "the second of the tokens", 0600);
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(lets_in("the second of the tokens"));
    assert_false(lets_in("the first of the tokens"));
    test_await(fleet_logged(&fleet, worker, "setting_changed setting=\"http token\" before=\"(secret)\""));
    config_place_write(path, "the third of the tokens", 0644); /* so that everybody can read it */
    fleet_signal(&fleet, worker, SIGHUP);
    test_await(fleet_logged(&fleet, worker, "reload_refused"));
    assert_true(fleet_logged(&fleet, worker, "others than its owner have access to this secret (mode 644)"));
    assert_true(lets_in("the second of the tokens"));
    assert_false(lets_in("the third of the tokens"));
    one_fleet_stop(worker);
    unlink(path);
}

TEST(each_process_has_an_address)
{
    fleet_work(&fleet, &(struct fleet_setup){.sections = setup_sections(), .arguments = "--processes 2"});
    test_await(strstr(ask_at("http.1", "/metrics", ""), ",process=\"1\",") != NULL);
    test_await(strstr(ask_at("http.2", "/metrics", ""), ",process=\"2\",") != NULL);
    one_fleet_stop(0);
}

RUN_FLEET_TESTS
