/* The zygote's life: fork, getting rid of everything that is the worker's, the loop, and the end. launcher.h says what
 * it is for. It has one thread, no libuv, and hardly any memory of its own. Its loop:
 *
 *     look at the run table, kill whose time is over, set the alarm for the next
 *     report what became of children
 *     wait for an order, a child's end, the alarm, or the worker's death
 *     one order
 *
 * It must never wait for the worker, which may be stopped: reports that the socket does not take stay with their
 * children until it does.
 *
 * It leads a process group of its own and blocks all signals, so what a terminal sends to the worker's group does not
 * concern it. It ends when the worker says good-bye, closes its end of the socket, or is dead (a forked copy of the
 * worker might hold the socket open, so there is a pidfd as well). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/isolation/launcher.h"
#include "worker/isolation/zygote_message.h"
#include "worker/plugin/plugin_programs.h"

/* The places of the zygote's own descriptors. The lowest numbers that a plan can ask for are among them, so what comes
 * with orders lies above these, and children can have it moved down in any order. */
enum {
    ZYGOTE_SOCKET = 3,
    ZYGOTE_SIGNALS,
    ZYGOTE_ALARM,  /* a timerfd on CLOCK_BOOTTIME */
    ZYGOTE_WORKER, /* a pidfd */
    ZYGOTE_NOTHING,
    ZYGOTE_LOG, /* if the log goes to a descriptor that is none of the first three */
};
_Static_assert((int)ZYGOTE_NOTHING >= (int)CHILD_DESCRIPTORS_MAX, "/dev/null is not overwritten while it is needed");

struct zygote_child {
    uint64_t number;
    pid_t pid; /* and its process group */
    enum {
        CHILD_FAILED, /* there is no process */
        CHILD_ALIVE,
        CHILD_LINGERS, /* reaped and killed, but what it left behind is not gone yet */
        CHILD_ENDED,
    } state;
    bool is_announced; /* the worker was told that it was spawned */
    bool is_killed;    /* because its time was over */
    int failure;
    struct child_exit end;
    bool has_strays;              /* as of the last look */
    struct instant lingers_until; /* then its end is told whatever is left of it */
};

struct zygote_process {
    struct zygote_options options;
    struct zygote_child *children;
    unsigned count, capacity;
    unsigned alive, lingering;
    bool has_news;   /* a child may have something to tell */
    bool is_blocked; /* by a socket that takes no more */
    struct instant armed;
    bool worker_is_gone, has_said_good_bye;
};

struct zygote_spawn {
    const struct zygote_options *options;
    const struct zygote_order *order;
    int descriptors[CHILD_DESCRIPTORS_MAX]; /* at least the first three */
    unsigned descriptor_count;
    char **arguments, **environment; /* of a program */
    int program;                     /* its file (O_PATH) */
    pid_t zygote;
    uint64_t mark; /* as of zygote_mark */
    volatile int failure;
};

static struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid);
static bool zygote_dead_reap(struct zygote_process *zygote);

/* --- last words --------------------------------------------------------------------------------------------------- */

/* The zygote is the only one who can say what a worker was doing when it died: it still has the run table. These are
 * its last words, so it may use up what it has. */

/* " slot=... jid=... class=...", or nothing. */
static const char *suspect_text(const struct run_table *run_table, char text[2 * LOG_QUOTE_MAX + 40])
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    const struct run_entry *run_entry = run_table_suspect(run_table);
    text[0] = '\0';
    if (run_entry != NULL)
        snprintf(text, 2 * LOG_QUOTE_MAX + 40, " slot=%u jid=%s class=%s",
                 (unsigned)(run_entry - run_table->run_entries), log_value(run_entry->jid, jid),
                 log_value(run_entry->class_name, class_name));
    return text;
}

/* One that abandoned a handler, or was stopped before it was up, ends without a good-bye, and has said all there is to
 * say. Else, without a signal of its own making, it was killed, or a plugin ended it. */
static void run_table_log(const struct run_table *run_table, pid_t worker)
{
    char suspect[2 * LOG_QUOTE_MAX + 40];
    int signal = atomic_load(&run_table->crash_signal);
    const char *known = sigabbrev_np(signal), *name = known != NULL ? known : "?";
    bool has_exited = atomic_load(&run_table->exit_was_called);
    if (signal == 0 && !has_exited && atomic_load(&run_table->has_ended))
        return;
    suspect_text(run_table, suspect);
    if (signal != 0)
        log_event(LOG_WARN, "worker_crashed", "pid=%d signal=SIG%s%s", (int)worker, name, suspect);
    else
        log_event(LOG_WARN, "worker_died", "pid=%d%s%s", (int)worker, has_exited ? " by=exit" : "", suspect);
    for (unsigned i = 0; i < run_table->run_entry_count; i++) {
        const struct run_entry *run_entry = &run_table->run_entries[i];
        char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
        if (atomic_load(&run_entry->is_running))
            log_event(LOG_WARN, "task_was_running", "slot=%u jid=%s class=%s", i, log_value(run_entry->jid, jid),
                      log_value(run_entry->class_name, class_name));
    }
}

/* Without a log thread lines are written at once, to standard error: so that is where the log is put. When the file
 * cannot be opened, they go where standard error has gone so far. */
static void log_take(const struct log_options *log)
{
    int file =
        log->path != NULL ? open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640) : log->fd;
    if (file >= 0 && file != STDERR_FILENO)
        dup2(file, STDERR_FILENO);
    log_set_level(log->level);
    log_set_format(log->format);
}

/* After that, and when all children are gone. */
static void zygote_on_worker_death(const struct zygote_options *options)
{
    const struct run_entry *suspect = run_table_suspect(options->run_table);
    if (suspect != NULL && options->on_worker_death != NULL)
        options->on_worker_death(options->context, options->run_table,
                                 (unsigned)(suspect - options->run_table->run_entries));
}

/* --- strays ------------------------------------------------------------------------------------------------------- */

/* Descendants that left their process group (setsid, a daemon), found by a mark that each child inherits.
 *
 * The mark is the soft limit RLIMIT_LOCKS, which Linux has not looked at since 2.4.25. It is inherited by fork and kept
 * by execve, an empty environment or a new session change nothing about it, the zygote may read it of every process of
 * the same user, and to set it takes no privilege. Who sets it anew (`ulimit -x`) is a stray without a mark, as all are
 * where the hard limit is too low for it: such a one is killed when no child is alive, at the latest at the end.
 *
 * An orphan becomes a child of the zygote before its parent can be reaped. So of what is left of a run there is always
 * somebody among the zygote's own children until nothing is left; each that dies leaves its children to the zygote. */

enum { STRAY_POLL_MS = 5, LIST_BYTES_MAX = 64 * 1024, NUMBER_BITS = 40 };

/* The mark of the child with this number, for spawn->mark: with the zygote's own number, because a run may have
 * workers of its own. A process's number has 22 bits at most. */
static uint64_t zygote_mark(uint64_t number)
{
    return (uint64_t)getpid() << NUMBER_BITS | (number & ((UINT64_C(1) << NUMBER_BITS) - 1));
}

/* Of the zygote's own children, those that are dead included, as text; "" when the kernel does not tell. */
static const char *children_list(void)
{
    static char text[LIST_BYTES_MAX];
    size_t length = 0;
    snprintf(text, sizeof text, "/proc/self/task/%d/children", (int)getpid());
    int file = open(text, O_RDONLY | O_CLOEXEC);
    for (ssize_t more = 1; file >= 0 && more > 0; length += more > 0 ? (size_t)more : 0)
        more = read(file, text + length, sizeof text - 1 - length);
    if (file >= 0)
        close(file);
    text[length] = '\0';
    return text;
}

/* 0 = the list is over. A number that was cut off has no space behind it; the rest is read the next time. */
static pid_t children_next(const char **list)
{
    char *end;
    long pid = strtol(*list, &end, 10);
    *list = end;
    return pid > 0 && *end == ' ' ? (pid_t)pid : 0;
}

static struct zygote_child *lingering_of(struct zygote_process *zygote, pid_t stray)
{
    struct rlimit limit;
    if (prlimit(stray, RLIMIT_LOCKS, NULL, &limit) != 0)
        return NULL;
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].state == CHILD_LINGERS && zygote_mark(zygote->children[i].number) == limit.rlim_cur)
            return &zygote->children[i];
    return NULL;
}

/* Those of children that linger; has_strays says of each whether there were any. */
static void zygote_strays_kill(struct zygote_process *zygote)
{
    for (unsigned i = 0; i < zygote->count; i++)
        zygote->children[i].has_strays = false;
    const char *list = children_list();
    for (pid_t pid; (pid = children_next(&list)) > 0;) {
        struct zygote_child *child = zygote_child_of_pid(zygote, pid) == NULL ? lingering_of(zygote, pid) : NULL;
        if (child == NULL)
            continue;
        child->has_strays = true;
        kill(pid, SIGKILL);
    }
}

/* Kills all descendants, level by level, and reaps them; false when some are left after `limit_ns`. Only when no child
 * is alive. Each that dies leaves its own children to the zygote: there may be as many rounds as there are levels. */
static bool zygote_strays_end(struct zygote_process *zygote, int64_t limit_ns)
{
    struct instant limit = instant_after(instant_now(), limit_ns);
    while (zygote_dead_reap(zygote)) {
        if (instant_reached(instant_now(), limit))
            return false;
        const char *list = children_list();
        for (pid_t pid; (pid = children_next(&list)) > 0;)
            kill(pid, SIGKILL);
        struct pollfd signals = {.fd = ZYGOTE_SIGNALS, .events = POLLIN};
        if (poll(&signals, 1, STRAY_POLL_MS) > 0) {
            char told[512];
            (void)!read(ZYGOTE_SIGNALS, told, sizeof told);
        }
    }
    return true;
}

/* --- children ----------------------------------------------------------------------------------------------------- */

/* Children from the spawn to the last word about them.
 *
 * A child leads a process group. When it has ended, the group is killed while the dead leader is still unreaped, so
 * that its number cannot belong to anybody else; then the leader is reaped. Others of the group become the zygote's
 * children as their parents die (it is a subreaper) and are reaped like them, and so does what left its group: a stray
 * (zygote_strays_kill). The end is told when the group is empty and no stray is left. */

enum { CAPACITY_FIRST = 64 };

static const int64_t LINGER_NS = 10 * NS_PER_S;
static const int64_t STRAYS_NS = NS_PER_S / 5;

/* With CHILD_FAILED as its state. */
static struct zygote_child *zygote_child_add(struct zygote_process *zygote, uint64_t number)
{
    if (zygote->count == zygote->capacity) {
        zygote->capacity = zygote->capacity == 0 ? CAPACITY_FIRST : zygote->capacity * 2;
        zygote->children = memory_resize(zygote->children, zygote->capacity, sizeof *zygote->children);
    }
    struct zygote_child *child = &zygote->children[zygote->count++];
    *child = (struct zygote_child){.number = number};
    return child;
}

/* NULL when it is not, or no longer, alive. */
static struct zygote_child *zygote_child_find(struct zygote_process *zygote, uint64_t number)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].number == number && zygote->children[i].state == CHILD_ALIVE)
            return &zygote->children[i];
    return NULL;
}

static void zygote_children_kill_all(struct zygote_process *zygote)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].state == CHILD_ALIVE)
            kill(-zygote->children[i].pid, SIGKILL);
}

/* --- reaping ------------------------------------------------------------------------------------------------------ */

/* The leader that is alive, or not reaped, with this pid. */
static struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].pid == pid && zygote->children[i].state == CHILD_ALIVE)
            return &zygote->children[i];
    return NULL;
}

static int64_t time_ns(struct timeval time)
{
    return time.tv_sec * NS_PER_S + time.tv_usec * NS_PER_US;
}

static void end_record(struct zygote_child *child, int wait_status, const struct rusage *usage)
{
    child->end.wait_status = wait_status;
    child->end.memory_peak = usage->ru_maxrss * INT64_C(1024);
    child->end.cpu_ns = time_ns(usage->ru_utime) + time_ns(usage->ru_stime);
    if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGKILL)
        child->end.killed_run = child->end.killed_run_entry = 0; /* it was faster */
}

static void dead_reap(struct zygote_process *zygote, pid_t pid)
{
    struct zygote_child *child = zygote_child_of_pid(zygote, pid);
    if (child != NULL)
        kill(-pid, SIGKILL);
    int status = 0;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return;
    if (child == NULL)
        return;
    end_record(child, status, &usage);
    child->state = CHILD_LINGERS;
    child->lingers_until = instant_after(instant_now(), LINGER_NS);
    zygote->alive--;
    zygote->lingering++;
}

/* A number that still names a group cannot be given to another process. Who has been reaped by now has left all its
 * children to the zygote, so the strays are looked for after that. */
static void lingering_look(struct zygote_process *zygote)
{
    if (zygote->lingering > 0)
        zygote_strays_kill(zygote);
    for (unsigned i = 0; i < zygote->count && zygote->lingering > 0; i++) {
        struct zygote_child *child = &zygote->children[i];
        if (child->state != CHILD_LINGERS)
            continue;
        bool has_left = child->has_strays || kill(-child->pid, 0) == 0;
        if (has_left && !instant_reached(instant_now(), child->lingers_until))
            continue;
        child->state = CHILD_ENDED;
        zygote->lingering--;
        zygote->has_news = true;
    }
}

/* Reaps who has died; false when there are no children at all, not even strays. */
static bool zygote_dead_reap(struct zygote_process *zygote)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR)
            return false;
        if (info.si_pid == 0)
            return true;
        dead_reap(zygote, info.si_pid);
    }
}

/* Reaps all that have died, and what they have left behind. */
static void zygote_children_reap(struct zygote_process *zygote)
{
    bool has_others = zygote_dead_reap(zygote);
    if (has_others && zygote->alive == 0)
        (void)zygote_strays_end(zygote, STRAYS_NS);
    lingering_look(zygote);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

/* A worker that is gone takes everything. */
static bool report_send(struct zygote_process *zygote, const struct zygote_report *report)
{
    ssize_t sent = send(ZYGOTE_SOCKET, report, sizeof *report, MSG_DONTWAIT | MSG_NOSIGNAL);
    zygote->is_blocked = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR);
    return !zygote->is_blocked;
}

static bool spawn_report(struct zygote_process *zygote, struct zygote_child *child)
{
    struct zygote_report report = {
        .kind = REPORT_SPAWNED, .number = child->number, .pid = child->pid, .failure = child->failure};
    child->is_announced = child->is_announced || report_send(zygote, &report);
    return child->is_announced;
}

static bool end_report(struct zygote_process *zygote, const struct zygote_child *child)
{
    struct zygote_report report = {
        .kind = REPORT_EXITED, .number = child->number, .pid = child->pid, .end = child->end};
    return report_send(zygote, &report);
}

/* As much as the socket takes. */
static void zygote_children_tell(struct zygote_process *zygote)
{
    zygote->is_blocked = false;
    if (!zygote->has_news)
        return;
    for (unsigned i = 0; i < zygote->count;) {
        struct zygote_child *child = &zygote->children[i];
        if (!spawn_report(zygote, child) || (child->state == CHILD_ENDED && !end_report(zygote, child)))
            return;
        if (child->state == CHILD_ENDED || child->state == CHILD_FAILED)
            *child = zygote->children[--zygote->count];
        else
            i++;
    }
    zygote->has_news = false;
}

/* --- the last steps of a child ------------------------------------------------------------------------------------ */

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

enum { EXIT_NOT_STARTED = 127, STACK_SIZE = 16 * 1024, KERNEL_MASK_SIZE = 8 };

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
BARE static bool child_settle(const struct zygote_spawn *spawn)
{
    if (syscall(SYS_setpgid, 0, 0) != 0 || syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return false;
    if (syscall(SYS_getppid) != spawn->zygote)
        syscall(SYS_exit_group, EXIT_NOT_STARTED);
    mark_set(spawn->mark);
    for (unsigned i = 0; i < spawn->descriptor_count; i++)
        if (syscall(SYS_dup3, spawn->descriptors[i], i, 0) < 0)
            return false;
    return limit_set(RLIMIT_NOFILE, spawn->order->open_files);
}

BARE static bool signals_unblock(void)
{
    static const uint64_t none = 0;
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_MASK_SIZE) == 0;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

/* The file that was looked at. A script is none for the kernel, which cannot name a descriptor to the interpreter that
 * is closed by then (ENOENT). It is run by its path, which its interpreter opens in any case; and $0, by which scripts
 * find what lies beside them, stays what it is. */
BARE static void program_execute(const struct zygote_spawn *spawn)
{
    syscall(SYS_execveat, spawn->program, "", spawn->arguments, spawn->environment, AT_EMPTY_PATH);
    if (errno == ENOENT)
        syscall(SYS_execve, spawn->arguments[0], spawn->arguments, spawn->environment);
}

BARE static int program_become(void *context)
{
    struct zygote_spawn *spawn = context;
    if (child_settle(spawn) && limit_set(RLIMIT_AS, spawn->order->memory_bytes) && syscall(SYS_chdir, "/") == 0) {
        syscall(SYS_umask, S_IRWXG | S_IRWXO);
        if (signals_unblock())
            program_execute(spawn);
    }
    spawn->failure = errno;
    syscall(SYS_exit_group, EXIT_NOT_STARTED);
    return EXIT_NOT_STARTED;
}

static pid_t program_spawn(struct zygote_spawn *spawn)
{
    static _Alignas(16) char stack[STACK_SIZE];
    struct error error = ERROR_NONE;
    spawn->failure = 0;
    spawn->program = program_file_open(spawn->arguments[0], &error);
    if (spawn->program < 0)
        return -errno;
    pid_t pid = clone(program_become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, spawn);
    int failure = errno;
    close(spawn->program);
    if (pid < 0)
        return -failure;
    if (spawn->failure == 0)
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -spawn->failure;
}

/* --- runner processes --------------------------------------------------------------------------------------------- */

/* Ends without the exit handlers of the worker, whose image this is; there was nothing in the buffers of stdio when the
 * zygote was forked, so what is there now is the runner's own. */
_Noreturn static void runner_become(const struct zygote_spawn *spawn)
{
    int64_t memory = runners_have_memory_limit ? spawn->order->memory_bytes : 0;
    if (!child_settle(spawn) || close_range(spawn->descriptor_count, ~0U, 0) != 0 || !limit_set(RLIMIT_AS, memory) ||
        !signals_unblock())
        _exit(EXIT_NOT_STARTED);
    prctl(PR_SET_NAME, "hf-runner");
    int status = spawn->options->runner(spawn->options->run_table, STDERR_FILENO + 1);
    fflush(stdout);
    _exit(status);
}

static pid_t runner_fork(const struct zygote_spawn *spawn)
{
    if (spawn->options->runner == NULL)
        return -ENOSYS;
    /* Not fork(): handlers that libraries of the worker have left for it (libuv's) close what was theirs in the worker
     * and has other owners here. */
    pid_t pid = _Fork();
    if (pid == 0)
        runner_become(spawn);
    if (pid < 0)
        return -errno;
    setpgid(pid, pid); /* whoever kills its group next must find it */
    return pid;
}

/* --- killing on time ---------------------------------------------------------------------------------------------- */

/* Killing on time. The worker rings only for what is due before `wakes_at`, so that word must be believed by both: it
 * is stored first, and then the run table is looked at once more. An alarm that is set for too early is left alone; it
 * goes off for nothing, and is set anew then. */

static void overdue_kill(struct zygote_child *child, const struct run_table_verdict *verdict)
{
    /* Who cannot die now, waiting for a disk, needs no second signal. */
    if (child == NULL || child->is_killed)
        return;
    child->is_killed = true;
    child->end.killed_run = verdict->run;
    child->end.killed_run_entry = verdict->run_entry;
    kill(-child->pid, SIGKILL);
}

/* Returns when to look again. An occupant that is not known is on its way in an order, or has just ended. */
static struct instant overdue_kill_all(struct zygote_process *zygote)
{
    struct instant now = instant_now();
    for (unsigned from = 0;;) {
        struct run_table_verdict verdict = run_table_look(zygote->options.run_table, from, now);
        if (verdict.child == 0)
            return verdict.next;
        overdue_kill(zygote_child_find(zygote, verdict.child), &verdict);
        from = verdict.run_entry + 1;
    }
}

static void alarm_set(struct zygote_process *zygote, struct instant at)
{
    struct itimerspec when = {.it_value = {.tv_sec = at.ns / NS_PER_S, .tv_nsec = at.ns % NS_PER_S}};
    if (at.ns <= 0)
        when.it_value.tv_nsec = 1; /* zero would switch it off */
    timerfd_settime(ZYGOTE_ALARM, TFD_TIMER_ABSTIME, &when, NULL);
    zygote->armed = at;
}

static void zygote_deadlines_keep(struct zygote_process *zygote)
{
    struct instant next = overdue_kill_all(zygote), wakes;
    do {
        wakes = instant_earlier(next, zygote->armed);
        atomic_store(&zygote->options.run_table->wakes_at, wakes.ns);
        next = overdue_kill_all(zygote);
    } while (instant_before(next, wakes));
    if (instant_before(wakes, zygote->armed))
        alarm_set(zygote, wakes);
}

static void zygote_alarm_rang(struct zygote_process *zygote)
{
    uint64_t times;
    if (read(ZYGOTE_ALARM, &times, sizeof times) == sizeof times)
        zygote->armed = INSTANT_NEVER;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

/* What the worker asks for: one order at a time, so that deadlines are kept in between. */

/* An order as it came. There is one at a time, and the zygote has one thread. */
static struct {
    struct zygote_order order;
    int descriptors[ZYGOTE_DESCRIPTORS_MAX];
    unsigned descriptor_count;
    bool is_cut; /* the zygote had no room for the descriptors */
    char words[ZYGOTE_WORDS_MAX];
    char *pointers[ZYGOTE_WORDS_MAX + 2];
} in;

static void descriptors_collect(struct msghdr *message)
{
    in.descriptor_count = 0;
    in.is_cut = (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0);
        memcpy(in.descriptors, CMSG_DATA(part), bytes);
        in.descriptor_count = (unsigned)(bytes / sizeof(int));
    }
}

static void descriptors_close(void)
{
    for (unsigned i = 0; i < in.descriptor_count; i++)
        close(in.descriptors[i]);
}

static ssize_t order_receive(void)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(ZYGOTE_DESCRIPTORS_MAX * sizeof(int))];
    } rights;
    struct iovec parts[] = {{&in.order, sizeof in.order}, {in.words, sizeof in.words}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
    ssize_t length = recvmsg(ZYGOTE_SOCKET, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length >= 0)
        descriptors_collect(&message);
    return length;
}

/* --- orders for children ------------------------------------------------------------------------------------------ */

static int words_fetch(void)
{
    if (in.order.words_in_file) {
        ssize_t length = pread(in.descriptors[in.descriptor_count - 1], in.words, in.order.words_length, 0);
        if (length < 0)
            return errno;
        if (length != (ssize_t)in.order.words_length)
            return EBADMSG;
    }
    return zygote_words_split(&in.order, in.words, in.pointers) ? 0 : EBADMSG;
}

static void spawn_fill(struct zygote_spawn *spawn)
{
    unsigned count = in.order.descriptor_count > STDERR_FILENO ? in.order.descriptor_count : STDERR_FILENO + 1;
    const int *next = in.descriptors;
    for (unsigned i = 0; i < count; i++)
        spawn->descriptors[i] = in.order.descriptors_sent >> i & 1 ? *next++ : ZYGOTE_NOTHING;
    spawn->descriptor_count = count;
    spawn->arguments = in.pointers;
    spawn->environment = in.pointers + in.order.argument_count + 1;
}

static pid_t child_spawn(struct zygote_process *zygote, ssize_t length)
{
    if (in.is_cut)
        return -EMFILE;
    if (!zygote_order_is_sound(&in.order, (size_t)length, in.descriptor_count))
        return -EBADMSG;
    struct zygote_spawn spawn = {.options = &zygote->options, .order = &in.order, .zygote = getpid()};
    spawn.mark = zygote_mark(in.order.number);
    if (in.order.child_kind == CHILD_PROGRAM) {
        int failure = words_fetch();
        if (failure != 0)
            return -failure;
    }
    spawn_fill(&spawn);
    return spawn.order->child_kind == CHILD_RUNNER ? runner_fork(&spawn) : program_spawn(&spawn);
}

static void spawn_perform(struct zygote_process *zygote, ssize_t length)
{
    pid_t pid = child_spawn(zygote, length);
    struct zygote_child *child = zygote_child_add(zygote, in.order.number);
    if (pid > 0) {
        child->pid = pid;
        child->state = CHILD_ALIVE;
        zygote->alive++;
    } else {
        child->failure = (int)-pid;
        child->state = CHILD_FAILED;
    }
    zygote->has_news = true;
}

static void order_perform(struct zygote_process *zygote, ssize_t length)
{
    struct zygote_child *child;
    if (in.order.kind != ORDER_SPAWN && !zygote_order_is_sound(&in.order, (size_t)length, in.descriptor_count))
        return;
    switch ((enum zygote_order_kind)in.order.kind) {
    case ORDER_SPAWN:
        if (!zygote->worker_is_gone)
            spawn_perform(zygote, length);
        break;
    case ORDER_KILL:
        child = zygote_child_find(zygote, in.order.number);
        if (child != NULL)
            kill(-child->pid, in.order.signal);
        break;
    case ORDER_RING:
        break; /* the deadlines are looked at after every order */
    case ORDER_BYE:
        zygote->worker_is_gone = zygote->has_said_good_bye = true;
        break;
    }
}

/* What the worker said before it was gone; nothing is started any more. One that closes its end with news in it that it
 * did not read breaks the connection, and that is heard before what it said last. */
static void zygote_last_orders_take(struct zygote_process *zygote)
{
    enum { ORDERS_MAX = 4096 };
    for (int i = 0; i < ORDERS_MAX && !zygote->has_said_good_bye; i++) {
        ssize_t length = order_receive();
        if (length == 0 || (length < 0 && errno != EINTR && errno != ECONNRESET))
            return;
        if (length >= (ssize_t)sizeof in.order)
            order_perform(zygote, length);
        if (length > 0)
            descriptors_close();
    }
}

/* One order, if there is one. */
static void zygote_order_take(struct zygote_process *zygote)
{
    ssize_t length = order_receive();
    if (length >= (ssize_t)sizeof in.order) {
        order_perform(zygote, length);
        descriptors_close();
    } else if (length >= 0 || (errno != EAGAIN && errno != EINTR)) {
        zygote->worker_is_gone = true;
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

enum { ABOVE = 16, LINGER_LOOK_MS = 20, EXIT_NOT_READY = 1 };

static const int64_t END_NS = 10 * NS_PER_S;
static const int64_t END_WAIT_NS = 2 * NS_PER_S;

static int pid_descriptor(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* --- becoming one ------------------------------------------------------------------------------------------------- */

static bool descriptor_place(int from, int place)
{
    return from >= 0 && (from == place || dup3(from, place, O_CLOEXEC) == place);
}

/* Those that are kept are moved out of the way first: they may stand where others belong. */
static bool descriptors_arrange(struct log_options *log, int socket, int worker)
{
    bool has_log = log->path == NULL && log->fd > STDERR_FILENO;
    int kept_socket = fcntl(socket, F_DUPFD_CLOEXEC, ABOVE), kept_worker = fcntl(worker, F_DUPFD_CLOEXEC, ABOVE);
    int kept_log = has_log ? fcntl(log->fd, F_DUPFD_CLOEXEC, ABOVE) : -1;
    if (!descriptor_place(kept_socket, ZYGOTE_SOCKET) || !descriptor_place(kept_worker, ZYGOTE_WORKER))
        return false;
    if (has_log && !descriptor_place(kept_log, ZYGOTE_LOG))
        return false;
    log->fd = has_log ? ZYGOTE_LOG : log->fd;

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    return descriptor_place(signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC), ZYGOTE_SIGNALS) &&
           descriptor_place(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), ZYGOTE_ALARM) &&
           descriptor_place(open("/dev/null", O_RDWR | O_CLOEXEC), ZYGOTE_NOTHING) &&
           close_range(has_log ? ZYGOTE_LOG + 1 : ZYGOTE_LOG, ~0U, 0) == 0;
}

/* Whatever the worker or its parents had, children have the defaults. */
static void signals_reset(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        (void)sigaction(signal, &usual, NULL); /* some cannot be changed, and need not be */
}

static bool process_settle(void)
{
    signals_reset();
    prctl(PR_SET_NAME, "hf-zygote");
    (void)setpgid(0, 0); /* refused to the leader of a session, which has a group of its own */
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void signals_drain(void)
{
    struct signalfd_siginfo told[8];
    while (read(ZYGOTE_SIGNALS, told, sizeof told) == sizeof told)
        ;
}

static void turn_take(struct zygote_process *zygote)
{
    enum { SIGNALS, ALARM, SOCKET, WORKER };
    struct pollfd watched[] = {
        [SIGNALS] = {.fd = ZYGOTE_SIGNALS, .events = POLLIN},
        [ALARM] = {.fd = ZYGOTE_ALARM, .events = POLLIN},
        [SOCKET] = {.fd = ZYGOTE_SOCKET, .events = zygote->is_blocked ? POLLIN | POLLOUT : POLLIN},
        [WORKER] = {.fd = ZYGOTE_WORKER, .events = POLLIN}};
    if (poll(watched, sizeof watched / sizeof *watched, zygote->lingering > 0 ? LINGER_LOOK_MS : -1) < 0)
        return;
    if (watched[ALARM].revents != 0)
        zygote_alarm_rang(zygote);
    if (watched[SIGNALS].revents != 0)
        signals_drain();
    if (watched[SIGNALS].revents != 0 || zygote->lingering > 0)
        zygote_children_reap(zygote);
    if (watched[WORKER].revents != 0)
        zygote->worker_is_gone = true;
    if (watched[SOCKET].revents & (POLLIN | POLLHUP | POLLERR))
        zygote_order_take(zygote);
}

_Noreturn static void zygote_live(struct zygote_process *zygote, pid_t worker)
{
    while (!zygote->worker_is_gone) {
        zygote_deadlines_keep(zygote);
        zygote_children_tell(zygote);
        turn_take(zygote);
    }
    zygote_last_orders_take(zygote);
    zygote_children_kill_all(zygote);
    if (!zygote->has_said_good_bye) {
        log_take(&zygote->options.log);
        run_table_log(zygote->options.run_table, worker);
    }
    bool all_ended = zygote_strays_end(zygote, END_NS);
    if (!zygote->has_said_good_bye)
        zygote_on_worker_death(&zygote->options);
    _exit(all_ended ? 0 : 1);
}

/* --- the worker's side -------------------------------------------------------------------------------------------- */

_Noreturn static void zygote_become(const struct zygote_options *options, int socket, int worker_descriptor,
                                    pid_t worker)
{
    struct zygote_process zygote = {.options = *options, .armed = INSTANT_NEVER};
    if (!descriptors_arrange(&zygote.options.log, socket, worker_descriptor) || !process_settle())
        _exit(EXIT_NOT_READY);
    zygote_live(&zygote, worker);
}

/* With signals blocked from before, so that none meant for the worker's group reaches a zygote that is half made. */
static pid_t zygote_fork(const struct zygote_options *options, int socket, int worker_descriptor)
{
    sigset_t all, before;
    sigfillset(&all);
    fflush(NULL); /* or its children would write the worker's buffers a second time */
    pid_t worker = getpid();
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        zygote_become(options, socket, worker_descriptor, worker);
    int failure = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = failure;
    return pid;
}

bool zygote_start(struct zygote *zygote, const struct zygote_options *options, struct error *error)
{
    int ends[2], self = pid_descriptor(getpid());
    if (self < 0 || close_range(~0U, ~0U, 0) != 0) {
        if (self >= 0)
            close(self);
        return error_set(error,
                         "cannot run handlers outside of the worker: the kernel is too old (Linux 5.9 is needed)");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        close(self);
        return error_set(error, "cannot make a socket for the zygote: %s", strerror(errno));
    }
    zygote->socket = ends[0];
    zygote->pid = zygote_fork(options, ends[1], self);
    int failure = errno;
    close(self);
    close(ends[1]);
    if (zygote->pid > 0)
        return true;
    close(ends[0]);
    return error_set(error, "cannot fork the zygote: %s", strerror(failure));
}

static bool end_await(pid_t pid)
{
    struct pollfd ended = {.fd = pid_descriptor(pid), .events = POLLIN};
    if (ended.fd < 0)
        return false;
    struct instant limit = instant_after(instant_now(), END_WAIT_NS);
    int found;
    do {
        int64_t left_ns = instant_since(instant_now(), limit);
        found = poll(&ended, 1, left_ns > 0 ? (int)(left_ns / NS_PER_MS) : 0);
    } while (found < 0 && errno == EINTR);
    close(ended.fd);
    return found > 0;
}

void zygote_end(struct zygote *zygote)
{
    if (zygote->pid == 0)
        return;
    struct zygote_order bye = {.kind = ORDER_BYE};
    (void)!send(zygote->socket, &bye, sizeof bye, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(zygote->socket);
    zygote->socket = -1;
    if (!end_await(zygote->pid))
        kill(zygote->pid, SIGKILL);
    while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    zygote->pid = 0; /* the number may be somebody else's by now */
}
