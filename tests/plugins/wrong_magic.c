/* The magic number of something else. */
#include "tests/plugins/descriptor.h"

HANDLER(only, "wrong_magic");
HANDLERS(&only);

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = UINT32_C(0x12345678),
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin),
    .name = "wrong_magic",
    .version = "1.0",
    .handlers = handlers,
};
