/* What a running handler can ask of its host: the function tables of jobs/job.h.
 *
 * A struct hf_job is one run. The loop prepares it, a runner lends it to the handler, and after the run the loop reads
 * what the handler left in it; the two hand-offs between the threads are the only synchronisation it needs. While it
 * runs only a few words are shared: the lock's validity, the pulse of the process, and the orders to stop, of process
 * and of task; the first two are compared with the clock, so a stuck loop cannot keep a lock falsely alive (E34), and
 * a process that was stopped for longer than its lease does not go on with a task that others may have by now. */
#ifndef WORKER_JOB_HOST_H
#define WORKER_JOB_HOST_H

#include <stdatomic.h>

#include "base/clock.h"
#include "jobs/job.h"
#include "queue/envelope.h"
#include "redlock/redlock_loop.h"
#include "worker/plugin/backtrace.h"
#include "worker/config/config.h"
#include "worker/failure.h"

/* A number as text. */
enum { JOB_FENCE_SIZE = 21 };

struct job_progress;
struct job_verifier;
struct job_text; /* texts lent to the handler until its run ends */

struct hf_job {
    const struct envelope *envelope;
    const char *queue;
    const char *jid;
    const char *const *resources; /* what is locked, sorted */
    unsigned resource_count;
    struct redlock_validity *validity; /* of the lock; NULL = it runs without */
    int64_t hold_until;                /* when the longest time to hold the lock is over (ns); 0 = never */
    char fence[JOB_FENCE_SIZE];        /* its token; "" = none */
    struct job_verifier *verifier;     /* who asks the lock nodes; NULL without lock */
    atomic_int lost;                   /* enum hf_cancel_reason: what the loop was told about the lock's loss */
    const atomic_bool *must_stop;      /* the process gives its handlers no more time */
    const _Atomic int64_t *pulse;      /* until then (ns) the process has not been away for as long as its lease */
    atomic_int asked;                  /* enum hf_cancel_reason: this run is asked to stop */
    struct job_progress *progress;     /* NULL = its handler reports none */
    struct failure failure;
    unsigned backtrace_lines;   /* to keep, when the handler tells why it fails */
    struct backtrace backtrace; /* the slot's to clear */
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

#endif
