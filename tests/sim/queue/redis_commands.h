/* The commands of a simulated Redis server: those that our scripts use, and those that tests need to look at what is
 * there. Same answers and errors as a server; what is not here is an error.
 *
 *   redis_commands.c         the table; keys, time and expiry
 *   redis_commands_row.c     strings, lists, hashes, sets
 *   redis_commands_zset.c    sorted sets */
#ifndef SIM_REDIS_COMMANDS_H
#define SIM_REDIS_COMMANDS_H

#include "tests/sim/queue/redis_reply.h"

enum { COMMAND_ARGUMENTS_MAX = 1024 };

struct command_call {
    struct keyspace *space;
    struct replies *replies;
    const struct text *arguments; /* the command's name first */
    size_t count;
    struct value *value; /* under the key, of the right type; NULL = none */
};

struct command {
    const char *name;
    size_t least; /* arguments, its name included */
    int type;     /* enum value_type; -1 = any */
    struct reply *(*execute)(struct command_call *call);
};

struct reply *redis_execute(struct keyspace *space, struct replies *replies, const struct text *arguments,
                            size_t count);

/* The value, made if there is none. */
struct value *call_value(struct command_call *call, enum value_type type);
/* The value lost an item: gone when it has none left. */
void call_tidy(struct command_call *call);
/* The argument's whole text, without regard to case. */
bool call_says(const struct command_call *call, size_t argument, const char *word);
bool call_integer(const struct command_call *call, size_t argument, long long *number);

struct reply *redis_get(struct command_call *call);
struct reply *redis_set(struct command_call *call);
struct reply *redis_llen(struct command_call *call);
struct reply *redis_lpush(struct command_call *call);
struct reply *redis_rpush(struct command_call *call);
struct reply *redis_lpop(struct command_call *call);
struct reply *redis_rpop(struct command_call *call);
struct reply *redis_lrange(struct command_call *call);
struct reply *redis_lrem(struct command_call *call);
struct reply *redis_hget(struct command_call *call);
struct reply *redis_hmget(struct command_call *call);
struct reply *redis_hset(struct command_call *call);
struct reply *redis_hsetnx(struct command_call *call);
struct reply *redis_hdel(struct command_call *call);
struct reply *redis_hexists(struct command_call *call);
struct reply *redis_hlen(struct command_call *call);
struct reply *redis_hstrlen(struct command_call *call);
struct reply *redis_hkeys(struct command_call *call);
struct reply *redis_hgetall(struct command_call *call);
struct reply *redis_sadd(struct command_call *call);
struct reply *redis_srem(struct command_call *call);
struct reply *redis_sismember(struct command_call *call);
struct reply *redis_smismember(struct command_call *call);
struct reply *redis_zadd(struct command_call *call);
struct reply *redis_zrem(struct command_call *call);
struct reply *redis_zscore(struct command_call *call);
struct reply *redis_zcard(struct command_call *call);
struct reply *redis_zcount(struct command_call *call);
struct reply *redis_zrange(struct command_call *call);
struct reply *redis_zrangebyscore(struct command_call *call);
struct reply *redis_zremrangebyscore(struct command_call *call);
struct reply *redis_zremrangebyrank(struct command_call *call);

#endif
