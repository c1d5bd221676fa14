#include "worker/commands/top_screen.h"

#include <string.h>

#include "base/log.h"
#include "worker/commands/health.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"

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

/* Those that are gone are no part of the picture of what happens now. */
static void processes_put(const struct top_facts *facts, struct printer *out)
{
    for (size_t i = 0; i < facts->status.fleet.count; i++) {
        const struct fleet_process *process = &facts->status.fleet.items[i];
        if (out->is_json || (process->state != FLEET_RECOVERED && process->state != FLEET_UNLEASED))
            fleet_process_put(process, out);
    }
}

static void tasks_put(const struct top_facts *facts, struct printer *out)
{
    for (size_t i = 0; i < facts->task_count; i++) {
        const struct top_task *task = &facts->tasks[i];
        printer_row(out);
        printer_name(out, "RUNNING:10", "class", printer_known(task->class_name));
        printer_span(out, ">AGE", "age", task->age_us);
        printer_name(out, "RESOURCE:10,1", "resource", printer_known(task->resource));
        printer_name(out, ".>TOKEN:6,3", "token", printer_known(task->token));
        printer_name(out, ".JID:8,2", "jid", printer_known(task->jid));
        printer_name(out, ".PROCESS:10,4", "process", printer_known(task->process));
        printer_name(out, ".QUEUE:6,5", "queue", printer_known(task->queue));
        printer_about(out, task->jid);
        printer_row_end(out);
    }
}

static void resources_put(const struct top_facts *facts, struct printer *out)
{
    static const struct top_task nobody = {.age_us = -1};
    for (size_t i = 0; i < facts->resource_count; i++) {
        const struct top_resource *resource = &facts->resources[i];
        const struct top_task *holder = resource->holder != NULL ? resource->holder : &nobody;
        char quoted[LOG_QUOTE_MAX];
        bool is_share = strcmp(resource->kind, "class") == 0;
        printer_row(out);
        printer_text(out, NULL, "for", resource->kind);
        printer_text(out, NULL, "name", resource->name);
        printer_cell(out, "RESOURCE:10", TABLE_PLAIN, "%s%s", is_share ? "share of class " : "",
                     log_quote(resource->name, quoted));
        printer_count(out, ">WAITERS", "waiters", resource->waiters);
        printer_style(out, resource->waiters > 0 ? TABLE_WARN : TABLE_DIM);
        printer_span(out, ">HELD FOR:0,2", NULL, holder->age_us);
        printer_name(out, ".BY TASK:8,1", "holder", printer_known(holder->jid));
        printer_name(out, ".ON:10,3", "process", printer_known(holder->process));
        printer_about(out, holder->jid != NULL ? holder->jid : "");
        printer_row_end(out);
    }
}

static void nodes_put(const struct top_facts *facts, struct printer *out)
{
    for (unsigned i = 0; i < facts->node_count; i++) {
        const struct redlock_node_view *view = &facts->nodes[i];
        printer_row(out);
        printer_name(out, "LOCK NODE:8", "name", view->name);
        printer_truth(out, "reached", view->is_reached);
        printer_truth(out, "votes", view->votes);
        printer_text(out, "STATE", "state", view->state);
        printer_style(out, view->votes ? TABLE_GOOD : view->quarantine_left_ms > 0 ? TABLE_WARN : TABLE_BAD);
        printer_span(out, NULL, "latency", view->is_reached ? view->latency_us : -1);
        printer_cell(out, ">LATENCY:0,1", TABLE_PLAIN, view->is_reached ? "%.1f ms" : "-",
                     (double)view->latency_us / 1000);
        printer_rank(out, view->is_reached ? view->latency_us : INT64_MAX);
        printer_text(out, "WHY:10,2", "reason", view->reason);
        printer_style(out, view->votes ? TABLE_DIM : TABLE_PLAIN);
        printer_span(out, NULL, "quarantine_left", view->quarantine_left_ms * 1000);
        printer_span(out, ">AT MOST:0,3", NULL, view->quarantine_left_ms > 0 ? view->quarantine_left_ms * 1000 : -1);
        printer_text(out, ".ADDRESS:10,4", "address", view->address);
        printer_row_end(out);
    }
}

static void queues_put(const struct top_facts *facts, struct printer *out)
{
    backlog_put_rows(&facts->status.backlog, NULL, out);
}

static const struct {
    const char *member;
    void (*put)(const struct top_facts *facts, struct printer *out);
} sections[TOP_SECTIONS] = {[TOP_PROCESSES] = {"processes", processes_put},
                            [TOP_TASKS] = {"running", tasks_put},
                            [TOP_RESOURCES] = {"resources", resources_put},
                            [TOP_NODES] = {"lock_nodes", nodes_put},
                            [TOP_QUEUES] = {"queues", queues_put}};

/* --- the screen ------------------------------------------------------------------------------------------------- */

/* A section with rows gets a line for titles and one row; then each one more in turn, until no line or no row is left.
 * A blank line goes before each section if there is room for all of them. */
static bool rows_share(struct table *const *tables, unsigned lines, size_t rows[TOP_SECTIONS])
{
    unsigned shown = 0;
    for (int i = 0; i < TOP_SECTIONS; i++) {
        bool is_shown = table_rows(tables[i]) > 0 && lines >= 2;
        rows[i] = is_shown;
        lines -= is_shown ? 2 : 0;
        shown += is_shown;
    }
    bool has_blanks = lines >= 2 * shown;
    lines -= has_blanks ? shown : 0;
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
    struct printer out = {.now = facts->now};
    printer_list(&out, sections[section].member);
    sections[section].put(facts, &out);
    struct table *table = out.table;
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

/* The last line: keys, what is typed, a question or a message. */
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

static enum top_action filter_type(struct top_view *view, int key)
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

static enum top_action text_type(struct top_view *view, int key)
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

enum top_action top_view_type(struct top_view *view, const char *bytes, size_t length, size_t *used)
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

/* --- rates ------------------------------------------------------------------------------------------------------- */

static void oldest_drop(struct rate_window *window)
{
    memmove(window->samples, window->samples + 1, --window->count * sizeof window->samples[0]);
}

/* Samples that come closer to each other than the window can hold replace the last one. */
void rate_window_add(struct rate_window *window, struct wall_time at, long long processed, long long failed)
{
    struct rate_sample sample = {.at = at, .processed = processed, .failed = failed};
    const struct rate_sample *last = window->count > 0 ? &window->samples[window->count - 1] : NULL;
    if (last != NULL && (at.us < last->at.us || processed < last->processed || failed < last->failed))
        window->count = 0;
    while (window->count >= 2 && window->samples[1].at.us <= at.us - RATE_WINDOW_US)
        oldest_drop(window);
    bool is_close =
        window->count >= 2 && at.us - window->samples[window->count - 2].at.us < RATE_WINDOW_US / (RATE_SAMPLES / 2);
    if (is_close)
        window->count--;
    if (window->count == RATE_SAMPLES)
        oldest_drop(window);
    window->samples[window->count++] = sample;
}

int64_t rate_window_span_us(const struct rate_window *window)
{
    return window->count > 0 ? window->samples[window->count - 1].at.us - window->samples[0].at.us : 0;
}

bool rate_window_read(const struct rate_window *window, double *processed, double *failed)
{
    int64_t span_us = rate_window_span_us(window);
    if (span_us < RATE_LEAST_US)
        return false;
    const struct rate_sample *first = &window->samples[0], *last = &window->samples[window->count - 1];
    double seconds = (double)span_us / (double)US_PER_S;
    *processed = (double)(last->processed - first->processed) / seconds;
    *failed = (double)(last->failed - first->failed) / seconds;
    return true;
}

void top_rates_fill(struct top_facts *facts, struct rate_window *window)
{
    const struct status *status = &facts->status;
    if (status->processed >= 0 && status->failed >= 0)
        rate_window_add(window, facts->now, status->processed, status->failed);
    facts->has_rate = rate_window_read(window, &facts->processed_rate, &facts->failed_rate);
    facts->rate_us = rate_window_span_us(window);
    if (facts->has_rate || status->minute_processed < 0 || status->minute_failed < 0)
        return;
    facts->has_rate = true;
    facts->rate_us = 60 * US_PER_S;
    facts->processed_rate = (double)status->minute_processed / 60;
    facts->failed_rate = (double)status->minute_failed / 60;
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

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

void top_json_write(const struct top_facts *facts, struct buffer *buffer)
{
    struct printer out = printer_begin(true, facts->now, buffer);
    json_seconds(&out.json, "time", facts->now.us);
    json_text(&out.json, "away", facts->away);
    rates_json(&out.json, facts);
    json_number_or_nothing(&out.json, "processed", facts->status.processed);
    json_number_or_nothing(&out.json, "failed", facts->status.failed);
    json_number_or_nothing(&out.json, "schedule", facts->status.schedule);
    json_number_or_nothing(&out.json, "retry", facts->status.retry);
    json_number_or_nothing(&out.json, "dead", facts->status.dead);
    for (int i = 0; i < TOP_QUEUES; i++) {
        printer_list(&out, sections[i].member);
        sections[i].put(facts, &out);
        printer_list_end(&out, NULL);
    }
    backlog_put(&facts->status.backlog, NULL, &out);
    json_close(&out.json, '}');
}
