/* What the arguments of a webhook task ask for. */
#ifndef JOBS_WEBHOOK_REQUEST_H
#define JOBS_WEBHOOK_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/* Where a request goes: the parts of a URL that rules are about. */
enum { WEBHOOK_URL_MAX = 8192 };

struct webhook_place {
    char *url;
    char *scheme, *host, *port; /* the port is always there; an IPv6 host stands in brackets */
};

/* Returns 1, or 0 with a reason: it is no URL, neither http nor https, too long, or has a user or password in it, which
 * would be seen wherever tasks are seen. */
int webhook_place_read(struct webhook_place *place, const char *url, char *reason, size_t reason_size);
void webhook_place_fini(struct webhook_place *place); /* zeroed is fine */

/* Whether both are the same scheme, host and port. */
int webhook_place_is_same(const struct webhook_place *a, const struct webhook_place *b);
/* Whether the host is one of the names in `list`, which stand between blanks or commas. */
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
    int64_t timeout_ms; /* 0 = not said */
};

/* Reads [{"url":...}] or [URL] or [URL, BODY]. Returns 1, or 0 with a reason. In both cases fini frees it. */
int webhook_request_read(struct webhook_request *request, const char *args, size_t length, char *reason,
                         size_t reason_size);
void webhook_request_fini(struct webhook_request *request);

/* The header of that name, in any case of letters; NULL: there is none. */
const char *webhook_request_header(const struct webhook_request *request, const char *name);

#endif
