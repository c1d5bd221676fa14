#include "worker/fault_names.h"

#ifdef HOLDFAST_FAULTS

#include "base/fault.h"
#include "queue/scripts.h"
#include "redlock/scripts.h"

static const char *const commands[] = {"lpush",   "sadd",      "hdel",       "lmove",         "blmove",
                                       "brpop",   "client",    "set",        "unlink",        "del",
                                       "info",    "ping",      "role",       "time",          "get",
                                       "hget",    "hgetall",   "hlen",       "hmget",         "hscan",
                                       "lindex",  "llen",      "lrange",     "sentinel",      "sismember",
                                       "sscan",   "zcard",     "zrange",     "zrangebyscore", "zrevrangebyscore",
                                       "publish", "subscribe", "unsubscribe"};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

void fault_names_read(void)
{
    static const char *names[COMMANDS + QUEUE_SCRIPT_COUNT + REDLOCK_SCRIPT_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        names[count++] = commands[i];
    for (size_t i = 0; i < QUEUE_SCRIPT_COUNT; i++)
        names[count++] = queue_scripts[i]->name;
    for (size_t i = 0; i < REDLOCK_SCRIPT_COUNT; i++)
        names[count++] = redlock_scripts[i]->name;
    faults_read(names, count);
}

#endif
