/* holdfast tasks: what waits, what failed and what is claimed, and what to do with it. */
#include "worker/commands/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/real.h"
#include "worker/commands/tasks.h"
#include "worker/print/human.h"

enum { PAGE = 100 };

/* --- one entry -------------------------------------------------------------------------------------------------- */

static void class_cell(struct task_view *view, struct printer *out)
{
    char quoted[LOG_QUOTE_MAX];
    if (view->is_task)
        printer_name(out, "CLASS", NULL, task_view_class(view));
    else
        printer_cell(out, "CLASS", TABLE_BAD, "no task: %s", log_quote(view->reason.text, quoted));
}

static void jid_cell(const struct task_view *view, struct printer *out)
{
    printer_name(out, "JID", NULL, view->is_task ? printer_known(view->envelope.jid) : NULL);
}

static void set_cells(const struct task_entry *entry, struct task_view *view, struct printer *out)
{
    char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    struct buffer error = {0};
    bool is_time = isfinite(real_read(entry->score, NULL));
    bool has_jid = view->is_task && view->envelope.jid[0] != '\0';
    printer_text(out, "WHEN", NULL, is_time ? human_moment(wall_read(entry->score), out->now, human) : entry->score);
    printer_cell(out, "KEY", TABLE_PLAIN, "%s-%s", entry->score, has_jid ? log_quote(view->envelope.jid, quoted) : "");
    class_cell(view, out);
    printer_name(out, "QUEUE", NULL, view->is_task ? view->envelope.queue : "");
    printer_unknown(out, "");
    bool was_retried = view->is_task && view->envelope.was_retried;
    printer_number(out, ">TRY", NULL, was_retried ? (int64_t)envelope_attempt(&view->envelope) : -1);
    task_view_error(view, &error);
    printer_text(out, "ERROR", NULL, buffer_text(&error));
    buffer_fini(&error);
}

static void queue_cells(const struct task_entry *entry, struct task_view *view, struct printer *out)
{
    struct wall_time since = task_view_since(view);
    printer_number(out, ">NEXT", NULL, entry->position);
    jid_cell(view, out);
    class_cell(view, out);
    printer_unknown(out, "?");
    printer_span(out, ">WAITING", NULL, since.us != 0 ? out->now.us - since.us : -1);
}

static void claim_cells(const struct task_entry *entry, struct task_view *view, struct printer *out)
{
    printer_name(out, "PROCESS", NULL, entry->identity);
    printer_text(out, "STATE", NULL, entry->is_living ? "alive" : "lease ended");
    printer_style(out, entry->is_living ? TABLE_GOOD : TABLE_BAD);
    printer_text(out, ">SLOT", NULL, entry->slot != NULL ? entry->slot : "bell");
    printer_name(out, "QUEUE", NULL, entry->queue);
    jid_cell(view, out);
    class_cell(view, out);
}

static void entry_put(const struct task_entry *entry, struct task_view *view, struct printer *out)
{
    printer_row(out);
    printer_unknown(out, "-");
    if (out->is_json) {
        tasks_state_json(entry, view->is_task ? view->envelope.jid : "", &out->json);
        task_view_json(view, &out->json);
    } else if (task_state_is_set(entry->state)) {
        set_cells(entry, view, out);
    } else if (entry->state == TASK_IN_QUEUE) {
        queue_cells(entry, view, out);
    } else {
        claim_cells(entry, view, out);
    }
    printer_row_end(out);
}

/* --- listing ---------------------------------------------------------------------------------------------------- */

struct listing {
    struct tasks *tasks;
    struct task_walk walk;
    struct task_view view;
    struct printer out;
    int64_t shown, looked;
};

/* Prints as much of the page as is wanted; the rest begins the next one. Claims come by whole processes. */
static void page_tell(struct listing *listing)
{
    const struct tasks *tasks = listing->tasks;
    bool is_whole = tasks->state == TASK_IN_CLAIMS;
    size_t seen = 0;
    for (; seen < listing->walk.count && (is_whole || listing->shown < tasks->limit); seen++) {
        const struct task_entry *entry = &listing->walk.entries[seen];
        task_view_read(&listing->view, entry->task.bytes, entry->task.length);
        if (!tasks_want(tasks, &listing->view, entry))
            continue;
        listing->shown++;
        entry_put(entry, &listing->view, &listing->out);
    }
    listing->looked += (int64_t)seen;
    task_walk_advance(&listing->walk, seen);
}

static int pages_tell(struct listing *listing)
{
    const struct tasks *tasks = listing->tasks;
    bool has_filter = tasks->class_name != NULL || (tasks->queue != NULL && tasks->state != TASK_IN_QUEUE);
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

static void listing_finish(struct listing *listing)
{
    struct buffer cursor = {0};
    char quoted[LOG_QUOTE_MAX];
    task_walk_cursor(&listing->walk, &cursor);
    const char *next = cursor.length > 0 ? buffer_text(&cursor) : NULL;
    printer_list_end(&listing->out, next == NULL ? "no tasks" : NULL);
    printer_number(&listing->out, NULL, "looked_at", listing->looked);
    printer_text(&listing->out, NULL, "next", next);
    if (next != NULL)
        printer_line(&listing->out, "%s--cursor %s",
                     listing->shown < listing->tasks->limit ? "more may follow: " : "more: ", log_quote(next, quoted));
    printer_end(&listing->out);
    buffer_fini(&cursor);
}

static int tasks_list(struct tasks *tasks)
{
    struct listing listing = {.tasks = tasks};
    struct error error = ERROR_NONE;
    struct buffer text = {0};
    const char *queue = tasks->state == TASK_IN_QUEUE ? tasks->queue : NULL;
    if (!task_walk_begin(&listing.walk, &tasks->console, tasks->state, queue, tasks->cursor, &error)) {
        task_walk_end(&listing.walk);
        return console_complain(&tasks->console, "%s", error.text);
    }
    listing.out = printer_begin(tasks->console.as_json, tasks->console.now, &text);
    printer_text(&listing.out, NULL, "state", task_state_name(tasks->state));
    printer_list(&listing.out, "tasks");
    int code = pages_tell(&listing);
    if (code == EXIT_CODE_OK)
        listing_finish(&listing);
    else
        printer_drop(&listing.out);
    task_view_fini(&listing.view);
    task_walk_end(&listing.walk);
    return code;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

enum { IDS_MAX = 1000, LIMIT_DEFAULT = 50, LIMIT_MOST = 100000, SCAN_DEFAULT = 10000 };

#define SCAN_MOST (INT64_C(1) << 40)

static bool state_take(void *target, const char *text, struct error *error)
{
    return task_state_parse(text, target) ||
           error_set(error, "\"%s\" is no state: it is queue, schedule, retry, dead or claims", text);
}

static bool queue_take(void *target, const char *text, struct error *error)
{
    *(const char **)target = text;
    return text[0] != '\0' || error_set(error, "no queue has an empty name"); /* a producer may have made any other */
}

#define AT(member) offsetof(struct tasks, member)
static const struct option_row options[] = {
    {OPTION_TAKEN, 0, "state", "STATE", "look only there: queue, schedule, retry, dead or claims", .offset = AT(state),
     .given = GIVEN(AT(has_state)), .take = state_take},
    {OPTION_TAKEN, 'q', "queue", "NAME", "only tasks of this queue; needed to list one", .offset = AT(queue),
     .take = queue_take},
    {OPTION_TEXT, 0, "class", "NAME", "only tasks of this class", .offset = AT(class_name)},
    {OPTION_COUNT, 'n', "limit", "N", "list so many tasks (50)", .offset = AT(limit), .least = 1, .most = LIMIT_MOST},
    {OPTION_TEXT, 0, "cursor", "TEXT", "list from where another list ended", .offset = AT(cursor)},
    {OPTION_COUNT, 0, "scan-limit", "N", "look through so many entries of a state (10000)", .offset = AT(scan_limit),
     .least = 1, .most = SCAN_MOST},
    {OPTION_FLAG, 'a', "all", NULL, "retry, bury or delete all tasks of --state", .offset = AT(all)},
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
    if (tasks->id_count + tasks->has_state != 1)
        return command_misused(&command_tasks, "list one state: queue, schedule, retry, dead or claims");
    if (tasks->id_count == 1 && !state_take(&tasks->state, tasks->ids[0], &error))
        return command_misused(&command_tasks, "%s", error.text);
    if (tasks->state == TASK_IN_QUEUE && tasks->queue == NULL)
        return command_misused(&command_tasks, "say which one with --queue NAME; `holdfast queues` lists them");
    return EXIT_CODE_OK;
}

static int operate_check(const struct tasks *tasks, enum action action)
{
    if (tasks->all == (tasks->id_count > 0))
        return command_misused(&command_tasks, "name tasks, or say --all");
    if (tasks->all && !tasks->has_state)
        return command_misused(&command_tasks, "--all wants --state");
    if (tasks->all && tasks->state == TASK_IN_QUEUE && tasks->queue == NULL)
        return command_misused(&command_tasks, "say which one with --queue NAME; `holdfast queues` lists them");
    if (tasks->has_state && tasks->state == TASK_IN_QUEUE && action == ACTION_RETRY)
        return command_misused(&command_tasks, "what is in a queue is about to run; there is nothing to retry");
    if (tasks->has_state && tasks->state == TASK_IN_DEAD && action == ACTION_BURY)
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
    .arguments = "list STATE | show ID... | retry|bury|delete [ID...]",
    .about =
        "STATE is queue (with --queue NAME), schedule, retry, dead, or claims: what processes are working at. Lists\n"
        "come by the page; the line `more: --cursor TEXT` says how to go on. An entry that stays in its state all the\n"
        "while is listed, also when others come and go.\n"
        "\n"
        "ID is a jid, or SCORE-JID (the KEY of a list), which is found at once in a set of any size. A jid is looked\n"
        "for in all states, through --scan-limit entries of each. `show` prints what `holdfast why` does, then every\n"
        "member, with the backtrace unfolded, and from which processes the task was recovered.\n"
        "\n"
        "`retry` puts tasks back into their queues, with one failure forgotten, as dashboards do; `bury` puts them "
        "into\n"
        "dead, `delete` takes them away. Each task is moved by one script if it is still what it was when it was "
        "looked\n"
        "at, and repeating a call is harmless. With --all, those of --state that match --queue and --class, as many "
        "as\n"
        "there were at the beginning; this asks first, and without a terminal it wants --yes.\n"
        "\n"
        "Claims of a process that is alive stay: `holdfast cancel` ends these tasks. Claims of dead processes are\n"
        "recovered by the living ones; retry does it when there are none.\n"
        "\n"
        "JSON of list: state, tasks, looked_at, next (the cursor, or null); of a task: state, key and at, or in_queue "
        "and\n"
        "position, or identity, slot and process_alive; jid, class, queue, created_at, enqueued_at, "
        "retry_count,\n"
        "error_class, error_message, task (as it is). `show` adds why (as `holdfast why`), error_backtrace, "
        "recoveries,\n"
        "iteration\n"
        "(progress and runs of a task that reports some), has_result (an earlier run of the jid left one), and\n"
        "fence, the token of a claim that runs under a lock. JSON of retry, bury, delete: verb, results (id, state,\n"
        "result: done, gone, clash, process_alive, unfit, not_found), done, gone, refused; of bury also trimmed, the "
        "entries of\n"
        "dead that had to make room.\n",
    .examples = "  holdfast tasks list retry --class mail\n"
                "  holdfast tasks show 0123456789abcdef01234567\n"
                "  holdfast tasks retry 1795194409.088278-0123456789abcdef01234567\n"
                "  holdfast tasks retry --all --state dead --class mail --yes\n"
                "  holdfast tasks list dead --json | jq -r '.tasks[].error_message'\n",
    .options = options,
    .arguments_max = IDS_MAX,
    .run = run,
};
