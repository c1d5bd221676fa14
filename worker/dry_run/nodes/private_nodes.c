#include "worker/dry_run/nodes/private_nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/invariant.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "worker/servers/private_server.h"
#include "worker/servers/server_program.h"

/* --- the clock ---------------------------------------------------------------------------------------------------- */

#define NAME "preload/stepped_clock.so"

/* `given`, unless it is NULL; else beside this program as `make` builds it (preload/) or installs it
 * (../lib/holdfast/preload/). False, with where it was looked for. */
static bool clock_library_find(const char *given, char *path, size_t size, struct error *error)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *end = strrchr(program, '/');
    if (end != NULL)
        *end = '\0';
    for (size_t i = 0; given == NULL && i < 2; i++) {
        int needed = snprintf(path, size, i == 0 ? "%s/" NAME : "%s/../lib/holdfast/" NAME, program);
        if (needed < (int)size && access(path, R_OK) == 0)
            return true;
    }
    if (given != NULL && snprintf(path, size, "%s", given) < (int)size && access(path, R_OK) == 0)
        return true;
    if (given != NULL)
        return error_set(error, "%s: cannot be read: it steps the clock of a node", given);
    return error_set(error,
                     "the library that steps the clock of a node is missing: neither %s/" NAME
                     " nor %s/../lib/holdfast/" NAME " is there; `make install` puts it there",
                     program, program);
}

/* --- the loop of a relay ------------------------------------------------------------------------------------------ */

/* What the process of a slow relay does. A client and its connection to the server are a pair. What the client says
 * goes on at once; what the server says waits in pieces, each with the time at which it may go, in the order in
 * which it was said, also when the delay has become shorter meanwhile. An end that does not read is not read from:
 * each way holds a bounded number of bytes. When one end hangs up, so does the relay at the other: at the client after
 * everything that was said to it. */

enum { READ_BYTES = 64 * 1024, HELD_BYTES_MAX = 8 * 1024 * 1024 };

struct relay {
    struct loop *loop;
    int listener;
    unsigned server_port;
    const _Atomic int64_t *delay_ns;
};

struct piece {
    struct list link;
    struct instant due;
    struct buffer bytes;
};

/* One way. */
struct way {
    struct buffer bytes; /* may go, when they are taken */
    size_t held;         /* these, and those in pieces */
};

struct pair {
    struct relay *relay;
    int client, server;
    struct loop_watch *client_watch, *server_watch;
    struct way up, down;
    struct list pieces; /* down */
    struct loop_timer timer;
    struct instant last_due;
    bool server_ended;
};

static void pair_end(struct pair *pair)
{
    loop_watch_stop(pair->client_watch);
    loop_watch_stop(pair->server_watch);
    loop_timer_clear(pair->relay->loop, &pair->timer);
    for (struct list *link; (link = list_take_first(&pair->pieces)) != NULL;) {
        struct piece *piece = list_owner(link, struct piece, link);
        buffer_fini(&piece->bytes);
        free(piece);
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

/* What may go goes, and the pair ends when it has to. */
static void pair_go_on(struct pair *pair)
{
    struct instant now = instant_now();
    while (!list_is_empty(&pair->pieces)) {
        struct piece *piece = list_owner(pair->pieces.next, struct piece, link);
        if (!instant_reached(now, piece->due)) {
            loop_timer_set(pair->relay->loop, &pair->timer, piece->due);
            break;
        }
        list_remove(&piece->link);
        buffer_append(&pair->down.bytes, piece->bytes.bytes, piece->bytes.length);
        buffer_fini(&piece->bytes);
        free(piece);
    }
    bool goes_on = way_send(&pair->up, pair->server) && way_send(&pair->down, pair->client);
    if (!goes_on || (pair->server_ended && pair->down.held == 0))
        pair_end(pair);
    else {
        int reads_client = pair->up.held < HELD_BYTES_MAX ? LOOP_READABLE : 0;
        int reads_server = pair->down.held < HELD_BYTES_MAX && !pair->server_ended ? LOOP_READABLE : 0;
        loop_watch_change(pair->client_watch, reads_client | (pair->down.bytes.length > 0 ? LOOP_WRITABLE : 0));
        loop_watch_change(pair->server_watch, reads_server | (pair->up.bytes.length > 0 ? LOOP_WRITABLE : 0));
    }
}

static void piece_fire(struct loop_timer *timer)
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
        struct piece *piece = memory_new(struct piece);
        pair->server_ended = bytes_read(pair->server, &piece->bytes) < 0;
        struct instant due = instant_after(instant_now(), atomic_load(pair->relay->delay_ns));
        pair->last_due = piece->due = instant_before(due, pair->last_due) ? pair->last_due : due;
        pair->down.held += piece->bytes.length;
        list_append(&pair->pieces, &piece->link);
    }
    pair_go_on(pair);
}

static struct sockaddr_in address_of(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void pair_begin(struct relay *relay, int client)
{
    struct sockaddr_in address = address_of(relay->server_port);
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
    list_init(&pair->pieces);
    loop_timer_init(&pair->timer, piece_fire);
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

/* Takes clients from the listener, which does not block, for ever. False when there can be no loop. */
static bool relay_loop_run(int listener, unsigned server_port, const _Atomic int64_t *delay_ns, struct error *error)
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

/* --- relays ------------------------------------------------------------------------------------------------------- */

/* A relay in front of a server, which makes its answers late: a process of its own that listens on a port of 127.0.0.1,
 * connects to the server for each client, and holds back what the server says. Many answers are late by the same time
 * at once: the server is as fast as before, the way from it is long. Without a delay it costs some ten microseconds an
 * exchange.
 *
 * It is in a session of its own and dies with the thread that started it. A client of a server that does not run is
 * accepted and hung up on. */

/* Listens from here on, so no caller has to wait for the process. -1, with errno. */
static int listener_open(unsigned *port)
{
    struct sockaddr_in address = address_of(0);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
        listen(listener, SOMAXCONN) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0) {
        *port = ntohs(address.sin_port);
        return listener;
    }
    int reason = errno;
    if (listener >= 0)
        close(listener);
    errno = reason;
    return -1;
}

_Noreturn static void relay_become(int listener, unsigned server_port, const _Atomic int64_t *delay_ns, pid_t parent)
{
    enum { OWN = STDERR_FILENO + 1 };
    struct error error = ERROR_NONE;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    setsid();
    prctl(PR_SET_NAME, "hf-slow-relay");
    if ((listener != OWN && dup2(listener, OWN) < 0) || close_range(OWN + 1, ~0U, 0) != 0)
        _exit(127);
    if (!relay_loop_run(OWN, server_port, delay_ns, &error))
        log_event(LOG_ERROR, "slow_relay_failed", "reason=%s", log_value(error.text, (char[LOG_QUOTE_MAX]){0}));
    _exit(1);
}

/* Forks: the process must have one thread and no loop. Clients may connect as soon as it returns. */
static bool slow_relay_start(struct slow_relay *relay, unsigned server_port, struct error *error)
{
    *relay = (struct slow_relay){.port = 0};
    unsigned port = 0;
    int listener = listener_open(&port);
    if (listener < 0)
        return error_set(error, "a relay that slows a node down cannot listen: %s", strerror(errno));
    void *shared = mmap(NULL, sizeof *relay->delay_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    pid_t pid = shared != MAP_FAILED ? fork() : -1;
    if (pid == 0)
        relay_become(listener, server_port, shared, parent);
    int reason = errno;
    close(listener);
    if (pid > 0) {
        *relay = (struct slow_relay){.port = port, .pid = pid, .delay_ns = shared};
        return true;
    }
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *relay->delay_ns);
    return error_set(error, "a relay that slows a node down cannot be started: %s", strerror(reason));
}

/* Harmless when there is none. */
static void slow_relay_end(struct slow_relay *relay)
{
    if (relay->pid > 0) {
        kill(relay->pid, SIGKILL);
        while (waitpid(relay->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        munmap((void *)(uintptr_t)relay->delay_ns, sizeof *relay->delay_ns);
    }
    *relay = (struct slow_relay){.port = 0};
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

enum { DIRECTORY_DIGITS = 12 };
static const int64_t START_LIMIT_NS = 15 * NS_PER_S;

static bool server_prepare(struct private_nodes *nodes, unsigned number, const struct private_nodes_options *options,
                           struct error *error)
{
    struct private_server *server = &nodes->servers[number];
    char name[16], library[4096];
    if (number == PRIVATE_QUEUE_NODE)
        snprintf(name, sizeof name, "queue");
    else
        snprintf(name, sizeof name, "lock%u", number);
    private_server_init(server, name, nodes->directory, nodes->password);
    nodes->count = number + 1;
    if (!private_server_reserve(server, error))
        return false;
    if (options->has_clock[number] && (!clock_library_find(options->clock_library, library, sizeof library, error) ||
                                       !private_server_give_clock(server, library, error)))
        return false;
    return !options->is_slowed[number] || slow_relay_start(&nodes->relays[number], server->port, error);
}

static bool servers_start(struct private_nodes *nodes, struct error *error)
{
    struct instant deadline = instant_after(instant_now(), START_LIMIT_NS);
    for (unsigned i = 0; i < nodes->count; i++)
        if (!private_server_start(&nodes->servers[i], nodes->program.path, error))
            return false;
    for (unsigned i = 0; i < nodes->count; i++)
        if (!private_server_await(&nodes->servers[i], deadline, error))
            return false;
    return true;
}

static bool directory_make(struct private_nodes *nodes, const char *path, struct error *error)
{
    char name[DIRECTORY_DIGITS + 1] = "";
    random_digits(name, DIRECTORY_DIGITS);
    char *wanted = path != NULL ? memory_text(path) : temporary_directory_path(name);
    if (temporary_directory_make(wanted, error))
        nodes->directory = wanted;
    else
        free(wanted);
    return nodes->directory != NULL;
}

static bool all_start(struct private_nodes *nodes, const struct private_nodes_options *options, struct error *error)
{
    if (!server_program_find(&nodes->program, error) || !directory_make(nodes, options->directory, error))
        return false;
    random_digits(nodes->password, sizeof nodes->password - 1);
    for (unsigned i = 0; i <= options->lock_nodes; i++)
        if (!server_prepare(nodes, i, options, error))
            return false;
    /* One lock node alone needs no group. */
    return servers_start(nodes, error) &&
           (options->lock_nodes == 1 ||
            new_group_make(nodes->servers + 1, options->lock_nodes, options->max_ttl_ns, error));
}

struct private_nodes *private_nodes_start(const struct private_nodes_options *options, struct error *error)
{
    invariant(options->lock_nodes >= 1 && options->lock_nodes < PRIVATE_NODES_MAX && options->lock_nodes % 2 == 1);
    struct private_nodes *nodes = memory_new(struct private_nodes);
    if (all_start(nodes, options, error))
        return nodes;
    private_nodes_end(nodes);
    return NULL;
}

void private_nodes_end(struct private_nodes *nodes)
{
    if (nodes == NULL)
        return;
    for (unsigned i = 0; i < nodes->count; i++) {
        slow_relay_end(&nodes->relays[i]);
        private_server_kill(&nodes->servers[i]);
        private_server_fini(&nodes->servers[i]);
    }
    if (nodes->directory != NULL)
        (void)temporary_directory_remove(nodes->directory);
    free(nodes->directory);
    memory_wipe(nodes->password, sizeof nodes->password);
    free(nodes);
}

unsigned private_nodes_port(const struct private_nodes *nodes, unsigned number)
{
    return nodes->relays[number].port != 0 ? nodes->relays[number].port : nodes->servers[number].port;
}
