/* The nodes of the configuration: what the table cannot check, and the passwords. */
#include "worker/config/config_node.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "redis/node.h"
#include "worker/config/config_secret.h"

enum { LOCK_NODES_MAX = 15 };

static void password_resolve(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (node->password_file[0] != '\0' && node->password_env[0] != '\0')
        error_set(&error, "has both password_file and password_env; keep one");
    else if (node->password_file[0] != '\0')
        node->password = secret_read_file(node->password_file, &error);
    else if (node->password_env[0] != '\0')
        node->password = secret_read_environment(node->password_env, &error);
    else if (node->user[0] != '\0')
        error_set(&error, "has a user but neither password_file nor password_env");
    if (error_is_set(&error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Lock nodes have no keys for sentinels: their texts are NULL. */
static void sentinel_password_resolve(struct config_node *node, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (has_text(node->sentinel_password_file))
        node->sentinel_password = secret_read_file(node->sentinel_password_file, &error);
    else if (has_text(node->sentinel_user))
        error_set(&error, "has a sentinel_user but no sentinel_password_file");
    if (error_is_set(&error))
        findings_error(findings, "%s: %s: %s", node->source.where, node->name, error.text);
}

static void address_check(const struct config_node *node, struct findings *findings)
{
    bool may_have_sentinels = node->master != NULL;
    if (has_text(node->host) + has_text(node->unix_path) + (node->sentinels.count > 0) != 1)
        findings_error(findings, "%s: %s: needs either host (and port) or unix_path%s", node->source.where, node->name,
                       may_have_sentinels ? " or sentinels (and master)" : "");
}

static void sentinels_check(const struct config_node *node, struct findings *findings)
{
    char host[REDIS_HOST_MAX], quoted[LOG_QUOTE_MAX];
    unsigned port;
    for (size_t i = 0; i < node->sentinels.count; i++)
        if (!redis_address_parse(node->sentinels.items[i], host, &port))
            findings_error(findings, "%s: %s: sentinels: %s is no HOST:PORT or [IPv6]:PORT with a port from 1 to 65535",
                           node->source.where, node->name, log_quote(node->sentinels.items[i], quoted));
    if (node->sentinels.count > 0 && !has_text(node->master))
        findings_error(findings, "%s: %s: sentinels need the key master: the name under which they know the server",
                       node->source.where, node->name);
    if (node->sentinels.count == 0 &&
        (has_text(node->master) || has_text(node->sentinel_user) || has_text(node->sentinel_password_file)))
        findings_error(findings,
                       "%s: %s: master, sentinel_user and sentinel_password_file mean nothing without sentinels",
                       node->source.where, node->name);
}

static void node_check(struct config_node *node, struct findings *findings)
{
    size_t errors_before = findings->errors;
    if (node->source.where == NULL) { /* reported as missing */
        node->source.is_broken = true;
        return;
    }
    address_check(node, findings);
    sentinels_check(node, findings);
    password_resolve(node, findings);
    sentinel_password_resolve(node, findings);
    node->source.is_broken |= findings->errors > errors_before;
}

static bool nodes_have_one_address(const struct config_node *a, const struct config_node *b)
{
    if (a->unix_path[0] != '\0' || b->unix_path[0] != '\0')
        return strcmp(a->unix_path, b->unix_path) == 0;
    return strcasecmp(a->host, b->host) == 0 && a->port == b->port;
}

/* Two entries for one server would let one machine vote twice. Another database is no other server. */
static void lock_node_compare(const struct config *config, size_t index, struct findings *findings)
{
    const struct config_node *node = &config->lock_nodes[index];
    for (size_t i = 0; i < index; i++) {
        const struct config_node *other = &config->lock_nodes[i];
        if (node->source.is_broken || other->source.is_broken)
            continue;
        if (nodes_have_one_address(node, other))
            findings_error(findings, "%s: %s is the same server as %s (%s): every lock node has one vote",
                           node->source.where, node->name, other->name, other->source.where);
        if (strcmp(node->name, other->name) == 0)
            findings_error(findings, "%s: two lock nodes are called %s (%s)", node->source.where, node->name,
                           other->source.where);
    }
}

static void lock_nodes_check(struct config *config, struct findings *findings)
{
    size_t count = config->lock_node_count;
    for (size_t i = 0; i < count; i++) {
        struct config_node *node = &config->lock_nodes[i];
        node_check(node, findings);
        lock_node_compare(config, i, findings);
        if (!node->source.is_broken && node->call_timeout_ns > config->lock.ttl_ns / 4)
            findings_error(findings,
                           "%s: %s: the timeout is more than a quarter of lock.ttl: one slow node would use up "
                           "the lock",
                           node->source.where, node->name);
    }
    if (count > LOCK_NODES_MAX)
        findings_error(findings, "%s: more than %d lock nodes", config->lock_nodes[LOCK_NODES_MAX].source.where,
                       LOCK_NODES_MAX);
    if (count == 1)
        findings_warn(findings,
                      "%s: one lock node is not a Redlock: when it restarts empty, two can hold one lock. Good "
                      "enough to save work, not to protect data",
                      config->lock_nodes[0].source.where);
    else if (count > 0 && count % 2 == 0)
        findings_error(findings, "%s: %zu lock nodes tolerate no more failures than %zu: use an odd number, 3 or 5",
                       config->lock_nodes[count - 1].source.where, count, count - 1);
}

void config_nodes_check(struct config *config, struct findings *findings)
{
    node_check(&config->queue_node, findings);
    lock_nodes_check(config, findings);
}

static void node_forget(struct config_node *node)
{
    secret_free(node->password);
    secret_free(node->sentinel_password);
}

void config_nodes_forget(struct config *config)
{
    node_forget(&config->queue_node);
    for (size_t i = 0; i < config->lock_node_count; i++)
        node_forget(&config->lock_nodes[i]);
}

const char *config_node_address(const struct config_node *node, struct buffer *out)
{
    buffer_clear(out);
    if (node->sentinels.count > 0)
        buffer_format(out, "%s (by %zu sentinel%s)", node->master, node->sentinels.count,
                      node->sentinels.count == 1 ? "" : "s");
    else if (node->unix_path[0] != '\0')
        buffer_append_text(out, node->unix_path);
    else
        buffer_format(out, "%s:%u", node->host, node->port);
    return buffer_text(out);
}
