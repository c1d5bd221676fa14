/* The page around the figures: what was found out, the tables, and the note about what is not shown. */
#include "worker/history/timeline_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/history/history_sums.h"
#include "worker/print/markup.h"
#include "worker/print/page_frame.h"
#include "worker/history/timeline_figure.h"
#include "worker/history/timeline_look.h"

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
