#include "redlock/limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "redlock/redlock_nodes.h"
#include "redlock/scripts.h"

#define ATTEMPT_SLACK_NS (10 * NS_PER_MS) /* a node's own timer ends its call; this only catches a late timer */

enum {
    TTL_MAX_MS = 60000,
    RETRY_MAX_MS = 60000,
    TRIES_MAX = 1000,
    HAND_OVER_TASKS_MAX = 1000000,
    TIMEOUT_SHARE_OF_TTL = 4, /* an attempt may use a quarter of the ttl */
    PATIENCE_TIMES = 10,      /* a slow node is waited for up to so many times its timeout */
};

/* All our keys on lock nodes begin with it: markers and fences must be out of everybody's reach. */
static const char reserved[] = "hf:";

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
    return ns_from_ms(node->timeout_ms > 0 ? node->timeout_ms : 50);
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
    const int64_t longest_ns = TTL_MAX_MS * NS_PER_MS / TIMEOUT_SHARE_OF_TTL;
    return timeout_ns < longest_ns / PATIENCE_TIMES ? PATIENCE_TIMES * timeout_ns : longest_ns;
}

int64_t redlock_longest_ttl_ns(int64_t max_ttl_ns)
{
    return max_ttl_ns > 0 ? max_ttl_ns : TTL_MAX_MS * NS_PER_MS;
}

double redlock_drift_factor(const struct redlock_options *options)
{
    return options->drift_factor == 0 ? 0.01 : options->drift_factor;
}

/* Of a node that has no unix socket and was checked. */
static void server_read(const struct redlock_node *node, char host[REDIS_HOST_MAX], unsigned *port)
{
    struct redis_address address = {.port = 0};
    struct error unused = ERROR_NONE;
    bool is_address = redis_address_has_scheme(node->host) && redis_address_parse(node->host, &address, &unused);
    snprintf(host, REDIS_HOST_MAX, "%s", is_address ? address.host : node->host);
    *port = address.port != 0 ? address.port : node->port != 0 ? node->port : REDIS_PORT_DEFAULT;
    redis_address_drop(&address);
}

void redlock_node_name(const struct redlock_node *wanted, char name[REDLOCK_NODE_NAME_SIZE])
{
    const char *known = wanted->name != NULL ? wanted->name : wanted->unix_path;
    char host[REDIS_HOST_MAX];
    unsigned port;
    if (known != NULL) {
        snprintf(name, REDLOCK_NODE_NAME_SIZE, "%s", known);
        return;
    }
    server_read(wanted, host, &port);
    snprintf(name, REDLOCK_NODE_NAME_SIZE, "%.*s:%u", REDLOCK_NODE_NAME_SIZE - 12, host, port);
}

struct redis_node_options redlock_node_options(const struct redlock_node *wanted, const struct redlock_options *options,
                                               const char *name)
{
    return (struct redis_node_options){
        .name = name,
        .host = wanted->host,
        .port = wanted->port,
        .unix_path = wanted->unix_path,
        .user = wanted->user,
        .password = wanted->password,
        .password_file = wanted->password_file,
        .database = wanted->database,
        .client_name = options->client_name != NULL ? options->client_name : "redlock",
        .connect_timeout_ns =
            wanted->connect_timeout_ms > 0 ? ns_from_ms(wanted->connect_timeout_ms) : REDLOCK_CONNECT_TIMEOUT_NS,
        .scripts = redlock_scripts,
        .script_count = REDLOCK_SCRIPT_COUNT,
        .tls = {.is_on = wanted->tls,
                .ca_file = wanted->tls_ca_file,
                .cert_file = wanted->tls_cert_file,
                .key_file = wanted->tls_key_file,
                .server_name = wanted->tls_server_name},
    };
}

static bool same_server(const struct redlock_node *a, const struct redlock_node *b)
{
    if (a->unix_path != NULL || b->unix_path != NULL)
        return a->unix_path != NULL && b->unix_path != NULL && strcmp(a->unix_path, b->unix_path) == 0;
    char host_a[REDIS_HOST_MAX], host_b[REDIS_HOST_MAX];
    unsigned port_a, port_b;
    server_read(a, host_a, &port_a);
    server_read(b, host_b, &port_b);
    return port_a == port_b && strcmp(host_a, host_b) == 0;
}

static bool node_check(const struct redlock_options *options, size_t index, char *reason, size_t size)
{
    const struct redlock_node *node = &options->nodes[index];
    if (node->unix_path == NULL && (node->host == NULL || node->host[0] == '\0'))
        return redlock_refuse(reason, size, "lock node %zu has neither a host nor a unix socket", index + 1);
    if (node->unix_path == NULL && (node->port > 65535 || (node->port == 0 && !redis_address_has_scheme(node->host))))
        return redlock_refuse(reason, size, "lock node %zu: port %u is outside 1..65535", index + 1, node->port);
    if (node->timeout_ms < 0)
        return redlock_refuse(reason, size, "lock node %zu: its timeout is negative", index + 1);
    struct error error = ERROR_NONE;
    const struct redis_node_options own = redlock_node_options(node, options, "");
    if (!redis_node_options_check(&own, &error))
        return redlock_refuse(reason, size, "lock node %zu: %s", index + 1, error.text);
    for (size_t other = 0; other < index; other++)
        if (same_server(&options->nodes[other], node)) /* E19: one server must not vote twice */
            return redlock_refuse(reason, size,
                                  "lock nodes %zu and %zu are the same server: a lock needs independent ones",
                                  other + 1, index + 1);
    return true;
}

/* Refuses "h" and "hf" as well: some resources would make a key of ours with them. */
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

bool redlock_options_check(const struct redlock_options *options, char *reason, size_t size)
{
    if (options == NULL)
        return redlock_refuse(reason, size, "the options are NULL");
    if (options->node_count < 1 || options->node_count > REDLOCK_NODES_MAX)
        return redlock_refuse(reason, size, "%zu lock nodes: use 3 or 5, at most %d", options->node_count,
                              REDLOCK_NODES_MAX);
    if (options->nodes == NULL)
        return redlock_refuse(reason, size, "the lock nodes are NULL");
    if (options->node_count % 2 == 0) /* E9 */
        return redlock_refuse(reason, size,
                              "%zu lock nodes: the number must be odd, because %zu tolerate as many failures as %zu",
                              options->node_count, options->node_count, options->node_count - 1);
    if (options->fence_memory > 0 && options->fence_memory < REDLOCK_FENCE_MEMORY_MIN)
        return redlock_refuse(reason, size, "the memory for fences is less than %d bytes", REDLOCK_FENCE_MEMORY_MIN);
    double drift_factor = redlock_drift_factor(options);
    if (!(drift_factor >= 0.001 && drift_factor <= 0.1))
        return redlock_refuse(reason, size, "the drift factor must be from 0.001 to 0.1");
    if (options->key_prefix != NULL && !prefix_check(options->key_prefix, reason, size))
        return false;
    for (size_t i = 0; i < options->node_count; i++)
        if (!node_check(options, i, reason, size))
            return false;
    return true;
}

static bool time_fits(int64_t *ms, int64_t default_ms, int64_t least_ms, int64_t most_ms)
{
    if (*ms == 0)
        *ms = default_ms;
    return *ms >= least_ms && *ms <= most_ms;
}

static bool count_fits(unsigned *count, unsigned default_count, unsigned most)
{
    if (*count == 0)
        *count = default_count;
    return *count <= most;
}

bool redlock_terms_fit(struct redlock_terms *terms, int64_t slowest_timeout_ns, char *reason, size_t size)
{
    if (!time_fits(&terms->ttl_ms, 10000, 500, TTL_MAX_MS))
        return redlock_refuse(reason, size, "ttl must be from 500 ms to 60 s");
    if (!count_fits(&terms->tries, 3, TRIES_MAX))
        return redlock_refuse(reason, size, "tries must be at most %d", TRIES_MAX);
    if (!time_fits(&terms->retry_delay_ms, 20, 0, RETRY_MAX_MS) ||
        !time_fits(&terms->retry_jitter_ms, 30, 0, RETRY_MAX_MS))
        return redlock_refuse(reason, size, "retry delay and jitter must be from 0 to 60 s");
    if (terms->wait_ms < 0)
        return redlock_refuse(reason, size, "the wait must not be negative");
    if (terms->max_hold_ms < 0)
        return redlock_refuse(reason, size, "the maximum hold must not be negative");
    if (!count_fits(&terms->hand_over_tasks, 8, HAND_OVER_TASKS_MAX))
        return redlock_refuse(reason, size, "it may be handed over at most %d times in a row", HAND_OVER_TASKS_MAX);
    if (!time_fits(&terms->hand_over_ms, 1000, 0, 3600000))
        return redlock_refuse(reason, size, "it may be handed over for up to 1 h at a time");
    if (!(terms->drift_factor >= 0 && terms->drift_factor <= 0.1))
        return redlock_refuse(reason, size, "the drift factor must be from 0 to 0.1");
    if (!(terms->timeout_factor == 0 || (terms->timeout_factor >= 0.01 && terms->timeout_factor <= 0.25)))
        return redlock_refuse(reason, size, "the timeout factor must be from 0.01 to 0.25");
    if (slowest_timeout_ns > ns_from_ms(terms->ttl_ms) / TIMEOUT_SHARE_OF_TTL)
        return redlock_refuse(reason, size, "the slowest lock node's timeout must be at most a quarter of the ttl");
    return true;
}

bool redlock_terms_check(struct redlock_terms *terms, const struct redlock_options *options, char *reason,
                         size_t reason_size)
{
    if (terms == NULL)
        return redlock_refuse(reason, reason_size, "the terms are NULL");
    if (options == NULL || (options->nodes == NULL && options->node_count > 0))
        return redlock_refuse(reason, reason_size, "the %s are NULL", options == NULL ? "options" : "lock nodes");
    return redlock_terms_fit(terms, redlock_slowest_timeout_ns(options), reason, reason_size);
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
    if (strncmp(resource, REDLOCK_SEAT_PREFIX, strlen(REDLOCK_SEAT_PREFIX)) == 0)
        return redlock_refuse(reason, size,
                              "resource %zu begins with \"" REDLOCK_SEAT_PREFIX
                              "\", which is kept for the seats of resources with a limit",
                              index + 1);
    return true;
}

static bool limit_check(const struct redlock_request *request, char *reason, size_t size)
{
    if (request->limit > REDLOCK_LIMIT_MAX)
        return redlock_refuse(reason, size, "the limit is %u: at most %d may hold a resource at once", request->limit,
                              REDLOCK_LIMIT_MAX);
    if (request->limit > 1 && request->resource_count > 1)
        return redlock_refuse(reason, size, "a limit is for one resource, and %zu were named", request->resource_count);
    if (request->seat > (request->limit > 1 ? request->limit : 0))
        return redlock_refuse(reason, size, "seat %u is beyond the limit of %u", request->seat, request->limit);
    if (request->limit > 1 && request->shared)
        return redlock_refuse(reason, size, "a shared lock has no limit: any number of readers may hold it");
    return true;
}

bool redlock_request_check(const struct redlock_request *request, const char *key_prefix, char *reason, size_t size)
{
    if (request == NULL)
        return redlock_refuse(reason, size, "the request is NULL");
    if (request->resource_count == 0)
        return redlock_refuse(reason, size, "no resource was named");
    if (request->resource_count > REDLOCK_RESOURCES_MAX)
        return redlock_refuse(reason, size, "%zu resources: one lock has at most %d", request->resource_count,
                              REDLOCK_RESOURCES_MAX);
    if (request->resources == NULL)
        return redlock_refuse(reason, size, "the resources are NULL");
    for (size_t i = 0; i < request->resource_count; i++)
        if (!resource_check(request, i, key_prefix, reason, size))
            return false;
    return limit_check(request, reason, size);
}

void redlock_seat_name(const char *resource, unsigned seat, char name[REDLOCK_SEAT_NAME_SIZE])
{
    if (seat == 1)
        snprintf(name, REDLOCK_SEAT_NAME_SIZE, "%s", resource);
    else
        snprintf(name, REDLOCK_SEAT_NAME_SIZE, REDLOCK_SEAT_PREFIX "%u:%s", seat, resource);
}

/* Every client asks for several resources in the same order (E45). */
unsigned redlock_resources_sort(const struct redlock_request *request, const char *sorted[REDLOCK_RESOURCES_MAX])
{
    unsigned count = 0;
    for (size_t i = 0; i < request->resource_count; i++) {
        unsigned position = 0;
        while (position < count && strcmp(sorted[position], request->resources[i]) < 0)
            position++;
        if (position < count && strcmp(sorted[position], request->resources[i]) == 0)
            continue;
        memmove(&sorted[position + 1], &sorted[position], (count - position) * sizeof sorted[0]);
        sorted[position] = request->resources[i];
        count++;
    }
    return count;
}

struct lease_terms redlock_lease_terms(const struct redlock_terms *terms, unsigned nodes, double drift_factor,
                                       int64_t slowest_timeout_ns)
{
    double share = terms->timeout_factor > 0 ? terms->timeout_factor : 1.0 / TIMEOUT_SHARE_OF_TTL;
    int64_t most_ns = (int64_t)((double)ns_from_ms(terms->ttl_ms) * share);
    struct lease_terms lease = {
        .nodes = nodes,
        .ttl_ns = ns_from_ms(terms->ttl_ms),
        .drift_factor = terms->drift_factor > drift_factor ? terms->drift_factor : drift_factor,
        .attempt_limit_ns = (slowest_timeout_ns < most_ns ? slowest_timeout_ns : most_ns) + ATTEMPT_SLACK_NS,
        .silence_most_ns = most_ns,
        .tries = terms->wait_ms > 0 ? LEASE_TRIES_ENDLESS : terms->tries,
        .retry_delay_ns = ns_from_ms(terms->retry_delay_ms),
        .retry_jitter_ns = ns_from_ms(terms->retry_jitter_ms),
        .fenced = !terms->unfenced,
        .max_hold_ns = ns_from_ms(terms->max_hold_ms),
    };
    lease_terms_derive(&lease);
    return lease;
}

void redlock_lease_terms_wait(struct lease_terms *terms, int64_t patience_ns)
{
    int64_t most_ns = terms->silence_most_ns;
    int64_t limit_ns = (patience_ns < most_ns ? patience_ns : most_ns) + ATTEMPT_SLACK_NS;
    if (limit_ns == terms->silence_limit_ns)
        return;
    terms->silence_limit_ns = limit_ns;
    lease_terms_derive(terms);
}

const char *redlock_answer_name(enum redlock_answer answer)
{
    static const char *const names[] = {"acquired", "busy",      "split_vote", "no_quorum",
                                        "too_slow", "cancelled", "invalid",    "in_danger"};
    invariant((unsigned)answer < sizeof names / sizeof names[0]);
    return names[answer];
}

const char *redlock_ending_name(enum redlock_ending ending)
{
    static const char *const names[] = {"released", "expired", "foreign", "unknown", "still_held", "not_held"};
    invariant((unsigned)ending < sizeof names / sizeof names[0]);
    return names[ending];
}
