#include "worker/commands/top_screen.h"

#include <string.h>

#include "base/log.h"
#include "worker/print/grid.h"
#include "worker/print/human.h"

enum { SECTIONS = 5, BETWEEN_PIECES = 3 };

struct screen {
    unsigned width, left; /* columns; lines that are free yet */
    bool has_colour;
    struct buffer *out;
};

/* --- the first lines -------------------------------------------------------------------------------------------- */

static void line_end(struct screen *screen)
{
    buffer_append(screen->out, "\n", 1);
    screen->left--;
}

/* Pieces side by side, the important ones first: those for which there is no room are left out. */
static void pieces_write(struct screen *screen, const char *const *pieces, size_t count)
{
    unsigned used = 0;
    if (screen->left == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        unsigned width = grid_text_width(pieces[i]), gap = used > 0 ? BETWEEN_PIECES : 0;
        if (i > 0 && used + gap + width > screen->width)
            continue;
        buffer_format(screen->out, "%*s", (int)gap, "");
        used += gap + grid_text_write(pieces[i], screen->width - used - gap, screen->out);
    }
    line_end(screen);
}

static void rate_text(double rate, const char *what, char *out, size_t size)
{
    char count[HUMAN_TEXT_MAX];
    if (rate >= 100)
        snprintf(out, size, "%s %s/s", human_count((int64_t)(rate + 0.5), count), what);
    else
        snprintf(out, size, "%.1f %s/s", rate, what);
}

static void fleet_count(const struct fleet *fleet, long long *alive, long long *busy, long long *threads)
{
    *alive = *busy = *threads = 0;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        if (process->state != FLEET_ALIVE)
            continue;
        ++*alive;
        *busy += process->busy;
        *threads += process->concurrency;
    }
}

static void write_rates(struct screen *screen, const struct top_facts *facts)
{
    char rate[80] = "- tasks/s", busy[80], processes[64], failed[80] = "", date[HUMAN_TEXT_MAX];
    long long alive, working, threads;
    fleet_count(&facts->status.fleet, &alive, &working, &threads);
    snprintf(busy, sizeof busy, "%lld/%lld busy", working, threads);
    snprintf(processes, sizeof processes, "%lld process%s", alive, alive == 1 ? "" : "es");
    if (facts->has_rate) {
        rate_text(facts->processed_rate, "tasks", rate, sizeof rate);
        rate_text(facts->failed_rate, "failed", failed, sizeof failed);
    }
    const char *pieces[] = {rate, busy, processes, human_date(facts->now, date), failed};
    pieces_write(screen, pieces, facts->has_rate ? 5 : 4);
}

static const char *known_text(const char *what, long long number, char out[80])
{
    char count[HUMAN_TEXT_MAX];
    snprintf(out, 80, "%s %s", what, number >= 0 ? human_count(number, count) : "?");
    return out;
}

static void write_totals(struct screen *screen, const struct status *status)
{
    char queued[80], scheduled[80], retry[80], dead[80], processed[80], failed[80];
    long long waiting = 0;
    for (size_t i = 0; i < status->backlog.count; i++)
        waiting += status->backlog.items[i].length > 0 ? status->backlog.items[i].length : 0;
    const char *pieces[] = {known_text("queued", waiting, queued),
                            known_text("dead", status->dead, dead),
                            known_text("retry", status->retry, retry),
                            known_text("scheduled", status->schedule, scheduled),
                            known_text("processed", status->processed, processed),
                            known_text("failed", status->failed, failed)};
    pieces_write(screen, pieces, sizeof pieces / sizeof pieces[0]);
}

static void write_warning(struct screen *screen, const char *text)
{
    if (screen->left == 0)
        return;
    buffer_append_text(screen->out, screen->has_colour ? table_style_code(TABLE_BAD) : "");
    grid_text_write(text, screen->width, screen->out);
    buffer_append_text(screen->out, screen->has_colour ? table_style_code(TABLE_PLAIN) : "");
    line_end(screen);
}

static void write_away(struct screen *screen, const struct top_facts *facts)
{
    char text[512], human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    snprintf(text, sizeof text, "THE QUEUE NODE IS AWAY: this is %s old (%s)", human_span(facts->old_us, human),
             log_quote(facts->away, quoted));
    write_warning(screen, text);
}

/* --- sections --------------------------------------------------------------------------------------------------- */

static void name_cell(struct grid *grid, enum table_style style, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    grid_cell(grid, style, "%s", name[0] != '\0' ? log_quote(name, quoted) : "-");
}

static void process_cells(struct grid *grid, const struct fleet_process *process, struct wall_time now)
{
    static const enum table_style styles[] = {[FLEET_ALIVE] = TABLE_GOOD,
                                              [FLEET_LOST] = TABLE_BAD,
                                              [FLEET_RECOVERED] = TABLE_DIM,
                                              [FLEET_UNLEASED] = TABLE_DIM,
                                              [FLEET_FOREIGN] = TABLE_WARN};
    struct buffer queues = {0};
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    bool is_quiet = process->state == FLEET_ALIVE && process->is_quiet;
    name_cell(grid, TABLE_PLAIN, process->identity);
    grid_cell(grid, is_quiet ? TABLE_WARN : styles[process->state], "%s",
              is_quiet ? "quiet" : fleet_state_name(process->state));
    grid_cell(grid, TABLE_PLAIN, process->is_shown ? "%lld/%lld" : "-", process->busy, process->concurrency);
    grid_cell(grid, TABLE_PLAIN, "%s", process->is_shown ? human_size(process->rss_kb * 1024, human) : "-");
    grid_cell(grid, TABLE_DIM, "%s", human_moment(process->beat, now, human));
    for (size_t i = 0; i < process->info.queue_count && queues.length < LOG_QUOTE_MAX; i++)
        buffer_format(&queues, "%s%s", i > 0 ? "," : "", log_quote(process->info.queues[i], quoted));
    grid_cell(grid, TABLE_PLAIN, "%s", buffer_text(&queues));
    buffer_fini(&queues);
}

/* Those that are gone are no part of the picture of what happens now. */
static struct grid *processes_grid(const struct top_facts *facts)
{
    static const struct grid_column columns[] = {{.title = "PROCESS", .least = 12},
                                                 {.title = "STATE", .rank = 1},
                                                 {.title = "BUSY", .is_right = true},
                                                 {.title = "MEMORY", .is_right = true, .rank = 3},
                                                 {.title = "BEAT", .rank = 2},
                                                 {.title = "QUEUES", .least = 8, .rank = 4},
                                                 {.title = NULL}};
    struct grid *grid = grid_create(columns);
    for (size_t i = 0; i < facts->status.fleet.count; i++) {
        const struct fleet_process *process = &facts->status.fleet.items[i];
        if (process->state != FLEET_RECOVERED && process->state != FLEET_UNLEASED)
            process_cells(grid, process, facts->now);
    }
    return grid;
}

static struct grid *tasks_grid(const struct top_facts *facts)
{
    static const struct grid_column columns[] = {{.title = "RUNNING", .least = 10},
                                                 {.title = "AGE", .is_right = true},
                                                 {.title = "RESOURCE", .least = 10, .rank = 1},
                                                 {.title = "TOKEN", .is_right = true, .least = 6, .rank = 3},
                                                 {.title = "JID", .least = 8, .rank = 2},
                                                 {.title = "PROCESS", .least = 10, .rank = 4},
                                                 {.title = "QUEUE", .least = 6, .rank = 5},
                                                 {.title = NULL}};
    struct grid *grid = grid_create(columns);
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        char human[HUMAN_TEXT_MAX];
        name_cell(grid, TABLE_PLAIN, task->class_name);
        grid_cell(grid, TABLE_PLAIN, "%s", human_span(task->age_us, human));
        name_cell(grid, TABLE_PLAIN, task->resource);
        name_cell(grid, TABLE_DIM, task->token);
        name_cell(grid, TABLE_DIM, task->jid);
        name_cell(grid, TABLE_DIM, task->process);
        name_cell(grid, TABLE_DIM, task->queue);
    }
    return grid;
}

static struct grid *resources_grid(const struct top_facts *facts)
{
    static const struct grid_column columns[] = {{.title = "RESOURCE", .least = 10},
                                                 {.title = "WAITERS", .is_right = true},
                                                 {.title = "HELD FOR", .is_right = true, .rank = 2},
                                                 {.title = "BY TASK", .least = 8, .rank = 1},
                                                 {.title = "ON", .least = 10, .rank = 3},
                                                 {.title = NULL}};
    struct grid *grid = grid_create(columns);
    for (size_t i = 0; i < facts->resource_count; i++) {
        const struct top_resource *resource = &facts->resources[i];
        char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
        bool is_share = strcmp(resource->kind, "class") == 0;
        grid_cell(grid, TABLE_PLAIN, "%s%s", is_share ? "share of class " : "", log_quote(resource->name, quoted));
        grid_cell(grid, resource->waiters > 0 ? TABLE_WARN : TABLE_DIM, "%s", human_count(resource->waiters, human));
        grid_cell(grid, TABLE_PLAIN, "%s",
                  resource->holder != NULL ? human_span(resource->holder->age_us, human) : "-");
        name_cell(grid, TABLE_DIM, resource->holder != NULL ? resource->holder->jid : "");
        name_cell(grid, TABLE_DIM, resource->holder != NULL ? resource->holder->process : "");
    }
    return grid;
}

static struct grid *nodes_grid(const struct top_facts *facts)
{
    static const struct grid_column columns[] = {{.title = "LOCK NODE", .least = 8},
                                                 {.title = "STATE"},
                                                 {.title = "LATENCY", .is_right = true, .rank = 1},
                                                 {.title = "WHY", .least = 10, .rank = 2},
                                                 {.title = "AT MOST", .is_right = true, .rank = 3},
                                                 {.title = "ADDRESS", .least = 10, .rank = 4},
                                                 {.title = NULL}};
    struct grid *grid = grid_create(columns);
    for (unsigned i = 0; i < facts->node_count; i++) {
        const struct redlock_node_view *view = &facts->nodes[i];
        char human[HUMAN_TEXT_MAX];
        enum table_style style = view->votes ? TABLE_GOOD : view->quarantine_left_ns > 0 ? TABLE_WARN : TABLE_BAD;
        name_cell(grid, TABLE_PLAIN, view->name);
        grid_cell(grid, style, "%s", view->state);
        grid_cell(grid, TABLE_PLAIN, view->is_reached ? "%.1f ms" : "-", (double)view->latency_ns / (double)NS_PER_MS);
        grid_cell(grid, view->votes ? TABLE_DIM : TABLE_PLAIN, "%s", view->reason);
        grid_cell(grid, TABLE_PLAIN, "%s",
                  view->quarantine_left_ns > 0 ? human_span(view->quarantine_left_ns / NS_PER_US, human) : "-");
        grid_cell(grid, TABLE_DIM, "%s", view->address);
    }
    return grid;
}

static struct grid *queues_grid(const struct top_facts *facts)
{
    static const struct grid_column columns[] = {{.title = "QUEUE", .least = 10},
                                                 {.title = "TASKS", .is_right = true},
                                                 {.title = "LATENCY", .is_right = true, .rank = 1},
                                                 {.title = "", .least = 6, .rank = 2},
                                                 {.title = NULL}};
    struct grid *grid = grid_create(columns);
    for (size_t i = 0; i < facts->status.backlog.count; i++) {
        const struct backlog_queue *queue = &facts->status.backlog.items[i];
        char human[HUMAN_TEXT_MAX];
        name_cell(grid, TABLE_PLAIN, queue->name);
        grid_cell(grid, TABLE_PLAIN, "%s", queue->length < 0 ? "?" : human_count(queue->length, human));
        grid_cell(grid, TABLE_PLAIN, "%s", queue->latency_us < 0 ? "?" : human_span(queue->latency_us, human));
        grid_cell(grid, TABLE_WARN, "%s", backlog_queue_remark(&facts->status.backlog, queue));
    }
    return grid;
}

/* --- the screen ------------------------------------------------------------------------------------------------- */

/* Who has rows gets a line for titles and one row; then each one more in turn, until there is no line or no row. A
 * blank line goes before each section if there is room for all of them. */
static bool rows_share(struct grid *const *grids, unsigned lines, size_t rows[SECTIONS])
{
    unsigned sections = 0;
    for (int i = 0; i < SECTIONS; i++) {
        bool is_shown = grid_rows(grids[i]) > 0 && lines >= 2;
        rows[i] = is_shown;
        lines -= is_shown ? 2 : 0;
        sections += is_shown;
    }
    bool has_blanks = lines >= 2 * sections;
    lines -= has_blanks ? sections : 0;
    for (bool is_given = true; is_given && lines > 0;) {
        is_given = false;
        for (int i = 0; i < SECTIONS && lines > 0; i++)
            if (rows[i] > 0 && rows[i] < grid_rows(grids[i])) {
                rows[i]++;
                lines--;
                is_given = true;
            }
    }
    return has_blanks;
}

static void sections_write(struct screen *screen, struct grid *const *grids)
{
    size_t rows[SECTIONS];
    bool has_blanks = rows_share(grids, screen->left, rows);
    for (int i = 0; i < SECTIONS; i++) {
        if (rows[i] == 0)
            continue;
        if (has_blanks)
            line_end(screen);
        grid_write(grids[i], screen->width, rows[i], screen->has_colour, screen->out);
    }
}

void top_screen_write(const struct top_facts *facts, unsigned width, unsigned height, bool has_colour,
                      struct buffer *out)
{
    struct screen screen = {.width = width, .left = height, .has_colour = has_colour, .out = out};
    write_rates(&screen, facts);
    write_totals(&screen, &facts->status);
    if (facts->away != NULL)
        write_away(&screen, facts);
    if (facts->nodes_reason != NULL)
        write_warning(&screen, facts->nodes_reason);
    struct grid *const grids[SECTIONS] = {processes_grid(facts), tasks_grid(facts), resources_grid(facts),
                                          nodes_grid(facts), queues_grid(facts)};
    sections_write(&screen, grids);
    for (int i = 0; i < SECTIONS; i++)
        grid_free(grids[i]);
}
