/* Hashes and sets: see redis_commands.h. */
#include <stdlib.h>

#include "tests/sim/server/redis_commands.h"

static struct item *call_find(const struct command_call *call, size_t argument)
{
    return call->value == NULL ? NULL : table_find(&call->value->table, call->arguments[argument]);
}

static size_t call_count(const struct command_call *call)
{
    return call->value == NULL ? 0 : call->value->table.count;
}

static struct reply *text_reply(struct command_call *call, const struct item *item)
{
    return item == NULL ? reply_nil(call->replies) : reply_bulk(call->replies, item_text(item));
}

static struct reply *name_reply(struct command_call *call, const struct item *item)
{
    return item == NULL ? reply_nil(call->replies) : reply_bulk(call->replies, item_name(item));
}

enum told { TELLS_NAMES = 1, TELLS_TEXTS = 2 };

static struct reply *items_tell(struct command_call *call, unsigned told)
{
    size_t position = 0;
    struct reply *items = reply_array(call->replies, 2 * call_count(call));
    for (struct item *item; call->value != NULL && (item = table_next(&call->value->table, &position)) != NULL;) {
        if ((told & TELLS_NAMES) != 0)
            reply_add(items, name_reply(call, item));
        if ((told & TELLS_TEXTS) != 0)
            reply_add(items, text_reply(call, item));
    }
    return items;
}

static struct reply *items_remove(struct command_call *call)
{
    long long gone = 0;
    for (size_t i = 2; i < call->count; i++) {
        struct item *item = call_find(call, i);
        if (item == NULL)
            continue;
        table_remove(&call->value->table, item);
        call_changed(call);
        gone++;
    }
    return reply_integer(call->replies, gone);
}

static struct reply *items_count(struct command_call *call)
{
    return reply_integer(call->replies, (long long)call_count(call));
}

/* --- hashes ------------------------------------------------------------------------------------------------------- */

struct reply *command_hget(struct command_call *call)
{
    return text_reply(call, call_find(call, 2));
}

struct reply *command_hmget(struct command_call *call)
{
    struct reply *items = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(items, text_reply(call, call_find(call, i)));
    return items;
}

struct reply *command_hset(struct command_call *call)
{
    long long added = 0;
    if (call->count % 2 != 0)
        return reply_wrong_arity(call->replies, call->command);
    if (call_is_other(call, VALUE_HASH))
        return reply_wrong_type(call);
    struct value *hash = call_value(call, VALUE_HASH);
    for (size_t i = 2; i + 1 < call->count; i += 2) {
        struct item *item = call_find(call, i);
        added += item == NULL;
        item_set_text(item != NULL ? item : table_add(&hash->table, call->arguments[i]), call->arguments[i + 1]);
    }
    call_changed(call);
    return reply_integer(call->replies, added);
}

struct reply *command_hsetnx(struct command_call *call)
{
    return call_find(call, 2) == NULL ? command_hset(call) : reply_integer(call->replies, 0);
}

struct reply *command_hincrby(struct command_call *call)
{
    long long step, number = 0;
    if (!call_integer(call, 3, &step))
        return reply_not_integer(call);
    if (call_is_other(call, VALUE_HASH))
        return reply_wrong_type(call);
    struct item *item = call_find(call, 2);
    if (item != NULL && !text_integer(item_text(item), &number))
        return reply_error(call->replies, "ERR hash value is not an integer");
    if (__builtin_add_overflow(number, step, &number))
        return reply_error(call->replies, "ERR increment or decrement would overflow");
    if (item == NULL)
        item = table_add(&call_value(call, VALUE_HASH)->table, call->arguments[2]);
    item_set_text(item, replies_number(call->replies, number));
    call_changed(call);
    return reply_integer(call->replies, number);
}

struct reply *command_hdel(struct command_call *call)
{
    return items_remove(call);
}

struct reply *command_hexists(struct command_call *call)
{
    return reply_integer(call->replies, call_find(call, 2) != NULL);
}

struct reply *command_hlen(struct command_call *call)
{
    return items_count(call);
}

struct reply *command_hstrlen(struct command_call *call)
{
    const struct item *item = call_find(call, 2);
    return reply_integer(call->replies, item == NULL ? 0 : (long long)item->text_length);
}

struct reply *command_hkeys(struct command_call *call)
{
    return items_tell(call, TELLS_NAMES);
}

struct reply *command_hvals(struct command_call *call)
{
    return items_tell(call, TELLS_TEXTS);
}

struct reply *command_hgetall(struct command_call *call)
{
    return items_tell(call, TELLS_NAMES | TELLS_TEXTS);
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

struct reply *command_sadd(struct command_call *call)
{
    long long added = 0;
    for (size_t i = 2; i < call->count; i++) {
        if (call_find(call, i) != NULL)
            continue;
        table_add(&call_value(call, VALUE_SET)->table, call->arguments[i]);
        added++;
    }
    if (added > 0)
        call_changed(call);
    return reply_integer(call->replies, added);
}

struct reply *command_srem(struct command_call *call)
{
    return items_remove(call);
}

struct reply *command_scard(struct command_call *call)
{
    return items_count(call);
}

struct reply *command_sismember(struct command_call *call)
{
    return command_hexists(call);
}

struct reply *command_smismember(struct command_call *call)
{
    struct reply *items = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(items, reply_integer(call->replies, call_find(call, i) != NULL));
    return items;
}

struct reply *command_smembers(struct command_call *call)
{
    return items_tell(call, TELLS_NAMES);
}

/* Of one member, drawn. */
struct reply *command_srandmember(struct command_call *call)
{
    if (call->value == NULL)
        return reply_nil(call->replies);
    return name_reply(call, table_any(&call->value->table, keyspace_draw(call->space)));
}

static int names_compare(const void *left, const void *right)
{
    const struct reply *const *first = left, *const *second = right;
    return strcmp((*first)->text.bytes, (*second)->text.bytes);
}

/* SORT key ALPHA. */
struct reply *command_sort(struct command_call *call)
{
    if (!call_says(call, 2, "ALPHA"))
        return reply_syntax(call);
    struct reply *items = items_tell(call, TELLS_NAMES);
    if (items->count > 0)
        qsort(items->items, items->count, sizeof(struct reply *), names_compare);
    return items;
}

/* --- scans -------------------------------------------------------------------------------------------------------- */

static void member_tell(struct command_call *call, struct item *item, struct reply *items)
{
    reply_add(items, name_reply(call, item));
}

static void field_tell(struct command_call *call, struct item *item, struct reply *items)
{
    reply_add(items, name_reply(call, item));
    reply_add(items, text_reply(call, item));
}

static void score_tell(struct command_call *call, struct item *item, struct reply *items)
{
    reply_add(items, name_reply(call, item));
    reply_add(items, reply_score(call->replies, item->score));
}

static struct reply *value_scan(struct command_call *call, enum value_type type,
                                void (*tell)(struct command_call *call, struct item *item, struct reply *items))
{
    static const struct table nothing;
    struct scan scan;
    /* A server reads the cursor, looks under the key, and only then reads the options. */
    if (call->value == NULL || call->value->type != type) {
        size_t count = call->count;
        call->count = 3;
        struct reply *wrong = scan_read(call, 2, &scan);
        call->count = count;
        if (wrong != NULL)
            return wrong;
        return call->value != NULL ? reply_wrong_type(call) : scan_tell(call, &nothing, &scan, tell);
    }
    struct reply *wrong = scan_read(call, 2, &scan);
    return wrong != NULL ? wrong : scan_tell(call, &call->value->table, &scan, tell);
}

struct reply *command_sscan(struct command_call *call)
{
    return value_scan(call, VALUE_SET, member_tell);
}

struct reply *command_hscan(struct command_call *call)
{
    return value_scan(call, VALUE_HASH, field_tell);
}

struct reply *command_zscan(struct command_call *call)
{
    return value_scan(call, VALUE_ZSET, score_tell);
}
