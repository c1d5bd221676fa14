#include "worker/config/node_options.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "redis/node.h"
#include "redis/tls.h"

/* The configuration has "" where the libraries have NULL. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

bool node_options_check(struct config_node *node, struct error *error)
{
    struct redis_node_options options = node_options(node, NULL);
    const struct redis_tls_options *tls = &options.tls;
    node->tls = redis_node_options_want_tls(&options);
    if (!node->tls &&
        (tls->ca_file != NULL || tls->cert_file != NULL || tls->key_file != NULL || tls->server_name != NULL))
        return error_set(error, "files and a server name for TLS mean nothing without tls itself");
    if (options.password == NULL && options.password_file == NULL)
        options.user = NULL; /* the password may still come from elsewhere */
    return redis_node_options_check(&options, error);
}

void node_address_take(struct config_node *node, struct redis_address *address)
{
    free(node->host);
    node->host = memory_text(address->host);
    node->port = address->port != 0 ? address->port : node->port;
    node->database = address->has_database ? address->database : node->database;
    node->tls = node->tls || address->is_secure;
    if (address->user != NULL) {
        free(node->user);
        node->user = address->user;
    }
    if (address->password != NULL)
        node->password = address->password;
    address->user = address->password = NULL;
}

bool node_host_take(struct config_node *node, struct error *error)
{
    struct redis_address address = {.port = 0};
    const struct redis_address_beside beside = {.port = node->port,
                                                .database = node->database,
                                                .has_user = text_or_null(node->user) != NULL,
                                                .has_tls = node->tls};
    if (!redis_address_has_scheme(node->host))
        return true;
    bool is_good = redis_address_parse(node->host, &address, error) && redis_address_agrees(&address, &beside, error);
    if (is_good && address.password != NULL)
        is_good = error_set(error, "no password belongs into a configuration, which everybody may read: use "
                                   "password_file or password_env");
    if (is_good)
        node_address_take(node, &address);
    else
        error_prefix(error, "host");
    redis_address_drop(&address);
    return is_good;
}

struct redis_node_options node_options(const struct config_node *node, const char *client_name)
{
    return (struct redis_node_options){
        .name = node->name,
        .host = text_or_null(node->host),
        .port = node->port,
        .unix_path = text_or_null(node->unix_path),
        .sentinels = {.master = text_or_null(node->master),
                      .addresses = (const char *const *)node->sentinels.items,
                      .count = node->sentinels.count,
                      .user = text_or_null(node->sentinel_user),
                      .password_file = text_or_null(node->sentinel_password_file)},
        .user = text_or_null(node->user),
        .password = text_or_null(node->password),
        .password_file = text_or_null(node->password_file),
        .database = node->database,
        .client_name = client_name,
        .connect_timeout_ns = node->connect_timeout_ns,
        .tls = {.is_on = node->tls,
                .ca_file = text_or_null(node->tls_ca_file),
                .cert_file = text_or_null(node->tls_cert_file),
                .key_file = text_or_null(node->tls_key_file),
                .server_name = text_or_null(node->tls_server_name)},
    };
}

static struct redlock_node node_for_locks(const struct config_node *node)
{
    return (struct redlock_node){
        .name = node->name,
        .host = text_or_null(node->host),
        .port = node->port,
        .unix_path = text_or_null(node->unix_path),
        .user = text_or_null(node->user),
        .password = text_or_null(node->password),
        .password_file = text_or_null(node->password_file),
        .database = node->database,
        .timeout_ms = ms_from_ns(node->call_timeout_ns),
        .connect_timeout_ms = ms_from_ns(node->connect_timeout_ns),
        .tls = node->tls,
        .tls_ca_file = text_or_null(node->tls_ca_file),
        .tls_cert_file = text_or_null(node->tls_cert_file),
        .tls_key_file = text_or_null(node->tls_key_file),
        .tls_server_name = text_or_null(node->tls_server_name),
    };
}

struct redlock_options lock_setup_options(const struct config *config, const char *identity,
                                          struct redlock_node nodes[REDLOCK_NODES_MAX])
{
    invariant(config->lock_node_count <= REDLOCK_NODES_MAX);
    for (size_t i = 0; i < config->lock_node_count; i++)
        nodes[i] = node_for_locks(&config->lock_nodes[i]);
    return (struct redlock_options){.nodes = nodes,
                                    .node_count = config->lock_node_count,
                                    .key_prefix = config->lock.prefix,
                                    .fence_memory = (size_t)config->lock.fence_memory,
                                    .drift_factor = config->lock.drift_factor,
                                    .client_name = identity,
                                    .is_guest = config->lock.is_guest};
}

bool lock_setup_terms(const struct config *config, struct redlock_terms *terms, struct error *error)
{
    struct redlock_node nodes[REDLOCK_NODES_MAX];
    struct redlock_options options = lock_setup_options(config, NULL, nodes);
    struct redlock_terms wanted = {.ttl_ms = ms_from_ns(config->lock.ttl_ns),
                                   .tries = config->lock.tries,
                                   .retry_delay_ms = ms_from_ns(config->lock.retry_delay_ns),
                                   .retry_jitter_ms = ms_from_ns(config->lock.retry_jitter_ns),
                                   .max_hold_ms = ms_from_ns(config->lock.max_hold_ns),
                                   .hand_over_tasks = config->lock.hand_over_tasks,
                                   .hand_over_ms = ms_from_ns(config->lock.hand_over_ns),
                                   .unfenced = !config->lock.fence};
    char reason[256];
    if (!redlock_terms_check(&wanted, &options, reason, sizeof reason))
        return error_set(error, "%s: lock: %s", config->path, reason);
    *terms = wanted;
    return true;
}

/* An answer arrives within a little more than the slowest node's timeout, unless the loop is stuck. */
int64_t lock_setup_verify_patience_ns(const struct config *config)
{
    int64_t slowest_ns = 0;
    for (size_t i = 0; i < config->lock_node_count; i++)
        if (config->lock_nodes[i].call_timeout_ns > slowest_ns)
            slowest_ns = config->lock_nodes[i].call_timeout_ns;
    return slowest_ns + 200 * NS_PER_MS;
}
