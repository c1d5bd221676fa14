#include "worker/dry_run/report/result_tables.h"

#include "worker/print/human.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/print/markup.h"

enum { OPEN_ROWS = 20, RESOURCE_ROWS = 300, HOST_ROWS = 100 };

/* --- cells -------------------------------------------------------------------------------------------------------- */

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

void table_of_totals(const struct result *result, struct buffer *out)
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

void table_of_times(const struct result *result, struct buffer *out)
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
void table_of_resources(const struct result *result, struct buffer *out)
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

void table_of_nodes(const struct result *result, struct buffer *out)
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

void table_of_hosts(const struct result *result, struct buffer *out)
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

void table_of_faults(const struct result *result, struct buffer *out)
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

void table_of_points(const struct result *result, struct buffer *out)
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
