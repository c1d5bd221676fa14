#include "worker/dry_run/run/host_heartbeat.h"

#include <string.h>

#include "worker/dry_run/plan/plan_json.h"
#include "worker/print/version.h"

static const char *const state_names[] = {
    [RUN_GATHERS] = "gathers", [RUN_GOES_ON] = "goes on", [RUN_ENDS] = "ends", NULL};

#define ROW(json_name, kind, member, ...)                                                                              \
    {                                                                                                                  \
        json_name, JSON_ROW_##kind, offsetof(struct host_heartbeat, member), __VA_ARGS__                               \
    }
static const struct json_row heartbeat_rows[] = {
    ROW("processes", NUMBER, processes, .low = 1, .high = DRY_RUN_PROCESSES_MAX),
    ROW("threads", NUMBER, threads, .low = 1, .high = DRY_RUN_THREADS_MAX),
    ROW("serving", NUMBER, serving, .low = 0, .high = DRY_RUN_PROCESSES_MAX),
    ROW("clock_offset_ns", SIGNED, clock.offset_ns, .size = 0),
    ROW("clock_error_ns", SIGNED, clock.error_ns, .size = 0),
    ROW("clock_is_known", TRUTH, clock.is_known, .size = 0),
    ROW("records_lost", COUNT, records_lost, .size = 0),
    ROW("has_ended", TRUTH, has_ended, .size = 0),
    {.name = NULL}};

void host_heartbeat_write(struct buffer *out, const struct host_heartbeat *beat)
{
    struct json_writer json = json_begin(out);
    json_rows_write(&json, heartbeat_rows, beat);
    json_close(&json, '}');
}

/* So far that sums and differences of two are numbers still. */
static bool is_time(int64_t ns)
{
    return ns >= -INT64_MAX / 4 && ns <= INT64_MAX / 4;
}

bool host_heartbeat_read(struct text_span text, struct host_heartbeat *beat)
{
    struct error error = ERROR_NONE;
    json_t *object = json_loadb(text.bytes, text.length, 0, NULL);
    memset(beat, 0, sizeof *beat); /* compared as bytes */
    bool is_one = json_rows_read(object, heartbeat_rows, NULL, beat, &error);
    json_decref(object);
    return is_one && beat->serving <= beat->processes && is_time(beat->clock.offset_ns) &&
           is_time(beat->clock.error_ns) && beat->clock.error_ns >= 0;
}

void run_state_write(struct buffer *out, enum run_state state, const struct dry_run_plan *plan)
{
    struct json_writer json = json_begin(out);
    json_text(&json, "state", state_names[state]);
    json_text(&json, "version", HOLDFAST_VERSION);
    plan_json_write(&json, "plan", plan);
    json_close(&json, '}');
}

const char *run_state_name(enum run_state state)
{
    return state_names[state];
}

bool run_state_named(struct text_span name, enum run_state *state)
{
    for (unsigned i = 0; state_names[i] != NULL; i++)
        if (strlen(state_names[i]) == name.length && memcmp(name.bytes, state_names[i], name.length) == 0) {
            *state = (enum run_state)i;
            return true;
        }
    return false;
}

bool run_state_read(struct text_span text, enum run_state *state, struct dry_run_plan *plan, struct error *error)
{
    json_t *object = json_loadb(text.bytes, text.length, 0, NULL);
    const char *version = json_string_value(json_object_get(object, "version"));
    int chosen = 0;
    bool is_one = json_choice_read(json_object_get(object, "state"), state_names, &chosen);
    *state = (enum run_state)chosen;
    if (!is_one)
        error_set(error, "it is not the record of a dry run");
    else if (version == NULL || strcmp(version, HOLDFAST_VERSION) != 0)
        is_one = error_set(error, "the host that leads it runs holdfast %.31s, and this is " HOLDFAST_VERSION,
                           version != NULL ? version : "of an earlier version");
    else
        is_one = plan_from_json(json_object_get(object, "plan"), plan, error);
    json_decref(object);
    return is_one;
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
