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
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/redis_server.h"

enum { CLIENTS = 16, TICK_MS = 5, FLOOD = 16 * 1024 * 1024, DRIP = 30000 };
static const int64_t drip_ns = 5 * NS_PER_MS;

struct client {
    int fd; /* -1: free */
    struct buffer in, out;
    struct instant send_at; /* nothing drips before */
    bool was_asked;         /* more than a handshake */
    bool closes;
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
    buffer_fini(&client->in);
    buffer_fini(&client->out);
    *client = (struct client){.fd = -1};
}

/* --- what it answers ---------------------------------------------------------------------------------------- */

static void append_flood(struct buffer *out, const char *header)
{
    buffer_append_text(out, header);
    memset(buffer_reserve(out, FLOOD), 'x', FLOOD);
    out->length += FLOOD;
}

static void append_nesting(struct buffer *out)
{
    for (int i = 0; i < 100000; i++)
        buffer_append_text(out, "*1\r\n");
}

static void append_drip(struct buffer *out)
{
    buffer_format(out, "$%d\r\n%-*s\r\n", DRIP, DRIP, "drip");
}

/* Answers one request that is not of the handshake; false when the client is gone. */
static bool misbehave(const struct hostile_server *server, struct client *client, enum hostile_mode mode)
{
    static const char *const answers[HOSTILE_MODES] = {
        [HOSTILE_GOOD] = "+OK\r\n",
        [HOSTILE_GARBAGE] = "HTTP/1.1 400 Bad Request\r\n\r\n",
        [HOSTILE_EXTRA_REPLY] = "+OK\r\n:42\r\n",
        [HOSTILE_EXTRA_HALF] = "+OK\r\n:4",
        [HOSTILE_HUGE_ARRAY] = "*2147483647\r\n",
        [HOSTILE_NEGATIVE] = "*-5\r\n",
        [HOSTILE_HALF_REPLY] = "$10\r\nabc",
        [HOSTILE_RESP3] = "%1\r\n+a\r\n+b\r\n",
        [HOSTILE_LATE] = "+OK\r\n",
        [HOSTILE_BAD_PONG] = ":42\r\n",
        [HOSTILE_BUSY_ERROR] = "-BUSY Redis is busy running a script.\r\n",
        [HOSTILE_NOSCRIPT] = "-NOSCRIPT No matching script. Please use EVAL.\r\n",
    };
    if (mode == HOSTILE_RESET) {
        client_close(client, true);
        return false;
    }
    if (mode == HOSTILE_HUGE_BULK)
        append_flood(&client->out, "$5000000000\r\n");
    else if (mode == HOSTILE_ENDLESS_LINE)
        append_flood(&client->out, "+");
    else if (mode == HOSTILE_DEEP_NESTING)
        append_nesting(&client->out);
    else if (mode == HOSTILE_DRIP)
        append_drip(&client->out);
    else if (mode == HOSTILE_SAYS)
        buffer_append_text(&client->out, atomic_load(&server->says));
    else if (answers[mode] != NULL)
        buffer_append_text(&client->out, answers[mode]);
    client->was_asked = true;
    client->closes = mode == HOSTILE_HALF_REPLY;
    return true;
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* Reads "<mark><number>\r\n" at `at`; returns what follows, or NULL when it is not complete. */
static const char *read_header(const char *at, const char *end, long *number)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL)
        return NULL;
    *number = 0;
    for (const char *digit = at + 1; *digit >= '0' && *digit <= '9';
         digit++) /* ends at the line's end, at the latest */
        *number = *number * 10 + (*digit - '0');
    return line_end + 1;
}

/* The length of the first request if it is complete, or 0. */
static size_t request_length(const struct buffer *in)
{
    long arguments = 0;
    const char *end = in->bytes + in->length;
    const char *at = read_header(in->bytes, end, &arguments);
    for (long i = 0; at != NULL && i < arguments; i++) {
        long length = 0;
        at = read_header(at, end, &length);
        if (at != NULL && end - at < length + 2)
            return 0;
        if (at != NULL)
            at += length + 2;
    }
    return at != NULL ? (size_t)(at - in->bytes) : 0;
}

/* False when the client is gone. */
static bool answer_requests(const struct hostile_server *server, struct client *client, enum hostile_mode mode)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    static const char load[] = "*3\r\n$6\r\nSCRIPT\r\n";
    static const char role[] = "*1\r\n$4\r\nROLE\r\n";
    static const char digest[] = "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n";
    size_t length;
    while (client->in.length > 0 && (length = request_length(&client->in)) > 0) {
        bool is_ping = length == sizeof ping - 1 && memcmp(client->in.bytes, ping, length) == 0;
        bool is_role = length == sizeof role - 1 && memcmp(client->in.bytes, role, length) == 0;
        bool is_load = length > sizeof load - 1 && memcmp(client->in.bytes, load, sizeof load - 1) == 0;
        buffer_drop_front(&client->in, length);
        if (mode == HOSTILE_MUTE || client->closes)
            continue;
        if (is_ping && mode != HOSTILE_BAD_PONG)
            buffer_append_text(&client->out, "+PONG\r\n");
        else if (is_role)
            buffer_append_text(&client->out, "-ERR unknown command 'ROLE'\r\n");
        else if (is_load)
            buffer_append_text(&client->out, digest);
        else if (!misbehave(server, client, mode))
            return false;
    }
    return true;
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
            buffer_append_text(&server->clients[i].out, "+HELLO\r\n");
        return;
    }
    close(fd);
}

static void client_read(struct hostile_server *server, struct client *client)
{
    ssize_t got = recv(client->fd, buffer_reserve(&client->in, 65536), 65536, 0);
    if (got <= 0) {
        client_close(client, false);
        return;
    }
    client->in.length += (size_t)got;
    (void)answer_requests(server, client, (enum hostile_mode)atomic_load(&server->mode));
}

/* How much may be sent now. */
static size_t portion(struct client *client, enum hostile_mode mode)
{
    bool drips = mode == HOSTILE_DRIP && client->was_asked;
    if (mode == HOSTILE_LATE && client->was_asked)
        return 0;
    if (!drips || client->out.length == 0)
        return client->out.length;
    if (!instant_reached(instant_now(), client->send_at))
        return 0;
    client->send_at = instant_after(instant_now(), drip_ns);
    return 1;
}

static void client_write(struct client *client, enum hostile_mode mode)
{
    size_t length = portion(client, mode);
    ssize_t sent = length > 0 ? send(client->fd, client->out.bytes, length, MSG_NOSIGNAL) : 0;
    if (sent > 0)
        buffer_drop_front(&client->out, (size_t)sent);
    if (client->closes && client->out.length == 0)
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

const char *hostile_mode_name(enum hostile_mode mode)
{
    static const char *const names[HOSTILE_MODES] = {
        [HOSTILE_GOOD] = "good",
        [HOSTILE_SILENT] = "silent",
        [HOSTILE_GARBAGE] = "garbage",
        [HOSTILE_EXTRA_REPLY] = "extra reply",
        [HOSTILE_EXTRA_HALF] = "half of an extra reply",
        [HOSTILE_HUGE_ARRAY] = "huge array",
        [HOSTILE_NEGATIVE] = "negative count",
        [HOSTILE_DEEP_NESTING] = "deep nesting",
        [HOSTILE_HUGE_BULK] = "huge bulk",
        [HOSTILE_ENDLESS_LINE] = "endless line",
        [HOSTILE_HALF_REPLY] = "half reply",
        [HOSTILE_DRIP] = "drip",
        [HOSTILE_RESET] = "reset",
        [HOSTILE_RESP3] = "RESP3",
        [HOSTILE_LATE] = "late",
        [HOSTILE_BUSY_ERROR] = "busy error",
        [HOSTILE_NOSCRIPT] = "no script",
        [HOSTILE_SAYS] = "says",
        [HOSTILE_BAD_PONG] = "bad pong",
        [HOSTILE_UNASKED] = "unasked",
        [HOSTILE_MUTE] = "mute",
    };
    return names[mode];
}
