/* Built with version 0.2 of job.h, whose table of lock functions ended after resources(): it is written out here as it
 * was. Its handler reads the table by that layout, and fails when what it finds is not what it knows. */
#include "tests/plugins/descriptor.h"

struct lock_api_0_2 {
    size_t size;
    int64_t (*valid_for_ms)(const hf_job *job);
    unsigned (*resources)(const hf_job *job, const char *const **names);
};

static const struct lock_api_0_2 *lock;

static int run(hf_job *job, void *state)
{
    const char *const *names = NULL;
    (void)state;
    return lock->valid_for_ms(job) > 0 && lock->resources(job, &names) == 1 && names[0][0] == 'r' ? HF_OK : HF_BURY;
}

static int open_lock(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    (void)state;
    (void)reason;
    (void)reason_size;
    lock = host->api("lock", 1);
    return lock != NULL && lock->size >= sizeof *lock ? 0 : -1;
}

static const hf_handler only = {.size = sizeof only, .name = "minor_2", .run = run};
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = 2,
    .size = sizeof(hf_plugin),
    .name = "minor_2",
    .version = "1.0",
    .open = open_lock,
    .handlers = handlers,
};
