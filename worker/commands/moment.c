#include "worker/commands/moment.h"

#include <stddef.h>
#include <string.h>

/* What is shorter than this is hardly meant as seconds since 1970. */
#define EPOCH_LEAST_S INT64_C(1000000000)

struct cursor {
    const char *at;
    bool failed;
};

/* So many digits as a number between the bounds. */
static int64_t digits_take(struct cursor *cursor, unsigned count, int64_t low, int64_t high)
{
    int64_t value = 0;
    for (unsigned i = 0; i < count && !cursor->failed; i++, cursor->at++) {
        cursor->failed = *cursor->at < '0' || *cursor->at > '9';
        if (cursor->failed)
            return 0;
        value = value * 10 + (*cursor->at - '0');
    }
    cursor->failed = cursor->failed || value < low || value > high;
    return value;
}

static bool sign_take(struct cursor *cursor, const char *signs)
{
    for (const char *sign = signs; *sign != '\0' && !cursor->failed; sign++)
        if (*cursor->at == *sign) {
            cursor->at++;
            return true;
        }
    cursor->failed = true;
    return false;
}

/* Behind a point, if there is one: microseconds, what is finer is cut. */
static int64_t fraction_take(struct cursor *cursor)
{
    int64_t us = 0, unit = US_PER_S / 10;
    if (cursor->failed || *cursor->at != '.')
        return 0;
    cursor->at++;
    cursor->failed = *cursor->at < '0' || *cursor->at > '9';
    for (; *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++, unit /= 10)
        us += unit * (*cursor->at - '0');
    return us;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap);
}

/* Since 1970; the year counted from March, so that the leap day is its last. */
static int64_t days_since_epoch(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static int64_t zone_take(struct cursor *cursor)
{
    if (!cursor->failed && (*cursor->at == 'Z' || *cursor->at == 'z')) {
        cursor->at++;
        return 0;
    }
    bool is_west = *cursor->at == '-';
    sign_take(cursor, "+-");
    int64_t hours = digits_take(cursor, 2, 0, 23);
    sign_take(cursor, ":");
    int64_t seconds = hours * 3600 + digits_take(cursor, 2, 0, 59) * 60;
    return is_west ? -seconds : seconds;
}

static bool date_parse(const char *text, struct wall_time *moment)
{
    struct cursor cursor = {.at = text};
    int64_t year = digits_take(&cursor, 4, 1970, 9999);
    sign_take(&cursor, "-");
    int64_t month = digits_take(&cursor, 2, 1, 12);
    sign_take(&cursor, "-");
    int64_t day = digits_take(&cursor, 2, 1, cursor.failed ? 31 : days_of_month(year, month));
    sign_take(&cursor, "Tt ");
    int64_t seconds = digits_take(&cursor, 2, 0, 23) * 3600;
    sign_take(&cursor, ":");
    seconds += digits_take(&cursor, 2, 0, 59) * 60;
    sign_take(&cursor, ":");
    seconds += digits_take(&cursor, 2, 0, 60);
    int64_t us = fraction_take(&cursor);
    seconds -= zone_take(&cursor);
    if (cursor.failed || *cursor.at != '\0')
        return false;
    moment->us = (days_since_epoch(year, month, day) * 86400 + seconds) * US_PER_S + us;
    return true;
}

static bool epoch_parse(const char *text, struct wall_time *moment)
{
    struct cursor cursor = {.at = text};
    unsigned count = 0;
    while (text[count] >= '0' && text[count] <= '9' && count < 12)
        count++;
    int64_t seconds = digits_take(&cursor, count, EPOCH_LEAST_S, INT64_C(100000000000));
    int64_t us = fraction_take(&cursor);
    moment->us = seconds * US_PER_S + us;
    return !cursor.failed && *cursor.at == '\0';
}

bool moment_parse(const char *text, struct wall_time *moment, struct error *error)
{
    if (date_parse(text, moment) || epoch_parse(text, moment))
        return true;
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && digits < 10 && text[digits] == '\0')
        return error_set(error, "%s seconds since 1970 are hardly meant: such a number has ten digits or more", text);
    return error_set(error, "\"%.40s\" is no time like 2026-11-21T18:00:00Z or 1795284000 (seconds since 1970)", text);
}
