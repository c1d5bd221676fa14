/* Private to lib/redlock: bounds and defaults of what callers ask for. */
#ifndef REDLOCK_TERMS_H
#define REDLOCK_TERMS_H

#include "redlock/lease.h"
#include "redlock/redlock.h"

bool redlock_options_check(const struct redlock_options *options, char *reason, size_t reason_size);
int64_t redlock_node_timeout_ns(const struct redlock_node *node);
int64_t redlock_slowest_timeout_ns(const struct redlock_options *options);
/* The resources asked for, sorted and without repetition, as pointers into the request; returns how many, 0 when the
 * request is outside the limits. */
unsigned redlock_resources_sort(const struct redlock_request *request, const char *sorted[REDLOCK_RESOURCES_MAX]);
/* The terms as the lease wants them. The terms were checked. */
struct lease_terms redlock_lease_terms(const struct redlock_terms *terms, unsigned nodes, int64_t slowest_timeout_ns);

#endif
