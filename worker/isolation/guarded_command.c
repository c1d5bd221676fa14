#include "worker/isolation/guarded_command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/process.h"

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, PASSED_MAX = 64 };

/* --- messages between this process and the minder ----------------------------------------------------------------- */

enum minder_kind {
    MINDER_PASS,    /* to the minder: descriptors of the command, and their numbers there */
    MINDER_START,   /* `value` is the token; the first number the seat, 0 = there is only one */
    MINDER_EXECUTE, /* after MINDER_STARTED */
    MINDER_SIGNAL,  /* `value` is the signal */
    MINDER_STARTED, /* from the minder: `value` is the pid. The command has its process group, and waits */
    MINDER_STOPPED, /* the command was stopped */
    MINDER_ENDED,   /* `value` is the wait status */
};

struct minder_message {
    uint32_t kind, count;
    uint64_t value;
    int numbers[PASSED_MAX];
};

union rights {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
};

static bool message_send(int socket, const struct minder_message *message, const int *descriptors, int flags)
{
    union rights rights = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    size_t size = message->count * sizeof(int);
    if (size > 0) {
        header.msg_control = rights.bytes;
        header.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *control = CMSG_FIRSTHDR(&header);
        *control = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
        memcpy(CMSG_DATA(control), descriptors, size);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, flags | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message;
}

/* Returns how many descriptors came; -1: no message. */
static int message_receive(int socket, struct minder_message *message, int descriptors[PASSED_MAX])
{
    union rights rights;
    struct iovec part = {message, sizeof *message};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
    ssize_t length = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length != (ssize_t)sizeof *message)
        return -1;
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);
    size_t bytes = control != NULL && control->cmsg_type == SCM_RIGHTS ? control->cmsg_len - CMSG_LEN(0) : 0;
    if (bytes > 0)
        memcpy(descriptors, CMSG_DATA(control), bytes);
    return (int)(bytes / sizeof(int));
}

/* --- the command, from the fork to the execution ------------------------------------------------------------------ */

/* The minder is a fork of the zygote, a process with one thread, so it and its child may use all of libc. */

enum { MINDER_SOCKET, MINDER_CHILDREN, MINDER_ALARM, MINDER_WATCHED };

struct minder {
    const struct guarded_command *command;
    struct run_entry *run_entry;
    struct pollfd watched[MINDER_WATCHED];
    int deadline; /* the minder's end of the command's pipe */
    int gate;     /* likewise: the command waits for a byte before it is executed; -1 = it has it */
    pid_t pid;    /* of the command; 0 = not started */
    bool in_danger;
    int *descriptors, *numbers; /* that the command gets */
    size_t count;
};

/* -1 when there is no room. */
static int descriptor_raise(int descriptor, int above)
{
    int raised = descriptor > above ? descriptor : fcntl(descriptor, F_DUPFD_CLOEXEC, above + 1);
    if (raised >= 0 && raised != descriptor)
        close(descriptor);
    return raised;
}

/* First all go above the highest number that one of them is to have, so that none is in the way of another; so does the
 * one of the deadline. Without room there, the command does not start. */
static bool descriptors_move(const struct minder *minder, int *deadline)
{
    int above = STDERR_FILENO;
    for (size_t i = 0; i < minder->count; i++)
        above = minder->numbers[i] > above ? minder->numbers[i] : above;
    for (size_t i = 0; i < minder->count; i++)
        if ((minder->descriptors[i] = descriptor_raise(minder->descriptors[i], above)) < 0)
            return false;
    if ((*deadline = descriptor_raise(*deadline, above)) < 0)
        return false;
    for (size_t i = 0; i < minder->count; i++)
        if (dup2(minder->descriptors[i], minder->numbers[i]) < 0)
            return false;
    return true;
}

static void number_set(const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    setenv(name, text, 1);
}

/* SIGTTOU is only blocked, so that this process may always write to its terminal. */
static const int relayed[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1, SIGUSR2,
                              SIGALRM, SIGCONT, SIGTSTP, SIGWINCH, SIGTTIN, SIGTTOU};
enum { RELAYED = sizeof relayed / sizeof relayed[0] };

static sigset_t signals_relayed(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < RELAYED; i++)
        sigaddset(&set, relayed[i]);
    return set;
}

static bool signals_restore(const struct guarded_command *command)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&command->ignored, number) == 1)
            (void)sigaction(number, &ignore, NULL);
    return sigprocmask(SIG_SETMASK, &command->blocked, NULL) == 0;
}

/* Without a byte the minder has died, and the command must not begin. */
static void gate_await(int gate)
{
    char byte;
    ssize_t length;
    do
        length = read(gate, &byte, 1);
    while (length < 0 && errno == EINTR);
    if (length != 1)
        _exit(EXIT_NOT_EXECUTABLE);
    close(gate);
}

_Noreturn static void command_become(const struct minder *minder, int deadline, int gate,
                                     const struct minder_message *order, pid_t parent)
{
    const struct guarded_command *command = minder->command;
    const char *program = command->arguments[0];
    bool is_good = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
    if (getppid() != parent)
        _exit(EXIT_NOT_EXECUTABLE);
    gate_await(gate);
    /* The minder's own are closed here: their numbers may be needed. */
    for (int i = 0; i < MINDER_WATCHED; i++)
        close(minder->watched[i].fd);
    is_good = is_good && descriptors_move(minder, &deadline);
    int told = is_good ? fcntl(deadline, F_DUPFD, STDERR_FILENO + 1) : -1;
    if (told >= 0) {
        number_set("HOLDFAST_DEADLINE_FD", (uint64_t)told);
        if (order->value > 0)
            number_set("HOLDFAST_FENCE", order->value);
        if (order->numbers[0] > 0)
            number_set("HOLDFAST_SEAT", (uint64_t)order->numbers[0]);
        if (signals_restore(command))
            execvp(program, command->arguments);
    }
    int failure = errno;
    fprintf(stderr, "holdfast lock: %s: %s\n", program, strerror(failure));
    _exit(failure == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* --- the minder --------------------------------------------------------------------------------------------------- */

enum { DANGER_LOOK_MS = 50 };

static void alarm_set(const struct minder *minder, int64_t at)
{
    struct itimerspec when = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
    (void)timerfd_settime(minder->watched[MINDER_ALARM].fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* The loop moves the danger with each extension without a notice to the minder, so the minder looks again then. A
 * command that is not executed yet cannot handle the signal, and would die of it: it finds the pipe readable. */
static void danger_look(struct minder *minder)
{
    int64_t from = atomic_load(&minder->run_entry->validity.danger_from), now = instant_now().ns;
    bool is_held = from != 0;
    if (!is_held || now < from) {
        minder->in_danger = false;
        if (is_held)
            alarm_set(minder, from);
        return;
    }
    if (!minder->in_danger) {
        minder->in_danger = true;
        (void)!write(minder->deadline, "danger\n", strlen("danger\n"));
        if (minder->command->signals_danger && minder->gate < 0)
            kill(minder->pid, SIGUSR1);
    }
    alarm_set(minder, now + DANGER_LOOK_MS * NS_PER_MS);
}

static void minder_tell(const struct minder *minder, enum minder_kind kind, uint64_t value, int flags)
{
    const struct minder_message message = {.kind = kind, .value = value};
    (void)message_send(minder->watched[MINDER_SOCKET].fd, &message, NULL, flags);
}

/* The command does not run, and has the exit status of a shell for that. */
_Noreturn static void command_give_up(const struct minder *minder, const char *lack)
{
    fprintf(stderr, "holdfast lock: no %s for the command: %s\n", lack, strerror(errno));
    minder_tell(minder, MINDER_ENDED, EXIT_NOT_EXECUTABLE << 8, 0);
    _exit(0);
}

/* Until it is executed the command blocks the signals of a terminal, so from the moment at which it is in the process
 * group none of them is lost, and none comes twice. */
static void command_start(struct minder *minder, const struct minder_message *order)
{
    int ends[2], gate[2];
    pid_t self = getpid();
    sigset_t relayed_ones = signals_relayed(), before;
    if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(gate, O_CLOEXEC) != 0)
        command_give_up(minder, "pipe");
    sigprocmask(SIG_BLOCK, &relayed_ones, &before);
    pid_t pid = _Fork(); /* see runner_fork in zygote.c */
    if (pid == 0) {
        close(ends[1]);
        close(gate[1]);
        command_become(minder, ends[0], gate[0], order, self);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    close(gate[0]);
    for (size_t i = 0; i < minder->count; i++)
        close(minder->descriptors[i]);
    if (pid < 0)
        command_give_up(minder, "process");
    (void)setpgid(pid, minder->command->group); /* fails when the group is gone, and then it does not matter */
    minder->deadline = ends[1];
    minder->gate = gate[1];
    (void)fcntl(minder->deadline, F_SETFL, O_NONBLOCK);
    minder->pid = pid;
    minder_tell(minder, MINDER_STARTED, (uint64_t)pid, 0);
    danger_look(minder);
}

/* After a standstill the order may be older than the lock. Then the command does not begin, and the zygote ends it. */
static void command_execute(struct minder *minder)
{
    if (redlock_validity_left_ns(&minder->run_entry->validity) == 0)
        return;
    (void)!write(minder->gate, "", 1);
    close(minder->gate);
    minder->gate = -1;
}

/* False at the end of the command. */
static bool command_look(const struct minder *minder)
{
    struct signalfd_siginfo told[4];
    (void)!read(minder->watched[MINDER_CHILDREN].fd, told, sizeof told);
    for (int status; waitpid(minder->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == minder->pid;) {
        if (WIFSTOPPED(status)) {
            minder_tell(minder, MINDER_STOPPED, 0, MSG_DONTWAIT);
        } else if (WIFCONTINUED(status)) {
            kill(minder->command->owner, SIGCONT); /* it may have stopped because the command did */
        } else {
            minder_tell(minder, MINDER_ENDED, (uint64_t)status, 0);
            return false;
        }
    }
    return true;
}

static void descriptors_take(struct minder *minder, const struct minder_message *message, const int *descriptors,
                             size_t count)
{
    minder->descriptors = memory_resize(minder->descriptors, minder->count + count, sizeof(int));
    minder->numbers = memory_resize(minder->numbers, minder->count + count, sizeof(int));
    memcpy(minder->descriptors + minder->count, descriptors, count * sizeof(int));
    memcpy(minder->numbers + minder->count, message->numbers, count * sizeof(int));
    minder->count += count;
}

static void orders_take(struct minder *minder)
{
    struct minder_message message;
    int descriptors[PASSED_MAX];
    for (int count; (count = message_receive(minder->watched[MINDER_SOCKET].fd, &message, descriptors)) >= 0;) {
        if (message.kind == MINDER_PASS && (size_t)count == message.count) {
            descriptors_take(minder, &message, descriptors, (size_t)count);
        } else if (message.kind == MINDER_PASS) {
            fprintf(stderr, "holdfast lock: too many files are open for those that the command gets\n");
            _exit(1);
        } else if (message.kind == MINDER_START && minder->pid == 0) {
            command_start(minder, &message);
        } else if (message.kind == MINDER_EXECUTE && minder->gate >= 0) {
            command_execute(minder);
        } else if (message.kind == MINDER_SIGNAL && minder->pid != 0) {
            kill(minder->pid, (int)message.value);
        }
    }
}

/* Runs in the child of the zygote. Returns when the command or the process that wanted it has ended; then the zygote
 * ends all. */
static int minder_main(struct run_table *run_table, int socket, const void *context)
{
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    struct minder minder = {.command = context, .run_entry = run_table_entry(run_table, 0), .deadline = -1, .gate = -1};
    prctl(PR_SET_NAME, "hf-minder");
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
    sigprocmask(SIG_BLOCK, &children, NULL);
    minder.watched[MINDER_SOCKET] = (struct pollfd){socket, POLLIN, 0};
    minder.watched[MINDER_CHILDREN] = (struct pollfd){signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0};
    minder.watched[MINDER_ALARM] =
        (struct pollfd){timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), POLLIN, 0};
    for (int i = 0; i < MINDER_WATCHED; i++)
        if (minder.watched[i].fd < 0)
            return 1;
    for (;;) {
        uint64_t times;
        if (poll(minder.watched, MINDER_WATCHED, -1) < 0)
            continue;
        if (minder.watched[MINDER_ALARM].revents != 0 &&
            read(minder.watched[MINDER_ALARM].fd, &times, sizeof times) == sizeof times)
            danger_look(&minder);
        if (minder.watched[MINDER_CHILDREN].revents != 0 && minder.pid != 0 && !command_look(&minder))
            return 0;
        if (minder.watched[MINDER_SOCKET].revents & POLLIN)
            orders_take(&minder);
        if (minder.watched[MINDER_SOCKET].revents & ~POLLIN) /* its end can be read, too */
            return 1;
    }
}

/* --- before there are threads ------------------------------------------------------------------------------------- */

int guarded_command_check(const char *program, struct error *error)
{
    struct buffer path = {0};
    struct stat facts;
    int failure = ENOENT;
    const char *directories = getenv("PATH");
    char *list = memory_text(strchr(program, '/') != NULL ? "" : directories != NULL ? directories : "/bin:/usr/bin");
    char *rest = list;
    for (char *directory; program[0] != '\0' && failure != 0 && (directory = strsep(&rest, ":")) != NULL;) {
        buffer_clear(&path);
        buffer_format(&path, "%s%s%s", directory, directory[0] != '\0' ? "/" : "", program);
        if (stat(buffer_text(&path), &facts) != 0)
            failure = failure == ENOENT && errno != ENOTDIR ? errno : failure;
        else
            failure = S_ISDIR(facts.st_mode) ? EISDIR : access(buffer_text(&path), X_OK) == 0 ? 0 : errno;
    }
    free(list);
    buffer_fini(&path);
    if (failure == 0)
        return 0;
    error_set(error, "%s", failure == ENOENT ? "there is no such command" : strerror(failure));
    return failure == ENOENT || failure == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* One above the limit, from before it was lowered, cannot be passed on: nobody can get such a number any more. */
static bool is_inherited(int descriptor)
{
    struct rlimit limit;
    int flags = fcntl(descriptor, F_GETFD);
    return descriptor > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC) && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (rlim_t)descriptor < limit.rlim_cur;
}

static bool descriptors_list(struct guarded_command *command, struct error *error)
{
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        return error_set(error, "/proc/self/fd cannot be read: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (!is_inherited(descriptor))
            continue;
        command->inherited = memory_resize(command->inherited, command->inherited_count + 1, sizeof(int));
        command->inherited[command->inherited_count++] = descriptor;
    }
    closedir(directory);
    return true;
}

static void signals_take(struct guarded_command *command)
{
    sigset_t set = signals_relayed();
    sigemptyset(&command->ignored);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&command->ignored, number);
    }
    sigprocmask(SIG_BLOCK, &set, &command->blocked);
}

/* What a killed command may have done to the terminal is undone. */
static void terminal_take(struct guarded_command *command)
{
    command->terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (command->terminal < 0)
        return;
    if (tcgetpgrp(command->terminal) == getpgrp() && tcgetattr(command->terminal, &command->modes) == 0)
        return;
    close(command->terminal);
    command->terminal = -1;
}

static void terminal_restore(const struct guarded_command *command)
{
    if (command->terminal < 0)
        return;
    (void)tcsetpgrp(command->terminal, getpgrp());
    (void)tcsetattr(command->terminal, TCSANOW, &command->modes);
}

/* 0 to 2 have to be open before anything else gets their numbers. */
static bool descriptors_fill(void)
{
    int last;
    do
        last = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (last >= 0 && last <= STDERR_FILENO);
    if (last >= 0)
        close(last);
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0)
            return false;
    return true;
}

bool guarded_command_prepare(struct guarded_command *command, struct error *error)
{
    command->socket = command->signals = command->end = command->terminal = -1;
    command->owner = getpid();
    command->group = getpgrp();
    unsetenv("HOLDFAST_FENCE"); /* of an outer lock */
    unsetenv("HOLDFAST_SEAT");
    signals_take(command);
    if (!descriptors_fill())
        return error_set(error, "/dev/null cannot be opened: %s", strerror(errno));
    if (!descriptors_list(command, error))
        return false;
    terminal_take(command);
    command->run_table = run_table_create(1);
    if (command->run_table == NULL)
        return error_set(error, "out of memory");
    return zygote_start(&command->zygote,
                        &(struct zygote_options){.run_table = command->run_table,
                                                 .runner = minder_main,
                                                 .log = {.level = LOG_NOTHING, .fd = STDERR_FILENO},
                                                 .context = command},
                        error);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void minder_order(struct guarded_command *command, enum minder_kind kind, uint64_t value)
{
    const struct minder_message message = {.kind = kind, .value = value};
    (void)message_send(command->socket, &message, NULL, MSG_DONTWAIT);
}

/* Its child may have stopped it, as any process may stop its parent. */
static void minder_continue(const struct guarded_command *command)
{
    if (command->minder > 0)
        kill(command->minder, SIGCONT);
}

/* As the signal would have done, had it not been blocked; returns when this process was continued. */
static void stop_here(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
}

/* A terminal sends its signals to the whole process group, so a command that executes has them already. What the
 * caller ignores (nohup) has no effect here either. Once the command has ended, nobody else hears that it should. */
static void signal_take(struct guarded_command *command, const struct signalfd_siginfo *told)
{
    int number = (int)told->ssi_signo;
    bool stops = number == SIGTSTP || number == SIGTTIN;
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    bool runs = command->was_started && command->minder > 0 && !command->has_status;
    if (runs && (!command->executes || told->ssi_code != SI_KERNEL))
        minder_order(command, MINDER_SIGNAL, (uint64_t)number);
    if (runs && command->executes) /* also for one that the command has already, which it may stop by */
        minder_continue(command);
    if (runs || sigismember(&command->ignored, number) == 1)
        return;
    if (stops && !command->was_started)
        stop_here(number);
    else if (ends)
        command->interrupted(command->context, number);
}

static void signals_ready(void *context, int events)
{
    struct guarded_command *command = context;
    struct signalfd_siginfo told;
    (void)events;
    while (command->signals >= 0 && read(command->signals, &told, sizeof told) == sizeof told)
        signal_take(command, &told);
}

/* The report may be older than its continuation. */
static bool command_is_stopped(const struct guarded_command *command)
{
    char path[40], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)command->pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    (void)!read(file, text, sizeof text - 1);
    close(file);
    const char *behind_name = strrchr(text, ')');
    return behind_name != NULL && strncmp(behind_name, ") T", 3) == 0;
}

/* A terminal's stop ends in the shell that waits for this process: only when the command has stopped may it get its
 * terminal back, or the command could still read what is typed to the shell. And a command that does not stop keeps
 * the terminal, as without this process. */
static void command_stopped(const struct guarded_command *command)
{
    if (command_is_stopped(command))
        stop_here(SIGTSTP);
}

static void end_watch_stop(struct guarded_command *command)
{
    if (command->end_watch != NULL)
        loop_watch_stop(command->end_watch);
    command->end_watch = NULL;
    if (command->end >= 0)
        close(command->end);
    command->end = -1;
}

static void end_ready(void *context, int events)
{
    struct guarded_command *command = context;
    (void)events;
    end_watch_stop(command);
    minder_continue(command);
}

/* Where the kernel gives no such descriptor, only a minder that is stopped does not report the end. */
static void end_watch_start(struct guarded_command *command)
{
    command->end = process_descriptor(command->pid);
    if (command->end >= 0)
        command->end_watch = loop_watch_start(command->loop, command->end, LOOP_READABLE, end_ready, command);
}

/* A signal of the terminal that came before the command was in the process group can be read here by now. One that
 * came after that waits in the command, and does not become two when it is passed on, too. */
static void command_started(struct guarded_command *command, pid_t pid)
{
    command->pid = pid;
    end_watch_start(command);
    signals_ready(command, LOOP_READABLE);
    command->executes = true;
    minder_order(command, MINDER_EXECUTE, 0);
}

/* --- the minder's reports ----------------------------------------------------------------------------------------- */

static void reports_read(struct guarded_command *command)
{
    struct minder_message message;
    int none[PASSED_MAX];
    while (command->socket >= 0 && message_receive(command->socket, &message, none) >= 0) {
        if (message.kind == MINDER_STARTED) {
            command_started(command, (pid_t)message.value);
        } else if (message.kind == MINDER_STOPPED) {
            command_stopped(command);
        } else if (message.kind == MINDER_ENDED) {
            command->has_status = true;
            command->wait_status = (int)message.value;
        }
    }
}

static void socket_close(struct guarded_command *command)
{
    if (command->socket_watch != NULL)
        loop_watch_stop(command->socket_watch);
    command->socket_watch = NULL;
    if (command->socket >= 0)
        close(command->socket);
    command->socket = -1;
}

/* The minder reports the end and exits, so `minder_exited` reports the end of the socket. */
static void socket_ready(void *context, int events)
{
    struct guarded_command *command = context;
    char byte;
    (void)events;
    reports_read(command);
    if (command->socket >= 0 && recv(command->socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
        socket_close(command);
}

static void minder_spawned(struct child *child, pid_t pid, int failure)
{
    struct guarded_command *command = list_owner(child, struct guarded_command, child);
    command->minder = pid;
    if (failure != 0)
        command->failed(command->context, strerror(failure));
    else
        command->ready(command->context);
}

static void minder_exited(struct child *child, const struct child_exit *end)
{
    struct guarded_command *command = list_owner(child, struct guarded_command, child);
    bool was_killed = end->killed_run != 0;
    command->minder = 0;
    reports_read(command);
    run_entry_close(run_table_entry(command->run_table, 0));
    if (was_killed || !command->has_status)
        terminal_restore(command);
    if (!command->was_started)
        command->failed(command->context, "its parent has ended");
    else /* the command dies with a minder that is killed */
        command->ended(command->context, command->has_status ? command->wait_status : SIGKILL, was_killed);
}

static void zygote_lost(void *context)
{
    struct guarded_command *command = context;
    command->failed(command->context, "the zygote, which guards it, has ended");
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static bool descriptors_pass(struct guarded_command *command, struct error *error)
{
    for (size_t at = 0; at < command->inherited_count; at += PASSED_MAX) {
        size_t left = command->inherited_count - at;
        struct minder_message message = {.kind = MINDER_PASS,
                                         .count = (uint32_t)(left < PASSED_MAX ? left : PASSED_MAX)};
        memcpy(message.numbers, command->inherited + at, message.count * sizeof(int));
        if (!message_send(command->socket, &message, command->inherited + at, MSG_DONTWAIT))
            return error_set(error, "open files cannot be passed to the command: %s", strerror(errno));
    }
    for (size_t i = 0; i < command->inherited_count; i++)
        close(command->inherited[i]);
    command->inherited_count = 0;
    return true;
}

bool guarded_command_open(struct guarded_command *command, struct loop *loop, struct error *error)
{
    int ends[2];
    sigset_t heard = signals_relayed();
    sigdelset(&heard, SIGTTOU);
    command->signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    if (command->signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set(error, "no descriptors: %s", strerror(errno));
    command->socket = ends[0];
    command->loop = loop;
    if (!descriptors_pass(command, error)) {
        close(ends[1]);
        return false;
    }
    command->signals_watch = loop_watch_start(loop, command->signals, LOOP_READABLE, signals_ready, command);
    command->socket_watch = loop_watch_start(loop, command->socket, LOOP_READABLE, socket_ready, command);
    command->launcher = launcher_create(loop, &command->zygote, command->run_table, zygote_lost, command);
    child_init(&command->child, minder_spawned, minder_exited);
    struct child_plan plan = {.kind = CHILD_RUNNER,
                              .descriptors = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, ends[1]},
                              .descriptor_count = STDERR_FILENO + 2,
                              .run_entry = run_table_entry(command->run_table, 0)};
    launcher_spawn(command->launcher, &command->child, &plan);
    close(ends[1]);
    return true;
}

/* The zygote knows the deadline before the minder may start the command. */
void guarded_command_start(struct guarded_command *command, struct redlock_lock *lock, uint64_t token)
{
    struct run_entry *run_entry = run_table_entry(command->run_table, 0);
    run_entry_open(run_entry, "", "");
    redlock_lock_publish_to(lock, &run_entry->validity);
    atomic_store(&run_entry->is_locked, true);
    launcher_ring(command->launcher);
    command->was_started = true;
    const struct minder_message order = {
        .kind = MINDER_START, .value = token, .numbers = {(int)redlock_lock_seat(lock)}};
    (void)message_send(command->socket, &order, NULL, MSG_DONTWAIT);
}

void guarded_command_ring(struct guarded_command *command)
{
    launcher_ring(command->launcher);
}

void guarded_command_close(struct guarded_command *command)
{
    socket_close(command);
    end_watch_stop(command);
    if (command->signals_watch != NULL)
        loop_watch_stop(command->signals_watch);
    if (command->signals >= 0)
        close(command->signals);
    command->signals = -1;
    if (command->launcher != NULL)
        launcher_destroy(command->launcher);
    else
        zygote_end(&command->zygote);
    if (command->terminal >= 0)
        close(command->terminal);
    free(command->inherited);
    run_table_destroy(command->run_table);
    command->run_table = NULL;
    sigprocmask(SIG_SETMASK, &command->blocked, NULL); /* a signal that nobody took does what it does to any process */
}
