/* What a running handler can ask of its host: the function tables of jobs/job.h.
 *
 * A struct hf_job is one run: facts, what it can be told meanwhile, and what it leaves behind. It is the same for
 * every way to run a handler; how it reaches its host is the link:
 *
 *     thread of a worker      slot_run.c               directly, over the loop's mailbox
 *     runner process          isolation/runner_*.c     over the process's socket
 *     holdfast run-handler    commands/...             to the terminal
 *
 * In a worker the loop prepares it, a runner lends it to the handler, and after the run the loop reads the outcome;
 * the two hand-offs are the only synchronisation. While it runs only words of the run table are shared: the lock's
 * validity, the pulse of the process, and the orders to stop, of process and of task. They are compared with the
 * clock, so a stuck loop cannot keep a lock falsely alive (E34), and a process that was stopped for longer than its
 * lease does not go on with a task that others may have by now. */
#ifndef WORKER_JOB_HOST_H
#define WORKER_JOB_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "jobs/job.h"
#include "queue/iteration.h"
#include "queue/json.h"
#include "redlock/redlock_loop.h"
#include "worker/config/config.h"
#include "worker/task/backtrace.h"
#include "worker/task/run_table.h"
#include "worker/task/failure_outcome.h"

/* --- what a run leaves behind ------------------------------------------------------------------------------------- */

/* What a run leaves behind, beside the code that its handler returned: why it failed, when it shall come again, its
 * result, and the tasks that follow from it. Written by the thread that runs the handler, read by the slot afterwards;
 * the hand-off between them is the only synchronisation.
 *
 * Zeroed memory is no outcome yet: job_outcome_clear makes it one, and empties it between runs. */

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

/* --- what a run can ask ------------------------------------------------------------------------------------------- */

/* A number as text. */
enum { JOB_FENCE_SIZE = 21 };

struct job_text; /* texts lent to the handler until its run ends */

/* How the run reaches its host. All are called on the handler's thread. */
struct job_link {
    /* Whether a majority of the lock nodes says now that the lock is held; blocks for `limit_ns` at most. */
    bool (*verify)(struct hf_job *job, int64_t limit_ns);
    int (*descriptor)(struct hf_job *job); /* of hf_lock_api; -1 = none */
    bool (*hears)(struct hf_job *job, enum hf_log_level level);
    void (*log)(struct hf_job *job, enum hf_log_level level, const char *text);
    void (*event)(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count);
    bool (*progress)(struct hf_job *job, const char *json); /* false when the text is no JSON, or too long */
};

struct hf_job {
    /* facts */
    const char *class_name, *queue, *jid;
    struct text_span args; /* the JSON array */
    unsigned attempt;
    const char *const *resources; /* what is locked, sorted */
    unsigned resource_count;
    char fence[JOB_FENCE_SIZE]; /* the token; "" = none */
    const char *checkpoint;     /* what an earlier run saved; NULL = nothing */
    bool reports_progress, keeps_result, may_push;
    struct envelope_limits task_limits; /* of what it pushes; zeroed = the defaults */
    unsigned backtrace_lines;           /* to keep, when the handler tells why it fails */
    /* what reaches it while it runs */
    struct redlock_validity *validity; /* of the lock; NULL = it runs without */
    struct run_entry *run_entry;
    const struct run_table *run_table;
    const struct job_link *link;
    /* what it leaves behind */
    struct job_outcome outcome;
    struct job_text *texts;
};

/* True while the lock is certain, or none is needed. Any thread. */
bool job_lock_is_valid(const struct hf_job *job);
/* Why the lock is lost: HF_LOCK_LOST or HF_HELD_TOO_LONG; HF_NOT_CANCELLED while it is not. Any thread. */
enum hf_cancel_reason job_lock_loss(const struct hf_job *job);
/* The loop was told that it is lost; the first reason stays. */
void job_lock_lost(struct hf_job *job, enum hf_cancel_reason reason);
/* True once the handler has been asked to stop. Any thread. */
bool job_was_cancelled(const struct hf_job *job);
/* True once somebody has cancelled the task. Any thread. */
bool job_is_unwanted(const struct hf_job *job);
/* Asks the run to stop; the first reason stays. Loop thread. */
void job_cancel(struct hf_job *job, enum hf_cancel_reason reason);
/* Frees what was lent. */
void job_finish(struct hf_job *job);

/* One host a plugin, so that it sees its own settings only. They live until job_hosts_destroy. */
struct job_hosts;
struct job_hosts *job_hosts_create(const struct config *config);
void job_hosts_destroy(struct job_hosts *hosts);
const struct hf_host *job_hosts_for(void *hosts, const char *plugin_name);

/* --- how far a run has come --------------------------------------------------------------------------------------- */

/* What a running handler has reached, on its way from the runner to the loop: the latest text, under a lock that is
 * held for one copy. The loop takes it every few seconds; texts in between are overwritten. */

struct job_progress {
    pthread_mutex_t mutex;
    char text[ITERATION_BYTES_MAX];
    size_t length;
    bool is_new;
    char *loaded; /* what an earlier run left; NULL = nothing. Set while no handler runs */
};

void job_progress_init(struct job_progress *progress);
void job_progress_fini(struct job_progress *progress);
/* Loop thread, before a run: forgets the run before. `cursor` may be NULL. */
void job_progress_start(struct job_progress *progress, const char *cursor, size_t length);
/* Runner. False when the text is no JSON or too long: nothing is changed. */
bool job_progress_put(struct job_progress *progress, const char *json);
/* Loop thread. Copies what is new since the last time; false when nothing is. */
bool job_progress_take(struct job_progress *progress, char text[ITERATION_BYTES_MAX], size_t *length);

#endif
