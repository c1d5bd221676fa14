/* Handlers that write down what happens to them, for tests of whole workers. Settings: journal, the file to append to,
 * and directory, where a file for each thing shows that a run works at it.
 *
 * Arguments: [MILLISECONDS, THING, ...], all of which may be left out. Each run appends "begin JID" and, if it comes
 * to its end, "end JID", with one write each. Two runs that work at one thing at once append "clash THING". A run with
 * a fencing token appends "token RESOURCE TOKEN" behind its begin. (The things
 * are arguments, not the locked resources, so that the witness sees the same with and without a lock.) Classes:
 *   note      works that long and cannot be cancelled
 *   careful   stops when it is cancelled: "stopped JID"
 *   count     counts in steps of that time to THING, a number, and reports each; goes on from where an earlier run
 *             stopped ("from N JID"), and stops when it is cancelled
 *   fail      fails; the reason is the first THING, and the class of error the second
 *   moody     has to be asked twice: "not now JID", and it comes again that much later, as a snooze, or as a failure
 *             when there is a second THING
 *   parent    works that long, and each THING is a task that follows from it, as JSON; what cannot be added is noted as
 *             "refused JID" and fails it with the reason. Its result is how many it added, {"children":N}
 *   lonely    the same, and it runs at most once
 *   guarded   like note, and needs a lock
 *   picky     like note, and takes no arguments but [] */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "jobs/kit.h"

struct witness {
    struct kit kit;
    const hf_report_api *report;
    const hf_checkpoint_api *checkpoint;
    const hf_push_api *push;
    const char *journal, *directory;
};

static void append(const struct witness *witness, const char *what, const char *name)
{
    char line[600];
    int length = snprintf(line, sizeof line, "%s %s\n", what, name);
    int file = open(witness->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static const char *mark_path(const struct witness *witness, const char *name, char path[1200])
{
    snprintf(path, 1200, "%s/%s.mark", witness->directory, name);
    return path;
}

static void things_enter(const struct witness *witness, hf_job *job)
{
    const char *name = NULL;
    char path[1200];
    for (unsigned i = 1; witness->kit.job->arg_text(job, i, &name); i++) {
        int file = open(mark_path(witness, name, path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0)
            append(witness, "clash", name);
        else
            close(file);
    }
}

static void things_leave(const struct witness *witness, hf_job *job)
{
    const char *name = NULL;
    char path[1200];
    for (unsigned i = 1; witness->kit.job->arg_text(job, i, &name); i++)
        unlink(mark_path(witness, name, path));
}

static int64_t duration_ns(const struct witness *witness, const hf_job *job)
{
    int64_t ms = 0;
    witness->kit.job->arg_integer(job, 0, &ms);
    return ms * 1000000;
}

static void work(int64_t duration)
{
    struct timespec left = {.tv_sec = duration / KIT_NS_PER_S, .tv_nsec = duration % KIT_NS_PER_S};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static void token_note(const struct witness *witness, hf_job *job)
{
    const char *const *names = NULL, *token = witness->kit.lock->fence(job, 0);
    char text[600];
    if (witness->kit.lock->resources(job, &names) == 0 || token[0] == '\0')
        return;
    snprintf(text, sizeof text, "%s %s", names[0], token);
    append(witness, "token", text);
}

static int note(hf_job *job, void *state)
{
    const struct witness *witness = state;
    append(witness, "begin", witness->kit.job->jid(job));
    things_enter(witness, job);
    token_note(witness, job);
    work(duration_ns(witness, job));
    things_leave(witness, job);
    append(witness, "end", witness->kit.job->jid(job));
    return HF_OK;
}

static int careful(hf_job *job, void *state)
{
    const struct witness *witness = state;
    append(witness, "begin", witness->kit.job->jid(job));
    int completed = kit_pause(&witness->kit, job, duration_ns(witness, job));
    append(witness, completed ? "end" : "stopped", witness->kit.job->jid(job));
    return completed ? HF_OK : HF_CANCELLED;
}

static int count(hf_job *job, void *state)
{
    const struct witness *witness = state;
    const char *saved = witness->checkpoint->load(job);
    int64_t steps = 0;
    long done = 0;
    char text[64];
    witness->kit.job->arg_integer(job, 1, &steps);
    if (saved == NULL || sscanf(saved, "{\"done\":%ld}", &done) != 1)
        done = 0;
    snprintf(text, sizeof text, "from %ld", done);
    append(witness, text, witness->kit.job->jid(job));
    append(witness, "begin", witness->kit.job->jid(job));
    while (done < steps) {
        if (!kit_pause(&witness->kit, job, duration_ns(witness, job))) {
            append(witness, "stopped", witness->kit.job->jid(job));
            return HF_CANCELLED;
        }
        snprintf(text, sizeof text, "{\"done\":%ld}", ++done);
        if (!witness->report->progress(job, text) || witness->report->progress(job, "{oops"))
            abort();
    }
    append(witness, "end", witness->kit.job->jid(job));
    return HF_OK;
}

static int fail(hf_job *job, void *state)
{
    const struct witness *witness = state;
    const char *why = "told to fail", *error_class = "Witness::Failure";
    append(witness, "begin", witness->kit.job->jid(job));
    witness->kit.job->arg_text(job, 1, &why);
    witness->kit.job->arg_text(job, 2, &error_class);
    witness->kit.job->error(job, error_class, "%s, attempt %u", why, witness->kit.job->attempt(job));
    return HF_FAIL;
}

static int moody(hf_job *job, void *state)
{
    const struct witness *witness = state;
    const char *thing = "moody", *other = NULL;
    char path[1200];
    witness->kit.job->arg_text(job, 1, &thing);
    int file = open(mark_path(witness, thing, path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    append(witness, file < 0 ? "end" : "not now", witness->kit.job->jid(job));
    if (file < 0)
        return HF_OK;
    close(file);
    if (witness->report->retry_in(job, -1) || !witness->report->retry_in(job, duration_ns(witness, job) / 1000000))
        abort();
    return witness->kit.job->arg_text(job, 2, &other) ? HF_FAIL : HF_SNOOZE;
}

static int parent(hf_job *job, void *state)
{
    const struct witness *witness = state;
    const char *child = NULL;
    char reason[200], text[64];
    unsigned count = 0;
    append(witness, "begin", witness->kit.job->jid(job));
    work(duration_ns(witness, job));
    for (; witness->kit.job->arg_text(job, 1 + count, &child); count++)
        if (!witness->push->add(job, child, reason, sizeof reason)) {
            append(witness, "refused", witness->kit.job->jid(job));
            witness->kit.job->error(job, "Witness::Refused", "%s", reason);
            return HF_FAIL;
        }
    snprintf(text, sizeof text, "{\"children\":%u}", count);
    kit_result(&witness->kit, job, text);
    append(witness, "end", witness->kit.job->jid(job));
    return HF_OK;
}

static int check_nothing(const char *args, size_t length, char *reason, size_t reason_size)
{
    if (length == 2)
        return 1;
    snprintf(reason, reason_size, "wants [] and not %.*s", (int)(length < 40 ? length : 40), args);
    return 0;
}

static int open_witness(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct witness *witness = kit_state(sizeof *witness, host, reason, reason_size);
    if (witness == NULL)
        return -1;
    witness->report = host->api("report", 1);
    witness->checkpoint = host->api("checkpoint", 1);
    witness->push = host->api("push", 1);
    if (witness->report == NULL || witness->checkpoint == NULL || witness->push == NULL)
        abort();
    witness->journal = kit_setting(host, "journal", "journal");
    witness->directory = kit_setting(host, "directory", ".");
    *state = witness;
    return 0;
}

static const hf_handler note_handler = {
    .size = sizeof note_handler, .name = "note", .run = note, .isolation = HF_ISOLATION_THREAD};
static const hf_handler careful_handler = {
    .size = sizeof careful_handler, .name = "careful", .run = careful, .isolation = HF_ISOLATION_THREAD};
static const hf_handler count_handler = {.size = sizeof count_handler,
                                         .name = "count",
                                         .flags = HF_PROGRESS,
                                         .run = count,
                                         .isolation = HF_ISOLATION_THREAD};
static const hf_handler fail_handler = {
    .size = sizeof fail_handler, .name = "fail", .run = fail, .isolation = HF_ISOLATION_THREAD};
static const hf_handler moody_handler = {
    .size = sizeof moody_handler, .name = "moody", .run = moody, .isolation = HF_ISOLATION_THREAD};
static const hf_handler guarded_handler = {.size = sizeof guarded_handler,
                                           .name = "guarded",
                                           .flags = HF_LOCK_REQUIRED,
                                           .run = note,
                                           .isolation = HF_ISOLATION_THREAD};
static const hf_handler parent_handler = {
    .size = sizeof parent_handler, .name = "parent", .run = parent, .isolation = HF_ISOLATION_THREAD};
static const hf_handler lonely_handler = {.size = sizeof lonely_handler,
                                          .name = "lonely",
                                          .flags = HF_AT_MOST_ONCE,
                                          .run = parent,
                                          .isolation = HF_ISOLATION_THREAD};
static const hf_handler picky_handler = {.size = sizeof picky_handler,
                                         .name = "picky",
                                         .run = note,
                                         .isolation = HF_ISOLATION_THREAD,
                                         .check = check_nothing};
static const hf_handler *const handlers[] = {
    &note_handler,    &careful_handler, &count_handler,  &fail_handler,   &moody_handler,
    &guarded_handler, &picky_handler,   &parent_handler, &lonely_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("witness", "1.0"), .open = open_witness, .close = free,
                                             .handlers = handlers};
