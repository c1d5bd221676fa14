/* A fleet beside Ruby: Sidekiq's client pushes, our worker runs, Sidekiq's API (what its dashboard is made of) reads
 * and commands. Needs Ruby with Sidekiq (on Debian: ruby-sidekiq); without it the tests are skipped, and say so. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>

#include "tests/support/one_fleet.h"

/* Runs a program; the exit code. What it prints is cut to fit, with the last line end cut off. */
static int run(const char *const *arguments, bool is_loud, char out[4096])
{
    int ends[2], status = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        if (!is_loud)
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t more; length < 4095 && (more = read(ends[0], out + length, 4095 - length)) > 0;)
        length += (size_t)more;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    while (length > 0 && out[length - 1] == '\n')
        length--;
    out[length] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has_sidekiq(void)
{
    static int answer = -1;
    char told[4096];
    if (answer < 0)
        answer = run((const char *const[]){"ruby", "-e", "require 'sidekiq/api'", NULL}, false, told) == 0;
    if (!answer)
        printf("skipped: this machine has no Ruby with Sidekiq (apt-get install ruby-sidekiq)\n");
    return answer;
}

static void ruby(char told[4096], const char *command, const char *argument)
{
    char port[16];
    snprintf(port, sizeof port, "%u", redis_server_port(fleet.queue));
    if (run((const char *const[]){"tests/ruby/sidekiq-api", port, command, argument, NULL}, true, told) != 0)
        fail_msg("tests/ruby/sidekiq-api %s failed", command);
}

static void assert_ruby(const char *expected, const char *command)
{
    char told[4096];
    ruby(told, command, "");
    assert_string_equal(told, expected);
}

static bool ruby_tells(const char *expected, const char *command)
{
    char told[4096];
    ruby(told, command, "");
    return strcmp(told, expected) == 0;
}

static void push(const char *json)
{
    char jid[4096];
    ruby(jid, "push", json);
    assert_int_equal(strlen(jid), strstr(json, "\"jid\"") != NULL ? 2 : 24);
}

/* The only retry is not due before the test is over, however long Ruby takes. */
static void put_off_the_retry(void)
{
    test_await(fleet_number(&fleet, "ZCARD retry") == 1);
    free(redis_server_command(fleet.queue, "EVAL \"return redis.call('ZADD', 'retry', 'XX', 4000000000, "
                                           "redis.call('ZRANGE', 'retry', 0, 0)[1])\" 0"));
}

static void ruby_pushes_we_run_ruby_reads(void **state)
{
    (void)state;
    if (!has_sidekiq())
        skip();
    push("{\"class\":\"note\",\"args\":[],\"queue\":\"jobs\"}");
    push("{\"class\":\"fail\",\"args\":[0,\"why\"],\"queue\":\"jobs\",\"jid\":\"f1\",\"resource\":\"r1\",\"tags\":["
         "\"t\"]}");
    push("{\"class\":\"fail\",\"args\":[],\"queue\":\"jobs\",\"jid\":\"d1\",\"retry\":0}");
    push("{\"class\":\"careful\",\"args\":[60000,\"x\"],\"queue\":\"jobs\",\"jid\":\"c1\"}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 3, .worker = "stop_timeout = \"0s\";"});
    put_off_the_retry();
    test_await(ruby_tells("host0 holdfast 3 1 false false jobs  Integer Float Float Integer true true", "processes"));
    /* processed failed enqueued scheduled retries dead processes busy */
    test_await(ruby_tells("3 2 0 0 1 1 1 1", "stats"));
    assert_ruby("3 2", "history");
    char told[4096];
    ruby(told, "work", "");
    assert_contains(told, " jobs careful c1 [60000,\"x\"] Integer true");
    assert_ruby("fail f1 jobs Witness::Failure why, attempt 0 0 Float r1 t", "retries");
    assert_ruby("fail d1 jobs Witness::Failure told to fail, attempt 0 0 Float  ", "deads");
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_ruby("3 2 1 0 1 1 0 0", "stats"); /* what was stopped is in its queue again */
    assert_ruby("", "processes");
}

static void ruby_quiets_and_stops(void **state)
{
    (void)state;
    if (!has_sidekiq())
        skip();
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 3});
    test_await(ruby_tells("host0 holdfast 3 0 false false jobs  Integer Float Float Integer true true", "processes"));
    char told[4096];
    ruby(told, "quiet", "");
    test_await(fleet_logged(&fleet, worker, "worker_quiet reason=called"));
    test_await(ruby_tells("host0 holdfast 3 0 true true jobs  Integer Float Float Integer true true", "processes"));
    ruby(told, "stop", "");
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_ruby("", "processes");
}

/* A person at the dashboard presses "retry": the entry is found again by its text, and goes once. */
static void ruby_retries_what_failed_and_what_is_dead(void **state)
{
    (void)state;
    if (!has_sidekiq())
        skip();
    char told[4096];
    push("{\"class\":\"fail\",\"args\":[0,\"\\u00e4 / b\"],\"queue\":\"jobs\",\"jid\":\"f1\"}");
    push("{\"class\":\"fail\",\"args\":[],\"queue\":\"jobs\",\"jid\":\"d1\",\"retry\":0}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 3});
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 1);
    ruby(told, "retry", "");
    ruby(told, "revive", "");
    test_await(fleet_noted(&fleet, "begin f1") == 2 && fleet_noted(&fleet, "begin d1") == 2);
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 1);
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
    assert_int_equal(fleet_left(&fleet), 2);
    assert_ruby("4 4 0 0 1 1 0 0", "stats");
    /* The first failure stays the first. */
    char *retried = fleet_ask(&fleet, "ZRANGE retry 0 0"), *dead = fleet_ask(&fleet, "ZRANGE dead 0 0");
    const char *const texts[] = {retried, dead};
    for (unsigned i = 0; i < 2; i++) {
        assert_contains(texts[i], ", attempt 1\"");
        assert_contains(texts[i], "\"retry_count\":0");
        assert_contains(texts[i], "\"retried_at\":");
    }
    free(retried);
    free(dead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(ruby_pushes_we_run_ruby_reads),
        fleet_test(ruby_quiets_and_stops),
        fleet_test(ruby_retries_what_failed_and_what_is_dead),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
