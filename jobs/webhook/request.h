/* Reads the request from the arguments of a webhook task. */
#ifndef JOBS_WEBHOOK_REQUEST_H
#define JOBS_WEBHOOK_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/* The target of a request: the parts of a URL that the rules concern. */
enum { WEBHOOK_URL_MAX = 8192 };

struct webhook_place {
    char *url;
    char *scheme, *host, *port; /* the port is always set; an IPv6 host is in brackets */
};

/* Returns 1, or 0 with a reason: it is no URL, neither http nor https, too long, or contains a user or password,
 * which would be visible wherever tasks are shown. */
int webhook_place_read(struct webhook_place *place, const char *url, char *reason, size_t reason_size);
void webhook_place_fini(struct webhook_place *place); /* zeroed is harmless */

/* Whether both are the same scheme, host and port. */
int webhook_place_is_same(const struct webhook_place *a, const struct webhook_place *b);
/* Whether the host is in `list`, whose names are separated by blanks or commas. */
int webhook_place_is_among(const struct webhook_place *place, const char *list);

enum { WEBHOOK_HEADERS_MAX = 64, WEBHOOK_HEADER_MAX = 8192, WEBHOOK_TIMEOUT_MAX_MS = 300000 };

struct webhook_header {
    char *name, *value;
};

struct webhook_request {
    struct webhook_place place;
    char method[17];
    struct webhook_header headers[WEBHOOK_HEADERS_MAX];
    size_t header_count;
    char *body; /* NULL: none */
    size_t body_length;
    int body_is_json;
    int64_t timeout_ms; /* 0 = default */
};

/* Reads [{"url":...}] or [URL] or [URL, BODY]. Returns 1, or 0 with a reason. In both cases fini frees it. */
int webhook_request_read(struct webhook_request *request, const char *args, size_t length, char *reason,
                         size_t reason_size);
void webhook_request_fini(struct webhook_request *request);

/* The header of that name, ignoring case; NULL: there is none. */
const char *webhook_request_header(const struct webhook_request *request, const char *name);

#endif
