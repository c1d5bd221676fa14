/* Requests have the form of replies (arrays of strings), so the reply reader takes them apart. */
#include "tests/support/old_server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "redis/reader.h"
#include "redlock/scripts.h"

struct old_server {
    pthread_t thread;
    int listening;
    _Atomic int connection; /* -1: none */
    unsigned port;
    char value[512]; /* of the one key; "" = none */
    _Atomic bool has_key;
    _Atomic unsigned refusals;
};

static bool argument_is(const struct redis_reply *request, size_t index, const char *text)
{
    return index < request->count && strcasecmp(request->elements[index].bytes, text) == 0;
}

static void value_set(struct old_server *server, const char *value)
{
    snprintf(server->value, sizeof server->value, "%s", value);
    server->has_key = value[0] != '\0';
}

static const char *set_run(struct old_server *server, const struct redis_reply *request)
{
    for (size_t i = 3; i < request->count; i++)
        if (argument_is(request, i, "GET")) {
            server->refusals++;
            return "-ERR syntax error\r\n";
        }
    if (server->has_key)
        return "$-1\r\n";
    value_set(server, request->elements[2].bytes);
    return "+OK\r\n";
}

/* The only script that a lock of one resource needs here is its release: EVALSHA digest 1 key value. */
static const char *release_run(struct old_server *server, const struct redis_reply *request)
{
    if (!server->has_key)
        return "$1\r\n0\r\n";
    if (request->count != 5 || strcmp(server->value, request->elements[4].bytes) != 0)
        return "$1\r\n2\r\n";
    value_set(server, "");
    return "$1\r\n1\r\n";
}

/* SCRIPT LOAD source: the digest, which the build knows. */
static const char *load_run(const struct redis_reply *request)
{
    static _Thread_local char reply[64];
    for (size_t i = 0; i < REDLOCK_SCRIPT_COUNT; i++)
        if (argument_is(request, 2, redlock_scripts[i]->source))
            snprintf(reply, sizeof reply, "$40\r\n%s\r\n", redlock_scripts[i]->sha1);
    return reply;
}

static const char *request_run(struct old_server *server, const struct redis_reply *request)
{
    if (argument_is(request, 0, "SET"))
        return set_run(server, request);
    if (argument_is(request, 0, "EVALSHA"))
        return release_run(server, request);
    if (argument_is(request, 0, "SCRIPT"))
        return load_run(request);
    if (argument_is(request, 0, "ROLE"))
        return "-ERR unknown command 'ROLE'\r\n";
    return argument_is(request, 0, "PING") ? "+PONG\r\n" : "+OK\r\n";
}

static void connection_serve(struct old_server *server, int fd)
{
    struct redis_reader *reader = redis_reader_create(1 << 20, 1024);
    const struct redis_reply *request = NULL;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        redis_reader_give(reader, bytes, (size_t)got);
        while (redis_reader_next(reader, &request) == REDIS_READER_REPLY) {
            const char *reply = request_run(server, request);
            (void)!send(fd, reply, strlen(reply), MSG_NOSIGNAL);
        }
    }
    redis_reader_destroy(reader);
}

static void *server_run(void *argument)
{
    struct old_server *server = argument;
    int fd = -1;
    while ((fd = accept(server->listening, NULL, NULL)) >= 0) {
        server->connection = fd;
        connection_serve(server, fd);
        server->connection = -1;
        close(fd);
    }
    return NULL;
}

struct old_server *old_server_start(void)
{
    struct old_server *server = memory_new(struct old_server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    server->connection = -1;
    server->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listening, (struct sockaddr *)&address, length) != 0 || listen(server->listening, 8) != 0 ||
        getsockname(server->listening, (struct sockaddr *)&address, &length) != 0 ||
        pthread_create(&server->thread, NULL, server_run, server) != 0) {
        perror("old_server");
        abort();
    }
    server->port = ntohs(address.sin_port);
    return server;
}

void old_server_destroy(struct old_server *server)
{
    shutdown(server->listening, SHUT_RDWR);
    if (server->connection >= 0)
        shutdown(server->connection, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listening);
    free(server);
}

unsigned old_server_port(const struct old_server *server)
{
    return server->port;
}

bool old_server_has_key(struct old_server *server)
{
    return server->has_key;
}

unsigned old_server_refusals(struct old_server *server)
{
    return server->refusals;
}
