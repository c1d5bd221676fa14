/* A connection reads one request at a time; what follows it waits in the buffer. Output leaves at the end of the cycle,
 * and only there, when a deadline fires or when input arrives does a connection end: so no exchange disappears while a
 * handler uses it. */
#include "worker/http/http_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/http/http_address.h"
#include "worker/http/http_guess.h"

#define REQUEST_NS (10 * NS_PER_S)   /* for a whole request */
#define IDLE_NS    (120 * NS_PER_S)  /* between requests: longer than scrapers pause */
#define ANSWER_NS  (30 * NS_PER_S)   /* for the client to take an answer, or something of a stream */
#define LINGER_NS  (1 * NS_PER_S)    /* for the client to see the last answer before the connection ends */
#define LATE_NS    (1 * NS_PER_S)    /* until the answer to a wrong token */
#define ACCEPT_NS  (100 * NS_PER_MS) /* until the next attempt when the process has no descriptor left */

enum { BACKLOG = 128, ACCEPTS_PER_TURN = 32, STREAM_WAITING_MAX = 256 * 1024 };

enum exchange_state {
    EXCHANGE_READS,   /* a request, or nothing */
    EXCHANGE_HANDLED, /* a handler has it */
    EXCHANGE_LATE,    /* it brought a wrong token: the answer goes out when its limit fires */
    EXCHANGE_PUT_OFF, /* it brings a token after many wrong ones: it is handled when its limit fires */
    EXCHANGE_SENDS,   /* the whole answer is in `out` */
    EXCHANGE_STREAMS,
    EXCHANGE_LINGERS, /* all is sent; further input is dropped */
};

struct http_exchange {
    struct http_server *server;
    struct list link; /* in server->waiting, or in server->kept */
    enum exchange_state state;
    int fd;
    struct http_address peer;
    struct loop_watch *watch;
    struct loop_timer limit;
    struct loop_hook cycle_end;
    char *in;
    size_t in_length;
    bool client_ended; /* it sends nothing more */
    bool is_by_path;   /* it came by a unix socket, where there are no browsers */
    bool was_put_off;  /* then its token is compared */
    bool is_last;      /* the connection ends with this answer */
    struct buffer out, headers;
    size_t sent; /* of out */
    struct http_request request;
    const char *rest;
    unsigned late_status;
    const char *late_line;
    void (*closed)(void *context);
    void *context;
};

struct listener {
    struct http_server *server;
    struct http_address address;
    int fd;
    struct loop_watch *watch;
};

struct http_server {
    struct http_server_options options;
    struct listener *listeners;
    struct list waiting, kept; /* exchanges: for bytes of the client, longest first; for a handler */
    unsigned connections, streams;
    struct http_guesses guesses;
    struct loop_timer accept_again;
};

/* --- the end of a connection -------------------------------------------------------------------------------------- */

static void exchange_close(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    loop_timer_clear(server->options.loop, &exchange->limit);
    loop_hook_cancel(&exchange->cycle_end);
    loop_watch_stop(exchange->watch);
    close(exchange->fd);
    list_remove(&exchange->link);
    server->connections--;
    server->streams -= exchange->state == EXCHANGE_STREAMS;
    if (exchange->closed != NULL)
        exchange->closed(exchange->context);
    buffer_fini(&exchange->out);
    buffer_fini(&exchange->headers);
    free(exchange->in);
    free(exchange);
}

static void request_handle(struct http_exchange *exchange);

static void limit_fire(struct loop_timer *timer)
{
    struct http_exchange *exchange = list_owner(timer, struct http_exchange, limit);
    if (exchange->state == EXCHANGE_PUT_OFF) {
        exchange->state = EXCHANGE_HANDLED;
        exchange->was_put_off = true;
        request_handle(exchange);
        return;
    }
    if (exchange->state != EXCHANGE_LATE) {
        exchange_close(exchange);
        return;
    }
    exchange->state = EXCHANGE_HANDLED;
    http_respond_text(exchange, exchange->late_status, exchange->late_line);
}

static void limit_set(struct http_exchange *exchange, int64_t ns)
{
    struct loop *loop = exchange->server->options.loop;
    loop_timer_set(loop, &exchange->limit, loop_after(loop, ns));
}

static void list_change(struct http_exchange *exchange, struct list *to)
{
    list_remove(&exchange->link);
    list_append(to, &exchange->link);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static const char *status_text(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } texts[] = {
        /* clang-format off */
        {200, "OK"}, {204, "No Content"}, {303, "See Other"}, {308, "Permanent Redirect"}, {400, "Bad Request"},
        {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"}, {409, "Conflict"},
        {413, "Content Too Large"}, {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"}, {501, "Not Implemented"}, {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Answer";
}

static void head_write(struct http_exchange *exchange, unsigned status, const char *type)
{
    char date[64];
    struct tm tm;
    time_t now = (time_t)(wall_now().us / US_PER_S);
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    buffer_format(&exchange->out,
                  "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
                  "X-Content-Type-Options: nosniff\r\n",
                  status, status_text(status), date, type);
    buffer_append(&exchange->out, exchange->headers.bytes, exchange->headers.length);
    if (exchange->is_last)
        buffer_append_text(&exchange->out, "Connection: close\r\n");
    buffer_clear(&exchange->headers);
}

static void send_soon(struct http_exchange *exchange)
{
    loop_at_cycle_end(exchange->server->options.loop, LOOP_WRITE, &exchange->cycle_end);
}

void http_header_add(struct http_exchange *exchange, const char *name, const char *value)
{
    buffer_format(&exchange->headers, "%s: %s\r\n", name, value);
}

void http_respond(struct http_exchange *exchange, unsigned status, const char *type, const void *bytes, size_t length)
{
    invariant(exchange->state == EXCHANGE_HANDLED);
    head_write(exchange, status, type);
    buffer_format(&exchange->out, "Content-Length: %zu\r\n\r\n", length);
    if (exchange->request.method != HTTP_HEAD)
        buffer_append(&exchange->out, bytes, length);
    exchange->state = EXCHANGE_SENDS;
    exchange->closed = NULL;
    list_change(exchange, &exchange->server->waiting);
    limit_set(exchange, ANSWER_NS);
    send_soon(exchange);
}

void http_respond_text(struct http_exchange *exchange, unsigned status, const char *line)
{
    char *text;
    int length = asprintf(&text, "%s\n", line);
    invariant(length >= 0);
    http_respond(exchange, status, "text/plain; charset=utf-8", text, (size_t)length);
    free(text);
}

void http_exchange_keep(struct http_exchange *exchange, void (*closed)(void *context), void *context)
{
    invariant(exchange->state == EXCHANGE_HANDLED);
    exchange->closed = closed;
    exchange->context = context;
    loop_timer_clear(exchange->server->options.loop, &exchange->limit);
    list_change(exchange, &exchange->server->kept);
}

bool http_stream_begin(struct http_exchange *exchange, const char *type, void (*closed)(void *context), void *context)
{
    struct http_server *server = exchange->server;
    if (server->streams >= server->options.connections_max / 2) {
        http_respond_text(exchange, 503, "too many clients watch already; try again later");
        return false;
    }
    http_exchange_keep(exchange, closed, context);
    exchange->is_last = true; /* its end is the end of the connection */
    head_write(exchange, 200, type);
    buffer_append_text(&exchange->out, "\r\n");
    exchange->state = EXCHANGE_STREAMS;
    server->streams++;
    if (exchange->request.method == HTTP_HEAD)
        exchange->client_ended = true;
    limit_set(exchange, ANSWER_NS);
    send_soon(exchange);
    return true;
}

bool http_stream_write(struct http_exchange *exchange, const void *bytes, size_t length)
{
    invariant(exchange->state == EXCHANGE_STREAMS);
    size_t waiting = exchange->out.length - exchange->sent;
    if (exchange->request.method == HTTP_HEAD)
        return true;
    if (waiting > 0 && waiting + length > STREAM_WAITING_MAX)
        return false;
    if (waiting == 0)
        limit_set(exchange, ANSWER_NS);
    buffer_drop_front(&exchange->out, exchange->sent); /* or it grows as long as the client never takes all */
    exchange->sent = 0;
    buffer_append(&exchange->out, bytes, length);
    send_soon(exchange);
    return true;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

bool http_exchange_may_guess(const struct http_exchange *exchange)
{
    const struct http_server *server = exchange->server;
    return exchange->was_put_off ||
           http_guess_is_allowed(&server->guesses, &exchange->peer, loop_now(server->options.loop));
}

/* Half of the connections may wait so, an eighth of them from one address. */
static bool may_put_off(const struct http_exchange *exchange)
{
    const struct http_server *server = exchange->server;
    unsigned of_one = 0, of_all = 0;
    for (const struct list *link = server->kept.next; link != &server->kept; link = link->next) {
        const struct http_exchange *other = list_owner(link, struct http_exchange, link);
        bool is_put_off = other->state == EXCHANGE_PUT_OFF;
        of_all += is_put_off;
        of_one += is_put_off && http_guess_network(&other->peer) == http_guess_network(&exchange->peer);
    }
    return of_all < server->options.connections_max / 2 && of_one < server->options.connections_max / 8;
}

/* Whether a request that may bring a token has to wait: guesses are slow then, and the right token is not lost. */
static bool token_put_off(struct http_exchange *exchange)
{
    bool may_bring =
        exchange->request.method == HTTP_POST || http_request_header(&exchange->request, "Authorization") != NULL;
    if (!may_bring || http_exchange_may_guess(exchange) || !may_put_off(exchange))
        return false;
    exchange->state = EXCHANGE_PUT_OFF;
    list_change(exchange, &exchange->server->kept);
    limit_set(exchange, LATE_NS);
    return true;
}

bool http_exchange_has_token(const struct http_exchange *exchange, const char *token)
{
    return http_exchange_may_guess(exchange) && http_request_has_token(&exchange->request, token);
}

void http_refuse_token(struct http_exchange *exchange, unsigned status, const char *line)
{
    struct http_server *server = exchange->server;
    invariant(exchange->state == EXCHANGE_HANDLED);
    if (!http_exchange_may_guess(exchange)) {
        http_respond_text(exchange, 429, "too many wrong tokens just now; try again in a moment");
        return;
    }
    if (exchange->was_put_off) {
        http_respond_text(exchange, status, line);
        return;
    }
    http_guess_count(&server->guesses, &exchange->peer, loop_now(server->options.loop));
    exchange->state = EXCHANGE_LATE;
    exchange->late_status = status;
    exchange->late_line = line;
    list_change(exchange, &server->kept);
    limit_set(exchange, LATE_NS);
}

void http_ask_for_token(struct http_exchange *exchange, const char *line)
{
    http_header_add(exchange, "WWW-Authenticate", "Bearer");
    if (http_request_header(&exchange->request, "Authorization") != NULL)
        http_refuse_token(exchange, 401, line);
    else
        http_respond_text(exchange, 401, line);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

const struct http_request *http_exchange_request(const struct http_exchange *exchange)
{
    return &exchange->request;
}

const char *http_exchange_rest(const struct http_exchange *exchange)
{
    return exchange->rest;
}

const char *http_exchange_peer(const struct http_exchange *exchange, struct buffer *out)
{
    return http_address_text(&exchange->peer, out);
}

static bool route_fits(const struct http_route *route, const char *path)
{
    size_t length = strlen(route->path);
    bool is_tree = length > 1 && route->path[length - 1] == '/';
    return is_tree ? strncmp(path, route->path, length) == 0 : strcmp(path, route->path) == 0;
}

/* The path without the prefix, or NULL. */
static const char *path_inside(const struct http_server *server, const char *path)
{
    const char *prefix = server->options.prefix != NULL ? server->options.prefix : "";
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && path[length] == '/' ? path + length : NULL;
}

/* `methods`: a bit for each that the path has. */
static const struct http_route *route_find(struct http_exchange *exchange, unsigned *methods)
{
    const struct http_server *server = exchange->server;
    struct http_request *request = &exchange->request;
    enum http_method method = request->method == HTTP_HEAD ? HTTP_GET : request->method;
    for (size_t i = 0; i < server->options.route_count; i++) {
        const struct http_route *route = &server->options.routes[i];
        if (!route_fits(route, request->path))
            continue;
        *methods |= 1U << route->method;
        exchange->rest = request->path + strlen(route->path);
        if (route->method == method)
            return route;
    }
    return NULL;
}

static void redirect_to_root(struct http_exchange *exchange)
{
    char location[256];
    snprintf(location, sizeof location, "%s/", exchange->server->options.prefix);
    http_header_add(exchange, "Location", location);
    http_respond_text(exchange, 308, "it is below this path");
}

static void request_handle(struct http_exchange *exchange)
{
    const struct http_server_options *options = &exchange->server->options;
    struct http_request *request = &exchange->request;
    unsigned methods = 0;
    if (token_put_off(exchange))
        return;
    const char *path = path_inside(exchange->server, request->path);
    exchange->is_last = !request->keeps_alive;
    if (options->token != NULL && !http_exchange_has_token(exchange, options->token)) {
        http_ask_for_token(exchange, "this address needs the token of the configuration: Authorization: Bearer TOKEN");
        return;
    }
    bool is_open = options->token == NULL && !options->has_login && !exchange->is_by_path;
    if (is_open && http_request_host(request) == HTTP_HOST_NAME) {
        http_respond_text(exchange, 403,
                          "without a token this server answers only to its address as the Host, or to localhost");
        return;
    }
    if (path == NULL) {
        if (options->prefix != NULL && strcmp(request->path, options->prefix) == 0)
            redirect_to_root(exchange);
        else
            http_respond_text(exchange, 404, "there is no such page");
        return;
    }
    request->path = path;
    const struct http_route *route = route_find(exchange, &methods);
    if (route == NULL && methods == 0) {
        http_respond_text(exchange, 404, "there is no such page");
    } else if (route == NULL) {
        bool has_post = (methods & 1U << HTTP_POST) != 0, has_get = (methods & 1U << HTTP_GET) != 0;
        http_header_add(exchange, "Allow", !has_get ? "POST" : has_post ? "GET, HEAD, POST" : "GET, HEAD");
        http_respond_text(exchange, 405, "this page does not have that method");
    } else if (route->method == HTTP_POST && !http_request_is_same_origin(request)) {
        http_respond_text(exchange, 403, "this request comes from a page of another origin; a proxy must keep Host");
    } else {
        route->handle(options->context, exchange);
        invariant(exchange->state != EXCHANGE_HANDLED || exchange->closed != NULL);
    }
}

static void request_refuse(struct http_exchange *exchange, unsigned status)
{
    char line[80];
    exchange->is_last = true;
    exchange->request.method = HTTP_OTHER;
    snprintf(line, sizeof line, "the request cannot be served: %s", status_text(status));
    http_respond_text(exchange, status, line);
}

/* The next request, as far as it is there. */
static void request_look(struct http_exchange *exchange)
{
    unsigned status =
        http_request_read(&exchange->request, exchange->in, exchange->in_length, exchange->server->options.body_max);
    if (status == HTTP_MORE)
        return;
    exchange->state = EXCHANGE_HANDLED;
    if (status == HTTP_DONE)
        request_handle(exchange);
    else
        request_refuse(exchange, status);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void watch_renew(struct http_exchange *exchange)
{
    size_t room = HTTP_HEAD_MAX + exchange->server->options.body_max - exchange->in_length;
    int events = !exchange->client_ended && room > 0 ? LOOP_READABLE : 0;
    if (exchange->sent < exchange->out.length)
        events |= LOOP_WRITABLE;
    loop_watch_change(exchange->watch, events);
}

/* False when the connection is broken. */
static bool output_send(struct http_exchange *exchange)
{
    struct buffer *out = &exchange->out;
    while (exchange->sent < out->length) {
        ssize_t count = send(exchange->fd, out->bytes + exchange->sent, out->length - exchange->sent, MSG_NOSIGNAL);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR;
        exchange->sent += (size_t)count;
        if (exchange->state == EXCHANGE_STREAMS)
            limit_set(exchange, ANSWER_NS);
    }
    buffer_fini(out);
    *out = (struct buffer){.bytes = NULL};
    exchange->sent = 0;
    if (exchange->state == EXCHANGE_STREAMS)
        loop_timer_clear(exchange->server->options.loop, &exchange->limit);
    return true;
}

/* Closed at once, the connection would be reset if bytes are unread, and the client might miss the answer. */
static void linger(struct http_exchange *exchange)
{
    shutdown(exchange->fd, SHUT_WR);
    exchange->state = EXCHANGE_LINGERS;
    exchange->in_length = 0;
    limit_set(exchange, LINGER_NS);
}

static void next_begin(struct http_exchange *exchange)
{
    size_t used = exchange->request.length;
    exchange->in_length -= used;
    memmove(exchange->in, exchange->in + used, exchange->in_length);
    memset(&exchange->request, 0, sizeof exchange->request);
    exchange->was_put_off = false;
    exchange->state = EXCHANGE_READS;
    limit_set(exchange, exchange->in_length > 0 ? REQUEST_NS : IDLE_NS);
    request_look(exchange);
}

static void cycle_end(struct loop_hook *hook)
{
    struct http_exchange *exchange = list_owner(hook, struct http_exchange, cycle_end);
    bool is_well = output_send(exchange);
    bool is_sent = exchange->out.length == 0;
    if (is_well && is_sent && exchange->state == EXCHANGE_SENDS) {
        if (exchange->is_last)
            linger(exchange);
        else
            next_begin(exchange);
    }
    bool is_over =
        exchange->client_ended && (exchange->state == EXCHANGE_READS || exchange->state == EXCHANGE_LINGERS ||
                                   (exchange->state == EXCHANGE_STREAMS && is_sent));
    if (!is_well || is_over)
        exchange_close(exchange);
    else
        watch_renew(exchange);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* False when the connection is broken. */
static bool input_receive(struct http_exchange *exchange)
{
    size_t room = HTTP_HEAD_MAX + exchange->server->options.body_max - exchange->in_length;
    if (exchange->client_ended || room == 0)
        return true;
    ssize_t count = recv(exchange->fd, exchange->in + exchange->in_length, room, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    if (count == 0) {
        exchange->client_ended = true;
        return true;
    }
    if (exchange->state == EXCHANGE_LINGERS || exchange->state == EXCHANGE_STREAMS)
        return true; /* nobody wants it */
    if (exchange->state == EXCHANGE_READS && exchange->in_length == 0)
        limit_set(exchange, REQUEST_NS);
    exchange->in_length += (size_t)count;
    return true;
}

static void exchange_ready(void *context, int events)
{
    struct http_exchange *exchange = context;
    if ((events & LOOP_READABLE) != 0 && !input_receive(exchange)) {
        exchange_close(exchange);
        return;
    }
    if (exchange->state == EXCHANGE_READS)
        request_look(exchange);
    send_soon(exchange);
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void exchange_begin(const struct listener *listener, int fd, const struct http_address *peer)
{
    struct http_server *server = listener->server;
    struct http_exchange *exchange = memory_new(struct http_exchange);
    exchange->server = server;
    exchange->fd = fd;
    exchange->peer = *peer;
    exchange->is_by_path = listener->address.bytes.ss_family == AF_UNIX;
    exchange->in = memory_zeroed(1, HTTP_HEAD_MAX + server->options.body_max);
    loop_timer_init(&exchange->limit, limit_fire);
    loop_hook_init(&exchange->cycle_end, cycle_end);
    list_append(&server->waiting, &exchange->link);
    exchange->watch = loop_watch_start(server->options.loop, fd, LOOP_READABLE, exchange_ready, exchange);
    server->connections++;
    limit_set(exchange, REQUEST_NS);
}

/* True when there is room for one more. */
static bool room_make(struct http_server *server)
{
    if (server->connections < server->options.connections_max)
        return true;
    if (list_is_empty(&server->waiting))
        return false;
    exchange_close(list_owner(server->waiting.next, struct http_exchange, link));
    return true;
}

static void listeners_watch(struct http_server *server, int events)
{
    for (size_t i = 0; i < server->options.address_count; i++)
        loop_watch_change(server->listeners[i].watch, events);
}

static void accept_again(struct loop_timer *timer)
{
    listeners_watch(list_owner(timer, struct http_server, accept_again), LOOP_READABLE);
}

static void listener_ready(void *context, int events)
{
    struct listener *listener = context;
    struct http_server *server = listener->server;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct http_address peer = {.length = sizeof peer.bytes};
        int fd = accept4(listener->fd, (struct sockaddr *)&peer.bytes, &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            listeners_watch(server, 0);
            loop_timer_set(server->options.loop, &server->accept_again, loop_after(server->options.loop, ACCEPT_NS));
        }
        if (fd < 0)
            return;
        if (room_make(server))
            exchange_begin(listener, fd, &peer);
        else
            close(fd);
    }
}

/* --- listening ---------------------------------------------------------------------------------------------------- */

/* A socket whose process died is still there as a file, and refuses; so does any other file. What is in the way else:
 * EADDRINUSE or EEXIST. */
static int obstacle_of(const struct http_address *address)
{
    const char *path = ((const struct sockaddr_un *)&address->bytes)->sun_path;
    struct stat file;
    if (address->bytes.ss_family != AF_UNIX)
        return EADDRINUSE;
    if (lstat(path, &file) == 0 && !S_ISSOCK(file.st_mode))
        return EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refuses = connect(fd, (const struct sockaddr *)&address->bytes, address->length) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refuses ? 0 : EADDRINUSE;
}

/* The file of a unix socket gets the mode of its descriptor without the bits of the umask, which belongs to all
 * threads. So nobody else can ever open it, and what the umask took is given back behind. */
static bool address_bind(int fd, const struct http_address *address)
{
    const struct sockaddr *to = (const struct sockaddr *)&address->bytes;
    const char *path = ((const struct sockaddr_un *)&address->bytes)->sun_path;
    bool is_path = address->bytes.ss_family == AF_UNIX;
    if (is_path ? fchmod(fd, 0660) != 0 : setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0)
        return false;
    bool is_bound = bind(fd, to, address->length) == 0;
    if (!is_bound && errno == EADDRINUSE) {
        int obstacle = obstacle_of(address);
        is_bound = obstacle == 0 && unlink(path) == 0 && bind(fd, to, address->length) == 0;
        errno = obstacle != 0 ? obstacle : errno;
    }
    return is_bound && (!is_path || chmod(path, 0660) == 0);
}

static bool listener_open(struct listener *listener, const char *text, struct error *error)
{
    const struct http_server_options *options = &listener->server->options;
    if (!http_address_read(text, options->process, &listener->address, error))
        return false;
    if (!listener->address.is_local && options->token == NULL && !options->has_login)
        return error_set(error, "%s: other machines can reach this address: it needs a token", text);
    struct http_address *address = &listener->address;
    listener->fd = socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->fd < 0 || !address_bind(listener->fd, address) || listen(listener->fd, BACKLOG) != 0) {
        struct buffer name = {0};
        int code = errno;
        error_set(error, "cannot listen on %s: %s%s", http_address_text(address, &name), strerror(code),
                  code == EADDRINUSE ? "; another program, or another worker, has this address: choose another one"
                  : code == EEXIST   ? "; it is no socket, so it stays: choose another path"
                                     : "");
        buffer_fini(&name);
        return false;
    }
    getsockname(listener->fd, (struct sockaddr *)&address->bytes, &address->length);
    listener->watch = loop_watch_start(options->loop, listener->fd, LOOP_READABLE, listener_ready, listener);
    return true;
}

static void listener_close(struct listener *listener)
{
    if (listener->watch == NULL) {
        if (listener->fd >= 0)
            close(listener->fd);
        return;
    }
    loop_watch_stop(listener->watch);
    close(listener->fd);
    if (listener->address.bytes.ss_family == AF_UNIX)
        unlink(((const struct sockaddr_un *)&listener->address.bytes)->sun_path);
}

const char *http_server_address(const struct http_server *server, size_t index, struct buffer *out)
{
    return index < server->options.address_count ? http_address_text(&server->listeners[index].address, out) : NULL;
}

void http_server_change_token(struct http_server *server, const char *token)
{
    server->options.token = token;
}

struct http_server *http_server_create(const struct http_server_options *options, struct error *error)
{
    struct http_server *server = memory_new(struct http_server);
    server->options = *options;
    server->listeners = memory_zeroed(options->address_count, sizeof server->listeners[0]);
    list_init(&server->waiting);
    list_init(&server->kept);
    loop_timer_init(&server->accept_again, accept_again);
    for (size_t i = 0; i < options->address_count; i++)
        server->listeners[i] = (struct listener){.server = server, .fd = -1};
    for (size_t i = 0; i < options->address_count; i++)
        if (!listener_open(&server->listeners[i], options->addresses[i], error)) {
            http_server_destroy(server);
            return NULL;
        }
    return server;
}

void http_server_destroy(struct http_server *server)
{
    if (server == NULL)
        return;
    struct list *link;
    while ((link = list_take_first(&server->kept)) != NULL || (link = list_take_first(&server->waiting)) != NULL)
        exchange_close(list_owner(link, struct http_exchange, link));
    for (size_t i = 0; i < server->options.address_count; i++)
        listener_close(&server->listeners[i]);
    loop_timer_clear(server->options.loop, &server->accept_again);
    free(server->listeners);
    free(server);
}
