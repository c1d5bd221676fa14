#include "worker/isolation/program_status.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/quantity.h"

enum { STATUS_SNOOZE = 98, STATUS_DISCARD = 99, STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127 };

struct meaning {
    int status;
    int code;
    const char *words; /* after the number */
    const char *error_class;
};

static const struct meaning meanings[] = {
    {EX_USAGE, HF_BURY, " (EX_USAGE)", "HF::Failed"},
    {EX_DATAERR, HF_BURY, " (EX_DATAERR)", "HF::Failed"},
    {EX_NOPERM, HF_BURY, " (EX_NOPERM)", "HF::Failed"},
    {EX_CONFIG, HF_BURY, " (EX_CONFIG)", "HF::Failed"},
    {EX_UNAVAILABLE, HF_FAIL, " (EX_UNAVAILABLE)", "HF::Failed"},
    {EX_TEMPFAIL, HF_FAIL, " (EX_TEMPFAIL)", "HF::Failed"},
    {STATUS_SNOOZE, HF_SNOOZE, "", NULL},
    {STATUS_DISCARD, HF_DISCARD, "", "HF::Failed"},
    {STATUS_NOT_EXECUTABLE, HF_FAIL, " (it, or a command in it, cannot be executed)", FAILURE_NOT_STARTED},
    {STATUS_NOT_FOUND, HF_FAIL, " (it, or a command in it, was not found)", FAILURE_NOT_STARTED},
    {0, HF_OK, "", NULL},
};

void child_end_describe(int wait_status, int64_t memory_limit, char text[CHILD_END_TEXT_MAX])
{
    char limit[QUANTITY_TEXT_MAX];
    if (!WIFSIGNALED(wait_status)) {
        snprintf(text, CHILD_END_TEXT_MAX, "exited with status %d", WEXITSTATUS(wait_status));
        return;
    }
    int number = WTERMSIG(wait_status);
    const char *name = sigdescr_np(number);
    snprintf(text, CHILD_END_TEXT_MAX, "was killed by signal %d (%s)%s%s%s", number, name != NULL ? name : "unknown",
             number == SIGKILL ? "; the kernel does so when memory is short" : "",
             memory_limit > 0 ? "; its memory_limit is " : "", memory_limit > 0 ? size_print(memory_limit, limit) : "");
}

static struct meaning meaning_of(int status)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].status == status)
            return meanings[i];
    return (struct meaning){status, HF_FAIL, "", "HF::Failed"};
}

/* It was asked to stop, for a reason that is no failure of the task. */
static bool was_stopped(const struct program_end *end)
{
    return end->asked != HF_NOT_CANCELLED && end->asked != HF_TIMEOUT;
}

/* The run was asked to stop and did, without a verdict on the task. After a cancellation the task may be retried at
 * once; after a warning about its lock, a little later. */
static int stop_code(const struct program_end *end)
{
    return was_stopped(end) ? HF_CANCELLED : HF_SNOOZE;
}

static int killed_verdict(const struct program_end *end, struct failure *failure)
{
    failure_clear(failure);
    if (was_stopped(end))
        return HF_CANCELLED;
    failure_set(failure, "HF::TimedOut", "it ran for longer than its class may, and was killed");
    return HF_FAIL;
}

static int signal_verdict(const struct program_end *end, struct failure *failure)
{
    int number = WTERMSIG(end->wait_status);
    if (number == SIGTERM && (was_stopped(end) || end->was_warned)) {
        failure_clear(failure);
        return stop_code(end);
    }
    char text[CHILD_END_TEXT_MAX];
    child_end_describe(end->wait_status, end->memory_limit, text);
    failure_set(failure, "HF::Crashed", "it %s", text);
    return HF_FAIL;
}

static int status_verdict(const struct program_end *end, struct failure *failure)
{
    struct meaning meaning = meaning_of(WEXITSTATUS(end->wait_status));
    if (meaning.code == HF_FAIL && (was_stopped(end) || end->was_warned))
        meaning.code = stop_code(end);
    bool has_reason = meaning.code == HF_FAIL || meaning.code == HF_BURY || meaning.code == HF_DISCARD;
    if (!has_reason || end->asked == HF_TIMEOUT)
        failure_clear(failure);
    else
        failure_set(failure, meaning.error_class, "it exited with status %d%s%s%.*s", meaning.status, meaning.words,
                    end->last_length > 0 ? ": " : "", (int)end->last_length, end->last_line);
    return meaning.code;
}

int program_verdict(const struct program_end *end, struct failure *failure)
{
    if (end->was_killed)
        return killed_verdict(end, failure);
    if (end->asked == HF_TIMEOUT)
        failure_clear(failure); /* the slot reports it, in the same words for every kind of run */
    if (WIFSIGNALED(end->wait_status)) {
        if (end->asked == HF_TIMEOUT && WTERMSIG(end->wait_status) == SIGTERM)
            return HF_FAIL;
        return signal_verdict(end, failure);
    }
    return status_verdict(end, failure);
}

bool program_start_verdict(const char *file, int failure, char *reason, size_t size)
{
    const char *why = NULL;
    bool is_its_fault = true;
    switch (failure) {
    case ENOENT:
        why = "there is no such file, or the interpreter that its first line names is missing";
        break;
    case EACCES:
        why = "it is not an executable file, or a directory on the way to it may not be entered";
        break;
    case EPERM:
        why = "users other than root and the worker's may change it, or a directory above it; `holdfast check` says "
              "which";
        break;
    case ENOTDIR:
        why = "its directory is missing or may not be entered, or a part of a path is no directory";
        break;
    case ENOEXEC:
        why = "it is no program for this machine, or a script without a first line that begins with #!";
        break;
    case E2BIG:
        why = "its arguments and its environment are too long together";
        break;
    default:
        why = strerrordesc_np(failure);
        is_its_fault = failure != EAGAIN && failure != ENOMEM && failure != EMFILE && failure != ENFILE &&
                       failure != ETXTBSY && failure != EPIPE && failure != ENOBUFS;
    }
    snprintf(reason, size, "%s: cannot be started: %s", file, why != NULL ? why : "for an unknown reason");
    return is_its_fault;
}
