/* What the arguments of a webhook task ask for. */
#ifndef JOBS_WEBHOOK_REQUEST_H
#define JOBS_WEBHOOK_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/webhook/place.h"

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
