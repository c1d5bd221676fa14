/* Writes and reads by the tables of result_fields.h. When it reads, `struct place` is where it stands, for the text of
 * an error: "resources[3].name". The first thing that is wrong ends it. */
#include "worker/dry_run/report/result_json.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/dry_run/plan/plan_json.h"
#include "worker/dry_run/report/result_fields.h"
#include "worker/print/json_writer.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

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

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct place {
    const struct place *owner; /* NULL: the outermost object */
    const char *name;          /* of the member that is an object or a list */
    long index;                /* of its element; below 0: it is no list */
};

static bool refuse(const struct place *place, const char *member, const char *what, struct error *error)
{
    const struct place *places[8];
    char text[256] = "";
    size_t depth = 0, used = 0;
    for (; place != NULL && depth < sizeof places / sizeof places[0]; place = place->owner)
        places[depth++] = place;
    while (depth-- > 0 && used < sizeof text - 64)
        used += (size_t)snprintf(text + used, sizeof text - used, places[depth]->index >= 0 ? "%.40s[%ld]." : "%.40s.",
                                 places[depth]->name, places[depth]->index);
    return error_set(error, "%s%.60s %s", text, member, what);
}

/* --- reading: single values --------------------------------------------------------------------------------------- */

/* Null is what JSON has for a number without end; a result has none, so it is what is not known. */
static bool real_take(const json_t *value, double *real)
{
    *real = json_is_null(value) ? 0 : json_number_value(value);
    return (json_is_number(value) || json_is_null(value)) && isfinite(*real);
}

static bool whole_take(const json_t *value, int64_t low, int64_t high, int64_t *whole)
{
    *whole = json_integer_value(value);
    return json_is_integer(value) && *whole >= low && *whole <= high;
}

/* As much of it as there is room for, in whole characters: a byte that was none was written as one of three. */
static bool text_take(const json_t *value, char *out, size_t size)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (text == NULL)
        return false;
    if (length >= size)
        for (length = size - 1; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static bool choice_take(const json_t *value, const char *const *choices, int *choice)
{
    const char *text = json_string_value(value);
    for (*choice = 0; text != NULL && choices[*choice] != NULL; ++*choice)
        if (strcmp(choices[*choice], text) == 0)
            return true;
    *choice = 0;
    return false;
}

/* --- reading: histograms ------------------------------------------------------------------------------------------ */

/* [largest value, count], each larger than the one before, so that none is there twice. */
static bool step_take(const json_t *pair, int64_t *above, struct histogram *histogram)
{
    int64_t top, count;
    if (json_array_size(pair) != 2 || !whole_take(json_array_get(pair, 0), *above + 1, INT64_MAX, &top) ||
        !whole_take(json_array_get(pair, 1), 1, INT64_MAX - (int64_t)histogram->count, &count))
        return false;
    size_t step = histogram_step_of(top);
    if (histogram_step_top(step) != top)
        return false;
    histogram->counts[step] = (uint64_t)count;
    histogram->count += (uint64_t)count;
    *above = top;
    return true;
}

static bool histogram_read(const json_t *object, const struct place *place, struct histogram *histogram,
                           struct error *error)
{
    int64_t sum, max, above = -1;
    const json_t *counts = json_object_get(object, "counts");
    if (!whole_take(json_object_get(object, "sum_us"), 0, INT64_MAX, &sum) ||
        !whole_take(json_object_get(object, "max_us"), 0, histogram_step_top(HISTOGRAM_STEPS - 1), &max) ||
        !json_is_array(counts))
        return refuse(place, "histogram", "needs sum_us, max_us and counts", error);
    for (size_t i = 0; i < json_array_size(counts); i++)
        if (!step_take(json_array_get(counts, i), &above, histogram))
            return refuse(place, "histogram", "has counts that no histogram of ours has", error);
    histogram->sum_us = (uint64_t)sum;
    histogram->max_us = (uint64_t)max;
    return true;
}

/* --- reading: objects --------------------------------------------------------------------------------------------- */

static bool fields_read(const json_t *object, const struct place *place, const struct result_field *fields, char *owner,
                        struct error *error);

static bool spread_read(const json_t *object, const struct place *place, struct result_spread *spread,
                        struct error *error)
{
    if (!fields_read(object, place, result_spread_fields, (char *)spread, error))
        return false;
    const json_t *histogram = json_object_get(object, "histogram");
    if (histogram == NULL || json_is_null(histogram))
        return true;
    spread->histogram = memory_new(struct histogram);
    return histogram_read(histogram, place, spread->histogram, error);
}

static bool whole_read(const json_t *value, const struct result_field *field, void *into)
{
    int64_t whole, low = field->kind == FIELD_SIGNED ? INT64_MIN : 0;
    if (!whole_take(value, low, field->kind == FIELD_NUMBER ? UINT_MAX : INT64_MAX, &whole))
        return false;
    if (field->kind == FIELD_NUMBER)
        *(unsigned *)into = (unsigned)whole;
    else if (field->kind == FIELD_SIGNED)
        *(int64_t *)into = whole;
    else
        *(uint64_t *)into = (uint64_t)whole;
    return true;
}

static bool name_read(const json_t *value, char **into)
{
    if (json_is_string(value))
        *into = memory_text(json_string_value(value));
    return json_is_string(value);
}

static bool truth_read(const json_t *value, bool *into)
{
    *into = json_is_true(value);
    return json_is_boolean(value);
}

static bool field_read(const json_t *value, const struct place *place, const struct result_field *field, void *into,
                       struct error *error)
{
    struct place inner = {place, field->name, -1};
    switch (field->kind) {
    case FIELD_REAL:
        return real_take(value, into) || refuse(place, field->name, "is no number", error);
    case FIELD_COUNT:
    case FIELD_SIGNED:
    case FIELD_NUMBER:
        return whole_read(value, field, into) || refuse(place, field->name, "is no number that it can be", error);
    case FIELD_TRUTH:
        return truth_read(value, into) || refuse(place, field->name, "is neither true nor false", error);
    case FIELD_TEXT:
        return text_take(value, into, field->size) || refuse(place, field->name, "is no text", error);
    case FIELD_NAME:
        return name_read(value, into) || refuse(place, field->name, "is no text", error);
    case FIELD_CHOICE:
        return choice_take(value, field->choices, into) || refuse(place, field->name, "is none that is known", error);
    case FIELD_SPREAD:
        return spread_read(value, &inner, into, error);
    case FIELD_EXPECTED:
        return fields_read(value, &inner, result_expected_fields, into, error);
    }
    return false;
}

static bool fields_read(const json_t *object, const struct place *place, const struct result_field *fields, char *owner,
                        struct error *error)
{
    if (!json_is_object(object))
        return refuse(place, "", "is no object", error);
    for (; fields->name != NULL; fields++) {
        const json_t *value = json_object_get(object, fields->name);
        if (value == NULL && fields->came_later)
            continue;
        if (value == NULL)
            return refuse(place, fields->name, "is missing", error);
        if (!field_read(value, place, fields, owner + fields->offset, error))
            return false;
    }
    return true;
}

/* --- reading: lists ----------------------------------------------------------------------------------------------- */

static bool list_find(const json_t *object, const char *name, size_t most, const json_t **list, struct error *error)
{
    *list = json_object_get(object, name);
    if (!json_is_array(*list))
        return refuse(NULL, name, "is no list", error);
    return json_array_size(*list) <= most || refuse(NULL, name, "is too long", error);
}

/* `*count` grows with each element, so that what is there already is freed when one is wrong. */
static bool elements_read(const json_t *list, const char *name, const struct result_field *fields, char *first,
                          size_t size, size_t *count, struct error *error)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct place place = {NULL, name, (long)i};
        ++*count;
        if (!fields_read(json_array_get(list, i), &place, fields, first + i * size, error))
            return false;
    }
    return true;
}

/* A list that the struct has room for. */
static bool fixed_read(const json_t *object, const char *name, const struct result_field *fields, void *first,
                       size_t size, size_t most, unsigned *count, struct error *error)
{
    const json_t *list;
    size_t taken = 0;
    if (!list_find(object, name, most, &list, error))
        return false;
    bool is_good = elements_read(list, name, fields, first, size, &taken, error);
    *count = (unsigned)taken;
    return is_good;
}

/* A list of its own; what came in bytes bounds it. */
static bool grown_read(const json_t *object, const char *name, const struct result_field *fields, void **first,
                       size_t size, size_t *count, struct error *error)
{
    const json_t *list;
    if (!list_find(object, name, RESULT_FILE_MAX, &list, error))
        return false;
    size_t length = json_array_size(list);
    *first = length > 0 ? memory_zeroed(length, size) : NULL;
    return elements_read(list, name, fields, *first, size, count, error);
}

static bool advice_read(const json_t *object, struct result *result, struct error *error)
{
    const json_t *list;
    if (!list_find(object, "advice", RESULT_ADVICE_MAX, &list, error))
        return false;
    for (unsigned i = 0; i < json_array_size(list); i++)
        if (!text_take(json_array_get(list, i), result->advice[i], RESULT_TEXT_MAX))
            return refuse(NULL, "advice", "has something that is no text", error);
    result->advice_count = (unsigned)json_array_size(list);
    return true;
}

#define FIXED_READ(object, name, fields, list, count)                                                                  \
    fixed_read(object, name, fields, list, sizeof *(list), sizeof(list) / sizeof *(list), count, error)

static bool lists_read(const json_t *object, struct result *result, struct error *error)
{
    void *hosts = NULL, *resources = NULL, *seconds = NULL;
    size_t host_count = 0;
    bool is_good = advice_read(object, result, error) &&
                   FIXED_READ(object, "what_if", result_point_fields, result->points, &result->point_count) &&
                   FIXED_READ(object, "faults", result_fault_fields, result->faults, &result->fault_count) &&
                   FIXED_READ(object, "nodes", result_node_fields, result->nodes, &result->node_count) &&
                   grown_read(object, "hosts", result_host_fields, &hosts, sizeof *result->hosts, &host_count, error) &&
                   grown_read(object, "resources", result_resource_fields, &resources, sizeof *result->resources,
                              &result->resource_count, error) &&
                   grown_read(object, "seconds", result_second_fields, &seconds, sizeof *result->seconds,
                              &result->second_count, error);
    result->hosts = hosts;
    result->resources = resources;
    result->seconds = seconds;
    result->host_count = (unsigned)host_count;
    return is_good;
}

/* --- reading: the whole ------------------------------------------------------------------------------------------- */

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
    bool is_good = format_check(object, error) && fields_read(object, NULL, result_fields, (char *)result, error) &&
                   lists_read(object, result, error) &&
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
