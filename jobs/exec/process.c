/* fork() and not posix_spawn(), for two things that the latter cannot do: asking the kernel to kill the program when
 * its parent dies, and the umask. Between fork() and execve() there are system calls only, because other threads may
 * have held any lock. Why execve() failed comes back by a pipe that a success closes. */
#include "jobs/exec/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT, OUTPUT, ERRORS, VERDICT, CHILD_ENDS };

/* The ends of the child, and what of them stays here. None is below 10, so that none is in the way of 0, 1 and 2. */
struct ends {
    int child[CHILD_ENDS], parent[CHILD_ENDS];
};

static void ends_close(int *ends)
{
    for (int i = 0; i < CHILD_ENDS; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
        ends[i] = -1;
    }
}

static int raised(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 10) : -1;
    if (fd >= 0)
        close(fd);
    return high;
}

static int pipe_open(struct ends *ends, int which)
{
    int both[2];
    if (pipe2(both, O_CLOEXEC) != 0)
        return -1;
    ends->parent[which] = raised(both[0]);
    ends->child[which] = raised(both[1]);
    return ends->parent[which] < 0 || ends->child[which] < 0 ? -1 : 0;
}

static int input_open(struct ends *ends, const struct exec_start *start)
{
    int fd = raised(memfd_create("input", MFD_CLOEXEC));
    ends->child[INPUT] = fd;
    for (size_t written = 0; fd >= 0 && written < start->input_length;) {
        ssize_t count = write(fd, start->input + written, start->input_length - written);
        if (count < 0)
            return -1;
        written += (size_t)count;
    }
    return fd < 0 || lseek(fd, 0, SEEK_SET) != 0 ? -1 : 0;
}

static int ends_open(struct ends *ends, const struct exec_start *start)
{
    for (int i = 0; i < CHILD_ENDS; i++)
        ends->child[i] = ends->parent[i] = -1;
    if (input_open(ends, start) == 0 && pipe_open(ends, OUTPUT) == 0 && pipe_open(ends, ERRORS) == 0 &&
        pipe_open(ends, VERDICT) == 0)
        return 0;
    int cause = errno;
    ends_close(ends->child);
    ends_close(ends->parent);
    errno = cause;
    return -1;
}

/* --- in the child ------------------------------------------------------------------------------------------- */

static void signals_reset(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL); /* fails for some, which have no other */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void become(const struct exec_start *start, const struct ends *ends, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the kernel was asked */
        _exit(127);
    signals_reset();
    umask(S_IRWXG | S_IRWXO);
    if (dup2(ends->child[INPUT], 0) == 0 && dup2(ends->child[OUTPUT], 1) == 1 && dup2(ends->child[ERRORS], 2) == 2 &&
        chdir(start->directory) == 0) {
#ifdef SYS_close_range
        /* Those of others too, who forgot to say it. An older kernel cannot, and our own say it themselves. */
        syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
#endif
        execve(start->arguments[0], start->arguments, start->environment);
    }
    int cause = errno;
    if (write(ends->child[VERDICT], &cause, sizeof cause) < 0)
        _exit(126);
    _exit(127);
}

/* --- in the parent ------------------------------------------------------------------------------------------ */

/* 0 when it runs the program, else why not. */
static int verdict_read(int fd)
{
    int cause = 0;
    ssize_t count;
    do
        count = read(fd, &cause, sizeof cause);
    while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof cause ? cause : 0;
}

/* With all signals blocked: a handler of this process must not run in the child. */
static pid_t child_make(const struct exec_start *start, const struct ends *ends)
{
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        become(start, ends, parent);
    int cause = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = cause;
    return child;
}

int exec_process_start(struct exec_process *process, const struct exec_start *start)
{
    struct ends ends;
    *process = (struct exec_process){.pid = -1, .output = {-1, -1}, .pidfd = -1};
    if (ends_open(&ends, start) != 0)
        return -1;
    pid_t child = child_make(start, &ends);
    int cause = child < 0 ? errno : 0;
    ends_close(ends.child);
    if (child > 0) {
        setpgid(child, child); /* whoever of both is first */
        cause = verdict_read(ends.parent[VERDICT]);
        if (cause != 0)
            waitpid(child, NULL, 0);
    }
    if (cause != 0) {
        ends_close(ends.parent);
        errno = cause;
        return -1;
    }
    close(ends.parent[VERDICT]);
    for (int i = 0; i < 2; i++) {
        process->output[i] = ends.parent[OUTPUT + i];
        fcntl(process->output[i], F_SETFL, O_NONBLOCK);
    }
    process->pid = child;
    process->pidfd = (int)syscall(SYS_pidfd_open, child, 0U);
    return 0;
}

int exec_process_has_ended(const struct exec_process *process)
{
    siginfo_t facts = {.si_pid = 0};
    int failed = waitid(P_PID, (id_t)process->pid, &facts, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 ? errno != EINTR : facts.si_pid == process->pid;
}

void exec_process_signal(const struct exec_process *process, int signal)
{
    if (process->pid > 0)
        kill(-process->pid, signal);
}

/* The group is killed while its first process is not yet reaped: until then its number belongs to nobody else. */
int exec_process_reap(struct exec_process *process)
{
    int status = -1;
    exec_process_signal(process, SIGKILL);
    while (waitpid(process->pid, &status, 0) < 0) {
        if (errno != EINTR) {
            status = -1;
            break;
        }
    }
    process->pid = -1;
    return status;
}

void exec_process_close_output(struct exec_process *process, int which)
{
    if (process->output[which] >= 0)
        close(process->output[which]);
    process->output[which] = -1;
}

void exec_process_fini(struct exec_process *process)
{
    exec_process_close_output(process, 0);
    exec_process_close_output(process, 1);
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
}
