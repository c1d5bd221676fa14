/* A second handler for a class of good.c. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "good.first");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin),
    .name = "same_class",
    .version = "1.0",
    .handlers = handlers,
};
