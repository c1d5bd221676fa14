/* Classes whose handlers say how they are locked: one for each mode, and one that says nothing. */
#include "tests/plugins/descriptor.h"

static const char *const account[] = {"account:{0}", "account:{1}", NULL};
static const char *const page[] = {"page:{0.id}", NULL};
static const char *const note[] = {"note:{0}", NULL};

static const hf_handler careful = {.size = sizeof careful,
                                   .name = "modes.careful",
                                   .flags = HF_LOCK_REQUIRED,
                                   .run = run_nothing,
                                   .isolation = HF_ISOLATION_THREAD,
                                   .mode = HF_CORRECTNESS,
                                   .resources = account,
                                   .on_conflict = HF_CONFLICT_FAIL};
static const hf_handler quick = {.size = sizeof quick,
                                 .name = "modes.quick",
                                 .run = run_nothing,
                                 .isolation = HF_ISOLATION_THREAD,
                                 .mode = HF_EFFICIENCY,
                                 .resources = page,
                                 .on_conflict = HF_CONFLICT_SKIP,
                                 .hold_at_least_ms = 1500};
static const hf_handler free_one = {.size = sizeof free_one,
                                    .name = "modes.free",
                                    .run = run_nothing,
                                    .isolation = HF_ISOLATION_THREAD,
                                    .mode = HF_UNLOCKED,
                                    .resources = note};
HANDLER(silent, "modes.silent");
HANDLERS(&careful, &quick, &free_one, &silent);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("modes", "1.0"), .handlers = handlers};
