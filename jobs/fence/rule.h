/* How a sink in C compares a token with the fence of its resource. */
#ifndef JOBS_FENCE_RULE_H
#define JOBS_FENCE_RULE_H

#include <stdint.h>
#include <stdio.h>

#include "jobs/fence/fence.h"

/* Whether the token is no smaller than the fence. An equal one is the same holder. */
static inline int hf_fence_admits(int64_t stored, int64_t offered)
{
    return offered >= stored;
}

/* Reads the token of a caller. 0 with a reason if it is none. */
static inline int hf_fence_offered(const char *text, int64_t *number, char *reason, size_t reason_size)
{
    if (hf_fence_token(text, number))
        return 1;
    if (text == NULL || text[0] == '\0')
        snprintf(reason, reason_size, "the lock has no token, so nothing can be fenced: set lock.fence = true");
    else
        snprintf(reason, reason_size, "\"%.32s\" is no token", text);
    return 0;
}

static inline enum hf_fence_outcome hf_fence_stale(const char *resource, int64_t stored, int64_t offered, char *reason,
                                                   size_t reason_size)
{
    snprintf(reason, reason_size, "%.200s has a later holder: token %lld was seen there, this one is %lld", resource,
             (long long)stored, (long long)offered);
    return HF_FENCE_STALE;
}

#endif
