/* A program in a process group of its own, whose input is a text and whose output can be read as it comes.
 *
 *     exec_process_start(&process, &start)            0, or -1 with errno: it was not started
 *     while (!exec_process_has_ended(&process))
 *         poll() on process.output[0], [1], process.pidfd ...
 *     status = exec_process_reap(&process)            kills what is left of the group
 *     exec_process_fini(&process)
 *
 * It begins with the usual signals, the umask 077, and no descriptor but 0, 1 and 2. The kernel kills it when the
 * thread that started it ends, so it does not outlive a process that is killed; only what it has started itself may. */
#ifndef JOBS_EXEC_PROCESS_H
#define JOBS_EXEC_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

struct exec_start {
    char *const *arguments; /* the first one is the path of the file */
    char *const *environment;
    const char *directory;
    const char *input;
    size_t input_length;
};

struct exec_process {
    pid_t pid;
    int output[2]; /* what it writes to stdout and to stderr, not blocking; -1 once closed */
    int pidfd;     /* readable when it has ended; -1: this kernel has none */
};

int exec_process_start(struct exec_process *process, const struct exec_start *start);
int exec_process_has_ended(const struct exec_process *process);
/* To all of its group; harmless once it has ended, until it is reaped. */
void exec_process_signal(const struct exec_process *process, int signal);
/* After its end: kills what is left of its group, and gives the status as waitpid() does; -1 when nobody knows it. */
int exec_process_reap(struct exec_process *process);
void exec_process_close_output(struct exec_process *process, int which);
void exec_process_fini(struct exec_process *process);

#endif
