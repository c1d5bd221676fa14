/* States a size that cannot be. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "huge_descriptor");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = (size_t)1 << 20,
    .name = "huge_descriptor",
    .version = "1.0",
    .handlers = handlers,
};
