/* The zygote's life: fork, getting rid of everything that is the worker's, the loop, and the end.
 *
 * It leads a process group of its own and blocks all signals, so what a terminal sends to the worker's group does not
 * concern it. It ends when the worker says good-bye, closes its end of the socket, or is dead (a forked copy of the
 * worker might hold the socket open, so there is a pidfd as well). */
#include "worker/isolation/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ABOVE = 16, LINGER_LOOK_MS = 20, EXIT_NOT_READY = 1 };

static const int64_t END_NS = 10 * NS_PER_S;
static const int64_t END_WAIT_NS = 2 * NS_PER_S;

static int pid_descriptor(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* --- becoming one ----------------------------------------------------------------------------------------------- */

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

/* --- the loop --------------------------------------------------------------------------------------------------- */

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
    if (!zygote->has_said_good_bye)
        zygote_obituary_log(&zygote->options, worker);
    bool all_ended = zygote_strays_end(zygote, END_NS);
    if (!zygote->has_said_good_bye)
        zygote_mourn(&zygote->options);
    _exit(all_ended ? 0 : 1);
}

/* --- the worker's side ------------------------------------------------------------------------------------------ */

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
