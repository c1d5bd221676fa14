/* Built with older versions of job.h, whose hf_handler ended before check, or before retries; what follows in memory is
 * not part of it. */
#include "tests/plugins/descriptor.h"

static int never(const char *args, size_t length, char *reason, size_t reason_size)
{
    (void)args;
    (void)length;
    (void)reason;
    (void)reason_size;
    return 0;
}

static const hf_handler old = {.size = offsetof(hf_handler, check), .name = "old", .run = run_nothing, .check = never};
/* Version 0.1, which ended before what is usual for the class. */
static const hf_handler minor_1 = {.size = offsetof(hf_handler, retries),
                                   .name = "old.minor_1",
                                   .run = run_nothing,
                                   .check = never,
                                   .retries = 7,
                                   .retry_for_ms = 7,
                                   .retry_queue = "beyond",
                                   .expires_in_ms = 7};
HANDLERS(&old, &minor_1);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = 1,
    .size = sizeof(hf_plugin),
    .name = "old_handler",
    .version = "1.0",
    .handlers = handlers,
};
