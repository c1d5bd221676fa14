/* holdfast tasks list. */
#include "worker/commands/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/real.h"
#include "worker/print/human.h"
#include "worker/print/table.h"

enum { PAGE = 100, ERROR_SHOWN_MAX = 60 };

static const char set_columns[] = "WHEN|KEY|CLASS|QUEUE|>TRY|ERROR";
static const char queue_columns[] = ">NEXT|JID|CLASS|>WAITING";
static const char claim_columns[] = "PROCESS|STATE|>SLOT|QUEUE|JID|CLASS";

bool tasks_want(const struct tasks *tasks, struct task_view *view, const struct task_entry *entry)
{
    if (tasks->queue != NULL) {
        const char *queue = entry->queue != NULL ? entry->queue : view->is_task ? view->envelope.queue : "";
        if (strcmp(queue, tasks->queue) != 0)
            return false;
    }
    return tasks->class_name == NULL || (view->is_task && (strcmp(view->envelope.class_name, tasks->class_name) == 0 ||
                                                           strcmp(task_view_class(view), tasks->class_name) == 0));
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

void tasks_place_json(const struct task_entry *entry, const char *jid, struct json_writer *json)
{
    json_text(json, "place", task_place_name(entry->place));
    if (task_place_is_set(entry->place)) {
        struct buffer key = {0};
        buffer_format(&key, "%s-%s", entry->score, jid);
        json_text(json, "key", buffer_text(&key));
        if (isfinite(real_read(entry->score, NULL)))
            json_seconds(json, "at", wall_read(entry->score).us);
        else
            json_nothing(json, "at");
        buffer_fini(&key);
    } else if (entry->place == TASK_IN_QUEUE) {
        json_text(json, "in_queue", entry->queue);
        json_number(json, "position", entry->position);
    } else {
        json_text(json, "in_queue", entry->queue);
        json_text(json, "identity", entry->identity);
        json_text(json, "slot", entry->slot);
        json_number(json, "scheme", entry->scheme);
        json_truth(json, "process_alive", entry->is_living);
    }
}

static void entry_json(const struct task_entry *entry, struct task_view *view, struct json_writer *json)
{
    json_open(json, NULL, '{');
    tasks_place_json(entry, view->is_task ? view->envelope.jid : "", json);
    task_view_json(view, json);
    json_close(json, '}');
}

/* --- for people ------------------------------------------------------------------------------------------------- */

static void class_cell(struct table *table, struct task_view *view)
{
    char quoted[LOG_QUOTE_MAX];
    if (view->is_task)
        table_cell(table, TABLE_PLAIN, "%s", log_quote(task_view_class(view), quoted));
    else
        table_cell(table, TABLE_BAD, "no task: %s", log_quote(view->reason.text, quoted));
}

static const char *jid_of(const struct task_view *view, char out[LOG_QUOTE_MAX])
{
    return log_quote(view->is_task && view->envelope.jid[0] != '\0' ? view->envelope.jid : NULL, out);
}

static void set_row(struct table *table, const struct task_entry *entry, struct task_view *view, struct wall_time now)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    struct buffer error = {0};
    struct wall_time at = wall_read(entry->score);
    bool is_time = isfinite(real_read(entry->score, NULL));
    table_cell(table, TABLE_PLAIN, "%s", is_time ? human_moment(at, now, human) : entry->score);
    bool has_jid = view->is_task && view->envelope.jid[0] != '\0';
    table_cell(table, TABLE_PLAIN, "%s-%s", entry->score, has_jid ? jid_of(view, quoted) : "");
    class_cell(table, view);
    table_cell(table, TABLE_PLAIN, "%s", log_quote(view->is_task ? view->envelope.queue : "", quoted));
    if (view->is_task && view->envelope.was_retried)
        table_cell(table, TABLE_PLAIN, "%u", envelope_attempt(&view->envelope));
    else
        table_cell(table, TABLE_PLAIN, "%s", "");
    task_view_error(view, &error);
    size_t length = error.length < ERROR_SHOWN_MAX ? error.length : ERROR_SHOWN_MAX;
    table_cell(table, TABLE_PLAIN, "%s", length > 0 ? log_quote_bytes(error.bytes, length, quoted) : "");
    buffer_fini(&error);
}

static void queue_row(struct table *table, const struct task_entry *entry, struct task_view *view, struct wall_time now)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    struct wall_time since = task_view_since(view);
    table_cell(table, TABLE_PLAIN, "%lld", entry->position);
    table_cell(table, TABLE_PLAIN, "%s", jid_of(view, quoted));
    class_cell(table, view);
    table_cell(table, TABLE_PLAIN, "%s", since.us != 0 ? human_span(now.us - since.us, human) : "?");
}

static void claim_row(struct table *table, const struct task_entry *entry, struct task_view *view)
{
    char quoted[LOG_QUOTE_MAX];
    table_cell(table, TABLE_PLAIN, "%s", log_quote(entry->identity, quoted));
    if (entry->scheme == 1)
        table_cell(table, TABLE_WARN, "%s", "of the previous version");
    else
        table_cell(table, entry->is_living ? TABLE_GOOD : TABLE_BAD, "%s", entry->is_living ? "alive" : "lease ended");
    table_cell(table, TABLE_PLAIN, "%s", entry->slot != NULL ? entry->slot : "bell");
    table_cell(table, TABLE_PLAIN, "%s", log_quote(entry->queue, quoted));
    table_cell(table, TABLE_PLAIN, "%s", jid_of(view, quoted));
    class_cell(table, view);
}

/* --- listing ---------------------------------------------------------------------------------------------------- */

struct listing {
    struct tasks *tasks;
    struct task_walk walk;
    struct task_view view;
    struct table *table; /* for people */
    struct json_writer json;
    struct buffer out;
    int64_t shown, looked;
};

static void entry_tell(struct listing *listing, const struct task_entry *entry)
{
    struct wall_time now = listing->tasks->console.now;
    listing->shown++;
    if (listing->tasks->console.as_json)
        entry_json(entry, &listing->view, &listing->json);
    else if (task_place_is_set(entry->place))
        set_row(listing->table, entry, &listing->view, now);
    else if (entry->place == TASK_IN_QUEUE)
        queue_row(listing->table, entry, &listing->view, now);
    else
        claim_row(listing->table, entry, &listing->view);
}

/* Tells of the page as much as is wanted; the rest begins the next one. Claims come by whole processes. */
static void page_tell(struct listing *listing)
{
    const struct tasks *tasks = listing->tasks;
    bool is_whole = tasks->place == TASK_IN_CLAIMS;
    size_t seen = 0;
    for (; seen < listing->walk.count && (is_whole || listing->shown < tasks->limit); seen++) {
        const struct task_entry *entry = &listing->walk.entries[seen];
        task_view_read(&listing->view, entry->task.bytes, entry->task.length);
        if (tasks_want(tasks, &listing->view, entry))
            entry_tell(listing, entry);
    }
    listing->looked += (int64_t)seen;
    task_walk_advance(&listing->walk, seen);
}

static int pages_tell(struct listing *listing)
{
    const struct tasks *tasks = listing->tasks;
    bool has_filter = tasks->class_name != NULL || (tasks->queue != NULL && tasks->place != TASK_IN_QUEUE);
    int code = EXIT_CODE_OK;
    while (code == EXIT_CODE_OK && !listing->walk.is_over && listing->shown < tasks->limit &&
           listing->looked < tasks->scan_limit) {
        int64_t left = tasks->limit - listing->shown;
        code = task_walk_next(&listing->walk, has_filter || left > PAGE ? PAGE : (size_t)left);
        if (code == EXIT_CODE_OK)
            page_tell(listing);
    }
    return code;
}

static void finish_json(struct listing *listing, struct buffer *cursor)
{
    json_close(&listing->json, ']');
    json_number(&listing->json, "looked_at", listing->looked);
    json_text(&listing->json, "next", cursor->length > 0 ? buffer_text(cursor) : NULL);
    json_close(&listing->json, '}');
    json_print(&listing->out);
}

static void finish_table(struct listing *listing, struct buffer *cursor)
{
    char quoted[LOG_QUOTE_MAX];
    if (listing->shown > 0)
        table_print(listing->table, stdout);
    else
        table_free(listing->table);
    if (cursor->length > 0)
        printf("%s--cursor %s\n", listing->shown < listing->tasks->limit ? "more may follow: " : "more: ",
               log_quote(buffer_text(cursor), quoted));
    else if (listing->shown == 0)
        printf("no tasks\n");
}

int tasks_list(struct tasks *tasks)
{
    struct listing listing = {.tasks = tasks};
    struct error error = ERROR_NONE;
    struct buffer cursor = {0};
    const char *queue = tasks->place == TASK_IN_QUEUE ? tasks->queue : NULL;
    if (!task_walk_begin(&listing.walk, &tasks->console, tasks->place, queue, tasks->cursor, &error)) {
        task_walk_end(&listing.walk);
        return console_complain(&tasks->console, "%s", error.text);
    }
    listing.json.out = &listing.out;
    json_open(&listing.json, NULL, '{');
    json_text(&listing.json, "place", task_place_name(tasks->place));
    json_open(&listing.json, "tasks", '[');
    listing.table = table_create(task_place_is_set(tasks->place) ? set_columns
                                 : tasks->place == TASK_IN_QUEUE ? queue_columns
                                                                 : claim_columns);
    int code = pages_tell(&listing);
    task_walk_cursor(&listing.walk, &cursor);
    if (code == EXIT_CODE_OK && tasks->console.as_json)
        finish_json(&listing, &cursor);
    if (code == EXIT_CODE_OK && !tasks->console.as_json)
        finish_table(&listing, &cursor);
    else
        table_free(listing.table);
    buffer_fini(&cursor);
    buffer_fini(&listing.out);
    task_view_fini(&listing.view);
    task_walk_end(&listing.walk);
    return code;
}
