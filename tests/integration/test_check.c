/* holdfast check against real servers: everything that is wrong is found, in one run. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/lock_group.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/redis_server.h"
#include "tests/support/sentinel.h"

#define CANARY "canary-51c2"

struct place {
    char directory[PRIVATE_DIRECTORY_MAX], config[300], secret[300];
};

static int enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    snprintf(place->config, sizeof place->config, "%s/t.conf", place->directory);
    snprintf(place->secret, sizeof place->secret, "%s/secret", place->directory);
    *state = place;
    return 0;
}

static int leave(void **state)
{
    struct place *place = *state;
    unlink(place->config);
    unlink(place->secret);
    int failed = rmdir(place->directory);
    free(place);
    return failed;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static struct program_result check_once(const struct place *place, const char *config, const char *more)
{
    char line[512];
    write_file(place->config, config);
    snprintf(line, sizeof line, "check -c %s %s", place->config, more);
    return program_run(line);
}

static bool says(const struct program_result *result, const char *text)
{
    return strstr(result->error, text) != NULL || strstr(result->out, text) != NULL;
}

/* A node that is not heard in time, because this machine is busy, is asked again. */
static struct program_result check(const struct place *place, const char *config, const char *more)
{
    struct program_result result = {.out = NULL};
    test_await((program_result_free(&result), result = check_once(place, config, more),
                !says(&result, "the handshake took longer than ") && !says(&result, "did not answer in time")));
    return result;
}

TEST(good_nodes_are_good)
{
    struct redis_server *servers[4];
    char config[1024], state_text[64];
    for (int i = 0; i < 4; i++)
        servers[i] = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\n"});
    snprintf(config, sizeof config,
             "worker = { jobs = [\"transfer\"]; };\n"
             "queue_node = { host = \"127.0.0.1\"; port = %u; };\n"
             "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; },\n { host = \"127.1\"; port = %u; },\n"
             " { unix_path = \"%s\"; } );\n",
             redis_server_port(servers[0]), redis_server_port(servers[1]), redis_server_port(servers[2]),
             redis_server_unix_path(servers[3]));
    struct program_result result = check(*state, config, "");
    assert_contains(result.error, "error: lock1: excluded (no_group): ");
    assert_int_equal(result.exit_code, 1);
    program_result_free(&result);
    lock_group_make(&servers[1], 3, 60000);
    result = check(*state, config, "");
    assert_string_equal(result.error, "");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "all is well");
    assert_contains(result.out, "lock3");
    assert_contains(result.out, "plugin  transfer 1.0: transfer");
    program_result_free(&result);
    result = check(*state, config, "--json");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.out, "\"ok\":true,\"errors\":[],\"warnings\":[]");
    snprintf(state_text, sizeof state_text, "\"state\":\"answered\",\"server\":\"%s\"", redis_server_kind(servers[0]));
    assert_contains(result.out, state_text);
    program_result_free(&result);
    lock_group_make(&servers[1], 3, 9999); /* the usual ttl is 10 s */
    result = check(*state, config, "");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "lock.ttl: is above the max_ttl of the lock group, which is 9999 ms");
    program_result_free(&result);
    for (int i = 0; i < 4; i++)
        redis_server_destroy(servers[i]);
}

TEST(nodes_that_are_down_are_temporary)
{
    char config[512];
    snprintf(config, sizeof config,
             "queue_node = { host = \"127.0.0.1\"; port = %u; };\n"
             "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; } );\nworker = { jobs = [\"echo\"]; };\n",
             free_port(), free_port());
    struct program_result result = check(*state, config, "");
    assert_int_equal(result.exit_code, 75);
    assert_contains(result.error, "error: queue: ");
    assert_contains(result.error, "error: lock1: ");
    assert_contains(result.error, "cannot be reached");
    program_result_free(&result);
    result = check(*state, config, "--no-nodes");
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
}

TEST(the_master_is_found_through_sentinels)
{
    const struct place *place = *state;
    struct redis_server *master = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\n"});
    struct redis_server *replica = replica_start(master);
    struct redis_server *sentinel = sentinel_start(master, CANARY);
    char config[512], found[64];
    write_file(place->secret, CANARY "\n");
    snprintf(config, sizeof config,
             "queue_node = { sentinels = [\"127.0.0.1:%u\", \"127.0.0.1:%u\"]; master = \"" SENTINEL_MASTER "\";\n"
             " sentinel_password_file = \"secret\"; };\n"
             "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n",
             free_port(), redis_server_port(sentinel));
    struct program_result result = check(place, config, "");
    assert_int_equal(result.exit_code, 0);
    snprintf(found, sizeof found, "mymaster (by 2 sentinels) is 127.0.0.1:%u: %s", redis_server_port(master),
             redis_server_kind(master));
    assert_contains(result.out, found);
    assert_contains(result.error, "warning: queue: has replicas, but min-replicas-to-write is 0");
    assert_lacks(result.error, "no replica:");
    program_result_free(&result);

    free(redis_server_command(master, "CONFIG SET min-replicas-to-write 1"));
    result = check(place, config, "--json");
    snprintf(found, sizeof found, "\"found\":\"127.0.0.1:%u\"", redis_server_port(master));
    assert_contains(result.out, found);
    assert_contains(result.out, "\"warnings\":[]");
    program_result_free(&result);

    redis_server_destroy(sentinel);
    sentinel = sentinel_start(NULL, CANARY);
    snprintf(config, sizeof config,
             "queue_node = { sentinels = [\"127.0.0.1:%u\"]; master = \"" SENTINEL_MASTER "\";\n"
             " sentinel_password_file = \"secret\"; };\n"
             "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n",
             redis_server_port(sentinel));
    result = check(place, config, "");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "knows no master called \"mymaster\"");
    assert_lacks(result.error, CANARY);
    program_result_free(&result);
    redis_server_destroy(sentinel);
    redis_server_destroy(replica);
    redis_server_destroy(master);
}

TEST(a_node_that_hangs_is_given_up)
{
    char config[512];
    struct redis_server *server = redis_server_start(NULL);
    snprintf(config, sizeof config,
             "queue_node = { host = \"127.0.0.1\"; port = %u; connect_timeout = \"200ms\"; };\n"
             "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n",
             redis_server_port(server));
    redis_server_pause(server);
    struct program_result result = check_once(*state, config, "");
    redis_server_resume(server);
    assert_int_equal(result.exit_code, 75);
    program_result_free(&result);
    redis_server_destroy(server);
}

TEST(a_log_file_that_a_worker_cannot_open_is_an_error)
{
    const struct place *place = *state;
    static const char *const bad[] = {"missing/worker.log", "."};
    char config[1024], expected[600];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(config, sizeof config, "worker = { log_file = \"%s/%s\"; };\n", place->directory, bad[i]);
        struct program_result result = check(place, config, "--no-nodes");
        snprintf(expected, sizeof expected, "t.conf: worker.log_file: a worker cannot open %s/%s: ", place->directory,
                 bad[i]);
        assert_contains(result.error, expected);
        program_result_free(&result);
    }
    snprintf(config, sizeof config, "worker = { log_file = \"%s/worker.log\"; };\n", place->directory);
    struct program_result result = check(place, config, "--no-nodes");
    assert_lacks(result.error, "log_file");
    program_result_free(&result);
}

TEST(everything_wrong_is_reported_at_once)
{
    const struct place *place = *state;
    struct redis_server *plain = redis_server_start(NULL);
    struct redis_server *locked = redis_server_start(&(struct redis_server_options){.password = "right"});
    struct redis_server *other = redis_server_start(NULL);
    struct redis_server *evicting =
        redis_server_start(&(struct redis_server_options){.config = "maxmemory-policy allkeys-lru\n"});
    char config[2048], replica_of[128];
    snprintf(replica_of, sizeof replica_of, "replicaof 127.0.0.1 %u\n", redis_server_port(plain));
    struct redis_server *replica = redis_server_start(&(struct redis_server_options){.config = replica_of});
    write_file(place->secret, CANARY "\n");
    snprintf(config, sizeof config,
             "worker = { thread = 3; };\n"
             "queue_node = { host = \"127.0.0.1\"; port = %u; };\n"
             "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; },\n"
             " { host = \"127.1\"; port = %u; },\n"
             " { host = \"127.0.0.1\"; port = %u; password_file = \"secret\"; },\n"
             " { host = \"127.0.0.1\"; port = %u; },\n { host = \"127.0.0.1\"; port = %u; },\n"
             " { host = \"127.0.0.1\"; port = %u; },\n { host = \"127.0.0.1\"; port = %u; } );\n",
             redis_server_port(plain), redis_server_port(plain), redis_server_port(plain), redis_server_port(locked),
             redis_server_port(evicting), redis_server_port(replica), free_port(), redis_server_port(other));
    struct program_result result = check(place, config, "");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "t.conf:1: worker.thread: there is no such key (did you mean threads?)");
    assert_contains(result.error, "error: lock2: excluded (duplicate): ");
    assert_contains(result.error, "(it is the same server as lock1 (run id ");
    assert_contains(result.error, "warning: lock1: is the same server as queue");
    assert_contains(result.error, "warning: queue: appendonly is off");
    assert_contains(result.error, "error: lock3: ");
    assert_contains(result.error, "refused AUTH");
    assert_contains(result.error, "warning: lock4: maxmemory-policy is allkeys-lru");
    assert_contains(result.error, " is a replica of 127.0.0.1:");
    assert_contains(result.error, "error: lock6: ");
    assert_lacks(result.error, CANARY);
    assert_lacks(result.out, CANARY);
    program_result_free(&result);
    result = check(place, config, "--print-config");
    assert_lacks(result.error, CANARY);
    assert_lacks(result.out, CANARY);
    assert_contains(result.out, "password_file = ");
    program_result_free(&result);
    redis_server_destroy(replica);
    redis_server_destroy(evicting);
    redis_server_destroy(locked);
    redis_server_destroy(other);
    redis_server_destroy(plain);
}

TEST(a_user_who_may_not_ask_is_told_so)
{
    const struct place *place = *state;
    char config[512];
    struct redis_server *server = redis_server_start(&(struct redis_server_options){
        .acl = "user default on nopass ~* &* +@all\nuser narrow on >" CANARY " ~* +ping +select +client +auth\n"});
    write_file(place->secret, CANARY "\n");
    snprintf(config, sizeof config,
             "queue_node = { host = \"127.0.0.1\"; port = %u; user = \"narrow\"; password_file = \"secret\"; };\n"
             "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n",
             redis_server_port(server));
    struct program_result result = check(place, config, "");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "is there, but: NOPERM");
    program_result_free(&result);
    redis_server_destroy(server);
}

/* A proxy, or a managed server: what INFO would tell is not known, and the rest is as ever. */
TEST(a_queue_node_without_info_is_no_error)
{
    const struct place *place = *state;
    char config[512];
    struct redis_server *server =
        redis_server_start(&(struct redis_server_options){.config = "rename-command INFO \"\"\n"});
    snprintf(config, sizeof config,
             "queue_node = { host = \"127.0.0.1\"; port = %u; };\n"
             "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n",
             redis_server_port(server));
    struct program_result result = check(place, config, "");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error, "warning: queue: has no command INFO: ");
    assert_contains(result.out, " answers in ");
    program_result_free(&result);
    result = check(place, config, "--json");
    assert_contains(result.out, "\"state\":\"answered\",\"answer_us\":");
    program_result_free(&result);
    redis_server_destroy(server);
}

/* Rights for keys of another name than the locks have, a full memory: the node answers, and grants nothing. */
TEST(a_lock_node_that_refuses_locks_is_found)
{
    const struct place *place = *state;
    char config[1024];
    struct redis_server *narrow = redis_server_start(&(struct redis_server_options){
        .acl = "user default on nopass ~* &* +@all\nuser locker on >" CANARY " ~lock:* +@all\n",
        .config = "appendonly yes\n"});
    struct redis_server *full = redis_server_start(NULL);
    static const char form[] =
        "queue_node = { host = \"127.0.0.1\"; port = %u; };\nlock = { prefix = \"%s\"; };\n"
        "lock_nodes = ( { host = \"127.0.0.1\"; port = %u; user = \"locker\"; password_file = \"secret\"; },\n"
        " { host = \"127.1\"; port = %u; } );\n";
    write_file(place->secret, CANARY "\n");
    free(redis_server_command(full, "CONFIG SET maxmemory 1"));
    snprintf(config, sizeof config, form, redis_server_port(narrow), "", redis_server_port(narrow),
             redis_server_port(full));
    struct program_result result = check(place, config, "");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "error: lock1: 127.0.0.1:");
    assert_contains(result.error, "refuses a lock below lock.prefix \"\": NOPERM");
    assert_contains(result.error, "error: lock2: 127.1:");
    assert_contains(result.error, "refuses a lock below lock.prefix \"\": OOM");
    program_result_free(&result);
    free(redis_server_command(full, "CONFIG SET maxmemory 0"));
    snprintf(config, sizeof config, form, redis_server_port(narrow), "lock:", redis_server_port(narrow),
             redis_server_port(full));
    result = check(place, config, "");
    assert_lacks(result.error, "refuses");
    program_result_free(&result);
    assert_int_equal(redis_server_calls(full, "del"), 1); /* given back */
    redis_server_destroy(narrow);
    redis_server_destroy(full);
}

TEST(periodic_tasks_that_nobody_runs_are_found)
{
    static const char config[] =
        "queue_node = { host = \"127.0.0.1\"; port = 1; };\n"
        "classes = ( { class = \"echo\"; lock = \"none\"; } );\n"
        "worker = { jobs = [\"echo\"]; queues = [\"mail\"]; };\n"
        "periodic = ( { name = \"fine\"; cron = \"* * * * *\"; class = \"echo\"; queue = \"mail\"; },\n"
        " { name = \"lost\"; cron = \"* * * * *\"; class = \"ecko\"; queue = \"mails\"; } );\n";
    struct program_result result = check(*state, config, "--no-nodes");
    assert_int_equal(result.exit_code, 0);
    assert_contains(result.error,
                    "periodic task \"lost\": no plugin that is loaded serves the class ecko (did you mean "
                    "echo?)");
    assert_contains(result.error,
                    "periodic task \"lost\": the queue mails is not among worker.queues (did you mean mail?)");
    assert_lacks(result.error, "fine");
    program_result_free(&result);
}

RUN_TESTS_WITH(enter, leave)
