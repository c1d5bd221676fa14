/* Parsing fields into sets of bits, and the search for the next tick.
 *
 * The search goes through the stretches of time in which the zone has one offset (time_zone_span): within one, local
 * time and UTC differ by a constant, so it is a search in the calendar. Where two stretches meet, the clock jumps:
 * `seen` is what it would have shown without the jump. Ahead of `seen` lies what is left out; behind it, what is shown
 * a second time. */
#include "worker/periodic/cron.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "worker/periodic/civil.h"

#define ALL_HOURS ((UINT64_C(1) << 24) - 1)

enum { FIELDS = 5, WORD_MAX = 256, LEAP_FEBRUARY = 29 };

/* 29 February comes again after eight years at most (1896 to 1904). */
#define HORIZON_S (INT64_C(9) * 366 * CIVIL_DAY_S)

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

enum field_number { MINUTE, HOUR, DAY, MONTH, WEEKDAY };

static const struct field {
    const char *name;
    unsigned low, high;
    const char *const *names; /* of the values from `low` on */
    const char *allowed;
} fields[FIELDS] = {
    [MINUTE] = {"the minute", 0, 59, NULL, "0 to 59"},
    [HOUR] = {"the hour", 0, 23, NULL, "0 to 23"},
    [DAY] = {"the day of the month", 1, 31, NULL, "1 to 31"},
    [MONTH] = {"the month", 1, 12, month_names, "1 to 12 or jan to dec"},
    [WEEKDAY] = {"the day of the week", 0, 7, weekday_names, "0 to 7 (0 and 7 are Sunday) or sun to sat"},
};

/* --- parsing ---------------------------------------------------------------------------------------------------- */

static bool field_error(const struct field *field, const char *item, const char *what, struct error *error)
{
    char quoted[LOG_QUOTE_MAX];
    return error_set(error, "%s: %s %s; allowed are %s, lists (1,2), ranges (1-5), steps (*/2, 1-9/2) and *",
                     field->name, log_quote(item, quoted), what, field->allowed);
}

/* A number, or a name if the field has names; moves `*at` behind it. */
static bool value_read(const struct field *field, const char **at, unsigned *value)
{
    for (unsigned i = 0; field->names != NULL && field->names[i] != NULL; i++) {
        if (strncasecmp(*at, field->names[i], 3) == 0 && !isalnum((unsigned char)(*at)[3])) {
            *at += 3;
            *value = field->low + i;
            return true;
        }
    }
    unsigned digits = 0;
    for (*value = 0; isdigit((unsigned char)**at) && digits < 4; digits++)
        *value = *value * 10 + (unsigned)(*(*at)++ - '0');
    return digits > 0;
}

static bool value_fits(const struct field *field, unsigned value)
{
    return value >= field->low && value <= field->high;
}

struct range {
    unsigned first, last, step;
    bool is_single;
};

/* "*", "3", "3-9", each with "/step" behind it but for the single number. */
static bool range_read(const struct field *field, const char *item, struct range *range, struct error *error)
{
    const char *at = item;
    *range = (struct range){.first = field->low, .last = field->high, .step = 1};
    if (*at == '*') {
        at++;
    } else {
        if (!value_read(field, &at, &range->first))
            return field_error(field, item, "is not understood", error);
        range->last = range->first;
        range->is_single = *at != '-';
        if (*at == '-' && (at++, !value_read(field, &at, &range->last)))
            return field_error(field, item, "is not understood", error);
    }
    if (*at == '/' && range->is_single)
        return field_error(field, item, "has a step without a range", error);
    if (*at == '/' && (at++, !isdigit((unsigned char)*at) || !value_read(field, &at, &range->step)))
        return field_error(field, item, "has no number for its step", error);
    return *at == '\0' || field_error(field, item, "is not understood", error);
}

static bool item_parse(enum field_number number, const char *item, uint64_t *set, struct error *error)
{
    const struct field *field = &fields[number];
    struct range range;
    if (!range_read(field, item, &range, error))
        return false;
    if (number == WEEKDAY && range.last == 0 && range.first > 0)
        range.last = 7; /* fri-sun */
    if (!value_fits(field, range.first) || !value_fits(field, range.last))
        return field_error(field, item, "is out of range", error);
    if (range.first > range.last)
        return field_error(field, item, "runs backwards", error);
    if (range.step < 1 || range.step > field->high)
        return field_error(field, item, "has a step that is out of range", error);
    for (unsigned value = range.first; value <= range.last; value += range.step)
        *set |= UINT64_C(1) << (number == WEEKDAY ? value % 7 : value);
    return true;
}

/* `text` is cut at its commas. */
static bool field_parse(enum field_number number, char *text, uint64_t *set, struct error *error)
{
    *set = 0;
    for (char *item = text, *comma; item != NULL; item = comma) {
        comma = strchr(item, ',');
        if (comma != NULL)
            *comma++ = '\0';
        if (!item_parse(number, item, set, error))
            return false;
    }
    return true;
}

/* All months of the set have fewer days than the first day of the set. */
static bool dates_exist(const struct cron *cron)
{
    for (unsigned month = 1; month <= 12; month++) {
        unsigned days = month == 2 ? LEAP_FEBRUARY : civil_month_days(1970, month);
        for (unsigned day = 1; day <= days; day++)
            if ((cron->months >> month & 1) != 0 && (cron->days >> day & 1) != 0)
                return true;
    }
    return false;
}

static const char *macro_fields(const char *text)
{
    static const char *const macros[][2] = {
        {"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
        {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},
    };
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++)
        if (strcasecmp(text, macros[i][0]) == 0)
            return macros[i][1];
    return text;
}

/* Cuts the text at its blanks; the number of words, FIELDS + 1 when there are more. */
static unsigned words_cut(char *text, char *words[FIELDS])
{
    static const char blanks[] = " \t";
    unsigned count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, blanks, &rest); word != NULL; word = strtok_r(NULL, blanks, &rest)) {
        if (count == FIELDS)
            return FIELDS + 1;
        words[count++] = word;
    }
    return count;
}

static bool fields_parse(char *words[FIELDS], struct cron *cron, struct error *error)
{
    uint64_t *const sets[FIELDS] = {&cron->minutes, &cron->hours, &cron->days, &cron->months, &cron->weekdays};
    *cron = (struct cron){.every_day = strcmp(words[DAY], "*") == 0, .every_weekday = strcmp(words[WEEKDAY], "*") == 0};
    for (unsigned i = 0; i < FIELDS; i++)
        if (!field_parse((enum field_number)i, words[i], sets[i], error))
            return false;
    cron->every_hour = cron->hours == ALL_HOURS;
    if (cron->every_weekday && !dates_exist(cron))
        return error_set(error, "there is no such date: the months that are named never have that day");
    return true;
}

bool cron_parse(const char *text, struct cron *cron, struct error *error)
{
    char copy[WORD_MAX], *words[FIELDS];
    const char *whole = macro_fields(text);
    if (whole[0] == '@')
        return error_set(error, "there is only @hourly, @daily, @weekly, @monthly and @yearly");
    if (strlen(whole) >= sizeof copy)
        return error_set(error, "it is longer than %d bytes", WORD_MAX - 1);
    memcpy(copy, whole, strlen(whole) + 1);
    unsigned count = words_cut(copy, words);
    if (count != FIELDS)
        return error_set(error, "%s fields than five: minute, hour, day of the month, month, day of the week",
                         count < FIELDS ? "fewer" : "more");
    return fields_parse(words, cron, error);
}

/* --- the calendar ----------------------------------------------------------------------------------------------- */

static bool has(uint64_t set, unsigned value)
{
    return (set >> value & 1) != 0;
}

static bool day_matches(const struct cron *cron, int64_t day)
{
    struct civil_date date = civil_date(day);
    if (!has(cron->months, date.month))
        return false;
    bool by_day = has(cron->days, date.day), by_weekday = has(cron->weekdays, civil_weekday(day));
    if (cron->every_day || cron->every_weekday)
        return by_day && by_weekday; /* a "*" holds every day */
    return by_day || by_weekday;
}

/* The first second of that day, not before `from` (in seconds of the day), at which a minute matches; -1 = none. */
static int64_t second_of_day(const struct cron *cron, int64_t from)
{
    unsigned first = (unsigned)((from + CIVIL_MINUTE_S - 1) / CIVIL_MINUTE_S);
    for (unsigned minute = first; minute < 24 * 60; minute++) {
        if (has(cron->hours, minute / 60) && has(cron->minutes, minute % 60))
            return (int64_t)minute * CIVIL_MINUTE_S;
    }
    return -1;
}

/* The first local time in [from, until) that matches. */
static int64_t local_first(const struct cron *cron, int64_t from, int64_t until)
{
    for (int64_t day = civil_day_of(from); day * CIVIL_DAY_S < until; day++) {
        if (!day_matches(cron, day))
            continue;
        int64_t start = day * CIVIL_DAY_S;
        int64_t second = second_of_day(cron, from > start ? from - start : 0);
        if (second >= 0)
            return start + second < until ? start + second : CRON_NEVER;
    }
    return CRON_NEVER;
}

/* --- ticks ------------------------------------------------------------------------------------------------------ */

/* The first tick in the span that is not before `begin`, which lies in it, and before `end`. */
static int64_t span_next(const struct cron *cron, const struct time_zone *zone, const struct time_zone_span *span,
                         int64_t begin, int64_t end)
{
    int64_t from = begin + span->offset;
    if (!cron->every_hour && span->from != TIME_ZONE_EVER_BEFORE) {
        int64_t seen = span->from + time_zone_span(zone, span->from - 1).offset;
        int64_t shown = span->from + span->offset;
        if (begin == span->from && local_first(cron, seen, shown) != CRON_NEVER)
            return span->from;
        if (from < seen)
            from = seen;
    }
    int64_t local = local_first(cron, from, end + span->offset);
    return local == CRON_NEVER ? CRON_NEVER : local - span->offset;
}

int64_t cron_next(const struct cron *cron, int64_t after, const struct time_zone *zone)
{
    int64_t begin = after + 1, horizon = after + HORIZON_S;
    while (begin < horizon) {
        struct time_zone_span span = time_zone_span(zone, begin);
        int64_t end = span.until < horizon ? span.until : horizon;
        int64_t tick = span_next(cron, zone, &span, begin, end);
        if (tick != CRON_NEVER)
            return tick;
        begin = end;
    }
    return CRON_NEVER;
}

/* Looks back over a minute, two, four, and so on until there is one, then goes forward from there. */
int64_t cron_latest(const struct cron *cron, int64_t after, int64_t until, const struct time_zone *zone)
{
    int64_t latest = CRON_NEVER, window = CIVIL_MINUTE_S, from = until;
    if (cron_next(cron, after, zone) > until)
        return CRON_NEVER;
    while (latest == CRON_NEVER && from > after) {
        from = until - after > window ? until - window : after;
        window *= 2;
        for (int64_t tick = cron_next(cron, from, zone); tick <= until; tick = cron_next(cron, tick, zone))
            latest = tick;
    }
    return latest;
}
