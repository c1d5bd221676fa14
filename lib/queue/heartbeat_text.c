/* The JSON texts of a heartbeat. The union of what dashboards from 6.4 to 8.1 read: the queues as a list, as weights
 * and as a capsule; the threads here and (in heartbeat.c) as a field. Times that are whole seconds stay reals, because
 * an integer would be read as milliseconds; only run_at is whole seconds in all versions. Pure. */
#include "queue/heartbeat.h"

#include <string.h>

static void text_append(struct buffer *out, const char *text)
{
    envelope_append_string(out, text, strlen(text));
}

static void member_append(struct buffer *out, const char *name, const char *text)
{
    buffer_format(out, ",\"%s\":", name);
    text_append(out, text);
}

/* --- info ------------------------------------------------------------------------------------------------------ */

static bool is_named_before(const struct heartbeat_facts *facts, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(facts->queues[i].name, facts->queues[index].name) == 0)
            return true;
    return false;
}

static void queues_append(const struct heartbeat_facts *facts, struct buffer *out)
{
    const char *separator = "";
    for (size_t i = 0; i < facts->queue_count; i++) {
        if (is_named_before(facts, i))
            continue;
        buffer_append_text(out, separator);
        text_append(out, facts->queues[i].name);
        separator = ",";
    }
}

static void weights_append(const struct heartbeat_facts *facts, struct buffer *out)
{
    const char *separator = "{";
    for (size_t i = 0; i < facts->queue_count; i++) {
        if (is_named_before(facts, i))
            continue;
        buffer_append_text(out, separator);
        text_append(out, facts->queues[i].name);
        buffer_format(out, ":%u", facts->queues[i].weight);
        separator = ",";
    }
    buffer_append_text(out, separator[0] == '{' ? "{}" : "}");
}

static const char *mode_name(enum heartbeat_mode mode)
{
    static const char *const names[] = {
        [HEARTBEAT_STRICT] = "strict", [HEARTBEAT_WEIGHTED] = "weighted", [HEARTBEAT_RANDOM] = "random"};
    return names[mode];
}

void heartbeat_info_write(const struct heartbeat_facts *facts, const char *identity, struct buffer *out)
{
    buffer_append_text(out, "{\"hostname\":");
    text_append(out, facts->hostname);
    buffer_append_text(out, ",\"started_at\":");
    envelope_append_time(out, facts->started);
    buffer_format(out, ",\"pid\":%ld", facts->pid);
    member_append(out, "tag", facts->tag);
    buffer_format(out, ",\"concurrency\":%u,\"queues\":[", facts->concurrency);
    queues_append(facts, out);
    buffer_append_text(out, "],\"labels\":[");
    for (size_t i = 0; i < facts->label_count; i++) {
        buffer_append_text(out, i > 0 ? "," : "");
        text_append(out, facts->labels[i]);
    }
    buffer_append_text(out, "]");
    member_append(out, "identity", identity);
    buffer_append_text(out, ",\"weights\":[");
    weights_append(facts, out);
    buffer_append_text(out, "]");
    member_append(out, "version", facts->version);
    buffer_format(out, ",\"embedded\":false,\"capsules\":{\"default\":{\"concurrency\":%u,\"mode\":\"%s\",\"weights\":",
                  facts->concurrency, mode_name(facts->mode));
    weights_append(facts, out);
    buffer_append_text(out, "}}");
    if (facts->unreceived > 0)
        buffer_format(out, ",\"hf_unreceived\":%u", facts->unreceived);
    buffer_append_text(out, "}");
}

/* --- a running task -------------------------------------------------------------------------------------------- */

/* For a task that is too large even without its arguments. */
static void payload_shortest(const struct heartbeat_run *run, struct text_span args, struct buffer *out)
{
    buffer_append_text(out, "{\"class\":");
    text_append(out, run->envelope->class_name);
    member_append(out, "queue", run->queue);
    buffer_append_text(out, ",\"args\":");
    buffer_append(out, args.bytes, args.length);
    member_append(out, "jid", run->envelope->jid);
    buffer_append_text(out, "}");
}

static void payload_shorten(const struct heartbeat_run *run, size_t room, struct buffer *out)
{
    struct buffer args = {0};
    buffer_format(&args, "[\"(%zu bytes of arguments are not shown)\"]", run->envelope->args.length);
    struct text_span shown = text_span_of(&args);
    size_t others = run->envelope->text.length - run->envelope->args.length;
    if (others + shown.length <= room)
        envelope_rewrite(run->envelope, (struct envelope_change[]){{"args", shown}}, 1, out);
    else
        payload_shortest(run, shown, out);
    buffer_fini(&args);
}

/* All of them, or none if they exceed the budget. */
static void resources_append(const struct heartbeat_run *run, size_t *budget, struct buffer *out)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < run->resource_count; i++)
        bytes += strlen(run->resources[i]);
    if (bytes == 0 || bytes > *budget)
        return;
    *budget -= bytes;
    buffer_append_text(out, ",\"hf_resources\":");
    for (unsigned i = 0; i < run->resource_count; i++) {
        buffer_append_text(out, i == 0 ? "[" : ",");
        text_append(out, run->resources[i]);
    }
    buffer_append_text(out, "]");
}

void heartbeat_run_write(const struct heartbeat_run *run, size_t *budget, struct buffer *out)
{
    struct buffer short_payload = {0};
    struct text_span payload = run->envelope->text;
    size_t room = *budget < HEARTBEAT_TASK_BYTES ? *budget : HEARTBEAT_TASK_BYTES;
    if (payload.length > room) {
        payload_shorten(run, room, &short_payload);
        payload = (struct text_span){short_payload.bytes, short_payload.length};
    }
    *budget -= payload.length < *budget ? payload.length : *budget;
    buffer_append_text(out, "{\"queue\":");
    text_append(out, run->queue);
    buffer_append_text(out, ",\"payload\":");
    envelope_append_string(out, payload.bytes, payload.length);
    buffer_format(out, ",\"run_at\":%lld", (long long)(run->started.us / US_PER_S));
    if (run->fence != NULL && run->fence[0] != '\0')
        member_append(out, "hf_fence", run->fence);
    resources_append(run, budget, out);
    buffer_append_text(out, "}");
    buffer_fini(&short_payload);
}

/* --- durations ---------------------------------------------------------------------------------------------------- */

enum { BUCKETS = 26 };

void heartbeat_buckets_write(const struct histogram *histogram, struct buffer *out)
{
    static const int64_t bounds_ms[BUCKETS - 1] = {20,    30,    45,    65,     100,    150,    225,   335,   500,
                                                   750,   1100,  1700,  2500,   3800,   5750,   8500,  13000, 20000,
                                                   30000, 45000, 65000, 100000, 150000, 225000, 335000};
    int64_t bounds_us[BUCKETS - 1];
    uint64_t counts[BUCKETS] = {0};
    for (unsigned i = 0; i < BUCKETS - 1; i++)
        bounds_us[i] = bounds_ms[i] * 1000;
    histogram_spread(histogram, bounds_us, BUCKETS - 1, counts);
    for (unsigned i = 0; i < BUCKETS; i++)
        if (counts[i] > 0)
            buffer_format(out, "%u %llu ", i, (unsigned long long)counts[i]);
}
