/* One thread polls the listening socket and its clients every few milliseconds at most; the mode and the text to say
 * are all that is shared with the test. */
#include "tests/support/hostile_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/support/hostile_client.h"
#include "tests/support/redis_server.h"

enum { CLIENTS = 16, TICK_MS = 5 };

struct client {
    int fd; /* -1: free */
    struct hostile_client talk;
};

struct hostile_server {
    pthread_t thread;
    int listener;
    unsigned port;
    atomic_int mode;
    _Atomic(const char *) says;
    atomic_bool stops;
    atomic_uint accepted;
    struct client clients[CLIENTS];
};

static void client_close(struct client *client, bool resets)
{
    if (resets) {
        struct linger linger = {.l_onoff = 1};
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    close(client->fd);
    hostile_client_fini(&client->talk);
    *client = (struct client){.fd = -1};
}

/* --- the thread --------------------------------------------------------------------------------------------- */

static void accept_client(struct hostile_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (int i = 0; i < CLIENTS; i++) {
        if (server->clients[i].fd >= 0)
            continue;
        server->clients[i].fd = fd;
        atomic_fetch_add(&server->accepted, 1);
        if (atomic_load(&server->mode) == HOSTILE_UNASKED)
            buffer_append_text(&server->clients[i].talk.out, "+HELLO\r\n");
        return;
    }
    close(fd);
}

static void client_read(struct hostile_server *server, struct client *client)
{
    struct buffer *in = &client->talk.in;
    ssize_t got = recv(client->fd, buffer_reserve(in, 65536), 65536, 0);
    if (got <= 0) {
        client_close(client, false);
        return;
    }
    in->length += (size_t)got;
    if (!hostile_client_answer(&client->talk, (enum hostile_mode)atomic_load(&server->mode),
                               atomic_load(&server->says)))
        client_close(client, true);
}

static void client_write(struct client *client, enum hostile_mode mode)
{
    struct buffer *out = &client->talk.out;
    size_t length = hostile_client_portion(&client->talk, mode);
    ssize_t sent = length > 0 ? send(client->fd, out->bytes, length, MSG_NOSIGNAL) : 0;
    if (sent > 0)
        buffer_drop_front(out, (size_t)sent);
    if (client->talk.closes && out->length == 0)
        client_close(client, false);
}

static void *serve(void *argument)
{
    struct hostile_server *server = argument;
    while (!atomic_load(&server->stops)) {
        struct pollfd fds[CLIENTS + 1] = {{.fd = server->listener, .events = POLLIN}};
        for (int i = 0; i < CLIENTS; i++)
            fds[i + 1] = (struct pollfd){.fd = server->clients[i].fd, .events = POLLIN};
        poll(fds, CLIENTS + 1, TICK_MS);
        for (int i = 0; i < CLIENTS; i++) {
            struct client *client = &server->clients[i];
            if (client->fd >= 0 && fds[i + 1].revents != 0)
                client_read(server, client);
            if (client->fd >= 0)
                client_write(client, (enum hostile_mode)atomic_load(&server->mode));
        }
        if (fds[0].revents != 0)
            accept_client(server);
    }
    return NULL;
}

/* A test may have another server take this one's place: so it is on a port that no connection gets from the kernel, and
 * its connections that linger in TIME_WAIT do not keep the port. */
static bool listen_anywhere(struct hostile_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int on = 1;
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    do {
        server->port = free_port();
        address.sin_port = htons((uint16_t)server->port);
        errno = 0;
    } while (bind(server->listener, (struct sockaddr *)&address, sizeof address) != 0 && errno == EADDRINUSE);
    return errno == 0 && listen(server->listener, CLIENTS) == 0;
}

struct hostile_server *hostile_server_start(enum hostile_mode mode)
{
    struct hostile_server *server = memory_new(struct hostile_server);
    for (int i = 0; i < CLIENTS; i++)
        server->clients[i].fd = -1;
    atomic_init(&server->mode, (int)mode);
    atomic_init(&server->stops, false);
    atomic_init(&server->accepted, 0);

    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!listen_anywhere(server) || pthread_create(&server->thread, NULL, serve, server) != 0) {
        perror("hostile_server");
        abort();
    }
    return server;
}

void hostile_server_destroy(struct hostile_server *server)
{
    if (server == NULL)
        return;
    atomic_store(&server->stops, true);
    pthread_join(server->thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        if (server->clients[i].fd >= 0)
            client_close(&server->clients[i], false);
    close(server->listener);
    free(server);
}

unsigned hostile_server_port(const struct hostile_server *server)
{
    return server->port;
}

unsigned hostile_server_accepted(const struct hostile_server *server)
{
    return atomic_load(&server->accepted);
}

void hostile_server_set_mode(struct hostile_server *server, enum hostile_mode mode)
{
    atomic_store(&server->mode, (int)mode);
}

void hostile_server_say(struct hostile_server *server, const char *text)
{
    atomic_store(&server->says, text);
    hostile_server_set_mode(server, HOSTILE_SAYS);
}
