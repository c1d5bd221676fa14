/* The plain answer in big words, plots, and tables with the details. It opens from the disk, follows light and dark,
 * and can be printed. */
#include "worker/dry_run/report/result.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/result_json.h"
#include "worker/print/json_writer.h"
#include "worker/print/page.h"

enum { SECONDS_MAX = 600, RESOURCES_MAX = 300 };

/* wait_p99 */
static bool is_percentile(const char *name)
{
    const char *end = strrchr(name, '_');
    return end != NULL && end[1] == 'p' && isdigit((unsigned char)end[2]);
}

/* Several seconds as one: percentiles are the worst of theirs, all else is their mean. */
static struct result_second seconds_merged(const struct result_second *seconds, size_t count)
{
    struct result_second merged;
    for (const struct json_row *field = result_second_rows; field->name != NULL; field++) {
        double sum = 0, most = 0;
        for (size_t i = 0; i < count; i++) {
            double value = *(const double *)((const char *)&seconds[i] + field->offset);
            sum += value;
            most = value > most ? value : most;
        }
        *(double *)((char *)&merged + field->offset) = is_percentile(field->name) ? most : sum / (double)count;
    }
    return merged;
}

/* The result as far as a page shows it. What it points to stays the result's, but for the seconds. */
static void bounded_make(const struct result *result, struct result *bounded)
{
    size_t each = (result->second_count + SECONDS_MAX - 1) / SECONDS_MAX;
    *bounded = *result;
    bounded->seconds = memory_zeroed(result->second_count + 1, sizeof *bounded->seconds);
    bounded->second_count = 0;
    for (size_t i = 0; i < result->second_count; i += each) {
        size_t left = result->second_count - i;
        bounded->seconds[bounded->second_count++] = seconds_merged(&result->seconds[i], left < each ? left : each);
    }
    if (result->resource_count > RESOURCES_MAX) {
        bounded->resource_count = RESOURCES_MAX;
        bounded->resources_left_out += result->resource_count - RESOURCES_MAX;
    }
}

/* The result in words that are made here, and the result. */
static void json_make(const struct result *result, struct buffer *out)
{
    static const char *const tones[] = {[RESULT_GOOD] = "good", [RESULT_FAIR] = "warn", [RESULT_BAD] = "bad"};
    struct json_writer json = {.out = out};
    struct buffer text = {0};
    json_open(&json, NULL, '{');
    json_text(&json, "tone", tones[result_tone(result)]);
    plan_about(&result->plan, &text);
    json_text(&json, "about", buffer_text(&text));
    buffer_clear(&text);
    plan_command(&result->plan, &text);
    json_text(&json, "command", buffer_text(&text));
    json_open(&json, "faults", '[');
    for (unsigned i = 0; i < result->fault_count; i++) {
        buffer_clear(&text);
        plan_fault_about(&result->faults[i].fault, &text);
        json_text(&json, NULL, buffer_text(&text));
    }
    json_close(&json, ']');
    buffer_clear(&text);
    result_json_write(result, &text);
    json_raw(&json, "result", text.bytes, text.length);
    json_close(&json, '}');
    buffer_fini(&text);
}

void result_page_write(const struct result *result, struct buffer *out)
{
    struct result bounded;
    struct buffer text = {0}, json = {0};
    bounded_make(result, &bounded);
    json_make(&bounded, &json);
    result_text_write(result, RESULT_TEXT_WIDTH, false, &text);
    buffer_append_text(&text, "\nTo do it again, with the same load:\n");
    plan_command(&result->plan, &text);
    page_write(
        &(struct page){
            .title = "Dry run", .text = buffer_text(&text), .json = buffer_text(&json), .script = "result_page.js"},
        out);
    free(bounded.seconds);
    buffer_fini(&text);
    buffer_fini(&json);
}
