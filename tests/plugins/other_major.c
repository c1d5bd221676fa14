/* Built for another major version. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "other_major");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR + 1,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin),
    .name = "other_major",
    .version = "1.0",
    .handlers = handlers,
};
