/* Times that come again, written as in crontab(5): minute, hour, day of the month, month, day of the week.
 *
 *     struct cron cron;
 *     if (!cron_parse("0,30 8-18 * * mon-fri", &cron, &error)) ...
 *     int64_t tick = cron_next(&cron, after, zone);       strictly later than `after`
 *
 * A field is "*" or a list of numbers, ranges (8-18) and steps (0-59/15, with "*" for all: "*" "/15" in one word).
 * Months and weekdays also have names (jan, sun; capitals do not matter); Sunday is 0 and 7. @hourly, @daily (or
 * @midnight), @weekly, @monthly and @yearly (or @annually) stand for all five. When both the day of the month and the
 * day of the week are restricted (anything but a plain "*"), either is enough, as it always was in cron.
 *
 * The fields are read on the clock of a time zone, which leaves out an hour in spring and shows one twice in autumn:
 *   - with hours given, what lies in the time left out happens once, at the first moment after it, and what lies in
 *     the time shown twice happens once, the first time;
 *   - with every hour of the day ("*", 0-23), a tick is whenever the clock shows it: nothing is made up for, and there
 *     is no hour of silence.
 * Seconds are those of struct wall_time. Pure; any thread. */
#ifndef WORKER_CRON_H
#define WORKER_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "worker/periodic/time_zone.h"

/* Sets of bits; bit 0 of `days` and `months` is not used. */
struct cron {
    uint64_t minutes, hours, days, months, weekdays;
    bool every_hour;               /* in whatever spelling */
    bool every_day, every_weekday; /* the field is a plain "*" */
};

/* False with a reason that names the field and says what it may be; also for dates that do not exist (30 February). */
bool cron_parse(const char *text, struct cron *cron, struct error *error) MUST_CHECK;

#define CRON_NEVER INT64_MAX

/* CRON_NEVER when there is none within nine years, which takes a zone whose clock leaves it out each time. */
int64_t cron_next(const struct cron *cron, int64_t after, const struct time_zone *zone);
/* The latest tick in (after, until], CRON_NEVER if there is none. */
int64_t cron_latest(const struct cron *cron, int64_t after, int64_t until, const struct time_zone *zone);

#endif
