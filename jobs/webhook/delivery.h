/* What is sent along with a request, and what is kept of its answer. */
#ifndef JOBS_WEBHOOK_DELIVERY_H
#define JOBS_WEBHOOK_DELIVERY_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/webhook/call.h"
#include "jobs/webhook/request.h"

/* What is known of the task; zeroed or NULL where there is nothing. */
struct webhook_task {
    const char *jid;
    unsigned attempt;
    const char *const *resources;
    unsigned resource_count;
    const char *fence;
};

struct webhook_seal {
    const char *header; /* its name */
    const char *secret; /* NULL: nothing is signed */
    size_t secret_length;
};

/* The headers of a request; NULL without memory. For a server at another place than the one that the task names,
 * `is_elsewhere`, all that the task itself wrote stays away except what describes the body: it may be credentials. */
struct curl_slist *webhook_headers(const struct webhook_request *request, const struct webhook_task *task,
                                   const struct webhook_seal *seal, int64_t unix_seconds, int is_elsewhere);

/* {"status":200,"body":"...","cut":false} with each byte that is no UTF-8 replaced by U+FFFD, to be freed; NULL without
 * memory. */
char *webhook_result(const struct webhook_call *call);

#endif
