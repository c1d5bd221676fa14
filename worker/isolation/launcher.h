/* The worker's end of the zygote: children are asked for here, and their ends are heard of here.
 *
 *     struct launcher *launcher = launcher_create(loop, &zygote, run table, lost, context);
 *     child_init(&child, spawned, exited);
 *     launcher_spawn(launcher, &child, &plan);   ... child.spawned() ... child.exited()
 *     launcher_kill(launcher, &child, SIGTERM);  to its process group
 *
 * The zygote is forked from the main thread before the process has any other, and is single-threaded for ever, so
 * what it forks is sound (fork in a process with threads is not). Each child leads a process group of its own, dies
 * when the zygote dies, cannot gain privileges, has all signals at their defaults and unblocked, and none of the
 * zygote's descriptors but those of its plan (0 to 2 are there in any case). Before `exited` is told, the child was
 * reaped, and the rest of its group and descendants that left it were killed and are gone too (ten seconds are waited
 * for what cannot die).
 *
 * The zygote kills by itself the occupant of a run entry whose time is over (run_table.h), and all groups when the
 * worker closes its end or dies (with a word in the log about what was running).
 *
 * Threads: the loop's, but for zygote_start, which belongs to a main thread that is alone. If the zygote dies,
 * `lost` is told once; all children die with it, and no `exited` follows: their locks are left to expire. */
#ifndef WORKER_LAUNCHER_H
#define WORKER_LAUNCHER_H

#include <signal.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "worker/task/run_table.h"

/* --- the zygote --------------------------------------------------------------------------------------------------- */

struct zygote {
    pid_t pid;
    int socket; /* of a SOCK_SEQPACKET pair; close-on-exec, non-blocking */
};

struct zygote_options {
    struct run_table *run_table;
    /* What a child of kind CHILD_RUNNER is: called in the child, returns its exit status. Descriptor 3 is its
     * socket. */
    int (*runner)(struct run_table *run_table, int socket);
    struct log_options log; /* for what it has to say when the worker has died */
    /* Called by the zygote as its last act when the worker has died of the handler at this run entry; may take a few
     * seconds. NULL = nothing is to be done. */
    void (*on_worker_death)(const void *context, const struct run_table *run_table, unsigned suspect);
    const void *context;
};

/* Forks it. Only while the process has one thread; not before descriptors 0 to 2 are open. Better before its first
 * loop: what libuv remembers of its descriptors is wrong in runner processes, whose handlers may fork. */
bool zygote_start(struct zygote *zygote, const struct zygote_options *options, struct error *error) MUST_CHECK;
/* Closes the socket and waits until it has killed and reaped all: with a worker that ends before it has a loop. Nothing
 * happens when it has ended, as after launcher_destroy. */
void zygote_end(struct zygote *zygote);

/* --- children ----------------------------------------------------------------------------------------------------- */

enum { CHILD_DESCRIPTORS_MAX = 6 };

struct child_plan {
    enum { CHILD_RUNNER, CHILD_PROGRAM } kind;
    /* Become 0, 1, 2, ... of the child; -1 = /dev/null. The caller's stay the caller's. */
    int descriptors[CHILD_DESCRIPTORS_MAX];
    unsigned descriptor_count;
    /* CHILD_PROGRAM: the file (absolute), its arguments and its whole environment, each ending with NULL; together
     * up to 128 KiB. */
    const char *const *arguments, *const *environment;
    /* CHILD_PROGRAM: whose time it has from the start: occupant is set by launcher_spawn. NULL = nobody's. */
    struct run_entry *run_entry;
    int64_t memory_bytes; /* RLIMIT_AS; 0 = as the worker has */
    int64_t open_files;   /* RLIMIT_NOFILE; 0 = as the worker has */
};

/* How a child ended. */
struct child_exit {
    int wait_status;     /* as of waitpid */
    uint64_t killed_run; /* the zygote killed it for this run of `killed_run_entry`; 0 = it did not */
    unsigned killed_run_entry;
    int64_t memory_peak; /* bytes; of a program at least what the zygote has itself */
    int64_t cpu_ns;
};

/* The caller's; it stays where it is until `exited`, or `spawned` with a failure. */
struct child {
    /* `failure` is an errno, 0 = it runs. NULL: a failure is told as an exit with status 127. */
    void (*spawned)(struct child *child, pid_t pid, int failure);
    void (*exited)(struct child *child, const struct child_exit *end);
    uint64_t number; /* private, as what follows */
    struct list link;
};
void child_init(struct child *child, void (*spawned)(struct child *child, pid_t pid, int failure),
                void (*exited)(struct child *child, const struct child_exit *end));

struct launcher;

struct launcher *launcher_create(struct loop *loop, struct zygote *zygote, struct run_table *run_table,
                                 void (*lost)(void *context), void *context);
/* Children that are left are killed, without a word; waits until the zygote has ended, two seconds at most. Not from
 * inside a callback. */
void launcher_destroy(struct launcher *launcher);

/* The outcome is told later, never from inside. Once the zygote is lost it is the failure EPIPE. */
void launcher_spawn(struct launcher *launcher, struct child *child, const struct child_plan *plan);
/* To its process group, when it still runs. */
void launcher_kill(struct launcher *launcher, const struct child *child, int signal);
/* Something on the run table was brought forward: the zygote looks now. */
void launcher_ring(struct launcher *launcher);

#endif
