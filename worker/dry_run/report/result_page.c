#include "worker/dry_run/report/result_page.h"

#include <stdio.h>

#include "worker/print/human.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/plot.h"
#include "worker/dry_run/report/result_figures.h"
#include "worker/dry_run/report/result_tables.h"
#include "worker/print/markup.h"
#include "worker/print/page_frame.h"

static const char style[] =
    ".answer{font-size:1.45rem;line-height:1.35;font-weight:600;margin:1rem 0 .6rem;max-width:62ch;"
    "border-left:.35rem solid var(--tone);padding-left:.9rem}"
    ".tone-good{--tone:var(--good)}.tone-warn{--tone:var(--p1)}.tone-bad{--tone:var(--bad)}"
    "ul.advice{max-width:80ch;padding-left:1.3rem;margin:.4rem 0 1rem}ul.advice li{margin:.25rem 0}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.3rem,1fr));gap:.6rem;margin:1.2rem 0;padding:0}"
    ".tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem;margin:0}"
    ".tile b{display:block;font-size:1.2rem;white-space:nowrap;font-variant-numeric:tabular-nums;line-height:1.25}"
    ".tile span{display:block;color:var(--soft);font-size:.82rem;line-height:1.3}.tile.bad "
    "b{color:var(--bad)}.tile.bad{font-weight:inherit}\n"
    ".tight{font-size:.8rem}.tight th,.tight td{padding:.15rem .3rem}"
    "text.row{fill:var(--text)}line.tick{stroke:var(--c);stroke-width:2.5}"
    "code{font:13px/1.5 ui-monospace,monospace;background:var(--card);border:1px solid var(--line);border-radius:4px;"
    "padding:.15rem .4rem;overflow-wrap:anywhere}"
    "details summary{cursor:pointer;margin:.8rem 0 .2rem;color:var(--soft)}\n"
    "@media print{body{max-width:none;padding:0}.plots{grid-template-columns:1fr 1fr}.wide{overflow:visible}"
    "table{font-size:.7rem}th,td{padding:.1rem .3rem}}\n";

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void answer_write(const struct result *result, struct buffer *out)
{
    static const char *const tones[] = {[RESULT_GOOD] = "good", [RESULT_FAIR] = "warn", [RESULT_BAD] = "bad"};
    buffer_format(out, "<p class=\"answer tone-%s\">", tones[result_tone(result)]);
    markup_text(out, result->answer[0] != '\0' ? result->answer : "Nothing was measured, so nothing can be said.");
    buffer_append_text(out, "</p>\n");
    if (result->advice_count > 0)
        buffer_append_text(out, "<ul class=\"advice\">\n");
    for (unsigned i = 0; i < result->advice_count; i++) {
        buffer_append_text(out, "<li>");
        markup_text(out, result->advice[i]);
        buffer_append_text(out, "</li>\n");
    }
    if (result->advice_count > 0)
        buffer_append_text(out, "</ul>\n");
}

static void about_write(const struct result *result, struct buffer *out)
{
    struct buffer about = {0};
    char human[HUMAN_TEXT_MAX];
    plan_about(&result->plan, &about);
    buffer_append_text(out, "<p class=\"soft\">");
    markup_format(out, "Dry run %s of %s with holdfast %s: ", result->plan.id, result->began, result->version);
    markup_text(out, buffer_text(&about));
    markup_format(out, ". Measured for %s.%s%s", human_time(result->measured_for, human),
                  result->was_interrupted ? " It was interrupted: this is the part until then." : "",
                  result->is_drained ? "" : " When it ended, tasks were left.");
    buffer_append_text(out, "</p>\n");
    buffer_fini(&about);
}

static void crashes_write(const struct result *result, struct buffer *out)
{
    if (result->crashed_checks[0] == '\0')
        return;
    buffer_append_text(out, "<p class=\"bad\">The check() of arguments crashed in ");
    markup_text(out, result->crashed_checks);
    buffer_append_text(out, ": in production each takes a worker down.</p>\n");
}

static void tile_write(struct buffer *out, const char *number, const char *name, bool is_bad)
{
    buffer_append_text(out, is_bad ? "<div class=\"tile bad\"><b>" : "<div class=\"tile\"><b>");
    markup_text(out, number);
    buffer_append_text(out, "</b><span>");
    markup_text(out, name);
    buffer_append_text(out, "</span></div>\n");
}

static void locks_tile(const struct result *result, struct buffer *out)
{
    char text[2 * HUMAN_TEXT_MAX], lost[HUMAN_TEXT_MAX], overlaps[HUMAN_TEXT_MAX];
    snprintf(text, sizeof text, "%s / %s", human_count((int64_t)result->lost, lost),
             human_count((int64_t)result->overlaps, overlaps));
    tile_write(out, text, "locks lost / overlaps", result->lost + result->overlaps > 0);
}

static void tiles_write(const struct result *result, struct buffer *out)
{
    char human[HUMAN_TEXT_MAX], text[HUMAN_TEXT_MAX + 32];
    buffer_append_text(out, "<div class=\"tiles\">\n");
    snprintf(text, sizeof text, "%s/s", human_rate(result->throughput, human));
    tile_write(out, text, "tasks that ended", false);
    if (result->wait.count > 0) {
        tile_write(out, human_time(result->wait.p50, human), "wait, p50", false);
        tile_write(out, human_time(result->wait.p99, human), "wait, p99", false);
    }
    if (result->expected.is_known && result->wait.count > 0) {
        char expected[HUMAN_TEXT_MAX], name[HUMAN_TEXT_MAX + 32];
        snprintf(name, sizeof name, "mean wait; expected %s",
                 result->expected.wait < 0 ? "to grow" : human_time(result->expected.wait, expected));
        tile_write(out, human_time(result->wait.mean, human), name, false);
    }
    tile_write(out, human_share(result->utilisation, human), "runners busy", result->utilisation >= 0.9);
    if (result->headroom > 0) {
        snprintf(text, sizeof text, "\xc3\x97 %s", human_rate(result->headroom, human));
        tile_write(out, text, "load until it is full", result->headroom < 1);
    }
    snprintf(text, sizeof text, "%s", human_rate(result->tries_per_hold, human));
    tile_write(out, text, "tries a hold", false);
    snprintf(text, sizeof text, "%s", human_rate(result->commands_per_hold, human));
    tile_write(out, text, "commands a hold and node", false);
    locks_tile(result, out);
    buffer_append_text(out, "</div>\n");
}

/* --- sections ----------------------------------------------------------------------------------------------------- */

/* The heading and the frame are kept only when there is something to see. */
static void section_write(const struct result *result, const char *title,
                          bool (*figures)(const struct result *result, struct buffer *out),
                          void (*table)(const struct result *result, struct buffer *out), struct buffer *out)
{
    struct buffer plots = {0}, rows = {0};
    bool has_plots = figures != NULL && figures(result, &plots);
    if (table != NULL)
        table(result, &rows);
    if (has_plots || rows.length > 0)
        buffer_format(out, "<section><h2>%s</h2>\n", title);
    if (has_plots) {
        buffer_append_text(out, "<div class=\"plots\">\n");
        buffer_append(out, plots.bytes, plots.length);
        buffer_append_text(out, "</div>\n");
    }
    buffer_append(out, rows.bytes, rows.length);
    if (has_plots || rows.length > 0)
        buffer_append_text(out, "</section>\n");
    buffer_fini(&plots);
    buffer_fini(&rows);
}

static void resources_table(const struct result *result, struct buffer *out)
{
    if (result->resource_count == 0)
        return;
    if (result->shadowed[0] != '\0') {
        buffer_append_text(out, "<p>The shadow ");
        markup_text(out, result->shadowed);
        buffer_append_text(out, ".</p>\n");
    }
    if (result->formula[0] != '\0') {
        buffer_append_text(out, "<p class=\"soft\">Expected: ");
        markup_text(out, result->formula);
        buffer_append_text(out, ".</p>\n");
    }
    table_of_resources(result, out);
}

static void itself_write(const struct result *result, struct buffer *out)
{
    char share[HUMAN_TEXT_MAX], each[HUMAN_TEXT_MAX];
    buffer_append_text(out, "<section><h2>The dry run itself</h2>\n<p>");
    markup_format(out, "Pushing and counting took %s of one processor; a task took %s longer because it was observed.",
                  human_share(result->overhead_share, share), human_time(result->observation_ns / 1e9, each));
    buffer_append_text(out, "</p>\n<p>To do it again, with the same load:</p>\n<p><code>");
    struct buffer command = {0};
    plan_command(&result->plan, &command);
    markup_text(out, buffer_text(&command));
    buffer_append_text(out, "</code></p></section>\n");
    buffer_fini(&command);
}

void result_page_write(const struct result *result, struct buffer *out)
{
    struct buffer styles = {0};
    buffer_append_text(&styles, plot_style);
    buffer_append_text(&styles, style);
    page_begin(out, "Dry run", buffer_text(&styles));
    buffer_fini(&styles);
    answer_write(result, out);
    crashes_write(result, out);
    about_write(result, out);
    tiles_write(result, out);
    section_write(result, "How long it took", figures_of_times, table_of_times, out);
    section_write(result, "Over time", figures_of_course, table_of_faults, out);
    section_write(result, "Resources", figures_of_resources, resources_table, out);
    section_write(result, "What if", figures_of_points, table_of_points, out);
    section_write(result, "Nodes", figures_of_nodes, table_of_nodes, out);
    section_write(result, "Hosts", NULL, table_of_hosts, out);
    section_write(result, "Totals", NULL, table_of_totals, out);
    itself_write(result, out);
    page_end(out, NULL);
}
