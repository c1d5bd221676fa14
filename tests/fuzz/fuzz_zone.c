/* Any bytes as the file of a time zone. Every moment is in one span, and the spans follow each other. */
#include "tests/fuzz/fuzz.h"
#include "worker/periodic/time_zone.h"

enum { DAY_S = 24 * 3600 };

static void span_holds(const struct time_zone *zone, int64_t seconds)
{
    struct time_zone_span span = time_zone_span(zone, seconds);
    invariant(span.from <= seconds && seconds < span.until);
    invariant(span.offset > -8 * DAY_S && span.offset < 8 * DAY_S);
    if (span.from != TIME_ZONE_EVER_BEFORE) {
        struct time_zone_span first = time_zone_span(zone, span.from);
        invariant(first.from == span.from && first.until == span.until && first.offset == span.offset);
        invariant(time_zone_span(zone, span.from - 1).until == span.from);
    }
    if (span.until != TIME_ZONE_EVER_AFTER)
        invariant(time_zone_span(zone, span.until).from == span.until);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = ERROR_NONE;
    char *bytes = fuzz_copy(data, size);
    struct time_zone *zone = time_zone_parse(bytes, size, &error);
    invariant((zone == NULL) == error_is_set(&error));
    for (int64_t year = 1880; zone != NULL && year < 2500; year += 37)
        span_holds(zone, (year - 1970) * 365 * DAY_S + year * 7919);
    time_zone_close(zone);
    free(bytes);
    return 0;
}
