#include "tests/sim/queue/redis_commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* --- what all commands share --------------------------------------------------------------------------------- */

struct value *call_value(struct command_call *call, enum value_type type)
{
    if (call->value == NULL)
        call->value = keyspace_make(call->space, call->arguments[1], type);
    return call->value;
}

void call_tidy(struct command_call *call)
{
    if (call->value == NULL || call->value->count > 0)
        return;
    keyspace_remove(call->space, call->value);
    call->value = NULL;
}

bool call_says(const struct command_call *call, size_t argument, const char *word)
{
    return argument < call->count && strcasecmp(call->arguments[argument].bytes, word) == 0;
}

bool call_integer(const struct command_call *call, size_t argument, long long *number)
{
    const char *text = call->arguments[argument].bytes;
    char *end = NULL;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

/* --- keys and time ------------------------------------------------------------------------------------------- */

static struct reply *command_time(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, 2);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)(call->space->now_us / 1000000));
    reply_add(reply, reply_bulk(call->replies, text_of(text)));
    snprintf(text, sizeof text, "%lld", (long long)(call->space->now_us % 1000000));
    reply_add(reply, reply_bulk(call->replies, text_of(text)));
    return reply;
}

static struct reply *command_del(struct command_call *call)
{
    long long gone = 0;
    for (size_t i = 1; i < call->count; i++) {
        struct value *value = keyspace_find(call->space, call->arguments[i]);
        if (value == NULL)
            continue;
        keyspace_remove(call->space, value);
        gone++;
    }
    return reply_integer(call->replies, gone);
}

static struct reply *command_exists(struct command_call *call)
{
    long long there = 0;
    for (size_t i = 1; i < call->count; i++)
        there += keyspace_find(call->space, call->arguments[i]) != NULL;
    return reply_integer(call->replies, there);
}

static struct reply *command_type(struct command_call *call)
{
    static const char *const names[] = {"string", "list", "hash", "set", "zset"};
    return reply_status(call->replies, call->value == NULL ? "none" : names[call->value->type]);
}

static struct reply *expire_in(struct command_call *call, long long unit_ms)
{
    long long number;
    if (!call_integer(call, 2, &number))
        return reply_error(call->replies, "ERR value is not an integer or out of range");
    if (call->value == NULL)
        return reply_integer(call->replies, 0);
    if (number <= 0)
        keyspace_remove(call->space, call->value);
    else
        call->value->expires_ms = call->space->now_us / 1000 + number * unit_ms;
    return reply_integer(call->replies, 1);
}

static struct reply *command_expire(struct command_call *call)
{
    return expire_in(call, 1000);
}

static struct reply *command_pexpire(struct command_call *call)
{
    return expire_in(call, 1);
}

static struct reply *command_pttl(struct command_call *call)
{
    if (call->value == NULL || call->value->expires_ms == 0)
        return reply_integer(call->replies, call->value == NULL ? -2 : -1);
    return reply_integer(call->replies, call->value->expires_ms - call->space->now_us / 1000);
}

/* Rounded, as servers do. */
static struct reply *command_ttl(struct command_call *call)
{
    struct reply *reply = command_pttl(call);
    if (reply->integer >= 0)
        reply->integer = (reply->integer + 500) / 1000;
    return reply;
}

static struct reply *command_info(struct command_call *call)
{
    return reply_bulk(call->replies, text_of("# Server\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n"));
}

/* Nobody listens. */
static struct reply *command_pubsub(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, 2 * call->count);
    for (size_t i = 2; i < call->count; i++) {
        reply_add(reply, reply_bulk(call->replies, call->arguments[i]));
        reply_add(reply, reply_integer(call->replies, 0));
    }
    return reply;
}

/* --- the table ----------------------------------------------------------------------------------------------- */

enum { ANY = -1, KEYLESS = -2 };

static const struct command commands[] = {
    {"TIME", 1, KEYLESS, command_time},
    {"INFO", 1, KEYLESS, command_info},
    {"PUBSUB", 2, KEYLESS, command_pubsub},
    {"DEL", 2, KEYLESS, command_del},
    {"UNLINK", 2, KEYLESS, command_del},
    {"EXISTS", 2, KEYLESS, command_exists},
    {"TYPE", 2, ANY, command_type},
    {"EXPIRE", 3, ANY, command_expire},
    {"PEXPIRE", 3, ANY, command_pexpire},
    {"PTTL", 2, ANY, command_pttl},
    {"TTL", 2, ANY, command_ttl},
    {"GET", 2, VALUE_STRING, redis_get},
    {"SET", 3, ANY, redis_set},
    {"LLEN", 2, VALUE_LIST, redis_llen},
    {"LPUSH", 3, VALUE_LIST, redis_lpush},
    {"RPUSH", 3, VALUE_LIST, redis_rpush},
    {"LPOP", 2, VALUE_LIST, redis_lpop},
    {"RPOP", 2, VALUE_LIST, redis_rpop},
    {"LRANGE", 4, VALUE_LIST, redis_lrange},
    {"LREM", 4, VALUE_LIST, redis_lrem},
    {"HGET", 3, VALUE_HASH, redis_hget},
    {"HMGET", 3, VALUE_HASH, redis_hmget},
    {"HSET", 4, VALUE_HASH, redis_hset},
    {"HSETNX", 4, VALUE_HASH, redis_hsetnx},
    {"HDEL", 3, VALUE_HASH, redis_hdel},
    {"HEXISTS", 3, VALUE_HASH, redis_hexists},
    {"HLEN", 2, VALUE_HASH, redis_hlen},
    {"HSTRLEN", 3, VALUE_HASH, redis_hstrlen},
    {"HKEYS", 2, VALUE_HASH, redis_hkeys},
    {"HGETALL", 2, VALUE_HASH, redis_hgetall},
    {"SADD", 3, VALUE_SET, redis_sadd},
    {"SREM", 3, VALUE_SET, redis_srem},
    {"SISMEMBER", 3, VALUE_SET, redis_sismember},
    {"SMISMEMBER", 3, VALUE_SET, redis_smismember},
    {"ZADD", 4, VALUE_ZSET, redis_zadd},
    {"ZREM", 3, VALUE_ZSET, redis_zrem},
    {"ZSCORE", 3, VALUE_ZSET, redis_zscore},
    {"ZCARD", 2, VALUE_ZSET, redis_zcard},
    {"ZCOUNT", 4, VALUE_ZSET, redis_zcount},
    {"ZRANGE", 4, VALUE_ZSET, redis_zrange},
    {"ZRANGEBYSCORE", 4, VALUE_ZSET, redis_zrangebyscore},
    {"ZREMRANGEBYSCORE", 4, VALUE_ZSET, redis_zremrangebyscore},
    {"ZREMRANGEBYRANK", 4, VALUE_ZSET, redis_zremrangebyrank},
};

struct reply *redis_execute(struct keyspace *space, struct replies *replies, const struct text *arguments, size_t count)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct command *command = &commands[i];
        if (strcasecmp(command->name, arguments[0].bytes) != 0)
            continue;
        if (count < command->least)
            return reply_error(replies, "ERR wrong number of arguments");
        struct command_call call = {.space = space, .replies = replies, .arguments = arguments, .count = count};
        if (command->type != KEYLESS)
            call.value = keyspace_find(space, arguments[1]);
        if (command->type >= 0 && call.value != NULL && (int)call.value->type != command->type)
            return reply_error(replies, "WRONGTYPE Operation against a key holding the wrong kind of value");
        return command->execute(&call);
    }
    return reply_error(replies, "ERR unknown command in the simulation");
}
