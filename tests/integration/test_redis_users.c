/* The users of conf/redis-users.conf: with exactly their rights everything that workers, producers and operators do
 * works, and a server never has to refuse anything. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/one_fleet.h"
#include "tests/support/program_run.h"

#define QUEUE_USER "user = \"holdfast-queue\"; password_env = \"HF_TEST_QUEUE\";"
#define LOCK_USER  "user = \"holdfast-lock\"; password_env = \"HF_TEST_LOCK\";"

/* Makes the server know the user as the file describes it. */
static void user_make(struct redis_server *server, const char *name)
{
    char line[2048], start[64];
    snprintf(start, sizeof start, "user %s ", name);
    FILE *file = fopen("conf/redis-users.conf", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, start, strlen(start)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *reply = redis_server_command(server, "ACL SETUSER %s", line + strlen("user "));
        assert_string_equal(reply, "OK");
        free(reply);
        fclose(file);
        return;
    }
    fail_msg("conf/redis-users.conf has no user %s", name);
}

static void lock_users_make(struct redis_server *server)
{
    user_make(server, "holdfast-lock");
    user_make(server, "holdfast-nodes");
}

static void users_make(void)
{
    setenv("HF_TEST_QUEUE", "change-me-queue", 1);
    setenv("HF_TEST_LOCK", "change-me-lock", 1);
    setenv("HF_TEST_NODES", "change-me-nodes", 1);
    user_make(fleet.queue, "holdfast-queue");
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_users_make(fleet.locks.servers[i]);
}

static void assert_nothing_was_refused(struct redis_server *server)
{
    char *log = redis_server_command(server, "ACL LOG");
    assert_string_equal(log, "");
    free(log);
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct program_result result = program_run(line);
    if (result.exit_code != 0)
        fail_msg("holdfast %s: %d: %s%s", line, result.exit_code, result.out, result.error);
    program_result_free(&result);
}

static void everything_works_with_exactly_these_rights(void **state)
{
    (void)state;
    static const struct fleet_setup setup = {
        .queue_node = QUEUE_USER, .lock_node = LOCK_USER, .worker = "stop_timeout = \"300ms\";"};
    users_make();
    unsigned first = fleet_work(&fleet, &setup), second = fleet_work(&fleet, &setup);
    test_await(fleet_number(&fleet, "ZCARD hf:2:processes") == 2);
    char config[128];
    snprintf(config, sizeof config, "%s/host%u.conf", fleet.directory, first);
    run("check -c %s", config);
    run("push -c %s --queue jobs note [0]", config);
    run("push -c %s --queue jobs --resource r guarded [20]", config);
    run("queues -c %s", config);
    run("pause -c %s other", config);
    run("resume -c %s other", config);
    run("status -c %s", config);
    run("nodes -c %s", config);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "SET lock:foreign value");
    run("who -c %s foreign", config);
    run("unlock -c %s --force foreign", config);
    assert_int_equal(lock_cluster_holders(&fleet.locks, "lock:foreign"), 0);
    fleet_push_many(&fleet, "guarded", 30, 5, 2); /* contended: some are parked, and promoted */
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"retried\"}");
    fleet_push(&fleet, "{\"class\":\"fail\",\"args\":[],\"jid\":\"buried\",\"retry\":0}");
    fleet_push(&fleet, "no task at all");
    fleet_push(&fleet,
               "{\"class\":\"parent\",\"args\":[1,\"{\\\"class\\\":\\\"note\\\",\\\"args\\\":[]}\",\"{\\\"class\\\":"
               "\\\"note\\\",\\\"args\\\":[],\\\"at\\\":0.01}\"],\"jid\":\"p\"}");
    run("result -c %s p --wait=20s", config);
    test_await(fleet_noted_all(&fleet, "end ") == 35);
    test_await(fleet_number(&fleet, "ZCARD retry") == 1 && fleet_number(&fleet, "ZCARD dead") == 2);
    fleet_push(&fleet, "{\"class\":\"careful\",\"args\":[600000],\"jid\":\"cancelled\"}");
    test_await(fleet_noted(&fleet, "begin cancelled") == 1);
    fleet_signal(&fleet, first, SIGTERM);
    fleet_signal(&fleet, second, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, first), 0);
    assert_int_equal(fleet_wait(&fleet, second), 0);
    assert_int_equal(fleet_number(&fleet, "LLEN queue:jobs"), 1);
    assert_int_equal(fleet_number(&fleet, "EXISTS hf:2:processes"), 0);
    assert_nothing_was_refused(fleet.queue);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_nothing_was_refused(fleet.locks.servers[i]);
    assert_false(fleet_logged(&fleet, first, "NOPERM"));
    assert_false(fleet_logged(&fleet, second, "NOPERM"));
}

static void password_write(const char *path, const char *password)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fprintf(file, "%s\n", password);
    assert_int_equal(fclose(file), 0);
}

static void assert_init_is_refused(const char *config)
{
    char line[256];
    snprintf(line, sizeof line, "nodes -c %s init", config);
    struct program_result result = program_run(line);
    assert_int_equal(result.exit_code, 1);
    if (strstr(result.error, "whether there are keys is not known") == NULL)
        fail_msg("%s", result.error);
    program_result_free(&result);
}

/* Looking and healing with the user of the workers, the rest with the other one. */
static void the_lock_group_is_made_and_changed_with_exactly_these_rights(void **state)
{
    (void)state;
    char config[128], password[128];
    struct redis_server *successor = redis_server_start(NULL);
    users_make();
    lock_users_make(successor);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "FLUSHALL");
    unsigned worker = fleet_work(&fleet, &(struct fleet_setup){.queue_node = QUEUE_USER, .lock_node = LOCK_USER});
    fleet_signal(&fleet, worker, SIGKILL); /* its configuration is all that is wanted */
    fleet_wait(&fleet, worker);
    snprintf(config, sizeof config, "%s/host%u.conf", fleet.directory, worker);
    snprintf(password, sizeof password, "%s/password", fleet.directory);
    password_write(password, "change-me-nodes");
    run("nodes -c %s --lock-user holdfast-nodes --lock-password-file %s init --strings --max-ttl 1s", config, password);
    run("nodes -c %s", config);
    lock_cluster_ask(&fleet.locks, 1, "FLUSHALL");
    run("nodes -c %s heal --wait", config);
    lock_cluster_ask(&fleet.locks, 0, "SET hf:fence:lock:r 17");
    run("nodes -c %s --lock-user holdfast-nodes --lock-password-file %s upgrade lock1", config, password);
    assert_string_equal(lock_cluster_ask(&fleet.locks, 0, "ZSCORE hf:fences lock:r"), "17");
    run("nodes -c %s --lock-user holdfast-nodes --lock-password-file %s replace lock3 127.0.0.1:%u", config, password,
        redis_server_port(successor));
    for (unsigned i = 0; i < fleet.locks.count; i++)
        assert_nothing_was_refused(fleet.locks.servers[i]);
    assert_nothing_was_refused(successor);
    for (unsigned i = 0; i < fleet.locks.count; i++)
        lock_cluster_ask(&fleet.locks, i, "FLUSHALL");
    assert_init_is_refused(config);
    redis_server_destroy(successor);
}

/* Else the tests above would pass with any. */
static void what_nobody_needs_is_refused(void **state)
{
    (void)state;
    static const char *const queue[] = {"FLUSHALL",          "KEYS *",      "CONFIG GET *",  "SHUTDOWN",
                                        "EVAL 'return 1' 0", "CLIENT LIST", "DEBUG SLEEP 0", "PUBLISH a b",
                                        "SORT queue:jobs"};
    static const char *const lock[] = {"FLUSHALL", "SET foreign 1",  "GET foreign",     "KEYS *",
                                       "SCAN 0",   "LPUSH lock:a 1", "SET hf:lock:b 1", "PUBLISH other 1",
                                       "MONITOR",  "CONFIG GET *",   "PUBSUB CHANNELS", "SUBSCRIBE other"};
    static const char *const nodes[] = {"FLUSHALL", "SET lock:a 1", "GET lock:a", "KEYS *", "PUBLISH hf:free:1 1"};
    users_make();
    for (size_t i = 0; i < sizeof queue / sizeof queue[0]; i++) {
        char *reply = redis_server_command(fleet.queue, "ACL DRYRUN holdfast-queue %s", queue[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
    for (size_t i = 0; i < sizeof lock / sizeof lock[0]; i++) {
        char *reply = redis_server_command(fleet.locks.servers[0], "ACL DRYRUN holdfast-lock %s", lock[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        char *reply = redis_server_command(fleet.locks.servers[0], "ACL DRYRUN holdfast-nodes %s", nodes[i]);
        assert_string_not_equal(reply, "OK");
        free(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fleet_test(everything_works_with_exactly_these_rights),
        fleet_test(the_lock_group_is_made_and_changed_with_exactly_these_rights),
        fleet_test(what_nobody_needs_is_refused),
    };
    return cmocka_run_group_tests(tests, one_fleet_set_up, one_fleet_tear_down);
}
