/* The calendar (Gregorian, in both directions) without time zones: days are counted from 1970-01-01. Pure. */
#ifndef WORKER_CIVIL_H
#define WORKER_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

enum { CIVIL_DAY_S = 86400, CIVIL_HOUR_S = 3600, CIVIL_MINUTE_S = 60 };

struct civil_date {
    int64_t year;
    unsigned month, day; /* from 1 */
};

/* The day on which `seconds` lie, also before 1970. */
static inline int64_t civil_day_of(int64_t seconds)
{
    return seconds / CIVIL_DAY_S - (seconds % CIVIL_DAY_S < 0);
}

bool civil_year_is_leap(int64_t year);
unsigned civil_month_days(int64_t year, unsigned month);
int64_t civil_day(struct civil_date date);
struct civil_date civil_date(int64_t day);
unsigned civil_weekday(int64_t day); /* 0 = Sunday */

#endif
