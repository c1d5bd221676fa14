#include "worker/print/human.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const char *human_count(int64_t count, char out[HUMAN_TEXT_MAX])
{
    char digits[24];
    bool is_negative = count < 0;
    int length = snprintf(digits, sizeof digits, "%llu",
                          is_negative ? 0ULL - (unsigned long long)count : (unsigned long long)count);
    int used = 0;
    if (is_negative)
        out[used++] = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

const char *human_size(int64_t bytes, char out[HUMAN_TEXT_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    unsigned unit = 0;
    if (bytes < 1024) {
        snprintf(out, HUMAN_TEXT_MAX, "%lld B", (long long)bytes);
        return out;
    }
    for (; size >= 1024 && unit < 3; unit++)
        size /= 1024;
    snprintf(out, HUMAN_TEXT_MAX, "%.1f %s", size, units[unit]);
    return out;
}

const char *human_span(int64_t us, char out[HUMAN_TEXT_MAX])
{
    double seconds = (double)us / (double)US_PER_S;
    if (seconds < 0)
        seconds = 0;
    if (seconds < 1)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f ms", seconds * 1000);
    else if (seconds < 10)
        snprintf(out, HUMAN_TEXT_MAX, "%.1f s", seconds);
    else if (seconds < 120)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f s", seconds);
    else if (seconds < 120.0 * 60)
        snprintf(out, HUMAN_TEXT_MAX, "%.0fm", seconds / 60);
    else if (seconds < 48.0 * 3600)
        snprintf(out, HUMAN_TEXT_MAX, "%.0fh", seconds / 3600);
    else
        snprintf(out, HUMAN_TEXT_MAX, "%.0fd", seconds / 86400);
    return out;
}

/* Rounding may carry into a digit more: then one decimal less is the three digits. */
static int decimals_of(double number)
{
    return number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
}

/* "0" rather than "0.00". */
static void three_digits(double number, const char *unit, char out[HUMAN_TEXT_MAX])
{
    snprintf(out, HUMAN_TEXT_MAX, "%.*f%s", number > 0 ? decimals_of(number) : 0, number, unit);
}

const char *human_time(double seconds, char out[HUMAN_TEXT_MAX])
{
    if (!(seconds > 0))
        snprintf(out, HUMAN_TEXT_MAX, "0");
    else if (seconds < 0.9995e-6)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f ns", seconds * 1e9);
    else if (seconds < 0.9995e-3)
        snprintf(out, HUMAN_TEXT_MAX, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        three_digits(seconds * 1e3, " ms", out);
    else if (seconds < 120)
        three_digits(seconds, " s", out);
    else
        human_span(seconds < 1e12 ? (int64_t)(seconds * (double)US_PER_S) : INT64_MAX, out);
    return out;
}

const char *human_rate(double rate, char out[HUMAN_TEXT_MAX])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    unsigned unit = 0;
    for (; rate >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        rate /= 1000;
    three_digits(rate > 0 ? rate : 0, units[unit], out);
    return out;
}

const char *human_share(double share, char out[HUMAN_TEXT_MAX])
{
    double percents = share > 0 ? share * 100 : 0;
    bool is_near_an_end = (percents > 0 && percents < 9.95) || (percents >= 99 && percents < 99.95);
    if (percents >= 99.95 && percents < 100)
        snprintf(out, HUMAN_TEXT_MAX, percents < 99.995 ? "%.2f %%" : "99.99 %%", percents);
    else
        snprintf(out, HUMAN_TEXT_MAX, "%.*f %%", is_near_an_end ? 1 : 0, percents);
    return out;
}

const char *human_moment(struct wall_time moment, struct wall_time now, char out[HUMAN_TEXT_MAX])
{
    char span[HUMAN_TEXT_MAX - 8];
    char text[HUMAN_TEXT_MAX];
    int64_t since = now.us - moment.us;
    if (moment.us == 0)
        snprintf(out, HUMAN_TEXT_MAX, "-");
    else if (since > -US_PER_S && since < US_PER_S)
        snprintf(out, HUMAN_TEXT_MAX, "now");
    else {
        snprintf(span, sizeof span, "%s", human_span(since < 0 ? -since : since, text));
        snprintf(out, HUMAN_TEXT_MAX, since < 0 ? "in %s" : "%s ago", span);
    }
    return out;
}

const char *human_date(struct wall_time moment, char out[HUMAN_TEXT_MAX])
{
    time_t seconds = (time_t)(moment.us / US_PER_S);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(out, HUMAN_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, HUMAN_TEXT_MAX, "-");
    return out;
}

const char *human_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* --- moments on command lines ------------------------------------------------------------------------------------- */

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
