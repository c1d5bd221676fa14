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
    bool if_none, if_some, if_more, if_less, tells_changed, adds;
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
            options->if_more = true;
        else if (call_says(call, i, "LT"))
            options->if_less = true;
        else if (call_says(call, i, "CH"))
            options->tells_changed = true;
        else if (call_says(call, i, "INCR"))
            options->adds = true;
        else
            break;
    }
    options->first = i;
    if (i == call->count || (call->count - i) % 2 != 0)
        return reply_syntax(call);
    if (options->if_none && options->if_some)
        return reply_error(call->replies, "ERR XX and NX options at the same time are not compatible");
    if ((options->if_more || options->if_less) && (options->if_none || (options->if_more && options->if_less)))
        return reply_error(call->replies, "ERR GT, LT, and/or NX options at the same time are not compatible");
    if (options->adds && call->count - i > 2)
        return reply_error(call->replies, "ERR INCR option supports a single increment-element pair");
    for (double score; i < call->count; i += 2)
        if (!text_float(call->arguments[i], &score))
            return reply_not_float(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : NULL;
}

static bool zadd_may(const struct zadd *options, const struct item *item, double score)
{
    if (item == NULL)
        return !options->if_some;
    return !options->if_none && !(options->if_more && score <= item->score) &&
           !(options->if_less && score >= item->score);
}

static struct reply *zadd_perform(struct command_call *call, const struct zadd *options)
{
    long long added = 0, changed = 0;
    double score = 0;
    for (size_t i = options->first; i < call->count; i += 2) {
        struct item *item = call_member(call, i + 1);
        (void)text_float(call->arguments[i], &score);
        if (options->adds && item != NULL)
            score += item->score;
        if (isnan(score))
            return reply_error(call->replies, "ERR resulting score is not a number (NaN)");
        if (!zadd_may(options, item, score)) {
            if (options->adds)
                return reply_nil(call->replies);
            continue;
        }
        added += item == NULL;
        changed += item == NULL || item->score != score;
        value_set_score(call_value(call, VALUE_ZSET), call->arguments[i + 1], score);
    }
    if (changed > 0)
        call_changed(call);
    if (options->adds)
        return reply_score(call->replies, score);
    return reply_integer(call->replies, options->tells_changed ? changed : added);
}

struct reply *command_zadd(struct command_call *call)
{
    struct zadd options = {.if_none = false};
    struct reply *wrong = zadd_read(call, &options);
    return wrong != NULL ? wrong : zadd_perform(call, &options);
}

struct reply *command_zincrby(struct command_call *call)
{
    const struct zadd options = {.adds = true, .first = 2};
    double step;
    if (!text_float(call->arguments[2], &step))
        return reply_not_float(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : zadd_perform(call, &options);
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
    struct reply *items = reply_array(call->replies, call->count);
    for (size_t i = 2; i < call->count; i++)
        reply_add(items, score_reply(call, call_member(call, i)));
    return items;
}

struct reply *command_zcard(struct command_call *call)
{
    return reply_integer(call->replies, (long long)zset_count(call));
}

static struct reply *rank_tell(struct command_call *call, bool falls)
{
    const struct item *item = call_member(call, 2);
    if (item == NULL)
        return reply_nil(call->replies);
    size_t rank = value_rank(call->value, item);
    return reply_integer(call->replies, (long long)(falls ? zset_count(call) - 1 - rank : rank));
}

struct reply *command_zrank(struct command_call *call)
{
    return rank_tell(call, false);
}

struct reply *command_zrevrank(struct command_call *call)
{
    return rank_tell(call, true);
}

/* --- ranges: of ranks that rise ----------------------------------------------------------------------------------- */

struct range {
    size_t first, count;
    bool falls, with_scores;
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
    range_of_places(from, to, count, &range->first, &range->count);
    if (range->falls && range->count > 0)
        range->first = count - range->first - range->count;
    return true;
}

static void range_limit(struct range *range, long long skip, long long most)
{
    unsigned long long all = range->count;
    size_t skipped = skip < 0 || (unsigned long long)skip > all ? range->count : (size_t)skip;
    size_t kept = range->count - skipped;
    if (most >= 0 && (unsigned long long)most < kept)
        kept = (size_t)most;
    range->first += range->falls ? range->count - skipped - kept : skipped;
    range->count = kept;
}

static struct reply *range_tell(struct command_call *call, const struct range *range)
{
    struct reply *items = reply_array(call->replies, 2 * range->count);
    for (size_t i = 0; i < range->count; i++) {
        const struct item *item = value_scored(call->value, range->first + (range->falls ? range->count - 1 - i : i));
        reply_add(items, reply_bulk(call->replies, item_name(item)));
        if (range->with_scores)
            reply_add(items, reply_score(call->replies, item->score));
    }
    return items;
}

struct zrange {
    bool by_score, falls, with_scores, is_limited;
    long long skip, most;
};

/* What stands behind the limits. `is_open` as of ZRANGE, which may say BYSCORE and REV. */
static struct reply *zrange_read(struct command_call *call, bool is_open, struct zrange *options)
{
    for (size_t i = 4; i < call->count; i++) {
        if (call_says(call, i, "WITHSCORES")) {
            options->with_scores = true;
        } else if (call_says(call, i, "LIMIT") && i + 2 < call->count) {
            if (!call_integer(call, i + 1, &options->skip) || !call_integer(call, i + 2, &options->most))
                return reply_not_integer(call);
            options->is_limited = true;
            i += 2;
        } else if (is_open && call_says(call, i, "BYSCORE")) {
            options->by_score = true;
        } else if (is_open && call_says(call, i, "REV")) {
            options->falls = true;
        } else {
            return reply_syntax(call);
        }
    }
    if (options->is_limited && !options->by_score)
        return reply_error(call->replies, "ERR syntax error, LIMIT is only supported in combination with either "
                                          "BYSCORE or BYLEX");
    return NULL;
}

static struct reply *range_run(struct command_call *call, bool is_open, struct zrange options)
{
    struct reply *wrong = zrange_read(call, is_open, &options);
    if (wrong != NULL)
        return wrong;
    struct range range = {.falls = options.falls, .with_scores = options.with_scores};
    if (options.by_score) {
        if (!range_of_scores(call, options.falls ? 3 : 2, options.falls ? 2 : 3, &range))
            return reply_error(call->replies, "ERR min or max is not a float");
    } else if (!range_of_ranks(call, &range)) {
        return reply_not_integer(call);
    }
    if (call_is_other(call, VALUE_ZSET))
        return reply_wrong_type(call);
    if (options.is_limited)
        range_limit(&range, options.skip, options.most);
    return range_tell(call, &range);
}

struct reply *command_zrange(struct command_call *call)
{
    return range_run(call, true, (struct zrange){.by_score = false});
}

struct reply *command_zrevrange(struct command_call *call)
{
    return range_run(call, false, (struct zrange){.falls = true});
}

struct reply *command_zrangebyscore(struct command_call *call)
{
    return range_run(call, false, (struct zrange){.by_score = true});
}

struct reply *command_zrevrangebyscore(struct command_call *call)
{
    return range_run(call, false, (struct zrange){.by_score = true, .falls = true});
}

struct reply *command_zcount(struct command_call *call)
{
    struct range range = {.first = 0};
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
    struct range range = {.first = 0};
    if (!range_of_scores(call, 2, 3, &range))
        return reply_error(call->replies, "ERR min or max is not a float");
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_remove(call, &range);
}

struct reply *command_zremrangebyrank(struct command_call *call)
{
    struct range range = {.first = 0};
    if (!range_of_ranks(call, &range))
        return reply_not_integer(call);
    return call_is_other(call, VALUE_ZSET) ? reply_wrong_type(call) : range_remove(call, &range);
}

static struct reply *range_pop(struct command_call *call, bool from_top)
{
    long long most = 1;
    if (call->count > 3)
        return reply_syntax(call);
    if (call->count == 3 && (!call_integer(call, 2, &most) || most < 0))
        return reply_error(call->replies, "ERR value is out of range, must be positive");
    if (call_is_other(call, VALUE_ZSET))
        return reply_wrong_type(call);
    size_t count = zset_count(call), popped = (unsigned long long)most < count ? (size_t)most : count;
    struct range range = {
        .first = from_top ? count - popped : 0, .count = popped, .falls = from_top, .with_scores = true};
    struct reply *items = range_tell(call, &range);
    (void)range_remove(call, &range);
    return items;
}

struct reply *command_zpopmin(struct command_call *call)
{
    return range_pop(call, false);
}

struct reply *command_zpopmax(struct command_call *call)
{
    return range_pop(call, true);
}
