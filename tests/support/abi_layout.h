/* The layout of jobs/job.h in numbers, as the compiler sees it in one source: abi_layout_today.c with the header as it
 * is, abi_layout_1_0.c with the one that version 1.0 had. Two versions of a header fit into one program only so. */
#ifndef SUPPORT_ABI_LAYOUT_H
#define SUPPORT_ABI_LAYOUT_H

#include <stddef.h>

/* A member: where it is, and how large. A struct: offset 0. A constant: its value, and size 0. */
struct abi_fact {
    const char *name;
    size_t offset, size;
};

enum { ABI_FACTS_MAX = 160 };

/* End with name == NULL. */
extern const struct abi_fact abi_facts_1_0[ABI_FACTS_MAX], abi_facts_today[ABI_FACTS_MAX];

#endif
