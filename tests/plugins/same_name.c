/* Calls itself as good.c does. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "same_name");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin),
    .name = "good",
    .version = "1.0",
    .handlers = handlers,
};
