#include "worker/events/work_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "queue/envelope.h"

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

void report_write(const struct tally_total *total, const struct report_frame *frame, struct buffer *out)
{
    buffer_append_text(out, "{\"host\":");
    envelope_append_string(out, frame->host, strlen(frame->host));
    buffer_format(out, ",\"pid\":%ld,\"threads\":%u,\"seconds\":%.3f", frame->pid, frame->threads, frame->seconds);
    buffer_format(out, ",\"active_seconds\":%.3f,\"cpu_seconds\":%.3f",
                  seconds_since(total->first_claim, total->last_ending), frame->cpu_seconds);
    for (int ending = 0; ending < FLOW_ENDINGS; ending++)
        number_write(out, flow_ending_name((enum flow_ending)ending), total->endings[ending]);
    number_write(out, "runs", total->counts[TALLY_RUNS]);
    number_write(out, "claims", frame->claims);
    number_write(out, "claim_calls", frame->claim_calls);
    number_write(out, "rings", frame->rings);
    number_write(out, "promoted", frame->promoted);
    if (frame->locks != NULL)
        locks_write(out, frame->locks);
    number_write(out, "lock_waits", total->counts[TALLY_WAITED]);
    durations_write(out, "lock_wait", &total->times[TALLY_LOCK]);
    durations_write(out, "lock_hold", &total->times[TALLY_HOLD]);
    buffer_format(out, ",\"locks_held_seconds\":%.6f", (double)total->times[TALLY_HOLD].sum_us / (double)US_PER_S);
    durations_write(out, "run", &total->times[TALLY_RUN]);
    buffer_format(out, ",\"slowest_lock\":{\"wait_us\":%" PRId64 ",\"resource\":", total->slowest_lock_us);
    envelope_append_string(out, total->slowest_resource, strlen(total->slowest_resource));
    buffer_append_text(out, "}}\n");
}

void report_log(const struct tally_total *total, const struct report_frame *frame)
{
    const struct redlock_counters none = {0}, *locks = frame->locks != NULL ? frame->locks : &none;
    log_event(LOG_INFO, "worker_summary",
              "seconds=%.3f done=%" PRIu64 " failed=%" PRIu64 " dead=%" PRIu64 " parked=%" PRIu64 " given_back=%" PRIu64
              " lock_lost=%" PRIu64 " extensions=%" PRIu64 " lock_wait_p99_us=%" PRId64,
              frame->seconds, total->endings[FLOW_DONE], total->endings[FLOW_FAILED], total->endings[FLOW_DEAD],
              total->endings[FLOW_PARKED], total->endings[FLOW_GIVEN_BACK], total->endings[FLOW_LOCK_LOST],
              locks->extensions, histogram_quantile(&total->times[TALLY_LOCK], 0.99));
}
