/* exec: runs one of the programs that the settings name. Class: exec. docs/jobs.md is its manual.
 *
 * Arguments: [NAME, ...]. What comes behind the name is given to the program as a JSON array on its standard input; its
 * command line stands in the settings and is the same for all tasks. No shell is between.
 *
 * How it ends: as its exit status says (the table below). What it writes is told line by line in the log, and its last
 * line on stderr is part of the error.
 *
 * Cancellation. The program, and all of its process group, gets SIGTERM and a little later SIGKILL; when the lock is
 * lost or the task may be somebody else's it gets SIGKILL at once. run() returns only when it was reaped, so the lock
 * is not free while it runs. What has left the group is out of reach.
 *
 * Where programs are all that a class is, `program` of the class in the configuration is the better way: there they
 * can also report progress and a result, and are killed in time although the worker stands still.
 *
 * Settings: programs and program_NAME (jobs/catalog.h; an absolute path and arguments, between blanks, without quotes),
 * directory (where they run, default "/"), kill_after (milliseconds from SIGTERM to SIGKILL, default "2000"). */
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/arguments/arguments.h"
#include "jobs/catalog.h"
#include "jobs/exec/lines.h"
#include "jobs/exec/process.h"
#include "jobs/exec/surroundings.h"
#include "jobs/kit.h"

enum { WORDS_MAX = 64, REASON_MAX = 320, ASK_EVERY_MS = 20 };
#define NS_PER_MS INT64_C(1000000)

struct exec {
    struct kit kit;
    struct catalog programs;
    char *directory;
    int64_t kill_after_ms;
};

/* A command line in pieces. */
struct words {
    char *line; /* what they point into */
    char *words[WORDS_MAX + 1];
};

struct run {
    const struct exec *exec;
    hf_job *job;
    const char *name;
    struct exec_process process;
    struct exec_budget budget;
    struct exec_lines lines[2];
    int64_t kill_at_ns; /* 0: nobody has asked it to stop */
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
        return end_with(run, HF_FAIL, "HF::Crashed", "ended, and nobody knows how");
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

/* All that is there. Returns 0 when there will be no more. */
static int output_read(struct run *run, int which)
{
    char bytes[16384];
    ssize_t count;
    if (run->process.output[which] < 0)
        return 0;
    /* At most so much at once: who prints without end must not keep us from asking whether to stop. */
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
        exec_lines_end(&run->lines[i]);
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

/* The name, to be freed; NULL with a reason. */
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
    int place = catalog_find(&exec->programs, name), code;
    free(name);
    if (place < 0)
        return kit_bury(&exec->kit, job, "HF::BadArguments", "the setting programs does not name this program");
    struct run *this = calloc(1, sizeof *this);
    if (this == NULL)
        return HF_FAIL;
    *this = (struct run){.exec = exec, .job = job, .name = exec->programs.entries[place].name};
    this->budget = (struct exec_budget){.tell = line_tell, .context = this};
    this->lines[0] = (struct exec_lines){.budget = &this->budget, .stream = "stdout"};
    this->lines[1] = (struct exec_lines){.budget = &this->budget, .stream = "stderr"};
    code = program_run(this, exec->programs.entries[place].value, args);
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
    if (exec->directory == NULL || stat(exec->directory, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        snprintf(reason, reason_size, "the setting directory names no directory");
        return -1;
    }
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
