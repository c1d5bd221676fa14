/* Serves nothing. */
#include "tests/plugins/descriptor.h"

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("no_handlers", "1.0"), .handlers = NULL};
