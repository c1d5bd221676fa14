/* What a time zone's clock is ahead of UTC at any moment, past or future.
 *
 *     struct time_zone *zone = time_zone_open("Europe/Vienna", &error);
 *     struct time_zone_span span = time_zone_span(zone, seconds);       the local time is seconds + span.offset
 *     time_zone_close(zone);
 *
 * The zones are those of the system (package tzdata; in $TZDIR, else /usr/share/zoneinfo), read as they are when the
 * zone is opened; "UTC" needs no file. libc knows one zone a process, set through the environment, which no thread may
 * do while others run: hence a reader of our own. Seconds are those of struct wall_time, without leap seconds. A zone
 * is not changed after it was opened: any thread may ask. */
#ifndef WORKER_TIME_ZONE_H
#define WORKER_TIME_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct time_zone;

/* NULL with a reason: no such zone, or its file is not what tzfile(5) describes. */
struct time_zone *time_zone_open(const char *name, struct error *error) MUST_CHECK;
/* The same from the bytes of such a file. */
struct time_zone *time_zone_parse(const char *bytes, size_t length, struct error *error) MUST_CHECK;
void time_zone_close(struct time_zone *zone); /* NULL is fine */

#define TIME_ZONE_EVER_BEFORE INT64_MIN
#define TIME_ZONE_EVER_AFTER  INT64_MAX

/* A stretch of time with one offset: from <= seconds < until. The next one may have the same. */
struct time_zone_span {
    int64_t from, until;
    int32_t offset; /* seconds; positive = the clock is ahead of UTC */
};

struct time_zone_span time_zone_span(const struct time_zone *zone, int64_t seconds);

#endif
