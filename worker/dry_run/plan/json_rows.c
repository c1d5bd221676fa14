#include "worker/dry_run/plan/json_rows.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Pairs of the largest value in microseconds and how many, without those that are 0. */
static void histogram_write(struct json_writer *json, const char *name, const struct histogram *histogram)
{
    if (histogram == NULL) {
        json_nothing(json, name);
        return;
    }
    json_open(json, name, '{');
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

static void object_write(struct json_writer *json, const char *name, const struct json_row *rows, const void *owner)
{
    json_open(json, name, '{');
    json_rows_write(json, rows, owner);
    json_close(json, '}');
}

static void value_write(struct json_writer *json, const char *name, const struct json_row *row, const char *owner);

static bool is_value(const struct json_row *rows)
{
    return rows->name[0] == '\0';
}

static void list_write(struct json_writer *json, const struct json_row *row, const char *first, size_t count)
{
    json_open(json, row->name, '[');
    for (size_t i = 0; i < count; i++)
        if (is_value(row->rows))
            value_write(json, NULL, row->rows, first + i * row->size);
        else
            object_write(json, NULL, row->rows, first + i * row->size);
    json_close(json, ']');
}

static void value_write(struct json_writer *json, const char *name, const struct json_row *row, const char *owner)
{
    const void *value = owner + row->offset;
    switch (row->kind) {
    case JSON_ROW_REAL:
        json_decimal(json, name, *(const double *)value);
        break;
    case JSON_ROW_TIME:
        json_decimal(json, name, (double)*(const int64_t *)value / (double)NS_PER_S);
        break;
    case JSON_ROW_COUNT:
    case JSON_ROW_SIGNED:
        json_number(json, name, *(const int64_t *)value);
        break;
    case JSON_ROW_NUMBER:
        json_number(json, name, *(const unsigned *)value);
        break;
    case JSON_ROW_TRUTH:
        json_truth(json, name, *(const bool *)value);
        break;
    case JSON_ROW_TEXT:
        json_bytes(json, name, value, strnlen(value, row->size));
        break;
    case JSON_ROW_NAME:
        json_text(json, name, *(char *const *)value);
        break;
    case JSON_ROW_CHOICE:
        json_text(json, name, row->choices[*(const int *)value]);
        break;
    case JSON_ROW_OBJECT:
        object_write(json, name, row->rows, value);
        break;
    case JSON_ROW_HISTOGRAM:
        histogram_write(json, name, *(struct histogram *const *)value);
        break;
    case JSON_ROW_LIST:
        list_write(json, row, value, *(const unsigned *)(const void *)(owner + row->count_offset));
        break;
    case JSON_ROW_GROWN:
        list_write(json, row, *(char *const *)value, *(const size_t *)(const void *)(owner + row->count_offset));
        break;
    case JSON_ROW_MATCHED:
        if (*(char *const *)value != NULL)
            list_write(json, row, *(char *const *)value, *(const unsigned *)(const void *)(owner + row->count_offset));
        break;
    }
}

void json_rows_write(struct json_writer *json, const struct json_row *rows, const void *owner)
{
    for (; rows->name != NULL; rows++)
        value_write(json, rows->name, rows, owner);
}

/* --- reading: single values --------------------------------------------------------------------------------------- */

static bool refuse(const struct json_path *path, const char *member, const char *what, struct error *error)
{
    const struct json_path *parts[8];
    char text[256] = "";
    size_t depth = 0, used = 0;
    for (; path != NULL && depth < sizeof parts / sizeof parts[0]; path = path->owner)
        parts[depth++] = path;
    while (depth-- > 0 && used < sizeof text - 64)
        used += (size_t)snprintf(text + used, sizeof text - used, parts[depth]->index >= 0 ? "%s%.40s[%ld]" : "%s%.40s",
                                 used > 0 ? "." : "", parts[depth]->name, parts[depth]->index);
    if (used == 0 && member[0] == '\0')
        member = "it";
    return error_set(error, "%s%s%.60s %s", text, used > 0 && member[0] != '\0' ? "." : "", member, what);
}

static bool whole_take(const json_t *value, int64_t low, int64_t high, int64_t *whole)
{
    *whole = json_integer_value(value);
    return json_is_integer(value) && *whole >= low && *whole <= high;
}

static bool number_take(const json_t *value, const struct json_row *row, void *into)
{
    double real = json_number_value(value);
    int64_t whole;
    if (row->low < row->high && !(json_is_number(value) && real >= row->low && real <= row->high))
        return false;
    if (row->kind == JSON_ROW_REAL)
        *(double *)into = real;
    else if (row->kind == JSON_ROW_TIME)
        *(int64_t *)into = llround(real * (double)NS_PER_S);
    if (row->kind == JSON_ROW_REAL || row->kind == JSON_ROW_TIME) /* JSON has null for a number without end */
        return (json_is_number(value) || json_is_null(value)) && isfinite(real);
    int64_t low = row->kind == JSON_ROW_SIGNED ? INT64_MIN : 0;
    if (!whole_take(value, low, row->kind == JSON_ROW_NUMBER ? UINT_MAX : INT64_MAX, &whole))
        return false;
    if (row->kind == JSON_ROW_NUMBER)
        *(unsigned *)into = (unsigned)whole;
    else
        *(int64_t *)into = whole;
    return true;
}

static bool number_read(const json_t *value, const struct json_path *path, const struct json_row *row, void *into,
                        struct error *error)
{
    bool is_whole = row->kind != JSON_ROW_REAL && row->kind != JSON_ROW_TIME;
    char what[96] = "is no number that it can be";
    if (number_take(value, row, into))
        return true;
    if (row->low < row->high)
        snprintf(what, sizeof what, "is not a %snumber from %.16g to %.16g", is_whole ? "whole " : "", row->low,
                 row->high);
    return refuse(path, row->name, what, error);
}

/* In whole characters: a byte that was none was written as one of three. */
static bool text_take(const json_t *value, const struct json_row *row, char *out)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (text == NULL || (row->is_whole && length >= row->size))
        return false;
    if (length >= row->size)
        for (length = row->size - 1; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static bool text_read(const json_t *value, const struct json_path *path, const struct json_row *row, char *out,
                      struct error *error)
{
    char what[64] = "is no text";
    if (row->is_whole)
        snprintf(what, sizeof what, "is not a text of at most %zu bytes", row->size - 1);
    return text_take(value, row, out) || refuse(path, row->name, what, error);
}

/* False when it is none of them. */
static bool choice_read(const json_t *value, const char *const *choices, int *choice)
{
    const char *text = json_string_value(value);
    for (int i = 0; text != NULL && choices[i] != NULL; i++)
        if (strcmp(choices[i], text) == 0) {
            *choice = i;
            return true;
        }
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

static bool histogram_read(const json_t *object, const struct json_path *path, const char *name,
                           struct histogram **into, struct error *error)
{
    int64_t sum, max, above = -1;
    const json_t *counts = json_object_get(object, "counts");
    if (json_is_null(object))
        return true;
    if (!whole_take(json_object_get(object, "sum_us"), 0, INT64_MAX, &sum) ||
        !whole_take(json_object_get(object, "max_us"), 0, histogram_step_top(HISTOGRAM_STEPS - 1), &max) ||
        !json_is_array(counts))
        return refuse(path, name, "needs sum_us, max_us and counts", error);
    *into = memory_new(struct histogram);
    for (size_t i = 0; i < json_array_size(counts); i++)
        if (!step_take(json_array_get(counts, i), &above, *into))
            return refuse(path, name, "has counts that no histogram of ours has", error);
    (*into)->sum_us = (uint64_t)sum;
    (*into)->max_us = (uint64_t)max;
    return true;
}

/* --- reading: objects and lists ----------------------------------------------------------------------------------- */

static bool row_read(const json_t *value, const struct json_path *path, const struct json_row *row, char *owner,
                     struct error *error);

/* Whether there may be so many. */
static bool length_is_good(const json_t *list, const struct json_path *path, const struct json_row *row,
                           const void *count, struct error *error)
{
    char what[64];
    size_t length = json_array_size(list);
    bool is_matched = row->kind != JSON_ROW_MATCHED || length == *(const unsigned *)count;
    if (!json_is_array(list))
        return refuse(path, row->name, "is no list", error);
    snprintf(what, sizeof what, is_matched ? "is a list of more than %zu" : "is not a list of as many", row->most);
    return (is_matched && (row->most == 0 || length <= row->most)) || refuse(path, row->name, what, error);
}

/* The count grows with each element, so that what is there already is freed when one is wrong. */
static bool list_read(const json_t *list, const struct json_path *path, const struct json_row *row, char *owner,
                      struct error *error)
{
    char *first = owner + row->offset;
    void *count = owner + row->count_offset;
    size_t length = json_array_size(list);
    if (!length_is_good(list, path, row, count, error))
        return false;
    if (row->kind != JSON_ROW_LIST) {
        *(void **)(void *)first = length > 0 ? memory_zeroed(length, row->size) : NULL;
        first = *(char **)(void *)first;
    }
    for (size_t i = 0; i < length; i++) {
        const struct json_path inner = {path, row->name, (long)i};
        const json_t *element = json_array_get(list, i);
        if (row->kind == JSON_ROW_LIST)
            *(unsigned *)count = (unsigned)i + 1;
        else if (row->kind == JSON_ROW_GROWN)
            *(size_t *)count = i + 1;
        if (!(is_value(row->rows) ? row_read(element, &inner, row->rows, first + i * row->size, error)
                                  : json_rows_read(element, row->rows, &inner, first + i * row->size, error)))
            return false;
    }
    return true;
}

static bool row_read(const json_t *value, const struct json_path *path, const struct json_row *row, char *owner,
                     struct error *error)
{
    void *into = owner + row->offset;
    switch (row->kind) {
    case JSON_ROW_REAL:
    case JSON_ROW_TIME:
    case JSON_ROW_COUNT:
    case JSON_ROW_SIGNED:
    case JSON_ROW_NUMBER:
        return number_read(value, path, row, into, error);
    case JSON_ROW_TRUTH:
        *(bool *)into = json_is_true(value);
        return json_is_boolean(value) || refuse(path, row->name, "is neither true nor false", error);
    case JSON_ROW_TEXT:
        return text_read(value, path, row, into, error);
    case JSON_ROW_NAME:
        if (!json_is_string(value))
            return refuse(path, row->name, "is no text", error);
        *(char **)into = memory_text(json_string_value(value));
        return true;
    case JSON_ROW_CHOICE:
        return choice_read(value, row->choices, into) ||
               refuse(path, row->name, "is nothing that this version knows", error);
    case JSON_ROW_OBJECT:
        return json_rows_read(value, row->rows, &(struct json_path){path, row->name, -1}, into, error);
    case JSON_ROW_HISTOGRAM:
        return histogram_read(value, path, row->name, into, error);
    case JSON_ROW_LIST:
    case JSON_ROW_GROWN:
    case JSON_ROW_MATCHED:
        return list_read(value, path, row, owner, error);
    }
    return false;
}

bool json_rows_read(const json_t *object, const struct json_row *rows, const struct json_path *path, void *owner,
                    struct error *error)
{
    if (!json_is_object(object))
        return refuse(path, "", "is no object", error);
    for (; rows->name != NULL; rows++) {
        const json_t *value = json_object_get(object, rows->name);
        if (value == NULL && !rows->is_optional)
            return refuse(path, rows->name, "is missing", error);
        if (value != NULL && !row_read(value, path, rows, owner, error))
            return false;
    }
    return true;
}
