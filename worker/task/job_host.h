/* The host functions for handlers: the function tables of jobs/job.h.
 *
 * A struct hf_job is one run: its facts, the signals that reach it, and its outcome. It is the same for every way to
 * run a handler; its link connects it to the host:
 *
 *     thread of a worker      slot_run.c               directly, over the loop's mailbox
 *     runner process          isolation/runner_*.c     over the process's socket
 *     holdfast run-handler    commands/...             to the terminal
 *
 * In a worker the loop prepares it, a runner lends it to the handler, and after the run the loop reads the outcome;
 * these two hand-offs are the only synchronisation. During the run only words of the run table are shared: the
 * lock's validity, the end of the process's lease, and the requests to stop the process and the task. The handler's
 * side compares them with the clock. So a stuck loop cannot keep a lock falsely alive (E34), and a process that was
 * stopped or cut off for longer than its lease neither begins a task that another worker may have by now, nor
 * continues one without a lock. */
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
#include "worker/plugin/plugin.h"
#include "worker/task/backtrace.h"
#include "worker/task/failure_outcome.h"
#include "worker/task/run_table.h"

/* --- what a run leaves behind ------------------------------------------------------------------------------------- */

/* The outcome of a run, beside the code that its handler returned: why it failed, when to retry it, its result, and its
 * follow-up tasks. The thread that runs the handler writes it, and the slot reads it afterwards; the hand-off between
 * them is the only synchronisation.
 *
 * job_outcome_clear initialises zeroed memory, and empties the outcome between runs. */

enum { JOB_RESULT_BYTES_MAX = 1 << 20, JOB_FOLLOW_UPS_MAX = 1000, JOB_FOLLOW_UP_BYTES_MAX = 1 << 20 };
/* A year. */
#define JOB_RETRY_IN_MS_MAX (INT64_C(366) * 24 * 3600 * 1000)

struct job_outcome {
    struct failure failure;
    struct backtrace backtrace;
    int64_t retry_in_ms; /* -1 = the usual delay */
    bool has_result;
    struct buffer result; /* JSON */
    struct error refusal; /* why its last result was refused, so that the run fails */
    char **follow_ups;    /* tasks as JSON objects, as the handler gave them */
    size_t follow_up_count, follow_up_bytes;
};

void job_outcome_clear(struct job_outcome *outcome);
void job_outcome_fini(struct job_outcome *outcome);

/* Mends the text (json_mend). False, with a refusal, if it is not JSON or too long. */
bool job_outcome_set_result(struct job_outcome *outcome, const char *json, size_t length);
/* The code of a run whose handler returned `code`: HF_FAIL if it went well but for its result, which nobody would miss
 * otherwise. */
int job_outcome_code(struct job_outcome *outcome, int code);
/* False if there are too many, they are too long together, or the text is no JSON object. */
bool job_outcome_add_follow_up(struct job_outcome *outcome, const char *task, size_t length, struct error *error);
bool job_outcome_set_retry_in(struct job_outcome *outcome, int64_t milliseconds);

/* --- what a run can ask ------------------------------------------------------------------------------------------- */

/* A number as text. */
enum { JOB_FENCE_SIZE = 21 };

struct job_text; /* texts lent to the handler until its run ends */

/* The most fields of an event, but for the one that counts what was left out. */
enum { JOB_FIELDS_MAX = 16 };
#define JOB_FIELDS_DROPPED "fields_dropped"

/* Connects the run to its host. All functions are called on the handler's thread. */
struct job_link {
    /* Asks the lock nodes: true if a majority confirms that the lock is held. Blocks for at most `limit_ns`. */
    bool (*verify)(struct hf_job *job, int64_t limit_ns);
    int (*descriptor)(struct hf_job *job); /* of hf_lock_api; -1 = none */
    bool (*hears)(struct hf_job *job, enum hf_log_level level);
    void (*log)(struct hf_job *job, enum hf_log_level level, const char *text);
    void (*event)(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields, size_t count);
    bool (*progress)(struct hf_job *job, const char *json); /* false if the text is not JSON or too long */
};

struct hf_job {
    /* facts */
    const char *class_name, *queue, *jid;
    struct text_span args; /* the JSON array */
    unsigned attempt;
    const char *const *resources; /* the locked resources, sorted */
    unsigned resource_count;
    char fence[JOB_FENCE_SIZE];                 /* the token; "" = none */
    char traceparent[ENVELOPE_TRACE_BYTES + 1]; /* "" = none */
    unsigned seat;                              /* of its resource; 0 = that has only one */
    const char *checkpoint;                     /* what an earlier run saved; NULL = nothing */
    bool reports_progress, keeps_result, may_push;
    struct envelope_limits task_limits; /* of the tasks that it pushes; zeroed = the defaults */
    unsigned backtrace_lines;           /* to keep if the handler reports a failure */
    /* signals to the run */
    struct redlock_validity *validity; /* of the lock; NULL = no lock */
    struct run_entry *run_entry;
    const struct run_table *run_table;
    const struct job_link *link;
    /* what it leaves behind */
    struct job_outcome outcome;
    struct job_text *texts;
};

/* True while the lock is certain or not needed. Any thread. */
bool job_lock_is_valid(const struct hf_job *job);
/* The first act of whoever runs it: the lock is valid, and the task is certainly still the process's. Any thread. */
bool job_may_begin(const struct hf_job *job);
/* Why the lock is lost: HF_LOCK_LOST or HF_HELD_TOO_LONG; HF_NOT_CANCELLED while it is held. Any thread. */
enum hf_cancel_reason job_lock_loss(const struct hf_job *job);
/* The loop reports the loss of the lock; the first reason stays. */
void job_lock_lost(struct hf_job *job, enum hf_cancel_reason reason);
/* True once the handler has been asked to stop. Any thread. */
bool job_was_cancelled(const struct hf_job *job);
/* True once the task was cancelled. Any thread. */
bool job_is_unwanted(const struct hf_job *job);
/* Asks the run to stop; the first reason stays. Loop thread. */
void job_cancel(struct hf_job *job, enum hf_cancel_reason reason);
/* Runs the handler, unless it refuses the arguments. Returns its code. */
int job_run(struct hf_job *job, const struct plugin_handler *handler);
/* Frees the texts lent to the handler. */
void job_finish(struct hf_job *job);

/* One host for each plugin, so that it sees only its own settings. They live until job_hosts_destroy. */
struct job_hosts;
struct job_hosts *job_hosts_create(const struct config *config);
void job_hosts_destroy(struct job_hosts *hosts);
const struct hf_host *job_hosts_for(void *hosts, const char *plugin_name);

/* --- how far a run has come --------------------------------------------------------------------------------------- */

/* Passes the progress of a run from the runner to the loop: the latest text, under a lock that is held for one copy.
 * The loop takes it every few seconds and misses older texts. */

struct job_progress {
    pthread_mutex_t mutex;
    char text[ITERATION_BYTES_MAX];
    size_t length;
    bool is_new;
    char *loaded; /* from an earlier run; NULL = none. Set while no handler runs */
};

void job_progress_init(struct job_progress *progress);
void job_progress_fini(struct job_progress *progress);
/* Loop thread, before a run: drops the previous run's progress. `cursor` may be NULL. */
void job_progress_start(struct job_progress *progress, const char *cursor, size_t length);
/* Runner. False, without a change, if the text is not JSON or too long. */
bool job_progress_put(struct job_progress *progress, const char *json);
/* Loop thread. Copies progress that is new since the last call; false if there is none. */
bool job_progress_take(struct job_progress *progress, char text[ITERATION_BYTES_MAX], size_t *length);

#endif
