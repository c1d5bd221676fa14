/* Built with version 0.3 of job.h, whose hf_handler ended before mode; what follows in memory is not part of it. */
#include "tests/plugins/descriptor.h"

static const char *const beyond[] = {"not:{", NULL};
static const hf_handler only = {.size = offsetof(hf_handler, mode),
                                .name = "minor_3",
                                .run = run_nothing,
                                .retries = 7,
                                .expires_in_ms = 8,
                                .mode = HF_EFFICIENCY,
                                .resources = beyond,
                                .on_conflict = HF_CONFLICT_SKIP,
                                .hold_at_least_ms = -5};
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = 3,
    .size = sizeof(hf_plugin),
    .name = "minor_3",
    .version = "1.0",
    .handlers = handlers,
};
