/* Every mistake that a handler can have, and one that is good. */
#include "tests/plugins/descriptor.h"

static const hf_handler small = {.size = 8, .name = "small", .run = run_nothing};
static const hf_handler unnamed = {.size = sizeof unnamed, .name = "", .run = run_nothing};
static const hf_handler nameless = {.size = sizeof nameless, .run = run_nothing};
static const hf_handler idle = {.size = sizeof idle, .name = "idle"};
HANDLER(fine, "fine");
HANDLERS(&small, &unnamed, &nameless, &idle, &fine);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("bad_handlers", "1.0"), .handlers = handlers};
