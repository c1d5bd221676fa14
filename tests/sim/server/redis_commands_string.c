/* Strings: see redis_commands.h. */
#include <limits.h>
#include <strings.h>

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

struct reply *command_strlen(struct command_call *call)
{
    return reply_integer(call->replies, call->value == NULL ? 0 : (long long)call->value->string.length);
}

enum { STRING_MAX = 512 * 1024 * 1024 };

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

struct reply *command_setrange(struct command_call *call)
{
    long long from;
    const struct text bytes = call->arguments[3];
    if (!call_integer(call, 2, &from))
        return reply_not_integer(call);
    if (from < 0)
        return reply_error(call->replies, "ERR offset is out of range");
    if (call_is_other(call, VALUE_STRING))
        return reply_wrong_type(call);
    if (bytes.length == 0)
        return command_strlen(call);
    if (from > STRING_MAX || bytes.length > STRING_MAX - (size_t)from)
        return reply_error(call->replies, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    struct buffer *string = &call_value(call, VALUE_STRING)->string;
    size_t end = (size_t)from + bytes.length, before = string->length;
    if (end > before) {
        memset(buffer_reserve(string, end - before), 0, end - before);
        string->length = end;
    }
    memcpy(string->bytes + from, bytes.bytes, bytes.length);
    (void)buffer_text(string);
    call_changed(call);
    return reply_integer(call->replies, (long long)string->length);
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

static bool bit_type_read(struct text type, struct bit_step *step)
{
    static const struct {
        const char *name;
        size_t bytes;
    } kinds[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}};
    step->bytes = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type.bytes, kinds[i].name) == 0)
            step->bytes = kinds[i].bytes;
    return step->bytes != 0;
}

static bool bit_place_read(struct text place, struct bit_step *step)
{
    long long number = 0;
    bool is_right = place.length > 1 && place.bytes[0] == '#' &&
                    text_integer((struct text){place.bytes + 1, place.length - 1}, &number) && number >= 0 &&
                    number < BYTES_MOST / (long long)step->bytes;
    step->at = is_right ? (size_t)number * step->bytes : 0;
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
    long long added = step->number, start = step->what == 's' ? 0 : before;
    bool is_over = added > most - start, is_under = added < -start && step->what != 's';
    if ((is_over || is_under) && step->overflow == 'f')
        return reply_nil(call->replies);
    long long after = (long long)(((unsigned long long)start + (unsigned long long)added) & (unsigned long long)most);
    if ((is_over || is_under) && step->overflow == 's')
        after = is_under ? 0 : most;

    bits_set(call_value(call, VALUE_STRING), step, (unsigned long long)after);
    call_changed(call);
    return reply_integer(call->replies, step->what == 's' ? before : after);
}

/* One step from argument `*at` on, which ends behind it. NULL when it is right. */
static struct reply *bit_step_read(struct command_call *call, size_t *at, struct bit_step *step)
{
    bool gets = call_says(call, *at, "GET"), sets = call_says(call, *at, "SET");
    size_t needed = gets ? 3 : 4, from = *at;
    *at += needed;
    step->what = gets ? 'g' : sets ? 's' : 'i';
    if ((!gets && !sets && !call_says(call, from, "INCRBY")) || *at > call->count)
        return reply_syntax(call);
    if (!bit_type_read(call->arguments[from + 1], step))
        return reply_error(call->replies, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is "
                                          "not supported but i64 is.");
    if (!bit_place_read(call->arguments[from + 2], step))
        return reply_error(call->replies, "ERR bit offset is not an integer or out of range");
    return !gets && !call_integer(call, from + 3, &step->number) ? reply_not_integer(call) : NULL;
}

/* All is read before the first is done. */
struct reply *command_bitfield(struct command_call *call)
{
    struct bit_step *steps = replies_take(call->replies, call->count * sizeof *steps), step = {.overflow = 'w'};
    size_t count = 0;
    for (size_t i = 2; i < call->count;) {
        if (call_says(call, i, "OVERFLOW") && i + 1 < call->count) {
            step.overflow = (char)(call->arguments[i + 1].bytes[0] | 32);
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
