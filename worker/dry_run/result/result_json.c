#include "worker/dry_run/result/result_json.h"

#include "base/invariant.h"
#include "worker/print/json_writer.h"
#include "worker/dry_run/plan/plan_json.h"
#include "worker/dry_run/result/result_fields.h"

static void fields_write(struct json_writer *json, const struct result_field *fields, const char *owner);

static void histogram_write(struct json_writer *json, const struct histogram *histogram)
{
    if (histogram == NULL) {
        json_nothing(json, "histogram");
        return;
    }
    json_open(json, "histogram", '{');
    json_number(json, "sum_us", (int64_t)histogram->sum_us);
    json_number(json, "max_us", (int64_t)histogram->max_us);
    json_open(json, "counts", '[');
    for (size_t step = 0; step < HISTOGRAM_STEPS; step++) {
        if (histogram->counts[step] == 0)
            continue;
        json_open(json, NULL, '[');
        json_number(json, NULL, histogram_step_top(step));
        json_number(json, NULL, (int64_t)histogram->counts[step]);
        json_close(json, ']');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void struct_write(struct json_writer *json, const char *name, const struct result_field *fields,
                         const void *owner)
{
    json_open(json, name, '{');
    fields_write(json, fields, owner);
    json_close(json, '}');
}

static void spread_write(struct json_writer *json, const char *name, const struct result_spread *spread)
{
    json_open(json, name, '{');
    fields_write(json, result_spread_fields, (const char *)spread);
    histogram_write(json, spread->histogram);
    json_close(json, '}');
}

static void choice_write(struct json_writer *json, const struct result_field *field, int choice)
{
    int count = 0;
    while (field->choices[count] != NULL)
        count++;
    invariant(choice >= 0 && choice < count);
    json_text(json, field->name, field->choices[choice]);
}

static void field_write(struct json_writer *json, const struct result_field *field, const void *value)
{
    switch (field->kind) {
    case FIELD_REAL:
        json_decimal(json, field->name, *(const double *)value);
        break;
    case FIELD_COUNT:
        json_number(json, field->name, (int64_t) * (const uint64_t *)value);
        break;
    case FIELD_SIGNED:
        json_number(json, field->name, *(const int64_t *)value);
        break;
    case FIELD_NUMBER:
        json_number(json, field->name, *(const unsigned *)value);
        break;
    case FIELD_TRUTH:
        json_truth(json, field->name, *(const bool *)value);
        break;
    case FIELD_TEXT:
        json_bytes(json, field->name, value, strnlen(value, field->size));
        break;
    case FIELD_NAME:
        json_text(json, field->name, *(char *const *)value);
        break;
    case FIELD_CHOICE:
        choice_write(json, field, *(const int *)value);
        break;
    case FIELD_SPREAD:
        spread_write(json, field->name, value);
        break;
    case FIELD_EXPECTED:
        struct_write(json, field->name, result_expected_fields, value);
        break;
    }
}

static void fields_write(struct json_writer *json, const struct result_field *fields, const char *owner)
{
    for (; fields->name != NULL; fields++)
        field_write(json, fields, owner + fields->offset);
}

static void list_write(struct json_writer *json, const char *name, const struct result_field *fields, const void *first,
                       size_t size, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++)
        struct_write(json, NULL, fields, (const char *)first + i * size);
    json_close(json, ']');
}

#define LIST_WRITE(json, name, fields, list, count) list_write(json, name, fields, list, sizeof *(list), count)

static void lists_write(struct json_writer *json, const struct result *result)
{
    LIST_WRITE(json, "what_if", result_point_fields, result->points, result->point_count);
    LIST_WRITE(json, "faults", result_fault_fields, result->faults, result->fault_count);
    LIST_WRITE(json, "hosts", result_host_fields, result->hosts, result->host_count);
    LIST_WRITE(json, "nodes", result_node_fields, result->nodes, result->node_count);
    LIST_WRITE(json, "resources", result_resource_fields, result->resources, result->resource_count);
    LIST_WRITE(json, "seconds", result_second_fields, result->seconds, result->second_count);
}

static void plan_write(struct json_writer *json, const struct dry_run_plan *plan)
{
    struct buffer text = {0};
    plan_json_write(plan, &text);
    json_raw(json, "plan", text.bytes, text.length);
    buffer_fini(&text);
}

void result_json_write(const struct result *result, struct buffer *out)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_open(&json, NULL, '{');
    json_text(&json, "format", RESULT_FORMAT);
    json_number(&json, "format_version", RESULT_FORMAT_VERSION);
    fields_write(&json, result_fields, (const char *)result);
    json_open(&json, "advice", '[');
    for (unsigned i = 0; i < result->advice_count; i++)
        json_text(&json, NULL, result->advice[i]);
    json_close(&json, ']');
    lists_write(&json, result);
    plan_write(&json, &result->plan);
    json_close(&json, '}');
    json_append_defused(out, text.bytes, text.length);
    buffer_fini(&text);
}
