/* The runner processes of a worker: isolation `process`, behind isolation.h.
 *
 *     struct process_pool *pool = process_pool_create(&options);
 *     process_pool_start(pool, &run);      ... run.began(), run.ended()
 *
 * A process starts when a run needs one, and is kept for the next run of the same plugin. It ends when it was idle for
 * a minute, has run as many tasks or grown as large as its class allows, or another plugin needs the room. The worker
 * has at most as many processes as threads, not counting those that are ending. A run gets the idle process that ran
 * last: its caches are warm, and the others become old enough to end.
 *
 * If a process cannot open its plugin, the pool tries again after 1, 2, 4 ... 30 s. Meanwhile runs without another
 * process end as HF_SNOOZE with the reason (FAILURE_NOT_STARTED), because the fault is not theirs.
 *
 * Threads: the loop's.
 *
 * process_pool.c assigns runs to processes; pooled_process.c is one process.
 *
 * Only process_enter changes the state of a process:
 *
 *     STARTING -> IDLE <-> BUSY           READY came; RUN was sent; END came
 *     IDLE, STARTING -> LEAVING           BYE was sent
 *     any -> CONDEMNED                    it was killed, or its socket has ended; only its exit is awaited
 *     any -> gone                         the launcher has reaped it
 *
 * A run ends with END, or when its process is gone; never earlier. */
#ifndef WORKER_PROCESS_POOL_H
#define WORKER_PROCESS_POOL_H

#include "worker/isolation/isolation.h"
#include "worker/isolation/output.h"
#include "worker/isolation/runner_message.h"

enum { PROCESS_POOL_SCRATCH_BYTES = 1 << 16 };

/* A kind of processes: any of them can run what waits there. */
struct process_kind {
    struct process_pool *pool;
    struct list link;
    const struct plugin *plugin;
    int64_t memory_limit, open_files_limit;
    struct list idle;              /* processes, the one that ran last first */
    struct list waiting;           /* runs, in the order in which they came */
    unsigned processes;            /* not counting those that are leaving or condemned */
    unsigned starting;             /* of these */
    unsigned strikes;              /* consecutive processes that did not open the plugin */
    char fault[RUNNER_REASON_MAX]; /* of the last of these */
    struct instant not_before;
    struct loop_timer retry; /* looks again then, in case no other event causes a look */
    struct instant told;     /* when it was logged; 0 = not yet */
};

enum process_state { PROCESS_STARTING, PROCESS_IDLE, PROCESS_BUSY, PROCESS_LEAVING, PROCESS_CONDEMNED };

struct pooled_process {
    struct process_pool *pool;
    struct process_kind *kind;
    struct list link;      /* in pool->processes */
    struct list idle_link; /* in kind->idle while PROCESS_IDLE */
    enum process_state state;
    unsigned generation;
    struct child child;
    pid_t pid; /* 0 = not known yet */
    int socket;
    struct loop_watch *watch; /* NULL once the socket has ended or is ignored */
    struct output *output;    /* its standard output and error */
    struct output_budget budget;
    struct buffer in, out; /* an incomplete frame; bytes not sent yet */
    bool waits_to_write;
    struct isolated_run *run; /* NULL = none */
    uint64_t run_number;
    bool is_asked; /* `verify` is outstanding, for question number `question` */
    int64_t question;
    struct redlock_verify verify;
    struct loop_timer patience; /* for opening or closing the plugin */
    unsigned runs;              /* so far */
    int64_t memory;             /* bytes, when last measured */
    struct instant idle_since;
    bool was_opened, has_struck;       /* the plugin was opened; a failure to open it was reported */
    bool was_dismissed;                /* BYE was sent */
    char complaint[RUNNER_REASON_MAX]; /* why the worker killed it; "" = it did not */
};

struct process_pool_times {
    int64_t idle_ns;                   /* after which an idle process ends */
    int64_t open_ns, leave_ns;         /* for opening the plugin, and for closing it */
    int64_t back_off_ns, back_off_max; /* after a process that did not open its plugin; doubled each time */
};

struct process_pool {
    struct isolation_options options;
    struct process_pool_times times;
    struct list kinds, processes;
    struct loop_hook serve;
    struct loop_timer idle_look;
    unsigned active, leaving; /* processes that count against the limit, and those that are ending */
    unsigned generation;
    char scratch[PROCESS_POOL_SCRATCH_BYTES]; /* the read buffer of all processes */
};

struct process_pool *process_pool_create(const struct isolation_options *options);
/* Kills all runs; no `ended` follows. */
void process_pool_destroy(struct process_pool *pool);

void process_pool_start(struct process_pool *pool, struct isolated_run *run);
bool process_pool_withdraw(struct process_pool *pool, struct isolated_run *run);
/* Processes older than this call end once they are idle: plugins or settings may have changed. */
void process_pool_renew(struct process_pool *pool);

/* The number of processes, including those that are starting. */
unsigned process_pool_count(const struct process_pool *pool);

/* --- between its files -------------------------------------------------------------------------------------------- */

/* Assigns runs to processes at the end of the cycle: a process is idle or gone, or a run waits. */
void process_pool_look(struct process_pool *pool);
/* A process of the kind could not start, or did not open its plugin. */
void kind_struck(struct process_kind *kind, const char *reason);

/* False if there are no descriptors left. */
bool process_create(struct process_kind *kind, struct error *error) MUST_CHECK;
/* Gives the run to an idle process. False if the process is dead; then the run has not begun. */
bool process_give(struct pooled_process *process, struct isolated_run *run);
void process_retire(struct pooled_process *process);
/* Drops the questions of its run. */
void process_unask(struct pooled_process *process);
/* Frees all of it, even before it has exited. */
void process_free(struct pooled_process *process);

/* The verdict on a run whose process is gone: its code, and the failure in the outcome of its job. `complaint` is
 * why the worker killed the process; "" = it did not. */
int process_pool_verdict(struct isolated_run *run, uint64_t run_number, const struct run_table *run_table,
                         const struct child_exit *end, const char *complaint);

#endif
