#include "worker/commands/top_screen.h"

#include <string.h>

#include "base/log.h"
#include "worker/commands/health.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"

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
        enum table_style style = view->votes ? TABLE_GOOD : view->quarantine_left_ms > 0 ? TABLE_WARN : TABLE_BAD;
        name_cell(table, TABLE_PLAIN, view->name);
        table_cell(table, style, "%s", view->state);
        table_cell(table, TABLE_PLAIN, view->is_reached ? "%.1f ms" : "-", (double)view->latency_us / 1000);
        table_number(table, view->is_reached ? view->latency_us : INT64_MAX);
        table_cell(table, view->votes ? TABLE_DIM : TABLE_PLAIN, "%s", view->reason);
        table_cell(table, TABLE_PLAIN, "%s",
                   view->quarantine_left_ms > 0 ? human_span(view->quarantine_left_ms * 1000, human) : "-");
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

static struct table *chosen_table(const struct top_facts *facts, const struct top_view *view, enum top_section section)
{
    static struct table *(*const makers[TOP_SECTIONS])(const struct top_facts *) = {
        [TOP_PROCESSES] = processes_table, [TOP_TASKS] = tasks_table,   [TOP_RESOURCES] = resources_table,
        [TOP_NODES] = nodes_table,         [TOP_QUEUES] = queues_table,
    };
    struct table *table = makers[section](facts);
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

/* --- keys --------------------------------------------------------------------------------------------------------- */

enum { KEY_ESCAPE = 27, KEY_BACKSPACE = 127, KEY_UP = 256, KEY_DOWN, KEY_RIGHT, KEY_LEFT, KEY_OTHER };

/* Terminals send the arrows as ESC [ A or ESC O A, up to D. */
static int key_read(const char *bytes, size_t length, size_t *used)
{
    *used = 1;
    if (bytes[0] != KEY_ESCAPE || length < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
        return (unsigned char)bytes[0];
    *used = 2;
    while (*used < length && strchr("0123456789;", bytes[*used]) != NULL)
        ++*used;
    if (*used == length)
        return KEY_OTHER;
    char last = bytes[(*used)++];
    return last >= 'A' && last <= 'D' ? KEY_UP + (last - 'A') : KEY_OTHER;
}

static void section_step(struct top_view *view, int step)
{
    view->section = (enum top_section)(((int)view->section + step + TOP_SECTIONS) % TOP_SECTIONS);
    view->row = 0;
}

static enum top_wish filter_type(struct top_view *view, int key)
{
    size_t length = strlen(view->filter);
    if (key == '\r' || key == '\n') {
        view->mode = TOP_LISTS;
    } else if (key == KEY_ESCAPE) {
        view->filter[0] = '\0';
        view->mode = TOP_LISTS;
    } else if ((key == KEY_BACKSPACE || key == '\b') && length > 0) {
        while (length > 0 && (view->filter[--length] & 0xc0) == 0x80)
            ; /* the bytes of one character */
        view->filter[length] = '\0';
    } else if (key >= ' ' && key < KEY_UP && key != KEY_BACKSPACE && length + 1 < sizeof view->filter) {
        view->filter[length] = (char)key;
        view->filter[length + 1] = '\0';
    }
    view->row = 0;
    return TOP_NOTHING;
}

static enum top_wish text_type(struct top_view *view, int key)
{
    if (key == KEY_DOWN || key == 'j')
        view->text_line++;
    else if ((key == KEY_UP || key == 'k') && view->text_line > 0)
        view->text_line--;
    else if (key == 'q' || key == 'Q' || key == KEY_ESCAPE || key == '\r' || key == '\n')
        view->mode = TOP_LISTS;
    return TOP_NOTHING;
}

static void lists_move(struct top_view *view, int key)
{
    switch (key) {
    case '\t':
    case KEY_RIGHT:
        section_step(view, 1);
        break;
    case KEY_LEFT:
        section_step(view, -1);
        break;
    case KEY_DOWN:
    case 'j':
        view->row++;
        break;
    case KEY_UP:
    case 'k':
        view->row -= view->row > 0;
        break;
    case 's':
        view->sorted[view->section]++; /* the screen knows how many columns there are */
        break;
    case 'r':
        view->is_descending[view->section] = !view->is_descending[view->section];
        break;
    case '/':
        view->mode = TOP_FILTERS;
        break;
    case KEY_ESCAPE:
        view->filter[0] = '\0';
        break;
    default:
        break;
    }
}

enum top_wish top_view_type(struct top_view *view, const char *bytes, size_t length, size_t *used)
{
    int key = key_read(bytes, length, used);
    if (view->mode == TOP_FILTERS)
        return filter_type(view, key);
    if (view->mode == TOP_CONFIRMS) {
        view->mode = TOP_LISTS;
        view->note[0] = '\0';
        return key == 'y' || key == 'Y' ? TOP_DO : TOP_NOTHING;
    }
    if (view->mode == TOP_READS)
        return text_type(view, key);
    view->note[0] = '\0';
    switch (key) {
    case 'q':
    case 'Q':
        return TOP_QUIT;
    case '\r':
    case '\n':
        return TOP_OPEN;
    case 'c':
        return TOP_CANCEL;
    case 'p':
        return TOP_PAUSE;
    default:
        lists_move(view, key);
        return TOP_NOTHING;
    }
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

/* The snapshot of `holdfast top` for programs. */

/* A rate with one digit behind the point. */
static void rate_json(struct json_writer *json, const char *name, double rate)
{
    json_seconds(json, name, (int64_t)(rate * 10 + 0.5) * (US_PER_S / 10));
}

static void rates_json(struct json_writer *json, const struct top_facts *facts)
{
    if (!facts->has_rate) {
        json_nothing(json, "rate");
        return;
    }
    json_open(json, "rate", '{');
    rate_json(json, "processed", facts->processed_rate);
    rate_json(json, "failed", facts->failed_rate);
    json_seconds(json, "over", facts->rate_us);
    json_close(json, '}');
}

static void processes_json(struct json_writer *json, const struct fleet *fleet)
{
    json_open(json, "processes", '[');
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = &fleet->items[i];
        json_open(json, NULL, '{');
        json_text(json, "identity", process->identity);
        json_text(json, "state", fleet_state_name(process->state));
        json_number(json, "busy", process->busy);
        json_number(json, "threads", process->concurrency);
        json_truth(json, "quiet", process->is_quiet);
        json_number(json, "rss_kb", process->rss_kb);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void running_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "running", '[');
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        json_open(json, NULL, '{');
        json_text_or_nothing(json, "class", task->class_name);
        json_text_or_nothing(json, "jid", task->jid);
        json_text_or_nothing(json, "queue", task->queue);
        json_text_or_nothing(json, "process", task->process);
        json_seconds(json, "age", task->age_us);
        json_text_or_nothing(json, "resource", task->resource);
        json_text_or_nothing(json, "token", task->token);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void resources_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "resources", '[');
    for (size_t i = 0; i < facts->resource_count; i++) {
        const struct top_resource *resource = &facts->resources[i];
        json_open(json, NULL, '{');
        json_text(json, "for", resource->kind);
        json_text(json, "name", resource->name);
        json_number(json, "waiters", resource->waiters);
        json_text(json, "holder", resource->holder != NULL ? resource->holder->jid : NULL);
        json_text(json, "process", resource->holder != NULL ? resource->holder->process : NULL);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void nodes_json(struct json_writer *json, const struct top_facts *facts)
{
    json_open(json, "lock_nodes", '[');
    for (unsigned i = 0; i < facts->node_count; i++) {
        const struct redlock_node_view *view = &facts->nodes[i];
        json_open(json, NULL, '{');
        json_text(json, "name", view->name);
        json_text(json, "address", view->address);
        json_truth(json, "reached", view->is_reached);
        json_truth(json, "votes", view->votes);
        json_text(json, "state", view->state);
        json_text(json, "reason", view->reason);
        json_seconds_if(json, "latency", view->is_reached, view->latency_us);
        json_seconds(json, "quarantine_left", view->quarantine_left_ms * 1000);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void top_json_write(const struct top_facts *facts, struct buffer *out)
{
    struct json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    json_seconds(&json, "time", facts->now.us);
    json_text(&json, "away", facts->away);
    rates_json(&json, facts);
    json_number_or_nothing(&json, "processed", facts->status.processed);
    json_number_or_nothing(&json, "failed", facts->status.failed);
    json_number_or_nothing(&json, "schedule", facts->status.schedule);
    json_number_or_nothing(&json, "retry", facts->status.retry);
    json_number_or_nothing(&json, "dead", facts->status.dead);
    processes_json(&json, &facts->status.fleet);
    running_json(&json, facts);
    resources_json(&json, facts);
    nodes_json(&json, facts);
    backlog_json(&facts->status.backlog, &json);
    json_close(&json, '}');
}
