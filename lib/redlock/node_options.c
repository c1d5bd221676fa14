#include "redlock/node_options.h"

#include <stdio.h>

#include "redlock/scripts.h"

void node_name_write(const struct redlock_node *wanted, char name[NODE_NAME_SIZE])
{
    if (wanted->name != NULL)
        snprintf(name, NODE_NAME_SIZE, "%s", wanted->name);
    else if (wanted->unix_path != NULL)
        snprintf(name, NODE_NAME_SIZE, "%s", wanted->unix_path);
    else
        snprintf(name, NODE_NAME_SIZE, "%s:%u", wanted->host, wanted->port);
}

struct redis_node_options node_options_of(const struct redlock_node *wanted, const struct redlock_options *options,
                                          const char *name)
{
    return (struct redis_node_options){
        .name = name,
        .host = wanted->host,
        .port = wanted->port,
        .unix_path = wanted->unix_path,
        .user = wanted->user,
        .password = wanted->password,
        .database = wanted->database,
        .client_name = options->client_name != NULL ? options->client_name : "redlock",
        .connect_timeout_ns = wanted->connect_timeout_ns > 0 ? wanted->connect_timeout_ns : NODE_CONNECT_TIMEOUT_NS,
        .scripts = redlock_scripts,
        .script_count = REDLOCK_SCRIPT_COUNT,
    };
}
