/* A coordinator is killed: what it had started is gone soon, and what it had on nodes that others use; nothing else is
 * touched, byte for byte. */
#include "worker/dry_run/nodes/cleanup.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/support/config_place.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/queue_probe.h"
#include "tests/support/test.h"
#include "worker/dry_run/nodes/private_nodes.h"

#define RUN "0123456789ab"

static struct redis_server *queues;
static struct lock_cluster cluster;
static struct config *config;

/* What the stand-in of a coordinator says of itself. */
struct facts {
    bool is_ready, is_dismissed, shall_dismiss;
    pid_t cleanup, worker, servers[2];
    char directory[128];
};
static volatile struct facts *facts;

static int group_setup(void **state)
{
    (void)state;
    queues = redis_server_start(NULL);
    lock_cluster_start(&cluster, 3);
    facts = mmap(NULL, sizeof *facts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return facts == MAP_FAILED;
}

static int group_teardown(void **state)
{
    (void)state;
    redis_server_destroy(queues);
    lock_cluster_stop(&cluster);
    return 0;
}

static int set_up(void **state)
{
    struct buffer text = {0};
    redis_server_heal(queues);
    lock_cluster_heal(&cluster);
    int code = config_place_enter(state);
    buffer_format(&text, "queue_node = { host = \"127.0.0.1\"; port = %u; };\nlock = { prefix = \"lock:\"; };\n",
                  redis_server_port(queues));
    buffer_append_text(&text, "lock_nodes = (");
    for (unsigned i = 0; i < 3; i++)
        buffer_format(&text, "%s{ host = \"127.0.0.1\"; port = %u; }", i > 0 ? ", " : "",
                      redis_server_port(cluster.servers[i]));
    buffer_append_text(&text, ");\n");
    config = config_place_read_good(buffer_text(&text));
    buffer_fini(&text);
    *(struct facts *)(uintptr_t)facts = (struct facts){.is_ready = false};
    return code;
}

static int tear_down(void **state)
{
    return config_place_leave(state);
}

/* --- the coordinator ---------------------------------------------------------------------------------------------- */

/* But not longer than a test that has failed. */
static void wait_for_ever(void)
{
    alarm(60);
    for (;;)
        poll(NULL, 0, 1000);
}

/* Its worker has the other ends of all that it has. */
static void coordinator_become(bool has_nodes)
{
    struct error error = ERROR_NONE;
    struct private_nodes *nodes =
        has_nodes ? private_nodes_start(&(struct private_nodes_options){.lock_nodes = 1}, &error) : NULL;
    pid_t cleanup = cleanup_start(
        &(struct cleanup_options){
            .run = RUN, .host = RUN, .hosts = 1, .config = config, .directory = has_nodes ? nodes->directory : NULL},
        &error);
    if (cleanup == 0 || (has_nodes && nodes == NULL))
        _exit(1);
    pid_t own = getpid(), worker = fork();
    if (worker == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != own) /* as workers do */
            _exit(1);
        cleanup_dismiss(cleanup); /* nothing, here */
        wait_for_ever();
    }
    for (unsigned i = 0; has_nodes && i < 2; i++)
        facts->servers[i] = nodes->servers[i].pid;
    if (has_nodes)
        snprintf((char *)(uintptr_t)facts->directory, sizeof facts->directory, "%s", nodes->directory);
    facts->worker = worker;
    facts->cleanup = cleanup;
    facts->is_ready = true;
    while (!facts->shall_dismiss)
        poll(NULL, 0, 5);
    cleanup_dismiss(cleanup);
    facts->is_dismissed = true;
    wait_for_ever();
}

static pid_t coordinator_start(bool has_nodes)
{
    pid_t pid = fork();
    if (pid == 0)
        coordinator_become(has_nodes);
    test_await(facts->is_ready);
    return pid;
}

static void coordinator_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Gone, or waiting for somebody who wants to know how it ended. */
static bool is_process(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool is_read = fscanf(file, "%*d %*s %c", &state) == 1;
    fclose(file);
    return is_read && state != 'Z';
}

static char *picture(struct redis_server *server)
{
    return redis_server_command(
        server, "EVAL \"local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = key .. "
                "redis.call('DUMP', key) .. redis.call('PTTL', key) end table.sort(all) return #all .. ' ' .. "
                "redis.sha1hex(table.concat(all))\" 0");
}

/* What production has there. */
static void live_plant(void)
{
    free(redis_server_command(queues, "LPUSH queue:one live"));
    free(redis_server_command(queues, "ZADD schedule 1 live"));
    free(redis_server_command(queues, "LPUSH hf:2:dry:ba9876543210:queue:one another"));
    for (unsigned i = 0; i < 3; i++) {
        free(redis_server_command(cluster.servers[i], "SET lock:r1 live"));
        free(redis_server_command(cluster.servers[i], "ZADD hf:fences 17 lock:r1"));
    }
}

static void run_plant(void)
{
    free(redis_server_command(queues, "LPUSH hf:2:dry:" RUN ":queue:one task"));
    free(redis_server_command(queues, "SADD hf:2:dry:" RUN ":queues one"));
    free(redis_server_command(queues, "ZADD hf:2:dry:runs 99999999999 " RUN));
    free(redis_server_command(queues, "HSET hf:2:dry:run:" RUN " hosts 1 host:" RUN " ready"));
    for (unsigned i = 0; i < 3; i++) {
        free(redis_server_command(cluster.servers[i], "SET lock:dry:" RUN ":r1 value"));
        free(redis_server_command(cluster.servers[i], "ZADD hf:fences 1 lock:dry:" RUN ":r1"));
    }
}

TEST(after_a_kill_nothing_is_left_and_nothing_else_is_touched)
{
    char *before[4], *after[4];
    struct stat status;
    live_plant();
    for (unsigned i = 0; i < 4; i++)
        before[i] = picture(i == 0 ? queues : cluster.servers[i - 1]);
    run_plant();
    pid_t coordinator = coordinator_start(true);
    assert_int_equal(stat((const char *)(uintptr_t)facts->directory, &status), 0);
    coordinator_kill(coordinator);
    test_await(!is_process(facts->cleanup));
    assert_false(is_process(facts->worker));
    assert_false(is_process(facts->servers[0]) || is_process(facts->servers[1]));
    assert_int_equal(stat((const char *)(uintptr_t)facts->directory, &status), -1);
    for (unsigned i = 0; i < 4; i++) {
        after[i] = picture(i == 0 ? queues : cluster.servers[i - 1]);
        assert_string_equal(after[i], before[i]);
        free(before[i]), free(after[i]);
    }
}

TEST(after_an_orderly_end_it_does_nothing)
{
    run_plant();
    pid_t coordinator = coordinator_start(false);
    facts->shall_dismiss = true;
    test_await(facts->is_dismissed);
    assert_false(is_process(facts->cleanup));
    assert_true(is_process(facts->worker));
    coordinator_kill(coordinator);
    kill(facts->worker, SIGKILL);
    assert_reply(queues, "4", "DBSIZE");
}

TEST(signals_of_a_terminal_and_of_a_service_are_not_for_it)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    run_plant();
    pid_t coordinator = coordinator_start(false);
    test_await(getsid(facts->cleanup) == facts->cleanup);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        kill(facts->cleanup, signals[i]);
    coordinator_kill(coordinator);
    test_await(!is_process(facts->cleanup));
    assert_false(is_process(facts->worker));
    assert_reply(queues, "0", "DBSIZE");
}

/* Nobody needs it. */
TEST(a_cleanup_that_is_killed_harms_nobody)
{
    pid_t coordinator = coordinator_start(false);
    kill(facts->cleanup, SIGKILL);
    test_await(!is_process(facts->cleanup));
    facts->shall_dismiss = true;
    test_await(facts->is_dismissed);
    coordinator_kill(coordinator);
    kill(facts->worker, SIGKILL);
}

RUN_GROUP(group_setup, group_teardown, set_up, tear_down)
