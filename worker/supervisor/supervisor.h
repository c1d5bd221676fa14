/* `holdfast work --processes N`: a process that does no work itself, and keeps N workers running that it forks.
 *
 * It has one thread and maps no plugin, so that nothing of a handler can bring it down, and so that it may fork at any
 * time. Each worker is whole: its own run table, zygote, connections and identity; they know nothing of each other. The
 * run table is made here, so that it can still be read when its worker is dead: it shows the cause. supervision.h
 * decides when a worker is started again, and when all is over.
 *
 * Signals SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP and SIGTTIN are forwarded to all workers, which have a
 * process group each, so that those of a terminal come here only. After SIGTERM, SIGINT, SIGUSR2 and SIGTSTP nothing is
 * started again, because a new worker would miss the signal. When the supervisor dies the workers get SIGTERM. Only the
 * supervisor notifies the service manager: ready when all workers are up for the first time, and reloaded when the
 * workers have been signalled (the log of each worker has the result).
 *
 * A worker whose loop has not turned for 20 s is killed and started again. The supervisor's own loop feeds systemd's
 * watchdog, if that is set.
 *
 * Its log has no thread either: the file is opened for each line, and needs no signal when it was moved away. */
#ifndef WORKER_SUPERVISOR_H
#define WORKER_SUPERVISOR_H

#include "base/log.h"
#include "worker/supervisor/supervision.h"
#include "worker/task/run_table.h"

/* How the process that was there before came to its end. */
struct former_process {
    char how[64];                         /* "signal=SIGSEGV", "status=3"; empty = there was none, or it ended well */
    char jid[ENVELOPE_JID_BYTES_MAX + 1]; /* of the task whose handler brought it about; empty = not known */
    char class_name[RUN_TABLE_CLASS_MAX];
};

/* What a worker process is started with. */
struct supervised_process {
    unsigned number; /* from 1 on */
    struct run_table *run_table;
    const struct former_process *former;
};

/* What is taken from the configuration. */
struct supervisor_terms {
    struct log_options log;
    unsigned run_entries; /* of each run table */
};

struct supervisor_options {
    unsigned processes; /* 1 to SUPERVISION_MAX */
    struct supervisor_terms terms;
    /* Before a process is started again, and at a reload: the terms of today; those of before when they cannot be
     * had. What log.path points to stays until the next call. */
    void (*renew)(void *context, struct supervisor_terms *terms);
    /* In the new process; its exit code. The signals above are blocked, so that none of them comes too early. */
    int (*run)(void *context, const struct supervised_process *process);
    void *context;
};

/* Returns when all processes are over: the worst of their exit codes (1 for a signal). Only while the process has one
 * thread. */
int supervisor_run(const struct supervisor_options *options);

/* In the new process, when its log has been started: what there is to say of the one before. */
void supervised_process_tell(const struct supervised_process *process);

#endif
