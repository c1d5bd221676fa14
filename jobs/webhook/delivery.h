/* The headers of a request, and the result kept of its answer. */
#ifndef JOBS_WEBHOOK_DELIVERY_H
#define JOBS_WEBHOOK_DELIVERY_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/webhook/call.h"
#include "jobs/webhook/request.h"

/* The facts of the task; zeroed or NULL if unknown. */
struct webhook_task {
    const char *jid;
    unsigned attempt;
    const char *const *resources;
    unsigned resource_count;
    const char *fence;
};

struct webhook_seal {
    const char *header; /* its name */
    const char *secret; /* NULL: no signature */
    size_t secret_length;
};

/* The headers of a request; NULL without memory. If the server is not the one that the task names, `is_elsewhere`,
 * omits all headers of the task except those that describe the body: they may be credentials. */
struct curl_slist *webhook_headers(const struct webhook_request *request, const struct webhook_task *task,
                                   const struct webhook_seal *seal, int64_t unix_seconds, int is_elsewhere);

/* {"status":200,"body":"...","cut":false} with U+FFFD for each byte that is not UTF-8; the caller frees it. NULL
 * without memory. */
char *webhook_result(const struct webhook_call *call);

#endif
