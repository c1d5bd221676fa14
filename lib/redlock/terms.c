/* Names, bounds and defaults (reference: the table of defaults across peers, with a reason for each). */
#include "redlock/terms.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

#define TTL_DEFAULT_NS          REDLOCK_MS(10000)
#define TTL_MIN_NS              REDLOCK_MS(500)
#define TTL_MAX_NS              REDLOCK_MS(60000)
#define DRIFT_FACTOR_DEFAULT    0.01
#define DRIFT_FACTOR_MIN        0.001
#define DRIFT_FACTOR_MAX        0.1
#define TRIES_DEFAULT           3
#define TRIES_MAX               1000
#define RETRY_DELAY_DEFAULT_NS  REDLOCK_MS(20)
#define RETRY_JITTER_DEFAULT_NS REDLOCK_MS(30)
#define RETRY_MAX_NS            REDLOCK_MS(60000)
#define HAND_OVER_TASKS_DEFAULT 8
#define HAND_OVER_TASKS_MAX     1000000
#define HAND_OVER_DEFAULT_NS    REDLOCK_MS(1000)
#define HAND_OVER_MAX_NS        REDLOCK_MS(3600000)
#define NODE_TIMEOUT_DEFAULT_NS REDLOCK_MS(50)
#define NODE_TIMEOUT_MIN_NS     REDLOCK_MS(1)
#define FENCE_TTL_MIN_NS        REDLOCK_MS(60000)
/* An attempt may use a quarter of the ttl. The node's own timer ends it; this slack only catches a late timer. */
#define TIMEOUT_SHARE_OF_TTL 4
#define PASS_SLACK_NS        REDLOCK_MS(10)
/* A node that is slow of late is waited for longer than its timeout, up to so many times that. */
#define PATIENCE_TIMES 10

bool redlock_refuse(char *reason, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (reason != NULL)
        vsnprintf(reason, size, format, arguments);
    va_end(arguments);
    return false;
}

int64_t redlock_node_timeout_ns(const struct redlock_node *node)
{
    return node->timeout_ns > 0 ? node->timeout_ns : NODE_TIMEOUT_DEFAULT_NS;
}

int64_t redlock_slowest_timeout_ns(const struct redlock_options *options)
{
    int64_t slowest = 0;
    for (size_t i = 0; i < options->node_count; i++)
        if (redlock_node_timeout_ns(&options->nodes[i]) > slowest)
            slowest = redlock_node_timeout_ns(&options->nodes[i]);
    return slowest;
}

int64_t redlock_longest_patience_ns(int64_t timeout_ns)
{
    const int64_t longest_ns = TTL_MAX_NS / TIMEOUT_SHARE_OF_TTL;
    return timeout_ns < longest_ns / PATIENCE_TIMES ? PATIENCE_TIMES * timeout_ns : longest_ns;
}

double redlock_drift_factor(const struct redlock_options *options)
{
    return options->drift_factor == 0 ? DRIFT_FACTOR_DEFAULT : options->drift_factor;
}

static bool same_server(const struct redlock_node *a, const struct redlock_node *b)
{
    if (a->unix_path != NULL || b->unix_path != NULL)
        return a->unix_path != NULL && b->unix_path != NULL && strcmp(a->unix_path, b->unix_path) == 0;
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool node_check(const struct redlock_options *options, size_t index, char *reason, size_t size)
{
    const struct redlock_node *node = &options->nodes[index];
    if (node->unix_path == NULL && (node->host == NULL || node->host[0] == '\0'))
        return redlock_refuse(reason, size, "lock node %zu has neither a host nor a unix socket", index + 1);
    if (node->unix_path == NULL && (node->port == 0 || node->port > 65535))
        return redlock_refuse(reason, size, "lock node %zu: port %u is outside 1..65535", index + 1, node->port);
    if (node->timeout_ns < 0 || (node->timeout_ns > 0 && node->timeout_ns < NODE_TIMEOUT_MIN_NS))
        return redlock_refuse(reason, size, "lock node %zu: its timeout is under 1 ms", index + 1);
    for (size_t other = 0; other < index; other++)
        if (same_server(&options->nodes[other], node)) /* E19: one server must not vote twice */
            return redlock_refuse(reason, size,
                                  "lock nodes %zu and %zu are the same server: a lock needs independent ones",
                                  other + 1, index + 1);
    return true;
}

/* What all our keys on lock nodes begin with: the marker and the fences must be out of everybody's reach. */
static const char reserved[] = "hf:";

/* Also a beginning of it: whether "h" and a resource make a key of ours would depend on the resource. */
static bool prefix_check(const char *prefix, char *reason, size_t size)
{
    size_t length = strnlen(prefix, REDLOCK_PREFIX_BYTES_MAX + 1);
    if (length > REDLOCK_PREFIX_BYTES_MAX)
        return redlock_refuse(reason, size, "the key prefix is longer than %d bytes", REDLOCK_PREFIX_BYTES_MAX);
    size_t common = length < strlen(reserved) ? length : strlen(reserved);
    if (common > 0 && strncmp(prefix, reserved, common) == 0)
        return redlock_refuse(reason, size,
                              "the key prefix can make keys that begin with \"hf:\", which are Holdfast's own");
    return true;
}

bool redlock_options_check(const struct redlock_options *options, char *reason, size_t reason_size)
{
    if (options == NULL)
        return redlock_refuse(reason, reason_size, "the options are NULL");
    if (options->node_count < 1 || options->node_count > REDLOCK_NODES_MAX)
        return redlock_refuse(reason, reason_size, "%zu lock nodes: use 3 or 5, at most %d", options->node_count,
                              REDLOCK_NODES_MAX);
    if (options->nodes == NULL)
        return redlock_refuse(reason, reason_size, "the lock nodes are NULL");
    if (options->node_count % 2 == 0) /* E9 */
        return redlock_refuse(reason, reason_size,
                              "%zu lock nodes: the number must be odd, because %zu tolerate as many failures as %zu",
                              options->node_count, options->node_count, options->node_count - 1);
    if (options->fence_ttl_ns != 0 && options->fence_ttl_ns < FENCE_TTL_MIN_NS)
        return redlock_refuse(reason, reason_size, "the ttl of fences must be at least 1 min: 7 d is usual");
    double drift_factor = redlock_drift_factor(options);
    if (!(drift_factor >= DRIFT_FACTOR_MIN && drift_factor <= DRIFT_FACTOR_MAX))
        return redlock_refuse(reason, reason_size, "the drift factor must be from 0.001 to 0.1");
    if (options->key_prefix != NULL && !prefix_check(options->key_prefix, reason, reason_size))
        return false;
    for (size_t i = 0; i < options->node_count; i++)
        if (!node_check(options, i, reason, reason_size))
            return false;
    return true;
}

static void terms_fill(struct redlock_terms *terms)
{
    if (terms->ttl_ns == 0)
        terms->ttl_ns = TTL_DEFAULT_NS;
    if (terms->tries == 0)
        terms->tries = TRIES_DEFAULT;
    if (terms->retry_delay_ns == 0)
        terms->retry_delay_ns = RETRY_DELAY_DEFAULT_NS;
    if (terms->retry_jitter_ns == 0)
        terms->retry_jitter_ns = RETRY_JITTER_DEFAULT_NS;
    if (terms->hand_over_tasks == 0)
        terms->hand_over_tasks = HAND_OVER_TASKS_DEFAULT;
    if (terms->hand_over_ns == 0)
        terms->hand_over_ns = HAND_OVER_DEFAULT_NS;
}

bool redlock_terms_check(struct redlock_terms *terms, const struct redlock_options *options, char *reason,
                         size_t reason_size)
{
    if (terms == NULL)
        return redlock_refuse(reason, reason_size, "the terms are NULL");
    if (options == NULL || (options->nodes == NULL && options->node_count > 0))
        return redlock_refuse(reason, reason_size, "the %s are NULL", options == NULL ? "options" : "lock nodes");
    terms_fill(terms);
    if (terms->ttl_ns < TTL_MIN_NS || terms->ttl_ns > TTL_MAX_NS)
        return redlock_refuse(reason, reason_size, "ttl must be from 500 ms to 60 s");
    if (terms->tries > TRIES_MAX)
        return redlock_refuse(reason, reason_size, "tries must be at most %d", TRIES_MAX);
    if (terms->retry_delay_ns < 0 || terms->retry_delay_ns > RETRY_MAX_NS || terms->retry_jitter_ns < 0 ||
        terms->retry_jitter_ns > RETRY_MAX_NS)
        return redlock_refuse(reason, reason_size, "retry delay and jitter must be from 0 to 60 s");
    if (terms->wait_ns < 0)
        return redlock_refuse(reason, reason_size, "the wait must not be negative");
    if (terms->max_hold_ns < 0)
        return redlock_refuse(reason, reason_size, "the maximum hold must not be negative");
    if (terms->hand_over_tasks > HAND_OVER_TASKS_MAX)
        return redlock_refuse(reason, reason_size, "it may be handed over at most %d times in a row",
                              HAND_OVER_TASKS_MAX);
    if (terms->hand_over_ns < 0 || terms->hand_over_ns > HAND_OVER_MAX_NS)
        return redlock_refuse(reason, reason_size, "it may be handed over for up to 1 h at a time");
    if (redlock_slowest_timeout_ns(options) > terms->ttl_ns / TIMEOUT_SHARE_OF_TTL)
        return redlock_refuse(reason, reason_size,
                              "the slowest lock node's timeout must be at most a quarter of the ttl");
    return true;
}

static bool resource_check(const struct redlock_request *request, size_t index, const char *key_prefix, char *reason,
                           size_t size)
{
    const char *resource = request->resources[index];
    size_t length = resource != NULL ? strnlen(resource, REDLOCK_RESOURCE_BYTES_MAX + 1) : 0;
    if (length == 0)
        return redlock_refuse(reason, size, "resource %zu has no name", index + 1);
    if (length > REDLOCK_RESOURCE_BYTES_MAX)
        return redlock_refuse(reason, size, "resource %zu is longer than %d bytes", index + 1,
                              REDLOCK_RESOURCE_BYTES_MAX);
    if (key_prefix[0] == '\0' && strncmp(resource, reserved, strlen(reserved)) == 0)
        return redlock_refuse(reason, size, "resource %zu begins with \"hf:\", which is kept for Holdfast's own keys",
                              index + 1);
    return true;
}

bool redlock_request_check(const struct redlock_request *request, const char *key_prefix, char *reason,
                           size_t reason_size)
{
    if (request == NULL)
        return redlock_refuse(reason, reason_size, "the request is NULL");
    if (request->resource_count == 0)
        return redlock_refuse(reason, reason_size, "no resource was named");
    if (request->resource_count > REDLOCK_RESOURCES_MAX)
        return redlock_refuse(reason, reason_size, "%zu resources: one lock has at most %d", request->resource_count,
                              REDLOCK_RESOURCES_MAX);
    if (request->resources == NULL)
        return redlock_refuse(reason, reason_size, "the resources are NULL");
    for (size_t i = 0; i < request->resource_count; i++)
        if (!resource_check(request, i, key_prefix, reason, reason_size))
            return false;
    return true;
}

/* Sorted insertion without repetition: everybody asks for several resources in the same order (E45). */
unsigned redlock_resources_sort(const struct redlock_request *request, const char *sorted[REDLOCK_RESOURCES_MAX])
{
    unsigned count = 0;
    for (size_t i = 0; i < request->resource_count; i++) {
        unsigned place = 0;
        while (place < count && strcmp(sorted[place], request->resources[i]) < 0)
            place++;
        if (place < count && strcmp(sorted[place], request->resources[i]) == 0)
            continue;
        memmove(&sorted[place + 1], &sorted[place], (count - place) * sizeof sorted[0]);
        sorted[place] = request->resources[i];
        count++;
    }
    return count;
}

struct lease_terms redlock_lease_terms(const struct redlock_terms *terms, unsigned nodes, double drift_factor,
                                       int64_t slowest_timeout_ns)
{
    struct lease_terms lease = {
        .nodes = nodes,
        .ttl_ns = terms->ttl_ns,
        .drift_factor = drift_factor,
        .attempt_limit_ns = slowest_timeout_ns + PASS_SLACK_NS,
        .tries = terms->wait_ns > 0 ? LEASE_TRIES_ENDLESS : terms->tries,
        .retry_delay_ns = terms->retry_delay_ns,
        .retry_jitter_ns = terms->retry_jitter_ns,
        .fenced = !terms->unfenced,
        .max_hold_ns = terms->max_hold_ns,
    };
    lease_terms_derive(&lease);
    return lease;
}

void redlock_lease_terms_wait(struct lease_terms *terms, int64_t patience_ns)
{
    int64_t most_ns = terms->ttl_ns / TIMEOUT_SHARE_OF_TTL;
    int64_t limit_ns = (patience_ns < most_ns ? patience_ns : most_ns) + PASS_SLACK_NS;
    if (limit_ns == terms->silence_limit_ns)
        return;
    terms->silence_limit_ns = limit_ns;
    lease_terms_derive(terms);
}

const char *redlock_answer_name(enum redlock_answer answer)
{
    static const char *const names[] = {"acquired", "busy",      "split_vote", "no_quorum",
                                        "too_slow", "cancelled", "invalid"};
    invariant((unsigned)answer < sizeof names / sizeof names[0]);
    return names[answer];
}

const char *redlock_ending_name(enum redlock_ending ending)
{
    static const char *const names[] = {"released", "expired", "foreign", "unknown"};
    invariant((unsigned)ending < sizeof names / sizeof names[0]);
    return names[ending];
}
