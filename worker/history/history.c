/* What happened: lists that only grow, and the texts in them, each kept once in a table. */
#include "worker/history/history.h"

#include <stddef.h>
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
    struct series all[HISTORY_KINDS];
    size_t left_out;
};

/* What there is to know of a kind, to keep its items and to put them into order. */
struct kind {
    size_t size, most;
    int (*compare)(const void *first, const void *second);
    size_t text_count, texts[6]; /* where its texts are */
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

const char *history_text(struct history *history, const char *text)
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

/* --- kinds ------------------------------------------------------------------------------------------------------ */

/* By the moment that comes first in it. */
static int compare_times(const void *first, const void *second)
{
    const struct wall_time *a = first, *b = second;
    return (a->us > b->us) - (a->us < b->us);
}

static int compare_holds(const void *first, const void *second)
{
    const struct history_hold *a = first, *b = second;
    int order = compare_times(&a->from, &b->from);
    return order != 0 ? order : compare_times(&a->to, &b->to);
}

static int compare_processes(const void *first, const void *second)
{
    const struct history_process *a = first, *b = second;
    return strcmp(a->name, b->name);
}

#define AT(type, member) offsetof(struct history_##type, member)
static const struct kind kinds[] = {
    [HISTORY_HOLD] = {sizeof(struct history_hold),
                      HISTORY_HOLDS_MAX,
                      compare_holds,
                      5,
                      {AT(hold, process), AT(hold, class_name), AT(hold, jid), AT(hold, fence), AT(hold, ending)}},
    [HISTORY_MARK] = {sizeof(struct history_mark),
                      HISTORY_NOTES_MAX,
                      compare_times,
                      6,
                      {AT(mark, kind), AT(mark, process), AT(mark, node), AT(mark, resource), AT(mark, jid),
                       AT(mark, text)}},
    [HISTORY_ENDING] = {sizeof(struct history_ending),
                        HISTORY_HOLDS_MAX,
                        compare_times,
                        3,
                        {AT(ending, class_name), AT(ending, resource), AT(ending, ending)}},
    [HISTORY_PART] = {sizeof(struct history_part), HISTORY_NOTES_MAX, compare_times, 1, {AT(part, title)}},
    [HISTORY_FACT] =
        {sizeof(struct history_fact), HISTORY_NOTES_MAX, compare_times, 2, {AT(fact, name), AT(fact, value)}},
    [HISTORY_GAP] = {sizeof(struct history_gap), HISTORY_HOLDS_MAX, compare_times, 0, {0}},
    [HISTORY_PROCESS] = {sizeof(struct history_process), HISTORY_NOTES_MAX, compare_processes, 1, {AT(process, name)}},
};
#undef AT

/* --- lists ------------------------------------------------------------------------------------------------------ */

/* Room for one more, or NULL. */
static void *series_add(struct history *history, enum history_kind kind)
{
    struct series *series = &history->all[kind];
    if (series->count == kinds[kind].most) {
        history->left_out++;
        return NULL;
    }
    if (series->count == series->capacity) {
        series->capacity = series->capacity > 0 ? 2 * series->capacity : 64;
        series->items = memory_resize(series->items, series->capacity, kinds[kind].size);
    }
    return (char *)series->items + kinds[kind].size * series->count++;
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
    for (size_t i = 0; i < HISTORY_KINDS; i++)
        free(history->all[i].items);
    free(history);
}

static void resources_keep(struct history *history, struct history_hold *kept)
{
    unsigned count = kept->resource_count < HISTORY_RESOURCES_MAX ? kept->resource_count : HISTORY_RESOURCES_MAX;
    const char **resources = memory_zeroed(count + 1, sizeof *resources);
    for (unsigned i = 0; i < count; i++)
        resources[i] = history_text(history, kept->resources[i]);
    kept->resources = resources;
    kept->resource_count = count;
    if (kept->to.us < kept->from.us) /* a clock was set back */
        kept->to = kept->from;
}

void history_add_item(struct history *history, enum history_kind kind, const void *item)
{
    char *kept = series_add(history, kind);
    if (kept == NULL)
        return;
    memcpy(kept, item, kinds[kind].size);
    for (size_t i = 0; i < kinds[kind].text_count; i++) {
        const char **text = (const char **)(void *)(kept + kinds[kind].texts[i]);
        *text = history_text(history, *text);
    }
    if (kind == HISTORY_HOLD)
        resources_keep(history, (struct history_hold *)(void *)kept);
}

void history_add_process(struct history *history, const char *name, struct wall_time from, struct wall_time to)
{
    struct series *processes = &history->all[HISTORY_PROCESS];
    struct history_process *known = processes->items;
    name = history_text(history, name);
    for (size_t i = 0; i < processes->count; i++) {
        if (known[i].name != name)
            continue;
        known[i].from.us = from.us < known[i].from.us ? from.us : known[i].from.us;
        known[i].to.us = to.us > known[i].to.us ? to.us : known[i].to.us;
        return;
    }
    history_add_item(history, HISTORY_PROCESS, &(struct history_process){name, from, to});
}

/* --- order ------------------------------------------------------------------------------------------------------ */

static void series_sort(struct history *history, enum history_kind kind)
{
    struct series *series = &history->all[kind];
    if (series->count > 1)
        qsort(series->items, series->count, kinds[kind].size, kinds[kind].compare);
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
    static const enum history_kind told[] = {HISTORY_HOLD, HISTORY_MARK, HISTORY_ENDING, HISTORY_FACT};
    struct wall_time first = {INT64_MAX};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const struct wall_time *moment = history->all[told[i]].items;
        if (moment != NULL && moment->us < first.us)
            first = *moment;
    }
    return first;
}

void history_order(struct history *history)
{
    for (int kind = 0; kind < HISTORY_KINDS; kind++)
        series_sort(history, (enum history_kind)kind);
    gaps_join(&history->all[HISTORY_GAP]);
    struct wall_time first = first_moment(history);
    const struct history_part *part = history->all[HISTORY_PART].items;
    if (part != NULL && part->from.us <= first.us)
        return;
    history_add(history, &(struct history_part){first, ""});
    series_sort(history, HISTORY_PART);
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

const void *history_items(const struct history *history, enum history_kind kind, size_t *count)
{
    *count = history->all[kind].count;
    return history->all[kind].items;
}

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
    size_t count;
    const struct history_part *parts = history_parts(history, &count);
    invariant(part < count);
    return part + 1 < count ? parts[part + 1].from : (struct wall_time){INT64_MAX};
}
