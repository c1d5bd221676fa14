/* What the end of a program means for its task: the table of exit statuses of docs/handlers.md.
 *
 * Pure; any thread. */
#ifndef WORKER_PROGRAM_STATUS_H
#define WORKER_PROGRAM_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/job.h"
#include "worker/task/failure_outcome.h"

struct program_end {
    int wait_status;             /* as of waitpid */
    bool was_killed;             /* by the zygote: its time or its lock was over, or the worker stops */
    bool was_warned;             /* it was asked to stop because its lock was in danger */
    enum hf_cancel_reason asked; /* any other reason to stop; HF_NOT_CANCELLED = none */
    const char *last_line;       /* of its standard error; may lack a NUL */
    size_t last_length;
    int64_t memory_limit; /* bytes; 0 = none */
};

enum { CHILD_END_TEXT_MAX = 192 };

/* Writes for example "exited with status 3" or "was killed by signal 11 (Segmentation fault)"; `wait_status` as of
 * waitpid. A signal may come of the memory limit (bytes, 0 = none), so that is named. */
void child_end_describe(int wait_status, int64_t memory_limit, char text[CHILD_END_TEXT_MAX]);

/* Returns an enum hf_code. For a failure or a burial, adds the reason to `failure`, unless the program gave one;
 * otherwise clears `failure`. */
int program_verdict(const struct program_end *end, struct failure *failure);

/* Writes into `reason` why the program could not start, by errno. False if that is no fault of the program: the
 * worker lacks resources, and the run may be tried again. */
bool program_start_verdict(const char *file, int failure, char *reason, size_t size);

#endif
