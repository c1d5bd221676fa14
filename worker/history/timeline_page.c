/* What the script draws is chosen here: so many parts, lanes, bars, marks and rows. Moments are seconds since 1970. */
#include "worker/history/timeline_page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/history/history_sums.h"
#include "worker/history/timeline_lanes.h"
#include "worker/print/page.h"
#include "worker/print/table.h"

/* Of a page; parts share the bars and the marks evenly. A bar takes some 250 bytes. */
enum { PARTS_MAX = 12, LANES_MAX = 48, BARS_MAX = 9000, MARKS_MAX = 2400, PROCESSES_MAX = 24 };
enum { ROWS_MAX = 100, EVENTS_MAX = 200, FACTS_MAX = 200 };

/* One part, with what was made of it. */
struct part {
    const struct history *history;
    const struct history_part *it;
    size_t number, count; /* of so many */
    struct history_places places;
    struct history_sums sums;
    const struct history_mark *marks;
    const struct history_fact *facts;
    size_t mark_count, fact_count, facts_left_out;
};

/* What lies in the part, of a list in the order of time whose items begin with their moment. */
static const void *items_find(const struct part *part, const void *items, size_t size, size_t all, size_t *count)
{
    const char *first = items;
    int64_t from = part->it->from.us, to = history_part_end(part->history, part->number).us;
    for (; all > 0 && ((const struct wall_time *)(const void *)first)->us < from; all--)
        first += size;
    for (*count = 0; *count < all; ++*count)
        if (((const struct wall_time *)(const void *)(first + *count * size))->us >= to)
            break;
    return first;
}

static struct part part_of(const struct history *history, size_t number, size_t count)
{
    size_t all;
    struct part part = {
        .history = history, .it = &history_parts(history, &all)[number], .number = number, .count = count};
    part.places = history_places_of(history, number);
    part.sums = history_sums_of(history, number, &part.places);
    const struct history_mark *marks = history_marks(history, &all);
    part.marks = items_find(&part, marks, sizeof *marks, all, &part.mark_count);
    const struct history_fact *facts = history_facts(history, &all);
    part.facts = items_find(&part, facts, sizeof *facts, all, &part.fact_count);
    part.facts_left_out = part.fact_count > FACTS_MAX ? part.fact_count - FACTS_MAX : 0;
    part.fact_count -= part.facts_left_out;
    return part;
}

static void part_fini(struct part *part)
{
    history_sums_fini(&part->sums);
    history_places_fini(&part->places);
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static int compare_texts(const void *first, const void *second)
{
    return strverscmp(*(const char *const *)first, *(const char *const *)second);
}

/* Those that held something, with when something was heard of them, as far as that is known. Returns whether there are
 * more. */
static bool processes_json(struct json_writer *json, const struct part *part)
{
    const char *names[PROCESSES_MAX];
    bool has_more = false;
    size_t count = 0, life_count;
    const struct history_process *lives = history_processes(part->history, &life_count);
    for (size_t i = 0, j; i < part->places.count; i++) {
        const char *name = part->places.items[i].hold->process;
        for (j = 0; j < count && names[j] != name; j++)
            ;
        has_more |= j == PROCESSES_MAX;
        if (j == count && count < PROCESSES_MAX)
            names[count++] = name;
    }
    qsort(names, count, sizeof names[0], compare_texts);
    json_open(json, "processes", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", names[i]);
        for (size_t j = 0; j < life_count; j++)
            if (lives[j].name == names[i]) {
                json_seconds(json, "from", lives[j].from.us);
                json_seconds(json, "to", lives[j].to.us);
            }
        json_close(json, '}');
    }
    json_close(json, ']');
    return has_more;
}

/* --- lanes and marks ---------------------------------------------------------------------------------------------- */

static void truth_json(struct json_writer *json, const char *name, bool truth)
{
    if (truth)
        json_truth(json, name, true);
}

/* What is false or empty is left out. */
static void hold_json(struct json_writer *json, const struct history_hold *hold)
{
    json_text(json, "class", hold->class_name);
    json_text(json, "jid", hold->jid);
    if (hold->fence[0] != '\0')
        json_text(json, "fence", hold->fence);
    if (hold->ending[0] != '\0')
        json_text(json, "ending", hold->ending);
    if (hold->waited_us >= 0)
        json_seconds(json, "waited", hold->waited_us);
    truth_json(json, "handed_over", hold->is_handed_over);
    truth_json(json, "lost", hold->is_lost);
    truth_json(json, "refused", hold->is_refused);
    truth_json(json, "open", hold->is_open);
}

static void bar_json(struct json_writer *json, const struct timeline_bar *bar)
{
    json_open(json, NULL, '{');
    json_seconds(json, "from", bar->from.us);
    json_seconds(json, "to", bar->to.us);
    json_number(json, "row", bar->row);
    json_text(json, "process", bar->is_mixed ? NULL : bar->place->hold->process);
    json_number(json, "holds", (int64_t)bar->holds);
    truth_json(json, "unlocked", !bar->place->hold->is_locked);
    truth_json(json, "overlaps", bar->place->overlaps);
    if (bar->holds == 1)
        hold_json(json, bar->place->hold);
    else
        json_number(json, "unusual", (int64_t)bar->unusual);
    json_close(json, '}');
}

static void lanes_json(struct json_writer *json, const struct timeline_lanes *lanes)
{
    json_open(json, "lanes", '[');
    for (size_t i = 0; i < lanes->lane_count; i++) {
        const struct timeline_lane *lane = &lanes->lanes[i];
        json_open(json, NULL, '{');
        json_text(json, "resource", lane->resource);
        json_number(json, "holds", (int64_t)lane->holds);
        json_number(json, "rows", lane->rows);
        json_open(json, "bars", '[');
        for (size_t j = 0; j < lane->bar_count; j++)
            bar_json(json, &lanes->bars[lane->first_bar + j]);
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void marks_json(struct json_writer *json, const struct part *part, size_t count)
{
    json_open(json, "marks", '[');
    for (size_t i = 0; i < count; i++) {
        const struct history_mark *mark = &part->marks[i];
        json_open(json, NULL, '{');
        json_seconds(json, "at", mark->at.us);
        json_text(json, "kind", mark->kind);
        json_text(json, "process", mark->process);
        json_text(json, "node", mark->node);
        json_text(json, "resource", mark->resource);
        json_text(json, "jid", mark->jid);
        json_text(json, "text", mark->text);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* --- the data ----------------------------------------------------------------------------------------------------- */

static void facts_json(struct json_writer *json, const struct part *part)
{
    static const char *const tones[] = {[HISTORY_PLAIN] = "", [HISTORY_GOOD] = "good", [HISTORY_BAD] = "bad"};
    json_open(json, "facts", '[');
    for (size_t i = 0; i < part->fact_count; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", part->facts[i].name);
        json_text(json, "value", part->facts[i].value);
        json_text(json, "tone", tones[part->facts[i].tone]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void part_json(struct json_writer *json, const struct part *part)
{
    struct buffer note = {0};
    struct timeline_lanes lanes = timeline_lanes_of(&part->places, LANES_MAX, BARS_MAX / part->count);
    size_t marks_max = MARKS_MAX / part->count, marks = part->mark_count < marks_max ? part->mark_count : marks_max;
    json_open(json, NULL, '{');
    json_text(json, "title", part->it->title);
    json_seconds(json, "from", part->it->from.us);
    facts_json(json, part);
    bool has_more = processes_json(json, part);
    lanes_json(json, &lanes);
    marks_json(json, part, marks);
    history_sums_json(json, &part->sums, ROWS_MAX);
    json_text(json, "meaning", history_overlaps_meaning(&part->sums));
    if (lanes.lanes_left_out > 0)
        buffer_format(&note, "%zu resources with less to see are not shown. ", lanes.lanes_left_out);
    if (lanes.merged > 0)
        buffer_format(&note, "%zu short holds lie so close together that they share bars. ", lanes.merged);
    if (part->facts_left_out > 0)
        buffer_format(&note, "%zu facts are not shown. ", part->facts_left_out);
    if (part->mark_count > marks)
        buffer_format(&note, "%zu marks are not shown. ", part->mark_count - marks);
    if (has_more)
        buffer_append_text(&note, "Not all processes have a row of their own. ");
    if (part->sums.count > ROWS_MAX)
        buffer_format(&note, "%zu more rows are only in the sum. ", part->sums.count - ROWS_MAX);
    json_text(json, "note", buffer_text(&note));
    json_close(json, '}');
    buffer_fini(&note);
    timeline_lanes_fini(&lanes);
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

static void events_text(const struct part *part, struct buffer *out)
{
    struct table *table = table_create("WHAT HAPPENED|WHAT|PROCESS OR NODE|RESOURCE|TASK|");
    for (size_t i = 0; i < part->mark_count && i < EVENTS_MAX; i++) {
        const struct history_mark *mark = &part->marks[i];
        char at[LOG_TIME_SIZE];
        table_cell(table, TABLE_PLAIN, "%s", log_time(mark->at, at));
        table_cell(table, TABLE_PLAIN, "%s", mark->kind);
        table_cell(table, TABLE_PLAIN, "%s", mark->process[0] != '\0' ? mark->process : mark->node);
        table_cell(table, TABLE_PLAIN, "%s", mark->resource);
        table_cell(table, TABLE_PLAIN, "%s", mark->jid);
        table_cell(table, TABLE_PLAIN, "%s", mark->text);
    }
    buffer_append_text(out, "\n");
    table_write(table, UINT_MAX, SIZE_MAX, false, out);
    table_free(table);
    if (part->mark_count > EVENTS_MAX)
        buffer_format(out, "%zu more are not shown.\n", part->mark_count - EVENTS_MAX);
}

static void part_text(const struct part *part, struct buffer *out)
{
    if (part->it->title[0] != '\0')
        buffer_format(out, "\n%s\n", part->it->title);
    for (size_t i = 0; i < part->fact_count; i++)
        buffer_format(out, "%s: %s\n", part->facts[i].name, part->facts[i].value);
    if (part->facts_left_out > 0)
        buffer_format(out, "%zu facts are not shown.\n", part->facts_left_out);
    buffer_append_text(out, "\n");
    history_sums_text(&part->sums, ROWS_MAX, false, out);
    if (part->mark_count > 0)
        events_text(part, out);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

void timeline_page_write(const struct history *history, const char *title, const char *about, struct buffer *out)
{
    struct buffer text = {0}, data = {0};
    struct json_writer json = {.out = &data};
    size_t all;
    (void)history_parts(history, &all);
    size_t shown = all < PARTS_MAX ? all : PARTS_MAX;
    buffer_format(&text, "%s\n", about);
    json_open(&json, NULL, '{');
    json_text(&json, "about", about);
    json_number(&json, "parts_left_out", (int64_t)(all - shown));
    json_open(&json, "parts", '[');
    for (size_t i = 0; i < shown; i++) {
        struct part part = part_of(history, i, shown);
        part_json(&json, &part);
        part_text(&part, &text);
        part_fini(&part);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    if (all > shown)
        buffer_format(&text, "\n%zu more parts are not shown.\n", all - shown);
    page_write(&(struct page){title, buffer_text(&text), buffer_text(&data), "timeline_page.js"}, out);
    buffer_fini(&text);
    buffer_fini(&data);
}
