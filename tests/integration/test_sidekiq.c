/* A fleet beside Ruby: Sidekiq's client pushes, our worker runs, Sidekiq's API (what its dashboard is made of) reads
 * and commands. Needs Ruby with Sidekiq (on Debian: ruby-sidekiq); without it the tests are skipped, and say so. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>

#include "tests/support/contended.h"
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

static void needs_sidekiq(void)
{
    static int answer = -1;
    char told[4096];
    if (answer < 0)
        answer = run((const char *const[]){"ruby", "-e", "require 'sidekiq/api'", NULL}, false, told) == 0;
    if (!answer)
        test_skip("this machine has no Ruby with Sidekiq (apt-get install ruby-sidekiq)");
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

TEST(ruby_pushes_we_run_ruby_reads)
{
    needs_sidekiq();
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
    one_fleet_stop(worker);
    assert_ruby("3 2 1 0 1 1 0 0", "stats"); /* what was stopped is in its queue again */
    assert_ruby("", "processes");
}

TEST(ruby_quiets_and_stops)
{
    needs_sidekiq();
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
TEST(ruby_retries_what_failed_and_what_is_dead)
{
    needs_sidekiq();
    char told[4096];
    push("{\"class\":\"fail\",\"args\":[0,\"\\u00e4 / b\"],\"queue\":\"jobs\",\"jid\":\"f1\"}");
    push("{\"class\":\"fail\",\"args\":[],\"queue\":\"jobs\",\"jid\":\"d1\",\"retry\":0}");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.threads = 3});
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 1);
    ruby(told, "retry", "");
    ruby(told, "revive", "");
    test_await(fleet_noted(&fleet, "begin f1") == 2 && fleet_noted(&fleet, "begin d1") == 2);
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 1);
    one_fleet_stop(worker);
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

/* A process that died with a task of which two others had died. */
static void given_a_poison_pill(void)
{
    free(fleet_ask(&fleet, "HSET hf:2:recovered:poison first 1e10 second 1e10"));
    free(fleet_ask(&fleet,
                   "EVAL \"return redis.call('HSET', KEYS[1], 'queues', 'jobs', '0', string.rep('a', 16) .. 'jobs' .. "
                   "string.char(10) .. ARGV[1])\" 1 hf:2:process:host:1:dead "
                   "'{\"class\":\"note\",\"args\":[],\"jid\":\"poison\"}'"));
    free(fleet_ask(&fleet, "ZADD hf:2:processes 1 host:1:dead"));
}

static void given_every_kind_of_failure(void)
{
    static const char *const tasks[] = {
        "\"fail\",\"args\":[],\"jid\":\"retry\"",
        "\"fail\",\"args\":[],\"jid\":\"again\",\"retry_count\":1,\"failed_at\":1.5",
        "\"fail\",\"args\":[],\"jid\":\"by-hand\",\"retry_count\":-1",
        "\"fail\",\"args\":[],\"jid\":\"dead\",\"retry\":0",
        "\"nobody\",\"args\":[],\"jid\":\"unknown\"",
        "\"nobody\",\"args\":[],\"jid\":\"unknown-text\",\"failed_at\":\"1.5\",\"retry_count\":\"0\"",
        "\"nobody\",\"args\":[],\"jid\":\"unknown-count\",\"retry_count\":2",
        "\"picky\",\"args\":[7],\"jid\":\"arguments\"",
        "\"note\",\"args\":[],\"jid\":\"none\"",
        "\"fail\",\"args\":[],\"jid\":\"batch\",\"bid\":\"b\"",
        "\"fail\",\"args\":[\"x\"],\"jid\":\"secret\",\"encrypt\":true",
        "\"guarded\",\"args\":[],\"jid\":\"refused\",\"resource\":\"held\"",
        "\"guarded\",\"args\":[],\"jid\":\"refused-last\",\"resource\":\"held\",\"retry\":0",
        "\"count\",\"args\":[],\"jid\":\"waits\",\"resource\":\"held\"",
        "\"count\",\"args\":[],\"jid\":\"crowd\",\"resource\":\"held\"",
        "\"moody\",\"args\":[100,\"thing\"],\"jid\":\"once\"",
        "\"parent\",\"args\":[1,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[],\\\"queue\\\":\\\"foreign\\\"}\"]",
        "\"lonely\",\"args\":[600000],\"jid\":\"abandoned\"",
        "\"careful\",\"args\":[600000],\"jid\":\"lost\",\"resource\":\"mine\"",
    };
    resource_hold("held");
    given_a_poison_pill();
    free(fleet_ask(&fleet, "SET queue:foreign value"));
    free(fleet_ask(&fleet, "LPUSH queue:jobs nonsense"));
    free(fleet_ask(&fleet, "LPUSH queue:aside '{\"class\":\"x\",\"args\":[],\"jid\":\"buried\"}' no-task"));
    free(fleet_ask(&fleet, "SADD queues aside"));
    for (unsigned i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        fleet_push(&fleet, "{\"class\":%s}", tasks[i]);
}

/* Each way in which an entry of `retry` or `dead` comes to be. */
TEST(ruby_opens_the_page_of_every_kind_of_entry)
{
    needs_sidekiq();
    given_every_kind_of_failure();
    unsigned worker =
        fleet_work(&fleet, &(struct fleet_setup){.threads = 6,
                                                 .worker = "stop_timeout = \"0s\"; lease = \"1s\";",
                                                 .classes = "{ class = \"note\"; lock = \"required\"; },"
                                                            "{ class = \"guarded\"; on_conflict = \"fail\"; },"
                                                            "{ class = \"count\"; max_waiters = 1; },"
                                                            "{ class = \"moody\"; at_most_once = \"yes\"; }"});
    test_await(fleet_noted(&fleet, "begin lost") == 1 && fleet_noted(&fleet, "begin abandoned") == 1);
    free(fleet_ask(&fleet, "EVAL \"return redis.call('LPUSH', 'hf:2:calls:' .. redis.call('SMEMBERS', 'processes')[1], "
                           "'LOSE lost')\" 0"));
    operator_runs("tasks", "bury buried");
    test_await(fleet_number(&fleet, "ZCARD retry") == 9);
    test_await(fleet_number(&fleet, "ZCARD dead") == 11);
    fleet_signal(&fleet, worker, SIGTERM);
    fleet_wait(&fleet, worker);
    assert_ruby("morgue/HF::Abandoned\nmorgue/HF::AtMostOnce\nmorgue/HF::BadArguments\nmorgue/HF::Batch\n"
                "morgue/HF::Buried\nmorgue/HF::Encrypted\nmorgue/HF::InvalidTask\nmorgue/HF::LockRefused\n"
                "morgue/HF::NoResource\nmorgue/HF::PoisonPill\nmorgue/HF::TooManyWaiters\nmorgue/Witness::Failure\n"
                "retries/HF::FollowUpRefused\nretries/HF::LockLost\nretries/HF::LockRefused\n"
                "retries/HF::UnknownClass\nretries/Witness::Failure",
                "pages");
}

RUN_FLEET_TESTS
