/* Three lines: a schedule, the second from which it is asked, and the rule of a time zone (the last line of its file,
 * "CET-1CEST,M3.5.0,M10.5.0/3"; none: UTC). What comes next and what came last agree. */
#include "tests/fuzz/fuzz.h"
#include "worker/periodic/cron.h"
#include "worker/periodic/periodic.h"

/* A file without transitions, as tzfile(5) describes it. NULL when the rule is none. */
static struct time_zone *zone_of(const char *rule)
{
    static const char head[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4";
    static const char body[] = "\0\0\0\0\0\0UTC";
    struct error error = ERROR_NONE;
    struct buffer file = {.bytes = NULL};
    for (int part = 0; part < 2; part++) {
        buffer_append(&file, head, 44);
        buffer_append(&file, body, sizeof body);
    }
    buffer_format(&file, "\n%s\n", rule);
    struct time_zone *zone = time_zone_parse(file.bytes, file.length, &error);
    buffer_fini(&file);
    return zone;
}

static void next_holds(const struct cron *cron, int64_t after, const struct time_zone *zone)
{
    int64_t next = cron_next(cron, after, zone);
    invariant(next > after);
    if (next == CRON_NEVER)
        return;
    invariant(cron_next(cron, next - 1, zone) == next && cron_next(cron, after + (next - after) / 2, zone) == next);
    invariant(cron_latest(cron, after, next, zone) == next);
    invariant(cron_latest(cron, after, next - 1, zone) == CRON_NEVER);
    /* What the clock leaves out happens at the first moment after it; all else when the clock shows it. */
    struct time_zone_span span = time_zone_span(zone, next);
    int64_t local = next + span.offset;
    invariant(next == span.from || local < 0 || (local % 60 == 0 && (cron->minutes >> (local / 60 % 60) & 1) == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cron cron;
    struct error error = ERROR_NONE;
    char *text = fuzz_line(&data, &size), *moment = fuzz_line(&data, &size), *rule = fuzz_line(&data, &size);
    int64_t after = strtoll(moment, NULL, 10);
    struct time_zone *zone = zone_of(rule);
    bool is_cron = cron_parse(text, &cron, &error);
    invariant(is_cron != error_is_set(&error));
    if (is_cron && zone != NULL && after >= 0 && after <= PERIODIC_LATEST_S)
        next_holds(&cron, after, zone);
    time_zone_close(zone);
    free(text);
    free(moment);
    free(rule);
    return 0;
}
