/* Sorted sets: see redis_commands.h. */
#include <math.h>
#include <stdlib.h>

#include "tests/sim/server/redis_commands.h"

static size_t zset_count(const struct command_call *call)
{
    return call->value == NULL ? 0 : call->value->row.count;
}

static struct item *call_member(const struct command_call *call, size_t argument)
{
    return call->value == NULL ? NULL : table_find(&call->value->table, call->arguments[argument]);
}

static struct reply *score_reply(struct command_call *call, const struct item *item)
{
    return item == NULL ? reply_nil(call->replies) : reply_score(call->replies, item->score);
}

/* --- ZADD --------------------------------------------------------------------------------------------------------- */

struct zadd {
    bool if_none, if_some, if_greater, tells_changed;
    size_t first; /* argument */
};

static struct reply *zadd_read(struct command_call *call, struct zadd *options)
{
    size_t i = 2;
    for (; i < call->count; i++) {
        if (call_says(call, i, "NX"))
            options->if_none = true;
        else if (call_says(call, i, "XX"))
            options->if_some = true;
        else if (call_says(call, i, "GT"))
            options->if_greater = true;
        else if (call_says(call, i, "CH"))
            options->tells_changed = true;
        else
            break;
    }
    options->first = i;
    if (i == call->count || (call->count - i) % 2 != 0)
        return reply_syntax(call);
    if (options->if_none && options->if_some)
        return reply_error(call->replies, "ERR XX and NX options at the same time are not compatible");
    if (options->if_none && options->if_greater)
        return reply_error(call->replies, "ERR GT, LT, and/or NX options at the same time are not compatible");
    for (double score; i < call->count; i += 2)
        if (!text_float(call->arguments[i], &score))
            return reply_not_float(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : NULL;
}

struct reply *command_zadd(struct command_call *call)
{
    long long added = 0, changed = 0;
    double score = 0;
    struct zadd options = {.if_none = false};
    struct reply *wrong = zadd_read(call, &options);
    if (wrong != NULL)
        return wrong;
    for (size_t i = options.first; i < call->count; i += 2) {
        const struct item *item = call_member(call, i + 1);
        (void)text_float(call->arguments[i], &score);
        if (item == NULL ? options.if_some : options.if_none || (options.if_greater && score <= item->score))
            continue;
        added += item == NULL;
        changed += item == NULL || item->score != score;
        value_set_score(call_value(call, VALUE_ZSET), call->arguments[i + 1], score);
    }
    if (changed > 0)
        call_changed(call);
    return reply_integer(call->replies, options.tells_changed ? changed : added);
}

/* --- one member --------------------------------------------------------------------------------------------------- */

struct reply *command_zrem(struct command_call *call)
{
    long long gone = 0;
    for (size_t i = 2; i < call->count; i++) {
        struct item *item = call_member(call, i);
        if (item == NULL)
            continue;
        value_remove_scored(call->value, item);
        call_changed(call);
        gone++;
    }
    return reply_integer(call->replies, gone);
}

struct reply *command_zscore(struct command_call *call)
{
    return score_reply(call, call_member(call, 2));
}

struct reply *command_zmscore(struct command_call *call)
{
    struct reply *items = reply_array(call->replies, call->count - 2);
    for (size_t i = 2; i < call->count; i++)
        reply_add(items, score_reply(call, call_member(call, i)));
    return items;
}

struct reply *command_zcard(struct command_call *call)
{
    return reply_integer(call->replies, (long long)zset_count(call));
}

struct reply *command_zrank(struct command_call *call)
{
    const struct item *item = call_member(call, 2);
    return item == NULL ? reply_nil(call->replies)
                        : reply_integer(call->replies, (long long)value_rank(call->value, item));
}

/* --- ranges: of ranks that rise ----------------------------------------------------------------------------------- */

struct range {
    size_t first, count;
};

/* A limit of scores; "(" before it leaves the limit itself out. */
static bool limit_read(struct text text, double *score, bool *is_outside)
{
    char *end = NULL;
    *is_outside = text.length > 0 && text.bytes[0] == '(';
    *score = strtod(text.bytes + *is_outside, &end);
    return end == text.bytes + text.length && !isnan(*score);
}

/* The limits in the arguments, the lower one first. */
static bool range_of_scores(const struct command_call *call, size_t low, size_t high, struct range *range)
{
    double least, most;
    bool is_above, is_below;
    if (!limit_read(call->arguments[low], &least, &is_above) || !limit_read(call->arguments[high], &most, &is_below))
        return false;
    range->first = range->count = 0;
    if (call->value == NULL || call->value->type != VALUE_ZSET)
        return true;
    size_t first = value_rank_of_score(call->value, least, is_above);
    size_t end = value_rank_of_score(call->value, most, !is_below);
    range->first = first;
    range->count = end > first ? end - first : 0;
    return true;
}

static bool range_of_ranks(const struct command_call *call, struct range *range)
{
    long long from, to;
    size_t count = call_is_other(call, VALUE_ZSET) ? 0 : zset_count(call);
    if (!call_integer(call, 2, &from) || !call_integer(call, 3, &to))
        return false;
    range_of_positions(from, to, count, &range->first, &range->count);
    return true;
}

/* How a range is told. */
struct telling {
    bool falls, with_scores;
    long long skip, most; /* most < 0 = all */
};

static struct reply *telling_read(struct command_call *call, bool has_limit, struct telling *telling)
{
    for (size_t i = 4; i < call->count; i++) {
        if (call_says(call, i, "WITHSCORES")) {
            telling->with_scores = true;
        } else if (has_limit && call_says(call, i, "LIMIT") && i + 2 < call->count) {
            if (!call_integer(call, i + 1, &telling->skip) || !call_integer(call, i + 2, &telling->most))
                return reply_not_integer(call);
            i += 2;
        } else {
            return reply_syntax(call);
        }
    }
    return NULL;
}

static struct reply *range_tell(struct command_call *call, const struct range *range, const struct telling *telling)
{
    size_t all = range->count, skip = all;
    if (telling->skip >= 0 && (unsigned long long)telling->skip < all)
        skip = (size_t)telling->skip;
    size_t most = telling->most < 0 || (unsigned long long)telling->most > all ? all : (size_t)telling->most;
    struct reply *items = reply_array(call->replies, 2 * all);
    for (size_t i = skip; i < all && i - skip < most; i++) {
        const struct item *item = value_scored(call->value, range->first + (telling->falls ? all - 1 - i : i));
        reply_add(items, reply_bulk(call->replies, item_name(item)));
        if (telling->with_scores)
            reply_add(items, reply_score(call->replies, item->score));
    }
    return items;
}

struct reply *command_zrange(struct command_call *call)
{
    struct range range;
    struct telling telling = {.most = -1};
    struct reply *wrong = telling_read(call, false, &telling);
    if (wrong != NULL)
        return wrong;
    if (!range_of_ranks(call, &range))
        return reply_not_integer(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_tell(call, &range, &telling);
}

static struct reply *scores_tell(struct command_call *call, bool falls)
{
    struct range range;
    struct telling telling = {.falls = falls, .most = -1};
    struct reply *wrong = telling_read(call, true, &telling);
    if (wrong != NULL)
        return wrong;
    if (!range_of_scores(call, falls ? 3 : 2, falls ? 2 : 3, &range))
        return reply_error(call->replies, "ERR min or max is not a float");
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_tell(call, &range, &telling);
}

struct reply *command_zrangebyscore(struct command_call *call)
{
    return scores_tell(call, false);
}

struct reply *command_zrevrangebyscore(struct command_call *call)
{
    return scores_tell(call, true);
}

struct reply *command_zcount(struct command_call *call)
{
    struct range range;
    if (!range_of_scores(call, 2, 3, &range))
        return reply_error(call->replies, "ERR min or max is not a float");
    if (call_is_other(call, VALUE_ZSET))
        return reply_wrong_type(call);
    return reply_integer(call->replies, (long long)range.count);
}

/* --- removing ranges ---------------------------------------------------------------------------------------------- */

static struct reply *range_remove(struct command_call *call, const struct range *range)
{
    for (size_t i = range->count; i-- > 0;)
        value_remove_scored(call->value, value_scored(call->value, range->first + i));
    if (range->count > 0)
        call_changed(call);
    return reply_integer(call->replies, (long long)range->count);
}

struct reply *command_zremrangebyscore(struct command_call *call)
{
    struct range range;
    if (!range_of_scores(call, 2, 3, &range))
        return reply_error(call->replies, "ERR min or max is not a float");
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_remove(call, &range);
}

struct reply *command_zremrangebyrank(struct command_call *call)
{
    struct range range;
    if (!range_of_ranks(call, &range))
        return reply_not_integer(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_remove(call, &range);
}
