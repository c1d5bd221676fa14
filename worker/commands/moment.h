/* Points in time, as people write them on command lines: RFC 3339 with a zone ("2026-11-21T18:00:00Z",
 * "2026-11-21 19:00:00.5+01:00") or seconds since 1970 ("1795284000.5", ten digits or more). Without a zone it would be
 * a guess whose time is meant. Pure. */
#ifndef WORKER_MOMENT_H
#define WORKER_MOMENT_H

#include "base/clock.h"
#include "base/error.h"

bool moment_parse(const char *text, struct wall_time *moment, struct error *error) MUST_CHECK;

#endif
