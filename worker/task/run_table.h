/* The run table: memory that a worker, its zygote and its runner processes share. The worker writes the deadline of
 * each run. The zygote kills runs that exceed it, even while the worker is stopped or stuck. The runs read in it that
 * they must stop. After a crash it says what was running.
 *
 *     struct run_table *run_table = run_table_create(run entries);      before the zygote is forked
 *     struct run_entry *run_entry = run_table_entry(table, slot->number);
 *     run_entry_open(run_entry, jid, class_name);     the loop, before a run is handed over
 *     ...
 *     run_entry_close(run_entry);                     the loop, when the run has ended and no process works for it;
 *                                                     before the lock is released, which ends its validity
 *
 * A run entry belongs to one slot of the worker for the slot's life. Every word has one writer:
 *
 *     lease_end, validity, is_claimed, lost, asked, kill_at, occupant, run, the name     the loop
 *     wakes_at                                                    the zygote
 *     crashed                                                     the signal handler of the thread that crashes, and
 *                                                                 that thread, when it has survived it
 *
 * The rule of the zygote, run_table_look, is pure: (table, now) -> which child to kill now, and when to look again. The
 * loop rings the zygote only if a deadline becomes earlier (run_table_must_ring). Extending a deadline costs nothing,
 * so the zygote wakes up about twice a ttl, however many tasks run.
 *
 * If the worker dies, the zygote still has the run table; if the zygote dies, its children die with it. */
#ifndef WORKER_RUN_TABLE_H
#define WORKER_RUN_TABLE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/envelope.h"
#include "redlock/redlock_loop.h"

enum { RUN_TABLE_CLASS_MAX = 128, RUN_TABLE_IDENTITY_MAX = 256, RUN_TABLE_PLUGIN_MAX = 256 };

/* In place of a run entry: the open() of the plugin `opening`. */
#define RUN_TABLE_OPENING (UINT_MAX - 1)

/* Times are nanoseconds of CLOCK_BOOTTIME. */
struct run_entry {
    struct redlock_validity validity; /* of the run's lock (redlock_lock_publish_to); ignored unless `is_locked` */
    _Atomic int64_t hold_until;       /* when the maximum hold of the lock ends; 0 = never */
    atomic_bool is_locked;
    atomic_bool is_claimed;    /* its task is; false when that ended before it ran, or runs without a queue */
    atomic_int lost;           /* enum hf_cancel_reason: why the lock was lost */
    atomic_int asked;          /* enum hf_cancel_reason: the run is asked to stop */
    _Atomic int64_t kill_at;   /* the run is killed then; INT64_MAX = only at its lock's end */
    _Atomic uint64_t occupant; /* number of the child that runs it; 0 = none, or a thread of the worker */
    _Atomic uint64_t run;      /* grows with each run, and so identifies it */
    atomic_bool is_running;    /* a handler is running it */
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    char class_name[RUN_TABLE_CLASS_MAX]; /* cut when longer */
};

struct run_table {
    atomic_bool must_stop;                 /* the handlers of this process must stop now */
    _Atomic int64_t lease_end;             /* until then what the process has claimed is its own (queue/queue.h) */
    _Atomic int64_t wakes_at;              /* when the zygote looks next by itself */
    atomic_bool is_up;                     /* the process serves its queues, or did */
    _Atomic uint64_t heartbeats;           /* grows while the loop of the process turns; 0 = it does not yet, or ends */
    atomic_bool has_asked;                 /* for tasks, and got an answer: its lock nodes and its queue node work */
    atomic_bool has_ended;                 /* it ended in order: no plugin caused its exit */
    atomic_bool exit_was_called;           /* exit() or quick_exit(), by a plugin */
    _Atomic int crash_signal;              /* 0 = the process did not crash */
    _Atomic unsigned crashed;              /* 1 + the run entry whose thread crashed or called exit(); 0 = none */
    char opening[RUN_TABLE_PLUGIN_MAX];    /* the plugin whose open() is called; cut when longer */
    char identity[RUN_TABLE_IDENTITY_MAX]; /* of the process at the queue node; written before its first run */
    unsigned run_entry_count;
    struct run_entry run_entries[];
};

/* NULL without memory. Forked processes inherit the mapping. */
struct run_table *run_table_create(unsigned run_entries);
void run_table_destroy(struct run_table *run_table);
/* Makes the table read-only in this process: a stray write of a handler crashes only that process. */
bool run_table_protect(const struct run_table *run_table);
struct run_entry *run_table_entry(struct run_table *run_table, unsigned number);
/* After the end of a process: the run entry whose thread crashed; NULL = none or unknown. */
const struct run_entry *run_table_suspect(const struct run_table *run_table);
/* The same: the plugin whose open() crashed or called exit(); NULL = none or unknown. */
const char *run_table_suspect_plugin(const struct run_table *run_table);
void run_table_opening_set(struct run_table *run_table, const char *plugin);

/* What the process has claimed is its own at `now`. */
bool run_table_is_leased(const struct run_table *run_table, struct instant now);

/* Call it before anything is written about a new task. */
void run_entry_clear(struct run_entry *run_entry);
/* Call it before a run is handed over. Keeps earlier requests to stop it. Cuts `class_name` if it is too long. */
void run_entry_open(struct run_entry *run_entry, const char *jid, const char *class_name);
void run_entry_close(struct run_entry *run_entry);
/* The earliest time wins. True if the zygote must be rung (launcher_ring). */
bool run_entry_kill_by(struct run_table *run_table, struct run_entry *run_entry, struct instant at);
/* Call it after setting `occupant` or `is_locked`. True if the zygote must be rung. */
bool run_table_must_ring(struct run_table *run_table, const struct run_entry *run_entry);

/* The end of the run's right to go on: the lock's end, or kill_at; INT64_MAX = none. */
int64_t run_entry_ends_at(const struct run_entry *run_entry);

struct run_table_verdict {
    uint64_t child; /* 0 = nothing to kill; call again until it is 0 */
    unsigned run_entry;
    uint64_t run;
    struct instant next; /* when to look again, with child = 0 */
};
/* The first run entry from `from` on whose occupant must be killed at `now`. */
struct run_table_verdict run_table_look(const struct run_table *run_table, unsigned from, struct instant now);

#endif
