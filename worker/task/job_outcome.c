#include "worker/task/job_outcome.h"

#include <stdlib.h>

#include "base/memory.h"
#include "queue/json.h"

/* Deeper than any result or task needs to be. */
static const struct envelope_limits bounds = {
    .size = JOB_RESULT_BYTES_MAX > JOB_FOLLOW_UP_BYTES_MAX ? JOB_RESULT_BYTES_MAX : JOB_FOLLOW_UP_BYTES_MAX,
    .depth = 64,
    .keys = 100000,
};

static void follow_ups_clear(struct job_outcome *outcome)
{
    for (size_t i = 0; i < outcome->follow_up_count; i++)
        free(outcome->follow_ups[i]);
    outcome->follow_up_count = outcome->follow_up_bytes = 0;
}

void job_outcome_clear(struct job_outcome *outcome)
{
    failure_clear(&outcome->failure);
    backtrace_clear(&outcome->backtrace);
    outcome->retry_in_ms = -1;
    outcome->has_result = false;
    buffer_clear(&outcome->result);
    follow_ups_clear(outcome);
}

void job_outcome_fini(struct job_outcome *outcome)
{
    job_outcome_clear(outcome);
    buffer_fini(&outcome->result);
    free(outcome->follow_ups);
    outcome->follow_ups = NULL;
}

bool job_outcome_set_result(struct job_outcome *outcome, const char *json, size_t length)
{
    if (length > JOB_RESULT_BYTES_MAX || !json_check(json, length, &bounds, NULL))
        return false;
    buffer_clear(&outcome->result);
    buffer_append(&outcome->result, json, length);
    outcome->has_result = true;
    return true;
}

bool job_outcome_add_follow_up(struct job_outcome *outcome, const char *task, size_t length, struct error *error)
{
    if (outcome->follow_up_count == JOB_FOLLOW_UPS_MAX)
        return error_set(error, "a run may push %d tasks, and this would be one more", JOB_FOLLOW_UPS_MAX);
    if (length > JOB_FOLLOW_UP_BYTES_MAX - outcome->follow_up_bytes)
        return error_set(error, "the tasks that a run pushes may have %d bytes together", JOB_FOLLOW_UP_BYTES_MAX);
    if (!json_check(task, length, &bounds, error))
        return false;
    outcome->follow_ups = memory_resize(outcome->follow_ups, outcome->follow_up_count + 1, sizeof(char *));
    outcome->follow_ups[outcome->follow_up_count++] = memory_text_of(task, length);
    outcome->follow_up_bytes += length;
    return true;
}

bool job_outcome_set_retry_in(struct job_outcome *outcome, int64_t milliseconds)
{
    if (milliseconds < 0 || milliseconds > JOB_RETRY_IN_MS_MAX)
        return false;
    outcome->retry_in_ms = milliseconds;
    return true;
}
