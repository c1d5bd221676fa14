/* For tests of the operators' commands: each runs the program against one private server, with a configuration that
 * leads there. Its state is in the header, because a test program is one file. */
#ifndef SUPPORT_ADMIN_FIXTURE_H
#define SUPPORT_ADMIN_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/one_server.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/queue_probe.h"

enum { ADMIN_ARGUMENTS_MAX = 30 };

static char admin_directory[PRIVATE_DIRECTORY_MAX], admin_config[PRIVATE_DIRECTORY_MAX + 16];
static struct program_result result;

static inline void admin_config_write(unsigned port)
{
    FILE *file = fopen(admin_config, "we");
    assert_non_null(file);
    fprintf(file, "queue_node = { host = \"127.0.0.1\"; port = %u; connect_timeout = \"10s\"; };\n", port);
    fprintf(file, "classes = ( { class = \"echo\"; lock = \"none\"; } );\nworker = { jobs = [\"echo\"]; };\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(admin_config, 0600), 0);
}

static inline int admin_set_up(void **state)
{
    (void)state;
    redis_server_heal(server);
    free(redis_server_command(server, "CONFIG RESETSTAT"));
    private_directory_create(admin_directory);
    snprintf(admin_config, sizeof admin_config, "%s/t.conf", admin_directory);
    admin_config_write(redis_server_port(server));
    return 0;
}

static inline int admin_tear_down(void **state)
{
    (void)state;
    program_result_free(&result);
    result = (struct program_result){0};
    unlink(admin_config);
    return rmdir(admin_directory);
}

/* Runs "WORDS... -c CONFIG"; sets `result`. */
static inline void admin_run(const char *const *words)
{
    const char *arguments[ADMIN_ARGUMENTS_MAX] = {NULL};
    size_t count = 0;
    for (; words[count] != NULL; count++)
        arguments[count] = words[count];
    arguments[count++] = "-c";
    arguments[count++] = admin_config;
    program_result_free(&result);
    result = program_run_arguments(arguments, -1);
}

#define admin(...) admin_run((const char *const[]){__VA_ARGS__, NULL})

/* The same, and it has to succeed without a word on standard error. */
#define admin_good(...)                                                                                                \
    do {                                                                                                               \
        admin(__VA_ARGS__);                                                                                            \
        assert_string_equal(result.error, "");                                                                         \
        assert_int_equal(result.exit_code, 0);                                                                         \
    } while (0)

/* A command to the server, of which the reply does not matter. */
#define given(...) free(redis_server_command(server, __VA_ARGS__))

/* Lists a process of ours whose lease ends in so many seconds. */
static inline void given_lease(const char *identity, int seconds)
{
    given("EVAL \"return redis.call('ZADD', 'hf:2:processes', redis.call('TIME')[1] + ARGV[2], ARGV[1])\" 0 %s %d",
          identity, seconds);
}

/* A task that waits in this list, by the name w1, w2 ..., and comes back from `schedule` at this time. */
static inline void given_parked(const char *list, int number, double due)
{
    given("EVAL \"local due = string.format('%%.6f', ARGV[3]) redis.call('ZADD', 'hf:2:waiting:' .. ARGV[1], ARGV[2], "
          "'w' .. ARGV[2]) redis.call('HSET', 'hf:2:waiters:' .. ARGV[1], 'w' .. ARGV[2], due .. "
          "'\\\\n0123\\\\nq\\\\n-\\\\nC') "
          "redis.call('ZADD', 'schedule', due, ARGV[1] .. ARGV[2])\" 0 %s %d %.6f",
          list, number, due);
}

/* In place of RUN_TESTS. */
#define RUN_ADMIN_TESTS RUN_GROUP(one_server_set_up, one_server_tear_down, admin_set_up, admin_tear_down)

#endif
