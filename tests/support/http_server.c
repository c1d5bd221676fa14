#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "tests/support/test.h"

enum { REQUESTS_MAX = 8, REQUEST_MAX = 1 << 20 };

struct http_server {
    const char *const *answers;
    int listener, stop[2]; /* `stop` becomes readable when it has to end */
    uint16_t port;
    pthread_t thread;
    char *requests[REQUESTS_MAX];
    atomic_uint received;
};

/* False when the server is to stop. */
static bool wait_for(const struct http_server *server, int fd, short events)
{
    struct pollfd watched[] = {{.fd = fd, .events = events}, {.fd = server->stop[0], .events = POLLIN}};
    while (poll(watched, 2, -1) < 0) {
    }
    return watched[1].revents == 0;
}

static size_t body_length_of(const char *request)
{
    const char *line = strcasestr(request, "\r\nContent-Length:");
    return line != NULL ? strtoul(line + strlen("\r\nContent-Length:"), NULL, 10) : 0;
}

static bool is_whole(const char *request, size_t length)
{
    const char *end = strstr(request, "\r\n\r\n");
    return end != NULL && length >= (size_t)(end - request) + 4 + body_length_of(request);
}

/* The request, or NULL when the client left or the server is to stop. */
static char *request_read(const struct http_server *server, int client)
{
    char *request = memory_zeroed(REQUEST_MAX + 1, 1);
    size_t length = 0;
    while (length < REQUEST_MAX && wait_for(server, client, POLLIN)) {
        ssize_t got = recv(client, request + length, REQUEST_MAX - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        request[length] = '\0';
        if (is_whole(request, length))
            return request;
    }
    free(request);
    return NULL;
}

static bool say(const struct http_server *server, int client, const char *text, size_t length)
{
    while (length > 0) {
        if (!wait_for(server, client, POLLOUT))
            return false;
        ssize_t sent = send(client, text, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return false;
        text += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void answer(struct http_server *server, int client, const char *text)
{
    static const char more[65536];
    size_t length = strlen(text), end = strlen(HTTP_ENDLESS);
    char byte;
    if (!say(server, client, text, length))
        return;
    if (length >= end && strcmp(text + length - end, HTTP_ENDLESS) == 0)
        while (say(server, client, more, sizeof more)) {
        }
    if (length == 0)
        while (wait_for(server, client, POLLIN) && recv(client, &byte, 1, 0) > 0) {
        }
}

static void *serve(void *context)
{
    struct http_server *server = context;
    const char *const *next = server->answers;
    while (wait_for(server, server->listener, POLLIN)) {
        int client = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        char *request = client >= 0 ? request_read(server, client) : NULL;
        if (request != NULL) {
            unsigned index = atomic_load(&server->received);
            if (index < REQUESTS_MAX)
                server->requests[index] = request;
            else
                free(request);
            atomic_store(&server->received, index + 1);
            answer(server, client, *next);
            next += next[1] != NULL;
        }
        if (client >= 0)
            close(client);
    }
    return NULL;
}

struct http_server *http_server_start(const char *const *answers)
{
    struct http_server *server = memory_new(struct http_server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *server = (struct http_server){.answers = answers};
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pipe2(server->stop, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    return server;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

unsigned http_server_requests(struct http_server *server)
{
    return atomic_load(&server->received);
}

const char *http_server_request(struct http_server *server, unsigned index)
{
    return index < http_server_requests(server) && index < REQUESTS_MAX ? server->requests[index] : NULL;
}

void http_server_stop(struct http_server *server)
{
    close(server->stop[1]);
    pthread_join(server->thread, NULL);
    close(server->stop[0]);
    close(server->listener);
    for (int i = 0; i < REQUESTS_MAX; i++)
        free(server->requests[i]);
    free(server);
}

void http_request_expect_signature(const char *request, const char *header, const char *secret)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char name[80], message[2048], line[256];
    long long seconds = 0;
    snprintf(name, sizeof name, "\r\n%s: t=", header);
    const char *found = strstr(request, name), *body = strstr(request, "\r\n\r\n") + 4;
    assert_non_null(found);
    seconds = strtoll(found + strlen(name), NULL, 10);
    assert_true(llabs((long long)time(NULL) - seconds) < 100);
    snprintf(message, sizeof message, "%lld.%s", seconds, body);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)message, strlen(message), digest, &length);
    assert_int_equal(length, 32);
    size_t at = (size_t)snprintf(line, sizeof line, "%s%lld,v1=", name, seconds);
    for (unsigned i = 0; i < length; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%02x", digest[i]);
    assert_contains(request, line);
}
