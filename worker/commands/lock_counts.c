/* Fields come in any order, so they are kept as they are and sorted by name before they are folded. */
#include "worker/commands/lock_counts.h"

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

/* --- folding ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct lock_count *left = a, *right = b;
    int order = strcmp(left->class_name, right->class_name);
    return order != 0 ? order : strcmp(left->prefix, right->prefix);
}

static long long contention_of(const struct lock_counts_row *row)
{
    return row->events[LOCK_EVENT_WAITED] + row->events[LOCK_EVENT_PARKED] + row->events[LOCK_EVENT_SKIPPED];
}

static int by_contention(const void *a, const void *b)
{
    const struct lock_counts_row *left = a, *right = b;
    long long more = contention_of(right) - contention_of(left);
    if (more == 0)
        more = right->events[LOCK_EVENT_ACQUIRED] - left->events[LOCK_EVENT_ACQUIRED];
    if (more != 0)
        return more > 0 ? 1 : -1;
    int order = strcmp(left->class_name, right->class_name);
    return order != 0 ? order : strcmp(left->prefix, right->prefix);
}

static void bucket_add(struct lock_histogram *histogram, const char *digits, long long number)
{
    int64_t bucket = 0;
    if (count_parse(digits, 0, RUN_COUNTS_BUCKETS - 1, &bucket))
        histogram->buckets[bucket] += number;
}

static void row_add(struct lock_counts_row *row, const struct lock_count *field)
{
    if (strncmp(field->count, "wait.", 5) == 0)
        bucket_add(&row->wait, field->count + 5, field->number);
    else if (strncmp(field->count, "hold.", 5) == 0)
        bucket_add(&row->hold, field->count + 5, field->number);
    for (int i = 0; i < LOCK_EVENTS; i++)
        if (strcmp(field->count, lock_event_name((enum lock_event)i)) == 0)
            row->events[i] += field->number;
}

void lock_counts_fold(struct lock_counts *counts)
{
    if (counts->field_count == 0)
        return;
    qsort(counts->fields, counts->field_count, sizeof *counts->fields, by_name);
    counts->rows = memory_zeroed(counts->field_count, sizeof *counts->rows);
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

long long lock_histogram_total(const struct lock_histogram *histogram)
{
    long long total = 0;
    for (int i = 0; i < RUN_COUNTS_BUCKETS; i++)
        total += histogram->buckets[i];
    return total;
}

int lock_histogram_quantile(const struct lock_histogram *histogram, double share)
{
    long long total = lock_histogram_total(histogram), below = 0;
    if (total <= 0)
        return -1;
    for (int i = 0; i < RUN_COUNTS_BUCKETS; i++) {
        below += histogram->buckets[i];
        if (below > 0 && (double)below >= share * (double)total)
            return i;
    }
    return RUN_COUNTS_BUCKETS - 1;
}
