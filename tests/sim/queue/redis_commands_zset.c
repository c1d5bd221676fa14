/* Sorted sets: see redis_commands.h. */
#include "tests/sim/queue/redis_commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t zset_count(const struct command_call *call)
{
    return call->value == NULL ? 0 : call->value->count;
}

static struct reply *not_a_float(struct command_call *call)
{
    return reply_error(call->replies, "ERR value is not a valid float");
}

static bool call_float(const struct command_call *call, size_t argument, double *number)
{
    const char *text = call->arguments[argument].bytes;
    char *end = NULL;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && !isnan(*number);
}

/* A limit of scores; "(" before it leaves the limit itself out. */
struct limit {
    double score;
    bool is_outside;
};

static bool call_limit(const struct command_call *call, size_t argument, struct limit *limit)
{
    const char *text = call->arguments[argument].bytes;
    limit->is_outside = text[0] == '(';
    text += limit->is_outside;
    char *end = NULL;
    limit->score = strtod(text, &end);
    return end != text && *end == '\0' && !isnan(limit->score);
}

static bool is_between(double score, const struct limit limits[2])
{
    bool above = limits[0].is_outside ? score > limits[0].score : score >= limits[0].score;
    bool below = limits[1].is_outside ? score < limits[1].score : score <= limits[1].score;
    return above && below;
}

/* --- one member ---------------------------------------------------------------------------------------------- */

struct reply *redis_zadd(struct command_call *call)
{
    bool only_new = call_says(call, 2, "NX");
    size_t first = only_new ? 3 : 2;
    long long added = 0;
    double score;
    if (first == call->count || (call->count - first) % 2 != 0)
        return reply_error(call->replies, "ERR syntax error");
    for (size_t i = first; i < call->count; i += 2)
        if (!call_float(call, i, &score))
            return not_a_float(call);
    for (size_t i = first; i < call->count; i += 2) {
        struct value *set = call_value(call, VALUE_ZSET);
        size_t index = value_find(set, call->arguments[i + 1]);
        call_float(call, i, &score);
        added += index == SIZE_MAX;
        if (index != SIZE_MAX && only_new)
            continue;
        if (index != SIZE_MAX)
            value_remove(set, index);
        value_insert_scored(set, score, call->arguments[i + 1]);
    }
    return reply_integer(call->replies, added);
}

struct reply *redis_zrem(struct command_call *call)
{
    return redis_hdel(call);
}

struct reply *redis_zscore(struct command_call *call)
{
    size_t index = call->value == NULL ? SIZE_MAX : value_find(call->value, call->arguments[2]);
    return index == SIZE_MAX ? reply_nil(call->replies)
                             : reply_score(call->replies, value_at(call->value, index)->score);
}

struct reply *redis_zcard(struct command_call *call)
{
    return reply_integer(call->replies, (long long)zset_count(call));
}

/* --- ranges -------------------------------------------------------------------------------------------------- */

struct range {
    size_t first, count;
};

static struct range range_of_scores(struct command_call *call, const struct limit limits[2])
{
    struct range range = {0, 0};
    for (size_t i = 0; i < zset_count(call); i++) {
        double score = value_at(call->value, i)->score;
        if (!is_between(score, limits)) {
            if (range.count > 0)
                break;
            continue;
        }
        range.first = range.count == 0 ? i : range.first;
        range.count++;
    }
    return range;
}

static bool range_of_ranks(struct command_call *call, struct range *range)
{
    long long first, last, count = (long long)zset_count(call);
    if (!call_integer(call, 2, &first) || !call_integer(call, 3, &last))
        return false;
    first = first < 0 ? first + count : first;
    first = first < 0 ? 0 : first;
    last = last < 0 ? last + count : last;
    last = last >= count ? count - 1 : last;
    *range = (struct range){(size_t)first, first <= last ? (size_t)(last - first + 1) : 0};
    return true;
}

static struct reply *range_tell(struct command_call *call, struct range range, bool with_scores)
{
    struct reply *reply = reply_array(call->replies, 2 * range.count);
    for (size_t i = 0; i < range.count; i++) {
        struct item *item = value_at(call->value, range.first + i);
        reply_add(reply, reply_bulk(call->replies, item_name(item)));
        if (with_scores)
            reply_add(reply, reply_score(call->replies, item->score));
    }
    return reply;
}

static struct reply *range_remove(struct command_call *call, struct range range)
{
    for (size_t i = 0; i < range.count; i++)
        value_remove(call->value, range.first);
    call_tidy(call);
    return reply_integer(call->replies, (long long)range.count);
}

struct reply *redis_zcount(struct command_call *call)
{
    struct limit limits[2];
    if (!call_limit(call, 2, &limits[0]) || !call_limit(call, 3, &limits[1]))
        return reply_error(call->replies, "ERR min or max is not a float");
    return reply_integer(call->replies, (long long)range_of_scores(call, limits).count);
}

struct reply *redis_zrange(struct command_call *call)
{
    struct range range;
    if (!range_of_ranks(call, &range))
        return reply_error(call->replies, "ERR value is not an integer or out of range");
    return range_tell(call, range, call_says(call, 4, "WITHSCORES"));
}

struct reply *redis_zrangebyscore(struct command_call *call)
{
    struct limit limits[2];
    if (!call_limit(call, 2, &limits[0]) || !call_limit(call, 3, &limits[1]))
        return reply_error(call->replies, "ERR min or max is not a float");
    struct range range = range_of_scores(call, limits);
    bool with_scores = false;
    for (size_t i = 4; i < call->count; i++) {
        long long skip, most;
        if (call_says(call, i, "WITHSCORES")) {
            with_scores = true;
        } else if (call_says(call, i, "LIMIT") && i + 2 < call->count && call_integer(call, i + 1, &skip) &&
                   call_integer(call, i + 2, &most)) {
            size_t passed = (size_t)skip < range.count ? (size_t)skip : range.count;
            range.first += passed;
            range.count -= passed;
            range.count = most >= 0 && (size_t)most < range.count ? (size_t)most : range.count;
            i += 2;
        } else {
            return reply_error(call->replies, "ERR syntax error");
        }
    }
    return range_tell(call, range, with_scores);
}

struct reply *redis_zremrangebyscore(struct command_call *call)
{
    struct limit limits[2];
    if (!call_limit(call, 2, &limits[0]) || !call_limit(call, 3, &limits[1]))
        return reply_error(call->replies, "ERR min or max is not a float");
    return range_remove(call, range_of_scores(call, limits));
}

struct reply *redis_zremrangebyrank(struct command_call *call)
{
    struct range range;
    if (!range_of_ranks(call, &range))
        return reply_error(call->replies, "ERR value is not an integer or out of range");
    return range_remove(call, range);
}
