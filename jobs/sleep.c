/* sleep: waits. Class: sleep. Stands for work that takes time.
 *
 * Arguments: [MILLISECONDS], up to an hour. Stops early when the task is cancelled. */
#include "jobs/kit.h"

#define MS_MAX    INT64_C(3600000)
#define NS_PER_MS INT64_C(1000000)

static int run(hf_job *job, void *state)
{
    const struct kit *kit = state;
    int64_t ms = 0;
    if (!kit->job->arg_integer(job, 0, &ms) || ms < 0 || ms > MS_MAX) {
        kit->job->error(job, "BadArguments", "expected [MILLISECONDS] from 0 to %lld", (long long)MS_MAX);
        return HF_BURY;
    }
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
    .isolation = HF_ISOLATION_THREAD,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("sleep", "1.0"), .open = open_sleep, .close = free,
                                   .handlers = handlers};
