/* The death of the coordinator shows by a descriptor of its process, not by the end of a pipe: workers inherit the
 * pipe. The pipe brings process numbers, and 0 for an orderly end. Of each process it opens a descriptor at once, so
 * that what it kills later is that process and no other that got its number. */
#include "worker/dry_run/nodes/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/nodes/name_space.h"
#include "worker/servers/private_server.h"

enum { LIFE_S = 60, REMOVAL_LIFE_S = 7500, WATCHED_MAX = 512, PIPE_END = STDERR_FILENO + 1, OWNER_END };
/* To walk through all keys of production takes its time; but a node that is not there is not waited for. */
#define REMOVAL_LIMIT_NS (3600 * NS_PER_S)
#define SILENCE_NS       (25 * NS_PER_S)
#define DEATH_LIMIT_MS   5000
#define LOOK_MS          20
/* Remote hosts hear that the run is over when its record is gone, and have their last words then. */
#define HOSTS_LIMIT_MS 3000
#define NODE_SHARE     0.2

struct cleanup {
    pid_t pid, owner;
    int pipe;
};

/* --- the process -------------------------------------------------------------------------------------------------- */

/* What it is given: a descriptor of the coordinator's process, and the pipe. */
struct cleanup_ends {
    int owner, pipe[2];
};

struct watched {
    int descriptors[WATCHED_MAX];
    unsigned count;
};

static int process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0U);
}

/* Takes what is in the pipe; true when it tells of an orderly end. */
static bool news_take(struct watched *watched)
{
    pid_t pid = -1;
    while (read(PIPE_END, &pid, sizeof pid) == sizeof pid) {
        if (pid == 0)
            return true;
        /* One that has ended already has no descriptor, and needs none. */
        int descriptor = watched->count < WATCHED_MAX ? process_open(pid) : -1;
        if (descriptor >= 0)
            watched->descriptors[watched->count++] = descriptor;
    }
    return false;
}

/* True after an orderly end, false when the coordinator is dead. */
static bool coordinator_await(struct watched *watched)
{
    struct pollfd both[] = {{.fd = PIPE_END, .events = POLLIN}, {.fd = OWNER_END, .events = POLLIN}};
    for (;;) {
        if (poll(both, 2, -1) < 0 && errno != EINTR)
            return false;
        if (news_take(watched))
            return true;
        if (both[1].revents != 0)
            return news_take(watched);
        if ((both[0].revents & POLLIN) == 0 && both[0].revents != 0)
            both[0].fd = -1; /* nobody has the other end any more: the descriptor of the process tells the rest */
    }
}

struct cleaning {
    struct loop *loop;
    bool is_clean;
};

static void removed(void *context, const struct removal_end *end)
{
    struct cleaning *cleaning = context;
    cleaning->is_clean = end->is_clean;
    loop_stop(cleaning->loop);
}

static bool names_remove(const struct cleanup_options *options)
{
    struct error error = ERROR_NONE;
    struct cleaning cleaning = {.loop = loop_create(&error)};
    if (cleaning.loop == NULL)
        return false;
    struct name_space *space = name_space_open(&(struct name_space_options){.loop = cleaning.loop,
                                                                            .config = options->config,
                                                                            .run = options->run,
                                                                            .node_share = NODE_SHARE,
                                                                            .silence_ns = SILENCE_NS,
                                                                            .context = &cleaning});
    name_space_delete(space, REMOVAL_LIMIT_NS, removed);
    loop_run(cleaning.loop);
    name_space_close(space);
    loop_destroy(cleaning.loop);
    return cleaning.is_clean;
}

static void nodes_clean(const struct cleanup_options *options)
{
    alarm(REMOVAL_LIFE_S);
    (void)names_remove(options);
    poll(NULL, 0, HOSTS_LIMIT_MS);
    if (!names_remove(options))
        log_event(LOG_WARN, "dry_run_left_keys", "run=%s advice=\"the next dry run on these nodes removes them\"",
                  options->run);
}

/* The three standard descriptors, two of our own, and no other: a reader of the coordinator's output waits for its end,
 * and must not wait for ours. */
static bool descriptors_settle(const struct cleanup_ends *ends)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int owner = fcntl(ends->owner, F_DUPFD_CLOEXEC, OWNER_END + 1);
    int pipe = fcntl(ends->pipe[0], F_DUPFD_CLOEXEC, OWNER_END + 1);
    return nothing >= 0 && owner >= 0 && pipe >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
           dup2(nothing, STDOUT_FILENO) >= 0 && dup2(pipe, PIPE_END) >= 0 && dup2(owner, OWNER_END) >= 0 &&
           close_range(OWNER_END + 1, ~0U, 0) == 0 && fcntl(PIPE_END, F_SETFL, O_NONBLOCK) == 0;
}

_Noreturn static void cleanup_become(const struct cleanup_options *options, const struct cleanup_ends *ends)
{
    struct watched watched = {.count = 0};
    prctl(PR_SET_NAME, "hf-cleanup");
    if (!descriptors_settle(ends))
        _exit(1);
    if (coordinator_await(&watched))
        _exit(0);
    signal(SIGALRM, SIG_DFL);
    alarm(LIFE_S);
    log_set_level(LOG_WARN);
    for (unsigned i = 0; i < watched.count; i++)
        syscall(SYS_pidfd_send_signal, watched.descriptors[i], SIGKILL, NULL, 0U);
    for (unsigned i = 0; i < watched.count; i++) {
        struct pollfd gone = {.fd = watched.descriptors[i], .events = POLLIN};
        poll(&gone, 1, DEATH_LIMIT_MS);
    }
    if (options->directory != NULL) {
        /* A server that nobody told of dies with the coordinator too, but may still be opening a file. */
        for (unsigned ms = 0; !temporary_directory_remove(options->directory) && ms < DEATH_LIMIT_MS; ms += LOOK_MS)
            poll(NULL, 0, LOOK_MS);
    }
    if (options->config != NULL)
        nodes_clean(options);
    _exit(0);
}

/* --- the coordinator's side --------------------------------------------------------------------------------------- */

/* No signal comes before it is ready to ignore it. */
static pid_t cleanup_fork(const struct cleanup_options *options, const struct cleanup_ends *ends)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
        for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
            signal(ignored[i], SIG_IGN);
        setsid();
        sigprocmask(SIG_SETMASK, &before, NULL);
        cleanup_become(options, ends);
    }
    int reason = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return pid;
}

struct cleanup *cleanup_start(const struct cleanup_options *options, struct error *error)
{
    struct cleanup_ends ends = {.owner = process_open(getpid()), .pipe = {-1, -1}};
    pid_t pid = ends.owner >= 0 && pipe2(ends.pipe, O_CLOEXEC) == 0 ? cleanup_fork(options, &ends) : -1;
    int reason = errno;
    if (ends.owner >= 0)
        close(ends.owner);
    if (ends.pipe[0] >= 0)
        close(ends.pipe[0]);
    if (pid < 0) {
        if (ends.pipe[1] >= 0)
            close(ends.pipe[1]);
        error_set(error, "the process that cleans up after a kill cannot be started: %s", strerror(reason));
        return NULL;
    }
    struct cleanup *cleanup = memory_new(struct cleanup);
    *cleanup = (struct cleanup){.pid = pid, .owner = getpid(), .pipe = ends.pipe[1]};
    return cleanup;
}

/* A cleanup process that is gone is none: SIGPIPE would be for the coordinator, if it has no loop yet. */
static void tell(const struct cleanup *cleanup, pid_t pid)
{
    sigset_t broken, before;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigprocmask(SIG_BLOCK, &broken, &before);
    if (write(cleanup->pipe, &pid, sizeof pid) < 0 && errno == EPIPE && sigismember(&before, SIGPIPE) == 0)
        sigtimedwait(&broken, NULL, &(struct timespec){0});
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void cleanup_watch(struct cleanup *cleanup, pid_t pid)
{
    if (cleanup != NULL && cleanup->owner == getpid() && pid > 0)
        tell(cleanup, pid);
}

void cleanup_dismiss(struct cleanup *cleanup)
{
    if (cleanup == NULL || cleanup->owner != getpid())
        return;
    tell(cleanup, 0);
    close(cleanup->pipe);
    while (waitpid(cleanup->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(cleanup);
}

void cleanup_leave(struct cleanup *cleanup)
{
    if (cleanup == NULL || cleanup->owner != getpid())
        return;
    close(cleanup->pipe);
    free(cleanup);
}

pid_t cleanup_pid(const struct cleanup *cleanup)
{
    return cleanup->pid;
}
