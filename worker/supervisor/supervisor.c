#include "worker/supervisor/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/print/exit_code.h"
#include "worker/supervisor/service_notify.h"

/* How often the supervisor looks whether the processes that it started are up. */
#define LOOK_NS (20 * NS_PER_MS)

struct process {
    pid_t pid;
    struct run_table *run_table; /* NULL: it does not run */
    struct former_process former;
};

struct supervisor {
    const struct supervisor_options *options;
    struct supervisor_terms terms;
    struct supervision supervision;
    struct process processes[SUPERVISION_MAX];
    bool is_ready;           /* and the service manager knows it */
    struct instant alive_at; /* when the service manager gets the next sign of life; INSTANT_NEVER = it expects none */
};

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN};

enum { FORWARDED = sizeof forwarded / sizeof forwarded[0] };

/* --- telling ------------------------------------------------------------------------------------------------------ */

/* The log's thread is there for one line: nobody forks meanwhile. */
PRINTF_LIKE(4, 5)
static void tell(const struct supervisor *supervisor, enum log_level level, const char *event, const char *format, ...)
{
    char text[LOG_LINE_MAX];
    struct error error = ERROR_NONE;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool has_log = log_start(&supervisor->terms.log, &error); /* else standard error takes the line */
    log_event(level, event, "%s", text);
    if (has_log)
        log_stop();
}

static void status_tell(const struct supervisor *supervisor, void (*notify)(const char *text))
{
    char text[80];
    snprintf(text, sizeof text, "%u of %u processes run", supervision_alive(&supervisor->supervision),
             supervisor->supervision.count);
    notify(text);
}

/* " jid=... class=...", or nothing. */
static const char *suspect_text(const struct former_process *former, char text[2 * LOG_QUOTE_MAX + 16])
{
    char jid[LOG_QUOTE_MAX], class_name[LOG_QUOTE_MAX];
    text[0] = '\0';
    if (former->jid[0] != '\0')
        snprintf(text, 2 * LOG_QUOTE_MAX + 16, " jid=%s class=%s", log_value(former->jid, jid),
                 log_value(former->class_name, class_name));
    return text;
}

void supervised_process_tell(const struct supervised_process *process)
{
    char suspect[2 * LOG_QUOTE_MAX + 16];
    if (process->former->how[0] != '\0')
        log_event(LOG_WARN, "restarted_after_crash", "process=%u %s%s", process->number, process->former->how,
                  suspect_text(process->former, suspect));
}

static void forward(const struct supervisor *supervisor, int number)
{
    for (unsigned i = 0; i < supervisor->supervision.count; i++)
        if (supervisor->supervision.processes[i].state == SUPERVISED_ALIVE)
            kill(supervisor->processes[i].pid, number);
}

static void verdict_follow(struct supervisor *supervisor, enum supervision_verdict verdict)
{
    if (verdict != SUPERVISION_HOPELESS)
        return;
    tell(
        supervisor, LOG_ERROR, "supervisor_gives_up",
        "advice=\"a process ended before it was up for the first time, and would do so again: its own lines say why\"");
    forward(supervisor, SIGTERM);
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

/* Signals to it stay pending until it handles them. */
_Noreturn static void process_become(const struct supervisor *supervisor, unsigned number, pid_t parent)
{
    const struct process *process = &supervisor->processes[number];
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(EXIT_CODE_FAILURE);
    unsetenv("NOTIFY_SOCKET");
    struct supervised_process own = {.number = number + 1, .run_table = process->run_table, .former = &process->former};
    exit(supervisor->options->run(supervisor->options->context, &own));
}

/* False when there is none; errno says why. */
static bool process_fork(struct supervisor *supervisor, unsigned number)
{
    struct process *process = &supervisor->processes[number];
    process->run_table = run_table_create(supervisor->terms.run_entries);
    if (process->run_table == NULL)
        return false;
    fflush(NULL);
    pid_t parent = getpid();
    process->pid = fork();
    if (process->pid == 0)
        process_become(supervisor, number, parent);
    if (process->pid > 0)
        return true;
    run_table_destroy(process->run_table);
    process->run_table = NULL;
    return false;
}

static void process_start(struct supervisor *supervisor, unsigned number)
{
    struct supervision *supervision = &supervisor->supervision;
    int64_t pause_ns = supervision->processes[number].pause_ns;
    if (pause_ns > 0)
        supervisor->options->renew(supervisor->options->context, &supervisor->terms);
    supervision_started(supervision, number, instant_now());
    if (!process_fork(supervisor, number)) {
        tell(supervisor, LOG_ERROR, "process_not_started", "process=%u reason=\"%s\"", number + 1, strerror(errno));
        verdict_follow(supervisor, supervision_ended(supervision, number, EXIT_CODE_FAILURE, instant_now()));
        return;
    }
    struct process *process = &supervisor->processes[number];
    if (pause_ns > 0)
        tell(supervisor, LOG_INFO, "process_restarted", "process=%u pid=%d after_s=%lld", number + 1, (int)process->pid,
             (long long)(pause_ns / NS_PER_S));
    else
        tell(supervisor, LOG_INFO, "process_started", "process=%u pid=%d", number + 1, (int)process->pid);
    status_tell(supervisor, service_notify_status);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void running_tell(const struct supervisor *supervisor)
{
    const struct supervision *supervision = &supervisor->supervision;
    for (unsigned i = 0; i < supervision->count; i++)
        if (supervision->processes[i].state == SUPERVISED_ALIVE)
            tell(supervisor, LOG_INFO, "process_running", "process=%u pid=%d seconds=%.0f", i + 1,
                 (int)supervisor->processes[i].pid,
                 (double)instant_since(supervision->processes[i].at, instant_now()) / (double)NS_PER_S);
}

static void ending_begin(struct supervisor *supervisor, int number)
{
    supervision_end(&supervisor->supervision);
    tell(supervisor, LOG_INFO, "supervisor_ending", "reason=SIG%s advice=\"no process is started again\"",
         sigabbrev_np(number));
    if (number == SIGTERM || number == SIGINT)
        service_notify_stopping();
}

static void signal_take(struct supervisor *supervisor, int number)
{
    bool reloads = number == SIGHUP;
    if (number == SIGTERM || number == SIGINT || number == SIGUSR2 || number == SIGTSTP)
        ending_begin(supervisor, number);
    if (number == SIGTTIN)
        running_tell(supervisor);
    if (reloads)
        service_notify_reloading();
    forward(supervisor, number);
    if (reloads) {
        supervisor->options->renew(supervisor->options->context, &supervisor->terms);
        status_tell(supervisor, service_notify_ready);
    }
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* A handler that calls _exit(0) ends its process as if all were well; the run table knows better. */
static int end_code(const struct process *process, int status)
{
    if (WIFSIGNALED(status))
        return EXIT_CODE_FAILURE;
    if (WEXITSTATUS(status) == EXIT_CODE_OK && !atomic_load(&process->run_table->has_ended))
        return EXIT_CODE_FAILURE;
    return WEXITSTATUS(status);
}

static void former_note(struct process *process, int status)
{
    struct former_process *former = &process->former;
    const struct run_entry *suspect = run_table_suspect(process->run_table);
    *former = (struct former_process){0};
    if (WIFSIGNALED(status))
        snprintf(former->how, sizeof former->how, "signal=SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(former->how, sizeof former->how, "status=%d", WEXITSTATUS(status));
    if (suspect == NULL)
        return;
    memcpy(former->jid, suspect->jid, sizeof former->jid);
    memcpy(former->class_name, suspect->class_name, sizeof former->class_name);
}

static void process_over(struct supervisor *supervisor, unsigned number, int status)
{
    struct process *process = &supervisor->processes[number];
    struct supervision *supervision = &supervisor->supervision;
    struct instant now = instant_now();
    char suspect[2 * LOG_QUOTE_MAX + 16];
    int code = end_code(process, status);
    double lived = (double)instant_since(supervision->processes[number].at, now) / (double)NS_PER_S;
    if (atomic_load(&process->run_table->is_up))
        supervision_up(supervision, number);
    former_note(process, status);
    run_table_destroy(process->run_table);
    process->run_table = NULL;
    enum supervision_verdict verdict = supervision_ended(supervision, number, code, now);
    tell(supervisor, code == EXIT_CODE_OK ? LOG_INFO : LOG_ERROR, "process_ended",
         "process=%u pid=%d %s%s seconds=%.1f", number + 1, (int)process->pid, process->former.how,
         suspect_text(&process->former, suspect), lived);
    verdict_follow(supervisor, verdict);
    status_tell(supervisor, service_notify_status);
}

static void ended_reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) /* as the first process of a container it gets others too */
        for (unsigned i = 0; i < supervisor->supervision.count; i++)
            if (supervisor->processes[i].run_table != NULL && supervisor->processes[i].pid == pid)
                process_over(supervisor, i, status);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void ups_look(struct supervisor *supervisor)
{
    struct supervision *supervision = &supervisor->supervision;
    bool all = true;
    for (unsigned i = 0; i < supervision->count; i++) {
        struct process *process = &supervisor->processes[i];
        if (process->run_table != NULL && atomic_load(&process->run_table->is_up))
            supervision_up(supervision, i);
        all &= supervision->processes[i].has_been_up;
    }
    if (!all || supervisor->is_ready)
        return;
    supervisor->is_ready = true;
    tell(supervisor, LOG_INFO, "supervisor_ready", "processes=%u", supervision->count);
    status_tell(supervisor, service_notify_ready);
}

/* One that is stopped cannot end in order, and one that is stuck does not. */
static void silent_kill(struct supervisor *supervisor)
{
    struct supervision *supervision = &supervisor->supervision;
    struct instant now = instant_now();
    supervision_look(supervision, now);
    for (unsigned i = 0; i < supervision->count; i++) {
        struct process *process = &supervisor->processes[i];
        if (process->run_table == NULL ||
            !supervision_is_silent(supervision, i, atomic_load(&process->run_table->heartbeats), now))
            continue;
        tell(supervisor, LOG_ERROR, "process_silent",
             "process=%u pid=%d seconds=%d advice=\"its loop does not turn any more: it is killed and started again\"",
             i + 1, (int)process->pid, (int)(SUPERVISION_SILENT_NS / NS_PER_S));
        kill(process->pid, SIGKILL);
    }
}

static void alive_tell(struct supervisor *supervisor)
{
    struct instant now = instant_now();
    if (!instant_reached(now, supervisor->alive_at))
        return;
    service_notify_alive();
    supervisor->alive_at = instant_after(now, service_notify_watchdog_ns());
}

static sigset_t signals_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < FORWARDED; i++)
        sigaddset(&set, forwarded[i]);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* 0 = none came in time. */
static int signal_await(struct instant until)
{
    sigset_t set = signals_set();
    int64_t left_ns = instant_since(instant_now(), until);
    left_ns = left_ns > 0 ? left_ns : 0;
    struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    int number = sigtimedwait(&set, NULL, until.ns != INSTANT_NEVER.ns ? &left : NULL);
    return number > 0 ? number : 0;
}

static void cycle_run(struct supervisor *supervisor)
{
    struct supervision *supervision = &supervisor->supervision;
    unsigned due;
    while ((due = supervision_due(supervision, instant_now())) < supervision->count)
        process_start(supervisor, due);
    int64_t look_ns = supervision_awaits(supervision) ? LOOK_NS : SUPERVISION_LOOK_NS;
    struct instant until = instant_earlier(supervision_next(supervision), supervisor->alive_at);
    until = instant_earlier(until, instant_after(instant_now(), look_ns));
    int number = signal_await(until);
    if (number == SIGCHLD)
        ended_reap(supervisor);
    else if (number != 0)
        signal_take(supervisor, number);
    ups_look(supervisor);
    silent_kill(supervisor);
    alive_tell(supervisor);
}

int supervisor_run(const struct supervisor_options *options)
{
    struct supervisor supervisor = {.options = options, .terms = options->terms, .alive_at = INSTANT_NEVER};
    if (service_notify_watchdog_ns() > 0)
        supervisor.alive_at = instant_now();
    sigset_t set = signals_set();
    signal(SIGPIPE, SIG_IGN); /* of a log whose reader has closed */
    sigprocmask(SIG_BLOCK, &set, NULL);
    supervision_begin(&supervisor.supervision, options->processes, instant_now());
    tell(&supervisor, LOG_INFO, "supervisor_started", "pid=%d processes=%u", (int)getpid(), options->processes);
    while (!supervision_is_over(&supervisor.supervision))
        cycle_run(&supervisor);
    tell(&supervisor, LOG_INFO, "supervisor_stopped", "exit_code=%d", supervisor.supervision.exit_code);
    return supervisor.supervision.exit_code;
}
