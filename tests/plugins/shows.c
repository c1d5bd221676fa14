/* A plugin that was built without hiding its names, and has a handler for each answer to where it may run. */
#include "tests/plugins/descriptor.h"

HF_EXPORT int shows_function(void);
extern HF_EXPORT int shows_variable;

int shows_variable = 7;

int shows_function(void)
{
    return shows_variable;
}

HANDLER(anywhere, "shows.anywhere");
static const hf_handler inside = {
    .size = sizeof inside, .name = "shows.inside", .run = run_nothing, .isolation = HF_ISOLATION_THREAD};
static const char *const things[] = {"thing:{0}", NULL};
static const hf_handler outside = {.size = sizeof outside,
                                   .name = "shows.outside",
                                   .about = "never inside",
                                   .run = run_nothing,
                                   .mode = HF_EFFICIENCY,
                                   .resources = things,
                                   .isolation = HF_ISOLATION_PROCESS,
                                   .timeout_ms = 1500};
HANDLERS(&anywhere, &inside, &outside);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("shows", "0.9"), .build = "b17", .handlers = handlers};
