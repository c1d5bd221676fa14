/* Serves nothing. */
#include "tests/plugins/descriptor.h"

HF_EXPORT const hf_plugin holdfast_plugin = {
    .magic = HF_MAGIC,
    .abi_major = HF_ABI_MAJOR,
    .abi_minor = HF_ABI_MINOR,
    .size = sizeof(hf_plugin),
    .name = "no_handlers",
    .version = "1.0",
    .handlers = NULL,
};
