#include "worker/config/node_options.h"

/* The configuration says "" where the libraries say NULL. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
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
                      .password = node->sentinel_password},
        .user = text_or_null(node->user),
        .password = text_or_null(node->password),
        .database = node->database,
        .client_name = client_name,
        .connect_timeout_ns = node->connect_timeout_ns,
    };
}

struct redlock_node node_for_locks(const struct config_node *node)
{
    return (struct redlock_node){
        .name = node->name,
        .host = text_or_null(node->host),
        .port = node->port,
        .unix_path = text_or_null(node->unix_path),
        .user = text_or_null(node->user),
        .password = text_or_null(node->password),
        .database = node->database,
        .timeout_ns = node->call_timeout_ns,
        .connect_timeout_ns = node->connect_timeout_ns,
    };
}
