#include "tests/sim/server/redis_commands.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/hash.h"

/* --- what all commands share -------------------------------------------------------------------------------------- */

struct value *call_value(struct command_call *call, enum value_type type)
{
    if (call->value == NULL)
        call->value = keyspace_make(call->space, call->arguments[1], type);
    return call->value;
}

bool call_is_other(const struct command_call *call, enum value_type type)
{
    return call->value != NULL && call->value->type != type;
}

void call_remove(struct command_call *call)
{
    keyspace_remove(call->space, call->value);
    call->value = NULL;
    call->changes++;
}

void call_changed(struct command_call *call)
{
    call->changes++;
    if (call->value == NULL)
        return;
    call->value->version = ++call->space->versions;
    if (value_count(call->value) > 0)
        return;
    keyspace_remove(call->space, call->value);
    call->value = NULL;
}

bool call_says(const struct command_call *call, size_t argument, const char *word)
{
    return argument < call->count && strcasecmp(call->arguments[argument].bytes, word) == 0;
}

/* As strict as servers: no blank, no plus, no leading zero. */
bool text_integer(struct text text, long long *number)
{
    const char *digits = text.bytes + (text.length > 0 && text.bytes[0] == '-');
    char *end = NULL;
    bool is_plain = *digits >= '1' && *digits <= '9';
    if (!is_plain && !(text.length == 1 && *digits == '0'))
        return false;
    errno = 0;
    *number = strtoll(text.bytes, &end, 10);
    return errno == 0 && end == text.bytes + text.length;
}

bool text_float(struct text text, double *number)
{
    char *end = NULL;
    if (text.length == 0 || text.bytes[0] == ' ')
        return false;
    errno = 0;
    *number = strtod(text.bytes, &end);
    bool is_out = errno == ERANGE && (*number == HUGE_VAL || *number == -HUGE_VAL || fpclassify(*number) == FP_ZERO);
    return end == text.bytes + text.length && !is_out && !isnan(*number);
}

bool call_integer(const struct command_call *call, size_t argument, long long *number)
{
    return text_integer(call->arguments[argument], number);
}

void range_of_positions(long long from, long long to, size_t count, size_t *first, size_t *length)
{
    long long all = (long long)count;
    from = from < 0 ? from + all : from;
    from = from < 0 ? 0 : from;
    to = to < 0 ? to + all : to;
    to = to >= all ? all - 1 : to;
    *first = (size_t)from;
    *length = from <= to ? (size_t)(to - from + 1) : 0;
}

struct reply *reply_not_integer(struct command_call *call)
{
    return reply_error(call->replies, "ERR value is not an integer or out of range");
}

struct reply *reply_not_float(struct command_call *call)
{
    return reply_error(call->replies, "ERR value is not a valid float");
}

struct reply *reply_syntax(struct command_call *call)
{
    return reply_error(call->replies, "ERR syntax error");
}

struct reply *reply_wrong_type(struct command_call *call)
{
    return reply_error(call->replies, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

struct reply *reply_wrong_arity(struct replies *replies, const struct command *command)
{
    return reply_error(replies,
                       replies_format(replies, "ERR wrong number of arguments for '%s' command", command->name).bytes);
}

struct reply *reply_bad_expiry(struct command_call *call)
{
    return reply_error(
        call->replies,
        replies_format(call->replies, "ERR invalid expire time in '%s' command", call->command->name).bytes);
}

/* --- patterns and scans ------------------------------------------------------------------------------------------- */

bool pattern_matches(struct text pattern, struct text text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, star_t = 0;
    while (t < text.length || p < pattern.length) {
        bool fits = false;
        size_t next = p;
        if (p < pattern.length && pattern.bytes[p] == '*') {
            star = p++;
            star_t = t;
            continue;
        }
        if (p < pattern.length && t < text.length) {
            next += pattern.bytes[p] == '\\' && p + 1 < pattern.length;
            fits = (pattern.bytes[p] == '?') || pattern.bytes[next] == text.bytes[t];
        }
        if (fits) {
            p = next + 1;
            t++;
        } else if (star != SIZE_MAX && star_t < text.length) {
            p = star + 1;
            t = ++star_t;
        } else {
            return false;
        }
    }
    return true;
}

struct reply *scan_read(struct command_call *call, size_t argument, struct scan *scan)
{
    char *end = NULL;
    *scan = (struct scan){.count = 10};
    errno = 0;
    scan->cursor = strtoull(call->arguments[argument].bytes, &end, 10);
    if (*end != '\0' || end == call->arguments[argument].bytes || errno != 0)
        return reply_error(call->replies, "ERR invalid cursor");
    for (size_t i = argument + 1; i < call->count; i += 2) {
        bool has_value = i + 1 < call->count;
        if (has_value && call_says(call, i, "COUNT")) {
            if (!call_integer(call, i + 1, &scan->count))
                return reply_not_integer(call);
            if (scan->count < 1)
                return reply_syntax(call);
        } else if (has_value && call_says(call, i, "MATCH")) {
            scan->pattern = call->arguments[i + 1];
        } else {
            return reply_syntax(call);
        }
    }
    return NULL;
}

struct reply *scan_tell(struct command_call *call, const struct table *table, const struct scan *scan,
                        void (*tell)(struct command_call *call, struct item *item, struct reply *items))
{
    struct reply *answer = reply_array(call->replies, 2);
    size_t position = table_position_of_order(table, scan->cursor), most = table->used - position;
    most = (unsigned long long)scan->count < most ? (size_t)scan->count : most;
    struct reply *items = reply_array(call->replies, 2 * most);
    struct item *item = table_next(table, &position);
    for (size_t seen = 0; item != NULL && seen < most; seen++, item = table_next(table, &position))
        if (scan->pattern.bytes == NULL || pattern_matches(scan->pattern, item_name(item)))
            tell(call, item, items);
    unsigned long long next = item != NULL ? item->order : 0;
    reply_add(answer, reply_bulk(call->replies, replies_format(call->replies, "%llu", next)));
    reply_add(answer, items);
    return answer;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {"string", "list", "hash", "set", "zset"};

static struct reply *command_time(struct command_call *call)
{
    struct reply *reply = reply_array(call->replies, 2);
    long long now_us = call->space->now_us;
    reply_add(reply, reply_number(call->replies, now_us / 1000000));
    reply_add(reply, reply_number(call->replies, now_us % 1000000));
    return reply;
}

static struct reply *command_del(struct command_call *call)
{
    for (size_t i = 1; i < call->count; i++) {
        call->value = keyspace_find(call->space, call->arguments[i]);
        if (call->value != NULL)
            call_remove(call);
    }
    return reply_integer(call->replies, call->changes);
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
    return reply_status(call->replies, call->value == NULL ? "none" : type_names[call->value->type]);
}

static void value_write(const struct value *value, struct buffer *out)
{
    size_t position = 0;
    buffer_append_text(out, type_names[value->type]);
    if (value->type == VALUE_STRING)
        buffer_append(out, value->string.bytes, value->string.length);
    bool is_row = value->type == VALUE_LIST;
    for (size_t i = 0; is_row && i < value_count(value); i++) {
        const struct text entry = value_entry(value, i);
        buffer_format(out, " %zu:", entry.length);
        buffer_append(out, entry.bytes, entry.length);
    }
    for (const struct item *item; (item = table_next(&value->table, &position)) != NULL;) {
        buffer_format(out, " %zu:%zu:%.17g:", item->length, item->text_length, item->score);
        buffer_append(out, item->name, item->length);
        buffer_append(out, item->text_length > 0 ? item->text : "", item->text_length);
    }
}

/* All of the value, not in the bytes that a server would write. */
static struct reply *command_dump(struct command_call *call)
{
    struct buffer bytes = {0};
    if (call->value == NULL)
        return reply_nil(call->replies);
    value_write(call->value, &bytes);
    struct reply *reply = reply_bulk(call->replies, (struct text){bytes.bytes, bytes.length});
    buffer_fini(&bytes);
    return reply;
}

static struct reply *command_rename(struct command_call *call)
{
    if (call->value == NULL)
        return reply_error(call->replies, "ERR no such key");
    struct value *other = keyspace_find(call->space, call->arguments[2]);
    if (other != call->value) {
        if (other != NULL)
            keyspace_remove(call->space, other);
        keyspace_rename(call->space, call->value, call->arguments[2]);
        call_changed(call);
        call_fed(call, call->arguments[2]);
    }
    return reply_status(call->replies, "OK");
}

static struct reply *command_dbsize(struct command_call *call)
{
    keyspace_sweep(call->space);
    return reply_integer(call->replies, (long long)call->space->keys.count);
}

static struct reply *command_flush(struct command_call *call)
{
    bool is_right =
        call->count == 1 || (call->count == 2 && (call_says(call, 1, "SYNC") || call_says(call, 1, "ASYNC")));
    if (!is_right)
        return reply_syntax(call);
    keyspace_clear(call->space);
    call->changes++;
    return reply_status(call->replies, "OK");
}

static void key_tell(struct command_call *call, struct item *item, struct reply *items)
{
    if (!keyspace_is_expired(call->space, item->value))
        reply_add(items, reply_bulk(call->replies, item_name(item)));
}

static struct reply *command_keys(struct command_call *call)
{
    size_t position = 0;
    struct reply *items = reply_array(call->replies, call->space->keys.count);
    for (struct item *item; (item = table_next(&call->space->keys, &position)) != NULL;)
        if (pattern_matches(call->arguments[1], item_name(item)))
            key_tell(call, item, items);
    return items;
}

static struct reply *command_scan(struct command_call *call)
{
    struct scan scan;
    struct reply *wrong = scan_read(call, 1, &scan);
    return wrong != NULL ? wrong : scan_tell(call, &call->space->keys, &scan, key_tell);
}

/* --- expiry ------------------------------------------------------------------------------------------------------- */

static struct reply *expire_at(struct command_call *call, int64_t base_ms, long long unit_ms)
{
    long long number;
    if (!call_integer(call, 2, &number))
        return reply_not_integer(call);
    if (number > LLONG_MAX / unit_ms || number < LLONG_MIN / unit_ms || number * unit_ms > LLONG_MAX - base_ms)
        return reply_bad_expiry(call);
    int64_t at_ms = number * unit_ms + base_ms;
    if (call->value == NULL)
        return reply_integer(call->replies, 0);
    if (at_ms <= call->space->now_us / 1000) {
        call_remove(call);
    } else {
        keyspace_expire(call->space, call->value, at_ms);
        call_changed(call);
    }
    return reply_integer(call->replies, 1);
}

static struct reply *command_expire(struct command_call *call)
{
    return expire_at(call, call->space->now_us / 1000, 1000);
}

static struct reply *command_pexpire(struct command_call *call)
{
    return expire_at(call, call->space->now_us / 1000, 1);
}

static struct reply *command_expireat(struct command_call *call)
{
    return expire_at(call, 0, 1000);
}

static struct reply *command_persist(struct command_call *call)
{
    if (call->value == NULL || call->value->expires_ms == 0)
        return reply_integer(call->replies, 0);
    call->value->expires_ms = 0;
    call_changed(call);
    return reply_integer(call->replies, 1);
}

/* In milliseconds; -1 = never, -2 = there is no such key. */
static long long expiry_left(const struct command_call *call)
{
    if (call->value == NULL || call->value->expires_ms == 0)
        return call->value == NULL ? -2 : -1;
    return call->value->expires_ms - call->space->now_us / 1000;
}

static struct reply *command_pttl(struct command_call *call)
{
    return reply_integer(call->replies, expiry_left(call));
}

static struct reply *command_ttl(struct command_call *call)
{
    long long left_ms = expiry_left(call);
    return reply_integer(call->replies, left_ms < 0 ? left_ms : (left_ms + 500) / 1000);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

enum {
    W = COMMAND_WRITES,
    G = COMMAND_WRITES | COMMAND_GROWS,
    N = COMMAND_NO_SCRIPT,
    S = COMMAND_SUBSCRIBER,
    SCRIPT = COMMAND_NO_SCRIPT | COMMAND_RUNS_SCRIPT
};

static const struct command commands[] = {
    {"acl", -2, KEYLESS, N, command_acl},
    {"auth", -2, KEYLESS, N | COMMAND_STRANGER, command_auth},
    {"bitfield", -2, TYPE_LATE, G, command_bitfield},
    {"blmove", 6, TYPE_LATE, G | N, command_blmove},
    {"brpop", -3, KEYLESS, W | N, command_brpop},
    {"client", -2, KEYLESS, N, command_client},
    {"config", -2, KEYLESS, N, command_config},
    {"dbsize", 1, KEYLESS, 0, command_dbsize},
    {"del", -2, KEYLESS, W, command_del},
    {"discard", 1, KEYLESS, N | COMMAND_AT_ONCE, command_discard},
    {"dump", 2, TYPE_LATE, 0, command_dump},
    {"echo", 2, KEYLESS, 0, command_echo},
    {"eval", -3, KEYLESS, SCRIPT, command_eval},
    {"evalsha", -3, KEYLESS, SCRIPT, command_evalsha},
    {"exec", 1, KEYLESS, N | COMMAND_AT_ONCE, command_exec},
    {"exists", -2, KEYLESS, 0, command_exists},
    {"expire", 3, TYPE_LATE, W, command_expire},
    {"expireat", 3, TYPE_LATE, W, command_expireat},
    {"flushall", -1, KEYLESS, W, command_flush},
    {"get", 2, VALUE_STRING, 0, command_get},
    {"hdel", -3, VALUE_HASH, W, command_hdel},
    {"hexists", 3, VALUE_HASH, 0, command_hexists},
    {"hget", 3, VALUE_HASH, 0, command_hget},
    {"hgetall", 2, VALUE_HASH, 0, command_hgetall},
    {"hincrby", 4, TYPE_LATE, G, command_hincrby},
    {"hkeys", 2, VALUE_HASH, 0, command_hkeys},
    {"hlen", 2, VALUE_HASH, 0, command_hlen},
    {"hmget", -3, VALUE_HASH, 0, command_hmget},
    {"hscan", -3, TYPE_LATE, 0, command_hscan},
    {"hset", -4, TYPE_LATE, G, command_hset},
    {"hsetnx", 4, VALUE_HASH, G, command_hsetnx},
    {"hstrlen", 3, VALUE_HASH, 0, command_hstrlen},
    {"hvals", 2, VALUE_HASH, 0, command_hvals},
    {"incr", 2, VALUE_STRING, G, command_incr},
    {"incrby", 3, TYPE_LATE, G, command_incrby},
    {"info", -1, KEYLESS, 0, command_info},
    {"keys", 2, KEYLESS, 0, command_keys},
    {"lindex", 3, VALUE_LIST, 0, command_lindex},
    {"llen", 2, VALUE_LIST, 0, command_llen},
    {"lmove", 5, TYPE_LATE, G, command_lmove},
    {"lpop", -2, TYPE_LATE, W, command_lpop},
    {"lpos", -3, TYPE_LATE, 0, command_lpos},
    {"lpush", -3, VALUE_LIST, G, command_lpush},
    {"lrange", 4, TYPE_LATE, 0, command_lrange},
    {"lrem", 4, TYPE_LATE, W, command_lrem},
    {"ltrim", 4, TYPE_LATE, W, command_ltrim},
    {"mget", -2, KEYLESS, 0, command_mget},
    {"mset", -3, KEYLESS, G, command_mset},
    {"multi", 1, KEYLESS, N | COMMAND_AT_ONCE, command_multi},
    {"persist", 2, TYPE_LATE, W, command_persist},
    {"pexpire", 3, TYPE_LATE, W, command_pexpire},
    {"ping", -1, KEYLESS, S, command_ping},
    {"pttl", 2, TYPE_LATE, 0, command_pttl},
    {"publish", 3, KEYLESS, 0, command_publish},
    {"pubsub", -2, KEYLESS, 0, command_pubsub},
    {"quit", -1, KEYLESS, N | S | COMMAND_STRANGER | COMMAND_AT_ONCE, command_quit},
    {"rename", 3, TYPE_LATE, W, command_rename},
    {"replicaof", 3, KEYLESS, N, command_replicaof},
    {"role", 1, KEYLESS, N, command_role},
    {"rpop", -2, TYPE_LATE, W, command_rpop},
    {"rpush", -3, VALUE_LIST, G, command_rpush},
    {"sadd", -3, VALUE_SET, G, command_sadd},
    {"save", 1, KEYLESS, N, command_save},
    {"scan", -2, KEYLESS, 0, command_scan},
    {"scard", 2, VALUE_SET, 0, command_scard},
    {"script", -2, KEYLESS, N, command_script},
    {"select", 2, KEYLESS, 0, command_select},
    {"set", -3, TYPE_LATE, G, command_set},
    {"sismember", 3, VALUE_SET, 0, command_sismember},
    {"smembers", 2, VALUE_SET, 0, command_smembers},
    {"smismember", -3, VALUE_SET, 0, command_smismember},
    {"sort", 3, VALUE_SET, G, command_sort},
    {"srandmember", 2, VALUE_SET, 0, command_srandmember},
    {"srem", -3, VALUE_SET, W, command_srem},
    {"sscan", -3, TYPE_LATE, 0, command_sscan},
    {"subscribe", -2, KEYLESS, N | S, command_subscribe},
    {"time", 1, KEYLESS, 0, command_time},
    {"ttl", 2, TYPE_LATE, 0, command_ttl},
    {"type", 2, TYPE_LATE, 0, command_type},
    {"unlink", -2, KEYLESS, W, command_del},
    {"unsubscribe", -1, KEYLESS, N | S, command_unsubscribe},
    {"zadd", -4, TYPE_LATE, G, command_zadd},
    {"zcard", 2, VALUE_ZSET, 0, command_zcard},
    {"zcount", 4, TYPE_LATE, 0, command_zcount},
    {"zmscore", -3, VALUE_ZSET, 0, command_zmscore},
    {"zrange", -4, TYPE_LATE, 0, command_zrange},
    {"zrangebyscore", -4, TYPE_LATE, 0, command_zrangebyscore},
    {"zrank", 3, VALUE_ZSET, 0, command_zrank},
    {"zrem", -3, VALUE_ZSET, W, command_zrem},
    {"zremrangebyrank", 4, TYPE_LATE, W, command_zremrangebyrank},
    {"zremrangebyscore", 4, TYPE_LATE, W, command_zremrangebyscore},
    {"zrevrangebyscore", -4, TYPE_LATE, 0, command_zrevrangebyscore},
    {"zscan", -3, TYPE_LATE, 0, command_zscan},
    {"zscore", 3, VALUE_ZSET, 0, command_zscore},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], SLOTS = 1024, NAME_MAX_LENGTH = 32 };

/* Open addressing, made when the first is looked for. */
static unsigned char slots[SLOTS];

static size_t slot_of(struct text name)
{
    char small[NAME_MAX_LENGTH];
    for (size_t i = 0; i < name.length; i++)
        small[i] = name.bytes[i] >= 'A' && name.bytes[i] <= 'Z' ? (char)(name.bytes[i] + 32) : name.bytes[i];
    return (size_t)hash_bytes(0, small, name.length) % SLOTS;
}

static void slots_fill(void)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        size_t slot = slot_of(text_of(commands[i].name));
        while (slots[slot] != 0)
            slot = (slot + 1) % SLOTS;
        slots[slot] = (unsigned char)(i + 1);
    }
}

const struct command *redis_command_find(struct text name)
{
    static bool is_filled;
    if (!is_filled)
        slots_fill();
    is_filled = true;
    if (name.length > NAME_MAX_LENGTH)
        return NULL;
    for (size_t slot = slot_of(name); slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        const struct command *command = &commands[slots[slot] - 1];
        if (strlen(command->name) == name.length && strncasecmp(command->name, name.bytes, name.length) == 0)
            return command;
    }
    return NULL;
}

size_t command_number(const struct command *command)
{
    return (size_t)(command - commands);
}

const struct command *command_at(size_t position)
{
    return position < COMMAND_COUNT ? &commands[position] : NULL;
}

bool command_takes(const struct command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity : count >= (size_t)-command->arity;
}

struct reply *command_execute(struct command_call *call)
{
    if (call->command->type != KEYLESS)
        call->value = keyspace_find(call->space, call->arguments[1]);
    if (call->command->type >= 0 && call_is_other(call, (enum value_type)call->command->type))
        return reply_wrong_type(call);
    struct reply *reply = call->command->execute(call);
    if (call->space->deadlines > call->space->keys.count + 64)
        keyspace_sweep(call->space);
    return reply;
}
