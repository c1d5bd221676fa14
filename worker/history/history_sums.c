/* Adding a part of a history up: everything that counts becomes an entry of (class, resource), the entries are sorted,
 * and a run of equal ones is a row. */
#include "worker/history/history_sums.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/print/printer.h"

struct entry {
    const char *class_name, *resource;
    const struct history_use *use; /* or: */
    const char *ending;            /* of a task without a hold */
};

/* --- uses ------------------------------------------------------------------------------------------------------- */

static bool is_in(const struct history *history, size_t part, struct wall_time at)
{
    size_t count;
    const struct history_part *parts = history_parts(history, &count);
    return at.us >= parts[part].from.us && at.us < history_part_end(history, part).us;
}

static int compare_uses(const void *first, const void *second)
{
    const struct history_use *a = first, *b = second;
    int order = strcmp(a->resource, b->resource);
    if (order == 0)
        order = (a->hold->from.us > b->hold->from.us) - (a->hold->from.us < b->hold->from.us);
    return order != 0 ? order : (a->hold->to.us > b->hold->to.us) - (a->hold->to.us < b->hold->to.us);
}

static void overlaps_find(struct history_uses *uses)
{
    int64_t busy_until = INT64_MIN;
    for (size_t i = 0; i < uses->count; i++) {
        struct history_use *use = &uses->items[i];
        if (i == 0 || strcmp(uses->items[i - 1].resource, use->resource) != 0)
            busy_until = INT64_MIN;
        use->overlaps = use->resource[0] != '\0' && use->hold->from.us < busy_until;
        if (use->hold->to.us > busy_until)
            busy_until = use->hold->to.us;
    }
}

static struct history_uses uses_of(const struct history *history, size_t part)
{
    struct history_uses uses = {0};
    size_t hold_count, capacity = 0;
    const struct history_hold *holds = history_holds(history, &hold_count);
    for (size_t i = 0; i < hold_count; i++)
        if (is_in(history, part, holds[i].from))
            capacity += holds[i].resource_count + 1;
    uses.items = memory_zeroed(capacity + 1, sizeof *uses.items);
    for (size_t i = 0; i < hold_count; i++) {
        const struct history_hold *hold = &holds[i];
        if (!is_in(history, part, hold->from))
            continue;
        for (unsigned j = 0; j < hold->resource_count; j++)
            uses.items[uses.count++] = (struct history_use){.hold = hold, .resource = hold->resources[j]};
        if (hold->resource_count == 0)
            uses.items[uses.count++] = (struct history_use){.hold = hold, .resource = ""};
    }
    qsort(uses.items, uses.count, sizeof *uses.items, compare_uses);
    overlaps_find(&uses);
    return uses;
}

/* --- sums ------------------------------------------------------------------------------------------------------- */

static int compare_entries(const void *first, const void *second)
{
    const struct entry *a = first, *b = second;
    int order = strcmp(a->class_name, b->class_name);
    return order != 0 ? order : strcmp(a->resource, b->resource);
}

static int compare_numbers(const void *first, const void *second)
{
    int64_t a = *(const int64_t *)first, b = *(const int64_t *)second;
    return (a > b) - (a < b);
}

/* The smallest of the sorted numbers that at least this share of them does not exceed. */
static int64_t quantile(const int64_t *numbers, size_t count, unsigned percent)
{
    return count == 0 ? 0 : numbers[(count * percent + 99) / 100 - 1];
}

static void waits_judge(struct history_sum *sum, int64_t *waits)
{
    if (sum->waits > 1)
        qsort(waits, sum->waits, sizeof *waits, compare_numbers);
    sum->wait_p50_us = quantile(waits, sum->waits, 50);
    sum->wait_p99_us = quantile(waits, sum->waits, 99);
}

static void hold_count(struct history_sum *sum, const struct history_hold *hold, int64_t *waits)
{
    sum->holds++;
    sum->unlocked += !hold->is_locked;
    /* A log may say anything: a sum that is too large for a number stays at the largest one. */
    int64_t held_us = hold->held_us >= 0 ? hold->held_us : hold->to.us - hold->from.us;
    if (__builtin_add_overflow(sum->held_us, held_us, &sum->held_us))
        sum->held_us = INT64_MAX;
    sum->handed_over += hold->is_handed_over;
    sum->lost += hold->is_lost;
    sum->refused += hold->is_refused;
    if (hold->waited_us >= 0)
        waits[sum->waits++] = hold->waited_us;
}

static bool is_worth_a_row(const char *ending)
{
    return strcmp(ending, "parked") == 0 || strcmp(ending, "skipped") == 0;
}

static size_t entries_collect(const struct history *history, size_t part, const struct history_uses *uses,
                              struct entry **entries)
{
    size_t ending_total, count = 0;
    const struct history_ending *endings = history_endings(history, &ending_total);
    *entries = memory_zeroed(uses->count + ending_total + 1, sizeof **entries);
    for (size_t i = 0; i < uses->count; i++)
        (*entries)[count++] =
            (struct entry){uses->items[i].hold->class_name, uses->items[i].resource, &uses->items[i], NULL};
    for (size_t i = 0; i < ending_total; i++)
        if (is_in(history, part, endings[i].at) && is_worth_a_row(endings[i].ending))
            (*entries)[count++] = (struct entry){endings[i].class_name, endings[i].resource, NULL, endings[i].ending};
    qsort(*entries, count, sizeof **entries, compare_entries);
    return count;
}

static void total_make(const struct history *history, size_t part, struct history_sums *sums, int64_t *waits)
{
    size_t hold_total;
    const struct history_hold *holds = history_holds(history, &hold_total);
    for (size_t i = 0; i < hold_total; i++)
        if (is_in(history, part, holds[i].from))
            hold_count(&sums->total, &holds[i], waits);
    for (size_t i = 0; i < sums->count; i++) {
        sums->total.parked += sums->rows[i].parked;
        sums->total.skipped += sums->rows[i].skipped;
        sums->total.overlaps += sums->rows[i].overlaps;
    }
    for (size_t i = 0; sums->total.parked == 0 && i < sums->count; i++)
        sums->rows[i].parked = -1;
    if (sums->total.parked == 0)
        sums->total.parked = -1;
    waits_judge(&sums->total, waits);
}

struct history_sums history_sums_of(const struct history *history, size_t part)
{
    struct history_sums sums = {.uses = uses_of(history, part)};
    const struct history_uses *uses = &sums.uses;
    struct entry *entries;
    size_t count = entries_collect(history, part, uses, &entries);
    int64_t *waits = memory_zeroed(uses->count + 1, sizeof *waits);
    sums.rows = memory_zeroed(count + 1, sizeof *sums.rows);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_entries(&entries[i - 1], &entries[i]) != 0) {
            if (sums.count > 0)
                waits_judge(&sums.rows[sums.count - 1], waits);
            sums.rows[sums.count++] =
                (struct history_sum){.class_name = entries[i].class_name, .resource = entries[i].resource};
        }
        struct history_sum *row = &sums.rows[sums.count - 1];
        if (entries[i].use != NULL) {
            hold_count(row, entries[i].use->hold, waits);
            row->overlaps += entries[i].use->overlaps;
        } else {
            row->parked += strcmp(entries[i].ending, "parked") == 0;
            row->skipped += strcmp(entries[i].ending, "skipped") == 0;
        }
    }
    if (sums.count > 0)
        waits_judge(&sums.rows[sums.count - 1], waits);
    total_make(history, part, &sums, waits);
    free(waits);
    free(entries);
    return sums;
}

const char *history_overlaps_meaning(const struct history_sums *sums)
{
    if (sums->total.overlaps == 0)
        return NULL;
    if (sums->total.unlocked == sums->total.holds)
        return "overlaps: runs that began while another one was at the same resource. They had no lock, so nothing "
               "kept "
               "them apart: what such runs write can undo what others wrote.";
    return "overlaps: runs that began while another one was at the same resource. A holder that stands still for "
           "longer "
           "than its lock lives does not know that the lock is lost, and its run counts here until its task ends. A "
           "fence refuses what such a run writes (refused), and then the data stay exact; under a lock alone they may "
           "not.";
}

void history_sums_fini(struct history_sums *sums)
{
    free(sums->rows);
    free(sums->uses.items);
    *sums = (struct history_sums){0};
}

/* --- for readers -------------------------------------------------------------------------------------------------- */

static void count_put(struct printer *out, const char *title, const char *member, int64_t count, enum table_style style)
{
    printer_count(out, title, member, count);
    printer_style(out, count > 0 ? style : TABLE_DIM);
}

static void wait_put(struct printer *out, const char *title, const char *member, const struct history_sum *sum,
                     int64_t us)
{
    if (out->is_json)
        json_seconds_if(&out->json, member, sum->waits > 0, us);
    else if (sum->waits > 0)
        printer_cell(out, title, TABLE_PLAIN, "%.1f ms", (double)us / 1000);
    else
        printer_cell(out, title, TABLE_DIM, "-");
}

/* In the total programs see no name, and people "all". */
static void name_put(struct printer *out, const char *title, const char *member, const char *name, const char *total)
{
    if (out->is_json && name != NULL)
        json_text(&out->json, member, name);
    else
        printer_cell(out, title, TABLE_PLAIN, "%s", name == NULL ? total : name[0] != '\0' ? name : "-");
}

static void sum_put(struct printer *out, const struct history_sum *sum)
{
    name_put(out, "CLASS", "class", sum->class_name, "all");
    name_put(out, "RESOURCE", "resource", sum->resource, "");
    count_put(out, ">HOLDS", "holds", (int64_t)sum->holds, TABLE_PLAIN);
    printer_number(out, NULL, "without_lock", (int64_t)sum->unlocked);
    if (out->is_json)
        json_seconds(&out->json, "held", sum->held_us);
    printer_cell(out, ">HELD", TABLE_PLAIN, "%.2f s", (double)sum->held_us / (double)US_PER_S);
    wait_put(out, ">WAIT P50", "wait_p50", sum, sum->wait_p50_us);
    wait_put(out, ">WAIT P99", "wait_p99", sum, sum->wait_p99_us);
    count_put(out, ">HANDED", "handed_over", (int64_t)sum->handed_over, TABLE_PLAIN);
    count_put(out, ">PARKED", "parked", sum->parked, TABLE_PLAIN);
    count_put(out, ">SKIPPED", "skipped", (int64_t)sum->skipped, TABLE_PLAIN);
    count_put(out, ">LOST", "lost", (int64_t)sum->lost, TABLE_WARN);
    count_put(out, ">REFUSED", "refused", (int64_t)sum->refused, TABLE_WARN);
    count_put(out, ">OVERLAPS", "overlaps", (int64_t)sum->overlaps, TABLE_BAD);
    printer_row_end(out);
}

void history_sums_text(const struct history_sums *sums, size_t rows_max, bool has_colour, struct buffer *out)
{
    struct printer people = {.table = table_create(NULL), .unknown = "-"};
    for (size_t i = 0; i < sums->count && i < rows_max; i++)
        sum_put(&people, &sums->rows[i]);
    sum_put(&people, &sums->total);
    table_write(people.table, UINT_MAX, SIZE_MAX, has_colour, out);
    table_free(people.table);
    if (sums->count > rows_max)
        buffer_format(out, "%zu more rows are only in the sum; `holdfast report --json` has all\n",
                      sums->count - rows_max);
    if (history_overlaps_meaning(sums) != NULL)
        buffer_format(out, "%s\n", history_overlaps_meaning(sums));
    if (sums->total.unlocked > 0)
        buffer_format(out, "%llu of them ran without a lock\n", (unsigned long long)sums->total.unlocked);
}

void history_sums_json(struct json_writer *json, const struct history_sums *sums, size_t rows_max)
{
    struct printer programs = {.is_json = true, .json = *json};
    printer_list(&programs, "rows");
    for (size_t i = 0; i < sums->count && i < rows_max; i++) {
        printer_row(&programs);
        sum_put(&programs, &sums->rows[i]);
    }
    printer_list_end(&programs, NULL);
    json_open(&programs.json, "total", '{');
    sum_put(&programs, &sums->total);
    *json = programs.json;
}
