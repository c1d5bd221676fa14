/* holdfast push and its node: where it is, and what it may do. */
#include "tests/support/private_directory.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/support/hostile_server.h"
#include "tests/support/push_fixture.h"
#include "tests/support/relay.h"

TEST(test_a_node_that_is_down)
{
    snprintf(port, sizeof port, "%u", free_port());
    push(WORDS("echo", "--node-timeout", "100ms"));
    assert_exit(75);
    assert_contains(result.error, "cannot be reached");
    assert_string_equal(result.out, "");
    push_text(WORDS("-", "--node-timeout", "100ms"), "{\"class\":\"t\",\"args\":[]}\n");
    assert_exit(75);
    assert_contains(result.error, "cannot be reached");
    assert_contains(result.out, "0 tasks pushed");
}

TEST(test_a_node_that_comes_up_meanwhile)
{
    const char *arguments[ARGUMENTS_MAX];
    redis_server_kill(server);
    complete(WORDS("echo", "--node-timeout", "20s"), arguments);
    struct program program = program_start(arguments, -1);
    redis_server_restart(server);
    result = program_wait(&program);
    assert_exit(0);
    assert_length("default", 1);
}

TEST(test_a_node_that_does_not_answer)
{
    redis_server_pause(server);
    push(WORDS("echo", "--node-timeout", "100ms"));
    redis_server_resume(server);
    assert_exit(75);
    assert_contains(result.error, "cannot be reached");
}

TEST(a_member_of_a_cluster_is_named)
{
    struct redis_server *member = redis_server_start(&(struct redis_server_options){.config = "cluster-enabled yes\n"});
    snprintf(port, sizeof port, "%u", redis_server_port(member));
    push(WORDS("echo"));
    assert_exit(1);
    assert_contains(result.error, "refused by the node: 127.0.0.1:");
    assert_contains(result.error, " is part of a Redis Cluster; the nodes have to be single masters");
    redis_server_destroy(member);
}

TEST(a_lock_node_is_no_queue_node)
{
    free(redis_server_command(server, "SET hf:lock:group x"));
    push(WORDS("echo"));
    assert_exit(1);
    assert_contains(result.error, " is a lock node, and no worker or task was ever there: name the queue node\n");
    assert_length("default", 0);
    free(redis_server_command(server, "DEL hf:lock:group"));
    free(redis_server_command(server, "SET hf:lock:node x"));
    const char *pause[] = {"pause", "q", "--host", "127.0.0.1", "--port", port, NULL};
    program_result_free(&result);
    result = program_run_arguments(pause, -1);
    assert_exit(1);
    assert_contains(result.error, " is a lock node, ");
    free(redis_server_command(server, "SADD queues default")); /* a server for both */
    push(WORDS("echo"));
    assert_exit(0);
    assert_length("default", 1);
}

/* Whatever it says, it is no Redis server, and --node-timeout ends. */
TEST(test_a_node_that_says_ok_to_everything)
{
    struct hostile_server *hostile = hostile_server_start(HOSTILE_GOOD);
    snprintf(port, sizeof port, "%u", hostile_server_port(hostile));
    struct instant before = instant_now();
    push(WORDS("echo", "--node-timeout", "200ms"));
    assert_true(instant_since(before, instant_now()) < TEST_PATIENCE_NS / 3);
    assert_exit(75);
    assert_contains(result.error, "cannot be reached");
    hostile_server_destroy(hostile);
}

/* The connection ends while tasks are on their way: nobody knows, and that is said. */
TEST(test_a_connection_that_breaks_meanwhile)
{
    int fds[2];
    const char *arguments[ARGUMENTS_MAX];
    struct relay *relay = relay_start(redis_server_port(server));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    snprintf(port, sizeof port, "%u", relay_port(relay));
    complete(WORDS("t", "-"), arguments);
    struct program program = program_start(arguments, fds[0]);
    assert_int_equal(write(fds[1], "[1]\n", 4), 4);
    test_await(queue_probe_number(server, "LLEN queue:default") == 1);
    relay_swallow(relay, true);
    assert_int_equal(write(fds[1], "[2]\n[3]\n", 8), 8);
    test_await(queue_probe_number(server, "LLEN queue:default") == 3);
    relay_cut(relay);
    result = program_wait(&program);
    close(fds[1]);
    relay_destroy(relay);
    assert_exit(1);
    assert_length("default", 3);
    assert_contains(result.error, "lines 2 to 3, 2 tasks for queue default: they may or may not have been pushed: ");
    assert_contains(result.error, "nothing after line 3 was pushed");
    assert_contains(result.out, "1 task pushed");
}

/* The same, but the node can be reached again: it knows what it has, and nothing is doubled. */
TEST(test_a_connection_that_comes_back)
{
    int fds[2];
    const char *arguments[ARGUMENTS_MAX];
    struct relay *relay = relay_start(redis_server_port(server));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    snprintf(port, sizeof port, "%u", relay_port(relay));
    complete(WORDS("t", "-", "--node-timeout", "20s"), arguments);
    struct program program = program_start(arguments, fds[0]);
    assert_int_equal(write(fds[1], "[1]\n", 4), 4);
    test_await(queue_probe_number(server, "LLEN queue:default") == 1);
    relay_swallow(relay, true);
    assert_int_equal(write(fds[1], "[2]\n[3]\n", 8), 8);
    test_await(queue_probe_number(server, "LLEN queue:default") == 3);
    relay_cut(relay);
    relay_swallow(relay, false);
    assert_int_equal(write(fds[1], "[4]\n", 4), 4);
    close(fds[1]);
    result = program_wait(&program);
    relay_destroy(relay);
    assert_exit(0);
    assert_contains(result.out, "4 tasks pushed");
    assert_length("default", 4);
}

TEST(test_a_node_out_of_memory)
{
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    push(WORDS("echo"));
    assert_exit(1);
    assert_contains(result.error, "refused by the node: OOM");
    assert_string_equal(result.out, "");
    push_text(WORDS("t", "-"), "[1]\n[2]\n");
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_exit(1);
    assert_contains(result.error, "lines 1 to 2, 2 tasks for queue default: refused by the node: OOM");
    assert_contains(result.out, "0 tasks pushed");
}

static char *file_write(char path[PRIVATE_DIRECTORY_MAX], const char *text)
{
    int fd = private_file_create(path);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

TEST(test_passwords)
{
    char right[PRIVATE_DIRECTORY_MAX], wrong[PRIVATE_DIRECTORY_MAX];
    struct redis_server *secret = redis_server_start(&(struct redis_server_options){.password = "open-sesame"});
    snprintf(port, sizeof port, "%u", redis_server_port(secret));
    push(WORDS("echo", "--password-file", file_write(right, "open-sesame\n")));
    assert_exit(0);
    push(WORDS("echo", "--password-file", file_write(wrong, "no\n")));
    assert_exit(1);
    assert_contains(result.error, "does not let us in");
    push(WORDS("echo"));
    assert_exit(1);
    assert_contains(result.error, "does not let us in");
    push(WORDS("echo", "--password-file", "/nowhere/at/all"));
    assert_exit(1);
    assert_contains(result.error, "/nowhere/at/all");
    setenv("HOLDFAST_TEST_PASSWORD", "open-sesame", 1);
    push(WORDS("echo", "--user", "default", "--password-env", "HOLDFAST_TEST_PASSWORD"));
    assert_exit(0);
    char *count = redis_server_command(secret, "LLEN queue:default");
    assert_string_equal(count, "2");
    free(count);
    unlink(right);
    unlink(wrong);
    redis_server_destroy(secret);
}

static void push_with_config(const char *path)
{
    const char *arguments[] = {"push", "-c", path, "echo", NULL};
    program_result_free(&result);
    result = program_run_arguments(arguments, -1);
}

TEST(test_the_node_of_a_configuration)
{
    char good[PRIVATE_DIRECTORY_MAX], bad[PRIVATE_DIRECTORY_MAX];
    struct buffer text = {0};
    buffer_format(
        &text,
        "worker = { queues = [\"jobs\"]; };\nqueue_node = { host = \"127.0.0.1\"; port = %s; database = 3; };\n"
        "lock_nodes = ( { name = \"l\"; host = \"127.0.0.1\"; port = 1; } );\n",
        port);
    push_with_config(file_write(good, buffer_text(&text)));
    assert_exit(0);
    char *keyspace = redis_server_command(server, "INFO keyspace");
    assert_contains(keyspace, "db3:keys=2");
    free(keyspace);
    push_with_config(file_write(bad, "worker = {"));
    assert_exit(1);
    assert_contains(result.error, "error: ");
    unlink(good);
    unlink(bad);
    buffer_fini(&text);
}

TEST(test_a_unix_socket_and_a_database)
{
    const char *arguments[] = {"push", "echo", "--socket", redis_server_unix_path(server), "--database", "2", NULL};
    result = program_run_arguments(arguments, -1);
    assert_exit(0);
    char *keyspace = redis_server_command(server, "INFO keyspace");
    assert_contains(keyspace, "db2:keys=2");
    free(keyspace);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, push_set_up, push_tear_down)
