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

/* The runs as a whole get one half of it, resources and nodes the other. */
#define LEVEL       0.05
#define GROUP_LEVEL (LEVEL / 2)
#define DEPTH_MAX   6

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
    enum comparison_taste taste;
};

#define OF_RUN(what, unit, taste)                                                                                      \
    (struct subject)                                                                                                   \
    {                                                                                                                  \
        "run", "", what, COMPARISON_##unit, COMPARISON_##taste                                                         \
    }

static void row_add(struct comparison *comparison, struct subject subject, double before, double after,
                    struct difference difference)
{
    size_t count = comparison->row_count++;
    if ((count & (count - 1)) == 0) /* grows by doubling */
        comparison->rows = memory_resize(comparison->rows, count > 0 ? 2 * count : 1, sizeof *comparison->rows);
    comparison->rows[count] = (struct comparison_row){.kind = subject.kind,
                                                      .name = memory_text(subject.name),
                                                      .what = subject.what,
                                                      .unit = subject.unit,
                                                      .taste = subject.taste,
                                                      .before = before,
                                                      .after = after,
                                                      .difference = difference};
}

static void estimates_add(struct comparison *comparison, struct subject subject, struct estimate before,
                          struct estimate after)
{
    row_add(comparison, subject, before.value, after.value, difference_of(&before, &after));
}

static void counts_add(struct comparison *comparison, struct subject subject, uint64_t before, double before_s,
                       uint64_t after, double after_s)
{
    row_add(comparison, subject, (double)before, (double)after, difference_of_counts(before, before_s, after, after_s));
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

/* The wider one of the interval of the seconds and of that of chance arrivals. */
static struct estimate throughput_of(const struct result *result)
{
    double seconds = result->measured_for, count = result->throughput * seconds;
    struct estimate rate = estimate_of_rate(count > 0 && count < 1e15 ? (uint64_t)llround(count) : 0, seconds);
    double error = fmax(throughput_error(result), (rate.high - rate.low) / 2);
    return estimate_of_error(result->throughput, error);
}

static void spread_rows(struct comparison *comparison, const char *const what[3], const struct result_spread *before,
                        const struct result_spread *after)
{
    if (before->count == 0 && after->count == 0)
        return;
    estimates_add(comparison, OF_RUN(what[0], TIME, LESS_IS_BETTER), estimate_of_mean(before), estimate_of_mean(after));
    estimates_add(comparison, OF_RUN(what[1], TIME, LESS_IS_BETTER), estimate_of_quantile(before, 0.5),
                  estimate_of_quantile(after, 0.5));
    estimates_add(comparison, OF_RUN(what[2], TIME, LESS_IS_BETTER), estimate_of_quantile(before, 0.99),
                  estimate_of_quantile(after, 0.99));
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
            counts_add(comparison, OF_RUN(counts[i].what, COUNT, LESS_IS_BETTER), counts[i].before,
                       before->measured_for, counts[i].after, after->measured_for);
}

static void run_rows(struct comparison *comparison, const struct result *before, const struct result *after)
{
    static const char *const waits[] = {"mean wait", "p50 wait", "p99 wait"},
                             *const holds[] = {"mean hold", "p50 hold", "p99 hold"},
                             *const acquires[] = {"mean acquiring", "p50 acquiring", "p99 acquiring"};
    estimates_add(comparison, OF_RUN("throughput", RATE, MORE_IS_BETTER), throughput_of(before), throughput_of(after));
    spread_rows(comparison, waits, &before->wait, &after->wait);
    spread_rows(comparison, holds, &before->hold, &after->hold);
    spread_rows(comparison, acquires, &before->acquire, &after->acquire);
    count_rows(comparison, before, after);
    /* What has no interval is printed and not judged. */
    const struct difference unknown = {.chance = 1};
    row_add(comparison, OF_RUN("runners busy", SHARE, NEITHER), before->utilisation, after->utilisation, unknown);
    row_add(comparison, OF_RUN("tries a hold", RATE, NEITHER), before->tries_per_hold, after->tries_per_hold, unknown);
    row_add(comparison, OF_RUN("commands a hold", RATE, NEITHER), before->commands_per_hold, after->commands_per_hold,
            unknown);
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
    double count = resource->load * result->measured_for;
    return estimate_of_rate(count > 0 && count < 1e15 ? (uint64_t)llround(count) : 0, result->measured_for);
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
        const char *name = old->name;
        estimates_add(comparison, (struct subject){"resource", name, "tasks/s", COMPARISON_RATE, COMPARISON_NEITHER},
                      load_of(old, before), load_of(new, after));
        estimates_add(comparison,
                      (struct subject){"resource", name, "held", COMPARISON_SHARE, COMPARISON_LESS_IS_BETTER},
                      share_of(old, before), share_of(new, after));
        estimates_add(
            comparison, (struct subject){"resource", name, "mean wait", COMPARISON_TIME, COMPARISON_LESS_IS_BETTER},
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
        if (new == NULL || old->requests + new->requests == 0)
            continue;
        counts_add(
            comparison,
            (struct subject){"node", old->name, "errors and no answers", COMPARISON_COUNT, COMPARISON_LESS_IS_BETTER},
            old->errors + old->timeouts, before->measured_for, new->errors + new->timeouts, after->measured_for);
    }
}

/* --- the verdict -------------------------------------------------------------------------------------------------- */

static void rows_judge(struct comparison_row *rows, size_t count)
{
    double *chances = memory_zeroed(count + 1, sizeof *chances);
    bool *is_small = memory_zeroed(count + 1, sizeof *is_small);
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].difference.is_known)
            chances[known++] = rows[i].difference.chance;
    chances_judge(chances, known, GROUP_LEVEL, is_small);
    known = 0;
    for (size_t i = 0; i < count; i++) {
        const struct difference *difference = &rows[i].difference;
        if (difference->is_known)
            rows[i].verdict = is_small[known++]             ? COMPARISON_CHANGED
                              : difference->chance <= LEVEL ? COMPARISON_MAYBE
                                                            : COMPARISON_SAME;
    }
    free(chances);
    free(is_small);
}

void comparison_make(const struct result *before, const struct result *after, struct comparison *comparison)
{
    *comparison = (struct comparison){.row_count = 0};
    plan_rows(comparison, before, after);
    run_rows(comparison, before, after);
    resource_rows(comparison, before, after);
    node_rows(comparison, before, after);
    rows_judge(comparison->rows, comparison->run_row_count);
    rows_judge(comparison->rows + comparison->run_row_count, comparison->row_count - comparison->run_row_count);
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

static const char *verdict_name(enum comparison_verdict verdict)
{
    static const char *const names[] = {[COMPARISON_UNKNOWN] = "unknown",
                                        [COMPARISON_SAME] = "same",
                                        [COMPARISON_MAYBE] = "maybe",
                                        [COMPARISON_CHANGED] = "changed"};
    return names[verdict];
}

int comparison_judgement(const struct comparison_row *row)
{
    if (row->taste == COMPARISON_NEITHER || row->verdict != COMPARISON_CHANGED)
        return 0;
    return (row->after > row->before) == (row->taste == COMPARISON_MORE_IS_BETTER) ? 1 : -1;
}

enum { DETAIL_ROWS = 30 };

/* --- cells -------------------------------------------------------------------------------------------------------- */

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

/* "+12 %", or for what came from nothing "new". */
static void change_cell(struct table *table, enum table_style style, const struct comparison_row *row)
{
    double share = (row->after - row->before) / row->before;
    if (row->before == row->after)
        table_cell(table, TABLE_PLAIN, "0");
    else if (!isfinite(share) || fabs(share) >= 100)
        table_cell(table, style, "%s", row->before == 0 ? "new" : "x 100 or more");
    else
        table_cell(table, style, fabs(share) < 0.0995 ? "%+.1f %%" : "%+.0f %%", share * 100);
}

static enum table_style row_style(const struct comparison_row *row)
{
    int judgement = comparison_judgement(row);
    if (row->verdict == COMPARISON_CHANGED)
        return judgement > 0 ? TABLE_GOOD : judgement < 0 ? TABLE_BAD : TABLE_WARN;
    return row->verdict == COMPARISON_MAYBE ? TABLE_PLAIN : TABLE_DIM;
}

static const char *verdict_text(const struct comparison_row *row)
{
    static const char *const texts[] = {[COMPARISON_UNKNOWN] = "cannot be told",
                                        [COMPARISON_SAME] = "noise",
                                        [COMPARISON_MAYBE] = "perhaps noise",
                                        [COMPARISON_CHANGED] = "changed"};
    int judgement = comparison_judgement(row);
    return judgement > 0 ? "better" : judgement < 0 ? "worse" : texts[row->verdict];
}

static const char columns[] = "WHAT:12|>BEFORE|>AFTER|>CHANGE|>95 % INTERVAL:0,1|";

static void row_cells(struct table *table, const struct comparison_row *row)
{
    char before[HUMAN_TEXT_MAX], after[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    enum table_style style = row_style(row);
    if (row->name[0] != '\0')
        table_cell(table, TABLE_PLAIN, "%s %s: %s", row->kind, log_quote(row->name, quoted), row->what);
    else
        table_cell(table, TABLE_PLAIN, "%s", row->what);
    table_cell(table, TABLE_PLAIN, "%s", number_text(row->unit, row->before, before));
    table_cell(table, TABLE_PLAIN, "%s", number_text(row->unit, row->after, after));
    change_cell(table, style, row);
    /* The interval of the change, relative to what was before. */
    double low = row->difference.low / row->before, high = row->difference.high / row->before;
    if (row->difference.is_known && row->unit != COMPARISON_COUNT && fabs(low) < 100 && fabs(high) < 100)
        table_cell(table, TABLE_DIM, "%+.1f to %+.1f %%", low * 100, high * 100);
    else
        table_cell(table, TABLE_DIM, "-");
    table_cell(table, style, "%s", verdict_text(row));
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

static size_t verdicts_count(const struct comparison *comparison, enum comparison_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < comparison->row_count; i++)
        count += comparison->rows[i].verdict == verdict;
    return count;
}

static void answer_write(struct text_writer *writer, const struct comparison *comparison)
{
    size_t changed = verdicts_count(comparison, COMPARISON_CHANGED);
    size_t judged = comparison->row_count - verdicts_count(comparison, COMPARISON_UNKNOWN);
    if (judged == 0)
        writer_text(writer, TABLE_WARN, "", "There was too little in these runs to compare them.");
    else if (changed == 0)
        writer_format(writer, TABLE_GOOD, "", "Nothing changed by more than noise (%zu numbers were compared).",
                      judged);
    else
        writer_format(writer, TABLE_WARN, "", "%zu of %zu numbers changed by more than noise.", changed, judged);
}

static void plan_write(struct text_writer *writer, const struct comparison *comparison)
{
    if (comparison->plan_count == 0)
        return;
    writer_text(writer, TABLE_WARN, "", "The plans differ, so some of it is expected to:");
    for (size_t i = 0; i < comparison->plan_count; i++)
        writer_text(writer, TABLE_PLAIN, "- ", comparison->plan[i]);
}

static void details_write(struct text_writer *writer, const struct comparison *comparison)
{
    struct table *table = table_create(columns);
    char before[HUMAN_TEXT_MAX], after[HUMAN_TEXT_MAX];
    for (int verdict = COMPARISON_CHANGED; verdict >= COMPARISON_MAYBE; verdict--)
        for (size_t i = comparison->run_row_count; i < comparison->row_count; i++)
            if (comparison->rows[i].verdict == (enum comparison_verdict)verdict)
                row_cells(table, &comparison->rows[i]);
    buffer_append(writer->out, "\n", 1);
    if (table_rows(table) > 0)
        writer_table(writer, table, DETAIL_ROWS);
    else {
        writer_text(writer, TABLE_PLAIN, "", "No resource and no node differs by more than noise.");
        table_free(table);
    }
    if (comparison->resources_before + comparison->resources_after > 0)
        writer_format(writer, TABLE_PLAIN, "", "%s resources are in the first only, %s in the second.",
                      human_count((int64_t)comparison->resources_before, before),
                      human_count((int64_t)comparison->resources_after, after));
}

static const char method[] =
    "How noise is told: means by batch means, quantiles by binomial ranks with as many independent values as the batch "
    "means leave, rates and counts as Poisson, a share held as a sum of so many holds; differences by the intervals of "
    "both (Zou and Donner 2008), all numbers together at 5 % (Holm 1979). Another machine, or one that was busier, is "
    "no noise.";

void comparison_text_write(const struct comparison *comparison, unsigned width, bool has_colour, struct buffer *out)
{
    struct text_writer writer = {.width = width < 60 ? 60 : width, .has_colour = has_colour, .out = out};
    struct table *table = table_create(columns);
    answer_write(&writer, comparison);
    plan_write(&writer, comparison);
    for (size_t i = 0; i < comparison->run_row_count; i++)
        row_cells(table, &comparison->rows[i]);
    buffer_append(out, "\n", 1);
    writer_table(&writer, table, SIZE_MAX);
    details_write(&writer, comparison);
    buffer_append(out, "\n", 1);
    writer_text(&writer, TABLE_DIM, "", method);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void row_json(struct json_writer *json, const struct comparison_row *row)
{
    static const char *const units[] = {[COMPARISON_TIME] = "seconds",
                                        [COMPARISON_RATE] = "a second",
                                        [COMPARISON_SHARE] = "share",
                                        [COMPARISON_COUNT] = "count"};
    int judgement = comparison_judgement(row);
    json_open(json, NULL, '{');
    json_text(json, "kind", row->kind);
    json_text_or_nothing(json, "name", row->name);
    json_text(json, "what", row->what);
    json_text(json, "unit", units[row->unit]);
    json_decimal(json, "before", row->before);
    json_decimal(json, "after", row->after);
    if (row->difference.is_known) {
        json_decimal(json, "difference_low", row->difference.low);
        json_decimal(json, "difference_high", row->difference.high);
        json_decimal(json, "chance", row->difference.chance);
    }
    json_text(json, "verdict", verdict_name(row->verdict));
    json_text_or_nothing(json, "judgement", judgement > 0 ? "better" : judgement < 0 ? "worse" : "");
    json_close(json, '}');
}

void comparison_json_write(const struct comparison *comparison, struct buffer *out)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_open(&json, NULL, '{');
    json_text(&json, "format", "holdfast dry run comparison");
    json_number(&json, "format_version", 1);
    json_number(&json, "changed", (int64_t)verdicts_count(comparison, COMPARISON_CHANGED));
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
