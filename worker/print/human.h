/* Numbers, moments and sizes as people read them. Every function writes at most HUMAN_TEXT_MAX bytes to `out` and
 * returns it. Pure; any thread. */
#ifndef WORKER_HUMAN_H
#define WORKER_HUMAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

enum { HUMAN_TEXT_MAX = 48 };

const char *human_count(int64_t count, char out[HUMAN_TEXT_MAX]); /* 1,234,567 */
const char *human_size(int64_t bytes, char out[HUMAN_TEXT_MAX]);  /* 1.5 MiB */
const char *human_span(int64_t us, char out[HUMAN_TEXT_MAX]);     /* 250 ms, 3.2 s, 5m, 2h, 3d */
/* Three digits of what was measured, from seconds: 400 ns, 850 us, 5.30 ms, 1.25 s, 90.0 s, then as human_span. */
const char *human_time(double seconds, char out[HUMAN_TEXT_MAX]);
/* Three digits of a number or a rate that is not negative: 0.25, 7.30, 613, 12.4k, 3.10M. */
const char *human_rate(double rate, char out[HUMAN_TEXT_MAX]);
/* A share of 0 to 1 as percents: 0.3 %, 12 %, 99.95 %, 100 %; 100 is only for all. */
const char *human_share(double share, char out[HUMAN_TEXT_MAX]);
/* "3m ago", "in 5m", "now"; "-" for no moment at all (0). */
const char *human_moment(struct wall_time moment, struct wall_time now, char out[HUMAN_TEXT_MAX]);
/* 2026-11-21T18:05:06Z */
const char *human_date(struct wall_time moment, char out[HUMAN_TEXT_MAX]);
const char *human_plural(int64_t count); /* "" or "s" */

/* The other way round: points in time, as people write them on command lines: RFC 3339 with a zone
 * ("2026-11-21T18:00:00Z", "2026-11-21 19:00:00.5+01:00") or seconds since 1970 ("1795284000.5", ten digits or more).
 * Without a zone it would be a guess whose time is meant. */
bool moment_parse(const char *text, struct wall_time *moment, struct error *error) MUST_CHECK;

#endif
