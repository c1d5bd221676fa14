/* The worker's end of the zygote: starts children, and reports their exits.
 *
 *     struct launcher *launcher = launcher_create(loop, &zygote, run table, lost, context);
 *     child_init(&child, spawned, exited);
 *     launcher_spawn(launcher, &child, &plan);   ... child.spawned() ... child.exited()
 *     launcher_kill(launcher, &child, SIGTERM);  to its process group
 *
 * The main thread forks the zygote before any other thread exists, and the zygote remains single-threaded, so it can
 * fork safely (a process with threads cannot). Each child leads its own process group, dies with the zygote, cannot
 * gain privileges, has default signal actions with none blocked, and has only the descriptors of its plan (0 to 2
 * always exist). Before `exited` is called, the child was reaped, and the rest of its group and descendants that left
 * the group were killed and are gone. The zygote waits at most ten seconds for processes that cannot die.
 *
 * The zygote itself kills the occupant of a run entry whose time is over (run_table.h), and all groups when the worker
 * closes its end or dies (then it logs what was running).
 *
 * Threads: the loop's, except zygote_start, which only a single-threaded process may call. If the zygote dies,
 * `lost` is called once; all children die with it, and no `exited` follows: their locks expire. */
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
    /* The program of a child of kind CHILD_RUNNER: called in the child, returns its exit status. Descriptor 3 is its
     * socket. */
    int (*runner)(struct run_table *run_table, int socket, const void *context);
    struct log_options log; /* for its messages after the worker has died */
    /* The last act of the zygote if the worker died of the handler at this run entry; may take a few seconds. NULL =
     * nothing. */
    void (*on_worker_death)(const void *context, const struct run_table *run_table, unsigned suspect);
    const void *context; /* of both */
};

/* Forks the zygote. Call it while the process has one thread, and descriptors 0 to 2 are open. Preferably before the
 * first loop: libuv's record of its descriptors would be wrong in runner processes, whose handlers may fork. */
bool zygote_start(struct zygote *zygote, const struct zygote_options *options, struct error *error) MUST_CHECK;
/* Closes the socket and waits until the zygote has killed and reaped all children: for a worker that ends before it
 * has a loop. Does nothing if the zygote has ended, as after launcher_destroy. */
void zygote_end(struct zygote *zygote);

/* --- children ----------------------------------------------------------------------------------------------------- */

enum { CHILD_DESCRIPTORS_MAX = 6 };

struct child_plan {
    enum { CHILD_RUNNER, CHILD_PROGRAM } kind;
    /* Become 0, 1, 2, ... of the child; -1 = /dev/null. The caller still owns its own. */
    int descriptors[CHILD_DESCRIPTORS_MAX];
    unsigned descriptor_count;
    /* CHILD_PROGRAM: the file (absolute) and its arguments, and its whole environment; both end with NULL. Together
     * up to 128 KiB. */
    const char *const *arguments, *const *environment;
    const char *directory; /* CHILD_PROGRAM: where it starts; NULL = / */
    /* CHILD_PROGRAM: the run entry with its deadline. launcher_spawn sets the occupant. NULL = no deadline. */
    struct run_entry *run_entry;
    int64_t memory_bytes; /* RLIMIT_DATA; 0 = as the worker has */
    int64_t open_files;   /* RLIMIT_NOFILE; 0 = as the worker has */
    bool is_quiet;        /* `spawned` is called for a failure only, which spares the loop a cycle */
};

/* How a child ended. */
struct child_exit {
    int wait_status;     /* as of waitpid */
    uint64_t killed_run; /* the run of `killed_run_entry` for which the zygote killed it; 0 = none */
    unsigned killed_run_entry;
};

/* Owned by the caller; must not move before `exited`, or `spawned` with a failure. */
struct child {
    /* `failure` is an errno, 0 = it runs. If `spawned` is NULL, a failure is reported as an exit with status 127. */
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
/* Kills the remaining children without `exited`; waits until the zygote has ended, at most two seconds. Not inside a
 * callback. */
void launcher_destroy(struct launcher *launcher);

/* Reports the outcome later, never inside this function. Once the zygote is lost it is the failure EPIPE. */
void launcher_spawn(struct launcher *launcher, struct child *child, const struct child_plan *plan);
/* Signals its process group, if it still runs. */
void launcher_kill(struct launcher *launcher, const struct child *child, int signal);
/* A deadline on the run table became earlier: the zygote checks now. */
void launcher_ring(struct launcher *launcher);

#endif
