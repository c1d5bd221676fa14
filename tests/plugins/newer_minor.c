/* Built for a newer minor version. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "newer_minor");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR + 1,
    .size = sizeof(hf_plugin),
    .name = "newer_minor",
    .version = "1.0",
    .handlers = handlers,
};
