#include "worker/dry_run/report/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/dry_run/plan/plan_json.h"
#include "worker/dry_run/report/text_writer.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

enum { PLAN_TEXT_MAX = 160, PLAN_VALUE_MAX = 56 };

#define DEPTH_MAX 6

/* --- plans -------------------------------------------------------------------------------------------------------- */

static void plan_add(struct comparison *comparison, const char *text)
{
    comparison->plan = memory_resize(comparison->plan, comparison->plan_count + 1, sizeof *comparison->plan);
    comparison->plan[comparison->plan_count++] = memory_text(text);
}

static void value_text(const json_t *value, char out[PLAN_VALUE_MAX])
{
    char *text = value != NULL
                     ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6))
                     : NULL;
    size_t length = text != NULL ? strlen(text) : 0;
    snprintf(out, PLAN_VALUE_MAX, length >= PLAN_VALUE_MAX ? "%.50s..." : "%.55s", text != NULL ? text : "nothing");
    free(text);
}

static void plans_compare(struct comparison *comparison, const char *name, const json_t *before, const json_t *after,
                          unsigned depth);

static void members_compare(struct comparison *comparison, const char *name, json_t *before, json_t *after,
                            unsigned depth)
{
    const char *key;
    json_t *value;
    char inner[PLAN_TEXT_MAX];
    json_object_foreach(before, key, value)
    {
        snprintf(inner, sizeof inner, "%.80s%s%.60s", name, name[0] != '\0' ? "." : "", key);
        plans_compare(comparison, inner, value, json_object_get(after, key), depth + 1);
    }
    json_object_foreach(after, key, value)
    {
        snprintf(inner, sizeof inner, "%.80s%s%.60s", name, name[0] != '\0' ? "." : "", key);
        if (json_object_get(before, key) == NULL)
            plans_compare(comparison, inner, NULL, value, depth + 1);
    }
}

/* The id is of the run. */
static void plans_compare(struct comparison *comparison, const char *name, const json_t *before, const json_t *after,
                          unsigned depth)
{
    if (json_equal(before, after) || strcmp(name, "id") == 0)
        return;
    if (json_is_object(before) && json_is_object(after) && depth < DEPTH_MAX)
        members_compare(comparison, name, (json_t *)(uintptr_t)before, (json_t *)(uintptr_t)after, depth);
    else {
        char text[PLAN_TEXT_MAX + 64], old[PLAN_VALUE_MAX], new[PLAN_VALUE_MAX];
        value_text(before, old);
        value_text(after, new);
        snprintf(text, sizeof text, "%.60s: %s, then %s", name, old, new);
        plan_add(comparison, text);
    }
}

static json_t *plan_object(const struct dry_run_plan *plan)
{
    struct buffer text = {0};
    plan_json_write(&(struct json_writer){.out = &text}, NULL, plan);
    json_t *object = json_loadb(text.bytes, text.length, 0, NULL);
    buffer_fini(&text);
    return object;
}

static void plan_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    json_t *one = plan_object(&before->plan), *other = plan_object(&after->plan);
    plans_compare(comparison, "", one, other, 0);
    json_decref(one);
    json_decref(other);
    if (strcmp(before->version, after->version) != 0) {
        char text[PLAN_TEXT_MAX];
        snprintf(text, sizeof text, "version of holdfast: %.31s, then %.31s", before->version, after->version);
        plan_add(comparison, text);
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* What a row is about: of the run the name is empty. */
struct subject {
    const char *kind, *name, *what;
    enum comparison_unit unit;
};

static void row_add(struct comparison *comparison, struct subject subject, struct estimate before,
                    struct estimate after)
{
    size_t count = comparison->row_count++;
    if ((count & (count - 1)) == 0) /* grows by doubling */
        comparison->rows = memory_resize(comparison->rows, count > 0 ? 2 * count : 1, sizeof *comparison->rows);
    comparison->rows[count] = (struct comparison_row){.kind = subject.kind,
                                                      .name = memory_text(subject.name),
                                                      .what = subject.what,
                                                      .unit = subject.unit,
                                                      .before = before,
                                                      .after = after};
}

static void run_row(struct comparison *comparison, const char *what, enum comparison_unit unit, struct estimate before,
                    struct estimate after)
{
    row_add(comparison, (struct subject){"run", "", what, unit}, before, after);
}

/* Of seconds in which the load went on, warm-up left out. */
static double throughput_error(const struct result *result)
{
    struct batch_means means = {.batches = 0};
    double warm_up = (double)result->plan.warm_up_ns / (double)NS_PER_S,
           end = (double)result->plan.for_ns / (double)NS_PER_S;
    for (size_t i = 0; i < result->second_count; i++)
        if (result->seconds[i].at >= warm_up && result->seconds[i].at <= end)
            batch_means_add(&means, result->seconds[i].ended);
    return batch_means_error(&means);
}

static uint64_t count_of(double rate, double seconds)
{
    double count = rate * seconds;
    return count > 0 && count < 1e15 ? (uint64_t)llround(count) : 0;
}

/* The wider one of the interval of the seconds and of that of chance arrivals. */
static struct estimate throughput_of(const struct result *result)
{
    struct estimate rate = estimate_of_rate(count_of(result->throughput, result->measured_for), result->measured_for);
    double error = fmax(throughput_error(result), (rate.high - rate.low) / 2);
    return estimate_of_error(result->throughput, error);
}

static void spread_rows(struct comparison *comparison, const char *const what[3], const struct result_spread *before,
                        const struct result_spread *after)
{
    if (before->count == 0 && after->count == 0)
        return;
    run_row(comparison, what[0], COMPARISON_TIME, estimate_of_mean(before), estimate_of_mean(after));
    run_row(comparison, what[1], COMPARISON_TIME, estimate_of_quantile(before, 0.5), estimate_of_quantile(after, 0.5));
    run_row(comparison, what[2], COMPARISON_TIME, estimate_of_quantile(before, 0.99),
            estimate_of_quantile(after, 0.99));
}

/* What has no interval is printed without one. */
static struct estimate alone(double value)
{
    return estimate_of_error(value, 0);
}

static void count_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    const struct {
        const char *what;
        uint64_t before, after;
    } counts[] = {{"failed", before->failed, after->failed},
                  {"dead", before->dead, after->dead},
                  {"ended twice", before->twice, after->twice},
                  {"locks lost", before->lost, after->lost},
                  {"overlaps", before->overlaps, after->overlaps},
                  {"unfenced overlaps", before->overlaps_unfenced, after->overlaps_unfenced},
                  {"fence refusals", before->fence_refusals, after->fence_refusals}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].before + counts[i].after > 0)
            run_row(comparison, counts[i].what, COMPARISON_COUNT, alone((double)counts[i].before),
                    alone((double)counts[i].after));
}

static void run_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    static const char *const waits[] = {"mean wait", "p50 wait", "p99 wait"},
                             *const holds[] = {"mean hold", "p50 hold", "p99 hold"},
                             *const acquires[] = {"mean acquiring", "p50 acquiring", "p99 acquiring"};
    run_row(comparison, "throughput", COMPARISON_RATE, throughput_of(before), throughput_of(after));
    spread_rows(comparison, waits, &before->wait, &after->wait);
    spread_rows(comparison, holds, &before->hold, &after->hold);
    spread_rows(comparison, acquires, &before->acquire, &after->acquire);
    count_rows(comparison, before, after);
    run_row(comparison, "runners busy", COMPARISON_SHARE, alone(before->utilisation), alone(after->utilisation));
    run_row(comparison, "tries a hold", COMPARISON_RATE, alone(before->tries_per_hold), alone(after->tries_per_hold));
    run_row(comparison, "commands a hold", COMPARISON_RATE, alone(before->commands_per_hold),
            alone(after->commands_per_hold));
    comparison->run_row_count = comparison->row_count;
}

/* --- resources and nodes ------------------------------------------------------------------------------------------ */

static const struct result_resource *resource_find(const struct result *result, const char *name)
{
    for (size_t i = 0; i < result->resource_count; i++)
        if (strcmp(result->resources[i].name, name) == 0)
            return &result->resources[i];
    return NULL;
}

static struct estimate load_of(const struct result_resource *resource, const struct result *result)
{
    return estimate_of_rate(count_of(resource->load, result->measured_for), result->measured_for);
}

static struct estimate share_of(const struct result_resource *resource, const struct result *result)
{
    return estimate_of_share(resource->share_held, resource->throughput * result->measured_for,
                             resource->hold_second_moment, result->measured_for);
}

static void resource_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    size_t common = 0;
    for (size_t i = 0; i < before->resource_count; i++) {
        const struct result_resource *old = &before->resources[i], *new = resource_find(after, old->name);
        if (new == NULL)
            continue;
        row_add(comparison, (struct subject){"resource", old->name, "tasks/s", COMPARISON_RATE}, load_of(old, before),
                load_of(new, after));
        row_add(comparison, (struct subject){"resource", old->name, "held", COMPARISON_SHARE}, share_of(old, before),
                share_of(new, after));
        row_add(comparison, (struct subject){"resource", old->name, "mean wait", COMPARISON_TIME},
                estimate_of_error(old->wait_mean, old->wait_error), estimate_of_error(new->wait_mean, new->wait_error));
        common++;
    }
    comparison->resources_before = before->resource_count - common;
    comparison->resources_after = after->resource_count - common;
}

static const struct result_node *node_find(const struct result *result, const char *name)
{
    for (unsigned i = 0; i < result->node_count; i++)
        if (strcmp(result->nodes[i].name, name) == 0)
            return &result->nodes[i];
    return NULL;
}

static void node_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    for (unsigned i = 0; i < before->node_count; i++) {
        const struct result_node *old = &before->nodes[i], *new = node_find(after, old->name);
        if (new != NULL && old->errors + old->timeouts + new->errors + new->timeouts > 0)
            row_add(comparison, (struct subject){"node", old->name, "errors and no answers", COMPARISON_COUNT},
                    alone((double)(old->errors + old->timeouts)), alone((double)(new->errors + new->timeouts)));
    }
}

void comparison_make(const struct result *before, const struct result *after, struct comparison *comparison)
{
    *comparison = (struct comparison){.row_count = 0};
    plan_rows(comparison, before, after);
    run_rows(comparison, before, after);
    node_rows(comparison, before, after);
    resource_rows(comparison, before, after);
}

void comparison_fini(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->plan_count; i++)
        free(comparison->plan[i]);
    for (size_t i = 0; i < comparison->row_count; i++)
        free(comparison->rows[i].name);
    free(comparison->plan);
    free(comparison->rows);
    *comparison = (struct comparison){.row_count = 0};
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

/* The text has the resources with the greatest load in the first run, the JSON has all. */
enum { DETAIL_ROWS = 30 };

static const char *number_text(enum comparison_unit unit, double number, char out[HUMAN_TEXT_MAX])
{
    switch (unit) {
    case COMPARISON_TIME:
        return human_time(number, out);
    case COMPARISON_SHARE:
        return human_share(number, out);
    case COMPARISON_COUNT:
        return human_count(fabs(number) < 1e15 ? (int64_t)number : INT64_MAX, out);
    case COMPARISON_RATE:
        break;
    }
    return human_rate(number, out);
}

static void estimate_cells(struct table *table, enum comparison_unit unit, const struct estimate *estimate)
{
    char value[HUMAN_TEXT_MAX], low[HUMAN_TEXT_MAX], high[HUMAN_TEXT_MAX];
    table_cell(table, TABLE_PLAIN, "%s", number_text(unit, estimate->value, value));
    if (estimate->is_known)
        table_cell(table, TABLE_DIM, "%s to %s", number_text(unit, fmax(estimate->low, 0), low),
                   number_text(unit, estimate->high, high));
    else
        table_cell(table, TABLE_DIM, "-");
}

static void row_cells(struct table *table, const struct comparison_row *row)
{
    char quoted[LOG_QUOTE_MAX];
    if (row->name[0] != '\0')
        table_cell(table, TABLE_PLAIN, "%s %s: %s", row->kind, log_quote(row->name, quoted), row->what);
    else
        table_cell(table, TABLE_PLAIN, "%s", row->what);
    estimate_cells(table, row->unit, &row->before);
    estimate_cells(table, row->unit, &row->after);
}

static void rows_write(struct text_writer *writer, const struct comparison *comparison, size_t from, size_t until,
                       size_t most)
{
    struct table *table = table_create("WHAT:12|>BEFORE|>95 %|>AFTER|>95 %");
    for (size_t i = from; i < until; i++)
        row_cells(table, &comparison->rows[i]);
    buffer_append(writer->out, "\n", 1);
    writer_table(writer, table, most);
}

static void plan_write(struct text_writer *writer, const struct comparison *comparison)
{
    if (comparison->plan_count == 0)
        writer_text(writer, TABLE_PLAIN, "", "The plans are the same.");
    else
        writer_text(writer, TABLE_WARN, "", "The plans differ:");
    for (size_t i = 0; i < comparison->plan_count; i++)
        writer_text(writer, TABLE_PLAIN, "- ", comparison->plan[i]);
}

static const char method[] =
    "Beside each number stand the bounds between which it lies with 95 %: of means by batch means, of quantiles by "
    "binomial ranks with as many independent values as the batch means leave, of rates as of chance arrivals, of a "
    "share held as of a sum of so many holds. Two numbers whose bounds do not overlap differ by more than chance. "
    "Another machine, or one that was busier, is no chance.";

void comparison_text_write(const struct comparison *comparison, unsigned width, bool has_colour, struct buffer *out)
{
    struct text_writer writer = {.width = width < 60 ? 60 : width, .has_colour = has_colour, .out = out};
    char before[HUMAN_TEXT_MAX], after[HUMAN_TEXT_MAX];
    plan_write(&writer, comparison);
    rows_write(&writer, comparison, 0, comparison->run_row_count, SIZE_MAX);
    if (comparison->row_count > comparison->run_row_count)
        rows_write(&writer, comparison, comparison->run_row_count, comparison->row_count, DETAIL_ROWS);
    if (comparison->resources_before + comparison->resources_after > 0)
        writer_format(&writer, TABLE_PLAIN, "", "%s resources are in the first only, %s in the second.",
                      human_count((int64_t)comparison->resources_before, before),
                      human_count((int64_t)comparison->resources_after, after));
    buffer_append(out, "\n", 1);
    writer_text(&writer, TABLE_DIM, "", method);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void estimate_json(struct json_writer *json, const char *name, const struct estimate *estimate)
{
    json_open(json, name, '{');
    json_decimal(json, "value", estimate->value);
    if (estimate->is_known) {
        json_decimal(json, "low", estimate->low);
        json_decimal(json, "high", estimate->high);
    }
    json_close(json, '}');
}

static void row_json(struct json_writer *json, const struct comparison_row *row)
{
    static const char *const units[] = {[COMPARISON_TIME] = "seconds",
                                        [COMPARISON_RATE] = "a second",
                                        [COMPARISON_SHARE] = "share",
                                        [COMPARISON_COUNT] = "count"};
    json_open(json, NULL, '{');
    json_text(json, "kind", row->kind);
    json_text_or_nothing(json, "name", row->name);
    json_text(json, "what", row->what);
    json_text(json, "unit", units[row->unit]);
    estimate_json(json, "before", &row->before);
    estimate_json(json, "after", &row->after);
    json_close(json, '}');
}

void comparison_json_write(const struct comparison *comparison, struct buffer *out)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_open(&json, NULL, '{');
    json_text(&json, "format", "holdfast dry run comparison");
    json_number(&json, "format_version", 2);
    json_open(&json, "plans", '[');
    for (size_t i = 0; i < comparison->plan_count; i++)
        json_text(&json, NULL, comparison->plan[i]);
    json_close(&json, ']');
    json_open(&json, "rows", '[');
    for (size_t i = 0; i < comparison->row_count; i++)
        row_json(&json, &comparison->rows[i]);
    json_close(&json, ']');
    json_number(&json, "resources_of_the_first_only", (int64_t)comparison->resources_before);
    json_number(&json, "resources_of_the_second_only", (int64_t)comparison->resources_after);
    json_close(&json, '}');
    json_append_defused(out, text.bytes, text.length);
    buffer_fini(&text);
}
