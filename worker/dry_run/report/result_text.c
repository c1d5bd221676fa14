/* One function a section, in the order in which they stand. A section about which nothing is known is left out. */
#include "worker/dry_run/report/result.h"

#include "base/log.h"
#include "worker/dry_run/report/plan_about.h"
#include "worker/dry_run/report/text_writer.h"
#include "worker/print/human.h"

enum { RESOURCE_ROWS = 20, HOST_ROWS = 20, PIECE_MAX = 160 };

/* What is nearly full, and what is full. */
#define BUSY_SHARE 0.7
#define FULL_SHARE 0.9

static void time_cell(struct table *table, double seconds, bool is_known)
{
    char human[HUMAN_TEXT_MAX];
    table_cell(table, TABLE_PLAIN, "%s", is_known ? human_time(seconds, human) : "-");
}

/* A wait that grows for as long as the load lasts has no mean. */
static void expected_wait_cell(struct table *table, const struct result_expected *expected)
{
    if (expected->is_known && expected->wait < 0)
        table_cell(table, TABLE_WARN, "grows");
    else
        time_cell(table, expected->wait, expected->is_known);
}

static void rate_cell(struct table *table, double rate)
{
    char human[HUMAN_TEXT_MAX];
    table_cell(table, TABLE_PLAIN, "%s", human_rate(rate, human));
}

static void share_cell(struct table *table, double share)
{
    char human[HUMAN_TEXT_MAX];
    table_cell(table,
               share >= FULL_SHARE   ? TABLE_BAD
               : share >= BUSY_SHARE ? TABLE_WARN
                                     : TABLE_PLAIN,
               "%s", human_share(share, human));
}

/* What should be 0 stands out when it is not. */
static void count_cell(struct table *table, uint64_t count, bool is_bad)
{
    char human[HUMAN_TEXT_MAX];
    table_cell(table, is_bad && count > 0 ? TABLE_BAD : TABLE_PLAIN, "%s", human_count((int64_t)count, human));
}

static void name_cell(struct table *table, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    table_cell(table, TABLE_PLAIN, "%s", name[0] != '\0' ? log_quote(name, quoted) : "-");
}

static void answer_write(struct text_writer *writer, const struct result *result)
{
    static const enum table_style styles[] = {
        [RESULT_GOOD] = TABLE_GOOD, [RESULT_FAIR] = TABLE_WARN, [RESULT_BAD] = TABLE_BAD};
    struct buffer about = {0};
    char human[HUMAN_TEXT_MAX];
    writer_text(writer, styles[result_tone(result)], "",
                result->answer[0] != '\0' ? result->answer : "Nothing was measured, so nothing can be said.");
    for (unsigned i = 0; i < result->advice_count; i++)
        writer_text(writer, TABLE_PLAIN, "- ", result->advice[i]);
    buffer_append(writer->out, "\n", 1);
    plan_about(&result->plan, &about);
    writer_format(writer, TABLE_DIM, "", "Dry run %s of %s, %s.", plan_run(&result->plan), result->began,
                  buffer_text(&about));
    writer_format(writer, TABLE_DIM, "", "Measured for %s.%s%s", human_time(result->measured_for, human),
                  result->was_interrupted ? " It was interrupted: this is the part until then." : "",
                  result->is_drained ? "" : " When it ended, tasks were left.");
    buffer_fini(&about);
}

/* --- totals ------------------------------------------------------------------------------------------------------- */

static void piece(struct buffer *line, const char *name, uint64_t count, bool is_always)
{
    char human[HUMAN_TEXT_MAX];
    if (count > 0 || is_always)
        buffer_format(line, "%s%s %s", line->length > 0 ? "   " : "", name, human_count((int64_t)count, human));
}

static void tasks_write(struct text_writer *writer, const struct result *result)
{
    struct buffer line = {0};
    piece(&line, "pushed", result->pushed, true);
    piece(&line, "ended", result->ended, true);
    piece(&line, "done", result->done, true);
    piece(&line, "failed", result->failed, false);
    piece(&line, "dead", result->dead, false);
    piece(&line, "parked", result->parked, true);
    piece(&line, "skipped", result->skipped, false);
    piece(&line, "dropped", result->dropped, false);
    piece(&line, "given back", result->given_back, false);
    piece(&line, "ended twice", result->twice, false);
    piece(&line, "left", result->left, true);
    writer_text(writer, TABLE_PLAIN, "tasks    ", buffer_text(&line));
    if (result->crashed_checks[0] != '\0')
        writer_format(writer, TABLE_BAD, "         ",
                      "The check() of arguments crashed in %s: in production each takes a worker down.",
                      result->crashed_checks);
    buffer_fini(&line);
}

static void locks_write(struct text_writer *writer, const struct result *result)
{
    struct buffer line = {0};
    char human[HUMAN_TEXT_MAX];
    buffer_format(&line, "%s tries a hold", human_rate(result->tries_per_hold, human));
    buffer_format(&line, "   %s commands a hold on a lock node", human_rate(result->commands_per_hold, human));
    piece(&line, "lost", result->lost, true);
    piece(&line, "stale writes that a fence refused", result->fence_refusals, true);
    piece(&line, "overlaps", result->overlaps, true);
    writer_text(writer, result->lost + result->overlaps > 0 ? TABLE_WARN : TABLE_PLAIN, "locks    ",
                buffer_text(&line));
    if (result->overlaps > 0)
        writer_text(writer, result->overlaps_unfenced > 0 ? TABLE_BAD : TABLE_WARN, "         ",
                    result->overlaps_unfenced > 0
                        ? "Two tasks were at one resource at a time, and a fence would not have refused all of it."
                        : "Two tasks were at one resource at a time; a store that checks the fencing token would have "
                          "refused the late writes.");
    buffer_fini(&line);
}

/* --- durations ---------------------------------------------------------------------------------------------------- */

static void spread_cells(struct table *table, const char *name, const struct result_spread *spread)
{
    char human[HUMAN_TEXT_MAX];
    bool is_known = spread->count > 0;
    table_cell(table, TABLE_PLAIN, "%s", name);
    count_cell(table, spread->count, false);
    time_cell(table, spread->mean, is_known);
    table_cell(table, TABLE_DIM, "%s", spread->mean_error > 0 ? human_time(spread->mean_error, human) : "");
    time_cell(table, spread->p50, is_known);
    time_cell(table, spread->p90, is_known);
    time_cell(table, spread->p99, is_known);
    time_cell(table, spread->p999, is_known);
    time_cell(table, spread->max, is_known);
}

static void times_write(struct text_writer *writer, const struct result *result)
{
    struct table *table = table_create("HOW LONG|>COUNT:0,1|>MEAN|>+-:0,3|>P50|>P90|>P99|>P99.9|>MAX:0,2|>EXPECTED");
    spread_cells(table, "waited for a lock", &result->wait);
    expected_wait_cell(table, &result->expected);
    spread_cells(table, "held", &result->hold);
    time_cell(table, 0, false);
    spread_cells(table, "acquiring, from the nodes", &result->acquire);
    time_cell(table, 0, false);
    spread_cells(table, "extending", &result->extend);
    time_cell(table, 0, false);
    buffer_append(writer->out, "\n", 1);
    writer_table(writer, table, SIZE_MAX);
    if (result->shadowed[0] != '\0')
        writer_format(writer, TABLE_PLAIN, "", "The shadow %s.", result->shadowed);
    if (result->formula[0] != '\0')
        writer_format(writer, TABLE_DIM, "", "Expected: %s.", result->formula);
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

static void resource_cells(struct table *table, const struct result_resource *resource)
{
    char human[HUMAN_TEXT_MAX];
    name_cell(table, resource->name);
    rate_cell(table, resource->load);
    share_cell(table, resource->share_held);
    rate_cell(table, resource->waiters);
    time_cell(table, resource->wait_mean, resource->held > 0);
    table_cell(table, TABLE_DIM, "%s", resource->wait_error > 0 ? human_time(resource->wait_error, human) : "");
    expected_wait_cell(table, &resource->expected);
    time_cell(table, resource->wait_p99, resource->held > 0);
    count_cell(table, resource->parks, false);
    count_cell(table, resource->hand_overs, false);
    count_cell(table, resource->lost, true);
    count_cell(table, resource->overlaps, true);
}

static void resources_write(struct text_writer *writer, const struct result *result)
{
    char human[HUMAN_TEXT_MAX];
    if (result->resource_count == 0)
        return;
    struct table *table = table_create("RESOURCE:12|>TASKS/S|>HELD|>WAITERS:0,2|>WAIT|>+-:0,6|"
                                       ">EXPECTED|>P99:0,1|>PARKS:0,4|>HANDED:0,5|>LOST:0,3|>OVERLAPS:0,3");
    for (size_t i = 0; i < result->resource_count; i++)
        resource_cells(table, &result->resources[i]);
    buffer_append(writer->out, "\n", 1);
    writer_table(writer, table, RESOURCE_ROWS);
    if (result->resources_left_out > 0)
        writer_format(writer, TABLE_DIM, "", "%s more resources with less load are in the totals only.",
                      human_count((int64_t)result->resources_left_out, human));
}

/* --- nodes and hosts ---------------------------------------------------------------------------------------------- */

static void node_cells(struct table *table, const struct result_node *node)
{
    char sent[HUMAN_TEXT_MAX], counted[HUMAN_TEXT_MAX];
    name_cell(table, node->name);
    name_cell(table, node->address);
    count_cell(table, node->requests, false);
    time_cell(table, node->latency.p50, node->latency.count > 0);
    time_cell(table, node->latency.p99, node->latency.count > 0);
    count_cell(table, node->refused, false);
    count_cell(table, node->errors, true);
    count_cell(table, node->timeouts, true);
    count_cell(table, node->split_votes, false);
    table_cell(table, TABLE_PLAIN, "%s", human_count((int64_t)node->commands_sent, sent));
    table_cell(table, TABLE_PLAIN, "%s", human_count((int64_t)node->commands_counted, counted));
    share_cell(table, node->cpu_share);
}

static void nodes_write(struct text_writer *writer, const struct result *result)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    if (result->node_count == 0)
        return;
    struct table *table = table_create("NODE:8|ADDRESS:12,5|>ASKED|>P50:0,3|>P99|>REFUSED:0,1|"
                                       ">ERRORS|>NO ANSWER|>SPLIT:0,4|>SENT:0,2|>COUNTED:0,2|>CPU");
    for (unsigned i = 0; i < result->node_count; i++)
        node_cells(table, &result->nodes[i]);
    buffer_append(writer->out, "\n", 1);
    writer_table(writer, table, SIZE_MAX);
    for (unsigned i = 0; i < result->node_count; i++)
        if (result->nodes[i].keys_at_end > 0)
            writer_format(writer, TABLE_BAD, "", "%s keys of this run are left on %s; they expire by themselves.",
                          human_count((int64_t)result->nodes[i].keys_at_end, human),
                          log_quote(result->nodes[i].name, quoted));
}

static void hosts_write(struct text_writer *writer, const struct result *result)
{
    char human[HUMAN_TEXT_MAX];
    if (result->host_count == 0)
        return;
    struct table *table = table_create("HOST:8|>PROCESSES|>THREADS|>CPU|>RECORDS LOST");
    for (unsigned i = 0; i < result->host_count; i++) {
        const struct result_host *host = &result->hosts[i];
        name_cell(table, host->name);
        table_cell(table, TABLE_PLAIN, "%u", host->processes);
        table_cell(table, TABLE_PLAIN, "%u", host->threads);
        table_cell(table, TABLE_PLAIN, "%s", human_share(host->cpu_share, human));
        count_cell(table, host->records_lost, true);
    }
    buffer_append(writer->out, "\n", 1);
    writer_table(writer, table, HOST_ROWS);
}

/* --- faults, what-if, overhead ------------------------------------------------------------------------------------ */

static void faults_write(struct text_writer *writer, const struct result *result)
{
    if (result->fault_count == 0)
        return;
    writer_heading(writer, "FAULTS");
    for (unsigned i = 0; i < result->fault_count; i++) {
        const struct result_fault *fault = &result->faults[i];
        struct buffer about = {0};
        char lead[24];
        snprintf(lead, sizeof lead, "%7.1f s  ", fault->at < 99999 ? fault->at : 99999);
        plan_fault_about(&fault->fault, &about);
        if (fault->was_done)
            writer_text(writer, TABLE_PLAIN, lead, fault->text);
        else
            writer_format(writer, TABLE_WARN, lead, "%s (was not done)%s%s", buffer_text(&about),
                          fault->text[0] != '\0' ? ": " : "", fault->text);
        buffer_fini(&about);
    }
}

static void points_write(struct text_writer *writer, const struct result *result)
{
    char human[HUMAN_TEXT_MAX];
    if (result->point_count == 0)
        return;
    struct table *table = table_create(">THREADS|>PROCESSES:0,1|>TASKS/S|>EXPECTED|>WAIT|>EXPECTED|>P99|>BUSY");
    for (unsigned i = 0; i < result->point_count; i++) {
        const struct result_point *point = &result->points[i];
        table_cell(table, TABLE_PLAIN, "%u", point->threads);
        table_cell(table, TABLE_PLAIN, "%u", point->processes);
        rate_cell(table, point->throughput);
        table_cell(table, TABLE_PLAIN, "%s",
                   point->expected.is_known ? human_rate(point->expected.throughput, human) : "-");
        time_cell(table, point->wait_mean, true);
        expected_wait_cell(table, &point->expected);
        time_cell(table, point->wait_p99, true);
        share_cell(table, point->share_busy);
    }
    writer_heading(writer, "WHAT IF (each line is a run of its own)");
    writer_table(writer, table, SIZE_MAX);
}

static void overhead_write(struct text_writer *writer, const struct result *result)
{
    char share[HUMAN_TEXT_MAX], each[HUMAN_TEXT_MAX], lost[HUMAN_TEXT_MAX];
    uint64_t records_lost = 0;
    for (unsigned i = 0; i < result->host_count; i++)
        records_lost += result->hosts[i].records_lost;
    writer_heading(writer, "THE DRY RUN ITSELF");
    writer_format(writer, TABLE_PLAIN, "",
                  "Pushing and counting took %s of one processor; a task took %s longer because it was observed.",
                  human_share(result->overhead_share, share), human_time(result->observation_ns / 1e9, each));
    if (records_lost > 0)
        writer_format(writer, TABLE_WARN, "",
                      "%s records were lost because there was no room for them: the counts are too low by these.",
                      human_count((int64_t)records_lost, lost));
}

void result_text_write(const struct result *result, unsigned width, bool has_colour, struct buffer *out)
{
    struct text_writer writer = {.width = width < RESULT_TEXT_WIDTH_MIN   ? RESULT_TEXT_WIDTH_MIN
                                          : width > RESULT_TEXT_WIDTH_MAX ? RESULT_TEXT_WIDTH_MAX
                                                                          : width,
                                 .has_colour = has_colour,
                                 .out = out};
    answer_write(&writer, result);
    writer_heading(&writer, "TOTALS");
    tasks_write(&writer, result);
    char rate[HUMAN_TEXT_MAX], expected[HUMAN_TEXT_MAX], busy[HUMAN_TEXT_MAX];
    writer_format(&writer, TABLE_PLAIN, "rate     ", "%s tasks/s%s%s%s   runners busy %s",
                  human_rate(result->throughput, rate), result->expected.is_known ? " (expected " : "",
                  result->expected.is_known ? human_rate(result->expected.throughput, expected) : "",
                  result->expected.is_known ? ")" : "", human_share(result->utilisation, busy));
    locks_write(&writer, result);
    times_write(&writer, result);
    resources_write(&writer, result);
    nodes_write(&writer, result);
    hosts_write(&writer, result);
    faults_write(&writer, result);
    points_write(&writer, result);
    overhead_write(&writer, result);
}
