/* A second handler for a class of good.c. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "good.first");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("same_class", "1.0"), .handlers = handlers};
