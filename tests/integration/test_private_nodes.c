/* Nodes of its own for a dry run: that they answer whom they should, are a lock group, keep their ports to themselves,
 * and go without a trace. What faults do to them is seen from the outside. */
#include "worker/dry_run/nodes/private_nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/node_talk.h"
#include "tests/support/private_directory.h"
#include "tests/support/test.h"
#include "worker/servers/server_program.h"

static struct private_nodes *start(const struct private_nodes_options *options)
{
    struct error error = ERROR_NONE;
    struct private_nodes *nodes = private_nodes_start(options, &error);
    if (nodes == NULL)
        fail_msg("%s", error.text);
    return nodes;
}

static char *ask(const struct private_nodes *nodes, unsigned number, const char *command)
{
    return node_talk(private_nodes_port(nodes, number), nodes->password, command);
}

static void assert_answer(const struct private_nodes *nodes, unsigned number, const char *command, const char *wanted)
{
    char *answer = ask(nodes, number, command);
    assert_string_equal(answer, wanted);
    free(answer);
}

static void assert_answer_has(const struct private_nodes *nodes, unsigned number, const char *command, const char *part)
{
    char *answer = ask(nodes, number, command);
    assert_contains(answer, part);
    free(answer);
}

static bool is_process(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

TEST(they_answer_are_a_group_and_go_without_a_trace)
{
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 3, .max_ttl_ns = 5 * NS_PER_S});
    pid_t pids[4];
    assert_int_equal(nodes->count, 4);
    for (unsigned i = 0; i <= 3; i++) {
        pids[i] = nodes->servers[i].pid;
        assert_true(is_process(pids[i]));
        assert_int_equal(getsid(pids[i]), pids[i]); /* ^C at the terminal is not for them */
        assert_answer(nodes, i, "SET some value", "+OK");
        assert_answer_has(nodes, i, "CONFIG GET maxmemory-policy", "noeviction");
        assert_answer_has(nodes, i, "CONFIG GET save", "$0");
        assert_answer_has(nodes, i, "CONFIG GET appendonly", "no");
    }
    assert_answer(nodes, 0, "EXISTS hf:lock:group", ":0");
    for (unsigned i = 1; i <= 3; i++)
        assert_answer_has(nodes, i, "GET hf:lock:group", "generation=1 max_ttl_ms=5000 ");
    char *directory = memory_text(nodes->directory);
    struct stat status;
    assert_int_equal(stat(directory, &status), 0);
    assert_int_equal(status.st_mode & 077, 0);
    private_nodes_end(nodes);
    for (unsigned i = 0; i <= 3; i++)
        assert_false(is_process(pids[i]));
    assert_false(is_directory(directory));
    free(directory);
}

TEST(without_the_password_they_refuse)
{
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1});
    char *answer = node_talk(private_nodes_port(nodes, 0), NULL, "GET some");
    assert_contains(answer, "NOAUTH");
    free(answer);
    private_nodes_end(nodes);
}

TEST(one_lock_node_alone_is_no_group)
{
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1});
    assert_answer(nodes, 1, "EXISTS hf:lock:group", ":0");
    private_nodes_end(nodes);
}

static bool can_bind(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return can;
}

TEST(a_killed_node_keeps_its_port_and_comes_back_empty)
{
    struct error error = ERROR_NONE;
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1});
    unsigned port = private_nodes_port(nodes, 1);
    assert_answer(nodes, 1, "SET some value", "+OK");
    private_server_kill(&nodes->servers[1]);
    assert_int_equal(nodes->servers[1].pid, 0);
    assert_null(ask(nodes, 1, "PING"));
    assert_false(can_bind(port));
    assert_true(private_server_start(&nodes->servers[1], nodes->program.path, &error));
    assert_int_equal(private_nodes_port(nodes, 1), port);
    char *answer = NULL;
    test_await((answer = ask(nodes, 1, "PING")) != NULL);
    free(answer);
    assert_answer(nodes, 1, "EXISTS some", ":0");
    private_nodes_end(nodes);
}

TEST(a_stopped_node_is_ended_too)
{
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1});
    pid_t pid = nodes->servers[1].pid;
    kill(nodes->servers[1].pid, SIGSTOP);
    private_nodes_end(nodes);
    assert_false(is_process(pid));
}

static int64_t seconds_of(const struct private_nodes *nodes, unsigned number)
{
    char *answer = ask(nodes, number, "TIME");
    long long seconds = 0;
    assert_int_equal(sscanf(answer, "*2 $10 %lld", &seconds), 1);
    free(answer);
    return seconds;
}

/* The loader would take " " and ":" for the end of a library's path. */
TEST(the_clock_of_one_node_is_stepped_and_of_no_other)
{
    char directory[PRIVATE_DIRECTORY_MAX], library[PRIVATE_DIRECTORY_MAX + 16], *build = realpath(test_build(), NULL);
    char *built = NULL;
    assert_true(asprintf(&built, "%s/preload/stepped_clock.so", build) > 0);
    private_directory_create(directory);
    snprintf(library, sizeof library, "%s/a clock:b.so", directory);
    assert_int_equal(symlink(built, library), 0);
    struct private_nodes *nodes =
        start(&(struct private_nodes_options){.lock_nodes = 3, .has_clock = {[2] = true}, .clock_library = library});
    int64_t before = seconds_of(nodes, 2);
    *nodes->servers[2].clock_offset_ns = -3600 * NS_PER_S;
    assert_in_range(seconds_of(nodes, 2) + 3600, before, before + 30);
    assert_in_range(seconds_of(nodes, 1), before, before + 30);
    *nodes->servers[2].clock_offset_ns = 0;
    assert_in_range(seconds_of(nodes, 2), before, before + 30);
    private_nodes_end(nodes);
    assert_int_equal(unlink(library) | rmdir(directory), 0);
    free(built);
    free(build);
}

TEST(a_library_that_is_not_there_is_told)
{
    struct error error = ERROR_NONE;
    assert_null(private_nodes_start(
        &(struct private_nodes_options){.lock_nodes = 1, .has_clock = {[1] = true}, .clock_library = "/no/such.so"},
        &error));
    assert_contains(error.text, "/no/such.so");
}

static int64_t ask_for(const struct private_nodes *nodes, unsigned number)
{
    struct instant asked = instant_now();
    assert_answer(nodes, number, "PING", "+PONG");
    return instant_since(asked, instant_now());
}

TEST(a_slow_node_answers_late)
{
    enum { DELAY_MS = 400 };
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1, .is_slowed = {[1] = true}});
    assert_int_not_equal(private_nodes_port(nodes, 1), nodes->servers[1].port);
    assert_int_equal(private_nodes_port(nodes, 0), nodes->servers[0].port);
    assert_answer(nodes, 1, "PING", "+PONG");
    *nodes->relays[1].delay_ns = DELAY_MS * NS_PER_MS;
    assert_true(ask_for(nodes, 1) >= DELAY_MS * NS_PER_MS);
    *nodes->relays[1].delay_ns = 0;
    assert_answer(nodes, 1, "PING", "+PONG");
    private_nodes_end(nodes);
}

/* More than a pipe or a socket holds, both ways, byte for byte. */
TEST(a_relay_passes_large_values)
{
    enum { LENGTH = 20 * 1000 * 1000 };
    struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1, .is_slowed = {[1] = true}});
    struct buffer command = {0};
    *nodes->relays[1].delay_ns = 2 * NS_PER_MS;
    buffer_append_text(&command, "SET large ");
    memset(buffer_reserve(&command, LENGTH), 'x', LENGTH);
    command.length += LENGTH;
    assert_answer(nodes, 1, buffer_text(&command), "+OK");
    char *answer = ask(nodes, 1, "GET large");
    assert_memory_equal(answer, "$20000000 xxx", 13);
    assert_int_equal(strlen(answer), 10 + LENGTH);
    assert_int_equal(strspn(answer + 10, "x"), LENGTH);
    free(answer);
    buffer_fini(&command);
    private_nodes_end(nodes);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

#define SAYS(words) "#!/bin/sh\necho '" words "'\n"
#define OLD         SAYS("Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1")
#define NEW         SAYS("Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0")

struct place {
    char directory[PRIVATE_DIRECTORY_MAX], *path, *named;
};

static void program_write(const struct place *place, const char *name, const char *script)
{
    char path[PRIVATE_DIRECTORY_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    unlink(path);
    if (script == NULL)
        return;
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

/* A PATH with these programs alone; NULL: without it. */
static void place_enter(struct place *place, const char *redis, const char *valkey)
{
    private_directory_create(place->directory);
    program_write(place, "redis-server", redis);
    program_write(place, "valkey-server", valkey);
    place->path = memory_text(getenv("PATH"));
    place->named = getenv("REDIS_SERVER") != NULL ? memory_text(getenv("REDIS_SERVER")) : NULL;
    setenv("PATH", place->directory, 1);
    unsetenv("REDIS_SERVER");
}

static void place_leave(struct place *place)
{
    setenv("PATH", place->path, 1);
    if (place->named != NULL)
        setenv("REDIS_SERVER", place->named, 1);
    free(place->path);
    free(place->named);
    program_write(place, "redis-server", NULL);
    program_write(place, "valkey-server", NULL);
    assert_int_equal(rmdir(place->directory), 0);
}

static void refusal_expect(const char *redis, const char *valkey, const char *words)
{
    struct place place;
    struct error error = ERROR_NONE;
    place_enter(&place, redis, valkey);
    assert_null(private_nodes_start(&(struct private_nodes_options){.lock_nodes = 1}, &error));
    place_leave(&place);
    assert_contains(error.text, words);
}

TEST(a_server_that_is_missing_or_too_old_is_told_with_the_package)
{
    refusal_expect(NULL, NULL, "no redis-server or valkey-server in the PATH");
    refusal_expect(NULL, NULL, "install the package redis-server");
    refusal_expect(OLD, NULL, "redis-server: version 6.0 is too old");
    refusal_expect(SAYS("hello"), NULL, "does not say its version");
    refusal_expect(NULL, OLD, "valkey-server: version 6.0 is too old");
}

TEST(the_first_server_that_is_new_enough_is_taken)
{
    struct place place;
    struct server_program program;
    struct error error = ERROR_NONE;
    place_enter(&place, OLD, NEW);
    assert_true(server_program_find(&program, &error));
    assert_contains(program.path, "/valkey-server");
    assert_int_equal(program.major, 8);
    program_write(&place, "redis-server", NEW);
    assert_true(server_program_find(&program, &error));
    assert_contains(program.path, "/redis-server");
    setenv("REDIS_SERVER", "valkey-server", 1);
    assert_true(server_program_find(&program, &error));
    assert_contains(program.path, "/valkey-server");
    setenv("REDIS_SERVER", "/no/such server", 1);
    assert_false(server_program_find(&program, &error));
    assert_contains(error.text, "REDIS_SERVER=/no/such server: there is no such program");
    unsetenv("REDIS_SERVER");
    place_leave(&place);
}

TEST(a_server_that_ends_at_once_is_told_with_its_last_words)
{
    static const char script[] =
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=7.0.15' || echo 'no memory here' >&2\n";
    refusal_expect(script, NULL, "ended at once");
    refusal_expect(script, NULL, "no memory here");
}

/* --- an owner that dies ------------------------------------------------------------------------------------------- */

TEST(they_die_with_whom_they_belong_to)
{
    int ends[2];
    pid_t pids[2];
    char directory[256] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t owner = fork();
    if (owner == 0) {
        struct private_nodes *nodes = start(&(struct private_nodes_options){.lock_nodes = 1});
        pids[0] = nodes->servers[0].pid, pids[1] = nodes->servers[1].pid;
        snprintf(directory, sizeof directory, "%s", nodes->directory);
        ssize_t told = write(ends[1], pids, sizeof pids) + write(ends[1], directory, sizeof directory);
        for (;;)
            poll(NULL, 0, told > 0 ? 1000 : 1);
    }
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    assert_int_equal(read(ends[0], directory, sizeof directory), sizeof directory);
    assert_true(is_process(pids[0]) && is_process(pids[1]));
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    test_await(!is_process(pids[0]) && !is_process(pids[1]));
    close(ends[0]), close(ends[1]);
    static const char *const files[] = {"queue.conf", "queue.log", "lock1.conf", "lock1.log"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[sizeof directory + 16];
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(directory), 0);
}

RUN_TESTS
