/* Private to lib/redlock: bounds and defaults of what callers ask for. */
#ifndef REDLOCK_TERMS_H
#define REDLOCK_TERMS_H

#include "redlock/lease.h"
#include "redlock/redlock.h"

/* Says why; nobody is told when `reason` is NULL. Always false. */
bool redlock_refuse(char *reason, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool redlock_options_check(const struct redlock_options *options, char *reason, size_t reason_size);
int64_t redlock_node_timeout_ns(const struct redlock_node *node);
int64_t redlock_slowest_timeout_ns(const struct redlock_options *options);
double redlock_drift_factor(const struct redlock_options *options);
/* How long an answer of a node with this timeout may be waited for at most, however slow it is of late. */
int64_t redlock_longest_patience_ns(int64_t timeout_ns);
/* False, with a reason, when the request is outside the limits, or `key_prefix` and a resource make a key of ours. */
bool redlock_request_check(const struct redlock_request *request, const char *key_prefix, char *reason,
                           size_t reason_size);
/* The resources of a sound request, sorted and without repetition, as pointers into it; returns how many. */
unsigned redlock_resources_sort(const struct redlock_request *request, const char *sorted[REDLOCK_RESOURCES_MAX]);
/* The terms as the lease wants them. The terms were checked. */
struct lease_terms redlock_lease_terms(const struct redlock_terms *terms, unsigned nodes, double drift_factor,
                                       int64_t slowest_timeout_ns);
/* An attempt waits for so long while its nodes are silent, as far as the ttl allows. */
void redlock_lease_terms_wait(struct lease_terms *terms, int64_t patience_ns);

#endif
