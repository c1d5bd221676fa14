/* Every mistake that a handler can have, and one that is good. */
#include "tests/plugins/descriptor.h"

static const hf_handler small = {.size = 8, .name = "small", .run = run_nothing};
static const hf_handler unnamed = {.size = sizeof unnamed, .name = "", .run = run_nothing};
static const hf_handler nameless = {.size = sizeof nameless, .run = run_nothing};
static const hf_handler idle = {.size = sizeof idle, .name = "idle"};
static const hf_handler tireless = {
    .size = sizeof tireless, .name = "tireless", .run = run_nothing, .retries = 1000 * 1000 + 1};
static const hf_handler backwards = {
    .size = sizeof backwards, .name = "backwards", .run = run_nothing, .retry_for_ms = -1};
static const hf_handler endless = {
    .size = sizeof endless, .name = "endless", .run = run_nothing, .expires_in_ms = INT64_MAX};
static const hf_handler lost = {.size = sizeof lost, .name = "lost", .run = run_nothing, .retry_queue = "no queue"};
HANDLER(fine, "fine");
HANDLERS(&small, &unnamed, &nameless, &idle, &tireless, &backwards, &endless, &lost, &fine);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("bad_handlers", "1.0"), .handlers = handlers};
