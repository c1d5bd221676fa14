/* Lists: see redis_commands.h. */
#include <limits.h>

#include "tests/sim/server/redis_commands.h"

static size_t list_count(const struct command_call *call)
{
    return call->value == NULL ? 0 : call->value->row.count;
}

static struct reply *entry_reply(struct command_call *call, size_t index)
{
    return reply_bulk(call->replies, value_entry(call->value, index));
}

struct reply *command_llen(struct command_call *call)
{
    return reply_integer(call->replies, (long long)list_count(call));
}

static struct reply *list_push(struct command_call *call, bool at_left)
{
    for (size_t i = 2; i < call->count; i++)
        value_push(call_value(call, VALUE_LIST), call->arguments[i], at_left);
    call_changed(call);
    call_fed(call, call->arguments[1]);
    return command_llen(call);
}

struct reply *command_lpush(struct command_call *call)
{
    return list_push(call, true);
}

struct reply *command_rpush(struct command_call *call)
{
    return list_push(call, false);
}

static struct reply *list_pop(struct command_call *call, bool from_right)
{
    long long most = 1;
    if (call->count > 3)
        return reply_wrong_arity(call->replies, call->command);
    if (call->count == 3 && (!call_integer(call, 2, &most) || most < 0))
        return reply_error(call->replies, "ERR value is out of range, must be positive");
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    if (call->value == NULL)
        return call->count == 3 ? reply_nil_array(call->replies) : reply_nil(call->replies);
    size_t count = (unsigned long long)most < list_count(call) ? (size_t)most : list_count(call);
    struct reply *popped = reply_array(call->replies, count);
    for (size_t i = 0; i < count; i++) {
        size_t index = from_right ? list_count(call) - 1 : 0;
        reply_add(popped, entry_reply(call, index));
        value_remove_entry(call->value, index);
    }
    if (count > 0)
        call_changed(call);
    return call->count == 3 ? popped : popped->items[0];
}

struct reply *command_lpop(struct command_call *call)
{
    return list_pop(call, false);
}

struct reply *command_rpop(struct command_call *call)
{
    return list_pop(call, true);
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

/* SIZE_MAX when there is none. */
static size_t list_position(const struct command_call *call, long long index)
{
    long long count = (long long)list_count(call);
    index = index < 0 ? index + count : index;
    return index >= 0 && index < count ? (size_t)index : SIZE_MAX;
}

struct reply *command_lindex(struct command_call *call)
{
    long long index;
    if (call->value == NULL)
        return reply_nil(call->replies);
    if (!call_integer(call, 2, &index))
        return reply_not_integer(call);
    size_t position = list_position(call, index);
    return position == SIZE_MAX ? reply_nil(call->replies) : entry_reply(call, position);
}

struct reply *command_lrange(struct command_call *call)
{
    long long from, to;
    size_t first, length;
    if (!call_integer(call, 2, &from) || !call_integer(call, 3, &to))
        return reply_not_integer(call);
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    range_of_positions(from, to, list_count(call), &first, &length);
    struct reply *items = reply_array(call->replies, length);
    for (size_t i = 0; i < length; i++)
        reply_add(items, entry_reply(call, first + i));
    return items;
}

struct reply *command_ltrim(struct command_call *call)
{
    long long from, to;
    size_t first, length;
    if (!call_integer(call, 2, &from) || !call_integer(call, 3, &to))
        return reply_not_integer(call);
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    if (call->value != NULL) {
        range_of_positions(from, to, list_count(call), &first, &length);
        first = length == 0 ? list_count(call) : first;
        while (list_count(call) > first + length)
            value_remove_entry(call->value, list_count(call) - 1);
        while (first-- > 0)
            value_remove_entry(call->value, 0);
        call_changed(call);
    }
    return reply_status(call->replies, "OK");
}

struct reply *command_lrem(struct command_call *call)
{
    long long most;
    if (!call_integer(call, 2, &most))
        return reply_not_integer(call);
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    unsigned long long wanted = most < 0    ? 0 - (unsigned long long)most
                                : most == 0 ? ULLONG_MAX
                                            : (unsigned long long)most;
    long long gone = 0;
    size_t count = list_count(call);
    for (size_t seen = 0, i = most < 0 ? count : 0; seen < count && (unsigned long long)gone < wanted; seen++) {
        size_t position = most < 0 ? --i : i;
        if (text_is(value_entry(call->value, position), call->arguments[3])) {
            value_remove_entry(call->value, position);
            gone++;
        } else if (most >= 0) {
            i++;
        }
    }
    if (gone > 0)
        call_changed(call);
    return reply_integer(call->replies, gone);
}

/* --- LPOS --------------------------------------------------------------------------------------------------------- */

struct lpos {
    long long rank, count, most; /* count -1 = one, told without an array */
};

static struct reply *lpos_read(struct command_call *call, struct lpos *options)
{
    *options = (struct lpos){.rank = 1, .count = -1};
    for (size_t i = 3; i < call->count; i += 2) {
        bool has_value = i + 1 < call->count;
        if (call_says(call, i, "RANK") && has_value) {
            if (!call_integer(call, i + 1, &options->rank) || options->rank == LLONG_MIN)
                return reply_not_integer(call);
            if (options->rank == 0)
                return reply_error(call->replies, "ERR RANK can't be zero: use 1 to start from the first match, 2 from "
                                                  "the second ... or use negative to start from the end of the list");
        } else if (call_says(call, i, "COUNT") && has_value) {
            if (!call_integer(call, i + 1, &options->count) || options->count < 0)
                return reply_error(call->replies, "ERR COUNT can't be negative");
        } else if (call_says(call, i, "MAXLEN") && has_value) {
            if (!call_integer(call, i + 1, &options->most) || options->most < 0)
                return reply_error(call->replies, "ERR MAXLEN can't be negative");
        } else {
            return reply_syntax(call);
        }
    }
    return NULL;
}

struct reply *command_lpos(struct command_call *call)
{
    struct lpos options;
    struct reply *wrong = lpos_read(call, &options);
    if (wrong != NULL)
        return wrong;
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    size_t count = list_count(call), looked = count;
    if (options.most > 0 && (unsigned long long)options.most < looked)
        looked = (size_t)options.most;
    unsigned long long skipped =
        (options.rank < 0 ? (unsigned long long)-options.rank : (unsigned long long)options.rank) - 1;
    unsigned long long wanted = options.count < 0    ? 1
                                : options.count == 0 ? ULLONG_MAX
                                                     : (unsigned long long)options.count;
    struct reply *found = reply_array(call->replies, looked);
    for (size_t i = 0; i < looked && found->count < wanted; i++) {
        size_t position = options.rank < 0 ? count - 1 - i : i;
        if (!text_is(value_entry(call->value, position), call->arguments[2]))
            continue;
        if (skipped > 0)
            skipped--;
        else
            reply_add(found, reply_integer(call->replies, (long long)position));
    }
    if (options.count >= 0)
        return found;
    return found->count > 0 ? found->items[0] : reply_nil(call->replies);
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

static struct reply *entry_move(struct command_call *call, bool from_right, bool to_right)
{
    if (call_is_other(call, VALUE_LIST))
        return reply_wrong_type(call);
    if (call->value == NULL)
        return reply_nil(call->replies);
    struct value *from = call->value, *to = keyspace_find(call->space, call->arguments[2]);
    if (to != NULL && to->type != VALUE_LIST)
        return reply_wrong_type(call);
    size_t index = from_right ? list_count(call) - 1 : 0;
    struct reply *moved = entry_reply(call, index);
    value_remove_entry(from, index);
    if (to == NULL)
        to = keyspace_make(call->space, call->arguments[2], VALUE_LIST);
    value_push(to, moved->text, !to_right);
    to->version = ++call->space->versions;
    call_changed(call);
    call_fed(call, call->arguments[2]);
    return moved;
}

/* Whether it says which end, in `is_right`. */
static bool end_read(const struct command_call *call, size_t argument, bool *is_right)
{
    *is_right = call_says(call, argument, "RIGHT");
    return *is_right || call_says(call, argument, "LEFT");
}

struct reply *command_lmove(struct command_call *call)
{
    bool from_right, to_right;
    if (!end_read(call, 3, &from_right) || !end_read(call, 4, &to_right))
        return reply_syntax(call);
    return entry_move(call, from_right, to_right);
}
