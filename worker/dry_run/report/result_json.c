/* A new member of a struct of a result is a new row here, and nothing else. */
#include "worker/dry_run/report/result_json.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/plan/plan_json.h"
#include "worker/print/json_writer.h"

#define RESULT_FORMAT "holdfast dry run"
/* Raised when a member changes its meaning or disappears. */
enum { RESULT_FORMAT_VERSION = 2 };

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Of STRUCT. */
#define ROW(json_name, its_kind, member, ...)                                                                          \
    {                                                                                                                  \
        json_name, its_kind, offsetof(STRUCT, member), __VA_ARGS__                                                     \
    }
#define SIZE(member)                     sizeof((STRUCT *)0)->member
#define NAMED(member, json_name)         ROW(json_name, JSON_ROW_KIND(((STRUCT *)0)->member), member, .size = 0)
#define PLAIN(member)                    NAMED(member, #member)
#define PLAINS(a, b, c, d)               PLAIN(a), PLAIN(b), PLAIN(c), PLAIN(d)
#define TEXT(member)                     ROW(#member, JSON_ROW_TEXT, member, .size = SIZE(member))
#define LATER_TEXT(member)               ROW(#member, JSON_ROW_TEXT, member, .size = SIZE(member), .is_optional = true)
#define CHOICE(member, json_name, names) ROW(json_name, JSON_ROW_CHOICE, member, .choices = (names))
#define OBJECT(member, its)              ROW(#member, JSON_ROW_OBJECT, member, .rows = (its))
#define LIST(list, number, json_name, its)                                                                             \
    ROW(json_name, JSON_ROW_LIST, list, .size = sizeof *((STRUCT *)0)->list, .count_offset = offsetof(STRUCT, number), \
        .most = sizeof((STRUCT *)0)->list / sizeof *((STRUCT *)0)->list, .rows = (its))
#define GROWN(list, number, its)                                                                                       \
    ROW(#list, JSON_ROW_GROWN, list, .size = sizeof *((STRUCT *)0)->list, .count_offset = offsetof(STRUCT, number),    \
        .rows = (its))
#define END                                                                                                            \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

static const char *const bottleneck_names[] = {[RESULT_NONE] = "none",
                                               [RESULT_RESOURCE] = "resource",
                                               [RESULT_RUNNERS] = "runners",
                                               [RESULT_WORKER_CPU] = "worker-cpu",
                                               [RESULT_QUEUE_NODE] = "queue-node",
                                               [RESULT_LOCK_NODES] = "lock-nodes",
                                               [RESULT_MACHINE] = "machine",
                                               [RESULT_LOAD] = "load",
                                               [RESULT_TROUBLE] = "trouble",
                                               [RESULT_UNKNOWN] = "unknown",
                                               NULL};

_Static_assert(sizeof(enum result_bottleneck) == sizeof(int) && sizeof(enum dry_run_fault_kind) == sizeof(int),
               "a choice is read and written as an int");

#define STRUCT struct result_spread
static const struct json_row spread_rows[] = {PLAINS(count, mean, mean_error, p50), PLAINS(p90, p99, p999, max),
                                              ROW("histogram", JSON_ROW_HISTOGRAM, histogram, .is_optional = true),
                                              END};
#undef STRUCT

#define STRUCT struct result_expected
static const struct json_row expected_rows[] = {NAMED(is_known, "known"), PLAIN(utilisation), PLAIN(wait),
                                                PLAIN(throughput), END};
#undef STRUCT

#define STRUCT struct result_second
const struct json_row result_second_rows[] = {PLAINS(at, pushed, ended, parked),
                                              PLAINS(handed_over, lost, wait_p50, wait_p99),
                                              PLAINS(hold_p50, hold_p99, acquire_p50, acquire_p99),
                                              PLAIN(extend_p99),
                                              PLAIN(waiting),
                                              PLAIN(busy),
                                              END};
#undef STRUCT

#define STRUCT struct result_resource
static const struct json_row resource_rows[] = {
    ROW("name", JSON_ROW_NAME, name, .size = 0),
    PLAINS(arrived, held, parks, hand_overs),
    PLAINS(lost, fence_refusals, overlaps, refusals),
    PLAINS(load, throughput, share_held, waiters),
    PLAINS(waiters_max, hold_mean, hold_second_moment, wait_mean),
    PLAINS(wait_p50, wait_p99, wait_error, changeover_mean),
    PLAINS(changeover_second_moment, lone_changeover_mean, lone_changeover_second_moment, lone_changeovers),
    PLAIN(changeovers),
    OBJECT(expected, expected_rows),
    END};
#undef STRUCT

#define STRUCT struct result_node
static const struct json_row node_rows[] = {TEXT(name),
                                            TEXT(address),
                                            NAMED(is_queue_node, "queue_node"),
                                            PLAINS(requests, granted, refused, errors),
                                            PLAIN(timeouts),
                                            PLAIN(split_votes),
                                            OBJECT(latency, spread_rows),
                                            PLAINS(commands_counted, commands_sent, cpu_share, keys_at_end),
                                            END};
#undef STRUCT

#define STRUCT struct result_host
static const struct json_row host_rows[] = {TEXT(id),
                                            TEXT(name),
                                            PLAINS(processes, threads, cpu_share, records_lost),
                                            PLAIN(processors),
                                            PLAIN(machine_busy),
                                            PLAIN(load_behind),
                                            END};
#undef STRUCT

#define STRUCT struct moments
static const struct json_row moments_rows[] = {PLAIN(count), PLAIN(sum), PLAIN(squares), END};
#undef STRUCT

#define STRUCT struct result_overheads
static const struct json_row overheads_rows[] = {PLAINS(arrivals, together, hold_extra, claim_extra),
                                                 PLAINS(park_cost, runner_changeover, next_push, tries),
                                                 OBJECT(base, moments_rows),
                                                 OBJECT(changeover, moments_rows),
                                                 OBJECT(crowd_changeover, moments_rows),
                                                 END};
#undef STRUCT

#define STRUCT struct result_fault
static const struct json_row fault_rows[] = {CHOICE(fault.kind, "kind", dry_run_fault_names),
                                             NAMED(fault.at_ns, "planned_at_ns"),
                                             NAMED(fault.lasts_ns, "lasts_ns"),
                                             NAMED(fault.amount_ns, "amount_ns"),
                                             NAMED(fault.at_worker, "at_worker"),
                                             NAMED(fault.number, "number"),
                                             TEXT(text),
                                             PLAIN(at),
                                             NAMED(was_done, "done"),
                                             END};
#undef STRUCT

#define STRUCT struct result_point
static const struct json_row point_rows[] = {PLAINS(threads, processes, throughput, wait_mean), PLAIN(wait_p99),
                                             PLAIN(share_busy), OBJECT(expected, expected_rows), END};
#undef STRUCT

static const struct json_row advice_rows[] = {{"", JSON_ROW_TEXT, .size = RESULT_TEXT_MAX}, END};

#define STRUCT struct result
const struct json_row result_rows[] = {TEXT(version),
                                       TEXT(began),
                                       PLAIN(began_us),
                                       PLAIN(measured_for),
                                       NAMED(was_interrupted, "interrupted"),
                                       NAMED(is_drained, "drained"),
                                       CHOICE(bottleneck, "bottleneck", bottleneck_names),
                                       PLAIN(headroom),
                                       TEXT(answer),
                                       PLAINS(pushed, ended, done, failed),
                                       PLAINS(dead, parked, skipped, dropped),
                                       PLAINS(given_back, lost, fence_refusals, overlaps),
                                       PLAINS(overlaps_unfenced, twice, left, throughput),
                                       PLAINS(tries_per_hold, commands_per_hold, utilisation, overhead_share),
                                       PLAIN(observation_ns),
                                       OBJECT(wait, spread_rows),
                                       OBJECT(hold, spread_rows),
                                       OBJECT(acquire, spread_rows),
                                       OBJECT(extend, spread_rows),
                                       OBJECT(expected, expected_rows),
                                       OBJECT(overheads, overheads_rows),
                                       TEXT(formula),
                                       TEXT(shadowed),
                                       LATER_TEXT(crashed_checks),
                                       PLAIN(resources_left_out),
                                       LIST(advice, advice_count, "advice", advice_rows),
                                       LIST(points, point_count, "what_if", point_rows),
                                       LIST(faults, fault_count, "faults", fault_rows),
                                       GROWN(hosts, host_count, host_rows),
                                       LIST(nodes, node_count, "nodes", node_rows),
                                       GROWN(resources, resource_count, resource_rows),
                                       GROWN(seconds, second_count, result_second_rows),
                                       END};
#undef STRUCT

void result_json_write(const struct result *result, struct buffer *out)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_open(&json, NULL, '{');
    json_text(&json, "format", RESULT_FORMAT);
    json_number(&json, "format_version", RESULT_FORMAT_VERSION);
    json_rows_write(&json, result_rows, result);
    plan_json_write(&json, "plan", &result->plan);
    json_close(&json, '}');
    json_append_defused(out, text.bytes, text.length);
    buffer_fini(&text);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool format_check(const json_t *object, struct error *error)
{
    const char *format = json_string_value(json_object_get(object, "format"));
    const json_t *version = json_object_get(object, "format_version");
    if (format == NULL || strcmp(format, RESULT_FORMAT) != 0)
        return error_set(error, "this is no result of a dry run: holdfast dry-run --json writes one");
    if (json_is_integer(version) && json_integer_value(version) > RESULT_FORMAT_VERSION)
        return error_set(error, "a later version of holdfast wrote it: read it with that one");
    return (json_is_integer(version) && json_integer_value(version) == RESULT_FORMAT_VERSION) ||
           error_set(error, "another version of holdfast wrote it, in a form that is no more read");
}

bool result_read(const char *bytes, size_t length, struct result *result, struct error *error)
{
    json_error_t place;
    *result = (struct result){0};
    json_t *object = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &place);
    if (object == NULL)
        return error_set(error, "this is no JSON, or not all of it (line %d, column %d)", place.line, place.column);
    bool is_good = format_check(object, error) && json_rows_read(object, result_rows, NULL, result, error) &&
                   plan_from_json(json_object_get(object, "plan"), &result->plan, error);
    json_decref(object);
    if (!is_good)
        result_fini(result);
    return is_good;
}

bool result_read_stream(FILE *file, struct result *result, struct error *error)
{
    enum { CHUNK = 65536 };
    struct buffer bytes = {0};
    *result = (struct result){0};
    for (size_t taken = 1; taken > 0 && bytes.length <= RESULT_FILE_MAX; bytes.length += taken)
        taken = fread(buffer_reserve(&bytes, CHUNK), 1, CHUNK, file);
    bool is_good = bytes.length > RESULT_FILE_MAX ? error_set(error, "it has more than %d bytes", RESULT_FILE_MAX)
                   : ferror(file)                 ? error_set(error, "%s", strerror(errno))
                                                  : result_read(bytes.bytes, bytes.length, result, error);
    buffer_fini(&bytes);
    return is_good;
}

bool result_read_file(const char *path, struct result *result, struct error *error)
{
    bool is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "re");
    *result = (struct result){0};
    if (file == NULL)
        return error_set(error, "%s: %s", path, strerror(errno));
    bool is_good = result_read_stream(file, result, error);
    if (!is_good)
        error_prefix(error, "%s", is_input ? "standard input" : path);
    if (!is_input)
        fclose(file);
    return is_good;
}
