/* Private to lib/redlock: bounds and defaults of what callers ask for, and how a node they describe is connected to. */
#ifndef REDLOCK_LIMITS_H
#define REDLOCK_LIMITS_H

#include "redis/node.h"
#include "redlock/lease.h"
#include "redlock/redlock.h"

enum { REDLOCK_NODE_NAME_SIZE = 128 };

/* What is locked for a seat of a resource (redlock.h: limit). No resource begins like that. */
#define REDLOCK_SEAT_PREFIX "hf:seat:"

#define REDLOCK_CONNECT_TIMEOUT_NS (1000 * NS_PER_MS)

/* Writes `reason` unless it is NULL. Always false. */
bool redlock_refuse(char *reason, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool redlock_options_check(const struct redlock_options *options, char *reason, size_t size);
int64_t redlock_node_timeout_ns(const struct redlock_node *node);
int64_t redlock_slowest_timeout_ns(const struct redlock_options *options);
double redlock_drift_factor(const struct redlock_options *options);
/* The longest that anybody waits for an answer of a node with this timeout, however slow the node is. */
int64_t redlock_longest_patience_ns(int64_t timeout_ns);
/* The name in logs: the node's own, or its address. */
void redlock_node_name(const struct redlock_node *wanted, char name[REDLOCK_NODE_NAME_SIZE]);
/* Everything but callbacks and limits; points into its arguments. */
struct redis_node_options redlock_node_options(const struct redlock_node *wanted, const struct redlock_options *options,
                                               const char *name);
/* Of any lock, in a group with this max_ttl; 0 = it has none. */
int64_t redlock_longest_ttl_ns(int64_t max_ttl_ns);
/* redlock_terms_check for nodes of which the slowest has this timeout. */
bool redlock_terms_fit(struct redlock_terms *terms, int64_t slowest_timeout_ns, char *reason, size_t size);
/* False, with a reason, if the request exceeds a limit, or `key_prefix` and a resource make a key of ours. */
bool redlock_request_check(const struct redlock_request *request, const char *key_prefix, char *reason, size_t size);
/* The resources of a sound request, sorted and without repetition, as pointers into it; returns how many. */
unsigned redlock_resources_sort(const struct redlock_request *request, const char *sorted[REDLOCK_RESOURCES_MAX]);
/* The terms of the lease, from checked terms. */
struct lease_terms redlock_lease_terms(const struct redlock_terms *terms, unsigned nodes, double drift_factor,
                                       int64_t slowest_timeout_ns);
/* Lets an attempt wait this long for silent nodes, as far as the ttl allows. */
void redlock_lease_terms_wait(struct lease_terms *terms, int64_t patience_ns);

#endif
