/* States a size that lacks half of the descriptor. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "short_descriptor");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin) / 2,
    .name = "short_descriptor",
    .version = "1.0",
    .handlers = handlers,
};
