/* Strings, lists, hashes and sets: see redis_commands.h. */
#include "tests/sim/queue/redis_commands.h"

#include <string.h>

static struct reply *item_reply(struct command_call *call, size_t index)
{
    return index == SIZE_MAX ? reply_nil(call->replies)
                             : reply_bulk(call->replies, item_name(value_at(call->value, index)));
}

static size_t call_find(const struct command_call *call, size_t argument)
{
    return call->value == NULL ? SIZE_MAX : value_find(call->value, call->arguments[argument]);
}

static size_t call_count(const struct command_call *call)
{
    return call->value == NULL ? 0 : call->value->count;
}

/* --- strings ------------------------------------------------------------------------------------------------- */

struct reply *redis_get(struct command_call *call)
{
    return item_reply(call, call->value == NULL ? SIZE_MAX : 0);
}

struct set_options {
    bool if_none, answers_old;
    long long expires_ms;
};

static bool set_options_read(struct command_call *call, struct set_options *options)
{
    for (size_t i = 3; i < call->count; i++) {
        if (call_says(call, i, "NX"))
            options->if_none = true;
        else if (call_says(call, i, "GET"))
            options->answers_old = true;
        else if ((call_says(call, i, "PX") || call_says(call, i, "EX")) && i + 1 < call->count) {
            long long unit_ms = call_says(call, i, "EX") ? 1000 : 1;
            if (!call_integer(call, ++i, &options->expires_ms) || options->expires_ms <= 0)
                return false;
            options->expires_ms *= unit_ms;
        } else
            return false;
    }
    return true;
}

struct reply *redis_set(struct command_call *call)
{
    struct set_options options = {.if_none = false};
    if (!set_options_read(call, &options))
        return reply_error(call->replies, "ERR syntax error");
    bool is_string = call->value == NULL || call->value->type == VALUE_STRING;
    if (options.answers_old && !is_string)
        return reply_error(call->replies, "WRONGTYPE Operation against a key holding the wrong kind of value");
    if (options.if_none && call->value != NULL)
        return reply_nil(call->replies);
    struct reply *old = options.answers_old ? redis_get(call) : reply_status(call->replies, "OK");
    if (call->value != NULL)
        keyspace_remove(call->space, call->value);
    struct value *value = keyspace_make(call->space, call->arguments[1], VALUE_STRING);
    value_insert(value, 0, call->arguments[2]);
    if (options.expires_ms > 0)
        value->expires_ms = call->space->now_us / 1000 + options.expires_ms;
    return old;
}

/* --- lists --------------------------------------------------------------------------------------------------- */

struct reply *redis_llen(struct command_call *call)
{
    return reply_integer(call->replies, (long long)call_count(call));
}

struct reply *redis_lpush(struct command_call *call)
{
    for (size_t i = 2; i < call->count; i++)
        value_insert(call_value(call, VALUE_LIST), 0, call->arguments[i]);
    return redis_llen(call);
}

struct reply *redis_rpush(struct command_call *call)
{
    for (size_t i = 2; i < call->count; i++)
        value_insert(call_value(call, VALUE_LIST), call_count(call), call->arguments[i]);
    return redis_llen(call);
}

static struct reply *list_pop(struct command_call *call, bool from_right)
{
    long long most = 1;
    if (call->count > 2 && (!call_integer(call, 2, &most) || most < 0))
        return reply_error(call->replies, "ERR value is out of range, must be positive");
    if (call->value == NULL)
        return reply_nil(call->replies);
    struct reply *popped = reply_array(call->replies, call_count(call));
    while (call_count(call) > 0 && (long long)popped->count < most) {
        size_t index = from_right ? call->value->count - 1 : 0;
        reply_add(popped, item_reply(call, index));
        value_remove(call->value, index);
    }
    call_tidy(call);
    return call->count > 2 ? popped : popped->items[0];
}

struct reply *redis_lpop(struct command_call *call)
{
    return list_pop(call, false);
}

struct reply *redis_rpop(struct command_call *call)
{
    return list_pop(call, true);
}

struct reply *redis_lrange(struct command_call *call)
{
    long long first, last, count = (long long)call_count(call);
    if (!call_integer(call, 2, &first) || !call_integer(call, 3, &last))
        return reply_error(call->replies, "ERR value is not an integer or out of range");
    first = first < 0 ? first + count : first;
    last = last < 0 ? last + count : last;
    struct reply *reply = reply_array(call->replies, (size_t)count);
    for (long long i = first < 0 ? 0 : first; i <= last && i < count; i++)
        reply_add(reply, item_reply(call, (size_t)i));
    return reply;
}

/* One entry from the right, as operators' moves do. */
struct reply *redis_lrem(struct command_call *call)
{
    if (!call_says(call, 2, "-1"))
        return reply_error(call->replies, "ERR only -1 in the simulation");
    for (size_t i = call_count(call); i-- > 0;) {
        struct text name = item_name(value_at(call->value, i)), wanted = call->arguments[3];
        if (name.length != wanted.length || memcmp(name.bytes, wanted.bytes, name.length) != 0)
            continue;
        value_remove(call->value, i);
        call_tidy(call);
        return reply_integer(call->replies, 1);
    }
    return reply_integer(call->replies, 0);
}

/* --- hashes -------------------------------------------------------------------------------------------------- */

static struct reply *field_reply(struct command_call *call, size_t argument)
{
    size_t index = call_find(call, argument);
    return index == SIZE_MAX ? reply_nil(call->replies)
                             : reply_bulk(call->replies, item_value(value_at(call->value, index)));
}

struct reply *redis_hget(struct command_call *call)
{
    return field_reply(call, 2);
}

struct reply *redis_hmget(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(reply, field_reply(call, i));
    return reply;
}

struct reply *redis_hset(struct command_call *call)
{
    long long added = 0;
    if (call->count % 2 != 0)
        return reply_error(call->replies, "ERR wrong number of arguments for 'hset' command");
    for (size_t i = 2; i + 1 < call->count; i += 2) {
        size_t index = call_find(call, i);
        struct value *hash = call_value(call, VALUE_HASH);
        added += index == SIZE_MAX;
        struct item *item =
            index == SIZE_MAX ? value_insert(hash, hash->count, call->arguments[i]) : value_at(hash, index);
        item_set_value(item, call->arguments[i + 1]);
    }
    return reply_integer(call->replies, added);
}

struct reply *redis_hsetnx(struct command_call *call)
{
    return call_find(call, 2) == SIZE_MAX ? redis_hset(call) : reply_integer(call->replies, 0);
}

/* Of hashes, sets and sorted sets. */
static struct reply *members_remove(struct command_call *call)
{
    long long gone = 0;
    for (size_t i = 2; i < call->count; i++) {
        size_t index = call_find(call, i);
        if (index == SIZE_MAX)
            continue;
        value_remove(call->value, index);
        call_tidy(call);
        gone++;
    }
    return reply_integer(call->replies, gone);
}

struct reply *redis_hdel(struct command_call *call)
{
    return members_remove(call);
}

struct reply *redis_hexists(struct command_call *call)
{
    return reply_integer(call->replies, call_find(call, 2) != SIZE_MAX);
}

struct reply *redis_hlen(struct command_call *call)
{
    return reply_integer(call->replies, (long long)call_count(call));
}

struct reply *redis_hstrlen(struct command_call *call)
{
    size_t index = call_find(call, 2);
    return reply_integer(call->replies, index == SIZE_MAX ? 0 : (long long)value_at(call->value, index)->value_length);
}

struct reply *redis_hkeys(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, call_count(call));
    for (size_t i = 0; i < call_count(call); i++)
        reply_add(reply, item_reply(call, i));
    return reply;
}

struct reply *redis_hgetall(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, 2 * call_count(call));
    for (size_t i = 0; i < call_count(call); i++) {
        reply_add(reply, item_reply(call, i));
        reply_add(reply, reply_bulk(call->replies, item_value(value_at(call->value, i))));
    }
    return reply;
}

/* --- sets ---------------------------------------------------------------------------------------------------- */

struct reply *redis_sadd(struct command_call *call)
{
    long long added = 0;
    for (size_t i = 2; i < call->count; i++) {
        if (call_find(call, i) != SIZE_MAX)
            continue;
        struct value *set = call_value(call, VALUE_SET);
        value_insert(set, set->count, call->arguments[i]);
        added++;
    }
    return reply_integer(call->replies, added);
}

struct reply *redis_srem(struct command_call *call)
{
    return members_remove(call);
}

struct reply *redis_sismember(struct command_call *call)
{
    return redis_hexists(call);
}

struct reply *redis_smismember(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(reply, reply_integer(call->replies, call_find(call, i) != SIZE_MAX));
    return reply;
}
