/* The layout of version 1.0 of the header. */
#include "tests/plugins/abi_1_0/job.h"

#include "tests/support/abi_layout.h"

const struct abi_fact abi_facts_1_0[ABI_FACTS_MAX] = {
#include "tests/support/abi_layout_list.h"
};
