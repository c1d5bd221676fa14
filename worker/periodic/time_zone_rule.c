#include "worker/periodic/time_zone_rule.h"

#include <ctype.h>
#include <string.h>

#include "worker/periodic/civil.h"

enum { HOURS_MAX = 167, OFFSET_HOURS_MAX = 24, LAST_WEEK = 5, DEFAULT_TIME = 2 * CIVIL_HOUR_S };

/* --- reading: each moves `*at` behind what it read --------------------------------------------------------------- */

static bool take(const char **at, char wanted)
{
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

static bool number_read(const char **at, unsigned low, unsigned high, unsigned *number)
{
    unsigned value = 0, digits = 0;
    while (isdigit((unsigned char)**at) && digits < 4) {
        value = value * 10 + (unsigned)(**at - '0');
        (*at)++;
        digits++;
    }
    *number = value;
    return digits > 0 && value >= low && value <= high;
}

/* At least three letters, or anything in angle brackets. */
static bool name_skip(const char **at)
{
    const char *from = *at;
    if (take(at, '<')) {
        while (**at != '\0' && **at != '>')
            (*at)++;
        return take(at, '>');
    }
    while (isalpha((unsigned char)**at))
        (*at)++;
    return *at - from >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool time_read(const char **at, unsigned hours_max, int32_t *seconds)
{
    unsigned hours, minutes = 0, rest = 0;
    bool is_negative = take(at, '-');
    if (!is_negative)
        (void)take(at, '+');
    if (!number_read(at, 0, hours_max, &hours) || (take(at, ':') && !number_read(at, 0, 59, &minutes)) ||
        (take(at, ':') && !number_read(at, 0, 59, &rest)))
        return false;
    int32_t value = (int32_t)(hours * CIVIL_HOUR_S + minutes * CIVIL_MINUTE_S + rest);
    *seconds = is_negative ? -value : value;
    return true;
}

static bool day_read(const char **at, struct time_zone_change *change)
{
    if (take(at, 'M')) {
        change->kind = CHANGE_WEEKDAY_OF_MONTH;
        return number_read(at, 1, 12, &change->month) && take(at, '.') &&
               number_read(at, 1, LAST_WEEK, &change->week) && take(at, '.') && number_read(at, 0, 6, &change->weekday);
    }
    change->kind = take(at, 'J') ? CHANGE_DAY_WITHOUT_LEAP : CHANGE_DAY;
    return number_read(at, change->kind == CHANGE_DAY ? 0 : 1, 365, &change->day);
}

static bool change_read(const char **at, struct time_zone_change *change)
{
    *change = (struct time_zone_change){.time = DEFAULT_TIME};
    return take(at, ',') && day_read(at, change) && (!take(at, '/') || time_read(at, HOURS_MAX, &change->time));
}

/* Offsets are written the other way round: positive = behind UTC. */
static bool offset_read(const char **at, int32_t *offset)
{
    if (!time_read(at, OFFSET_HOURS_MAX, offset))
        return false;
    *offset = -*offset;
    return true;
}

static bool rule_read(const char **at, struct time_zone_rule *rule)
{
    *rule = (struct time_zone_rule){.has_summer = false};
    if (!name_skip(at) || !offset_read(at, &rule->offset))
        return false;
    if (**at == '\0')
        return true;
    rule->has_summer = true;
    rule->summer_offset = rule->offset + CIVIL_HOUR_S;
    return name_skip(at) && (**at == ',' || offset_read(at, &rule->summer_offset)) &&
           change_read(at, &rule->to_summer) && change_read(at, &rule->to_standard) && **at == '\0';
}

bool time_zone_rule_parse(const char *text, struct time_zone_rule *rule, struct error *error)
{
    const char *at = text;
    return rule_read(&at, rule) ||
           error_set(error, "its rule is wrong behind the first %zu bytes", (size_t)(at - text));
}

/* --- the day of a year ------------------------------------------------------------------------------------------ */

static int64_t weekday_of_month(const struct time_zone_change *change, int64_t year)
{
    int64_t first = civil_day((struct civil_date){.year = year, .month = change->month, .day = 1});
    unsigned until_weekday = (change->weekday + 7 - civil_weekday(first)) % 7;
    unsigned day = until_weekday + 7 * (change->week - 1);
    while (day >= civil_month_days(year, change->month)) /* the fifth one is the last one */
        day -= 7;
    return first + day;
}

static int64_t change_day(const struct time_zone_change *change, int64_t year)
{
    int64_t first = civil_day((struct civil_date){.year = year, .month = 1, .day = 1});
    enum { LAST_OF_FEBRUARY = 59 };
    switch (change->kind) {
    case CHANGE_WEEKDAY_OF_MONTH:
        return weekday_of_month(change, year);
    case CHANGE_DAY_WITHOUT_LEAP:
        return first + change->day - 1 + (change->day > LAST_OF_FEBRUARY && civil_year_is_leap(year));
    default:
        return first + change->day;
    }
}

int64_t time_zone_change_in(const struct time_zone_change *change, int64_t year)
{
    return change_day(change, year) * CIVIL_DAY_S + change->time;
}
