/* exec: runs one of the programs that the settings name. Class: exec. docs/jobs.md is its manual.
 *
 * Arguments: [NAME, ...]. The program gets the arguments after NAME as a JSON array on its standard input. Its command
 * line comes from the settings and is the same for all tasks. No shell is involved.
 *
 * Its exit status decides the outcome (code_of_exit). Each line that it writes is logged, and its last line on stderr
 * is part of the error.
 *
 * Cancellation. The program and its process group get SIGTERM and a little later SIGKILL, or SIGKILL at once if the
 * lock is lost or another worker may have the task. run() returns only after the program was reaped, so the lock is not
 * free while it runs. Processes that left the group are out of reach.
 *
 * For a class that only runs a program, the setting `program` of the class is better: such a program can also report
 * progress and a result, and is killed in time even if the worker is stopped.
 *
 * Settings: programs and program_NAME (jobs/catalog.h; an absolute path and arguments, separated by blanks, without
 * quotes), directory (where they run, default "/"), kill_after (milliseconds from SIGTERM to SIGKILL, default
 * "2000"). */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/arguments/arguments.h"
#include "jobs/catalog.h"
#include "jobs/kit.h"

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* Cuts the output of a program into lines, up to a limit for the run. No I/O. */

/* As much text as fits into a log line. */
enum { EXEC_LINE_MAX = 200, EXEC_LINES_MAX = 1000 };

/* Shared by both streams of a run. */
struct exec_budget {
    unsigned lines;
    unsigned long dropped; /* lines not logged */
    void (*tell)(void *context, const char *stream, const char *text);
    void *context;
};

/* One stream. */
struct exec_lines {
    struct exec_budget *budget;
    const char *stream;
    char text[EXEC_LINE_MAX + 1]; /* the unfinished line */
    size_t length;
    char last[EXEC_LINE_MAX + 1]; /* the last one that was not empty, for an error */
};

static void line_finish(struct exec_lines *lines)
{
    struct exec_budget *budget = lines->budget;
    if (lines->length == 0)
        return;
    lines->text[lines->length] = '\0';
    memcpy(lines->last, lines->text, lines->length + 1);
    lines->length = 0;
    if (budget->lines == EXEC_LINES_MAX) {
        budget->dropped++;
        return;
    }
    budget->lines++;
    budget->tell(budget->context, lines->stream, lines->text);
}

/* Logs longer lines in pieces, empty ones not at all, and NUL bytes as '?'. */
static void exec_lines_put(struct exec_lines *lines, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\n') {
            line_finish(lines);
            continue;
        }
        if (lines->length == EXEC_LINE_MAX)
            line_finish(lines);
        lines->text[lines->length++] = bytes[i] != '\0' ? bytes[i] : '?';
    }
}

/* --- process ------------------------------------------------------------------------------------------------------ */

/* A program in its own process group. Its input is a text, and its output can be read while it runs.
 *
 *     exec_process_start(&process, &start)            0, or -1 with errno: it did not start
 *     while (!exec_process_has_ended(&process))
 *         poll() on process.output[0], [1], process.pidfd ...
 *     status = exec_process_reap(&process)            kills what is left of the group
 *     exec_process_fini(&process)
 *
 * It begins with default signal actions, umask 077, and only the descriptors 0, 1 and 2. The kernel kills it when
 * the thread that started it ends, so it does not outlive a killed worker; its own children may. */
/* Uses fork(), because posix_spawn() can neither ask the kernel to kill the program when its parent dies nor set the
 * umask. Between fork() and execve() it makes only system calls, because other threads may have held any lock. A
 * pipe reports why execve() failed; success closes it. */

struct exec_start {
    char *const *arguments; /* the first one is the path of the file */
    char *const *environment;
    const char *directory;
    const char *input;
    size_t input_length;
};

struct exec_process {
    pid_t pid;
    int output[2]; /* its stdout and stderr, non-blocking; -1 once closed */
    int pidfd;     /* readable when it has ended; -1: not supported by this kernel */
};

enum { INPUT, OUTPUT, ERRORS, VERDICT, CHILD_ENDS };

/* The ends of the child, and the parent's. All are at least 10, so that they cannot collide with 0, 1 and 2. */
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
        sigaction(i, &usual, NULL); /* fails for signals that only have the default */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void become(const struct exec_start *start, const struct ends *ends, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent died before the prctl */
        _exit(127);
    signals_reset();
    umask(S_IRWXG | S_IRWXO);
    if (dup2(ends->child[INPUT], 0) == 0 && dup2(ends->child[OUTPUT], 1) == 1 && dup2(ends->child[ERRORS], 2) == 2 &&
        chdir(start->directory) == 0) {
#ifdef SYS_close_range
        /* Covers descriptors that others opened without O_CLOEXEC. Older kernels lack the call; ours have the flag. */
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

/* 0 if the program runs, else the errno. */
static int verdict_read(int fd)
{
    int cause = 0;
    ssize_t count;
    do
        count = read(fd, &cause, sizeof cause);
    while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof cause ? cause : 0;
}

/* Blocks all signals: a signal handler of this process must not run in the child. */
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

static int exec_process_start(struct exec_process *process, const struct exec_start *start)
{
    struct ends ends;
    *process = (struct exec_process){.pid = -1, .output = {-1, -1}, .pidfd = -1};
    if (ends_open(&ends, start) != 0)
        return -1;
    pid_t child = child_make(start, &ends);
    int cause = child < 0 ? errno : 0;
    ends_close(ends.child);
    if (child > 0) {
        setpgid(child, child); /* parent or child, whichever is first */
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

static int exec_process_has_ended(const struct exec_process *process)
{
    siginfo_t facts = {.si_pid = 0};
    int failed = waitid(P_PID, (id_t)process->pid, &facts, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 ? errno != EINTR : facts.si_pid == process->pid;
}

/* Signals its group; harmless after its end, until it is reaped. */
static void exec_process_signal(const struct exec_process *process, int signal)
{
    if (process->pid > 0)
        kill(-process->pid, signal);
}

/* After its end: kills the rest of its group, and returns the status of waitpid(), or -1 if it is unknown. Kills the
 * group before reaping the leader: until then no other group can have the number. */
static int exec_process_reap(struct exec_process *process)
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

static void exec_process_close_output(struct exec_process *process, int which)
{
    if (process->output[which] >= 0)
        close(process->output[which]);
    process->output[which] = -1;
}

static void exec_process_fini(struct exec_process *process)
{
    exec_process_close_output(process, 0);
    exec_process_close_output(process, 1);
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
}

/* --- surroundings ------------------------------------------------------------------------------------------------- */

/* The environment of a program describes its task, in variables HF_*. */

enum { EXEC_VARIABLES_MAX = 16 };

struct exec_environment {
    char *variables[EXEC_VARIABLES_MAX + 1]; /* ends with NULL */
    unsigned count;
};

static int add(struct exec_environment *environment, const char *name, const char *value)
{
    if (asprintf(&environment->variables[environment->count], "%s=%s", name, value) < 0) {
        environment->variables[environment->count] = NULL;
        return 0;
    }
    environment->count++;
    return 1;
}

static int add_number(struct exec_environment *environment, const char *name, long long value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", value);
    return add(environment, name, digits);
}

static int add_ours(struct exec_environment *environment)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "TZ"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && !add(environment, names[i], value))
            return 0;
    }
    return 1;
}

/* A name that is not UTF-8 cannot be JSON: then the list is omitted, but HF_RESOURCE is set. */
static int add_list(struct exec_environment *environment, const char *const *names, unsigned count)
{
    json_t *list = json_array();
    int is_whole = list != NULL;
    for (unsigned i = 0; is_whole && i < count; i++)
        is_whole = json_array_append_new(list, json_string(names[i])) == 0;
    char *text = is_whole ? json_dumps(list, JSON_COMPACT) : NULL;
    int is_good = text == NULL || add(environment, "HF_RESOURCES", text);
    free(text);
    json_decref(list);
    return is_good;
}

static int add_lock(struct exec_environment *environment, const struct kit *kit, const hf_job *job)
{
    const char *const *names;
    unsigned count = kit->lock->resources(job, &names);
    int64_t left_ms = kit->lock->valid_for_ms(job);
    unsigned seat = kit->lock->size > offsetof(hf_lock_api, seat) ? kit->lock->seat(job) : 0;
    if (count == 0)
        return 1;
    return add(environment, "HF_RESOURCE", names[0]) && add_list(environment, names, count) &&
           add(environment, "HF_FENCE", kit->lock->fence(job, 0)) &&
           (seat == 0 || add_number(environment, "HF_SEAT", seat)) &&
           (left_ms == INT64_MAX ||
            add_number(environment, "HF_LOCK_UNTIL_MS", (long long)(kit_now_ns() / 1000000 + left_ms)));
}

/* PATH, HOME, LANG and TZ of the worker, and the facts of the task. 0 without memory; always call fini. */
static int exec_environment_make(struct exec_environment *environment, const struct kit *kit, const hf_job *job)
{
    const hf_job_api *facts = kit->job;
    const char *trace = facts->size > offsetof(hf_job_api, traceparent) ? facts->traceparent(job) : "";
    *environment = (struct exec_environment){0};
    return (trace[0] == '\0' || add(environment, "TRACEPARENT", trace)) && add_ours(environment) &&
           add(environment, "HF_JID", kit->job->jid(job)) && add(environment, "HF_CLASS", kit->job->class_name(job)) &&
           add(environment, "HF_QUEUE", kit->job->queue(job)) &&
           add_number(environment, "HF_ATTEMPT", kit->job->attempt(job)) && add_lock(environment, kit, job);
}

static void exec_environment_fini(struct exec_environment *environment)
{
    for (unsigned i = 0; i < environment->count; i++)
        free(environment->variables[i]);
}

/* --- the job ------------------------------------------------------------------------------------------------------ */

enum { WORDS_MAX = 64, REASON_MAX = 320, ASK_EVERY_MS = 20 };

struct exec {
    struct kit kit;
    struct catalog programs;
    char *directory;
    int64_t kill_after_ms;
};

/* A command line, split into words. */
struct words {
    char *line; /* the words point into it */
    char *words[WORDS_MAX + 1];
};

struct run {
    const struct exec *exec;
    hf_job *job;
    const char *name;
    struct exec_process process;
    struct exec_budget budget;
    struct exec_lines lines[2];
    int64_t kill_at_ns; /* 0: it was not asked to stop */
};

/* --- how it ends -------------------------------------------------------------------------------------------- */

static int end_with(const struct run *run, int code, const char *error_class, const char *what)
{
    const char *last = run->lines[1].last;
    run->exec->kit.job->error(run->job, error_class, "the program %s %s%s%s", run->name, what,
                              last[0] != '\0' ? ": " : "", last);
    return code;
}

static int code_of_exit(int status)
{
    switch (status) {
    case 64: /* EX_USAGE */
    case 65: /* EX_DATAERR */
    case 77: /* EX_NOPERM */
    case 78: /* EX_CONFIG */
        return HF_BURY;
    case 98:
        return HF_SNOOZE;
    case 99:
        return HF_DISCARD;
    default: /* also EX_UNAVAILABLE and EX_TEMPFAIL */
        return HF_FAIL;
    }
}

static int end_of_process(const struct run *run, int status)
{
    char what[96];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && status >= 0)
        return HF_OK;
    if (run->exec->kit.cancel->cancelled(run->job))
        return HF_CANCELLED;
    if (status < 0)
        return end_with(run, HF_FAIL, "HF::Crashed", "ended with an unknown status");
    if (WIFSIGNALED(status)) {
        snprintf(what, sizeof what, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return end_with(run, HF_FAIL, "HF::Crashed", what);
    }
    snprintf(what, sizeof what, "exited with status %d", WEXITSTATUS(status));
    if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127)
        return end_with(run, HF_FAIL, "HF::NotStarted", what);
    int code = code_of_exit(WEXITSTATUS(status));
    return code == HF_SNOOZE || code == HF_DISCARD ? code : end_with(run, code, "HF::Failed", what);
}

/* --- while it runs ------------------------------------------------------------------------------------------ */

static void line_tell(void *context, const char *stream, const char *text)
{
    const struct run *run = context;
    const hf_field fields[] = {{"program", run->name}, {"stream", stream}, {"text", text}};
    run->exec->kit.job->event(run->job, HF_LOG_INFO, "program_output", fields, sizeof fields / sizeof fields[0]);
}

/* Reads what is available. Returns 0 at the end. */
static int output_read(struct run *run, int which)
{
    char bytes[16384];
    ssize_t count;
    if (run->process.output[which] < 0)
        return 0;
    /* Limited: endless output must not prevent the check for cancellation. */
    for (int i = 0; i < 16; i++) {
        count = read(run->process.output[which], bytes, sizeof bytes);
        if (count <= 0)
            break;
        exec_lines_put(&run->lines[which], bytes, (size_t)count);
    }
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)))
        return 1;
    exec_process_close_output(&run->process, which);
    return 0;
}

static int is_somebody_elses(enum hf_cancel_reason reason)
{
    return reason == HF_LOCK_LOST || reason == HF_HELD_TOO_LONG || reason == HF_CLAIM_LOST;
}

static void stop_if_cancelled(struct run *run)
{
    const hf_cancel_api *cancel = run->exec->kit.cancel;
    if (!cancel->cancelled(run->job))
        return;
    int is_first = run->kill_at_ns == 0;
    if (is_first)
        run->kill_at_ns = kit_now_ns() + run->exec->kill_after_ms * NS_PER_MS;
    if (is_somebody_elses(cancel->reason(run->job)) || kit_now_ns() >= run->kill_at_ns)
        exec_process_signal(&run->process, SIGKILL);
    else if (is_first)
        exec_process_signal(&run->process, SIGTERM);
}

static void attend(struct run *run)
{
    struct pollfd watched[4] = {{.fd = run->process.output[0], .events = POLLIN},
                                {.fd = run->process.output[1], .events = POLLIN},
                                {.fd = run->process.pidfd, .events = POLLIN},
                                {.fd = run->exec->kit.lock->descriptor(run->job), .events = POLLIN}};
    while (!exec_process_has_ended(&run->process)) {
        stop_if_cancelled(run);
        watched[0].fd = run->process.output[0];
        watched[1].fd = run->process.output[1];
        poll(watched, run->kill_at_ns == 0 ? 4 : 3, ASK_EVERY_MS);
        output_read(run, 0);
        output_read(run, 1);
    }
}

static void output_end(struct run *run)
{
    for (int i = 0; i < 2; i++) {
        output_read(run, i);
        line_finish(&run->lines[i]); /* the last line may have no end */
    }
    if (run->budget.dropped > 0)
        run->exec->kit.job->log(run->job, HF_LOG_WARN, "%lu more lines of the program %s were left out",
                                run->budget.dropped, run->name);
}

/* --- starting ----------------------------------------------------------------------------------------------- */

static int words_split(struct words *words, const char *line)
{
    size_t count = 0;
    *words = (struct words){.line = strdup(line)};
    for (char *at = words->line; at != NULL && *(at += strspn(at, " ")) != '\0' && count < WORDS_MAX;) {
        words->words[count++] = at;
        at += strcspn(at, " ");
        if (*at != '\0')
            *at++ = '\0';
    }
    return count > 0;
}

static int start_and_wait(struct run *run, const struct exec_start *start)
{
    if (exec_process_start(&run->process, start) != 0) {
        char what[160];
        snprintf(what, sizeof what, "could not be started: %s", strerror(errno));
        return end_with(run, HF_FAIL, "HF::NotStarted", what);
    }
    attend(run);
    int status = exec_process_reap(&run->process);
    output_end(run);
    exec_process_fini(&run->process);
    return end_of_process(run, status);
}

static int program_run(struct run *run, const char *command, struct argument args)
{
    struct exec_environment environment;
    struct words words;
    struct argument rest = argument_rest(args, 1);
    char *input = NULL;
    int length = asprintf(&input, "[%.*s]", (int)rest.length, rest.text), code;
    int has_environment = exec_environment_make(&environment, &run->exec->kit, run->job);
    if (words_split(&words, command) && length >= 0 && has_environment) {
        const struct exec_start start = {words.words, environment.variables, run->exec->directory, input,
                                         (size_t)length};
        code = start_and_wait(run, &start);
    } else
        code = end_with(run, HF_FAIL, "HF::NotStarted", "could not be started: out of memory");
    exec_environment_fini(&environment);
    free(words.line);
    if (length >= 0)
        free(input);
    return code;
}

/* The name, which the caller frees; NULL with a reason. */
static char *name_read(struct argument args, char *reason, size_t reason_size)
{
    struct argument first;
    char *name = argument_element(args, 0, &first) ? argument_text(first) : NULL;
    if (name == NULL)
        kit_refuse(reason, reason_size, "expected [NAME, ...] with the name of a program");
    return name;
}

static int run(hf_job *job, void *state)
{
    const struct exec *exec = state;
    char reason[REASON_MAX];
    size_t length = 0;
    const char *text = exec->kit.job->args(job, &length);
    struct argument args = argument_of(text, length);
    char *name = name_read(args, reason, sizeof reason);
    if (name == NULL)
        return kit_bury(&exec->kit, job, "HF::BadArguments", reason);
    int position = catalog_find(&exec->programs, name), code;
    free(name);
    if (position < 0)
        return kit_bury(&exec->kit, job, "HF::BadArguments", "the setting programs does not name this program");
    struct run *this = calloc(1, sizeof *this);
    if (this == NULL)
        return HF_FAIL;
    *this = (struct run){.exec = exec, .job = job, .name = exec->programs.entries[position].name};
    this->budget = (struct exec_budget){.tell = line_tell, .context = this};
    this->lines[0] = (struct exec_lines){.budget = &this->budget, .stream = "stdout"};
    this->lines[1] = (struct exec_lines){.budget = &this->budget, .stream = "stderr"};
    code = program_run(this, exec->programs.entries[position].value, args);
    free(this);
    return code;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    char *name = name_read(argument_of(args, length), reason, reason_size);
    free(name);
    return name != NULL;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

static int program_try(const char *name, const char *command, char *reason, size_t reason_size)
{
    struct words words;
    struct stat facts;
    int is_good = words_split(&words, command) && words.words[0][0] == '/' && stat(words.words[0], &facts) == 0 &&
                  S_ISREG(facts.st_mode) && access(words.words[0], X_OK) == 0;
    free(words.line);
    if (is_good)
        return 0;
    snprintf(reason, reason_size,
             "the setting program_%s is to begin with the whole path of a file that can be executed", name);
    return -1;
}

static int settings_read(struct exec *exec, const hf_host *host, char *reason, size_t reason_size)
{
    struct stat facts;
    exec->directory = strdup(kit_setting(host, "directory", "/"));
    if (exec->directory == NULL || stat(exec->directory, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return kit_fail(reason, reason_size, "the setting directory names no directory");
    exec->kill_after_ms = 2000;
    if (kit_setting_number(host, "kill_after", 60000, &exec->kill_after_ms, reason, reason_size) != 0)
        return -1;
    if (catalog_read(&exec->programs, host, "program", reason, reason_size) != 0)
        return -1;
    for (size_t i = 0; i < exec->programs.count; i++)
        if (program_try(exec->programs.entries[i].name, exec->programs.entries[i].value, reason, reason_size) != 0)
            return -1;
    return 0;
}

static void close_exec(void *state)
{
    struct exec *exec = state;
    catalog_fini(&exec->programs);
    free(exec->directory);
    free(exec);
}

static int open_exec(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct exec *exec = kit_state(sizeof *exec, host, reason, reason_size);
    if (exec == NULL)
        return -1;
    if (settings_read(exec, host, reason, reason_size) == 0) {
        *state = exec;
        return 0;
    }
    close_exec(exec);
    return -1;
}

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "exec",
    .about = "runs a program that the settings name; arguments: [NAME, ...]",
    .run = run,
    .check = check,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("exec", "1.0"), .open = open_exec, .close = close_exec,
                                   .handlers = handlers};
