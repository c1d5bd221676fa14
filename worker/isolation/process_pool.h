/* The runner processes of a worker, and the runs that are given to them: isolation `process`, as isolation.h offers it.
 *
 *     struct process_pool *pool = process_pool_create(&options);
 *     process_pool_start(pool, &run);      ... run.began(), run.ended()
 *
 * A process is made when a run needs one, is kept for the next run of the same plugin, and ends when it was idle for a
 * minute, has run as many tasks or grown as large as its class allows, or another plugin needs its place: there are at
 * most as many as the worker has threads, not counting those that are just ending. Of the idle ones the one that ran
 * last is taken: its caches are warm, and the others grow old enough to end.
 *
 * A process that does not open its plugin is tried again after 1, 2, 4 ... 30 s. Meanwhile runs that have no other
 * process end as HF_SNOOZE: it is the worker's trouble and not theirs.
 *
 * Threads: the loop's.
 *
 * process_pool.c decides who gets which run, pooled_process.c is one process.
 *
 * A process is in one state, and process_enter is the only mover:
 *
 *     STARTING -> IDLE <-> BUSY           READY came; RUN was sent; END came
 *     IDLE, STARTING -> LEAVING           BYE was sent
 *     any -> CONDEMNED                    it was killed, or its socket has ended: only its end is awaited
 *     any -> gone                         its end was told: the launcher has reaped it
 *
 * A run ends by END, or when its process is gone; never before. */
#ifndef WORKER_PROCESS_POOL_H
#define WORKER_PROCESS_POOL_H

#include "worker/isolation/isolation.h"
#include "worker/isolation/runner_message.h"
#include "worker/isolation/output.h"

enum { PROCESS_POOL_SCRATCH_BYTES = 1 << 16 };

/* What processes are alike in: any of a kind can run what waits there. */
struct process_kind {
    struct process_pool *pool;
    struct list link;
    const struct plugin *plugin;
    int64_t memory_limit, open_files_limit;
    struct list idle;    /* processes, the one that ran last first */
    struct list waiting; /* runs, in the order in which they came */
    unsigned processes;  /* not counting those that are leaving or condemned */
    unsigned starting;   /* of these */
    unsigned strikes;    /* processes that did not open the plugin, one after the other */
    struct instant not_before;
    struct loop_timer retry; /* then: nothing else may happen that lets those who wait be looked at */
    struct instant told;     /* of it in the log; 0 = not yet */
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
    struct loop_watch *watch; /* NULL once the socket has ended, or is not to be listened to */
    struct output *output;    /* what it writes to its standard output and error */
    struct output_budget budget;
    struct buffer in, out; /* what is not a whole frame yet; what the socket did not take yet */
    bool waits_to_write;
    struct isolated_run *run; /* NULL = none */
    uint64_t run_number;
    bool is_asked; /* `verify` is out, for question number `question` */
    int64_t question;
    struct redlock_verify verify;
    struct loop_timer patience; /* with its opening, or its leaving */
    unsigned runs;              /* so far */
    int64_t memory;             /* bytes, when it was looked at last */
    struct instant idle_since;
    bool was_opened, has_struck;       /* its plugin; the kind was told that it was not */
    bool was_dismissed;                /* BYE was sent */
    char complaint[RUNNER_REASON_MAX]; /* why it was killed; "" = it was not, here */
};

struct process_pool_times {
    int64_t idle_ns;                   /* a process that was idle for so long ends */
    int64_t open_ns, leave_ns;         /* for opening the plugin, and for closing it */
    int64_t back_off_ns, back_off_max; /* after a process that did not open its plugin; doubled each time */
};

struct process_pool {
    struct isolation_options options;
    struct process_pool_times times;
    struct list kinds, processes;
    struct loop_hook serve;
    struct loop_timer idle_look;
    unsigned active, leaving; /* processes: the former have a place, the latter are to end */
    unsigned generation;
    char scratch[PROCESS_POOL_SCRATCH_BYTES]; /* what is read from any process, while it is looked at */
};

struct process_pool *process_pool_create(const struct isolation_options *options);
/* Kills what runs; no `ended` follows. */
void process_pool_destroy(struct process_pool *pool);

void process_pool_start(struct process_pool *pool, struct isolated_run *run);
bool process_pool_withdraw(struct process_pool *pool, struct isolated_run *run);
/* Processes end that are older than this call, when they are idle: what is loaded or set may be another. */
void process_pool_renew(struct process_pool *pool);

/* Processes that are there or being made. */
unsigned process_pool_count(const struct process_pool *pool);

/* --- between its files -------------------------------------------------------------------------------------------- */

/* A process has become idle, or has gone, or a run waits: runs and processes are brought together at the end of the
 * turn. */
void process_pool_look(struct process_pool *pool);
/* A process of the kind could not be made, or did not open its plugin. */
void kind_struck(struct process_kind *kind, const char *reason);

/* False when there are no descriptors left. */
bool process_create(struct process_kind *kind, struct error *error) MUST_CHECK;
/* The idle process runs it. False when it is dead; the run has not begun then. */
bool process_give(struct pooled_process *process, struct isolated_run *run);
void process_retire(struct pooled_process *process);
/* The questions of its run end unanswered. */
void process_unask(struct pooled_process *process);
/* Everything of it in this process; its end need not have come. */
void process_free(struct pooled_process *process);

/* What becomes of a run whose process has gone: its code, and the failure in the outcome of its job. `complaint` is why
 * the worker killed the process, "" = it did not. */
int process_pool_verdict(struct isolated_run *run, uint64_t run_number, const struct run_table *run_table,
                         const struct child_exit *end, const char *complaint);

#endif
