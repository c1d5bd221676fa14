/* A handler that keeps a ledger outside of the system, for tests that kill: one line, written at once, for the begin
 * of every run and one for its end, in the order in which they happened. Settings: journal, the file; process, how
 * this worker is called.
 *
 *     begin JID PROCESS             ok JID PROCESS, fail JID PROCESS, ...
 *     begin JID PROCESS TOKEN RESOURCE                    if its lock has a fencing token
 *
 * Arguments: [MILLISECONDS, FATE]; fates: ok; fail (the first run fails, the retry succeeds); discard; bury; crash
 * (the process kills itself); parent (the third argument is a task that follows from it, as JSON, and it has a
 * result). Classes: work; once, which runs at most once; steps, which reports progress. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "jobs/kit.h"

struct ledger {
    struct kit kit;
    const hf_report_api *report;
    const hf_push_api *push;
    const char *journal, *process;
};

static void append(const struct ledger *ledger, const char *what, const hf_job *job, const char *lock)
{
    char line[600];
    int length = snprintf(line, sizeof line, "%s %s %s%s\n", what, ledger->kit.job->jid(job), ledger->process, lock);
    int file = open(ledger->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static void begin(const struct ledger *ledger, hf_job *job)
{
    const char *const *names = NULL, *token = ledger->kit.lock->fence(job, 0);
    char lock[400] = "";
    if (ledger->kit.lock->resources(job, &names) > 0 && token[0] != '\0')
        snprintf(lock, sizeof lock, " %s %s", token, names[0]);
    append(ledger, "begin", job, lock);
}

static void work(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Nothing else would see that it could not. */
static void child_push(const struct ledger *ledger, hf_job *job)
{
    const char *child = "";
    char reason[200];
    if (!ledger->kit.job->arg_text(job, 2, &child) || !ledger->push->add(job, child, reason, sizeof reason) ||
        !ledger->report->result(job, "1"))
        abort();
}

static int run(hf_job *job, void *state)
{
    const struct ledger *ledger = state;
    const char *fate = "ok";
    int64_t ms = 0;
    begin(ledger, job);
    ledger->kit.job->arg_integer(job, 0, &ms);
    ledger->kit.job->arg_text(job, 1, &fate);
    work(ms);
    if (strcmp(fate, "crash") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(fate, "parent") == 0)
        child_push(ledger, job);
    int code = strcmp(fate, "discard") == 0 ? HF_DISCARD : strcmp(fate, "bury") == 0 ? HF_BURY : HF_OK;
    if (strcmp(fate, "fail") == 0 && ledger->kit.job->attempt(job) == 0)
        code = HF_FAIL;
    append(ledger, code == HF_OK ? "ok" : fate, job, "");
    return code;
}

static int steps(hf_job *job, void *state)
{
    const struct ledger *ledger = state;
    ledger->report->progress(job, "{\"done\":1}");
    return run(job, state);
}

static int open_ledger(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct ledger *ledger = kit_state(sizeof *ledger, host, reason, reason_size);
    if (ledger == NULL)
        return -1;
    ledger->report = host->api("report", 1);
    ledger->push = host->api("push", 1);
    if (ledger->report == NULL || ledger->push == NULL) {
        snprintf(reason, reason_size, "the host lacks the functions report or push");
        free(ledger);
        return -1;
    }
    ledger->journal = kit_setting(host, "journal", "journal");
    ledger->process = kit_setting(host, "process", "?");
    *state = ledger;
    return 0;
}

static const hf_handler work_handler = {
    .size = sizeof work_handler, .name = "work", .run = run, .isolation = HF_ISOLATION_THREAD};
static const hf_handler once_handler = {.size = sizeof once_handler,
                                        .name = "once",
                                        .flags = HF_AT_MOST_ONCE,
                                        .run = run,
                                        .isolation = HF_ISOLATION_THREAD};
static const hf_handler steps_handler = {.size = sizeof steps_handler,
                                         .name = "steps",
                                         .flags = HF_PROGRESS,
                                         .run = steps,
                                         .isolation = HF_ISOLATION_THREAD};
static const hf_handler *const handlers[] = {&work_handler, &once_handler, &steps_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("ledger", "1.0"), .open = open_ledger, .close = free,
                                             .handlers = handlers};
