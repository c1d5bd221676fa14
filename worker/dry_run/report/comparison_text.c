/* A comparison for people, and as JSON. Of resources and nodes the text shows what changed or may have; the JSON has
 * all. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/dry_run/report/comparison.h"
#include "worker/dry_run/report/sheet.h"

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

/* The interval of the change, relative to what was before. */
static void interval_cell(struct table *table, const struct comparison_row *row)
{
    double low = row->difference.low / row->before, high = row->difference.high / row->before;
    if (row->difference.is_known && row->unit != COMPARISON_COUNT && fabs(low) < 100 && fabs(high) < 100)
        table_cell(table, TABLE_DIM, "%+.1f to %+.1f %%", low * 100, high * 100);
    else
        table_cell(table, TABLE_DIM, "-");
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
    interval_cell(table, row);
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

static void answer_write(struct sheet *sheet, const struct comparison *comparison)
{
    size_t changed = verdicts_count(comparison, COMPARISON_CHANGED);
    size_t judged = comparison->row_count - verdicts_count(comparison, COMPARISON_UNKNOWN);
    if (judged == 0)
        sheet_text(sheet, TABLE_WARN, "", "There was too little in these runs to compare them.");
    else if (changed == 0)
        sheet_format(sheet, TABLE_GOOD, "", "Nothing changed by more than noise (%zu numbers were compared).", judged);
    else
        sheet_format(sheet, TABLE_WARN, "", "%zu of %zu numbers changed by more than noise.", changed, judged);
}

static void plan_write(struct sheet *sheet, const struct comparison *comparison)
{
    if (comparison->plan_count == 0)
        return;
    sheet_text(sheet, TABLE_WARN, "", "The plans differ, so some of it is expected to:");
    for (size_t i = 0; i < comparison->plan_count; i++)
        sheet_text(sheet, TABLE_PLAIN, "- ", comparison->plan[i]);
}

static void details_write(struct sheet *sheet, const struct comparison *comparison)
{
    struct table *table = table_create(columns);
    char before[HUMAN_TEXT_MAX], after[HUMAN_TEXT_MAX];
    for (int verdict = COMPARISON_CHANGED; verdict >= COMPARISON_MAYBE; verdict--)
        for (size_t i = comparison->run_row_count; i < comparison->row_count; i++)
            if (comparison->rows[i].verdict == (enum comparison_verdict)verdict)
                row_cells(table, &comparison->rows[i]);
    buffer_append(sheet->out, "\n", 1);
    if (table_rows(table) > 0)
        sheet_table(sheet, table, DETAIL_ROWS);
    else {
        sheet_text(sheet, TABLE_PLAIN, "", "No resource and no node differs by more than noise.");
        table_free(table);
    }
    if (comparison->resources_before + comparison->resources_after > 0)
        sheet_format(sheet, TABLE_PLAIN, "", "%s resources are in the first only, %s in the second.",
                     human_count((int64_t)comparison->resources_before, before),
                     human_count((int64_t)comparison->resources_after, after));
}

static const char method[] =
    "How noise is told: means by batch means, quantiles by binomial ranks with as many independent values as the batch "
    "means leave, rates and counts as Poisson, a share held as a sum of so many holds; differences by the intervals of "
    "both (Zou and Donner 2008), all numbers together at 5 % (Holm 1979). Another machine, or one that was busier, is "
    "no "
    "noise.";

void comparison_text_write(const struct comparison *comparison, unsigned width, bool has_colour, struct buffer *out)
{
    struct sheet sheet = {.width = width < 60 ? 60 : width, .has_colour = has_colour, .out = out};
    struct table *table = table_create(columns);
    answer_write(&sheet, comparison);
    plan_write(&sheet, comparison);
    for (size_t i = 0; i < comparison->run_row_count; i++)
        row_cells(table, &comparison->rows[i]);
    buffer_append(out, "\n", 1);
    sheet_table(&sheet, table, SIZE_MAX);
    details_write(&sheet, comparison);
    buffer_append(out, "\n", 1);
    sheet_text(&sheet, TABLE_DIM, "", method);
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
    json_text(json, "verdict", comparison_verdict_name(row->verdict));
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
