/* Choosing lanes, then merging bars: the same pass counts how many bars a gap would leave, and makes them. */
#include "worker/history/timeline_lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Bars nearer than that share of the span look like one anyway. */
enum { FIRST_GAP_US = 1, SMALLEST_SHARE = 1000 };

/* While lanes are chosen, `first_bar` of a lane is the first of its places. */

/* Lost, refused, overlapping, or without an end. */
static bool is_unusual(const struct history_place *place)
{
    const struct history_hold *hold = place->hold;
    return place->overlaps || hold->is_lost || hold->is_refused || hold->is_open;
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

static void lanes_choose(struct timeline_lanes *lanes, const struct history_places *places, size_t lanes_max)
{
    lanes->lanes = memory_zeroed(places->count + 1, sizeof *lanes->lanes);
    for (size_t i = 0; i < places->count; i++) {
        const struct history_place *place = &places->items[i];
        if (place->resource[0] == '\0')
            continue;
        struct timeline_lane *lane = &lanes->lanes[lanes->lane_count - (lanes->lane_count > 0)];
        if (lanes->lane_count == 0 || strcmp(lane->resource, place->resource) != 0) {
            lane = &lanes->lanes[lanes->lane_count++];
            *lane = (struct timeline_lane){.resource = place->resource, .first_bar = i};
        }
        lane->holds++;
        lane->unusual += is_unusual(place);
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

static bool may_merge(const struct timeline_bar *bar, const struct history_place *place, const struct merging *merging)
{
    const struct history_hold *one = bar->place->hold, *other = place->hold;
    if (merging->gap_us < 0 || other->from.us - bar->to.us > merging->gap_us)
        return false;
    return merging->takes_all || (bar->unusual == 0 && !is_unusual(place) &&
                                  strcmp(one->process, other->process) == 0 && one->is_locked == other->is_locked);
}

static struct timeline_bar bar_merged(struct timeline_bar bar, const struct history_place *place)
{
    bar.to = place->hold->to.us > bar.to.us ? place->hold->to : bar.to;
    bar.holds++;
    bar.unusual += is_unusual(place);
    bar.is_mixed |= strcmp(bar.place->hold->process, place->hold->process) != 0;
    return bar;
}

/* The bars of one lane, to `bars` unless it is NULL; returns their number. */
static size_t lane_fill(const struct timeline_lane *lane, const struct history_place *places,
                        const struct merging *merging, struct timeline_bar *bars)
{
    struct timeline_bar bar = {0};
    size_t count = 0;
    for (size_t i = 0; i < lane->holds; i++) {
        const struct history_place *place = &places[i];
        if (count > 0 && may_merge(&bar, place, merging)) {
            bar = bar_merged(bar, place);
        } else {
            bar = (struct timeline_bar){.place = place,
                                        .from = place->hold->from,
                                        .to = place->hold->to,
                                        .holds = 1,
                                        .unusual = is_unusual(place)};
            count++;
        }
        if (bars != NULL)
            bars[count - 1] = bar;
    }
    return count;
}

static size_t bars_count(const struct timeline_lanes *lanes, const struct history_places *places,
                         const struct merging *merging)
{
    size_t count = 0;
    for (size_t i = 0; i < lanes->lane_count; i++)
        count += lane_fill(&lanes->lanes[i], &places->items[lanes->lanes[i].first_bar], merging, NULL);
    return count;
}

static int64_t span_of(const struct history_places *places)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t i = 0; i < places->count; i++) {
        const struct history_hold *hold = places->items[i].hold;
        from = hold->from.us < from ? hold->from.us : from;
        to = hold->to.us > to ? hold->to.us : to;
    }
    return places->count > 0 ? to - from : 0;
}

/* None, then gently up to gaps that the eye would see, then whatever it takes: a gap of the whole span leaves one bar a
 * lane. */
static struct merging merging_find(const struct timeline_lanes *lanes, const struct history_places *places,
                                   size_t bars_max)
{
    struct merging merging = {.gap_us = -1};
    int64_t span_us = span_of(places);
    while (bars_count(lanes, places, &merging) > bars_max && (!merging.takes_all || merging.gap_us < span_us)) {
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

static void bars_make(struct timeline_lanes *lanes, const struct history_places *places, const struct merging *merging)
{
    lanes->bars = memory_zeroed(bars_count(lanes, places, merging) + 1, sizeof *lanes->bars);
    for (size_t i = 0; i < lanes->lane_count; i++) {
        struct timeline_lane *lane = &lanes->lanes[i];
        struct timeline_bar *bars = &lanes->bars[lanes->bar_count];
        lane->bar_count = lane_fill(lane, &places->items[lane->first_bar], merging, bars);
        lane->first_bar = lanes->bar_count;
        lanes->bar_count += lane->bar_count;
        for (size_t j = 0; j < lane->bar_count; j++)
            lanes->merged += bars[j].holds > 1 ? bars[j].holds : 0;
        rows_assign(lane, lanes->bars);
    }
}

struct timeline_lanes timeline_lanes_of(const struct history_places *places, size_t lanes_max, size_t bars_max)
{
    struct timeline_lanes lanes = {0};
    lanes_choose(&lanes, places, lanes_max);
    struct merging merging = merging_find(&lanes, places, bars_max);
    bars_make(&lanes, places, &merging);
    return lanes;
}

void timeline_lanes_fini(struct timeline_lanes *lanes)
{
    free(lanes->lanes);
    free(lanes->bars);
    *lanes = (struct timeline_lanes){0};
}
