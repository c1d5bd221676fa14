/* The commands of a simulated Redis server: what Holdfast and its scripts send, and what tests need. Same answers and
 * errors as Redis 7.0; what is not here is an unknown command.
 *
 *   redis_commands.c           the table; keys and time
 *   redis_commands_string.c    strings
 *   redis_commands_list.c      lists
 *   redis_commands_hash.c      hashes and sets
 *   redis_commands_zset.c      sorted sets
 *   server_*.c                 what is about connections or the server itself (server_private.h) */
#ifndef SIM_REDIS_COMMANDS_H
#define SIM_REDIS_COMMANDS_H

#include "tests/sim/server/redis_reply.h"

struct server;
struct server_connection;

enum command_flag {
    COMMAND_WRITES = 1,
    COMMAND_GROWS = 2,       /* refused while the server is out of memory */
    COMMAND_NO_SCRIPT = 4,   /* refused in a script */
    COMMAND_SUBSCRIBER = 8,  /* allowed to whom has subscribed */
    COMMAND_STRANGER = 16,   /* allowed before AUTH */
    COMMAND_AT_ONCE = 32,    /* not queued by MULTI */
    COMMAND_RUNS_SCRIPT = 64 /* its own commands are recorded, and it is not */
};

struct command_call {
    struct keyspace *space;
    struct replies *replies;
    struct server *server;                /* NULL where a replica or a disk runs it again */
    struct server_connection *connection; /* NULL = the server itself */
    const struct command *command;
    const struct text *arguments; /* the command's name first; NUL behind each */
    size_t count;
    struct value *value; /* under the key that is its first argument; NULL = none */
    bool never_blocks;   /* in a script or a transaction */
    unsigned changes;    /* made by this call */
};

enum { TYPE_LATE = -1, KEYLESS = -2 };

struct command {
    const char *name; /* small letters */
    int arity;        /* arguments with the name, exactly; negative = at least */
    int type;         /* enum value_type of what is under the key; TYPE_LATE = the command looks itself; or KEYLESS */
    unsigned flags;   /* of enum command_flag */
    struct reply *(*execute)(struct command_call *call);
};

/* NULL when it is unknown. */
const struct command *redis_command_find(struct text name);
/* Of all commands, from 0 on. */
size_t command_number(const struct command *command);
const struct command *command_at(size_t position); /* NULL behind the last */
bool command_takes(const struct command *command, size_t count);
struct reply *command_execute(struct command_call *call);

/* --- for commands ------------------------------------------------------------------------------------------------- */

/* The value, made if there is none. */
struct value *call_value(struct command_call *call, enum value_type type);
/* What is under the key is something, and of another type. */
bool call_is_other(const struct command_call *call, enum value_type type);
/* The value was changed: gone when it has no item left. */
void call_changed(struct command_call *call);
void call_remove(struct command_call *call);
/* Blocked clients may find under the key what they wait for. (server_block.c) */
void call_fed(struct command_call *call, struct text key);

/* The argument's whole text, without regard to case. */
bool call_says(const struct command_call *call, size_t argument, const char *word);
bool text_integer(struct text text, long long *number);
bool text_float(struct text text, double *number);
bool call_integer(const struct command_call *call, size_t argument, long long *number);
bool pattern_matches(struct text pattern, struct text text);
/* A range as of LRANGE over `count` positions, in `first` and `length`. */
void range_of_positions(long long from, long long to, size_t count, size_t *first, size_t *length);

struct reply *reply_not_integer(struct command_call *call);
struct reply *reply_not_float(struct command_call *call);
struct reply *reply_syntax(struct command_call *call);
struct reply *reply_wrong_type(struct command_call *call);
struct reply *reply_wrong_arity(struct replies *replies, const struct command *command);
struct reply *reply_bad_expiry(struct command_call *call);

/* The arguments of SCAN and its like, behind the cursor. */
struct scan {
    uint64_t cursor;
    long long count;
    struct text pattern; /* none: no bytes */
};
/* NULL when they are right, else the error. */
struct reply *scan_read(struct command_call *call, size_t argument, struct scan *scan);
/* {cursor, items}: `tell` adds what belongs to an item that fits. */
struct reply *scan_tell(struct command_call *call, const struct table *table, const struct scan *scan,
                        void (*tell)(struct command_call *call, struct item *item, struct reply *items));

/* clang-format off */
#define COMMANDS(X) \
    X(bitfield) X(get) X(incr) X(incrby) X(mget) X(mset) X(set) \
    X(lindex) X(llen) X(lmove) X(lpop) X(lpos) X(lpush) X(lrange) X(lrem) X(ltrim) X(rpop) X(rpush) \
    X(hdel) X(hexists) X(hget) X(hgetall) X(hincrby) X(hkeys) X(hlen) X(hmget) X(hscan) X(hset) X(hsetnx) X(hstrlen) \
    X(hvals) \
    X(sadd) X(scard) X(sismember) X(smembers) X(smismember) X(sort) X(srandmember) X(srem) X(sscan) \
    X(zadd) X(zcard) X(zcount) X(zmscore) X(zrange) X(zrangebyscore) X(zrank) X(zrem) X(zremrangebyrank) \
    X(zremrangebyscore) X(zrevrangebyscore) X(zscan) X(zscore) \
    X(acl) X(auth) X(blmove) X(brpop) X(client) X(config) X(discard) X(echo) X(eval) X(evalsha) X(exec) X(info) \
    X(multi) X(ping) X(publish) X(pubsub) X(quit) X(replicaof) X(role) X(save) X(script) X(select) X(subscribe) \
    X(unsubscribe)
/* clang-format on */

#define DECLARE(name) struct reply *command_##name(struct command_call *call);
COMMANDS(DECLARE)
#undef DECLARE

#endif
