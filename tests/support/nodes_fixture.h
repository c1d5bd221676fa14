/* For tests of `holdfast nodes`: real servers, and the program run with a configuration that names some of them. Its
 * state is in the header, because a test program is one file. */
#ifndef SUPPORT_NODES_FIXTURE_H
#define SUPPORT_NODES_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "redlock/marker.h"
#include "tests/support/lock_group.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"

enum { SERVERS = 4, MEMBERS = 3, COMMAND_MAX = 1024 };

static struct redis_server *servers[SERVERS]; /* the last one is for replacements */
static char nodes_directory[PRIVATE_DIRECTORY_MAX], nodes_config[PRIVATE_DIRECTORY_MAX + 16];
static struct program_result result;

__attribute__((format(printf, 1, 2))) static inline void config_write(const char *format, ...)
{
    va_list values;
    FILE *file = fopen(nodes_config, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fputs("queue_node = { host = \"127.0.0.1\"; port = 1; };\n", file);
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    assert_int_equal(fclose(file), 0);
}

#define AT "{ host = \"127.0.0.1\"; port = %u; connect_timeout = \"5s\"; }"

static inline void config_members(unsigned first, unsigned second, unsigned third)
{
    config_write("lock_nodes = ( " AT ", " AT ", " AT " );\nlock = { prefix = \"lock:\"; };\n", first, second, third);
}

static inline unsigned port_of(unsigned server)
{
    return redis_server_port(servers[server]);
}

/* Runs `holdfast nodes -c CONFIG` with these arguments. */
__attribute__((format(printf, 1, 2))) static inline int nodes(const char *format, ...)
{
    char arguments[COMMAND_MAX], line[COMMAND_MAX + 320];
    va_list values;
    va_start(values, format);
    vsnprintf(arguments, sizeof arguments, format, values);
    va_end(values);
    snprintf(line, sizeof line, "nodes -c %s%s%s", nodes_config, arguments[0] != '\0' ? " " : "", arguments);
    program_result_free(&result);
    result = program_run(line);
    return result.exit_code;
}

static inline void assert_refused(int exit_code, const char *reason)
{
    assert_contains(result.error, reason);
    assert_int_equal(result.exit_code, exit_code);
    assert_string_equal(result.out, "");
}

/* The marker as the server has it; "" = none. The caller frees it. */
static inline char *marker_text(unsigned server)
{
    char *text = redis_server_command(servers[server], "GET " MARKER_KEY);
    if (strcmp(text, "(nil)") == 0)
        text[0] = '\0';
    return text;
}

static inline struct marker marker_of(unsigned server)
{
    struct marker marker;
    char *text = marker_text(server);
    if (!marker_parse(&marker, text, strlen(text)))
        fail_msg("'%s' is no marker", text);
    free(text);
    return marker;
}

static inline void assert_unmarked(unsigned server)
{
    char *text = marker_text(server);
    assert_string_equal(text, "");
    free(text);
}

__attribute__((format(printf, 2, 3))) static inline void ask(unsigned server, const char *format, ...)
{
    char command[COMMAND_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    free(redis_server_command(servers[server], "%s", command));
}

/* For the whole group. Markers survive a restart of these servers. */
static inline int servers_start(void **state)
{
    (void)state;
    private_directory_create(nodes_directory);
    snprintf(nodes_config, sizeof nodes_config, "%s/t.conf", nodes_directory);
    for (unsigned i = 0; i < SERVERS; i++)
        servers[i] = redis_server_start(&(struct redis_server_options){.config = "appendonly yes\n"
                                                                                 "appendfsync always\n"});
    return 0;
}

static inline int servers_stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++)
        redis_server_destroy(servers[i]);
    unlink(nodes_config);
    return rmdir(nodes_directory);
}

/* Before each test: three strangers in the configuration. */
static inline int nodes_begin(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++)
        redis_server_heal(servers[i]);
    config_members(port_of(0), port_of(1), port_of(2));
    return 0;
}

static inline int nodes_end(void **state)
{
    (void)state;
    program_result_free(&result);
    result = (struct program_result){.out = NULL};
    return 0;
}

/* Three members, with the shortest quarantine. */
static inline void group_begin(void)
{
    if (nodes("init --max-ttl 1s") != 0)
        fail_msg("%s", result.error);
}

#endif
