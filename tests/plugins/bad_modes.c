/* What handlers may not say about their locks, each in a class of its own. */
#include "tests/plugins/descriptor.h"

#define BAD(symbol, ...)                                                                                               \
    static const hf_handler symbol = {.size = sizeof symbol, .name = "bad." #symbol, .run = run_nothing, __VA_ARGS__}

BAD(mode, .mode = (enum hf_mode)4);
BAD(conflict, .on_conflict = (enum hf_on_conflict)5);
BAD(skip, .on_conflict = HF_CONFLICT_SKIP);
BAD(careful_skip, .mode = HF_CORRECTNESS, .on_conflict = HF_CONFLICT_SKIP);
BAD(hold, .mode = HF_CORRECTNESS, .hold_at_least_ms = 1);
BAD(negative, .mode = HF_EFFICIENCY, .hold_at_least_ms = -1);
BAD(too_long, .mode = HF_EFFICIENCY, .hold_at_least_ms = 60001);
BAD(required, .mode = HF_UNLOCKED, .flags = HF_LOCK_REQUIRED);
HANDLER(good, "good");
HANDLERS(&mode, &conflict, &skip, &careful_skip, &hold, &negative, &too_long, &required, &good);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("bad_modes", "1.0"), .handlers = handlers};
