/* sleep: waits. Class: sleep. Simulates work that takes time.
 *
 * Arguments: [MILLISECONDS], up to an hour. Stops within 50 ms if the task is cancelled. */
#include "jobs/arguments/arguments.h"
#include "jobs/kit.h"

#define MS_MAX INT64_C(3600000)

static int milliseconds_read(const char *args, size_t length, int64_t *ms, char *reason, size_t reason_size)
{
    struct argument first;
    if (argument_element(argument_of(args, length), 0, &first) && argument_whole(first, ms) && *ms >= 0 &&
        *ms <= MS_MAX)
        return 1;
    return kit_refuse(reason, reason_size, "expected [MILLISECONDS], a whole number up to an hour");
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    int64_t ms;
    return milliseconds_read(args, length, &ms, reason, reason_size);
}

static int run(hf_job *job, void *state)
{
    const struct kit *kit = state;
    int64_t ms = 0;
    char reason[80];
    size_t length;
    const char *args = kit->job->args(job, &length);
    if (!milliseconds_read(args, length, &ms, reason, sizeof reason))
        return kit_bury(kit, job, "HF::BadArguments", reason);
    return kit_pause(kit, job, ms * NS_PER_MS) ? HF_OK : HF_CANCELLED;
}

static int open_sleep(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    *state = kit_state(sizeof(struct kit), host, reason, reason_size);
    return *state != NULL ? 0 : -1;
}

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "sleep",
    .about = "waits; arguments: [MILLISECONDS]",
    .run = run,
    .check = check,
    .isolation = HF_ISOLATION_THREAD,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("sleep", "1.0"), .open = open_sleep, .close = free,
                                   .handlers = handlers};
