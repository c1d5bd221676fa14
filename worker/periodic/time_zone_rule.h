/* The rule by which a time zone goes on behind the last change that its file lists: "CET-1CEST,M3.5.0,M10.5.0/3".
 * (The form is that of the variable TZ in POSIX, with hours from -167 to 167 as RFC 8536 allows.) Pure. */
#ifndef WORKER_TIME_ZONE_RULE_H
#define WORKER_TIME_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* When the clock is changed, each year. */
struct time_zone_change {
    enum { CHANGE_WEEKDAY_OF_MONTH, CHANGE_DAY_WITHOUT_LEAP, CHANGE_DAY } kind;
    unsigned month, week, weekday; /* "M3.5.0": the last Sunday in March */
    unsigned day;                  /* "J60": 1 to 365, 29 February does not count; "59": 0 to 365, it does */
    int32_t time;                  /* seconds after midnight of the clock before the change */
};

struct time_zone_rule {
    int32_t offset; /* seconds ahead of UTC */
    bool has_summer;
    int32_t summer_offset;
    struct time_zone_change to_summer, to_standard;
};

bool time_zone_rule_parse(const char *text, struct time_zone_rule *rule, struct error *error) MUST_CHECK;
/* When the change happens in that year: seconds of the clock that is changed. */
int64_t time_zone_change_in(const struct time_zone_change *change, int64_t year);

#endif
