/* Tolerant readings: see envelope_fields.h, and the table of members in docs/data-model.md. */
#include "queue/envelope_fields.h"

#include <math.h>
#include <stdlib.h>

#include "base/real.h"
#include "queue/json_text.h"

/* From here on a time is in milliseconds: in seconds it would lie in the year 5138. */
#define MS_FROM 1e11
/* The year 9999, in seconds; whatever is later is no time. */
#define SECONDS_MAX 253402300799.0

enum { NUMBER_BYTES_MAX = 40 };

/* What is written, without the quotes of a string. */
static struct text_span bare(struct text_span value)
{
    struct text_span contents = json_text_contents(value);
    return contents.bytes != NULL ? contents : value;
}

/* --- retry --------------------------------------------------------------------------------------------------- */

/* An integer, or a string of one; its size is at most ENVELOPE_RETRIES_MAX. */
static bool count_read(struct text_span value, int *out)
{
    struct text_span digits = bare(value);
    bool negative = digits.length > 0 && *digits.bytes == '-';
    int count = 0;
    if (digits.length == (negative ? 1 : 0))
        return false;
    for (size_t i = negative ? 1 : 0; i < digits.length; i++) {
        if (digits.bytes[i] < '0' || digits.bytes[i] > '9')
            return false;
        count = count * 10 + (digits.bytes[i] - '0');
        if (count > ENVELOPE_RETRIES_MAX)
            count = ENVELOPE_RETRIES_MAX;
    }
    *out = negative ? -count : count;
    return true;
}

bool envelope_is_truthy(struct text_span value)
{
    return !envelope_is_unset(value) && !envelope_span_is(value, "false");
}

/* Ruby takes every value but false and null for "yes"; only a number sets the maximum. "false" in quotes is what some
 * encoders make of false. */
void envelope_retry_read(struct envelope *envelope, struct text_span retry, struct text_span retry_count)
{
    int max = 0, count = 0;
    bool is_given = retry.bytes != NULL;
    envelope->retry_off = is_given && (!envelope_is_truthy(retry) || envelope_span_is(retry, "\"false\""));
    envelope->retry_counted = is_given && count_read(retry, &max);
    if (!envelope->retry_counted)
        max = ENVELOPE_RETRIES_DEFAULT;
    envelope->retry_max = max > 0 ? (unsigned)max : 0;
    envelope->was_retried = retry_count.bytes != NULL && count_read(retry_count, &count);
    envelope->retry_count = envelope->was_retried ? count : 0;
}

unsigned envelope_attempt(const struct envelope *envelope)
{
    if (!envelope->was_retried)
        return 0;
    return envelope->retry_count > 0 ? (unsigned)envelope->retry_count + 1 : 1;
}

unsigned envelope_backtrace_read(struct text_span value)
{
    int lines = 0;
    if (value.bytes == NULL)
        return 0;
    if (envelope_span_is(bare(value), "true"))
        return ENVELOPE_BACKTRACE_ALL;
    if (!count_read(value, &lines) || lines < 0)
        return 0;
    return lines < ENVELOPE_BACKTRACE_ALL ? (unsigned)lines : ENVELOPE_BACKTRACE_ALL;
}

/* --- times --------------------------------------------------------------------------------------------------- */

/* Nearly all times are of this form: digits, perhaps a point and more digits, so few that the digits as an integer and
 * the power of ten are exact, and their quotient is what strtod would find. It takes a tenth of its time. */
static bool short_number_read(struct text_span digits, double *out)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    enum { DIGITS_MAX = 15 };
    int64_t number = 0;
    size_t point = digits.length;
    if (digits.length > DIGITS_MAX + 1 || digits.bytes[digits.length - 1] == '.')
        return false;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.bytes[i] >= '0' && digits.bytes[i] <= '9')
            number = number * 10 + (digits.bytes[i] - '0');
        else if (digits.bytes[i] == '.' && point == digits.length)
            point = i;
        else
            return false;
    }
    size_t decimals = point < digits.length ? digits.length - point - 1 : 0;
    *out = (double)number / powers[decimals];
    return true;
}

/* A decimal number, or a string of one; not negative. */
static bool number_read(struct text_span value, double *out)
{
    char text[NUMBER_BYTES_MAX + 1];
    struct text_span digits = value.bytes != NULL ? bare(value) : value;
    if (digits.length < 1 || digits.length > NUMBER_BYTES_MAX || digits.bytes[0] < '0' || digits.bytes[0] > '9')
        return false;
    if (short_number_read(digits, out))
        return true;
    memcpy(text, digits.bytes, digits.length);
    text[digits.length] = '\0';
    /* It also knows hexadecimal digits and names. */
    if (strspn(text, "0123456789.eE+-") != digits.length)
        return false;
    char *rest = NULL;
    *out = real_read(text, &rest);
    return *rest == '\0' && isfinite(*out);
}

int64_t envelope_seconds_read(struct text_span value)
{
    double seconds = 0;
    if (!number_read(value, &seconds))
        return -1;
    return llround(fmin(seconds, SECONDS_MAX) * (double)US_PER_S);
}

struct wall_time envelope_time_read(struct text_span value)
{
    double seconds = 0;
    if (!number_read(value, &seconds))
        return (struct wall_time){0};
    if (seconds >= MS_FROM)
        seconds /= (double)MS_PER_S;
    return (struct wall_time){seconds <= SECONDS_MAX ? llround(seconds * (double)US_PER_S) : 0};
}

static struct wall_time time_after(struct wall_time from, int64_t us)
{
    return (struct wall_time){from.us + us};
}

bool envelope_was_started(const struct envelope *envelope)
{
    return envelope->was_retried || (envelope->failed_at.us != 0 && envelope->expires_at.us == 0);
}

struct wall_time envelope_expiry(const struct envelope *envelope, int64_t class_us)
{
    const struct wall_time never = {0};
    struct wall_time created = envelope->created_at, enqueued = envelope->enqueued_at;
    if (envelope_was_started(envelope))
        return never;
    if (envelope->expires_at.us != 0)
        return envelope->expires_at;
    if (created.us == 0 && enqueued.us == 0)
        return never;
    if (envelope->expires_in_us > 0)
        return time_after(created.us != 0 ? created : enqueued, envelope->expires_in_us);
    return class_us > 0 ? time_after(enqueued.us != 0 ? enqueued : created, class_us) : never;
}

struct wall_time envelope_expiry_when_due(const struct envelope *envelope, struct wall_time due)
{
    bool is_said = envelope->expires_at.us != 0 || envelope_was_started(envelope);
    return is_said || envelope->expires_in_us <= 0 ? (struct wall_time){0} : time_after(due, envelope->expires_in_us);
}
