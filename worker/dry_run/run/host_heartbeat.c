#include "worker/dry_run/run/host_heartbeat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "worker/dry_run/plan/plan_json.h"

static const char *const state_names[] = {[RUN_GATHERS] = "gathers", [RUN_GOES_ON] = "goes on", [RUN_ENDS] = "ends"};

static void json_append(struct buffer *out, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    buffer_append_text(out, text);
    free(text);
    json_decref(object);
}

void host_heartbeat_write(struct buffer *out, const struct host_heartbeat *beat)
{
    json_append(out, json_pack("{s:i, s:i, s:i, s:I, s:I, s:b, s:I, s:I, s:b}", "processes", (int)beat->processes,
                               "threads", (int)beat->threads, "serving", (int)beat->serving, "clock_offset_ns",
                               (json_int_t)beat->clock.offset_ns, "clock_error_ns", (json_int_t)beat->clock.error_ns,
                               "clock_is_known", (int)beat->clock.is_known, "cpu_ns", (json_int_t)beat->cpu_ns,
                               "records_lost", (json_int_t)beat->records_lost, "has_ended", (int)beat->has_ended));
}

/* So far that sums and differences of two are numbers still. */
static bool is_time(json_int_t ns)
{
    return ns >= -INT64_MAX / 4 && ns <= INT64_MAX / 4;
}

bool host_heartbeat_read(struct text_span text, struct host_heartbeat *beat)
{
    json_t *object = json_loadb(text.bytes, text.length, 0, NULL);
    int processes, threads, serving, is_known, has_ended;
    json_int_t offset, error, cpu, lost;
    bool is_one =
        json_unpack(object, "{s:i, s:i, s:i, s:I, s:I, s:b, s:I, s:I, s:b}", "processes", &processes, "threads",
                    &threads, "serving", &serving, "clock_offset_ns", &offset, "clock_error_ns", &error,
                    "clock_is_known", &is_known, "cpu_ns", &cpu, "records_lost", &lost, "has_ended", &has_ended) == 0 &&
        processes > 0 && processes <= DRY_RUN_PROCESSES_MAX && threads > 0 && threads <= DRY_RUN_THREADS_MAX &&
        serving >= 0 && serving <= processes && is_time(offset) && is_time(error) && error >= 0;
    json_decref(object);
    if (!is_one)
        return false;
    memset(beat, 0, sizeof *beat); /* compared as bytes */
    beat->processes = (unsigned)processes;
    beat->threads = (unsigned)threads;
    beat->serving = (unsigned)serving;
    beat->clock.offset_ns = offset;
    beat->clock.error_ns = error;
    beat->clock.is_known = is_known;
    beat->cpu_ns = cpu;
    beat->records_lost = (uint64_t)lost;
    beat->has_ended = has_ended;
    return true;
}

void run_state_write(struct buffer *out, enum run_state state, const struct dry_run_plan *plan)
{
    json_append(out, json_pack("{s:s, s:o}", "state", state_names[state], "plan", plan_to_json(plan)));
}

const char *run_state_name(enum run_state state)
{
    return state_names[state];
}

bool run_state_named(struct text_span name, enum run_state *state)
{
    for (unsigned i = 0; i < sizeof state_names / sizeof state_names[0]; i++)
        if (strlen(state_names[i]) == name.length && memcmp(name.bytes, state_names[i], name.length) == 0) {
            *state = (enum run_state)i;
            return true;
        }
    return false;
}

static bool state_read(const json_t *object, enum run_state *state)
{
    const json_t *name = json_object_get(object, "state");
    return json_is_string(name) &&
           run_state_named((struct text_span){json_string_value(name), json_string_length(name)}, state);
}

bool run_state_read(struct text_span text, enum run_state *state, struct dry_run_plan *plan, struct error *error)
{
    json_t *object = json_loadb(text.bytes, text.length, 0, NULL);
    bool is_one = state_read(object, state);
    if (!is_one)
        error_set(error, "it is not the record of a dry run");
    else
        is_one = plan_from_json(json_object_get(object, "plan"), plan, error);
    json_decref(object);
    return is_one;
}

/* --- shipments ---------------------------------------------------------------------------------------------------- */

/* Before the records: the process in two bytes, their length in four, the lowest byte first. */
enum { HEAD_BYTES = 6 };

void shipment_add(struct buffer *out, unsigned process, const char *records, size_t length)
{
    unsigned char head[HEAD_BYTES] = {(unsigned char)process,        (unsigned char)(process >> 8),
                                      (unsigned char)length,         (unsigned char)(length >> 8),
                                      (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
    buffer_append(out, head, sizeof head);
    buffer_append(out, records, length);
}

bool shipment_next(struct text_span *shipment, unsigned *process, struct text_span *records)
{
    const unsigned char *head = (const unsigned char *)shipment->bytes;
    if (shipment->length < HEAD_BYTES)
        return false;
    size_t length = head[2] | (size_t)head[3] << 8 | (size_t)head[4] << 16 | (size_t)head[5] << 24;
    if (length > shipment->length - HEAD_BYTES)
        return false;
    *process = head[0] | (unsigned)head[1] << 8;
    *records = (struct text_span){shipment->bytes + HEAD_BYTES, length};
    shipment->bytes += HEAD_BYTES + length;
    shipment->length -= HEAD_BYTES + length;
    return true;
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

/* Two good clocks drift apart by less than 100 us a second: so fast an old reading loses its worth. */
#define DRIFT_PARTS 10000

int64_t node_clock_error(const struct node_clock *clock, struct instant now)
{
    return clock->error_ns + instant_since(clock->noted, now) / DRIFT_PARTS;
}

void node_clock_note(struct node_clock *clock, struct instant asked, struct instant answered, int64_t node_us)
{
    int64_t error_ns = instant_since(asked, answered) / 2;
    if (clock->is_known && node_clock_error(clock, answered) < error_ns)
        return;
    *clock = (struct node_clock){.is_known = true,
                                 .offset_ns = node_us * NS_PER_US - (asked.ns + error_ns),
                                 .error_ns = error_ns,
                                 .noted = answered};
}
