/* What the script draws is chosen here: so many parts, lanes, bars, marks and rows. Moments are seconds since 1970. */
#include "worker/history/timeline_page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/history/history_sums.h"
#include "worker/print/page.h"
#include "worker/print/table.h"

/* --- lanes and bars ----------------------------------------------------------------------------------------------- */

/* Choosing lanes, then merging bars: the same pass counts how many bars a gap would leave, and makes them. */

/* Bars nearer than that share of the span look like one anyway. */
enum { FIRST_GAP_US = 1, SMALLEST_SHARE = 1000 };

/* While lanes are chosen, `first_bar` of a lane is the first of its uses. */

/* Lost, refused, overlapping, or without an end. */
static bool is_unusual(const struct history_use *use)
{
    const struct history_hold *hold = use->hold;
    return use->overlaps || hold->is_lost || hold->is_refused || hold->is_open;
}

static int compare_importance(const void *first, const void *second)
{
    const struct timeline_lane *a = first, *b = second;
    int order = (a->unusual < b->unusual) - (a->unusual > b->unusual);
    if (order == 0)
        order = (a->holds < b->holds) - (a->holds > b->holds);
    return order != 0 ? order : strcmp(a->resource, b->resource);
}

/* account:2 before account:10. */
static int compare_names(const void *first, const void *second)
{
    const struct timeline_lane *a = first, *b = second;
    return strverscmp(a->resource, b->resource);
}

static void lanes_choose(struct timeline_lanes *lanes, const struct history_uses *uses, size_t lanes_max)
{
    lanes->lanes = memory_zeroed(uses->count + 1, sizeof *lanes->lanes);
    for (size_t i = 0; i < uses->count; i++) {
        const struct history_use *use = &uses->items[i];
        if (use->resource[0] == '\0')
            continue;
        struct timeline_lane *lane = &lanes->lanes[lanes->lane_count - (lanes->lane_count > 0)];
        if (lanes->lane_count == 0 || strcmp(lane->resource, use->resource) != 0) {
            lane = &lanes->lanes[lanes->lane_count++];
            *lane = (struct timeline_lane){.resource = use->resource, .first_bar = i};
        }
        lane->holds++;
        lane->unusual += is_unusual(use);
    }
    if (lanes->lane_count > lanes_max) {
        qsort(lanes->lanes, lanes->lane_count, sizeof *lanes->lanes, compare_importance);
        lanes->lanes_left_out = lanes->lane_count - lanes_max;
        lanes->lane_count = lanes_max;
    }
    qsort(lanes->lanes, lanes->lane_count, sizeof *lanes->lanes, compare_names);
}

/* How far apart bars may be that become one, and whether any may or only those of one process with nothing unusual. */
struct merging {
    int64_t gap_us; /* -1 = none */
    bool takes_all;
};

static bool may_merge(const struct timeline_bar *bar, const struct history_use *use, const struct merging *merging)
{
    const struct history_hold *one = bar->use->hold, *other = use->hold;
    if (merging->gap_us < 0 || other->from.us - bar->to.us > merging->gap_us)
        return false;
    return merging->takes_all || (bar->unusual == 0 && !is_unusual(use) && strcmp(one->process, other->process) == 0 &&
                                  one->is_locked == other->is_locked);
}

static struct timeline_bar bar_merged(struct timeline_bar bar, const struct history_use *use)
{
    bar.to = use->hold->to.us > bar.to.us ? use->hold->to : bar.to;
    bar.holds++;
    bar.unusual += is_unusual(use);
    bar.is_mixed |= strcmp(bar.use->hold->process, use->hold->process) != 0;
    return bar;
}

/* The bars of one lane, to `bars` unless it is NULL; returns their number. */
static size_t lane_fill(const struct timeline_lane *lane, const struct history_use *uses, const struct merging *merging,
                        struct timeline_bar *bars)
{
    struct timeline_bar bar = {0};
    size_t count = 0;
    for (size_t i = 0; i < lane->holds; i++) {
        const struct history_use *use = &uses[i];
        if (count > 0 && may_merge(&bar, use, merging)) {
            bar = bar_merged(bar, use);
        } else {
            bar = (struct timeline_bar){
                .use = use, .from = use->hold->from, .to = use->hold->to, .holds = 1, .unusual = is_unusual(use)};
            count++;
        }
        if (bars != NULL)
            bars[count - 1] = bar;
    }
    return count;
}

static size_t bars_count(const struct timeline_lanes *lanes, const struct history_uses *uses,
                         const struct merging *merging)
{
    size_t count = 0;
    for (size_t i = 0; i < lanes->lane_count; i++)
        count += lane_fill(&lanes->lanes[i], &uses->items[lanes->lanes[i].first_bar], merging, NULL);
    return count;
}

static int64_t span_of(const struct history_uses *uses)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t i = 0; i < uses->count; i++) {
        const struct history_hold *hold = uses->items[i].hold;
        from = hold->from.us < from ? hold->from.us : from;
        to = hold->to.us > to ? hold->to.us : to;
    }
    return uses->count > 0 ? to - from : 0;
}

/* None, then gently up to gaps that the eye would see, then whatever it takes: a gap of the whole span leaves one bar a
 * lane. */
static struct merging merging_find(const struct timeline_lanes *lanes, const struct history_uses *uses, size_t bars_max)
{
    struct merging merging = {.gap_us = -1};
    int64_t span_us = span_of(uses);
    while (bars_count(lanes, uses, &merging) > bars_max && (!merging.takes_all || merging.gap_us < span_us)) {
        merging.gap_us = merging.gap_us < 0 ? FIRST_GAP_US : 4 * merging.gap_us;
        if (!merging.takes_all && merging.gap_us > span_us / SMALLEST_SHARE)
            merging = (struct merging){.gap_us = FIRST_GAP_US, .takes_all = true};
    }
    return merging;
}

static void rows_assign(struct timeline_lane *lane, struct timeline_bar *bars)
{
    int64_t busy_until[TIMELINE_ROWS_MAX];
    for (unsigned row = 0; row < TIMELINE_ROWS_MAX; row++)
        busy_until[row] = INT64_MIN;
    lane->rows = 1;
    for (size_t i = 0; i < lane->bar_count; i++) {
        struct timeline_bar *bar = &bars[lane->first_bar + i];
        while (bar->row + 1 < TIMELINE_ROWS_MAX && busy_until[bar->row] > bar->from.us)
            bar->row++;
        if (bar->to.us > busy_until[bar->row])
            busy_until[bar->row] = bar->to.us;
        lane->rows = bar->row + 1 > lane->rows ? bar->row + 1 : lane->rows;
    }
}

static void bars_make(struct timeline_lanes *lanes, const struct history_uses *uses, const struct merging *merging)
{
    lanes->bars = memory_zeroed(bars_count(lanes, uses, merging) + 1, sizeof *lanes->bars);
    for (size_t i = 0; i < lanes->lane_count; i++) {
        struct timeline_lane *lane = &lanes->lanes[i];
        struct timeline_bar *bars = &lanes->bars[lanes->bar_count];
        lane->bar_count = lane_fill(lane, &uses->items[lane->first_bar], merging, bars);
        lane->first_bar = lanes->bar_count;
        lanes->bar_count += lane->bar_count;
        for (size_t j = 0; j < lane->bar_count; j++)
            lanes->merged += bars[j].holds > 1 ? bars[j].holds : 0;
        rows_assign(lane, lanes->bars);
    }
}

struct timeline_lanes timeline_lanes_of(const struct history_uses *uses, size_t lanes_max, size_t bars_max)
{
    struct timeline_lanes lanes = {0};
    lanes_choose(&lanes, uses, lanes_max);
    struct merging merging = merging_find(&lanes, uses, bars_max);
    bars_make(&lanes, uses, &merging);
    return lanes;
}

void timeline_lanes_fini(struct timeline_lanes *lanes)
{
    free(lanes->lanes);
    free(lanes->bars);
    *lanes = (struct timeline_lanes){0};
}

/* --- the page ---------------------------------------------------------------------------------------------------- */

/* Of a page; parts share the bars and the marks evenly. A bar takes some 250 bytes. */
enum { PARTS_MAX = 12, LANES_MAX = 48, BARS_MAX = 9000, MARKS_MAX = 2400, PROCESSES_MAX = 24 };
enum { ROWS_MAX = 100, EVENTS_MAX = 200, FACTS_MAX = 200 };

/* One part, with what was made of it. */
struct part {
    const struct history *history;
    const struct history_part *it;
    size_t number, count; /* of so many */
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
    part.sums = history_sums_of(history, number);
    const struct history_mark *marks = history_marks(history, &all);
    part.marks = items_find(&part, marks, sizeof *marks, all, &part.mark_count);
    const struct history_fact *facts = history_facts(history, &all);
    part.facts = items_find(&part, facts, sizeof *facts, all, &part.fact_count);
    part.facts_left_out = part.fact_count > FACTS_MAX ? part.fact_count - FACTS_MAX : 0;
    part.fact_count -= part.facts_left_out;
    return part;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static int compare_texts(const void *first, const void *second)
{
    return strverscmp(*(const char *const *)first, *(const char *const *)second);
}

/* Those that held something, with the times of their first and last signs of life, as far as known. Returns whether
 * there are more. */
static bool processes_json(struct json_writer *json, const struct part *part)
{
    const char *names[PROCESSES_MAX];
    bool has_more = false;
    size_t count = 0, life_count;
    const struct history_process *lives = history_processes(part->history, &life_count);
    for (size_t i = 0, j; i < part->sums.uses.count; i++) {
        const char *name = part->sums.uses.items[i].hold->process;
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
    json_text(json, "process", bar->is_mixed ? NULL : bar->use->hold->process);
    json_number(json, "holds", (int64_t)bar->holds);
    truth_json(json, "unlocked", !bar->use->hold->is_locked);
    truth_json(json, "overlaps", bar->use->overlaps);
    if (bar->holds == 1)
        hold_json(json, bar->use->hold);
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
    struct timeline_lanes lanes = timeline_lanes_of(&part->sums.uses, LANES_MAX, BARS_MAX / part->count);
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
        history_sums_fini(&part.sums);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    if (all > shown)
        buffer_format(&text, "\n%zu more parts are not shown.\n", all - shown);
    page_write(
        &(struct page){
            .title = title, .text = buffer_text(&text), .json = buffer_text(&data), .script = "timeline_page.js"},
        out);
    buffer_fini(&text);
    buffer_fini(&data);
}
