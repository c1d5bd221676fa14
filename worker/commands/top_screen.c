#include "worker/commands/top_screen.h"

#include <string.h>

#include "base/log.h"
#include "worker/commands/health.h"
#include "worker/print/table.h"
#include "worker/print/human.h"

enum { BETWEEN_PIECES = 3 };

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
        unsigned width = table_text_width(pieces[i]), gap = used > 0 ? BETWEEN_PIECES : 0;
        if (i > 0 && used + gap + width > screen->width)
            continue;
        buffer_format(screen->out, "%*s", (int)gap, "");
        used += gap + table_text_write(pieces[i], screen->width - used - gap, screen->out);
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
    table_text_write(text, screen->width, screen->out);
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

static void write_health(struct screen *screen, const struct top_facts *facts)
{
    struct health health;
    struct buffer line = {0};
    health_judge(&health, &facts->status, &health_bounds_usual, facts->now);
    health_line(&health, &facts->status, &line);
    if (health.count > 0)
        write_warning(screen, buffer_text(&line));
    buffer_fini(&line);
    health_free(&health);
}

/* --- sections --------------------------------------------------------------------------------------------------- */

static void name_cell(struct table *table, enum table_style style, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    table_cell(table, style, "%s", name[0] != '\0' ? log_quote(name, quoted) : "-");
}

static void process_cells(struct table *table, const struct fleet_process *process, struct wall_time now)
{
    static const enum table_style styles[] = {[FLEET_ALIVE] = TABLE_GOOD,
                                              [FLEET_LOST] = TABLE_BAD,
                                              [FLEET_RECOVERED] = TABLE_DIM,
                                              [FLEET_UNLEASED] = TABLE_DIM,
                                              [FLEET_FOREIGN] = TABLE_WARN};
    struct buffer queues = {0};
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    bool is_quiet = process->state == FLEET_ALIVE && process->is_quiet;
    name_cell(table, TABLE_PLAIN, process->identity);
    table_cell(table, is_quiet ? TABLE_WARN : styles[process->state], "%s",
               is_quiet ? "quiet" : fleet_state_name(process->state));
    table_cell(table, TABLE_PLAIN, process->is_shown ? "%lld/%lld" : "-", process->busy, process->concurrency);
    table_number(table, process->busy);
    table_cell(table, TABLE_PLAIN, "%s", process->is_shown ? human_size(process->rss_kb * 1024, human) : "-");
    table_number(table, process->rss_kb);
    table_cell(table, TABLE_DIM, "%s", human_moment(process->beat, now, human));
    table_number(table, process->beat.us);
    for (size_t i = 0; i < process->info.queue_count && queues.length < LOG_QUOTE_MAX; i++)
        buffer_format(&queues, "%s%s", i > 0 ? "," : "", log_quote(process->info.queues[i], quoted));
    table_cell(table, TABLE_PLAIN, "%s", buffer_text(&queues));
    table_name(table, process->identity);
    buffer_fini(&queues);
}

/* Those that are gone are no part of the picture of what happens now. */
static struct table *processes_table(const struct top_facts *facts)
{
    struct table *table = table_create("PROCESS:12|STATE:0,1|>BUSY|>MEMORY:0,3|BEAT:0,2|QUEUES:8,4");
    for (size_t i = 0; i < facts->status.fleet.count; i++) {
        const struct fleet_process *process = &facts->status.fleet.items[i];
        if (process->state != FLEET_RECOVERED && process->state != FLEET_UNLEASED)
            process_cells(table, process, facts->now);
    }
    return table;
}

static struct table *tasks_table(const struct top_facts *facts)
{
    struct table *table = table_create("RUNNING:10|>AGE|RESOURCE:10,1|>TOKEN:6,3|JID:8,2|PROCESS:10,4|QUEUE:6,5");
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        char human[HUMAN_TEXT_MAX];
        name_cell(table, TABLE_PLAIN, task->class_name);
        table_cell(table, TABLE_PLAIN, "%s", human_span(task->age_us, human));
        table_number(table, task->age_us);
        name_cell(table, TABLE_PLAIN, task->resource);
        name_cell(table, TABLE_DIM, task->token);
        name_cell(table, TABLE_DIM, task->jid);
        name_cell(table, TABLE_DIM, task->process);
        name_cell(table, TABLE_DIM, task->queue);
        table_name(table, task->jid);
    }
    return table;
}

static struct table *resources_table(const struct top_facts *facts)
{
    struct table *table = table_create("RESOURCE:10|>WAITERS|>HELD FOR:0,2|BY TASK:8,1|ON:10,3");
    for (size_t i = 0; i < facts->resource_count; i++) {
        const struct top_resource *resource = &facts->resources[i];
        char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
        bool is_share = strcmp(resource->kind, "class") == 0;
        table_cell(table, TABLE_PLAIN, "%s%s", is_share ? "share of class " : "", log_quote(resource->name, quoted));
        table_cell(table, resource->waiters > 0 ? TABLE_WARN : TABLE_DIM, "%s", human_count(resource->waiters, human));
        table_number(table, resource->waiters);
        table_cell(table, TABLE_PLAIN, "%s",
                   resource->holder != NULL ? human_span(resource->holder->age_us, human) : "-");
        table_number(table, resource->holder != NULL ? resource->holder->age_us : -1);
        name_cell(table, TABLE_DIM, resource->holder != NULL ? resource->holder->jid : "");
        name_cell(table, TABLE_DIM, resource->holder != NULL ? resource->holder->process : "");
        table_name(table, resource->holder != NULL ? resource->holder->jid : "");
    }
    return table;
}

static struct table *nodes_table(const struct top_facts *facts)
{
    struct table *table = table_create("LOCK NODE:8|STATE|>LATENCY:0,1|WHY:10,2|>AT MOST:0,3|ADDRESS:10,4");
    for (unsigned i = 0; i < facts->node_count; i++) {
        const struct redlock_node_view *view = &facts->nodes[i];
        char human[HUMAN_TEXT_MAX];
        enum table_style style = view->votes ? TABLE_GOOD : view->quarantine_left_ns > 0 ? TABLE_WARN : TABLE_BAD;
        name_cell(table, TABLE_PLAIN, view->name);
        table_cell(table, style, "%s", view->state);
        table_cell(table, TABLE_PLAIN, view->is_reached ? "%.1f ms" : "-",
                   (double)view->latency_ns / (double)NS_PER_MS);
        table_number(table, view->is_reached ? view->latency_ns : INT64_MAX);
        table_cell(table, view->votes ? TABLE_DIM : TABLE_PLAIN, "%s", view->reason);
        table_cell(table, TABLE_PLAIN, "%s",
                   view->quarantine_left_ns > 0 ? human_span(view->quarantine_left_ns / NS_PER_US, human) : "-");
        table_cell(table, TABLE_DIM, "%s", view->address);
    }
    return table;
}

static struct table *queues_table(const struct top_facts *facts)
{
    struct table *table = table_create("QUEUE:10|>TASKS|>LATENCY:0,1|:6,2");
    for (size_t i = 0; i < facts->status.backlog.count; i++) {
        const struct backlog_queue *queue = &facts->status.backlog.items[i];
        char human[HUMAN_TEXT_MAX];
        name_cell(table, TABLE_PLAIN, queue->name);
        table_cell(table, TABLE_PLAIN, "%s", queue->length < 0 ? "?" : human_count(queue->length, human));
        table_number(table, queue->length);
        table_cell(table, TABLE_PLAIN, "%s", queue->latency_us < 0 ? "?" : human_span(queue->latency_us, human));
        table_number(table, queue->latency_us);
        table_cell(table, TABLE_WARN, "%s", backlog_queue_remark(&facts->status.backlog, queue));
        table_name(table, queue->name);
    }
    return table;
}

/* --- the screen ------------------------------------------------------------------------------------------------- */

/* Who has rows gets a line for titles and one row; then each one more in turn, until there is no line or no row. A
 * blank line goes before each section if there is room for all of them. */
static bool rows_share(struct table *const *tables, unsigned lines, size_t rows[TOP_SECTIONS])
{
    unsigned sections = 0;
    for (int i = 0; i < TOP_SECTIONS; i++) {
        bool is_shown = table_rows(tables[i]) > 0 && lines >= 2;
        rows[i] = is_shown;
        lines -= is_shown ? 2 : 0;
        sections += is_shown;
    }
    bool has_blanks = lines >= 2 * sections;
    lines -= has_blanks ? sections : 0;
    for (bool is_given = true; is_given && lines > 0;) {
        is_given = false;
        for (int i = 0; i < TOP_SECTIONS && lines > 0; i++)
            if (rows[i] > 0 && rows[i] < table_rows(tables[i])) {
                rows[i]++;
                lines--;
                is_given = true;
            }
    }
    return has_blanks;
}

static void sections_write(struct screen *screen, struct table *const *tables)
{
    size_t rows[TOP_SECTIONS];
    bool has_blanks = rows_share(tables, screen->left, rows);
    for (int i = 0; i < TOP_SECTIONS; i++) {
        if (rows[i] == 0)
            continue;
        if (has_blanks)
            line_end(screen);
        table_write(tables[i], screen->width, rows[i], screen->has_colour, screen->out);
    }
}

/* --- what was chosen ---------------------------------------------------------------------------------------------- */

static struct table *section_table(const struct top_facts *facts, enum top_section section)
{
    static struct table *(*const makers[TOP_SECTIONS])(const struct top_facts *) = {
        [TOP_PROCESSES] = processes_table, [TOP_TASKS] = tasks_table,   [TOP_RESOURCES] = resources_table,
        [TOP_NODES] = nodes_table,         [TOP_QUEUES] = queues_table,
    };
    return makers[section](facts);
}

static struct table *chosen_table(const struct top_facts *facts, const struct top_view *view, enum top_section section)
{
    struct table *table = section_table(facts, section);
    unsigned sorted = view != NULL ? view->sorted[section] % (table_columns(table) + 1) : 0;
    if (view != NULL && view->filter[0] != '\0')
        table_filter(table, view->filter);
    if (sorted > 0)
        table_sort(table, sorted - 1, view->is_descending[section]);
    return table;
}

void top_screen_chosen(const struct top_facts *facts, const struct top_view *view, char name[TOP_NAME_MAX])
{
    struct table *table = chosen_table(facts, view, view->section);
    snprintf(name, TOP_NAME_MAX, "%s", table_name_of(table, view->row));
    table_free(table);
}

/* The last line: keys, or what is typed, asked or told. */
static void write_keys(struct screen *screen, const struct top_view *view)
{
    static const char keys[] = "q quit   Tab section   up/down row   / filter   s sort   r reverse   Enter task   "
                               "c cancel   p pause";
    char text[TOP_NOTE_MAX + TOP_FILTER_MAX], quoted[LOG_QUOTE_MAX];
    const char *shown = view->mode == TOP_READS ? "q back   up/down lines" : view->note[0] != '\0' ? view->note : keys;
    if (view->mode == TOP_FILTERS || (view->filter[0] != '\0' && shown == keys)) {
        snprintf(text, sizeof text, "filter: %s%s", view->filter[0] != '\0' ? log_quote(view->filter, quoted) : "",
                 view->mode == TOP_FILTERS ? "_" : "   (Esc shows all)");
        shown = text;
    }
    screen->left = 1;
    buffer_append_text(screen->out, screen->has_colour ? table_style_code(TABLE_DIM) : "");
    table_text_write(shown, screen->width, screen->out);
    buffer_append_text(screen->out, screen->has_colour ? table_style_code(TABLE_PLAIN) : "");
    line_end(screen);
}

/* A text instead of the lists. */
static void write_text(struct screen *screen, struct top_view *view)
{
    size_t lines = 0, line = 0;
    for (const char *at = view->text; *at != '\0'; at++)
        lines += *at == '\n';
    if (view->text_line + screen->left > lines)
        view->text_line = lines > screen->left ? lines - screen->left : 0;
    for (const char *at = view->text, *end; screen->left > 0 && (end = strchr(at, '\n')) != NULL; at = end + 1)
        if (line++ >= view->text_line) {
            struct buffer one = {0};
            buffer_append(&one, at, (size_t)(end - at));
            table_text_write(buffer_text(&one), screen->width, screen->out);
            buffer_fini(&one);
            line_end(screen);
        }
}

static void write_lists(struct screen *screen, const struct top_facts *facts, struct top_view *view)
{
    struct table *tables[TOP_SECTIONS];
    write_rates(screen, facts);
    write_totals(screen, &facts->status);
    if (facts->away != NULL)
        write_away(screen, facts);
    else
        write_health(screen, facts);
    if (facts->nodes_reason != NULL)
        write_warning(screen, facts->nodes_reason);
    for (int i = 0; i < TOP_SECTIONS; i++)
        tables[i] = chosen_table(facts, view, (enum top_section)i);
    if (view != NULL) {
        size_t rows = table_rows(tables[view->section]);
        view->row = rows == 0 ? 0 : view->row >= rows ? rows - 1 : view->row;
        table_mark(tables[view->section], view->row);
    }
    sections_write(screen, tables);
    for (int i = 0; i < TOP_SECTIONS; i++)
        table_free(tables[i]);
}

void top_screen_write(const struct top_facts *facts, struct top_view *view, unsigned width, unsigned height,
                      bool has_colour, struct buffer *out)
{
    bool has_keys = view != NULL && height > 1;
    struct screen screen = {.width = width, .left = height - has_keys, .has_colour = has_colour, .out = out};
    if (view != NULL && view->mode == TOP_READS)
        write_text(&screen, view);
    else
        write_lists(&screen, facts, view);
    if (has_keys)
        write_keys(&screen, view);
}
