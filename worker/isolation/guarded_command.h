/* A command line of a user that runs under a lock: it and all that it started die before the lock ends, also while
 * this process is stopped, or after it was killed. In everything else it runs as if this process was not there.
 *
 *     struct guarded_command command = {.arguments = ..., .ended = ..., .context = ...};
 *     guarded_command_prepare(&command, &error)             while the process has one thread, and no descriptors yet
 *     guarded_command_open(&command, loop, &error)          ... ready()
 *     guarded_command_start(&command, lock, token)          the lock is held. ... ended()
 *     guarded_command_ring(&command)                        the lock was lost
 *     guarded_command_close(&command)                       always, also after a failure
 *
 * Three processes:
 *
 *     this one ─▶ zygote (launcher.h) ─▶ minder ─▶ the command ─▶ what it starts
 *
 * The minder is the command's parent. It sees the command end and stop, passes signals on to it, and warns it by the
 * clock, so all that works while this process is stopped. If the command stops its parent, this process continues it.
 * The zygote kills the minder when the lock ends, the command dies with its parent, and what the command started falls
 * to the zygote, which kills it. The command belongs to the process group of this process, so a terminal treats both as
 * one job.
 *
 * If the zygote is killed too, the minder and the command die, and what the command started stays. A process that
 * another program started for the command (a service manager, a container engine, another host) is none of its own.
 *
 * Threads: the loop's. From guarded_command_prepare on, signals that would end or stop this process are blocked, and
 * handled on the loop: passed on while the command runs, else given to `interrupted`. */
#ifndef WORKER_GUARDED_COMMAND_H
#define WORKER_GUARDED_COMMAND_H

#include <termios.h>

#include "worker/isolation/launcher.h"

struct guarded_command {
    /* By the caller. */
    char *const *arguments; /* end with NULL; the first is looked for in PATH */
    bool signals_danger;    /* SIGUSR1 to the command when the lock gets into danger */
    void (*ready)(void *context);
    /* SIGINT, SIGTERM, ...: the command was not started, or has ended. */
    void (*interrupted)(void *context, int number);
    /* Of the command: as of waitpid. `was_killed`: because its lock had ended. All that it started is gone. */
    void (*ended)(void *context, int wait_status, bool was_killed);
    /* Instead of the others: `reason` says why it does not run, or is not watched any more. If it was started, what it
     * has started may go on. */
    void (*failed)(void *context, const char *reason);
    void *context;
    /* Private. */
    sigset_t blocked, ignored; /* as this process got them */
    pid_t owner, group;
    int terminal; /* the controlling one, if it was ours; -1 */
    struct termios modes;
    int *inherited; /* descriptors above 2 that the command gets too */
    size_t inherited_count;
    struct run_table *run_table;
    struct zygote zygote;
    struct loop *loop;
    struct launcher *launcher;
    struct child child;
    int socket, signals, end; /* `end` is readable when the command has ended; -1 = it is not watched */
    struct loop_watch *socket_watch, *signals_watch, *end_watch;
    pid_t minder;                           /* 0 = it does not run */
    pid_t pid;                              /* of the command; 0 = it does not run */
    bool was_started, executes, has_status; /* it executes once it has its process group */
    int wait_status;
};

/* The exit status of a shell for a command that is not there (127) or cannot be executed (126), with the reason; 0 if
 * it seems possible. Looks in PATH. */
int guarded_command_check(const char *program, struct error *error);

bool guarded_command_prepare(struct guarded_command *command, struct error *error) MUST_CHECK;
bool guarded_command_open(struct guarded_command *command, struct loop *loop, struct error *error) MUST_CHECK;
/* The command gets $HOLDFAST_FENCE, the token unless that is 0, with a limit $HOLDFAST_SEAT, and
 * $HOLDFAST_DEADLINE_FD, a pipe that has bytes from when the lock is in danger, and ends with the lock. */
void guarded_command_start(struct guarded_command *command, struct redlock_lock *lock, uint64_t token);
void guarded_command_ring(struct guarded_command *command);
void guarded_command_close(struct guarded_command *command);

#endif
