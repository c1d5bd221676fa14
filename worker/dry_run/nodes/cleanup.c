/* The death of the trial's process shows by a descriptor of it: the end of a pipe would not, for workers inherit the
 * pipe. */
#include "worker/dry_run/nodes/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "worker/dry_run/nodes/name_space.h"
#include "worker/servers/private_server.h"

enum { LIFE_S = 60, REMOVAL_LIFE_S = 7500, OWNER_END = STDERR_FILENO + 1 };
/* To walk through all keys of production takes its time; but a node that is not there is not waited for. */
#define REMOVAL_LIMIT_NS (3600 * NS_PER_S)
#define SILENCE_NS       (25 * NS_PER_S)
#define DEATH_LIMIT_MS   5000
#define LOOK_MS          20
/* By then the last calls of workers that were killed have arrived. */
#define CALLS_LIMIT_MS 3000
#define NODE_SHARE     0.2

/* --- the process -------------------------------------------------------------------------------------------------- */

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
                                                                            .host = options->host,
                                                                            .hosts = options->hosts,
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
    poll(NULL, 0, CALLS_LIMIT_MS);
    if (!names_remove(options))
        log_event(LOG_WARN, "dry_run_left_keys", "run=%s advice=\"the next dry run on these nodes removes them\"",
                  options->run);
}

/* The three standard descriptors, that of the trial's process, and no other: a reader of its output waits for
 * its end, and must not wait for ours. */
static bool descriptors_settle(int owner)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    owner = fcntl(owner, F_DUPFD_CLOEXEC, OWNER_END + 1);
    return nothing >= 0 && owner >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
           dup2(owner, OWNER_END) >= 0 && close_range(OWNER_END + 1, ~0U, 0) == 0;
}

_Noreturn static void cleanup_become(const struct cleanup_options *options, int owner)
{
    struct pollfd death = {.fd = OWNER_END, .events = POLLIN};
    prctl(PR_SET_NAME, "hf-cleanup");
    if (!descriptors_settle(owner))
        _exit(1);
    while (poll(&death, 1, -1) < 0 && errno == EINTR)
        ;
    signal(SIGALRM, SIG_DFL);
    alarm(LIFE_S);
    log_set_level(LOG_WARN);
    if (options->directory != NULL) {
        /* The servers die with the trial's process, but may still be opening a file. */
        for (unsigned ms = 0; !temporary_directory_remove(options->directory) && ms < DEATH_LIMIT_MS; ms += LOOK_MS)
            poll(NULL, 0, LOOK_MS);
    }
    if (options->config != NULL)
        nodes_clean(options);
    _exit(0);
}

/* --- the trial's side --------------------------------------------------------------------------------------- */

/* No signal comes before it is ready to ignore it. */
static pid_t cleanup_fork(const struct cleanup_options *options, int owner)
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
        cleanup_become(options, owner);
    }
    int reason = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return pid;
}

pid_t cleanup_start(const struct cleanup_options *options, struct error *error)
{
    int owner = process_descriptor(getpid());
    pid_t pid = owner >= 0 ? cleanup_fork(options, owner) : -1;
    if (pid < 0)
        error_set(error, "the process that cleans up after a kill cannot be started: %s", strerror(errno));
    if (owner >= 0)
        close(owner);
    return pid > 0 ? pid : 0;
}

void cleanup_dismiss(pid_t cleanup)
{
    if (cleanup == 0 || waitpid(cleanup, NULL, WNOHANG) != 0) /* it has ended, or is not a child */
        return;
    kill(cleanup, SIGKILL);
    while (waitpid(cleanup, NULL, 0) < 0 && errno == EINTR)
        ;
}
