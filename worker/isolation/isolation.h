/* Runs outside of the worker: one interface for slots to both kinds, `process` (process_pool.h) and `exec` (program.h).
 *
 *     isolation_start(isolation, &run);              ... run.ended(&run, code)
 *     isolation_withdraw(isolation, &run)            true: it will never begin, and `ended` is not called
 *     isolation_interrupt(isolation, &run)           the job's cancel reason was set: signals the run if necessary
 *
 * The slot sets job, run entry, handler and rules first, and does not change them before `ended`. The job supplies the
 * facts, and receives the outcome (failure, backtrace, result, follow-ups, delay) before `ended` is called. `ended`
 * runs exactly once, on the loop, and never inside isolation_start. By then no process works for the task: a run that
 * was killed or crashed has been reaped.
 *
 * `code` is an enum hf_code, or ISOLATION_NOT_STARTED: the lock was lost, or the lease over, before the handler began;
 * or the worker itself failed to provide a process (the slot treats that as a lost lock).
 *
 * Logs, events and progress of the run go through the job's link, whose functions for these may be called on the loop.
 * Its verify and descriptor may not: `lock` answers those. (A job with a validity but without `lock` has a simulated
 * lock, for which its link answers at once: worker/commands/handler_run.h.)
 *
 * Threads: the loop's. */
#ifndef WORKER_ISOLATION_H
#define WORKER_ISOLATION_H

#include <limits.h>

#include "worker/isolation/launcher.h"
#include "worker/plugin/plugin.h"
#include "worker/task/job_host.h"
#include "worker/task/run_table.h"
#include "worker/task/task_rules.h"

/* No handler can return it: their codes are greater (runner_message.h). */
enum { ISOLATION_NOT_STARTED = INT_MIN };

struct isolated_run {
    struct hf_job *job;
    struct run_entry *run_entry;
    const struct plugin_handler *handler;
    const struct task_rules *rules;
    struct redlock_lock *lock;               /* NULL = no lock; lives until `ended` */
    void (*began)(struct isolated_run *run); /* the handler has begun; of a program NULL = never mind */
    void (*ended)(struct isolated_run *run, int code);
    struct list link; /* private, as all below */
    void *at;         /* the kind for whose process it waits, the process that has it, or its program */
};

struct isolation;

struct isolation_options {
    struct loop *loop;
    struct launcher *launcher;
    struct run_table *run_table;
    const struct config *config; /* its settings may change, its address does not */
};

struct isolation *isolation_create(const struct isolation_options *options);
/* Kills all runs. */
void isolation_destroy(struct isolation *isolation);

void isolation_start(struct isolation *isolation, struct isolated_run *run);
bool isolation_withdraw(struct isolation *isolation, struct isolated_run *run);
void isolation_interrupt(struct isolation *isolation, struct isolated_run *run);
/* The plugins were reloaded: processes with the old ones end when they are idle. */
void isolation_renew(struct isolation *isolation);

#endif
