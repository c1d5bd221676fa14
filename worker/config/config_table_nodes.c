/* The keys of the nodes: the part of config_table.c that is about servers. */
#include "base/clock.h"
#include "worker/config/config_node.h"
#include "worker/config/config_table.h"

#define FIELD(member) .offset = offsetof(struct config_node, member)
#define ADDRESS_KEYS(sample_port, others)                                                                              \
    {.name = "host",                                                                                                   \
     .type = CONFIG_TEXT,                                                                                              \
     FIELD(host),                                                                                                      \
     .max = 255,                                                                                                       \
     .example = "127.0.0.1",                                                                                           \
     .in_sample = true,                                                                                                \
     .help = "Name or address of the server. Either this or " others "."},                                             \
        {.name = "port",                                                                                               \
         .type = CONFIG_COUNT,                                                                                         \
         FIELD(port),                                                                                                  \
         .fallback = "6379",                                                                                           \
         .min = 1,                                                                                                     \
         .max = 65535,                                                                                                 \
         .example = sample_port,                                                                                       \
         .in_sample = true,                                                                                            \
         .help = "Its TCP port."},                                                                                     \
        {.name = "unix_path",                                                                                          \
         .type = CONFIG_PATH,                                                                                          \
         FIELD(unix_path),                                                                                             \
         .max = 107,                                                                                                   \
         .example = "/run/redis/redis.sock",                                                                           \
         .help = "Path of its unix socket."},                                                                          \
        {.name = "user",                                                                                               \
         .type = CONFIG_TEXT,                                                                                          \
         FIELD(user),                                                                                                  \
         .max = 128,                                                                                                   \
         .example = "holdfast",                                                                                        \
         .help = "The user to authenticate as. Default: the password alone is sent."},                                 \
        {.name = "password_file",                                                                                      \
         .type = CONFIG_PATH,                                                                                          \
         FIELD(password_file),                                                                                         \
         .max = 4095,                                                                                                  \
         .example = "/etc/holdfast/password",                                                                          \
         .help = "File whose first line is the password; only its owner may have access to it (chmod 600)."},          \
        {.name = "password_env",                                                                                       \
         .type = CONFIG_TEXT,                                                                                          \
         FIELD(password_env),                                                                                          \
         .max = 255,                                                                                                   \
         .example = "REDIS_PASSWORD",                                                                                  \
         .help = "Environment variable that holds the password, instead of a file."},                                  \
        {.name = "database",                                                                                           \
         .type = CONFIG_COUNT,                                                                                         \
         FIELD(database),                                                                                              \
         .fallback = "0",                                                                                              \
         .min = 0,                                                                                                     \
         .max = 65535,                                                                                                 \
         .help = "Number of the database to select."},                                                                 \
    {                                                                                                                  \
        .name = "connect_timeout", .type = CONFIG_DURATION, FIELD(connect_timeout_ns), .fallback = "1s",               \
        .min = 10 * NS_PER_MS, .max = 60 * NS_PER_S,                                                                   \
        .help = "For connecting and authenticating, which happens in the background and is tried for ever."            \
    }

const struct config_key config_queue_node_keys[] = {
    ADDRESS_KEYS("7000", "unix_path or sentinels"),
    {.name = "sentinels",
     .type = CONFIG_WORDS,
     FIELD(sentinels),
     .max = 16,
     .example = "[\"10.0.0.1:26379\", \"10.0.0.2:26379\", \"10.0.0.3:26379\"]",
     .help =
         "Instead of host: the Redis Sentinels to ask for the address of the server, each HOST:PORT. They are asked "
         "in turn, whenever there is no connection."},
    {.name = "master",
     .type = CONFIG_TEXT,
     FIELD(master),
     .max = 128,
     .example = "mymaster",
     .help = "The name under which the sentinels know the server."},
    {.name = "sentinel_user",
     .type = CONFIG_TEXT,
     FIELD(sentinel_user),
     .max = 128,
     .example = "holdfast",
     .help = "The user to authenticate as at the sentinels. Default: the password alone is sent."},
    {.name = "sentinel_password_file",
     .type = CONFIG_PATH,
     FIELD(sentinel_password_file),
     .max = 4095,
     .example = "/etc/holdfast/sentinel-password",
     .help = "File whose first line is the password of the sentinels; only its owner may have access to it. Default: "
             "none is sent."},
    {.name = "call_timeout",
     .type = CONFIG_DURATION,
     FIELD(call_timeout_ns),
     .fallback = "1s",
     .min = 10 * NS_PER_MS,
     .max = 60 * NS_PER_S,
     .help = "For one operation on this node. An operation without an answer may have been executed; the worker finds "
             "that out and loses nothing."},
    {.name = NULL},
};

const struct config_key config_lock_node_keys[] = {
    {.name = "name",
     .type = CONFIG_TEXT,
     FIELD(name),
     .max = 64,
     .example = "lock1",
     .help = "How logs call this node. Default: lock1, lock2 and so on in the order of the list."},
    ADDRESS_KEYS("7001", "unix_path"),
    {.name = "timeout",
     .type = CONFIG_DURATION,
     FIELD(call_timeout_ns),
     .fallback = "50ms",
     .min = NS_PER_MS,
     .max = 5 * NS_PER_S,
     .help =
         "How long an answer of this node is waited for; at most a quarter of lock.ttl. A node that is slow of late "
         "is waited for longer: twice as long as its slowest answer of the last half minute to minute took, up to "
         "ten times the timeout and a quarter of lock.ttl. One that is silent for longer counts as one that did "
         "not vote."},
    {.name = NULL},
};
#undef FIELD
