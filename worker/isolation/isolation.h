/* Runs outside of the worker: one interface for the two kinds, `process` (process_pool.h) and `exec` (program.h), as
 * slots see them.
 *
 *     isolation_start(isolation, &run);              ... run.ended(&run, code)
 *     isolation_withdraw(isolation, &run)            true: it has not begun and will not; `ended` is not called
 *     isolation_interrupt(isolation, &run)           the job's cancel reason was set: whoever cannot see that is told
 *
 * The slot sets job, run entry, handler and rules before, and leaves them alone until `ended`. The facts are read from
 * the job, and what the run leaves behind (failure, backtrace, result, follow-ups, delay) is written into its
 * outcome before `ended` is called, which happens exactly once, on the loop, and never from inside isolation_start.
 * By then nobody runs for the task any more: a run that was killed, or whose process crashed, has been reaped.
 *
 * `code` is an enum hf_code, or ISOLATION_NOT_STARTED: the lock was gone before the handler's first act, or there
 * was no process for it because of the worker itself (the slot treats it like a lock that was gone).
 *
 * What a run says meanwhile (log, event, progress) goes through the job's link, which may be called on the loop for
 * that; its verify and descriptor may not: they are answered from `lock`. (A job with a validity and no such lock has a
 * pretended one, of which its link can tell without waiting: worker/commands/handler_run.h.)
 *
 * Threads: the loop's. */
#ifndef WORKER_ISOLATION_H
#define WORKER_ISOLATION_H

#include <limits.h>

#include "worker/task/run_table.h"
#include "worker/isolation/launcher.h"
#include "worker/task/job_host.h"
#include "worker/plugin/plugin.h"
#include "worker/task/task_rules.h"

/* No handler can return it: theirs are above (runner_message.h). */
enum { ISOLATION_NOT_STARTED = INT_MIN };

struct isolated_run {
    struct hf_job *job;
    struct run_entry *run_entry;
    const struct plugin_handler *handler;
    const struct task_rules *rules;
    struct redlock_lock *lock;               /* NULL = it runs without; stays until `ended` */
    void (*began)(struct isolated_run *run); /* the handler is at work now */
    void (*ended)(struct isolated_run *run, int code);
    struct list link; /* private, as what follows */
    void *place;
};

struct isolation;

struct isolation_options {
    struct loop *loop;
    struct launcher *launcher;
    struct run_table *run_table;
    const struct config *config; /* its settings may change, its place does not */
};

struct isolation *isolation_create(const struct isolation_options *options);
/* Kills what runs. */
void isolation_destroy(struct isolation *isolation);

void isolation_start(struct isolation *isolation, struct isolated_run *run);
bool isolation_withdraw(struct isolation *isolation, struct isolated_run *run);
void isolation_interrupt(struct isolation *isolation, struct isolated_run *run);
/* The plugins were loaded anew: processes with the former ones end when they are idle. */
void isolation_renew(struct isolation *isolation);

#endif
