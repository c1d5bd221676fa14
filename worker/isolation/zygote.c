/* The zygote's life: fork, release of everything that belongs to the worker, the loop, and the end. launcher.h says
 * what it is for. It has one thread, no libuv, and hardly any memory of its own. Its loop:
 *
 *     check the run table, kill overdue runs, set the alarm for the next deadline report spawns and exits of children
 *     wait for an order, a child's end, the alarm, or the worker's death one order
 *
 * It must never wait for the worker, which may be stopped: while the socket is full, reports stay with their children.
 *
 * It leads its own process group and blocks all signals, so signals of a terminal to the worker's group do not reach
 * it. It ends when the worker sends a good-bye, closes its end of the socket, or dies (a forked copy of the worker
 * might keep the socket open, so the zygote also watches a pidfd). */
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
#include "base/process.h"
#include "worker/isolation/launcher.h"
#include "worker/isolation/zygote_message.h"
#include "worker/plugin/plugin_programs.h"

/* The numbers of the zygote's own descriptors. They include the low numbers that a plan can use. So descriptors
 * received with orders have higher numbers, and children can move them down in any order. */
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
    pid_t pid; /* also its process group */
    enum {
        CHILD_FAILED, /* no process exists */
        CHILD_ALIVE,
        CHILD_LINGERS, /* reaped, but its killed descendants are not gone yet */
        CHILD_ENDED,
    } state;
    bool is_announced; /* its spawn was reported to the worker, or need not be */
    bool is_killed;    /* because its time was over */
    int failure;
    struct child_exit end;
    bool has_strays;              /* as of the last look */
    struct instant lingers_until; /* its exit is reported then, whatever is left of it */
};

struct zygote_process {
    struct zygote_options options;
    struct zygote_child *children;
    unsigned count, capacity;
    unsigned alive, lingering;
    bool has_news;   /* a child may have a report */
    bool is_blocked; /* by a full socket */
    struct instant armed;
    bool worker_is_gone, has_said_good_bye;
};

struct zygote_spawn {
    const struct zygote_options *options;
    const struct zygote_order *order;
    int descriptors[CHILD_DESCRIPTORS_MAX]; /* at least the first three */
    unsigned descriptor_count;
    char **arguments, **environment; /* of a program */
    const char *directory;
    int program; /* its file (O_PATH) */
    pid_t zygote;
    uint64_t mark; /* as of zygote_mark */
    volatile int failure;
};

static struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid);
static bool zygote_dead_reap(struct zygote_process *zygote);

/* --- last words --------------------------------------------------------------------------------------------------- */

/* Only the zygote can report what a worker was doing when it died: it still has the run table. It exits afterwards,
 * so it may allocate freely. */

/* " slot=... jid=... class=...", " plugin=..." or nothing. */
static const char *suspect_text(const struct run_table *run_table, char text[2 * LOG_QUOTE_MAX + 40])
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    const struct run_entry *run_entry = run_table_suspect(run_table);
    const char *plugin = run_table_suspect_plugin(run_table);
    text[0] = '\0';
    if (plugin != NULL)
        snprintf(text, 2 * LOG_QUOTE_MAX + 40, " plugin=%s", log_value(plugin, jid));
    if (run_entry != NULL)
        snprintf(text, 2 * LOG_QUOTE_MAX + 40, " slot=%u jid=%s class=%s",
                 (unsigned)(run_entry - run_table->run_entries), log_value(run_entry->jid, jid),
                 log_value(run_entry->class_name, class_name));
    return text;
}

/* A worker that abandoned a handler, or was stopped before it was up, ends without a good-bye, but has logged the
 * reason. Otherwise, without a recorded crash, it was killed, or a plugin ended it. */
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

/* Without a log thread, lines go directly to standard error, so standard error becomes the log. If the file cannot
 * be opened, lines go to the old standard error. */
static void log_take(const struct log_options *log)
{
    int file =
        log->path != NULL ? open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640) : log->fd;
    if (file >= 0 && file != STDERR_FILENO)
        dup2(file, STDERR_FILENO);
    log_set_level(log->level);
    log_set_format(log->format);
}

/* Runs after that, when all children are gone. */
static void zygote_on_worker_death(const struct zygote_options *options)
{
    const struct run_entry *suspect = run_table_suspect(options->run_table);
    if (suspect != NULL && options->on_worker_death != NULL)
        options->on_worker_death(options->context, options->run_table,
                                 (unsigned)(suspect - options->run_table->run_entries));
}

/* --- strays ------------------------------------------------------------------------------------------------------- */

/* Strays: descendants that left their process group (setsid, a daemon), found by a mark that each child inherits.
 *
 * The mark is the soft limit RLIMIT_LOCKS, which Linux has ignored since 2.4.25. Forks inherit it, and execve, an empty
 * environment and a new session keep it. The zygote may read it from every process of the same user, and setting it
 * takes no privilege. A process that changes it (`ulimit -x`) is a stray without a mark, as all are if the hard limit
 * is too low. Such a stray is killed when no child is alive, at the latest at the end.
 *
 * An orphan becomes a child of the zygote before its parent can be reaped. So while anything is left of a run, some
 * of it is a direct child of the zygote; each process that dies leaves its children to the zygote. */

enum { STRAY_POLL_MS = 5, LIST_BYTES_MAX = 64 * 1024, NUMBER_BITS = 40 };

/* The mark of the child with this number, for spawn->mark. It includes the zygote's pid, because a run may start
 * workers of its own. A pid has at most 22 bits. */
static uint64_t zygote_mark(uint64_t number)
{
    return (uint64_t)getpid() << NUMBER_BITS | (number & ((UINT64_C(1) << NUMBER_BITS) - 1));
}

/* The zygote's direct children, dead ones included, as text; "" if the kernel does not provide the list. */
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

/* 0 = the end of the list. A truncated number has no space after it; the next read finds it. */
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

/* Kills the strays of lingering children that are in the list, and sets has_strays of each. */
static void zygote_strays_kill(struct zygote_process *zygote, const char *list)
{
    for (unsigned i = 0; i < zygote->count; i++)
        zygote->children[i].has_strays = false;
    for (pid_t pid; (pid = children_next(&list)) > 0;) {
        struct zygote_child *child = zygote_child_of_pid(zygote, pid) == NULL ? lingering_of(zygote, pid) : NULL;
        if (child == NULL)
            continue;
        child->has_strays = true;
        kill(pid, SIGKILL);
    }
}

/* Kills all descendants, level by level, and reaps them; false if some are left after `limit_ns`. Only if no child
 * is alive. Each that dies leaves its children to the zygote, so there may be one round for each level. */
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

/* Children, from the spawn to the last report.
 *
 * A child leads a process group. When it has ended, the zygote kills the group before it reaps the leader, so that
 * the number cannot belong to another group. Other members of the group, and strays (zygote_strays_kill), become the
 * zygote's children when their parents die (it is a subreaper), and are reaped too. The exit is reported when the
 * group is empty and no stray is left. */

enum { CAPACITY_FIRST = 64 };

static const int64_t LINGER_NS = 10 * NS_PER_S;
static const int64_t STRAYS_NS = NS_PER_S / 5;

/* Adds a child in the state CHILD_FAILED. */
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

/* NULL if it is not alive. */
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

/* The unreaped leader with this pid. */
static struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid)
{
    for (unsigned i = 0; i < zygote->count; i++)
        if (zygote->children[i].pid == pid && zygote->children[i].state == CHILD_ALIVE)
            return &zygote->children[i];
    return NULL;
}

static void end_record(struct zygote_child *child, int wait_status)
{
    child->end.wait_status = wait_status;
    if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGKILL)
        child->end.killed_run = child->end.killed_run_entry = 0; /* it exited before the kill */
}

static void dead_reap(struct zygote_process *zygote, pid_t pid)
{
    struct zygote_child *child = zygote_child_of_pid(zygote, pid);
    if (child != NULL)
        kill(-pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return;
    if (child == NULL)
        return;
    end_record(child, status);
    child->state = CHILD_LINGERS;
    child->lingers_until = instant_after(instant_now(), LINGER_NS);
    zygote->alive--;
    zygote->lingering++;
}

/* The kernel does not reuse the number of an existing group. Reaped processes have left their children to the
 * zygote, so the search for strays comes after reaping. Without any children there is nothing to search. */
static void lingering_look(struct zygote_process *zygote, bool has_children)
{
    if (zygote->lingering > 0)
        zygote_strays_kill(zygote, has_children ? children_list() : "");
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

/* Reaps the dead; false if there are no children at all, not even strays. */
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

/* Reaps all dead children, and handles what they left behind. */
static void zygote_children_reap(struct zygote_process *zygote)
{
    bool has_children = zygote_dead_reap(zygote);
    if (has_children && zygote->alive == 0)
        has_children = !zygote_strays_end(zygote, STRAYS_NS);
    lingering_look(zygote, has_children);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

/* If the worker is gone, reports count as sent. */
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

/* Sends as many reports as the socket takes. */
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
 * A program starts as in posix_spawn: until execve the child shares the zygote's memory (on its own stack), so nothing
 * is copied, and the child can report there why execve failed. Until then it makes only direct system calls, because a
 * sanitizer's wrappers of libc functions would change the zygote's data. The zygote checks the file first and waits for
 * the execve, so a program on a file system that hangs delays all other starts and kills. The alternatives are worse: a
 * child with its own memory makes each start half as expensive again, and with a waiting thread the zygote could not
 * fork safely.
 *
 * A runner process is a plain fork of the zygote, which has this program in memory already.
 *
 * All children inherit from the zygote: no new privileges, and default signal actions (the zygote blocks signals and
 * does not ignore them). Its descriptors are close-on-exec. */

#define BARE __attribute__((no_sanitize("address", "undefined", "thread")))

/* The limit is RLIMIT_DATA, private memory that can be written, and not RLIMIT_AS: runtimes (V8, Go, the JVM) reserve
 * gigabytes of addresses that they cannot write yet. A sanitizer reserves so much that it can write that no limit would
 * be high enough. */
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

/* Never sets it above the hard limit, which takes privileges. */
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

/* If it cannot be set, strays of this child have no mark. */
BARE static void mark_set(uint64_t mark)
{
    struct rlimit limit;
    if (syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, NULL, &limit) != 0 || limit.rlim_max < mark)
        return;
    limit.rlim_cur = mark;
    syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, &limit, NULL);
}

/* If the zygote died before the child could ask to die with it, the child has another parent now. */
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

/* Executes the file that was checked. For a script the kernel answers ENOENT, because its interpreter could not open
 * a descriptor that is closed by then. So a script runs by its path, which its interpreter opens anyway. $0, by
 * which scripts find files beside them, remains correct. */
BARE static void program_execute(const struct zygote_spawn *spawn)
{
    syscall(SYS_execveat, spawn->program, "", spawn->arguments, spawn->environment, AT_EMPTY_PATH);
    if (errno == ENOENT)
        syscall(SYS_execve, spawn->arguments[0], spawn->arguments, spawn->environment);
}

/* The error says that it is about the directory (program_start_verdict). */
BARE static bool directory_enter(const char *directory)
{
    bool is_there = syscall(SYS_chdir, directory) == 0;
    if (!is_there)
        errno = ENOTDIR;
    return is_there;
}

BARE static int program_become(void *context)
{
    struct zygote_spawn *spawn = context;
    if (child_settle(spawn) && limit_set(RLIMIT_DATA, spawn->order->memory_bytes) &&
        directory_enter(spawn->directory)) {
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

/* Exits without the exit handlers of the worker, whose image this is. The buffers of stdio were empty when the
 * zygote was forked, so their content is the runner's own. */
_Noreturn static void runner_become(const struct zygote_spawn *spawn)
{
    int64_t memory = runners_have_memory_limit ? spawn->order->memory_bytes : 0;
    if (!child_settle(spawn) || close_range(spawn->descriptor_count, ~0U, 0) != 0 || !limit_set(RLIMIT_DATA, memory) ||
        !signals_unblock())
        _exit(EXIT_NOT_STARTED);
    prctl(PR_SET_NAME, "hf-runner");
    int status = spawn->options->runner(spawn->options->run_table, STDERR_FILENO + 1, spawn->options->context);
    fflush(stdout);
    _exit(status);
}

static pid_t runner_fork(const struct zygote_spawn *spawn)
{
    if (spawn->options->runner == NULL)
        return -ENOSYS;
    /* Not fork(): atfork handlers of the worker's libraries (libuv) would close descriptors that have other owners
     * here. */
    pid_t pid = _Fork();
    if (pid == 0)
        runner_become(spawn);
    if (pid < 0)
        return -errno;
    setpgid(pid, pid); /* the next kill of its group must find it */
    return pid;
}

/* --- killing on time ---------------------------------------------------------------------------------------------- */

/* The worker rings only for what is due before `wakes_at`, so the zygote stores that word first, and then checks the
 * run table again. An alarm that is too early stays; it expires without effect, and is then set again. */

static void overdue_kill(struct zygote_child *child, const struct run_table_verdict *verdict)
{
    /* A process that cannot die yet (it waits for a disk) needs no second signal. */
    if (child == NULL || child->is_killed)
        return;
    child->is_killed = true;
    child->end.killed_run = verdict->run;
    child->end.killed_run_entry = verdict->run_entry;
    kill(-child->pid, SIGKILL);
}

/* Returns when to look again. An unknown occupant is in an order on its way, or has just ended. */
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
        when.it_value.tv_nsec = 1; /* zero would disarm it */
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

/* Orders of the worker: one at a time, so that deadlines are checked in between. */

/* The received order. There is one at a time, and the zygote has one thread. */
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
    spawn->directory = "/";
    if (in.order.child_kind == CHILD_PROGRAM && in.order.has_directory) {
        char **last = spawn->environment + in.order.environment_count - 1;
        spawn->directory = *last;
        *last = NULL;
    }
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
        child->is_announced = in.order.is_quiet != 0;
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
        break; /* the deadlines are checked after every order */
    case ORDER_BYE:
        zygote->worker_is_gone = zygote->has_said_good_bye = true;
        break;
    }
}

/* Reads the worker's last orders; starts nothing. A worker that closes its socket with unread reports resets the
 * connection, and that error arrives before its last orders. */
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

/* Takes one order, if there is one. */
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

/* --- becoming one ------------------------------------------------------------------------------------------------- */

static bool descriptor_move(int from, int to)
{
    return from >= 0 && (from == to || dup3(from, to, O_CLOEXEC) == to);
}

/* Moves the kept descriptors out of the way first: they may have the numbers of others. */
static bool descriptors_arrange(struct log_options *log, int socket, int worker)
{
    bool has_log = log->path == NULL && log->fd > STDERR_FILENO;
    int kept_socket = fcntl(socket, F_DUPFD_CLOEXEC, ABOVE), kept_worker = fcntl(worker, F_DUPFD_CLOEXEC, ABOVE);
    int kept_log = has_log ? fcntl(log->fd, F_DUPFD_CLOEXEC, ABOVE) : -1;
    if (!descriptor_move(kept_socket, ZYGOTE_SOCKET) || !descriptor_move(kept_worker, ZYGOTE_WORKER))
        return false;
    if (has_log && !descriptor_move(kept_log, ZYGOTE_LOG))
        return false;
    log->fd = has_log ? ZYGOTE_LOG : log->fd;

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    return descriptor_move(signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC), ZYGOTE_SIGNALS) &&
           descriptor_move(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), ZYGOTE_ALARM) &&
           descriptor_move(open("/dev/null", O_RDWR | O_CLOEXEC), ZYGOTE_NOTHING) &&
           close_range(has_log ? ZYGOTE_LOG + 1 : ZYGOTE_LOG, ~0U, 0) == 0;
}

/* Children get the default actions, whatever the worker or its parents had. */
static void signals_reset(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        (void)sigaction(signal, &usual, NULL); /* some signals cannot be changed, and need not be */
}

static bool process_settle(void)
{
    signals_reset();
    prctl(PR_SET_NAME, "hf-zygote");
    (void)setpgid(0, 0); /* fails for the leader of a session, which has its own group */
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void signals_drain(void)
{
    struct signalfd_siginfo told[8];
    while (read(ZYGOTE_SIGNALS, told, sizeof told) == sizeof told)
        ;
}

static void cycle_run(struct zygote_process *zygote)
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
        cycle_run(zygote);
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

/* Blocks signals before the fork, so that none for the worker's group reaches an unfinished zygote. */
static pid_t zygote_fork(const struct zygote_options *options, int socket, int worker_descriptor)
{
    sigset_t all, before;
    sigfillset(&all);
    fflush(NULL); /* or its children would write the worker's buffers again */
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
    int ends[2], self = process_descriptor(getpid());
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
    struct pollfd ended = {.fd = process_descriptor(pid), .events = POLLIN};
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
    zygote->pid = 0; /* another process may have the number now */
}
