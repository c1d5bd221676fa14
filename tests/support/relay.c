#include "tests/support/relay.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"

enum { PAIRS_MAX = 256, LOOK_MS = 1 };

struct pair {
    int client, server; /* -1 = closed */
};

struct relay {
    pthread_t thread;
    int listener;
    unsigned port;
    atomic_uint server_port;
    struct pair pairs[PAIRS_MAX];
    unsigned count;
    atomic_bool will_swallow, swallows, cuts, ends;
};

_Noreturn static void give_up(const char *what)
{
    perror(what);
    abort();
}

static struct sockaddr_in loopback(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void hang_up(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* --- the thread ------------------------------------------------------------------------------------------------ */

static void take_client(struct relay *relay)
{
    struct sockaddr_in address = loopback(atomic_load(&relay->server_port));
    struct pair pair = {accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC),
                        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (pair.client < 0 || pair.server < 0 || relay->count == PAIRS_MAX)
        give_up("relay");
    if (connect(pair.server, (struct sockaddr *)&address, sizeof address) != 0) {
        hang_up(&pair.client);
        hang_up(&pair.server);
        return;
    }
    relay->pairs[relay->count++] = pair;
}

static bool pass_on(int from, int to, bool drops)
{
    char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    if (got <= 0)
        return false;
    for (ssize_t sent = 0; !drops && sent < got;) {
        ssize_t more = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (more < 0)
            return false;
        sent += more;
    }
    return true;
}

static void pair_serve(struct relay *relay, struct pair *pair, short client_events, short server_events)
{
    bool drops = pair->client < 0 || atomic_load(&relay->swallows);
    if (client_events != 0 && !pass_on(pair->client, pair->server, false)) {
        hang_up(&pair->client);
        hang_up(&pair->server);
    }
    if (pair->server >= 0 && server_events != 0 && !pass_on(pair->server, pair->client, drops)) {
        hang_up(&pair->client);
        hang_up(&pair->server);
    }
}

static void ended_forget(struct relay *relay)
{
    for (unsigned i = 0; i < relay->count;)
        if (relay->pairs[i].client < 0 && relay->pairs[i].server < 0)
            relay->pairs[i] = relay->pairs[--relay->count];
        else
            i++;
}

static void look(struct relay *relay)
{
    struct pollfd fds[1 + 2 * PAIRS_MAX];
    ended_forget(relay);
    unsigned count = relay->count;
    fds[0] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
    for (unsigned i = 0; i < count; i++) {
        fds[1 + 2 * i] = (struct pollfd){.fd = relay->pairs[i].client, .events = POLLIN};
        fds[2 + 2 * i] = (struct pollfd){.fd = relay->pairs[i].server, .events = POLLIN};
    }
    if (poll(fds, 1 + 2 * count, LOOK_MS) <= 0)
        return;
    for (unsigned i = 0; i < count; i++)
        pair_serve(relay, &relay->pairs[i], fds[1 + 2 * i].revents, fds[2 + 2 * i].revents);
    if (fds[0].revents != 0)
        take_client(relay);
}

static void *serve(void *context)
{
    struct relay *relay = context;
    while (!atomic_load(&relay->ends)) {
        bool will_swallow = atomic_load(&relay->will_swallow);
        look(relay);
        if (will_swallow) {
            atomic_store(&relay->swallows, true);
            atomic_store(&relay->will_swallow, false);
        }
        if (!atomic_load(&relay->cuts))
            continue;
        for (unsigned i = 0; i < relay->count; i++)
            hang_up(&relay->pairs[i].client);
        atomic_store(&relay->cuts, false);
    }
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------------------------ */

int relay_listen(void)
{
    struct sockaddr_in address = loopback(0);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0)
        give_up("relay");
    return listener;
}

struct relay *relay_start_on(int listener, unsigned server_port)
{
    struct relay *relay = memory_new(struct relay);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    atomic_init(&relay->server_port, server_port);
    relay->listener = listener;
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        give_up("relay");
    relay->port = ntohs(address.sin_port);
    if (pthread_create(&relay->thread, NULL, serve, relay) != 0)
        give_up("relay");
    return relay;
}

struct relay *relay_start(unsigned server_port)
{
    return relay_start_on(relay_listen(), server_port);
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    atomic_store(&relay->ends, true);
    pthread_join(relay->thread, NULL);
    for (unsigned i = 0; i < relay->count; i++) {
        hang_up(&relay->pairs[i].client);
        hang_up(&relay->pairs[i].server);
    }
    close(relay->listener);
    free(relay);
}

unsigned relay_port(const struct relay *relay)
{
    return relay->port;
}

void relay_swallow(struct relay *relay, bool swallows)
{
    atomic_store(&relay->swallows, false);
    atomic_store(&relay->will_swallow, swallows);
    while (atomic_load(&relay->will_swallow))
        poll(NULL, 0, LOOK_MS);
}

void relay_cut(struct relay *relay)
{
    atomic_store(&relay->cuts, true);
    while (atomic_load(&relay->cuts))
        poll(NULL, 0, LOOK_MS);
}
