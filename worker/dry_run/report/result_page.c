#include "worker/dry_run/report/result_page.h"

#include <stdio.h>

#include "base/buffer.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/plot.h"
#include "worker/dry_run/report/result_figures.h"
#include "worker/dry_run/result/result.h"
#include "worker/print/human.h"
#include "worker/print/markup.h"
#include "worker/print/page_frame.h"

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Each is bounded, and says what it leaves out; one about nothing writes nothing. */

enum { OPEN_ROWS = 20, RESOURCE_ROWS = 300, HOST_ROWS = 100 };

/* Titles; those that begin with '#' are of numbers. */
static void table_begin(struct buffer *out, const char *const *titles, size_t count)
{
    buffer_append_text(out, count > 12 ? "<div class=\"wide\"><table class=\"tight\">" : "<div class=\"wide\"><table>");
    buffer_append_text(out, "<thead><tr>");
    for (size_t i = 0; i < count; i++) {
        bool is_number = titles[i][0] == '#';
        buffer_append_text(out, is_number ? "<th class=\"n\">" : "<th>");
        markup_text(out, titles[i] + is_number);
        buffer_append_text(out, "</th>");
    }
    buffer_append_text(out, "</tr></thead><tbody>\n");
}

#define TABLE_BEGIN(out, titles) table_begin(out, titles, sizeof(titles) / sizeof(titles)[0])

static void table_end(struct buffer *out)
{
    buffer_append_text(out, "</tbody></table></div>\n");
}

static void text_cell(struct buffer *out, const char *text)
{
    buffer_append_text(out, "<td>");
    markup_text(out, text[0] != '\0' ? text : "-");
    buffer_append_text(out, "</td>");
}

static void number_cell(struct buffer *out, const char *text, bool is_bad)
{
    buffer_append_text(out, is_bad ? "<td class=\"n bad\">" : "<td class=\"n\">");
    markup_text(out, text);
    buffer_append_text(out, "</td>");
}

static void count_cell(struct buffer *out, uint64_t count, bool is_bad)
{
    char human[HUMAN_TEXT_MAX];
    number_cell(out, human_count((int64_t)count, human), is_bad && count > 0);
}

static void time_cell(struct buffer *out, double seconds, bool is_known)
{
    char human[HUMAN_TEXT_MAX];
    number_cell(out, is_known ? human_time(seconds, human) : "-", false);
}

/* A wait that grows for as long as the load lasts has no mean. */
static void expected_wait_cell(struct buffer *out, const struct result_expected *expected)
{
    if (expected->is_known && expected->wait < 0)
        number_cell(out, "grows", false);
    else
        time_cell(out, expected->wait, expected->is_known);
}

static void rate_cell(struct buffer *out, double rate, bool is_known)
{
    char human[HUMAN_TEXT_MAX];
    number_cell(out, is_known ? human_rate(rate, human) : "-", false);
}

static void share_cell(struct buffer *out, double share)
{
    char human[HUMAN_TEXT_MAX];
    number_cell(out, human_share(share, human), share >= 0.9);
}

/* --- totals and times --------------------------------------------------------------------------------------------- */

static void total_row(struct buffer *out, const char *name, uint64_t count, bool is_bad, const char *about)
{
    buffer_append_text(out, "<tr>");
    text_cell(out, name);
    count_cell(out, count, is_bad);
    buffer_append_text(out, "<td class=\"soft\">");
    markup_text(out, about);
    buffer_append_text(out, "</td></tr>\n");
}

static void table_of_totals(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"tasks", "#", ""};
    TABLE_BEGIN(out, titles);
    total_row(out, "pushed", result->pushed, false, "");
    total_row(out, "ended", result->ended, false, "for good");
    total_row(out, "done", result->done, false, "");
    total_row(out, "failed", result->failed, false, "as the plan wanted, or because of a lost lock");
    total_row(out, "dead", result->dead, true, "failed too often");
    total_row(out, "parked", result->parked, false, "stood in line for a resource");
    total_row(out, "skipped", result->skipped, false, "");
    total_row(out, "dropped", result->dropped, false, "");
    total_row(out, "given back", result->given_back, false, "claimed and not begun");
    total_row(out, "ended twice", result->twice, true, "taken over from a worker that was not dead");
    total_row(out, "left", result->left, false, "had not ended when the run did");
    total_row(out, "locks lost", result->lost, true, "while a task held them");
    total_row(out, "overlaps", result->overlaps, true,
              "two tasks at one resource at a time, as an independent witness saw");
    total_row(out, "unfenced overlaps", result->overlaps_unfenced, true, "of these, what no token would have told");
    total_row(out, "fence refusals", result->fence_refusals, false,
              "late writes that a store would refuse which checks the token");
    table_end(out);
}

static void spread_row(struct buffer *out, const char *name, const struct result_spread *spread)
{
    bool is_known = spread->count > 0;
    buffer_append_text(out, "<tr>");
    text_cell(out, name);
    count_cell(out, spread->count, false);
    time_cell(out, spread->mean, is_known);
    time_cell(out, spread->mean_error, spread->mean_error > 0);
    time_cell(out, spread->p50, is_known);
    time_cell(out, spread->p90, is_known);
    time_cell(out, spread->p99, is_known);
    time_cell(out, spread->p999, is_known);
    time_cell(out, spread->max, is_known);
    buffer_append_text(out, "</tr>\n");
}

static void table_of_times(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"how long", "#count", "#mean",  "#+-", "#p50",
                                         "#p90",     "#p99",   "#p99.9", "#max"};
    TABLE_BEGIN(out, titles);
    spread_row(out, "wait for a lock, from the push", &result->wait);
    spread_row(out, "hold", &result->hold);
    spread_row(out, "acquiring from the lock nodes", &result->acquire);
    spread_row(out, "extending a lock", &result->extend);
    table_end(out);
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

static void resource_row(struct buffer *out, const struct result_resource *resource)
{
    buffer_append_text(out, "<tr>");
    text_cell(out, resource->name);
    rate_cell(out, resource->load, true);
    rate_cell(out, resource->throughput, true);
    rate_cell(out, resource->expected.throughput, resource->expected.is_known);
    share_cell(out, resource->share_held);
    rate_cell(out, resource->waiters, true);
    count_cell(out, resource->waiters_max, false);
    time_cell(out, resource->wait_mean, resource->held > 0);
    time_cell(out, resource->wait_error, resource->wait_error > 0);
    expected_wait_cell(out, &resource->expected);
    time_cell(out, resource->wait_p99, resource->held > 0);
    time_cell(out, resource->hold_mean, resource->held > 0);
    time_cell(out, resource->turn_mean, resource->turns > 0);
    count_cell(out, resource->parks, false);
    count_cell(out, resource->hand_overs, false);
    count_cell(out, resource->refusals, false);
    count_cell(out, resource->lost, true);
    count_cell(out, resource->overlaps, true);
    buffer_append_text(out, "</tr>\n");
}

static void resource_rows(const struct result *result, size_t from, size_t to, struct buffer *out)
{
    static const char *const titles[] = {"resource",   "#tasks/s", "#ended/s", "#expected", "#held", "#waiting",
                                         "#at most",   "#wait",    "#+-",      "#expected", "#p99",  "#hold",
                                         "#next turn", "#parks",   "#handed",  "#refusals", "#lost", "#overlaps"};
    TABLE_BEGIN(out, titles);
    for (size_t i = from; i < to; i++)
        resource_row(out, &result->resources[i]);
    table_end(out);
}

/* The hottest are shown at once. */
static void table_of_resources(const struct result *result, struct buffer *out)
{
    size_t count = result->resource_count, shown = count < RESOURCE_ROWS ? count : RESOURCE_ROWS;
    size_t open = shown < OPEN_ROWS ? shown : OPEN_ROWS;
    if (count == 0)
        return;
    resource_rows(result, 0, open, out);
    if (shown > open) {
        buffer_format(out, "<details><summary>%zu more</summary>\n", shown - open);
        resource_rows(result, open, shown, out);
        buffer_append_text(out, "</details>\n");
    }
    if (count - shown + result->resources_left_out > 0)
        buffer_format(out, "<p class=\"soft\">%llu resources with less load are not shown.</p>\n",
                      (unsigned long long)(count - shown + result->resources_left_out));
}

/* --- nodes and hosts ---------------------------------------------------------------------------------------------- */

static void node_row(struct buffer *out, const struct result_node *node)
{
    bool is_known = node->latency.count > 0;
    buffer_append_text(out, "<tr>");
    text_cell(out, node->name);
    text_cell(out, node->is_queue_node ? "queues" : "locks");
    text_cell(out, node->address);
    count_cell(out, node->requests, false);
    count_cell(out, node->granted, false);
    count_cell(out, node->refused, false);
    count_cell(out, node->errors, true);
    count_cell(out, node->timeouts, true);
    count_cell(out, node->split_votes, false);
    time_cell(out, node->latency.p50, is_known);
    time_cell(out, node->latency.p99, is_known);
    time_cell(out, node->latency.max, is_known);
    count_cell(out, node->commands_sent, false);
    count_cell(out, node->commands_counted, false);
    share_cell(out, node->cpu_share);
    count_cell(out, node->keys_at_end, true);
    buffer_append_text(out, "</tr>\n");
}

static void table_of_nodes(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"node",    "for",      "address", "#asked",    "#granted", "#refused",
                                         "#errors", "#silent",  "#split",  "#p50",      "#p99",     "#max",
                                         "#sent",   "#counted", "#cpu",    "#keys left"};
    if (result->node_count == 0)
        return;
    TABLE_BEGIN(out, titles);
    for (unsigned i = 0; i < result->node_count; i++)
        node_row(out, &result->nodes[i]);
    table_end(out);
    buffer_append_text(
        out, "<p class=\"soft\">Silent: did not answer in time. Split: the nodes said different things. Sent: "
             "commands that we know of; counted: by the node itself.</p>\n");
}

static void table_of_hosts(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"host",       "#processes", "#threads each",
                                         "#processor", "#clock +-",  "#records lost"};
    if (result->host_count == 0)
        return;
    TABLE_BEGIN(out, titles);
    for (unsigned i = 0; i < result->host_count && i < HOST_ROWS; i++) {
        const struct result_host *host = &result->hosts[i];
        buffer_append_text(out, "<tr>");
        text_cell(out, host->name);
        count_cell(out, host->processes, false);
        count_cell(out, host->threads, false);
        char human[HUMAN_TEXT_MAX];
        number_cell(out, human_share(host->cpu_share, human), false);
        time_cell(out, host->clock_error, host->clock_error > 0);
        count_cell(out, host->records_lost, true);
        buffer_append_text(out, "</tr>\n");
    }
    table_end(out);
}

/* --- faults and points -------------------------------------------------------------------------------------------- */

static void table_of_faults(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"#at", "what was done", "what could be seen of it"};
    if (result->fault_count == 0)
        return;
    TABLE_BEGIN(out, titles);
    for (unsigned i = 0; i < result->fault_count; i++) {
        const struct result_fault *fault = &result->faults[i];
        struct buffer about = {0};
        plan_fault_about(&fault->fault, &about);
        buffer_append_text(&about, fault->was_done ? "" : " (was not done)");
        buffer_append_text(out, "<tr>");
        time_cell(out, fault->at, true);
        text_cell(out, buffer_text(&about));
        text_cell(out, fault->text);
        buffer_append_text(out, "</tr>\n");
        buffer_fini(&about);
    }
    table_end(out);
}

static void table_of_points(const struct result *result, struct buffer *out)
{
    static const char *const titles[] = {"#threads", "#processes", "#tasks/s", "#expected",
                                         "#wait",    "#expected",  "#p99",     "#runners busy"};
    if (result->point_count == 0)
        return;
    TABLE_BEGIN(out, titles);
    for (unsigned i = 0; i < result->point_count; i++) {
        const struct result_point *point = &result->points[i];
        buffer_append_text(out, "<tr>");
        count_cell(out, point->threads, false);
        count_cell(out, point->processes, false);
        rate_cell(out, point->throughput, true);
        rate_cell(out, point->expected.throughput, point->expected.is_known);
        time_cell(out, point->wait_mean, true);
        expected_wait_cell(out, &point->expected);
        time_cell(out, point->wait_p99, true);
        share_cell(out, point->share_busy);
        buffer_append_text(out, "</tr>\n");
    }
    table_end(out);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

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
