/* Streams, as much of them as dry runs need: see redis_commands.h. An entry is its id, a NUL, and its fields, each as
 * its length, a blank, and its bytes. */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/server/redis_commands.h"

struct stream_id {
    uint64_t ms, number;
};

/* The number that is left out is `otherwise`. */
static bool id_read(const char *text, uint64_t otherwise, struct stream_id *id)
{
    char *end = NULL;
    id->number = otherwise;
    id->ms = strtoull(text, &end, 10);
    if (end == text || *text < '0' || *text > '9')
        return false;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        id->number = strtoull(end + 1, &end, 10);
    return *end == '\0';
}

static int id_compare(struct stream_id left, struct stream_id right)
{
    if (left.ms != right.ms)
        return left.ms < right.ms ? -1 : 1;
    return left.number < right.number ? -1 : left.number > right.number;
}

static struct stream_id entry_id(const struct value *stream, size_t index)
{
    struct stream_id id;
    (void)id_read(value_entry(stream, index).bytes, 0, &id);
    return id;
}

static struct reply *reply_bad_id(struct command_call *call)
{
    return reply_error(call->replies, "ERR Invalid stream ID specified as stream command argument");
}

struct reply *command_xadd(struct command_call *call)
{
    struct stream_id id = {.ms = (uint64_t)(call->space->now_us / 1000)};
    if (call->count % 2 == 0)
        return reply_wrong_arity(call->replies, call->command);
    bool is_drawn = call_says(call, 2, "*");
    if (!is_drawn && !id_read(call->arguments[2].bytes, 0, &id))
        return reply_bad_id(call);
    if (call_is_other(call, VALUE_STREAM))
        return reply_wrong_type(call);
    struct stream_id last = {0, 0};
    if (call->value != NULL)
        last = (struct stream_id){call->value->last_ms, call->value->last_number};
    if (is_drawn && id.ms <= last.ms)
        id = (struct stream_id){last.ms, last.number + 1};
    if (id_compare(id, last) <= 0)
        return reply_error(call->replies, id.ms == 0 && id.number == 0
                                              ? "ERR The ID specified in XADD must be greater than 0-0"
                                              : "ERR The ID specified in XADD is equal or smaller than the target "
                                                "stream top item");
    struct value *stream = call_value(call, VALUE_STREAM);
    struct text name = replies_format(call->replies, "%" PRIu64 "-%" PRIu64, id.ms, id.number);
    struct buffer entry = {0};
    buffer_append(&entry, name.bytes, name.length + 1);
    for (size_t i = 3; i < call->count; i++) {
        buffer_format(&entry, "%zu ", call->arguments[i].length);
        buffer_append(&entry, call->arguments[i].bytes, call->arguments[i].length);
    }
    value_push(stream, (struct text){entry.bytes, entry.length}, false);
    buffer_fini(&entry);
    stream->last_ms = id.ms;
    stream->last_number = id.number;
    call_changed(call);
    return reply_bulk(call->replies, name);
}

struct reply *command_xlen(struct command_call *call)
{
    return reply_integer(call->replies, call->value == NULL ? 0 : (long long)call->value->row.count);
}

struct reply *command_xdel(struct command_call *call)
{
    struct stream_id id;
    long long gone = 0;
    if (call_is_other(call, VALUE_STREAM))
        return reply_wrong_type(call);
    for (size_t i = 2; i < call->count; i++)
        if (!id_read(call->arguments[i].bytes, 0, &id))
            return reply_bad_id(call);
    for (size_t i = 2; call->value != NULL && i < call->count; i++) {
        (void)id_read(call->arguments[i].bytes, 0, &id);
        for (size_t at = 0; at < call->value->row.count; at++)
            if (id_compare(entry_id(call->value, at), id) == 0) {
                value_remove_entry(call->value, at);
                gone++;
                break;
            }
    }
    if (gone > 0)
        call_changed(call);
    return reply_integer(call->replies, gone);
}

static struct reply *entry_tell(struct command_call *call, struct text entry)
{
    struct reply *told = reply_array(call->replies, 2), *fields = reply_array(call->replies, entry.length);
    const char *at = entry.bytes + strlen(entry.bytes) + 1;
    while (at < entry.bytes + entry.length) {
        char *bytes = NULL;
        size_t length = strtoull(at, &bytes, 10);
        reply_add(fields, reply_bulk(call->replies, (struct text){bytes + 1, length}));
        at = bytes + 1 + length;
    }
    reply_add(told, reply_bulk(call->replies, text_of(entry.bytes)));
    reply_add(told, fields);
    return told;
}

/* "-", "+", an id, or "(" and an id. */
static bool limit_read(struct text text, bool is_end, struct stream_id *id, bool *is_outside)
{
    *is_outside = text.bytes[0] == '(';
    *id = (struct stream_id){text.bytes[0] == '-' ? 0 : UINT64_MAX, text.bytes[0] == '-' ? 0 : UINT64_MAX};
    if (text.length == 1 && (text.bytes[0] == '-' || text.bytes[0] == '+'))
        return true;
    return id_read(text.bytes + *is_outside, is_end ? UINT64_MAX : 0, id);
}

struct reply *command_xrange(struct command_call *call)
{
    struct stream_id from, to;
    bool is_above, is_below;
    long long most = -1;
    bool is_right =
        limit_read(call->arguments[2], false, &from, &is_above) && limit_read(call->arguments[3], true, &to, &is_below);
    if (!is_right)
        return reply_bad_id(call);
    if (call->count > 4 && (call->count != 6 || !call_says(call, 4, "COUNT")))
        return reply_syntax(call);
    if (call->count == 6 && !call_integer(call, 5, &most))
        return reply_not_integer(call);
    if (call_is_other(call, VALUE_STREAM))
        return reply_wrong_type(call);
    if (call->count == 6 && most <= 0 && call->value != NULL)
        return reply_nil_array(call->replies);
    size_t count = call->value == NULL ? 0 : call->value->row.count;
    struct reply *items = reply_array(call->replies, count);
    for (size_t i = 0; i < count && (most < 0 || (long long)items->count < most); i++) {
        int low = id_compare(entry_id(call->value, i), from), high = id_compare(entry_id(call->value, i), to);
        if ((low > 0 || (low == 0 && !is_above)) && (high < 0 || (high == 0 && !is_below)))
            reply_add(items, entry_tell(call, value_entry(call->value, i)));
    }
    return items;
}
