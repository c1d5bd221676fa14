/* From an order to a running child.
 *
 * A program is started as posix_spawn does it: the child borrows the zygote's memory (on a stack of its own) until
 * execve, so nothing is copied, and tells through it why execve failed. Meanwhile it does nothing but system calls,
 * made directly: what a sanitizer puts around libc's functions would write into the zygote's books. The zygote looks
 * at its file before and waits for its execve, so a program on a file system that hangs holds up all other starts, and
 * kills. It could go on only with a child that has memory of its own, which costs half as much again for each program;
 * or with a thread that waits instead, and then what it forks would not be sound.
 *
 * A runner process is a plain fork of the zygote: it has this program in memory already.
 *
 * What all children have from the zygote by inheritance: no new privileges, signals at their defaults (the zygote
 * blocks them, it does not ignore them), no pending ones. The zygote's descriptors close themselves at execve. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/isolation/zygote.h"
#include "worker/plugin/program_file.h"

#define BARE __attribute__((no_sanitize("address", "undefined", "thread")))

/* A sanitizer's own memory counts as address space, so that no limit on it is ever high enough. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool runners_have_memory_limit = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
static const bool runners_have_memory_limit = false;
#else
static const bool runners_have_memory_limit = true;
#endif
#else
static const bool runners_have_memory_limit = true;
#endif

enum { EXIT_NOT_BORN = 127, STACK_SIZE = 16 * 1024, KERNEL_MASK_SIZE = 8 };

/* Lower than it is, or as it is; never higher than the hard limit, which nobody without privileges can pass. */
BARE static bool limit_set(int resource, int64_t wanted)
{
    struct rlimit limit;
    if (wanted <= 0)
        return true;
    if (syscall(SYS_prlimit64, 0, resource, NULL, &limit) != 0)
        return false;
    if ((rlim_t)wanted < limit.rlim_max)
        limit.rlim_max = (rlim_t)wanted;
    limit.rlim_cur = limit.rlim_max;
    return syscall(SYS_prlimit64, 0, resource, &limit, NULL) == 0;
}

/* Where it may not be set, strays of this child have no mark. */
BARE static void mark_set(uint64_t mark)
{
    struct rlimit limit;
    if (syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, NULL, &limit) != 0 || limit.rlim_max < mark)
        return;
    limit.rlim_cur = mark;
    syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, &limit, NULL);
}

/* A zygote that died before its child could ask to die with it cannot be the parent any more. */
BARE static bool child_settle(const struct zygote_birth *birth)
{
    if (syscall(SYS_setpgid, 0, 0) != 0 || syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return false;
    if (syscall(SYS_getppid) != birth->zygote)
        syscall(SYS_exit_group, EXIT_NOT_BORN);
    mark_set(birth->mark);
    for (unsigned i = 0; i < birth->descriptor_count; i++)
        if (syscall(SYS_dup3, birth->descriptors[i], i, 0) < 0)
            return false;
    return limit_set(RLIMIT_NOFILE, birth->order->open_files);
}

BARE static bool signals_unblock(void)
{
    static const uint64_t none = 0;
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_MASK_SIZE) == 0;
}

/* --- programs --------------------------------------------------------------------------------------------------- */

/* The file that was looked at. A script is none for the kernel, which cannot name a descriptor to the interpreter that
 * is closed by then (ENOENT). It is run by its path, which its interpreter opens in any case; and $0, by which scripts
 * find what lies beside them, stays what it is. */
BARE static void program_execute(const struct zygote_birth *birth)
{
    syscall(SYS_execveat, birth->program, "", birth->arguments, birth->environment, AT_EMPTY_PATH);
    if (errno == ENOENT)
        syscall(SYS_execve, birth->arguments[0], birth->arguments, birth->environment);
}

BARE static int program_become(void *context)
{
    struct zygote_birth *birth = context;
    if (child_settle(birth) && limit_set(RLIMIT_AS, birth->order->memory_bytes) && syscall(SYS_chdir, "/") == 0) {
        syscall(SYS_umask, S_IRWXG | S_IRWXO);
        if (signals_unblock())
            program_execute(birth);
    }
    birth->failure = errno;
    syscall(SYS_exit_group, EXIT_NOT_BORN);
    return EXIT_NOT_BORN;
}

static pid_t program_bear(struct zygote_birth *birth)
{
    static _Alignas(16) char stack[STACK_SIZE];
    struct error error = ERROR_NONE;
    birth->failure = 0;
    birth->program = program_file_open(birth->arguments[0], &error);
    if (birth->program < 0)
        return -errno;
    pid_t pid = clone(program_become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, birth);
    int failure = errno;
    close(birth->program);
    if (pid < 0)
        return -failure;
    if (birth->failure == 0)
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -birth->failure;
}

/* --- runner processes ------------------------------------------------------------------------------------------- */

/* Ends without the exit handlers of the worker, whose image this is; there was nothing in the buffers of stdio when the
 * zygote was forked, so what is there now is the runner's own. */
_Noreturn static void runner_become(const struct zygote_birth *birth)
{
    int64_t memory = runners_have_memory_limit ? birth->order->memory_bytes : 0;
    if (!child_settle(birth) || close_range(birth->descriptor_count, ~0U, 0) != 0 || !limit_set(RLIMIT_AS, memory) ||
        !signals_unblock())
        _exit(EXIT_NOT_BORN);
    prctl(PR_SET_NAME, "hf-runner");
    int status = birth->options->runner(birth->options->board, STDERR_FILENO + 1);
    fflush(stdout);
    _exit(status);
}

static pid_t runner_bear(const struct zygote_birth *birth)
{
    if (birth->options->runner == NULL)
        return -ENOSYS;
    /* Not fork(): handlers that libraries of the worker have left for it (libuv's) close what was theirs in the worker
     * and has other owners here. */
    pid_t pid = _Fork();
    if (pid == 0)
        runner_become(birth);
    if (pid < 0)
        return -errno;
    setpgid(pid, pid); /* whoever kills its group next must find it */
    return pid;
}

pid_t zygote_child_bear(struct zygote_birth *birth)
{
    return birth->order->child_kind == CHILD_RUNNER ? runner_bear(birth) : program_bear(birth);
}
