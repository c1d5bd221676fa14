/* Integers only: "1.5s" is 1 s + 5/10 s, where the fraction is reduced until its denominator divides the unit. What
 * is no whole number of nanoseconds or bytes is refused, not rounded. */
#include "base/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

struct unit {
    const char *name;
    int64_t worth;
};

/* What a family of units has in common; the units go from small to large. */
struct family {
    const char *noun, *example, *largest, *smallest;
    int64_t limit;
    const struct unit *units;
    size_t count;
};

#define NS_PER_DAY (24 * 3600 * NS_PER_S)

static const struct unit duration_units[] = {
    {"ns", 1},         {"us", NS_PER_US},    {"ms", NS_PER_MS},
    {"s", NS_PER_S},   {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
    {"d", NS_PER_DAY},
};

static const struct unit size_units[] = {
    {"B", 1},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {"PiB", INT64_C(1) << 50},
    {"EiB", INT64_C(1) << 60},
};

static const struct family durations = {
    .noun = "duration",
    .example = "250ms, 10s, 5m, 2h or 7d",
    .largest = "100 years",
    .smallest = "nanosecond",
    .limit = 36525 * NS_PER_DAY,
    .units = duration_units,
    .count = sizeof duration_units / sizeof *duration_units,
};

static const struct family sizes = {
    .noun = "size",
    .example = "512B, 64KiB, 1MiB or 2GiB",
    .largest = "4 EiB",
    .smallest = "byte",
    .limit = INT64_C(1) << 62,
    .units = size_units,
    .count = sizeof size_units / sizeof *size_units,
};

/* A number as it is written: whole + fraction / scale. */
struct number {
    int64_t whole, fraction, scale;
    bool too_large, too_fine;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Both read digits and return where they end. */
static const char *whole_read(const char *text, struct number *number)
{
    for (; is_digit(*text); text++) {
        if (number->whole > (INT64_MAX - 9) / 10)
            number->too_large = true;
        else
            number->whole = 10 * number->whole + (*text - '0');
    }
    return text;
}

static const char *fraction_read(const char *text, struct number *number)
{
    int64_t power = 1;
    for (; is_digit(*text); text++) {
        if (power > INT64_MAX / 100) { /* further digits are below the smallest part of any unit */
            number->too_fine |= *text != '0';
            continue;
        }
        power *= 10;
        if (*text != '0') {
            number->fraction = number->fraction * (power / number->scale) + (*text - '0');
            number->scale = power;
        }
    }
    return text;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool number_worth(struct number number, const struct family *family, int64_t unit, int64_t *worth)
{
    int64_t divisor = common_divisor(number.fraction, number.scale);
    int64_t scale = number.scale / divisor;
    if (number.too_fine || unit % scale != 0)
        return false;
    int64_t part = number.fraction / divisor * (unit / scale); /* less than one unit */
    *worth = number.whole > family->limit / unit ? family->limit + 1 : number.whole * unit + part;
    return true;
}

static const struct unit *unit_find(const struct family *family, const char *name)
{
    for (size_t i = 0; i < family->count; i++)
        if (strcmp(family->units[i].name, name) == 0)
            return &family->units[i];
    return NULL;
}

static bool quantity_parse(const struct family *family, const char *text, int64_t *out, struct error *error)
{
    if (text[0] == '-')
        return error_set(error, "\"%.40s\": a %s cannot be negative", text, family->noun);
    if (!is_digit(text[0]))
        return error_set(error, "\"%.40s\" is not a %s; write for example %s", text, family->noun, family->example);

    struct number number = {.scale = 1};
    const char *rest = whole_read(text, &number);
    if (rest[0] == '.' && is_digit(rest[1]))
        rest = fraction_read(rest + 1, &number);
    if (rest[0] == '\0' && number.whole == 0 && number.fraction == 0 && !number.too_fine) {
        *out = 0;
        return true;
    }
    if (rest[0] == '\0')
        return error_set(error, "\"%.40s\" has no unit; write for example %s", text, family->example);

    const struct unit *unit = unit_find(family, rest);
    if (unit == NULL)
        return error_set(error, "\"%.40s\": \"%.40s\" is not a unit of a %s; write for example %s", text, rest,
                         family->noun, family->example);
    int64_t worth;
    if (!number_worth(number, family, unit->worth, &worth))
        return error_set(error, "\"%.40s\" is not a whole number of %ss", text, family->smallest);
    if (number.too_large || worth > family->limit)
        return error_set(error, "\"%.40s\" is too large; a %s is at most %s", text, family->noun, family->largest);
    *out = worth;
    return true;
}

/* The largest unit that divides the value gives the shortest exact form. */
static const char *quantity_print(const struct family *family, int64_t value, char *out)
{
    const struct unit *unit = &family->units[0];
    for (size_t i = 1; i < family->count && value % family->units[i].worth == 0; i++)
        unit = &family->units[i];
    if (value == 0)
        snprintf(out, QUANTITY_TEXT_MAX, "0");
    else
        snprintf(out, QUANTITY_TEXT_MAX, "%" PRId64 "%s", value / unit->worth, unit->name);
    return out;
}

bool duration_parse(const char *text, int64_t *ns, struct error *error)
{
    return quantity_parse(&durations, text, ns, error);
}

bool size_parse(const char *text, int64_t *bytes, struct error *error)
{
    return quantity_parse(&sizes, text, bytes, error);
}

const char *duration_print(int64_t ns, char *out)
{
    return quantity_print(&durations, ns, out);
}

const char *size_print(int64_t bytes, char *out)
{
    return quantity_print(&sizes, bytes, out);
}

bool count_parse(const char *text, int64_t low, int64_t high, int64_t *count)
{
    int64_t number = 0;
    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number))
            return false;
    if (*text != '\0' || number < low || number > high)
        return false;
    *count = number;
    return true;
}

char *decimal_write(char *to, uint64_t number)
{
    char digits[DECIMAL_MAX];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(to, digits + first, sizeof digits - first);
    return to + (sizeof digits - first);
}
