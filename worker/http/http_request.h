/* One HTTP request, read from bytes: its head, and a body of known length. Pure.
 *
 *     switch (status = http_request_read(&request, bytes, length, body_max)) {
 *     case HTTP_MORE: ... read more behind `length`, and ask again with the same bytes
 *     case HTTP_DONE: ... the first request.length bytes are the request; zero the struct for the next one
 *     default:        ... refuse it with this status, and close: where the next request begins is unknown
 *     }
 *
 * Strict where two readers could disagree about where a request ends: lines end with CRLF, no header goes on in a
 * second line, Content-Length is there once, and a body in chunks is refused. The path is decoded and has no control
 * character and no segment that is empty, `.` or `..`, so it can be compared with the names of routes.
 *
 * The texts are NUL-terminated in place and live as long as the bytes, which must stay where they are until the request
 * is done. */
#ifndef WORKER_HTTP_REQUEST_H
#define WORKER_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum { HTTP_HEAD_MAX = 8192, HTTP_HEADERS_MAX = 64 };
enum { HTTP_MORE = 0, HTTP_DONE = 1 }; /* statuses are above */

/* What Host names. A page of any site can make a name of its own lead to this machine, and then the browser lets it
 * read what is answered; an address leads nowhere else. */
enum http_host {
    HTTP_HOST_LOCAL,   /* localhost or a loopback address; or there is none: this is no browser */
    HTTP_HOST_ADDRESS, /* of another machine, or of this one in a network */
    HTTP_HOST_NAME,
};

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OTHER };

struct http_header {
    const char *name, *value; /* the value without blanks around it */
};

struct http_request {
    enum http_method method;
    const char *path;  /* decoded; begins with '/' */
    const char *query; /* as it came, without '?'; "" = none */
    struct http_header headers[HTTP_HEADERS_MAX];
    unsigned header_count;
    char *body; /* not NUL-terminated */
    size_t body_length;
    bool keeps_alive; /* the client may send another one on the connection */
    size_t length;    /* of head and body */
    /* Private. */
    size_t searched, head_length;
};

/* The struct is zeroed before the first call. The body follows the head in `bytes`. */
unsigned http_request_read(struct http_request *request, char *bytes, size_t length, size_t body_max);

/* The value of the first header of that name in any case, or NULL. */
const char *http_request_header(const struct http_request *request, const char *name);
/* Takes equally long for every wrong token of a length. */
bool http_token_is(const char *token, const char *given);
/* Whether Authorization is "Bearer TOKEN". */
bool http_request_has_token(const struct http_request *request, const char *token);
enum http_host http_request_host(const struct http_request *request);
/* False for what a page of another origin makes a browser send: Origin is not the Host, or Sec-Fetch-Site says so. */
bool http_request_is_same_origin(const struct http_request *request);
/* Appends the decoded value of a field of a query or of a form (`a=1&b=x+y%20z`). False, and nothing appended, when
 * there is none of that name, or it is not valid, or contains a NUL. */
bool http_form_value(const char *form, size_t length, const char *name, struct buffer *out);
/* The same for a cookie, which is not encoded. */
bool http_cookie_value(const struct http_request *request, const char *name, struct buffer *out);

#endif
