/* The run table: memory that a worker, its zygote and its runner processes share. The worker writes on it until when
 * each run may go on; the zygote reads it and kills what runs for longer, also when the worker is stopped or
 * stuck; the runs read it to learn that they shall stop. After a crash it tells what was running.
 *
 *     struct run_table *run_table = run_table_create(run entries);      before the zygote is forked
 *     struct run_entry *run_entry = run_table_entry(table, slot->number);
 *     run_entry_open(run_entry, jid, class_name);     the loop, before a run is handed over
 *     ...
 *     run_entry_close(run_entry);                     the loop, when it has ended and nobody runs for it any more;
 *                                                     before the lock is released, which ends its validity
 *
 * A run entry belongs to one slot of the worker for as long as that lives. Every word has one writer:
 *
 *     validity, lost, asked, kill_at, occupant, run, the name     the loop
 *     wakes_at                                                    the zygote
 *     crashed                                                     the signal handler of the thread that crashes, and
 *                                                                 that thread, when it has survived it
 *
 * The rule of the zygote, run_table_look, is pure: (table, now) -> whom to kill now, and when to look again. The loop
 * rings the zygote only when it brings something forward (run_table_must_ring): a deadline that is moved back costs
 * nothing, so the zygote wakes up about twice a ttl however many tasks run.
 *
 * If the worker dies, the zygote still has the run table; if the zygote dies, its children die with it. */
#ifndef WORKER_RUN_TABLE_H
#define WORKER_RUN_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/envelope.h"
#include "redlock/redlock_loop.h"

enum { RUN_TABLE_CLASS_MAX = 128, RUN_TABLE_IDENTITY_MAX = 256 };

/* Times are nanoseconds of CLOCK_BOOTTIME. */
struct run_entry {
    struct redlock_validity
        validity;               /* of the run's lock (redlock_lock_publish_to); not looked at unless `is_locked` */
    _Atomic int64_t hold_until; /* when the longest time to hold the lock is over; 0 = never */
    atomic_bool is_locked;
    atomic_int lost;           /* enum hf_cancel_reason: what the loop was told about the lock's loss */
    atomic_int asked;          /* enum hf_cancel_reason: the run is asked to stop */
    _Atomic int64_t kill_at;   /* then what runs here is killed; INT64_MAX = for no reason but its lock's end */
    _Atomic uint64_t occupant; /* number of the child that runs here, 0 = none, or a thread of the worker */
    _Atomic uint64_t run;      /* grows with each run, so that one can be told from the next */
    atomic_bool is_running;    /* a handler is at work for it, wherever */
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    char class_name[RUN_TABLE_CLASS_MAX]; /* cut when longer */
};

struct run_table {
    atomic_bool must_stop;       /* the process gives its handlers no more time */
    _Atomic int64_t pulse;       /* until then the process has not stood still for as long as its lease */
    _Atomic int64_t wakes_at;    /* when the zygote will look by itself */
    atomic_bool is_up;           /* the process serves its queues, or did */
    atomic_bool has_asked;       /* for tasks, and was answered: its lock nodes could be used, and its queue node */
    atomic_bool has_ended;       /* it has come to its end by itself: its exit was nobody else's */
    atomic_bool exit_was_called; /* exit() or quick_exit(), by a plugin */
    _Atomic int crash_signal;    /* 0 = the process did not crash */
    _Atomic unsigned crashed;    /* the run entry whose thread crashed, or called exit(), plus 1; 0 = none of them */
    char identity[RUN_TABLE_IDENTITY_MAX]; /* of the process at the queue node; written before its first run */
    unsigned run_entry_count;
    struct run_entry run_entries[];
};

/* NULL when there is no memory. The mapping is inherited by fork. */
struct run_table *run_table_create(unsigned run_entries);
void run_table_destroy(struct run_table *run_table);
/* This process only reads from now on: a handler that writes where it should not dies of it, and nobody else does. */
bool run_table_protect(const struct run_table *run_table);
struct run_entry *run_table_entry(struct run_table *run_table, unsigned number);
/* Of a process that has ended: whose thread crashed; NULL = none, or not known. */
const struct run_entry *run_table_suspect(const struct run_table *run_table);

/* Before anything is written about a new task. */
void run_entry_clear(struct run_entry *run_entry);
/* Before a run is handed over; leaves alone what has been asked of it by then. `class_name` may be longer than there is
 * room for. */
void run_entry_open(struct run_entry *run_entry, const char *jid, const char *class_name);
void run_entry_close(struct run_entry *run_entry);
/* Earliest wins. True when the zygote has to be rung (launcher_ring). */
bool run_entry_kill_by(struct run_table *run_table, struct run_entry *run_entry, struct instant at);
/* After `occupant` was set, or is_locked: the same question. */
bool run_table_must_ring(struct run_table *run_table, const struct run_entry *run_entry);

/* The end of the run's right to go on: the lock's end, or kill_at; INT64_MAX = none. */
int64_t run_entry_ends_at(const struct run_entry *run_entry);

struct run_table_verdict {
    uint64_t child; /* 0 = nobody is to be killed (any more: ask again until it is) */
    unsigned run_entry;
    uint64_t run;
    struct instant next; /* when to look again, with child = 0 */
};
/* The first run entry from `from` on whose occupant has to be killed at `now`. */
struct run_table_verdict run_table_look(const struct run_table *run_table, unsigned from, struct instant now);

#endif
