/* Calls itself as good.c does. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "same_name");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("good", "1.0"), .handlers = handlers};
