/* holdfast tasks: what waits, what failed and what is claimed, and what to do with it. */
#include "worker/commands/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/real.h"
#include "worker/commands/tasks.h"
#include "worker/print/human.h"
#include "worker/print/table.h"

enum { PAGE = 100, ERROR_SHOWN_MAX = 60 };

static const char set_columns[] = "WHEN|KEY|CLASS|QUEUE|>TRY|ERROR";
static const char queue_columns[] = ">NEXT|JID|CLASS|>WAITING";
static const char claim_columns[] = "PROCESS|STATE|>SLOT|QUEUE|JID|CLASS";

/* --- for programs ----------------------------------------------------------------------------------------------- */

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

static int tasks_list(struct tasks *tasks)
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

/* --- the command line --------------------------------------------------------------------------------------------- */

enum { IDS_MAX = 1000, LIMIT_DEFAULT = 50, LIMIT_MOST = 100000, SCAN_DEFAULT = 10000 };

#define SCAN_MOST (INT64_C(1) << 40)

static bool place_take(void *target, const char *text, struct error *error)
{
    return task_place_parse(text, target) ||
           error_set(error, "\"%s\" is no place: it is queue, schedule, retry, dead or claims", text);
}

static bool queue_take(void *target, const char *text, struct error *error)
{
    *(const char **)target = text;
    return queue_name_is_sound(text) || error_set(error, "\"%s\" cannot be the name of a queue", text);
}

#define AT(member) offsetof(struct tasks, member)
static const struct option_row options[] = {
    {OPTION_TAKEN, 0, "place", "PLACE", "look only there: queue, schedule, retry, dead or claims", .offset = AT(place),
     .given = GIVEN(AT(has_place)), .take = place_take},
    {OPTION_TAKEN, 'q', "queue", "NAME", "only tasks of this queue; needed to list one", .offset = AT(queue),
     .take = queue_take},
    {OPTION_TEXT, 0, "class", "NAME", "only tasks of this class", .offset = AT(class_name)},
    {OPTION_COUNT, 'n', "limit", "N", "list so many tasks (50)", .offset = AT(limit), .least = 1, .most = LIMIT_MOST},
    {OPTION_TEXT, 0, "cursor", "TEXT", "list from where another list ended", .offset = AT(cursor)},
    {OPTION_COUNT, 0, "scan-limit", "N", "look through so many entries of a place (10000)", .offset = AT(scan_limit),
     .least = 1, .most = SCAN_MOST},
    {OPTION_FLAG, 'a', "all", NULL, "retry, bury or delete all tasks of --place", .offset = AT(all)},
    {OPTION_FLAG, 'y', "yes", NULL, "without being asked", .offset = AT(is_sure)},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

enum action { ACTION_LIST, ACTION_SHOW, ACTION_RETRY, ACTION_BURY, ACTION_DELETE, ACTIONS };
static const char *const action_names[ACTIONS] = {"list", "show", "retry", "bury", "delete"};

static int list_check(struct tasks *tasks)
{
    struct error error = ERROR_NONE;
    if (tasks->id_count + tasks->has_place != 1)
        return command_misused(&command_tasks, "list one place: queue, schedule, retry, dead or claims");
    if (tasks->id_count == 1 && !place_take(&tasks->place, tasks->ids[0], &error))
        return command_misused(&command_tasks, "%s", error.text);
    if (tasks->place == TASK_IN_QUEUE && tasks->queue == NULL)
        return command_misused(&command_tasks, "say which one with --queue NAME; `holdfast queues` lists them");
    return EXIT_CODE_OK;
}

static int operate_check(const struct tasks *tasks, enum action action)
{
    if (tasks->all == (tasks->id_count > 0))
        return command_misused(&command_tasks, "name tasks, or say --all");
    if (tasks->all && !tasks->has_place)
        return command_misused(&command_tasks, "--all wants --place");
    if (tasks->all && tasks->place == TASK_IN_QUEUE && tasks->queue == NULL)
        return command_misused(&command_tasks, "say which one with --queue NAME; `holdfast queues` lists them");
    if (tasks->has_place && tasks->place == TASK_IN_QUEUE && action == ACTION_RETRY)
        return command_misused(&command_tasks, "what is in a queue is about to run; there is nothing to retry");
    if (tasks->has_place && tasks->place == TASK_IN_DEAD && action == ACTION_BURY)
        return command_misused(&command_tasks, "what is dead is buried already");
    return EXIT_CODE_OK;
}

static int action_run(struct tasks *tasks, enum action action)
{
    int code = console_open(&tasks->console, &command_tasks, ORIGIN_NEEDS_QUEUE, action >= ACTION_RETRY);
    if (code == EXIT_CODE_OK)
        switch (action) {
        case ACTION_LIST:
            code = tasks_list(tasks);
            break;
        case ACTION_SHOW:
            code = tasks_show(tasks);
            break;
        default:
            code = tasks_operate(tasks, action == ACTION_RETRY  ? OPERATE_RETRY
                                        : action == ACTION_BURY ? OPERATE_BURY
                                                                : OPERATE_DELETE);
            break;
        }
    return console_close(&tasks->console, code);
}

static int run(int argc, char **argv)
{
    struct tasks tasks = {.limit = LIMIT_DEFAULT, .scan_limit = SCAN_DEFAULT};
    struct command_line line;
    if (!command_line_read(&line, &command_tasks, argc, argv, &tasks))
        return line.exit_code;
    int action = 0;
    while (action < ACTIONS && (line.argument_count == 0 || strcmp(line.arguments[0], action_names[action]) != 0))
        action++;
    if (action == ACTIONS)
        return command_misused(&command_tasks, "say what to do first: list, show, retry, bury or delete");
    tasks.ids = line.arguments + 1;
    tasks.id_count = line.argument_count - 1;
    int code = EXIT_CODE_OK;
    if (action == ACTION_LIST)
        code = list_check(&tasks);
    else if (action == ACTION_SHOW)
        code = tasks.id_count > 0 ? EXIT_CODE_OK : command_misused(&command_tasks, "name the task to show");
    else
        code = operate_check(&tasks, (enum action)action);
    return code == EXIT_CODE_OK ? action_run(&tasks, (enum action)action) : code;
}

const struct command command_tasks = {
    .name = "tasks",
    .summary = "list, show, retry, bury and delete tasks",
    .arguments = "list PLACE | show ID... | retry|bury|delete [ID...]",
    .about =
        "PLACE is queue (with --queue NAME), schedule, retry, dead, or claims: what processes are working at. Lists\n"
        "come by the page; the line `more: --cursor TEXT` says how to go on. An entry that stays in its place all the\n"
        "while is listed, also when others come and go.\n"
        "\n"
        "ID is a jid, or SCORE-JID (the KEY of a list), which is found at once in a set of any size. A jid is looked\n"
        "for in all places, through --scan-limit entries of each. `show` prints every member, with the backtrace\n"
        "unfolded, and from which processes the task was recovered.\n"
        "\n"
        "`retry` puts tasks back into their queues, with one failure forgotten, as dashboards do; `bury` puts them "
        "into\n"
        "dead, `delete` takes them away. Each task is moved by one script if it is still what it was when it was "
        "looked\n"
        "at, and repeating a call is harmless. With --all, those of --place that match --queue and --class, as many "
        "as\n"
        "there were at the beginning; this asks first, and without a terminal it wants --yes.\n"
        "\n"
        "Claims of a process that is alive stay: `holdfast cancel` ends these tasks. Claims of dead processes are\n"
        "recovered by the living ones; retry does it when there are none. Processes of the previous version had no\n"
        "leases, so only you can know that they are gone: their claims are marked, and moved by --place claims.\n"
        "\n"
        "JSON of list: place, tasks, looked_at, next (the cursor, or null); of a task: place, key and at, or in_queue "
        "and\n"
        "position, or identity, slot, scheme and process_alive; jid, class, queue, created_at, enqueued_at, "
        "retry_count,\n"
        "error_class, error_message, task (as it is). `show` adds error_backtrace, recoveries, iteration\n"
        "(progress and runs of a task that reports some), has_result (an earlier run of the jid left one), and\n"
        "fence, the token of a claim that runs under a lock. JSON of retry, bury, delete: verb, results (id, place,\n"
        "result: done, gone, clash, process_alive, unfit, not_found), done, gone, refused; of bury also trimmed, the "
        "entries of\n"
        "dead that had to make room.\n",
    .examples = "  holdfast tasks list retry --class mail\n"
                "  holdfast tasks show 0123456789abcdef01234567\n"
                "  holdfast tasks retry 1795194409.088278-0123456789abcdef01234567\n"
                "  holdfast tasks retry --all --place dead --class mail --yes\n"
                "  holdfast tasks list dead --json | jq -r '.tasks[].error_message'\n",
    .options = options,
    .arguments_max = IDS_MAX,
    .run = run,
};
