/* A plugin that loads as it should, and whose check() crashes at arguments that end with a 0: "[10]". */
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/descriptor.h"

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    (void)reason, (void)reason_size;
    if (length > 2 && memcmp(args + length - 2, "0]", 2) == 0)
        abort();
    return 1;
}

static const hf_handler fragile = {.size = sizeof fragile, .name = "fragile", .run = run_nothing, .check = check};
HANDLERS(&fragile);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("fragile", "1.0"), .handlers = handlers};
