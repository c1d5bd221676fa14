/* The page around the figures: what was found out, the tables, and the note about what is not shown. */
#include "worker/history/timeline_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "worker/history/history_sums.h"
#include "worker/history/timeline_lanes.h"
#include "worker/print/markup.h"
#include "worker/print/page_frame.h"

/* --- the look ----------------------------------------------------------------------------------------------------- */

/* The style and the script of a page with timelines, as they stand in it. */
/* How a page with timelines looks, beside what all pages have (page_frame.h), and what it can do. Without the script
 * all is there but the details at the keyboard and the zoom: bars have titles. */

/* So many processes have colours of their own, p0 to p7; p8 is that of all others. */
enum { TIMELINE_COLOURS = 8, TIMELINE_ROW_HEIGHT = 14, TIMELINE_ROW_GAP = 8, TIMELINE_AXIS_HEIGHT = 22 };

extern const char timeline_style[];
extern const char timeline_script[];

const char timeline_style[] =
    ".plot{display:flex;border:1px solid var(--line);border-radius:6px;overflow:hidden;background:var(--card)}"
    ".names{flex:0 0 11rem;font-size:12px;border-right:1px solid var(--line)}"
    ".names div{box-sizing:border-box;padding:1px .5rem;overflow:hidden;white-space:nowrap;text-overflow:ellipsis}"
    ".scroll{flex:1 1 auto;overflow-x:auto;min-width:0}\n"
    ".life{stroke:var(--soft)}"
    ".event{stroke:var(--soft);stroke-dasharray:3 3}.frozen{fill:var(--soft);fill-opacity:.35}"
    ".lane:focus,.scroll:focus{outline:2px solid var(--p0);outline-offset:-2px}"
    ".names .lost,.bad-mark{fill:var(--bad)}.mark{fill:var(--text)}.mark-line{stroke:var(--bad);stroke-width:2}\n"
    "rect.b{fill:var(--c);stroke:var(--c);stroke-width:.7}rect.u{fill-opacity:.35}rect.h{fill-opacity:.8}"
    "rect.o{stroke:var(--bad);stroke-width:2}rect.l{stroke:var(--bad);stroke-dasharray:3 2;stroke-width:2}"
    "rect.sel{stroke:var(--text);stroke-width:3;stroke-dasharray:none}"
    ".tools button{font:inherit;padding:.05rem .7rem;margin-right:.3rem}"
    ".about{display:block;min-height:1.6em;font-size:.9rem;margin:.2rem 0}\n"
    "@media print{.tools,.about{display:none}.scroll{overflow:visible}svg{width:100% !important}"
    ".plot{break-inside:avoid}}\n";

const char timeline_script[] =
    "'use strict';\n"
    "for (const part of document.querySelectorAll('section')) {\n"
    "    const about = part.querySelector('.about'), svg = part.querySelector('svg');\n"
    "    if (!svg) continue;\n"
    "    const scroll = svg.parentNode;\n"
    "    let shown = null, scale = 1;\n"
    "    const show = (thing) => {\n"
    "        const title = thing && thing.querySelector('title');\n"
    "        if (!title) return;\n"
    "        if (shown) shown.classList.remove('sel');\n"
    "        shown = thing;\n"
    "        shown.classList.add('sel');\n"
    "        about.textContent = title.textContent;\n"
    "    };\n"
    "    const zoom = (factor) => {\n"
    "        const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scroll.scrollWidth;\n"
    "        scale = Math.min(64, Math.max(1, factor ? scale * factor : 1));\n"
    "        svg.style.width = 100 * scale + '%';\n"
    "        scroll.scrollLeft = middle * scroll.scrollWidth - scroll.clientWidth / 2;\n"
    "    };\n"
    "    svg.addEventListener('mouseover', (event) => show(event.target.closest('rect,use,line')));\n"
    "    svg.addEventListener('click', (event) => show(event.target.closest('rect,use,line')));\n"
    "    for (const button of part.querySelectorAll('button'))\n"
    "        button.addEventListener('click', () => zoom(Number(button.dataset.zoom)));\n"
    "    part.addEventListener('keydown', (event) => {\n"
    "        const lane = event.target.closest('.lane');\n"
    "        if (event.key === '+' || event.key === '-') zoom(event.key === '+' ? 2 : 0.5);\n"
    "        else if (lane && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) {\n"
    "            const bars = [...lane.querySelectorAll('rect.b')], at = bars.indexOf(shown);\n"
    "            const next = event.key === 'Home' ? 0 : event.key === 'End' ? bars.length - 1\n"
    "                : event.key === 'ArrowRight' ? Math.min(at + 1, bars.length - 1) : Math.max(at - 1, 0);\n"
    "            show(bars[next]);\n"
    "            if (bars[next]) bars[next].scrollIntoView({block: 'nearest', inline: 'nearest'});\n"
    "        } else return;\n"
    "        event.preventDefault();\n"
    "    });\n"
    "}\n";

/* --- the figure --------------------------------------------------------------------------------------------------- */

/* The figure of one part: processes and what was done to them, then the lanes of the resources, as SVG with its names
 * beside it. Positions are per cents of its width, so it grows with the page and with the zoom. */
/* Drawing a part: what to draw is chosen first (struct figure), then the names and the SVG are written from the same
 * rows, so that they stand beside each other. */

struct timeline_limits {
    size_t lanes, bars, marks, processes; /* at most so many in one figure */
};

enum { ROW = TIMELINE_ROW_HEIGHT, GAP = TIMELINE_ROW_GAP, AXIS = TIMELINE_AXIS_HEIGHT, TICKS_MAX = 12 };

struct figure {
    const struct history *history;
    const struct timeline_limits *limits;
    struct timeline_lanes lanes;
    struct wall_time from, to; /* `from` is where the part begins */
    const char **processes;    /* in the order of their rows */
    size_t process_count, processes_left_out;
    const struct history_mark *marks; /* of this part */
    size_t mark_count, marks_drawn, marks_left_out;
    bool has_nodes;
    unsigned height;
};

/* --- what to draw ----------------------------------------------------------------------------------------------- */

static int compare_texts(const void *first, const void *second)
{
    return strverscmp(*(const char *const *)first, *(const char *const *)second);
}

static bool knows_process(const struct figure *figure, const char *process)
{
    for (size_t i = figure->process_count; i > 0; i--)
        if (figure->processes[i - 1] == process)
            return true;
    return false;
}

static void processes_collect(struct figure *figure, const struct history_places *places)
{
    size_t most = figure->limits->processes;
    const char *last = NULL;
    figure->processes = memory_zeroed(most + 1, sizeof *figure->processes);
    for (size_t i = 0; i < places->count; i++) {
        const char *process = places->items[i].hold->process;
        if (process == last || knows_process(figure, process))
            continue;
        last = process;
        if (figure->process_count < most)
            figure->processes[figure->process_count++] = process;
        else
            figure->processes_left_out++;
    }
    if (figure->process_count > 1)
        qsort(figure->processes, figure->process_count, sizeof *figure->processes, compare_texts);
}

static void marks_find(struct figure *figure, size_t part)
{
    size_t count, part_count, i = 0;
    const struct history_mark *marks = history_marks(figure->history, &count);
    const struct history_part *parts = history_parts(figure->history, &part_count);
    while (i < count && marks[i].at.us < parts[part].from.us)
        i++;
    figure->marks = marks != NULL ? &marks[i] : NULL;
    for (; i < count && marks[i].at.us < history_part_end(figure->history, part).us; i++) {
        figure->mark_count++;
        figure->has_nodes |= marks[i].node[0] != '\0';
    }
}

static void to_widen(struct figure *figure, struct wall_time to)
{
    figure->to.us = to.us > figure->to.us ? to.us : figure->to.us;
}

/* From the beginning of the part, as the list of what happened counts: one zero for all of it. */
static void span_find(struct figure *figure, size_t part, const struct history_places *places)
{
    size_t part_count;
    figure->from = history_parts(figure->history, &part_count)[part].from;
    figure->to.us = figure->from.us + 1;
    for (size_t i = 0; i < places->count; i++)
        to_widen(figure, places->items[i].hold->to);
    for (size_t i = 0; i < figure->mark_count; i++)
        to_widen(figure, figure->marks[i].at);
}

static unsigned lane_height(const struct timeline_lane *lane)
{
    return lane->rows * ROW + GAP;
}

static unsigned height_of(const struct figure *figure)
{
    size_t height = AXIS + (figure->process_count + figure->has_nodes) * (ROW + GAP);
    for (size_t i = 0; i < figure->lanes.lane_count; i++)
        height += lane_height(&figure->lanes.lanes[i]);
    return (unsigned)height;
}

/* --- pieces ----------------------------------------------------------------------------------------------------- */

static double place_of(const struct figure *figure, struct wall_time at)
{
    double share = (double)(at.us - figure->from.us) / (double)(figure->to.us - figure->from.us);
    return 100 * (share < 0 ? 0 : share > 1 ? 1 : share);
}

static double seconds_in(const struct figure *figure, struct wall_time at)
{
    return (double)(at.us - figure->from.us) / (double)US_PER_S;
}

/* The colour of a process, the same in the whole figure. */
static unsigned colour_of(const struct figure *figure, const char *process)
{
    for (unsigned i = 0; i < figure->process_count && i < TIMELINE_COLOURS; i++)
        if (figure->processes[i] == process)
            return i;
    return TIMELINE_COLOURS;
}

/* `style` is ours, the text below it is not. */
static void name_write(struct buffer *out, unsigned height, const char *text)
{
    buffer_format(out, "<div style=\"height:%upx;line-height:%upx\" title=\"", height, height);
    markup_text(out, text);
    buffer_append_text(out, "\">");
    markup_text(out, text);
    buffer_append_text(out, "</div>");
}

static void mark_title(const struct figure *figure, const struct history_mark *mark, struct buffer *out)
{
    buffer_append_text(out, "<title>");
    markup_format(out, "%s%s%s%s%s%s%s at %.3f s%s%s%s%s", mark->kind, mark->process[0] != '\0' ? " " : "",
                  mark->process, mark->node[0] != '\0' ? " " : "", mark->node, mark->resource[0] != '\0' ? " " : "",
                  mark->resource, seconds_in(figure, mark->at), mark->jid[0] != '\0' ? ", task " : "", mark->jid,
                  mark->text[0] != '\0' ? ": " : "", mark->text);
    buffer_append_text(out, "</title>");
}

static const char *symbol_of(const char *kind)
{
    static const struct {
        const char *kind, *symbol;
    } symbols[] = {{"killed", "cross"}, {"lost", "cross"}, {"refused", "stop"}, {"frozen", "bars"}, {"wiped", "ring"}};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (strcmp(kind, symbols[i].kind) == 0)
            return symbols[i].symbol;
    return "dot";
}

static void mark_draw(struct figure *figure, const struct history_mark *mark, unsigned y, struct buffer *out)
{
    if (figure->marks_drawn == figure->limits->marks) {
        figure->marks_left_out++;
        return;
    }
    figure->marks_drawn++;
    buffer_format(out, "<use href=\"#%s\" x=\"%.4f%%\" y=\"%u\">", symbol_of(mark->kind), place_of(figure, mark->at),
                  y);
    mark_title(figure, mark, out);
    buffer_append_text(out, "</use>\n");
}

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* From each "frozen" to the next "resumed", or to the end. */
static void freezes_draw(const struct figure *figure, const char *process, unsigned y, struct buffer *out)
{
    const struct history_mark *since = NULL;
    for (size_t i = 0; i <= figure->mark_count; i++) {
        const struct history_mark *mark = i < figure->mark_count ? &figure->marks[i] : NULL;
        if (mark != NULL && !history_names_process(mark->process, process))
            continue;
        if (since == NULL && mark != NULL && strcmp(mark->kind, "frozen") == 0) {
            since = mark;
        } else if (since != NULL && (mark == NULL || strcmp(mark->kind, "resumed") == 0)) {
            double x = place_of(figure, since->at), end = mark != NULL ? place_of(figure, mark->at) : 100;
            buffer_format(out, "<rect class=\"frozen\" x=\"%.4f%%\" y=\"%u\" width=\"%.4f%%\" height=\"%d\">", x, y,
                          end - x, ROW);
            buffer_append_text(out, "<title>");
            markup_format(out, "%s stood still from %.3f s to %.3f s", process, seconds_in(figure, since->at),
                          seconds_in(figure, mark != NULL ? mark->at : figure->to));
            buffer_append_text(out, "</title></rect>\n");
            since = NULL;
        }
    }
}

/* What was done to it, not what became of its holds. */
static bool is_about_process(const struct history_mark *mark)
{
    return mark->resource[0] == '\0' && mark->jid[0] == '\0';
}

/* A host's next process has the same name up to its pid: what was done while this one was not there is not its own. */
static bool lives_at(const struct history_process *life, struct wall_time at)
{
    return life == NULL || (at.us >= life->from.us && at.us <= life->to.us + US_PER_S);
}

static const struct history_process *life_of(const struct figure *figure, const char *process)
{
    size_t count;
    const struct history_process *lives = history_processes(figure->history, &count);
    for (size_t i = 0; i < count; i++)
        if (lives[i].name == process)
            return &lives[i];
    return NULL;
}

static void process_draw(struct figure *figure, const char *process, unsigned y, struct buffer *out)
{
    const struct history_process *life = life_of(figure, process);
    buffer_format(out, "<line class=\"life\" x1=\"%.4f%%\" x2=\"%.4f%%\" y1=\"%u\" y2=\"%u\"/>",
                  life != NULL ? place_of(figure, life->from) : 0, life != NULL ? place_of(figure, life->to) : 100,
                  y + GAP / 2 + ROW / 2, y + GAP / 2 + ROW / 2);
    freezes_draw(figure, process, y + GAP / 2, out);
    for (size_t i = 0; i < figure->mark_count; i++) {
        const struct history_mark *mark = &figure->marks[i];
        if (is_about_process(mark) && history_names_process(mark->process, process) && lives_at(life, mark->at) &&
            strcmp(mark->kind, "resumed") != 0)
            mark_draw(figure, mark, y + GAP / 2 + ROW / 2, out);
    }
}

static void nodes_draw(struct figure *figure, unsigned y, struct buffer *out)
{
    for (size_t i = 0; i < figure->mark_count; i++)
        if (figure->marks[i].node[0] != '\0')
            mark_draw(figure, &figure->marks[i], y + GAP / 2 + ROW / 2, out);
}

static void bar_title(const struct figure *figure, const struct timeline_bar *bar, struct buffer *out)
{
    const struct history_hold *hold = bar->place->hold;
    buffer_append_text(out, "<title>");
    markup_format(out, "%s: ", bar->is_mixed ? "several processes" : hold->process);
    if (bar->unusual > 0 && bar->holds > 1)
        markup_format(out, "%zu holds, %zu of them lost, refused, open or overlapping, ", bar->holds, bar->unusual);
    else if (bar->holds > 1)
        markup_format(out, "%zu %s, ", bar->holds, hold->is_locked ? "holds" : "runs without a lock");
    else
        markup_format(out, "%s %s, %s%s%s%s, ", hold->class_name, hold->jid,
                      hold->is_locked ? "held" : "ran without a lock", hold->fence[0] != '\0' ? " under token " : "",
                      hold->fence, hold->is_handed_over ? ", handed over" : "");
    markup_format(out, "%.3f s to %.3f s (%.0f ms)", seconds_in(figure, bar->from), seconds_in(figure, bar->to),
                  (double)(bar->to.us - bar->from.us) / 1000);
    if (bar->holds == 1 && hold->waited_us >= 0)
        markup_format(out, ", waited %.1f ms", (double)hold->waited_us / 1000);
    if (bar->holds == 1)
        markup_format(out, "%s%s%s%s%s%s", hold->is_lost ? ", lock lost" : "",
                      hold->is_refused ? ", write refused" : "",
                      bar->place->overlaps ? ", while another was at it" : "", hold->is_open ? ", end not seen" : "",
                      hold->ending[0] != '\0' ? ", ended as " : "", hold->ending);
    buffer_append_text(out, "</title>");
}

static void bar_draw(const struct figure *figure, const struct timeline_bar *bar, unsigned y, struct buffer *out)
{
    const struct history_hold *hold = bar->place->hold;
    double x = place_of(figure, bar->from);
    buffer_format(out, "<rect class=\"b p%u%s%s%s%s\" x=\"%.4f%%\" y=\"%u\" width=\"%.4f%%\" height=\"%d\">",
                  bar->is_mixed ? TIMELINE_COLOURS : colour_of(figure, hold->process), hold->is_locked ? "" : " u",
                  bar->holds == 1 && hold->is_handed_over ? " h" : "",
                  bar->place->overlaps || (bar->holds > 1 && bar->unusual > 0) ? " o" : "",
                  bar->holds == 1 && (hold->is_lost || hold->is_open) ? " l" : "", x, y, place_of(figure, bar->to) - x,
                  ROW - 3);
    bar_title(figure, bar, out);
    buffer_append_text(out, "</rect>\n");
}

static void lane_draw(struct figure *figure, const struct timeline_lane *lane, unsigned y, struct buffer *out)
{
    buffer_append_text(out, "<g class=\"lane\" tabindex=\"0\" role=\"group\" aria-label=\"");
    markup_format(out, "%s, %zu holds", lane->resource, lane->holds);
    buffer_append_text(out, "\">\n");
    for (size_t i = 0; i < lane->bar_count; i++) {
        const struct timeline_bar *bar = &figure->lanes.bars[lane->first_bar + i];
        bar_draw(figure, bar, y + GAP / 2 + bar->row * ROW, out);
    }
    for (size_t i = 0; i < figure->mark_count; i++)
        if (figure->marks[i].resource == lane->resource)
            mark_draw(figure, &figure->marks[i], y + GAP / 2 + ROW / 2, out);
    buffer_append_text(out, "</g>\n");
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

/* The smallest of 1, 2, 5 times a power of ten, in microseconds, that gives at most TICKS_MAX steps. */
static int64_t tick_of(int64_t span_us)
{
    static const int64_t factors[] = {1, 2, 5};
    for (int64_t power = 1; power <= INT64_MAX / 100; power *= 10)
        for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
            if (span_us / (power * factors[i]) <= TICKS_MAX)
                return power * factors[i];
    return INT64_MAX;
}

static void axis_draw(const struct figure *figure, struct buffer *out)
{
    int64_t span_us = figure->to.us - figure->from.us, tick_us = tick_of(span_us);
    for (int64_t at = 0; at <= span_us; at += tick_us) {
        double x = place_of(figure, (struct wall_time){figure->from.us + at});
        buffer_format(out, "<line class=\"grid\" x1=\"%.4f%%\" x2=\"%.4f%%\" y1=\"0\" y2=\"%u\"/>", x, x,
                      figure->height);
        if (at + tick_us / 2 < span_us)
            buffer_format(out, "<text x=\"%.4f%%\" dx=\"3\" y=\"14\">%g s</text>\n", x, (double)at / (double)US_PER_S);
    }
}

/* A line through all lanes at each moment at which something was done. */
static void moments_draw(const struct figure *figure, struct buffer *out)
{
    size_t drawn = 0;
    for (size_t i = 0; i < figure->mark_count && drawn < figure->limits->marks; i++) {
        const struct history_mark *mark = &figure->marks[i];
        if (!is_about_process(mark))
            continue;
        double x = place_of(figure, mark->at);
        buffer_format(out, "<line class=\"event\" x1=\"%.4f%%\" x2=\"%.4f%%\" y1=\"%d\" y2=\"%u\">", x, x, AXIS,
                      figure->height);
        mark_title(figure, mark, out);
        buffer_append_text(out, "</line>\n");
        drawn++;
    }
}

static void names_write(const struct figure *figure, struct buffer *out)
{
    buffer_append_text(out, "<div class=\"names\">");
    name_write(out, AXIS, "");
    for (size_t i = 0; i < figure->process_count; i++)
        name_write(out, ROW + GAP, figure->processes[i]);
    if (figure->has_nodes)
        name_write(out, ROW + GAP, "nodes");
    for (size_t i = 0; i < figure->lanes.lane_count; i++)
        name_write(out, lane_height(&figure->lanes.lanes[i]), figure->lanes.lanes[i].resource);
    buffer_append_text(out, "</div>\n");
}

static void rows_draw(struct figure *figure, struct buffer *out)
{
    unsigned y = AXIS;
    for (size_t i = 0; i < figure->process_count; i++, y += ROW + GAP)
        process_draw(figure, figure->processes[i], y, out);
    if (figure->has_nodes) {
        nodes_draw(figure, y, out);
        y += ROW + GAP;
    }
    for (size_t i = 0; i < figure->lanes.lane_count; i++) {
        lane_draw(figure, &figure->lanes.lanes[i], y, out);
        y += lane_height(&figure->lanes.lanes[i]);
    }
}

static void legend_write(const struct figure *figure, struct buffer *out)
{
    buffer_append_text(out, "<p class=\"legend soft\">");
    for (size_t i = 0; i < figure->process_count && i < TIMELINE_COLOURS; i++) {
        buffer_format(out, "<span><span class=\"key p%zu\"></span>", i);
        markup_text(out, figure->processes[i]);
        buffer_append_text(out, "</span> ");
    }
    buffer_append_text(out, "<span>pale: without a lock</span> <span>red frame: while another was at it</span> "
                            "<span>red dashes: its lock was lost, or nobody saw its end</span></p>\n");
}

static void left_out_write(const struct figure *figure, struct buffer *note)
{
    const struct timeline_lanes *lanes = &figure->lanes;
    if (lanes->lanes_left_out > 0)
        buffer_format(note, "%zu resources with less to see are not shown. ", lanes->lanes_left_out);
    if (lanes->merged > 0)
        buffer_format(note, "%zu short holds lie so close together that they share bars. ", lanes->merged);
    if (figure->marks_left_out > 0)
        buffer_format(note, "%zu marks are not shown. ", figure->marks_left_out);
    if (figure->processes_left_out > 0)
        buffer_append_text(note, "Not all processes have a row of their own. ");
}

/* What the figure does not show, in words for a note below it; nothing when it shows all. */
static void timeline_figure_write(const struct history *history, size_t part, const struct history_places *places,
                                  const struct timeline_limits *limits, struct buffer *out, struct buffer *note)
{
    struct figure figure = {.history = history, .limits = limits};
    figure.lanes = timeline_lanes_of(places, limits->lanes, limits->bars);
    processes_collect(&figure, places);
    marks_find(&figure, part);
    span_find(&figure, part, places);
    figure.height = height_of(&figure);
    legend_write(&figure, out);
    buffer_append_text(out, "<div class=\"plot\">");
    names_write(&figure, out);
    buffer_format(out, "<div class=\"scroll\"><svg height=\"%u\" role=\"group\" aria-label=\"who held what when\">\n",
                  figure.height);
    axis_draw(&figure, out);
    moments_draw(&figure, out);
    rows_draw(&figure, out);
    buffer_append_text(out, "</svg></div></div>\n");
    left_out_write(&figure, note);
    free(figure.processes);
    timeline_lanes_fini(&figure.lanes);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

/* Of a page; parts share the bars and the marks evenly. A bar takes some 250 bytes. */
enum { PARTS_MAX = 12, LANES_MAX = 48, BARS_MAX = 9000, MARKS_MAX = 2400, PROCESSES_MAX = 24 };
enum { ROWS_MAX = 100, EVENTS_MAX = 200, FACTS_MAX = 60 };

static const char symbols[] =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
    "<g id=\"cross\"><path class=\"mark-line\" d=\"M-5 -5L5 5M-5 5L5 -5\"/></g>"
    "<g id=\"stop\"><circle class=\"bad-mark\" r=\"5\"/><path stroke=\"#fff\" stroke-width=\"2\" d=\"M-3 0H3\"/></g>"
    "<g id=\"bars\"><path class=\"mark\" d=\"M-4 -5h3v10h-3zM1 -5h3v10h-3z\"/></g>"
    "<g id=\"ring\"><circle class=\"mark-line\" r=\"4\" fill=\"none\"/></g>"
    "<g id=\"dot\"><circle class=\"mark\" r=\"3\"/></g></defs></svg>\n";

/* --- what was found out ----------------------------------------------------------------------------------------- */

static const char *const tones[] = {[HISTORY_PLAIN] = "", [HISTORY_GOOD] = "good", [HISTORY_BAD] = "bad"};

static const struct history_fact *fact_of(const struct history *history, size_t part, const char *name)
{
    size_t count, part_count;
    const struct history_fact *facts = history_facts(history, &count), *found = NULL;
    const struct history_part *parts = history_parts(history, &part_count);
    for (size_t i = 0; i < count; i++)
        if (facts[i].name == name && facts[i].at.us >= parts[part].from.us &&
            facts[i].at.us < history_part_end(history, part).us)
            found = &facts[i];
    return found;
}

/* The names in the order in which they came first. */
static size_t names_collect(const struct history *history, const char *names[FACTS_MAX])
{
    size_t count, name_count = 0;
    const struct history_fact *facts = history_facts(history, &count);
    for (size_t i = 0; i < count && name_count < FACTS_MAX; i++) {
        size_t j = 0;
        while (j < name_count && names[j] != facts[i].name)
            j++;
        if (j == name_count)
            names[name_count++] = facts[i].name;
    }
    return name_count;
}

static void fact_write(const struct history_fact *fact, struct buffer *out)
{
    enum history_tone tone = fact != NULL ? fact->tone : HISTORY_PLAIN;
    buffer_format(out, "<td class=\"%s\">%s", tones[tone],
                  tone == HISTORY_GOOD  ? "&#10003; "
                  : tone == HISTORY_BAD ? "&#10007; "
                                        : "");
    markup_text(out, fact != NULL ? fact->value : "");
    buffer_append_text(out, "</td>");
}

static void facts_write(const struct history *history, size_t part_count, struct buffer *out)
{
    const char *names[FACTS_MAX];
    size_t name_count = names_collect(history, names), known;
    const struct history_part *parts = history_parts(history, &known);
    if (name_count == 0)
        return;
    buffer_append_text(out, "<div class=\"wide\"><table><thead><tr><th></th>");
    for (size_t i = 0; i < part_count; i++) {
        buffer_append_text(out, "<th>");
        markup_text(out, parts[i].title);
        buffer_append_text(out, "</th>");
    }
    buffer_append_text(out, "</tr></thead><tbody>\n");
    for (size_t j = 0; j < name_count; j++) {
        buffer_append_text(out, "<tr><th>");
        markup_text(out, names[j]);
        buffer_append_text(out, "</th>");
        for (size_t i = 0; i < part_count; i++)
            fact_write(fact_of(history, i, names[j]), out);
        buffer_append_text(out, "</tr>\n");
    }
    buffer_append_text(out, "</tbody></table></div>\n");
}

/* --- sums ------------------------------------------------------------------------------------------------------- */

static void cell_write(struct buffer *out, uint64_t number, bool is_bad)
{
    buffer_format(out, "<td class=\"n%s\">%llu</td>", is_bad && number > 0 ? " bad" : "", (unsigned long long)number);
}

static void wait_write(struct buffer *out, const struct history_sum *sum, int64_t us)
{
    if (sum->waits > 0)
        buffer_format(out, "<td class=\"n\">%.1f ms</td>", (double)us / 1000);
    else
        buffer_append_text(out, "<td class=\"n\">-</td>");
}

static void sum_write(struct buffer *out, const struct history_sum *sum)
{
    buffer_append_text(out, "<tr><td>");
    markup_text(out, sum->class_name == NULL ? "all" : sum->class_name[0] != '\0' ? sum->class_name : "-");
    buffer_append_text(out, "</td><td>");
    markup_text(out, sum->resource == NULL ? "" : sum->resource[0] != '\0' ? sum->resource : "-");
    buffer_append_text(out, "</td>");
    cell_write(out, sum->holds, false);
    buffer_format(out, "<td class=\"n\">%.2f s</td>", (double)sum->held_us / (double)US_PER_S);
    wait_write(out, sum, sum->wait_p50_us);
    wait_write(out, sum, sum->wait_p99_us);
    cell_write(out, sum->handed_over, false);
    cell_write(out, sum->parked, false);
    cell_write(out, sum->skipped, false);
    cell_write(out, sum->lost, true);
    cell_write(out, sum->refused, false);
    cell_write(out, sum->overlaps, true);
    buffer_append_text(out, "</tr>\n");
}

static void sums_write(const struct history_sums *sums, struct buffer *out)
{
    buffer_append_text(out, "<h3>By class and resource</h3><div class=\"wide\"><table><thead><tr><th>class</th>"
                            "<th>resource</th><th class=\"n\">holds</th><th class=\"n\">held</th>"
                            "<th class=\"n\">wait p50</th><th class=\"n\">wait p99</th><th class=\"n\">handed over</th>"
                            "<th class=\"n\">parked</th><th class=\"n\">skipped</th><th class=\"n\">lost</th>"
                            "<th class=\"n\">refused</th><th class=\"n\">overlaps</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < sums->count && i < ROWS_MAX; i++)
        sum_write(out, &sums->rows[i]);
    sum_write(out, &sums->total);
    buffer_append_text(out, "</tbody></table></div>\n");
    if (sums->count > ROWS_MAX)
        buffer_format(out, "<p class=\"soft\">%zu more rows are not shown; they are in the last one.</p>\n",
                      sums->count - ROWS_MAX);
    if (history_overlaps_meaning(sums) != NULL)
        buffer_format(out, "<p>%s</p>\n", history_overlaps_meaning(sums));
    if (sums->total.unlocked > 0)
        buffer_format(out, "<p class=\"soft\">%llu of these ran without a lock.</p>\n",
                      (unsigned long long)sums->total.unlocked);
}

/* --- what happened ---------------------------------------------------------------------------------------------- */

static void event_write(const struct history_mark *mark, struct wall_time from, struct buffer *out)
{
    buffer_format(out, "<tr><td class=\"n\">%.3f s</td><td>", (double)(mark->at.us - from.us) / (double)US_PER_S);
    markup_text(out, mark->kind);
    const char *texts[] = {mark->process[0] != '\0' ? mark->process : mark->node, mark->resource, mark->jid,
                           mark->text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        buffer_append_text(out, "</td><td>");
        markup_text(out, texts[i]);
    }
    buffer_append_text(out, "</td></tr>\n");
}

static void events_write(const struct history *history, size_t part, struct wall_time from, struct buffer *out)
{
    size_t count, shown = 0, more = 0;
    const struct history_mark *marks = history_marks(history, &count);
    for (size_t i = 0; i < count; i++) {
        if (marks[i].at.us < from.us || marks[i].at.us >= history_part_end(history, part).us)
            continue;
        if (shown == 0)
            buffer_append_text(out, "<h3>What happened</h3><div class=\"wide\"><table><thead><tr>"
                                    "<th class=\"n\">at</th><th></th><th>process or node</th><th>resource</th>"
                                    "<th>task</th><th></th></tr></thead><tbody>\n");
        if (shown < EVENTS_MAX)
            event_write(&marks[i], from, out);
        more += shown >= EVENTS_MAX;
        shown++;
    }
    if (shown > 0)
        buffer_append_text(out, "</tbody></table></div>\n");
    if (more > 0)
        buffer_format(out, "<p class=\"soft\">%zu more are not shown.</p>\n", more);
}

/* --- the page --------------------------------------------------------------------------------------------------- */

static void part_write(const struct history *history, size_t part, size_t part_count, struct buffer *out)
{
    size_t known;
    const struct history_part *parts = history_parts(history, &known);
    struct timeline_limits limits = {LANES_MAX, BARS_MAX / part_count, MARKS_MAX / part_count, PROCESSES_MAX};
    struct history_places places = history_places_of(history, part);
    struct history_sums sums = history_sums_of(history, part, &places);
    struct buffer note = {0};
    buffer_append_text(out, "<section><h2>");
    markup_text(out, parts[part].title[0] != '\0' ? parts[part].title : "Who held what when");
    buffer_append_text(out,
                       "</h2>\n<p class=\"tools\"><button data-zoom=\"2\">closer</button>"
                       "<button data-zoom=\"0.5\">farther</button><button data-zoom=\"0\">all</button>"
                       "<span class=\"soft\">At a lane, the arrow keys go from bar to bar; + and - zoom.</span></p>\n");
    timeline_figure_write(history, part, &places, &limits, out, &note);
    buffer_append_text(out, "<output class=\"about\" aria-live=\"polite\">&#160;</output>\n");
    if (note.length > 0)
        buffer_format(out, "<p class=\"soft\">%s</p>\n", buffer_text(&note));
    sums_write(&sums, out);
    events_write(history, part, parts[part].from, out);
    buffer_append_text(out, "</section>\n");
    buffer_fini(&note);
    history_sums_fini(&sums);
    history_places_fini(&places);
}

static bool is_empty(const struct history *history, size_t part)
{
    size_t count;
    struct history_places places = history_places_of(history, part);
    const struct history_mark *marks = history_marks(history, &count);
    size_t part_count, found = places.count;
    const struct history_part *parts = history_parts(history, &part_count);
    for (size_t i = 0; i < count; i++)
        found += marks[i].at.us >= parts[part].from.us && marks[i].at.us < history_part_end(history, part).us;
    history_places_fini(&places);
    return found == 0;
}

void timeline_page_write(const struct history *history, const char *title, const char *about, struct buffer *out)
{
    size_t part_count;
    (void)history_parts(history, &part_count);
    size_t shown = part_count < PARTS_MAX ? part_count : PARTS_MAX;
    page_begin(out, title, timeline_style);
    buffer_append_text(out, symbols);
    buffer_append_text(out, "<p class=\"soft\">");
    markup_text(out, about);
    buffer_append_text(out, "</p>\n");
    facts_write(history, shown, out);
    for (size_t i = 0; i < shown; i++)
        if (!is_empty(history, i))
            part_write(history, i, shown, out);
    if (part_count > shown)
        buffer_format(out, "<p class=\"soft\">%zu more parts are not shown.</p>\n", part_count - shown);
    page_end(out, timeline_script);
}
