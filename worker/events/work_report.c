#include "worker/events/work_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "queue/envelope.h"

void report_lock_wait(struct report *report, int64_t wait_us, bool had_to_wait, const char *resource)
{
    histogram_record(&report->lock_wait, wait_us);
    report->lock_waits += had_to_wait;
    if (wait_us <= report->slowest_wait_us)
        return;
    report->slowest_wait_us = wait_us;
    snprintf(report->slowest_resource, sizeof report->slowest_resource, "%s", resource);
}

void report_lock_hold(struct report *report, int64_t held_ns)
{
    histogram_record(&report->hold, held_ns / NS_PER_US);
    report->held_ns += held_ns;
}

static double seconds_since(struct instant start, struct instant now)
{
    return (double)instant_since(start, now) / (double)NS_PER_S;
}

static void number_write(struct buffer *out, const char *name, uint64_t value)
{
    buffer_format(out, ",\"%s\":%" PRIu64, name, value);
}

static void durations_write(struct buffer *out, const char *name, const struct histogram *histogram)
{
    buffer_format(
        out, ",\"%s\":{\"count\":%" PRIu64 ",\"p50_us\":%" PRId64 ",\"p99_us\":%" PRId64 ",\"max_us\":%" PRIu64 "}",
        name, histogram->count, histogram_quantile(histogram, 0.50), histogram_quantile(histogram, 0.99),
        histogram->max_us);
}

static void locks_write(struct buffer *out, const struct redlock_counters *locks)
{
    number_write(out, "locks_acquired", locks->acquired);
    number_write(out, "locks_handed_over", locks->handed_over);
    number_write(out, "locks_busy", locks->busy);
    number_write(out, "locks_split", locks->split);
    number_write(out, "locks_no_quorum", locks->no_quorum);
    number_write(out, "lock_passes", locks->attempts);
    number_write(out, "extensions", locks->extensions);
    number_write(out, "locks_in_danger", locks->dangers);
    number_write(out, "locks_lost", locks->lost);
    number_write(out, "releases_owed", locks->owed);
}

void report_write(const struct report *report, const struct report_frame *frame, struct instant now, struct buffer *out)
{
    buffer_append_text(out, "{\"host\":");
    envelope_append_string(out, frame->host, strlen(frame->host));
    buffer_format(out, ",\"pid\":%ld,\"threads\":%u,\"seconds\":%.3f", frame->pid, frame->threads,
                  seconds_since(report->started, now));
    buffer_format(out, ",\"active_seconds\":%.3f,\"cpu_seconds\":%.3f",
                  seconds_since(report->first_claim, report->last_ending), frame->cpu_seconds);
    for (int ending = 0; ending < FLOW_ENDINGS; ending++)
        number_write(out, flow_ending_name((enum flow_ending)ending), report->endings[ending]);
    number_write(out, "runs", report->runs);
    number_write(out, "claims", frame->claims);
    number_write(out, "claim_calls", frame->claim_calls);
    number_write(out, "rings", frame->rings);
    number_write(out, "promoted", frame->promoted);
    if (frame->locks != NULL)
        locks_write(out, frame->locks);
    number_write(out, "lock_waits", report->lock_waits);
    durations_write(out, "lock_wait", &report->lock_wait);
    durations_write(out, "lock_hold", &report->hold);
    buffer_format(out, ",\"locks_held_seconds\":%.6f", (double)report->held_ns / (double)NS_PER_S);
    durations_write(out, "run", &report->run);
    buffer_format(out, ",\"slowest_lock\":{\"wait_us\":%" PRId64 ",\"resource\":", report->slowest_wait_us);
    envelope_append_string(out, report->slowest_resource, strlen(report->slowest_resource));
    buffer_append_text(out, "}}\n");
}

void report_log(const struct report *report, const struct report_frame *frame, struct instant now)
{
    const struct redlock_counters none = {0}, *locks = frame->locks != NULL ? frame->locks : &none;
    log_event(LOG_INFO, "worker_summary",
              "seconds=%.3f done=%" PRIu64 " failed=%" PRIu64 " dead=%" PRIu64 " parked=%" PRIu64 " given_back=%" PRIu64
              " lock_lost=%" PRIu64 " extensions=%" PRIu64 " lock_wait_p99_us=%" PRId64,
              seconds_since(report->started, now), report->endings[FLOW_DONE], report->endings[FLOW_FAILED],
              report->endings[FLOW_DEAD], report->endings[FLOW_PARKED], report->endings[FLOW_GIVEN_BACK],
              report->endings[FLOW_LOCK_LOST], locks->extensions, histogram_quantile(&report->lock_wait, 0.99));
}
