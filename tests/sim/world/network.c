#include "tests/sim/world/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "base/loop.h"
#include "base/memory.h"
#include "tests/sim/world/local.h"
#include "tests/sim/world/wrapped.h"

#define LATE_MIN_NS     (200 * NS_PER_MS)
#define LATE_MAX_NS     (3 * NS_PER_S)
#define SYN_AGAIN_NS    (1 * NS_PER_S)
#define HEAL_MAX_NS     (300 * NS_PER_MS)
#define PATH_LEAST_NS   (60 * NS_PER_US)
#define PATH_MOST_NS    (1 * NS_PER_MS)
#define SHORT_PER_MILLE 15

enum { NAMES_MAX = 48, SOCKETS_MAX = 4096, FIRST_FD = 1 << 20, ROOM = 256 << 10, NETWORK_10 = 10 << 24 };

enum segment_kind { SEGMENT_BYTES, SEGMENT_END, SEGMENT_RESET };

struct segment {
    struct list link;
    struct instant at; /* INSTANT_NEVER = it waits for its path */
    enum segment_kind kind;
    size_t length;
    char bytes[];
};

/* One way of a stream. */
struct way {
    struct stream *stream;
    struct world_event event;
    struct list segments;
    struct instant last;
    size_t length; /* of the bytes under way */
    const struct path *path;
    bool is_to_server, is_over; /* over: its end or a reset is under way, or nobody is there to send */
};

struct stream {
    struct list link;
    struct way there, back;
    struct socket *socket; /* NULL = the client is gone */
    struct peer *peer;     /* NULL = the server is gone */
    const struct host *client, *server;
    bool is_silent; /* the server's host is gone */
};

struct peer {
    struct list link;
    struct listener *listener;
    struct stream *stream;
    void *owner;
};

enum socket_state { SOCKET_FRESH, SOCKET_CONNECTING, SOCKET_OPEN, SOCKET_FAILED };

struct socket {
    struct list link; /* of its process */
    struct process *process;
    int fd;
    enum socket_state state;
    int failure;  /* errno */
    bool has_end; /* the server ended the stream */
    struct buffer in;
    size_t taken;
    struct stream *stream;
    struct loop *loop;
    struct world_event event; /* connecting; later: nothing was acknowledged for too long */
    struct sockaddr_in address;
    int64_t patience_ns;
    int64_t next_syn_ns;
};

static struct {
    struct path paths[NETWORK_HOSTS_MAX][NETWORK_HOSTS_MAX];
    struct {
        char name[16];
        const struct host *host;
    } names[NAMES_MAX];
    unsigned name_count;
    struct {
        unsigned port;
        const struct host *host;
    } ports[NAMES_MAX];
    unsigned port_count;
    struct list listeners, streams;
    struct socket *sockets[SOCKETS_MAX];
} network;

void network_begin(void)
{
    memset(&network, 0, sizeof network);
    list_init(&network.listeners);
    list_init(&network.streams);
    for (unsigned i = 0; i < NETWORK_HOSTS_MAX; i++)
        for (unsigned j = 0; j < NETWORK_HOSTS_MAX; j++)
            network.paths[i][j] = (struct path){.least_ns = PATH_LEAST_NS, .most_ns = PATH_MOST_NS};
}

struct path *network_path(const struct host *from, const struct host *to)
{
    invariant(from->number < NETWORK_HOSTS_MAX && to->number < NETWORK_HOSTS_MAX);
    return &network.paths[from->number][to->number];
}

/* --- names -------------------------------------------------------------------------------------------------------- */

void network_name(const char *name, const struct host *host)
{
    unsigned i = 0;
    while (i < network.name_count && strcmp(network.names[i].name, name) != 0)
        i++;
    invariant(i < NAMES_MAX && strlen(name) < sizeof network.names[i].name);
    if (i == network.name_count)
        network.name_count++;
    snprintf(network.names[i].name, sizeof network.names[i].name, "%s", name);
    network.names[i].host = host;
}

/* The last one to listen there. */
static const struct host *host_of_port(unsigned port)
{
    for (unsigned i = 0; i < network.port_count; i++)
        if (network.ports[i].port == port)
            return network.ports[i].host;
    return NULL;
}

static void port_name(unsigned port, const struct host *host)
{
    unsigned i = 0;
    while (i < network.port_count && network.ports[i].port != port)
        i++;
    if (i == NAMES_MAX)
        return;
    network.port_count += i == network.port_count;
    network.ports[i].port = port;
    network.ports[i].host = host;
}

/* However it is written. */
static bool is_this_machine(const char *name)
{
    return strncmp(name, "127.", 4) == 0 || strcmp(name, "localhost") == 0;
}

/* By a name of the world; or of this machine, where a port leads to one host. */
static const struct host *host_find(const char *name, unsigned port)
{
    if (is_this_machine(name))
        return host_of_port(port);
    for (unsigned i = 0; i < network.name_count; i++)
        if (strcmp(network.names[i].name, name) == 0)
            return network.names[i].host;
    return NULL;
}

bool network_resolve(const char *name, unsigned port, struct sockaddr_in *address)
{
    const struct host *host = host_find(name, port);
    if (host == NULL && !is_this_machine(name))
        return false;
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(NETWORK_10 + (host != NULL ? host->number : 0))};
    return true;
}

/* --- the two ends ------------------------------------------------------------------------------------------------- */

static void socket_tell(struct socket *socket)
{
    if (socket->loop != NULL && socket->process->is_alive)
        loop_wake(socket->loop);
}

static void stream_free(struct stream *stream)
{
    for (unsigned i = 0; i < 2; i++) {
        struct way *way = i == 0 ? &stream->there : &stream->back;
        world_cancel(&way->event);
        for (struct list *link; (link = list_take_first(&way->segments)) != NULL;)
            free(list_owner(link, struct segment, link));
    }
    list_remove(&stream->link);
    free(stream);
}

static void stream_tidy(struct stream *stream)
{
    if (stream->socket == NULL && stream->peer == NULL)
        stream_free(stream);
}

static void socket_fail(struct socket *socket, int failure)
{
    socket->state = SOCKET_FAILED;
    socket->failure = failure;
    world_cancel(&socket->event);
    struct stream *stream = socket->stream;
    socket->stream = NULL;
    if (stream != NULL) {
        stream->socket = NULL;
        stream_tidy(stream);
    }
    socket_tell(socket);
}

static void peer_drop(struct peer *peer)
{
    struct stream *stream = peer->stream;
    stream->peer = NULL;
    list_remove(&peer->link);
    free(peer);
}

/* The stream may be gone when this returns. */
static void client_takes(struct stream *stream, const struct segment *segment)
{
    struct socket *socket = stream->socket;
    if (socket == NULL)
        return;
    if (segment->kind == SEGMENT_RESET) {
        socket_fail(socket, ECONNRESET);
        return;
    }
    if (segment->kind == SEGMENT_END)
        socket->has_end = true;
    else
        buffer_append(&socket->in, segment->bytes, segment->length);
    socket_tell(socket);
}

static void server_takes(struct stream *stream, const struct segment *segment)
{
    struct peer *peer = stream->peer;
    if (peer == NULL)
        return;
    if (segment->kind == SEGMENT_BYTES) {
        peer->listener->received(peer->owner, segment->bytes, segment->length);
        return;
    }
    void (*gone)(void *owner) = peer->listener->gone;
    void *owner = peer->owner;
    peer_drop(peer);
    gone(owner);
    stream_tidy(stream);
}

/* --- under way ---------------------------------------------------------------------------------------------------- */

static struct instant arrival(const struct way *way)
{
    struct chance *chance = world_chance();
    const struct path *path = way->path;
    int64_t ns = chance_scale(chance, path->least_ns, path->most_ns);
    if (path->late_per_mille > 0 && chance_per_mille(chance, path->late_per_mille))
        ns += chance_scale(chance, LATE_MIN_NS, LATE_MAX_NS);
    return instant_after(world_time(), ns);
}

static void way_arm(struct way *way)
{
    if (list_is_empty(&way->segments)) {
        world_cancel(&way->event);
        return;
    }
    const struct segment *first = list_owner(way->segments.next, struct segment, link);
    if (first->at.ns == INT64_MAX)
        world_cancel(&way->event);
    else
        world_at(&way->event, first->at);
}

static void segment_send(struct way *way, struct segment *segment)
{
    bool is_first = list_is_empty(&way->segments);
    if (way->path->is_cut || way->last.ns == INT64_MAX) {
        segment->at = INSTANT_NEVER;
    } else {
        segment->at = arrival(way);
        if (!instant_before(way->last, segment->at))
            segment->at = instant_after(way->last, 1);
    }
    way->last = segment->at;
    way->length += segment->length;
    list_append(&way->segments, &segment->link);
    if (is_first)
        way_arm(way);
}

static void way_send(struct way *way, enum segment_kind kind, const char *bytes, size_t length)
{
    if (way->is_over)
        return;
    struct segment *segment = world_owns(memory_zeroed(1, sizeof *segment + length));
    segment->kind = kind;
    segment->length = length;
    list_init(&segment->link);
    if (length > 0)
        memcpy(segment->bytes, bytes, length);
    way->is_over = kind != SEGMENT_BYTES;
    segment_send(way, segment);
}

static void way_fire(struct world_event *event)
{
    struct way *way = list_owner(event, struct way, event);
    struct stream *stream = way->stream;
    struct segment *segment = list_owner(list_take_first(&way->segments), struct segment, link);
    way->length -= segment->length;
    if (list_is_empty(&way->segments) && way->last.ns == INT64_MAX)
        way->last = world_time();
    way_arm(way);
    if (way->is_to_server) {
        if (stream->socket != NULL)
            socket_tell(stream->socket); /* there may be room again */
        server_takes(stream, segment);
    } else {
        client_takes(stream, segment);
    }
    free(segment);
}

void network_arrive(struct listener *listener)
{
    for (struct list *link = listener->peers.next; link != &listener->peers;) {
        struct way *way = &list_owner(link, struct peer, link)->stream->there;
        link = link->next;
        if (list_is_empty(&way->segments) || way->last.ns == INT64_MAX)
            continue;
        world_cancel(&way->event);
        way_fire(&way->event);
        link = listener->peers.next; /* whoever is gone by now */
    }
}

static void way_heal(struct way *way)
{
    struct instant last = world_time();
    for (struct list *link = way->segments.next; link != &way->segments; link = link->next) {
        struct segment *segment = list_owner(link, struct segment, link);
        if (segment->at.ns == INT64_MAX) {
            struct instant at = instant_after(arrival(way), chance_scale(world_chance(), NS_PER_MS, HEAL_MAX_NS));
            segment->at = instant_before(last, at) ? at : instant_after(last, 1);
        }
        last = segment->at;
    }
    way->last = last;
    way_arm(way);
}

void network_heal(void)
{
    for (struct list *link = network.streams.next; link != &network.streams; link = link->next) {
        struct stream *stream = list_owner(link, struct stream, link);
        if (!stream->there.path->is_cut && stream->there.last.ns == INT64_MAX)
            way_heal(&stream->there);
        if (!stream->back.path->is_cut && stream->back.last.ns == INT64_MAX)
            way_heal(&stream->back);
    }
}

/* What is under way is lost from any byte on; then comes the reset, if the end is told. */
static void way_break(struct way *way, bool is_told)
{
    size_t keep = (size_t)chance_below(world_chance(), (int64_t)way->length + 1);
    struct list *link = way->segments.next;
    while (link != &way->segments) {
        struct segment *segment = list_owner(link, struct segment, link);
        link = link->next;
        size_t lost = segment->length <= keep ? 0 : segment->length - keep;
        keep -= segment->length - lost;
        segment->length -= lost;
        way->length -= lost;
        if (segment->length > 0)
            continue;
        list_remove(&segment->link);
        free(segment);
    }
    way->is_over = false;
    if (is_told)
        way_send(way, SEGMENT_RESET, NULL, 0);
    way->is_over = true;
    way_arm(way);
}

void network_break(const struct host *client, const struct host *server)
{
    for (struct list *link = network.streams.next; link != &network.streams; link = link->next) {
        struct stream *stream = list_owner(link, struct stream, link);
        if ((client != NULL && stream->client != client) || (server != NULL && stream->server != server))
            continue;
        unsigned who = chance_pick(world_chance(), 3);
        way_break(&stream->there, who != 0);
        way_break(&stream->back, who != 1);
    }
}

/* --- servers ------------------------------------------------------------------------------------------------------ */

void network_listen(struct listener *listener)
{
    list_init(&listener->link);
    list_init(&listener->peers);
    list_append(&network.listeners, &listener->link);
    port_name(listener->port, listener->host);
}

void network_shut(struct listener *listener, bool is_silent)
{
    list_remove(&listener->link);
    for (struct list *link; (link = list_take_first(&listener->peers)) != NULL;) {
        struct peer *peer = list_owner(link, struct peer, link);
        struct stream *stream = peer->stream;
        peer_drop(peer);
        if (is_silent)
            stream->is_silent = stream->back.is_over = true;
        else if (chance_per_mille(world_chance(), 500))
            way_break(&stream->back, true);
        else
            way_send(&stream->back, SEGMENT_END, NULL, 0);
        stream_tidy(stream);
    }
}

void peer_send(struct peer *peer, const char *bytes, size_t length)
{
    way_send(&peer->stream->back, SEGMENT_BYTES, bytes, length);
}

static void peer_end(struct peer *peer, enum segment_kind kind)
{
    struct stream *stream = peer->stream;
    way_send(&stream->back, kind, NULL, 0);
    peer_drop(peer);
    stream_tidy(stream);
}

void peer_close(struct peer *peer)
{
    peer_end(peer, SEGMENT_END);
}

void peer_reset(struct peer *peer)
{
    peer_end(peer, SEGMENT_RESET);
}

const struct host *peer_client(const struct peer *peer)
{
    return peer->stream->socket != NULL ? peer->stream->client : NULL;
}

static struct listener *listener_find(const struct sockaddr_in *address)
{
    for (struct list *link = network.listeners.next; link != &network.listeners; link = link->next) {
        struct listener *listener = list_owner(link, struct listener, link);
        if (ntohl(address->sin_addr.s_addr) == NETWORK_10 + listener->host->number &&
            ntohs(address->sin_port) == listener->port)
            return listener;
    }
    return NULL;
}

/* --- sockets ------------------------------------------------------------------------------------------------------ */

static struct socket *socket_find(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + SOCKETS_MAX ? network.sockets[fd - FIRST_FD] : NULL;
}

int socket_ready(int fd)
{
    const struct socket *socket = socket_find(fd);
    if (local_is(fd))
        return local_ready(fd);
    if (socket == NULL || socket->state == SOCKET_FRESH || socket->state == SOCKET_CONNECTING)
        return 0;
    if (socket->state == SOCKET_FAILED)
        return LOOP_READABLE | LOOP_WRITABLE;
    bool has_bytes = socket->in.length > socket->taken || socket->has_end;
    bool has_room = socket->stream != NULL && socket->stream->there.length < ROOM;
    return (has_bytes ? LOOP_READABLE : 0) | (has_room ? LOOP_WRITABLE : 0);
}

void socket_watch(int fd, struct loop *loop)
{
    struct socket *socket = socket_find(fd);
    if (socket != NULL)
        socket->loop = loop;
    else
        local_watch(fd, loop);
}

/* Bytes that nobody acknowledged: their way is cut, or that of the acknowledgements, or nobody is there. */
static void patience_fire(struct world_event *event)
{
    struct socket *socket = list_owner(event, struct socket, event);
    struct stream *stream = socket->stream;
    if (stream == NULL)
        return;
    if (stream->is_silent || stream->there.path->is_cut || stream->back.path->is_cut)
        socket_fail(socket, ETIMEDOUT);
}

static void patience_begin(struct socket *socket)
{
    if (socket->patience_ns > 0 && !heap_holds(&socket->event.item))
        world_at(&socket->event, instant_after(world_time(), socket->patience_ns));
}

static void way_begin(struct way *way, struct stream *stream, const struct host *from, const struct host *to)
{
    *way = (struct way){.stream = stream, .event = {.fire = way_fire}, .path = network_path(from, to)};
    way->last = world_time();
    list_init(&way->segments);
}

static void stream_open(struct socket *socket, struct listener *listener)
{
    struct stream *stream = memory_new(struct stream);
    struct peer *peer = memory_new(struct peer);
    stream->client = socket->process->host;
    stream->server = listener->host;
    way_begin(&stream->there, stream, stream->client, stream->server);
    way_begin(&stream->back, stream, stream->server, stream->client);
    stream->there.is_to_server = true;
    stream->socket = socket;
    stream->peer = peer;
    list_init(&stream->link);
    list_append(&network.streams, &stream->link);
    socket->stream = stream;
    socket->state = SOCKET_OPEN;
    socket->event.fire = patience_fire;
    *peer = (struct peer){.listener = listener, .stream = stream};
    list_init(&peer->link);
    list_append(&listener->peers, &peer->link);
    void *owner = listener->accepted(listener, peer);
    if (stream->peer == peer)
        peer->owner = owner;
    socket_tell(socket);
}

static void connect_fire(struct world_event *event)
{
    struct socket *socket = list_owner(event, struct socket, event);
    if (!socket->process->is_alive)
        return;
    struct host to = {.number = ntohl(socket->address.sin_addr.s_addr) - NETWORK_10};
    if (network_path(socket->process->host, &to)->is_cut || network_path(&to, socket->process->host)->is_cut) {
        world_at(event, instant_after(world_time(), socket->next_syn_ns));
        socket->next_syn_ns *= 2;
        return;
    }
    struct listener *listener = listener_find(&socket->address);
    if (listener == NULL)
        socket_fail(socket, ECONNREFUSED);
    else
        stream_open(socket, listener);
}

static void socket_close(struct socket *socket, bool is_silent)
{
    struct stream *stream = socket->stream;
    world_cancel(&socket->event);
    if (stream != NULL) {
        if (!is_silent)
            way_send(&stream->there, SEGMENT_END, NULL, 0);
        stream->socket = NULL;
        stream_tidy(stream);
    }
    network.sockets[socket->fd - FIRST_FD] = NULL;
    list_remove(&socket->link);
    buffer_fini(&socket->in);
    free(socket);
}

void sockets_end(struct process *process, bool is_silent)
{
    while (!list_is_empty(&process->sockets))
        socket_close(list_owner(process->sockets.next, struct socket, link), is_silent);
    locals_end(process);
}

/* --- what the linker puts in the place of the kernel's ------------------------------------------------------------ */

WRAPPED(int, socket, int domain, int type, int protocol);
WRAPPED(int, connect, int fd, const struct sockaddr *address, socklen_t length);
WRAPPED(ssize_t, send, int fd, const void *bytes, size_t length, int flags);
WRAPPED(ssize_t, recv, int fd, void *bytes, size_t length, int flags);
WRAPPED(int, setsockopt, int fd, int level, int option, const void *value, socklen_t length);
WRAPPED(int, getsockopt, int fd, int level, int option, void *value, socklen_t *length);
WRAPPED(int, close, int fd);

int __wrap_socket(int domain, int type, int protocol)
{
    struct process *process = process_current();
    if (process == NULL)
        return __real_socket(domain, type, protocol);
    int i = 0;
    while (i < SOCKETS_MAX && network.sockets[i] != NULL)
        i++;
    if (i == SOCKETS_MAX) {
        errno = EMFILE;
        return -1;
    }
    struct socket *socket = memory_new(struct socket);
    socket->process = process;
    socket->fd = FIRST_FD + i;
    socket->event.fire = connect_fire;
    list_init(&socket->link);
    list_append(&process->sockets, &socket->link);
    network.sockets[i] = socket;
    return socket->fd;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL)
        return __real_connect(fd, address, length);
    invariant(socket->state == SOCKET_FRESH && length == sizeof socket->address);
    memcpy(&socket->address, address, sizeof socket->address);
    socket->state = SOCKET_CONNECTING;
    socket->next_syn_ns = SYN_AGAIN_NS;
    world_at(&socket->event,
             instant_after(world_time(), 2 * chance_scale(world_chance(), PATH_LEAST_NS, PATH_MOST_NS)));
    errno = EINPROGRESS;
    return -1;
}

/* Now and then only a part, as when the kernel has little room. */
static size_t part_of(size_t length)
{
    if (length > 1 && chance_per_mille(world_chance(), SHORT_PER_MILLE))
        return (size_t)chance_between(world_chance(), 1, (int64_t)length);
    return length;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL)
        return local_is(fd) ? local_send(fd, bytes, length) : __real_send(fd, bytes, length, flags);
    if (socket->state != SOCKET_OPEN) {
        errno = socket->state == SOCKET_FAILED ? EPIPE : ENOTCONN;
        return -1;
    }
    struct way *way = &socket->stream->there;
    if (way->length >= ROOM) {
        errno = EAGAIN;
        return -1;
    }
    size_t room = ROOM - way->length, part = part_of(length < room ? length : room);
    way_send(way, SEGMENT_BYTES, bytes, part);
    patience_begin(socket);
    return (ssize_t)part;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL)
        return local_is(fd) ? local_receive(fd, bytes, length) : __real_recv(fd, bytes, length, flags);
    size_t there = socket->in.length - socket->taken;
    if (there == 0) {
        if (socket->state != SOCKET_FAILED && socket->has_end)
            return 0;
        errno = socket->state == SOCKET_FAILED ? socket->failure : EAGAIN;
        return -1;
    }
    size_t part = part_of(there < length ? there : length);
    memcpy(bytes, socket->in.bytes + socket->taken, part);
    socket->taken += part;
    if (socket->taken == socket->in.length) {
        buffer_clear(&socket->in);
        socket->taken = 0;
    }
    return (ssize_t)part;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL)
        return __real_setsockopt(fd, level, option, value, length);
    if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT)
        socket->patience_ns = *(const int *)value * NS_PER_MS;
    return 0;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL)
        return __real_getsockopt(fd, level, option, value, length);
    *(int *)value = socket->state == SOCKET_FAILED ? socket->failure : 0;
    return 0;
}

int __wrap_close(int fd)
{
    struct socket *socket = socket_find(fd);
    if (socket == NULL && local_is(fd)) {
        local_close(fd);
        return 0;
    }
    if (socket == NULL)
        return __real_close(fd);
    socket_close(socket, false);
    return 0;
}
