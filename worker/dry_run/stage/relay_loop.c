/* A client and its connection to the server are a pair. What the client says goes on at once; what the server says
 * waits in parcels, each with the time at which it may go, in the order in which it was said, also when the delay has
 * become shorter meanwhile. Who does not read is not read from: each way holds a bounded number of bytes. When one end
 * hangs up the other one is hung up on, the client after everything that was said to it. */
#include "worker/dry_run/stage/relay_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/memory.h"

enum { READ_BYTES = 64 * 1024, HELD_BYTES_MAX = 8 * 1024 * 1024 };

struct relay {
    struct loop *loop;
    int listener;
    unsigned server_port;
    const _Atomic int64_t *delay_ns;
};

struct parcel {
    struct list link;
    struct instant due;
    struct buffer bytes;
};

/* One way. */
struct way {
    struct buffer bytes; /* may go, when they are taken */
    size_t held;         /* these, and those in parcels */
};

struct pair {
    struct relay *relay;
    int client, server;
    struct loop_watch *client_watch, *server_watch;
    struct way up, down;
    struct list parcels; /* down */
    struct loop_timer timer;
    struct instant last_due;
    bool server_ended;
};

static void pair_end(struct pair *pair)
{
    loop_watch_stop(pair->client_watch);
    loop_watch_stop(pair->server_watch);
    loop_timer_clear(pair->relay->loop, &pair->timer);
    for (struct list *link; (link = list_take_first(&pair->parcels)) != NULL;) {
        struct parcel *parcel = list_owner(link, struct parcel, link);
        buffer_fini(&parcel->bytes);
        free(parcel);
    }
    buffer_fini(&pair->up.bytes);
    buffer_fini(&pair->down.bytes);
    close(pair->client);
    close(pair->server);
    free(pair);
}

/* False when the other end is gone. */
static bool way_send(struct way *way, int fd)
{
    while (way->bytes.length > 0) {
        ssize_t sent = send(fd, way->bytes.bytes, way->bytes.length, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN; /* not yet connected: when it is writable */
        buffer_drop_front(&way->bytes, (size_t)sent);
        way->held -= (size_t)sent;
    }
    return true;
}

/* Reads once. 1 = something, 0 = nothing now, -1 = the end. */
static int bytes_read(int fd, struct buffer *into)
{
    ssize_t got = recv(fd, buffer_reserve(into, READ_BYTES), READ_BYTES, 0);
    if (got > 0)
        into->length += (size_t)got;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return got > 0 ? 1 : -1;
}

static void events_choose(struct pair *pair)
{
    int reads_client = pair->up.held < HELD_BYTES_MAX ? LOOP_READABLE : 0;
    int reads_server = pair->down.held < HELD_BYTES_MAX && !pair->server_ended ? LOOP_READABLE : 0;
    loop_watch_change(pair->client_watch, reads_client | (pair->down.bytes.length > 0 ? LOOP_WRITABLE : 0));
    loop_watch_change(pair->server_watch, reads_server | (pair->up.bytes.length > 0 ? LOOP_WRITABLE : 0));
}

/* What may go goes, and the pair ends when it has to. */
static void pair_go_on(struct pair *pair)
{
    struct instant now = instant_now();
    while (!list_is_empty(&pair->parcels)) {
        struct parcel *parcel = list_owner(pair->parcels.next, struct parcel, link);
        if (!instant_reached(now, parcel->due)) {
            loop_timer_set(pair->relay->loop, &pair->timer, parcel->due);
            break;
        }
        list_remove(&parcel->link);
        buffer_append(&pair->down.bytes, parcel->bytes.bytes, parcel->bytes.length);
        buffer_fini(&parcel->bytes);
        free(parcel);
    }
    bool goes_on = way_send(&pair->up, pair->server) && way_send(&pair->down, pair->client);
    if (!goes_on || (pair->server_ended && pair->down.held == 0))
        pair_end(pair);
    else
        events_choose(pair);
}

static void parcel_fire(struct loop_timer *timer)
{
    pair_go_on(list_owner(timer, struct pair, timer));
}

static void client_ready(void *context, int events)
{
    struct pair *pair = context;
    size_t before = pair->up.bytes.length;
    if ((events & LOOP_READABLE) != 0 && bytes_read(pair->client, &pair->up.bytes) < 0) {
        pair_end(pair);
        return;
    }
    pair->up.held += pair->up.bytes.length - before;
    pair_go_on(pair);
}

static void server_ready(void *context, int events)
{
    struct pair *pair = context;
    if ((events & LOOP_READABLE) != 0) {
        struct parcel *parcel = memory_new(struct parcel);
        pair->server_ended = bytes_read(pair->server, &parcel->bytes) < 0;
        struct instant due = instant_after(instant_now(), atomic_load(pair->relay->delay_ns));
        pair->last_due = parcel->due = instant_before(due, pair->last_due) ? pair->last_due : due;
        pair->down.held += parcel->bytes.length;
        list_append(&pair->parcels, &parcel->link);
    }
    pair_go_on(pair);
}

static void pair_begin(struct relay *relay, int client)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)relay->server_port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    bool begins =
        server >= 0 && (connect(server, (struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS);
    if (!begins) {
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct pair *pair = memory_new(struct pair);
    pair->relay = relay;
    pair->client = client;
    pair->server = server;
    list_init(&pair->parcels);
    loop_timer_init(&pair->timer, parcel_fire);
    pair->client_watch = loop_watch_start(relay->loop, client, LOOP_READABLE, client_ready, pair);
    pair->server_watch = loop_watch_start(relay->loop, server, LOOP_READABLE, server_ready, pair);
}

static void listener_ready(void *context, int events)
{
    struct relay *relay = context;
    (void)events;
    for (int client; (client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
        pair_begin(relay, client);
}

bool relay_loop_run(int listener, unsigned server_port, const _Atomic int64_t *delay_ns, struct error *error)
{
    struct relay relay = {.listener = listener, .server_port = server_port, .delay_ns = delay_ns};
    relay.loop = loop_create(error);
    if (relay.loop == NULL)
        return false;
    struct loop_watch *watch = loop_watch_start(relay.loop, listener, LOOP_READABLE, listener_ready, &relay);
    loop_run(relay.loop);
    loop_watch_stop(watch);
    loop_destroy(relay.loop);
    return true;
}
