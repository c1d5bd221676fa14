/* A handler that watches its lock, for tests of what a handler learns of it. Settings: journal, the file to append to;
 * process, how this worker is called.
 *
 * Class hold, which needs a lock. Arguments: [MILLISECONDS, LISTENS, AFTERWARDS]: it runs so long, or until it is
 * cancelled when LISTENS is not 0. When its lock was lost it waits for AFTERWARDS milliseconds more, or until there is
 * a file of the journal's name and ".go". Always returns HF_OK. Lines, each written at once, with what happened, the
 * jid, the process, and details:
 *
 *     begin JID PROCESS FENCE         the token of the first resource
 *     fences JID PROCESS ONE|...|     of all resources and of one that is none
 *     danger JID PROCESS LEFT         once, with the milliseconds that are left
 *     verified JID PROCESS 0|1        whenever the answer of verify() is another one than before (class verify only)
 *     readable JID PROCESS            once, the descriptor is
 *     lost JID PROCESS REASON LEFT    once: the number of the reason, what is left; written after readable
 *     end JID PROCESS */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

#include "jobs/kit.h"

enum { STEP_MS = 10 };

struct holder {
    struct kit kit;
    const char *journal, *process;
};

struct watch {
    const struct holder *holder;
    hf_job *job;
    int64_t end_ns, listens, afterwards_ms;
    int was_in_danger, was_readable, was_lost, verified; /* -1: not asked yet */
};

__attribute__((format(printf, 3, 4))) static void note(const struct watch *watch, const char *what, const char *format,
                                                       ...)
{
    const struct holder *holder = watch->holder;
    char details[1024], line[2048];
    va_list values;
    va_start(values, format);
    vsnprintf(details, sizeof details, format, values);
    va_end(values);
    int length = snprintf(line, sizeof line, "%s %s %s%s%s\n", what, holder->kit.job->jid(watch->job), holder->process,
                          details[0] != '\0' ? " " : "", details);
    int file = open(holder->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static void begin(const struct watch *watch)
{
    const hf_lock_api *lock = watch->holder->kit.lock;
    const char *const *names = NULL;
    char all[512] = "";
    unsigned count = lock->resources(watch->job, &names);
    note(watch, "begin", "%s", lock->fence(watch->job, 0));
    for (unsigned i = 0; i <= count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s|", lock->fence(watch->job, i));
    note(watch, "fences", "%s", all);
}

static void look(struct watch *watch)
{
    const hf_lock_api *lock = watch->holder->kit.lock;
    const hf_cancel_api *cancel = watch->holder->kit.cancel;
    struct pollfd lost = {.fd = lock->descriptor(watch->job), .events = POLLIN};
    int is_readable = poll(&lost, 1, STEP_MS) == 1;
    enum hf_cancel_reason reason = cancel->reason(watch->job);
    /* Looked at last and written first: a busy machine may let so much time pass that the loss is there, too. */
    if (!watch->was_in_danger && lock->in_danger(watch->job)) {
        watch->was_in_danger = 1;
        note(watch, "danger", "%lld", (long long)lock->valid_for_ms(watch->job));
    }
    if (is_readable && !watch->was_readable) {
        watch->was_readable = 1;
        note(watch, "readable", "%s", "");
    }
    if (!watch->was_lost && (reason == HF_LOCK_LOST || reason == HF_HELD_TOO_LONG)) {
        watch->was_lost = 1;
        if (!watch->was_readable && poll(&lost, 1, 1000) == 1) /* the kernel's timer may be a moment behind the clock */
            note(watch, "readable", "%s", "");
        watch->was_readable = 1;
        note(watch, "lost", "%d %lld", (int)reason, (long long)lock->valid_for_ms(watch->job));
    }
}

static void ask(struct watch *watch)
{
    int verified = watch->holder->kit.lock->verify(watch->job);
    if (verified == watch->verified)
        return;
    watch->verified = verified;
    note(watch, "verified", "%d", verified);
}

static int goes_on(const struct watch *watch)
{
    int is_asked_to_stop = watch->listens && watch->holder->kit.cancel->cancelled(watch->job);
    return kit_now_ns() < watch->end_ns && !is_asked_to_stop;
}

static struct watch watch_begin(const struct holder *holder, hf_job *job)
{
    struct watch watch = {.holder = holder, .job = job, .verified = -1};
    int64_t ms = 0;
    holder->kit.job->arg_integer(job, 0, &ms);
    holder->kit.job->arg_integer(job, 1, &watch.listens);
    holder->kit.job->arg_integer(job, 2, &watch.afterwards_ms);
    watch.end_ns = kit_now_ns() + ms * 1000000;
    begin(&watch);
    return watch;
}

static void linger(const struct watch *watch)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.go", watch->holder->journal);
    for (int64_t left_ms = watch->afterwards_ms; left_ms > 0 && access(path, F_OK) != 0; left_ms -= STEP_MS)
        poll(NULL, 0, STEP_MS);
}

static int watch_end(struct watch *watch)
{
    look(watch);
    if (watch->was_lost)
        linger(watch);
    note(watch, "end", "%s", "");
    return HF_OK;
}

static int hold(hf_job *job, void *state)
{
    struct watch watch = watch_begin(state, job);
    while (goes_on(&watch))
        look(&watch);
    return watch_end(&watch);
}

static int verify(hf_job *job, void *state)
{
    struct watch watch = watch_begin(state, job);
    while (goes_on(&watch)) {
        ask(&watch);
        look(&watch);
    }
    ask(&watch);
    return watch_end(&watch);
}

static int open_holder(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct holder *holder = kit_state(sizeof *holder, host, reason, reason_size);
    if (holder == NULL)
        return -1;
    holder->journal = kit_setting(host, "journal", "journal");
    holder->process = kit_setting(host, "process", "?");
    *state = holder;
    return 0;
}

static const hf_handler hold_handler = {.size = sizeof hold_handler,
                                        .name = "hold",
                                        .flags = HF_LOCK_REQUIRED,
                                        .run = hold,
                                        .isolation = HF_ISOLATION_THREAD};
static const hf_handler verify_handler = {
    .size = sizeof verify_handler, .name = "verify", .run = verify, .isolation = HF_ISOLATION_THREAD};
static const hf_handler *const handlers[] = {&hold_handler, &verify_handler, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("holder", "1.0"), .open = open_holder, .close = free,
                                             .handlers = handlers};
