/* The layout of the header as it is. */
#include "jobs/job.h"

#include "tests/support/abi_layout.h"

const struct abi_fact abi_facts_today[ABI_FACTS_MAX] = {
#include "tests/support/abi_layout_list.h"
};
