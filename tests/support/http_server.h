/* An HTTP server on loopback that says what a test wrote down, whatever it is asked, on a thread of its own. One
 * connection after the other, one answer each.
 *
 *     struct http_server *server = http_server_start((const char *const[]){"HTTP/1.1 200 OK\r\n...", NULL});
 *     ... a request to http_server_port(server) ...
 *     http_server_request(server, 0)          the first request, whole
 *     http_server_stop(server)
 *
 * Answers are given in their order, the last one again and again. HTTP_SILENCE says nothing until the client goes, and
 * an answer that ends in HTTP_ENDLESS goes on for as long as the client reads. */
#ifndef SUPPORT_HTTP_SERVER_H
#define SUPPORT_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_SILENCE ""
#define HTTP_ENDLESS "\r\n\r\n..."

struct http_server; /* opaque */

struct http_server *http_server_start(const char *const *answers);
uint16_t http_server_port(const struct http_server *server);
/* Requests that were received whole, so far. */
unsigned http_server_requests(struct http_server *server);
/* One of the first eight; NULL: there was none. Lives as long as the server. */
const char *http_server_request(struct http_server *server, unsigned index);
void http_server_stop(struct http_server *server);
/* Fails the test unless `header` signs the body with `secret`, as docs/jobs.md says. */
void http_request_expect_signature(const char *request, const char *header, const char *secret);

#endif
