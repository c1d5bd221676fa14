/* What a run leaves behind, beside the code that its handler returned: why it failed, when it shall come again, its
 * result, and the tasks that follow from it. Written by whoever runs the handler, read by the slot afterwards; the
 * hand-off between them is the only synchronisation.
 *
 * Zeroed memory is no outcome yet: job_outcome_clear makes it one, and empties it between runs. */
#ifndef WORKER_JOB_OUTCOME_H
#define WORKER_JOB_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "worker/task/failure.h"
#include "worker/task/backtrace.h"

enum { JOB_RESULT_BYTES_MAX = 1 << 20, JOB_FOLLOW_UPS_MAX = 1000, JOB_FOLLOW_UP_BYTES_MAX = 1 << 20 };
/* A year. */
#define JOB_RETRY_IN_MS_MAX (INT64_C(366) * 24 * 3600 * 1000)

struct job_outcome {
    struct failure failure;
    struct backtrace backtrace;
    int64_t retry_in_ms; /* -1 = as usual */
    bool has_result;
    struct buffer result; /* JSON */
    char **follow_ups;    /* tasks as JSON objects, as the handler gave them */
    size_t follow_up_count, follow_up_bytes;
};

void job_outcome_clear(struct job_outcome *outcome);
void job_outcome_fini(struct job_outcome *outcome);

/* False, and nothing is changed, when it is not JSON, or too long. */
bool job_outcome_set_result(struct job_outcome *outcome, const char *json, size_t length);
/* False when there are too many, or they are too long together, or it is no JSON object. */
bool job_outcome_add_follow_up(struct job_outcome *outcome, const char *task, size_t length, struct error *error);
bool job_outcome_set_retry_in(struct job_outcome *outcome, int64_t milliseconds);

#endif
