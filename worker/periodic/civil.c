#include "worker/periodic/civil.h"

enum { DAYS_IN_400_YEARS = 146097, THURSDAY = 4, MONTHS = 12 };

bool civil_year_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

unsigned civil_month_days(int64_t year, unsigned month)
{
    static const unsigned char days[MONTHS] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && civil_year_is_leap(year) ? 1U : 0U);
}

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/* How many leap years there are from the year 1 to this one. */
static int64_t leap_years(int64_t year)
{
    return floor_divide(year, 4) - floor_divide(year, 100) + floor_divide(year, 400);
}

static int64_t first_day(int64_t year)
{
    return 365 * (year - 1970) + leap_years(year - 1) - leap_years(1969);
}

int64_t civil_day(struct civil_date date)
{
    int64_t day = first_day(date.year) + (int64_t)date.day - 1;
    for (unsigned month = 1; month < date.month; month++)
        day += civil_month_days(date.year, month);
    return day;
}

struct civil_date civil_date(int64_t day)
{
    int64_t year = 1970 + floor_divide(day * 400, DAYS_IN_400_YEARS); /* right, or one off */
    while (first_day(year) > day)
        year--;
    while (first_day(year + 1) <= day)
        year++;
    unsigned left = (unsigned)(day - first_day(year)), month = 1;
    while (left >= civil_month_days(year, month))
        left -= civil_month_days(year, month++);
    return (struct civil_date){.year = year, .month = month, .day = left + 1};
}

unsigned civil_weekday(int64_t day)
{
    int64_t since = day + THURSDAY;
    return (unsigned)(since - 7 * floor_divide(since, 7));
}
