/* Built with an older job.h, whose hf_handler ended before check; what follows in memory is not part of it. */
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
HANDLERS(&old);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("old_handler", "1.0"), .handlers = handlers};
