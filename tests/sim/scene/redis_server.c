/* tests/support/redis_server.h in the world: a simulated server for a test that runs there. */
#include "tests/support/redis_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redis/reader.h"
#include "tests/sim/scene/scene.h"
#include "tests/sim/scene/tls_front.h"
#include "tests/sim/server/simulated_client.h"
#include "tests/support/reply_text.h"

enum { FIRST_PORT = 7000, SERVERS_MAX = 64 };

#define COMMAND_NS (20 * NS_PER_US) /* the time that a command costs the test */

struct redis_server {
    struct node *node;
    char *password;
    struct tls_front *tls; /* NULL = it has none */
    bool is_durable;       /* its data survive its end */
};

static unsigned ports = FIRST_PORT;
static struct node *nodes[SERVERS_MAX];
static unsigned node_count;

struct node *scene_node(unsigned port)
{
    for (unsigned i = node_count; i-- > 0;)
        if (nodes[i]->listener.port == port)
            return nodes[i];
    return NULL;
}

unsigned free_port(void)
{
    return ports++;
}

/* --- talking to it ------------------------------------------------------------------------------------------------ */

/* The last of the replies. */
static void last_reply_write(const struct buffer *bytes, struct buffer *out)
{
    struct redis_reader *reader = redis_reader_create((size_t)64 << 20, (size_t)1 << 20);
    const struct redis_reply *reply = NULL;
    redis_reader_give(reader, bytes->bytes, bytes->length);
    while (redis_reader_next(reader, &reply) == REDIS_READER_REPLY) {
        buffer_clear(out);
        reply_text_write(reply, out);
    }
    redis_reader_destroy(reader);
}

/* CONFIG SET of settings of TLS, which the model has none of. */
static bool is_about_tls(struct redis_server *server, const char *command)
{
    static const char begin[] = "CONFIG SET tls-";
    char name[64], value[256];
    int length = 0;
    if (strncmp(command, begin, sizeof begin - 1) != 0)
        return false;
    for (command += strlen("CONFIG SET"); sscanf(command, " %63s %255s%n", name, value, &length) == 2;
         command += length)
        tls_front_configure(server->tls, name, value);
    return true;
}

char *redis_server_command(struct redis_server *server, const char *format, ...)
{
    struct buffer text = {0};
    struct simulated_client client;
    struct node *node = server->node;
    va_list values;
    va_start(values, format);
    char *command = NULL;
    invariant(vasprintf(&command, format, values) >= 0);
    va_end(values);
    if (is_about_tls(server, command)) {
        free(command);
        return memory_text("OK");
    }
    process_current()->ahead_ns += COMMAND_NS;
    node_catch_up(node);
    simulated_client_connect(&client, node->server);
    if (server->password != NULL) {
        buffer_format(&text, "AUTH %s", server->password);
        simulated_client_say(&client, buffer_text(&text), node_now_us(node));
    }
    simulated_client_say(&client, command, node_now_us(node));
    node_look(node);
    last_reply_write(&client.said, &text);
    simulated_client_end(&client);
    if (strncmp(buffer_text(&text), "-ERR unknown command", 20) == 0) {
        printf("%s: the simulated server does not know it (tests/sim/server/redis_commands.c)\n", command);
        abort();
    }
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    free(command);
    return copy;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void settings_take(struct redis_server *server, const char *config)
{
    char name[64], value[256];
    int length = 0;
    for (; config != NULL && sscanf(config, " %63s %255[^\n]%n", name, value, &length) == 2; config += length) {
        bool is_tls = strncmp(name, "tls-", strlen("tls-")) == 0;
        if (is_tls && server->tls == NULL)
            server->tls = tls_front_create(server->node);
        if (is_tls)
            tls_front_configure(server->tls, name, value);
        else
            invariant(server_configure(server->node->server, name, value));
    }
}

/* The lines of an ACL file. */
static void users_take(struct redis_server *server, const char *acl)
{
    char rules[512];
    int length = 0;
    for (; acl != NULL && sscanf(acl, " user %511[^\n]%n", rules, &length) == 1; acl += length) {
        char *reply = redis_server_command(server, "ACL SETUSER %s", rules);
        invariant(strcmp(reply, "OK") == 0);
        free(reply);
    }
}

struct redis_server *redis_server_start(const struct redis_server_options *options)
{
    static const struct redis_server_options defaults;
    if (options == NULL)
        options = &defaults;
    invariant(!options->is_sentinel);
    struct redis_server *server = memory_new(struct redis_server);
    unsigned port = options->port != 0 ? options->port : free_port();
    char name[16];
    snprintf(name, sizeof name, "server%u", port);
    server->password = options->password != NULL ? memory_text(options->password) : NULL;
    server->node = node_create_with(name, port, options->password);
    invariant(node_count < SERVERS_MAX);
    nodes[node_count++] = server->node;
    server->is_durable = options->config != NULL && strstr(options->config, "appendonly yes") != NULL;
    settings_take(server, options->config);
    users_take(server, options->acl);
    return server;
}

void redis_server_destroy(struct redis_server *server)
{
    if (server == NULL)
        return;
    node_stop(server->node, false);
    tls_front_destroy(server->tls);
    free(server->password);
    free(server);
}

void redis_server_kill(struct redis_server *server)
{
    node_stop(server->node, false);
}

void redis_server_restart(struct redis_server *server)
{
    node_stop(server->node, false);
    node_start(server->node, server->is_durable ? SERVER_KEEPS : SERVER_SAVED);
}

void redis_server_kill_begin(struct redis_server *server)
{
    redis_server_kill(server);
}

bool redis_server_is_gone(struct redis_server *server)
{
    return !server->node->is_up;
}

void redis_server_restart_begin(struct redis_server *server)
{
    redis_server_restart(server);
}

bool redis_server_is_back(struct redis_server *server)
{
    return server->node->is_up;
}

void redis_server_pause(struct redis_server *server)
{
    node_pause(server->node);
}

void redis_server_resume(struct redis_server *server)
{
    node_resume(server->node);
}

void redis_server_heal(struct redis_server *server)
{
    if (!server->node->is_up)
        redis_server_restart(server);
    node_resume(server->node);
    server_set_out_of_memory(server->node->server, false);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    free(redis_server_command(server, "FLUSHALL"));
}

/* --- facts -------------------------------------------------------------------------------------------------------- */

unsigned redis_server_port(const struct redis_server *server)
{
    return server->node->listener.port;
}

const char *redis_server_unix_path(const struct redis_server *server)
{
    (void)server;
    return NULL;
}

pid_t redis_server_pid(const struct redis_server *server)
{
    return server->node->is_up ? 1 : 0;
}

const char *redis_server_kind(struct redis_server *server)
{
    (void)server;
    return "redis";
}

/* 0 when it is not there. */
static unsigned number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    return at != NULL ? (unsigned)strtoul(at + strlen(before), NULL, 10) : 0;
}

unsigned redis_server_info(struct redis_server *server, const char *section, const char *before)
{
    char *info = redis_server_command(server, "INFO %s", section);
    unsigned number = number_after(info, before);
    free(info);
    return number;
}

static unsigned calls_in(const char *stats, const char *command)
{
    char name[64];
    snprintf(name, sizeof name, "cmdstat_%s:", command);
    const char *at = strstr(stats, name);
    return at != NULL ? number_after(at, ":calls=") + number_after(at, ",rejected_calls=") : 0;
}

unsigned redis_server_calls(struct redis_server *server, const char *command)
{
    return redis_server_calls_beyond(server, command, "");
}

unsigned redis_server_calls_beyond(struct redis_server *server, const char *command, const char *other)
{
    char *stats = redis_server_command(server, "INFO commandstats");
    unsigned calls = calls_in(stats, command) - calls_in(stats, other);
    free(stats);
    return calls;
}
