/* What happened: lists that only grow, and the texts in them, each kept once in a table. */
#include "worker/history/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"
#include "base/random.h"

/* A list of items of one size. */
struct series {
    void *items;
    size_t count, capacity;
};

struct text_table {
    uint64_t seed; /* strangers choose the texts */
    char **slots;  /* a power of two */
    size_t count, size;
};

struct history {
    struct text_table texts;
    struct series holds, marks, endings, parts, facts, gaps, processes;
    size_t left_out;
};

enum { TABLE_SMALLEST = 1024 };

/* --- texts ------------------------------------------------------------------------------------------------------ */

static char **slot_of(const struct text_table *table, const char *text)
{
    size_t at = (size_t)hash_bytes(table->seed, text, strlen(text)) & (table->size - 1);
    while (table->slots[at] != NULL && strcmp(table->slots[at], text) != 0)
        at = (at + 1) & (table->size - 1);
    return &table->slots[at];
}

static void table_grow(struct text_table *table)
{
    struct text_table larger = {.seed = table->seed, .count = table->count};
    larger.size = table->size > 0 ? 2 * table->size : TABLE_SMALLEST;
    larger.slots = memory_zeroed(larger.size, sizeof *larger.slots);
    for (size_t i = 0; i < table->size; i++)
        if (table->slots[i] != NULL)
            *slot_of(&larger, table->slots[i]) = table->slots[i];
    free(table->slots);
    *table = larger;
}

static const char *text_keep(struct history *history, const char *text)
{
    struct text_table *table = &history->texts;
    if (2 * table->count >= table->size)
        table_grow(table);
    char **slot = slot_of(table, text != NULL ? text : "");
    if (*slot == NULL) {
        *slot = memory_text(text != NULL ? text : "");
        table->count++;
    }
    return *slot;
}

/* --- lists ------------------------------------------------------------------------------------------------------ */

/* Room for one more, or NULL. */
static void *series_add(struct history *history, struct series *series, size_t size, size_t most)
{
    if (series->count == most) {
        history->left_out++;
        return NULL;
    }
    if (series->count == series->capacity) {
        series->capacity = series->capacity > 0 ? 2 * series->capacity : 64;
        series->items = memory_resize(series->items, series->capacity, size);
    }
    return (char *)series->items + size * series->count++;
}

struct history *history_create(void)
{
    struct history *history = memory_new(struct history);
    random_bytes(&history->texts.seed, sizeof history->texts.seed);
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    size_t count;
    const struct history_hold *holds = history_holds(history, &count);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)holds[i].resources);
    for (size_t i = 0; i < history->texts.size; i++)
        free(history->texts.slots[i]);
    free(history->texts.slots);
    struct series *all[] = {&history->holds, &history->marks, &history->endings,  &history->parts,
                            &history->facts, &history->gaps,  &history->processes};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]->items);
    free(history);
}

void history_add_hold(struct history *history, const struct history_hold *hold)
{
    struct history_hold *kept = series_add(history, &history->holds, sizeof *kept, HISTORY_HOLDS_MAX);
    if (kept == NULL)
        return;
    unsigned count = hold->resource_count < HISTORY_RESOURCES_MAX ? hold->resource_count : HISTORY_RESOURCES_MAX;
    const char **resources = memory_zeroed(count + 1, sizeof *resources);
    for (unsigned i = 0; i < count; i++)
        resources[i] = text_keep(history, hold->resources[i]);
    *kept = *hold;
    kept->process = text_keep(history, hold->process);
    kept->class_name = text_keep(history, hold->class_name);
    kept->jid = text_keep(history, hold->jid);
    kept->fence = text_keep(history, hold->fence);
    kept->ending = text_keep(history, hold->ending);
    kept->resources = resources;
    kept->resource_count = count;
    if (kept->to.us < kept->from.us) /* a clock was set back */
        kept->to = kept->from;
}

void history_add_mark(struct history *history, const struct history_mark *mark)
{
    struct history_mark *kept = series_add(history, &history->marks, sizeof *kept, HISTORY_NOTES_MAX);
    if (kept != NULL)
        *kept = (struct history_mark){.at = mark->at,
                                      .kind = text_keep(history, mark->kind),
                                      .process = text_keep(history, mark->process),
                                      .node = text_keep(history, mark->node),
                                      .resource = text_keep(history, mark->resource),
                                      .jid = text_keep(history, mark->jid),
                                      .text = text_keep(history, mark->text)};
}

void history_add_ending(struct history *history, const struct history_ending *ending)
{
    struct history_ending *kept = series_add(history, &history->endings, sizeof *kept, HISTORY_HOLDS_MAX);
    if (kept != NULL)
        *kept = (struct history_ending){.at = ending->at,
                                        .class_name = text_keep(history, ending->class_name),
                                        .resource = text_keep(history, ending->resource),
                                        .ending = text_keep(history, ending->ending)};
}

void history_add_part(struct history *history, struct wall_time from, const char *title)
{
    struct history_part *kept = series_add(history, &history->parts, sizeof *kept, HISTORY_NOTES_MAX);
    if (kept != NULL)
        *kept = (struct history_part){.from = from, .title = text_keep(history, title)};
}

void history_add_fact(struct history *history, struct wall_time at, enum history_tone tone, const char *name,
                      const char *value)
{
    struct history_fact *kept = series_add(history, &history->facts, sizeof *kept, HISTORY_NOTES_MAX);
    if (kept != NULL)
        *kept = (struct history_fact){
            .at = at, .tone = tone, .name = text_keep(history, name), .value = text_keep(history, value)};
}

void history_add_gap(struct history *history, const struct history_gap *gap)
{
    struct history_gap *kept = series_add(history, &history->gaps, sizeof *kept, HISTORY_HOLDS_MAX);
    if (kept != NULL)
        *kept = *gap;
}

void history_add_process(struct history *history, const char *name, struct wall_time from, struct wall_time to)
{
    struct history_process *known = history->processes.items;
    name = text_keep(history, name);
    for (size_t i = 0; i < history->processes.count; i++) {
        if (known[i].name != name)
            continue;
        known[i].from.us = from.us < known[i].from.us ? from.us : known[i].from.us;
        known[i].to.us = to.us > known[i].to.us ? to.us : known[i].to.us;
        return;
    }
    struct history_process *kept = series_add(history, &history->processes, sizeof *kept, HISTORY_NOTES_MAX);
    if (kept != NULL)
        *kept = (struct history_process){name, from, to};
}

/* --- order ------------------------------------------------------------------------------------------------------ */

static int compare_times(struct wall_time a, struct wall_time b)
{
    return (a.us > b.us) - (a.us < b.us);
}

static int compare_holds(const void *first, const void *second)
{
    const struct history_hold *a = first, *b = second;
    int order = compare_times(a->from, b->from);
    return order != 0 ? order : compare_times(a->to, b->to);
}

static int compare_processes(const void *first, const void *second)
{
    const struct history_process *a = first, *b = second;
    return strcmp(a->name, b->name);
}

#define COMPARE_BY(function, type, member)                                                                             \
    static int function(const void *first, const void *second)                                                         \
    {                                                                                                                  \
        return compare_times(((const struct type *)first)->member, ((const struct type *)second)->member);             \
    }
COMPARE_BY(compare_marks, history_mark, at)
COMPARE_BY(compare_endings, history_ending, at)
COMPARE_BY(compare_parts, history_part, from)
COMPARE_BY(compare_facts, history_fact, at)
COMPARE_BY(compare_gaps, history_gap, from)

static void series_sort(struct series *series, size_t size, int (*compare)(const void *, const void *))
{
    if (series->count > 1)
        qsort(series->items, series->count, size, compare);
}

static void gaps_join(struct series *series)
{
    struct history_gap *gaps = series->items;
    size_t kept = 0;
    for (size_t i = 1; i < series->count; i++) {
        if (gaps[i].from.us - gaps[kept].to.us >= US_PER_S) {
            gaps[++kept] = gaps[i];
            continue;
        }
        gaps[kept].tasks += gaps[i].tasks;
        if (gaps[i].to.us > gaps[kept].to.us)
            gaps[kept].to = gaps[i].to;
    }
    if (series->count > 0)
        series->count = kept + 1;
}

/* The first moment of all; INT64_MAX when there is nothing. */
static struct wall_time first_moment(const struct history *history)
{
    struct wall_time first = {INT64_MAX};
    size_t holds, marks, endings, facts;
    const struct history_hold *hold = history_holds(history, &holds);
    const struct history_mark *mark = history_marks(history, &marks);
    const struct history_ending *ending = history_endings(history, &endings);
    const struct history_fact *fact = history_facts(history, &facts);
    first = holds > 0 && hold->from.us < first.us ? hold->from : first;
    first = marks > 0 && mark->at.us < first.us ? mark->at : first;
    first = endings > 0 && ending->at.us < first.us ? ending->at : first;
    return facts > 0 && fact->at.us < first.us ? fact->at : first;
}

void history_order(struct history *history)
{
    series_sort(&history->holds, sizeof(struct history_hold), compare_holds);
    series_sort(&history->marks, sizeof(struct history_mark), compare_marks);
    series_sort(&history->endings, sizeof(struct history_ending), compare_endings);
    series_sort(&history->parts, sizeof(struct history_part), compare_parts);
    series_sort(&history->facts, sizeof(struct history_fact), compare_facts);
    series_sort(&history->processes, sizeof(struct history_process), compare_processes);
    series_sort(&history->gaps, sizeof(struct history_gap), compare_gaps);
    gaps_join(&history->gaps);
    struct wall_time first = first_moment(history);
    const struct history_part *part = history->parts.items;
    if (history->parts.count > 0 && part->from.us <= first.us)
        return;
    history_add_part(history, first, "");
    series_sort(&history->parts, sizeof(struct history_part), compare_parts);
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

#define LIST_OF(function, type, member)                                                                                \
    const struct type *function(const struct history *history, size_t *count)                                          \
    {                                                                                                                  \
        *count = history->member.count;                                                                                \
        return history->member.items;                                                                                  \
    }
LIST_OF(history_holds, history_hold, holds)
LIST_OF(history_marks, history_mark, marks)
LIST_OF(history_endings, history_ending, endings)
LIST_OF(history_parts, history_part, parts)
LIST_OF(history_facts, history_fact, facts)
LIST_OF(history_gaps, history_gap, gaps)
LIST_OF(history_processes, history_process, processes)

size_t history_left_out(const struct history *history)
{
    return history->left_out;
}

bool history_names_process(const char *marked, const char *process)
{
    size_t length = strlen(marked);
    return length > 0 && strncmp(marked, process, length) == 0 && (process[length] == '\0' || process[length] == ':');
}

struct wall_time history_part_end(const struct history *history, size_t part)
{
    const struct history_part *parts = history->parts.items;
    invariant(part < history->parts.count);
    return part + 1 < history->parts.count ? parts[part + 1].from : (struct wall_time){INT64_MAX};
}
