/* Strings: see redis_commands.h. */
#include <limits.h>

#include "tests/sim/server/redis_commands.h"

enum { BYTES_MOST = 512 * 1024 * 1024 };

static struct text string_of(const struct value *value)
{
    return (struct text){value->string.bytes, value->string.length};
}

/* NUL behind it, for those who read numbers. */
static void string_set(struct value *value, struct text text)
{
    buffer_clear(&value->string);
    buffer_append(&value->string, text.bytes, text.length);
    (void)buffer_text(&value->string);
}

struct reply *command_get(struct command_call *call)
{
    return call->value == NULL ? reply_nil(call->replies) : reply_bulk(call->replies, string_of(call->value));
}

/* --- SET ---------------------------------------------------------------------------------------------------------- */

struct set_options {
    bool if_none, answers_old;
    int64_t expires_ms; /* 0 = never */
};

static struct reply *set_expiry_read(struct command_call *call, size_t argument, long long unit_ms, int64_t *expires_ms)
{
    long long number;
    int64_t now_ms = call->space->now_us / 1000;
    if (!call_integer(call, argument, &number))
        return reply_not_integer(call);
    if (number <= 0 || number > (LLONG_MAX - now_ms) / unit_ms)
        return reply_bad_expiry(call);
    *expires_ms = number * unit_ms + now_ms;
    return NULL;
}

static struct reply *set_options_read(struct command_call *call, struct set_options *options)
{
    size_t number_at = 0;
    long long unit_ms = 1;
    for (size_t i = 3; i < call->count; i++) {
        bool is_expiry = call_says(call, i, "PX") || call_says(call, i, "EX");
        if (call_says(call, i, "NX")) {
            options->if_none = true;
        } else if (call_says(call, i, "GET")) {
            options->answers_old = true;
        } else if (is_expiry && number_at == 0 && i + 1 < call->count) {
            unit_ms = call_says(call, i, "EX") ? 1000 : 1;
            number_at = ++i;
        } else {
            return reply_syntax(call);
        }
    }
    return number_at == 0 ? NULL : set_expiry_read(call, number_at, unit_ms, &options->expires_ms);
}

struct reply *command_set(struct command_call *call)
{
    struct set_options options = {.if_none = false};
    struct reply *wrong = set_options_read(call, &options);
    if (wrong != NULL)
        return wrong;
    if (options.answers_old && call_is_other(call, VALUE_STRING))
        return reply_wrong_type(call);
    struct reply *old = options.answers_old ? command_get(call) : NULL;
    if (options.if_none && call->value != NULL)
        return old != NULL ? old : reply_nil(call->replies);
    if (call_is_other(call, VALUE_STRING))
        call_remove(call);
    string_set(call_value(call, VALUE_STRING), call->arguments[2]);
    keyspace_expire(call->space, call->value, options.expires_ms);
    call_changed(call);
    return old != NULL ? old : reply_status(call->replies, "OK");
}

struct reply *command_mget(struct command_call *call)
{
    struct reply *items = reply_array(call->replies, call->count);
    for (size_t i = 1; i < call->count; i++) {
        call->value = keyspace_find(call->space, call->arguments[i]);
        reply_add(items, call_is_other(call, VALUE_STRING) ? reply_nil(call->replies) : command_get(call));
    }
    return items;
}

struct reply *command_mset(struct command_call *call)
{
    if (call->count % 2 == 0)
        return reply_wrong_arity(call->replies, call->command);
    for (size_t i = 1; i < call->count; i += 2) {
        struct value *before = keyspace_find(call->space, call->arguments[i]);
        if (before != NULL)
            keyspace_remove(call->space, before);
        call->value = keyspace_make(call->space, call->arguments[i], VALUE_STRING);
        string_set(call->value, call->arguments[i + 1]);
        call_changed(call);
    }
    return reply_status(call->replies, "OK");
}

/* --- counts ------------------------------------------------------------------------------------------------------- */

static struct reply *count_by(struct command_call *call, long long step)
{
    long long number = 0;
    if (call_is_other(call, VALUE_STRING))
        return reply_wrong_type(call);
    if (call->value != NULL && !text_integer(string_of(call->value), &number))
        return reply_not_integer(call);
    if (__builtin_add_overflow(number, step, &number))
        return reply_error(call->replies, "ERR increment or decrement would overflow");
    string_set(call_value(call, VALUE_STRING), replies_number(call->replies, number));
    call_changed(call);
    return reply_integer(call->replies, number);
}

struct reply *command_incr(struct command_call *call)
{
    return count_by(call, 1);
}

struct reply *command_incrby(struct command_call *call)
{
    long long step;
    return call_integer(call, 2, &step) ? count_by(call, step) : reply_not_integer(call);
}

/* --- fields of bits: numbers of 16 bits at a position, as our histograms are -------------------------------------- */

enum { BITS_BYTES = 2, BITS_MOST = 65535 };

struct bit_step {
    bool gets, saturates;
    size_t at;
    long long added;
};

static bool bit_position_read(struct text position, size_t *at)
{
    long long number = 0;
    bool is_right = position.length > 1 && position.bytes[0] == '#' &&
                    text_integer((struct text){position.bytes + 1, position.length - 1}, &number) && number >= 0 &&
                    number < BYTES_MOST / BITS_BYTES;
    *at = is_right ? (size_t)number * BITS_BYTES : 0;
    return is_right;
}

static long long bits_get(const struct value *value, size_t at)
{
    size_t length = value != NULL ? value->string.length : 0;
    long long number = 0;
    for (size_t i = at; i < at + BITS_BYTES; i++)
        number = number << 8 | (i < length ? (unsigned char)value->string.bytes[i] : 0);
    return number;
}

static void bits_set(struct value *value, size_t at, long long number)
{
    while (value->string.length < at + BITS_BYTES)
        buffer_append(&value->string, "", 1);
    value->string.bytes[at] = (char)(number >> 8 & 0xff);
    value->string.bytes[at + 1] = (char)(number & 0xff);
    (void)buffer_text(&value->string);
}

static struct reply *bit_step_run(struct command_call *call, const struct bit_step *step)
{
    long long number = bits_get(call->value, step->at);
    if (step->gets)
        return reply_integer(call->replies, number);
    if (!step->saturates)
        number = (number + step->added % (BITS_MOST + 1)) & BITS_MOST;
    else if (step->added > BITS_MOST - number)
        number = BITS_MOST;
    else
        number = step->added < -number ? 0 : number + step->added;
    bits_set(call_value(call, VALUE_STRING), step->at, number);
    call_changed(call);
    return reply_integer(call->replies, number);
}

/* One step from argument `*at` on, which ends behind it. NULL when it is right. */
static struct reply *bit_step_read(struct command_call *call, size_t *at, struct bit_step *step)
{
    size_t from = *at;
    step->gets = call_says(call, from, "GET");
    *at += step->gets ? 3 : 4;
    if ((!step->gets && !call_says(call, from, "INCRBY")) || *at > call->count)
        return reply_syntax(call);
    if (strcmp(call->arguments[from + 1].bytes, "u16") != 0)
        return reply_error(call->replies, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is "
                                          "not supported but i64 is.");
    if (!bit_position_read(call->arguments[from + 2], &step->at))
        return reply_error(call->replies, "ERR bit offset is not an integer or out of range");
    return !step->gets && !call_integer(call, from + 3, &step->added) ? reply_not_integer(call) : NULL;
}

/* All is read before the first is done. */
struct reply *command_bitfield(struct command_call *call)
{
    struct bit_step *steps = replies_take(call->replies, call->count * sizeof *steps), step = {.gets = false};
    size_t count = 0;
    for (size_t i = 2; i < call->count;) {
        if (call_says(call, i, "OVERFLOW") && call_says(call, i + 1, "SAT")) {
            step.saturates = true;
            i += 2;
            continue;
        }
        struct reply *wrong = bit_step_read(call, &i, &step);
        if (wrong != NULL)
            return wrong;
        steps[count++] = step;
    }
    if (call_is_other(call, VALUE_STRING))
        return reply_wrong_type(call);
    struct reply *items = reply_array(call->replies, count);
    for (size_t i = 0; i < count; i++)
        reply_add(items, bit_step_run(call, &steps[i]));
    return items;
}
