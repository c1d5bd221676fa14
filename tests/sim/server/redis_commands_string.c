/* Strings: see redis_commands.h. */
#include <limits.h>
#include <strings.h>

#include "tests/sim/server/redis_commands.h"

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

struct reply *command_strlen(struct command_call *call)
{
    return reply_integer(call->replies, call->value == NULL ? 0 : (long long)call->value->string.length);
}

/* --- SET ---------------------------------------------------------------------------------------------------------- */

struct set_options {
    bool if_none, if_some, answers_old, keeps_ttl, has_expiry;
    bool is_absolute;
    long long unit_ms, number;
};

static bool set_expiry_word(const struct command_call *call, size_t argument, struct set_options *options)
{
    static const struct {
        const char *word;
        long long unit_ms;
        bool is_absolute;
    } words[] = {{"EX", 1000, false}, {"PX", 1, false}, {"EXAT", 1000, true}, {"PXAT", 1, true}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (call_says(call, argument, words[i].word)) {
            options->unit_ms = words[i].unit_ms;
            options->is_absolute = words[i].is_absolute;
            return true;
        }
    return false;
}

static struct reply *expiry_number_read(struct command_call *call, size_t argument, struct set_options *options)
{
    if (!call_integer(call, argument, &options->number))
        return reply_not_integer(call);
    int64_t base_ms = options->is_absolute ? 0 : call->space->now_us / 1000;
    if (options->number <= 0 || options->number > (LLONG_MAX - base_ms) / options->unit_ms)
        return reply_bad_expiry(call);
    options->number = options->number * options->unit_ms + base_ms;
    return NULL;
}

static struct reply *set_options_read(struct command_call *call, struct set_options *options)
{
    size_t number_at = 0;
    for (size_t i = 3; i < call->count; i++) {
        if (call_says(call, i, "NX") && !options->if_some)
            options->if_none = true;
        else if (call_says(call, i, "XX") && !options->if_none)
            options->if_some = true;
        else if (call_says(call, i, "GET"))
            options->answers_old = true;
        else if (call_says(call, i, "KEEPTTL") && number_at == 0)
            options->keeps_ttl = true;
        else if (i + 1 < call->count && number_at == 0 && !options->keeps_ttl && set_expiry_word(call, i, options))
            number_at = ++i;
        else
            return reply_syntax(call);
    }
    options->has_expiry = number_at != 0;
    return number_at == 0 ? NULL : expiry_number_read(call, number_at, options);
}

static void set_perform(struct command_call *call, struct text text, int64_t expires_ms)
{
    struct value *value = call->value;
    if (value != NULL && value->type != VALUE_STRING) {
        keyspace_remove(call->space, value);
        call->value = NULL;
    }
    value = call_value(call, VALUE_STRING);
    string_set(value, text);
    keyspace_expire(call->space, value, expires_ms);
    call_changed(call);
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
    if (options.if_none ? call->value != NULL : options.if_some && call->value == NULL)
        return old != NULL ? old : reply_nil(call->replies);
    int64_t kept = options.keeps_ttl && call->value != NULL ? call->value->expires_ms : 0;
    set_perform(call, call->arguments[2], options.has_expiry ? options.number : kept);
    return old != NULL ? old : reply_status(call->replies, "OK");
}

static struct reply *set_for(struct command_call *call, long long unit_ms)
{
    struct set_options options = {.unit_ms = unit_ms};
    struct reply *wrong = expiry_number_read(call, 2, &options);
    if (wrong != NULL)
        return wrong;
    set_perform(call, call->arguments[3], options.number);
    return reply_status(call->replies, "OK");
}

struct reply *command_setex(struct command_call *call)
{
    return set_for(call, 1000);
}

struct reply *command_psetex(struct command_call *call)
{
    return set_for(call, 1);
}

struct reply *command_setnx(struct command_call *call)
{
    if (call->value != NULL)
        return reply_integer(call->replies, 0);
    set_perform(call, call->arguments[2], 0);
    return reply_integer(call->replies, 1);
}

struct reply *command_getset(struct command_call *call)
{
    struct reply *old = command_get(call);
    set_perform(call, call->arguments[2], 0);
    return old;
}

struct reply *command_getdel(struct command_call *call)
{
    struct reply *old = command_get(call);
    if (call->value != NULL)
        call_remove(call);
    return old;
}

struct reply *command_append(struct command_call *call)
{
    struct value *value = call_value(call, VALUE_STRING);
    buffer_append(&value->string, call->arguments[2].bytes, call->arguments[2].length);
    (void)buffer_text(&value->string);
    call_changed(call);
    return reply_integer(call->replies, (long long)value->string.length);
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
    string_set(call_value(call, VALUE_STRING), replies_format(call->replies, "%lld", number));
    call_changed(call);
    return reply_integer(call->replies, number);
}

struct reply *command_incr(struct command_call *call)
{
    return count_by(call, 1);
}

struct reply *command_decr(struct command_call *call)
{
    return count_by(call, -1);
}

struct reply *command_incrby(struct command_call *call)
{
    long long step;
    return call_integer(call, 2, &step) ? count_by(call, step) : reply_not_integer(call);
}

struct reply *command_decrby(struct command_call *call)
{
    long long step;
    if (!call_integer(call, 2, &step))
        return reply_not_integer(call);
    if (step == LLONG_MIN)
        return reply_error(call->replies, "ERR decrement would overflow");
    return count_by(call, -step);
}

/* --- fields of bits: whole unsigned ones of 8, 16 and 32 bits, as our histograms are ------------------------------ */

struct bit_step {
    char what;     /* g, s, i */
    char overflow; /* w, s, f */
    size_t bytes, at;
    long long number;
};

static bool bit_place_read(struct command_call *call, size_t argument, struct bit_step *step)
{
    static const struct {
        const char *name;
        size_t bytes;
    } kinds[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}};
    const struct text place = call->arguments[argument + 1];
    long long number = 0;
    step->bytes = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(call->arguments[argument].bytes, kinds[i].name) == 0)
            step->bytes = kinds[i].bytes;
    bool is_right = step->bytes != 0 && place.length > 1 && place.bytes[0] == '#' &&
                    text_integer((struct text){place.bytes + 1, place.length - 1}, &number) && number >= 0;
    step->at = (size_t)number * step->bytes;
    return is_right;
}

static unsigned long long bits_get(const struct value *value, const struct bit_step *step)
{
    unsigned long long number = 0;
    for (size_t i = 0; i < step->bytes; i++) {
        bool is_there = value != NULL && step->at + i < value->string.length;
        number = number << 8 | (is_there ? (unsigned char)value->string.bytes[step->at + i] : 0);
    }
    return number;
}

static void bits_set(struct value *value, const struct bit_step *step, unsigned long long number)
{
    while (value->string.length < step->at + step->bytes)
        buffer_append(&value->string, "", 1);
    for (size_t i = step->bytes; i-- > 0; number >>= 8)
        value->string.bytes[step->at + i] = (char)(number & 0xff);
    (void)buffer_text(&value->string);
}

static struct reply *bit_step_run(struct command_call *call, const struct bit_step *step)
{
    long long before = (long long)bits_get(call->value, step), most = (1LL << (8 * step->bytes)) - 1;
    if (step->what == 'g')
        return reply_integer(call->replies, before);
    long long after = step->what == 's' ? step->number : before + step->number;
    bool is_over = after < 0 || after > most;
    if (is_over && step->overflow == 'f')
        return reply_nil(call->replies);
    if (is_over)
        after = step->overflow == 'w' ? after & most : after < 0 ? 0 : most;
    bits_set(call_value(call, VALUE_STRING), step, (unsigned long long)after);
    call_changed(call);
    return reply_integer(call->replies, step->what == 's' ? before : after);
}

struct reply *command_bitfield(struct command_call *call)
{
    struct reply *items = reply_array(call->replies, call->count);
    struct bit_step step = {.overflow = 'w'};
    if (call_is_other(call, VALUE_STRING))
        return reply_wrong_type(call);
    for (size_t i = 2; i < call->count;) {
        if (call_says(call, i, "OVERFLOW") && i + 1 < call->count) {
            step.overflow = (char)(call->arguments[i + 1].bytes[0] | 32);
            i += 2;
            continue;
        }
        bool gets = call_says(call, i, "GET"), sets = call_says(call, i, "SET");
        size_t needed = gets ? 3 : 4;
        step.what = gets ? 'g' : sets ? 's' : 'i';
        if ((!gets && !sets && !call_says(call, i, "INCRBY")) || i + needed > call->count)
            return reply_syntax(call);
        if (!bit_place_read(call, i + 1, &step))
            return reply_error(call->replies, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is "
                                              "not supported but i64 is.");
        if (!gets && !call_integer(call, i + 3, &step.number))
            return reply_not_integer(call);
        reply_add(items, bit_step_run(call, &step));
        i += needed;
    }
    return items;
}
