/* Fields come in any order, so they are kept as they are and sorted by name before they are folded. */
#include "worker/presence/lock_counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/quantity.h"

struct lock_count {
    char *class_name;           /* the whole field, cut in three */
    const char *prefix, *count; /* in that memory */
    long long number;
};

/* Neither class nor prefix holds a '|'. */
void lock_counts_add(struct lock_counts *counts, const char *field, size_t length, long long number)
{
    char *text = memory_text_of(field, length);
    char *prefix = strchr(text, '|'), *count = prefix != NULL ? strchr(prefix + 1, '|') : NULL;
    if (count == NULL || strchr(count + 1, '|') != NULL || strlen(text) != length) {
        free(text);
        return;
    }
    *prefix = *count = '\0';
    if (counts->field_count == counts->field_capacity) {
        counts->field_capacity = counts->field_capacity * 2 + 64;
        counts->fields = memory_resize(counts->fields, counts->field_capacity, sizeof *counts->fields);
    }
    counts->fields[counts->field_count++] =
        (struct lock_count){.class_name = text, .prefix = prefix + 1, .count = count + 1, .number = number};
}

void lock_counts_read(struct lock_counts *counts, const struct redis_reply *fields)
{
    for (size_t i = 0; fields->kind == REDIS_ARRAY && i + 1 < fields->count; i += 2) {
        const struct redis_reply *name = &fields->elements[i], *number = &fields->elements[i + 1];
        if (name->kind == REDIS_STRING && number->kind == REDIS_STRING)
            lock_counts_add(counts, name->bytes, name->length, strtoll(number->bytes, NULL, 10));
    }
}

/* --- folding ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct lock_count *left = a, *right = b;
    int order = strcmp(left->class_name, right->class_name);
    return order != 0 ? order : strcmp(left->prefix, right->prefix);
}

static long long contention_of(const struct lock_counts_row *row)
{
    return row->events[TALLY_WAITED] + row->events[TALLY_PARKED] + row->events[TALLY_SKIPPED];
}

static int by_contention(const void *a, const void *b)
{
    const struct lock_counts_row *left = a, *right = b;
    long long more = contention_of(right) - contention_of(left);
    if (more == 0)
        more = right->events[TALLY_ACQUIRED] - left->events[TALLY_ACQUIRED];
    if (more != 0)
        return more > 0 ? 1 : -1;
    int order = strcmp(left->class_name, right->class_name);
    return order != 0 ? order : strcmp(left->prefix, right->prefix);
}

/* Another program may write anything there. */
static void step_add(struct lock_histogram *histogram, const char *digits, long long number)
{
    int64_t step = 0;
    if (number > 0 && number < LOCK_COUNT_MAX && count_parse(digits, 0, HISTOGRAM_COARSE_STEPS - 1, &step))
        histogram->steps[step] += (uint64_t)number;
}

static void row_add(struct lock_counts_row *row, const struct lock_count *field)
{
    if (strncmp(field->count, "wait.", 5) == 0)
        step_add(&row->wait, field->count + 5, field->number);
    else if (strncmp(field->count, "hold.", 5) == 0)
        step_add(&row->hold, field->count + 5, field->number);
    for (int i = 0; i < TALLY_LOCK_COUNTS; i++)
        if (strcmp(field->count, tally_count_name((enum tally_count)i)) == 0)
            row->events[i] += field->number;
}

void lock_counts_fold(struct lock_counts *counts)
{
    if (counts->field_count == 0)
        return;
    qsort(counts->fields, counts->field_count, sizeof *counts->fields, by_name);
    size_t names = 1;
    for (size_t i = 1; i < counts->field_count; i++)
        names += by_name(&counts->fields[i - 1], &counts->fields[i]) != 0;
    counts->rows = memory_zeroed(names, sizeof *counts->rows);
    for (size_t i = 0; i < counts->field_count; i++) {
        const struct lock_count *field = &counts->fields[i];
        if (i == 0 || by_name(field, field - 1) != 0)
            counts->rows[counts->row_count++] =
                (struct lock_counts_row){.class_name = field->class_name, .prefix = field->prefix};
        row_add(&counts->rows[counts->row_count - 1], field);
    }
    qsort(counts->rows, counts->row_count, sizeof *counts->rows, by_contention);
}

void lock_counts_free(struct lock_counts *counts)
{
    for (size_t i = 0; i < counts->field_count; i++)
        free(counts->fields[i].class_name);
    free(counts->fields);
    free(counts->rows);
    *counts = (struct lock_counts){.fields = NULL};
}

/* --- histograms ------------------------------------------------------------------------------------------------- */

uint64_t lock_histogram_total(const struct lock_histogram *histogram)
{
    uint64_t total = 0;
    for (int i = 0; i < HISTOGRAM_COARSE_STEPS; i++)
        total += histogram->steps[i];
    return total;
}

int lock_histogram_quantile(const struct lock_histogram *histogram, double share)
{
    uint64_t total = lock_histogram_total(histogram), below = 0;
    if (total == 0)
        return -1;
    for (int i = 0; i < HISTOGRAM_COARSE_STEPS; i++) {
        below += histogram->steps[i];
        if (below > 0 && (double)below >= share * (double)total)
            return i;
    }
    return HISTOGRAM_COARSE_STEPS - 1;
}
