/* Exports something, but no holdfast_plugin. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "no_symbol");
HANDLERS(&only);

HF_EXPORT const hf_plugin wrong_name = {
    .magic = HF_MAGIC,
    .size = sizeof(hf_plugin),
    .handlers = handlers,
};
