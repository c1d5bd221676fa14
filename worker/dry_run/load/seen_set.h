/* Names that were seen before, as 64-bit hashes: that two of a million are taken for one has a chance of one in 37
 * million. Pure. */
#ifndef WORKER_DRY_RUN_SEEN_SET_H
#define WORKER_DRY_RUN_SEEN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
struct seen_set {
    uint64_t *slots; /* 0 = free */
    size_t capacity, count;
};

/* False when it is in it already; else it is from now on. */
bool seen_set_add(struct seen_set *set, const char *name, size_t length);
void seen_set_fini(struct seen_set *set);

#endif
