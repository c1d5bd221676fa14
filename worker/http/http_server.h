/* A small HTTP/1.1 server on the loop: for figures, probes, a status page and its stream of events. No file is ever
 * read, and no path is looked up but in the table of routes.
 *
 *     static const struct http_route routes[] = {
 *         {HTTP_GET, "/metrics", metrics_get},          HEAD is answered too
 *         {HTTP_GET, "/tasks/", task_get},               a path that ends with '/' stands for all below it
 *         {HTTP_POST, "/pause", pause_post},             refused for pages of another origin
 *     };
 *     struct http_server *server = http_server_create(&(struct http_server_options){...}, &error);
 *
 *     static void metrics_get(void *context, struct http_exchange *exchange)
 *     {
 *         http_respond(exchange, 200, "text/plain", text, length);
 *     }
 *
 * A handler answers before it returns, or calls http_exchange_keep, or begins a stream. It must not block.
 *
 * Bounds. A request has a head of at most 8 KiB and a body of at most body_max, and must have arrived ten seconds after
 * its first byte; an answer must have been taken after thirty, and of a stream something within thirty. When all
 * connections are in use, a new one displaces that which has been without a request for longest: slow clients cannot
 * keep others out. At most half of the connections are streams. What the client does not take of a stream is kept up to
 * 256 KiB.
 *
 * The answer to a wrong token comes after a second. After many wrong ones from an address (http_guess.h) what may bring
 * another, a POST as well, is handled after a second, so that the right one is late, and not refused. At most half of
 * the connections wait so, an eighth of them from one address; beyond that the answer is 429.
 *
 * Without a token and without a login a request has to name an address or localhost in its Host: else a page whose name
 * leads to this machine could read the answers. No browser reaches a unix socket, where any Host will do.
 *
 * All of it belongs to the thread of the loop. When the process dies, unix sockets stay as files, and the next server
 * replaces them. */
#ifndef WORKER_HTTP_SERVER_H
#define WORKER_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/loop.h"
#include "worker/http/http_request.h"

struct http_server;
struct http_exchange; /* a request and its answer; gone once it was answered, or `closed` was called */

struct http_route {
    enum http_method method; /* HTTP_GET or HTTP_POST */
    const char *path;
    void (*handle)(void *context, struct http_exchange *exchange);
};

struct http_server_options {
    struct loop *loop;
    const char *const *addresses; /* http_address.h */
    size_t address_count;
    unsigned process;   /* its number among several that listen (http_address.h); 0 = it is alone */
    const char *prefix; /* of all paths, for a reverse proxy: "/holdfast"; NULL or "" = none */
    const char *token;  /* every request needs it (Authorization: Bearer); NULL = none does */
    bool has_login;     /* handlers check the rights themselves: addresses need no token here */
    const struct http_route *routes;
    size_t route_count;
    void *context; /* of the handlers */
    unsigned connections_max;
    size_t body_max;
};

/* The texts and routes must live as long as the server. NULL, with a reason, if it cannot listen on every address; the
 * reason also says so of an address that others can reach while there is no token. */
struct http_server *http_server_create(const struct http_server_options *options, struct error *error) MUST_CHECK;
/* Ends all exchanges; `closed` runs for those that are kept. */
void http_server_destroy(struct http_server *server);
/* Where it listens, as one would write it; NULL beyond the last. */
const char *http_server_address(const struct http_server *server, size_t index, struct buffer *out);
/* For a server that has one; the former may go then. */
void http_server_change_token(struct http_server *server, const char *token);

const struct http_request *http_exchange_request(const struct http_exchange *exchange);
/* The path behind the route's: "7" of /tasks/7 for the route /tasks/. */
const char *http_exchange_rest(const struct http_exchange *exchange);
/* The address of the client, as one would write it. */
const char *http_exchange_peer(const struct http_exchange *exchange, struct buffer *out);
/* Adds a header to the answer, before it is given. Names and values of the program, without line ends. */
void http_header_add(struct http_exchange *exchange, const char *name, const char *value);
void http_respond(struct http_exchange *exchange, unsigned status, const char *type, const void *bytes, size_t length);
/* A line of text/plain. */
void http_respond_text(struct http_exchange *exchange, unsigned status, const char *line);
/* Whether a token of the client is compared now; a handler asks before it compares one. */
bool http_exchange_may_guess(const struct http_exchange *exchange);
/* Whether it is, and `Authorization: Bearer TOKEN` is this one. */
bool http_exchange_has_token(const struct http_exchange *exchange, const char *token);
/* Answers a wrong token after a second; or at once, with 429, while none is compared. `line` stays. */
void http_refuse_token(struct http_exchange *exchange, unsigned status, const char *line);
/* 401 for a request without the token it needs; the same for one with a wrong Authorization. */
void http_ask_for_token(struct http_exchange *exchange, const char *line);
/* The answer comes later. `closed` runs, from the loop, if the client or the server goes before; the exchange is gone
 * then. */
void http_exchange_keep(struct http_exchange *exchange, void (*closed)(void *context), void *context);

/* An answer without an end, in pieces; the exchange is kept as above. False when there are too many streams: that was
 * answered with 503, and `closed` does not run. */
bool http_stream_begin(struct http_exchange *exchange, const char *type, void (*closed)(void *context), void *context);
/* False, and nothing is sent, when the client has not taken enough of what was sent before: leave this piece out, or
 * send it later. */
bool http_stream_write(struct http_exchange *exchange, const void *bytes, size_t length);

#endif
