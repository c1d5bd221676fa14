/* What the end of a program means for its task: the table of exit statuses of docs/handlers.md.
 *
 * Pure; any thread. */
#ifndef WORKER_PROGRAM_STATUS_H
#define WORKER_PROGRAM_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/job.h"
#include "worker/task/failure_outcome.h"

struct program_end {
    int wait_status;             /* as of waitpid */
    bool was_killed;             /* by the zygote: its time or its lock was over, or the worker stops */
    bool was_warned;             /* it was asked to stop because its lock was in danger */
    enum hf_cancel_reason asked; /* why else it was; HF_NOT_CANCELLED = it was not */
    const char *last_line;       /* of its standard error, need not end with NUL */
    size_t last_length;
};

/* In words: "exited with status 3", "was killed by signal 11 (Segmentation fault)"; `wait_status` as of waitpid. */
void child_end_describe(int wait_status, char *text, size_t size);

/* An enum hf_code. Of an end that is a failure or a burial the reason is added to `failure`, which holds one already
 * if the program gave it; of all others it is emptied. */
int program_verdict(const struct program_end *end, struct failure *failure);

/* Why it could not be started, by errno: `reason` is written. False when that is no fault of the program: the worker
 * lacks something, and it may be tried again. */
bool program_start_verdict(const char *file, int failure, char *reason, size_t size);

#endif
