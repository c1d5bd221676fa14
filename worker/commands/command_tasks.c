/* holdfast tasks: what waits, what failed and what is claimed, and what to do with it. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "worker/commands/tasks.h"

enum {
    OPTION_CONFIG,
    OPTION_JSON,
    OPTION_PLACE,
    OPTION_QUEUE,
    OPTION_CLASS,
    OPTION_LIMIT,
    OPTION_CURSOR,
    OPTION_SCAN_LIMIT,
    OPTION_ALL,
    OPTION_YES,
};

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line; show: one a task"},
    [OPTION_PLACE] = {'p', "place", "PLACE", "look only there: queue, schedule, retry, dead or claims"},
    [OPTION_QUEUE] = {'q', "queue", "NAME", "only tasks of this queue; needed to list one"},
    [OPTION_CLASS] = {0, "class", "NAME", "only tasks of this class"},
    [OPTION_LIMIT] = {'n', "limit", "N", "list so many tasks (50)"},
    [OPTION_CURSOR] = {0, "cursor", "TEXT", "list from where another list ended"},
    [OPTION_SCAN_LIMIT] = {0, "scan-limit", "N", "look through so many entries of a place (10000)"},
    [OPTION_ALL] = {'a', "all", NULL, "retry, bury or delete all tasks of --place"},
    [OPTION_YES] = {'y', "yes", NULL, "without being asked"},
    {0, NULL, NULL, NULL},
};

enum { IDS_MAX = 1000, LIMIT_DEFAULT = 50, LIMIT_MOST = 100000, SCAN_DEFAULT = 10000 };

enum action { ACTION_LIST, ACTION_SHOW, ACTION_RETRY, ACTION_BURY, ACTION_DELETE, ACTIONS };
static const char *const action_names[ACTIONS] = {"list", "show", "retry", "bury", "delete"};

static int place_take(struct tasks *tasks, const char *name)
{
    tasks->has_place = true;
    if (!task_place_parse(name, &tasks->place))
        return command_misused(&command_tasks, "'%s' is no place: it is queue, schedule, retry, dead or claims", name);
    return EXIT_CODE_OK;
}

static int count_take(const char *option, const char *text, unsigned long long most, unsigned long long *count)
{
    int64_t number = 0;
    if (!count_parse(text, 1, (int64_t)most, &number))
        return command_misused(&command_tasks, "--%s wants a number from 1 to %llu, not '%s'", option, most, text);
    *count = (unsigned long long)number;
    return EXIT_CODE_OK;
}

static int option_take(struct tasks *tasks, int option, const char *value)
{
    switch (option) {
    case OPTION_CONFIG:
        tasks->path = value;
        return EXIT_CODE_OK;
    case OPTION_PLACE:
        return place_take(tasks, value);
    case OPTION_QUEUE:
        tasks->queue = value;
        return queue_name_is_sound(value)
                   ? EXIT_CODE_OK
                   : command_misused(&command_tasks, "'%s' cannot be the name of a queue", value);
    case OPTION_CLASS:
        tasks->class_name = value;
        return EXIT_CODE_OK;
    case OPTION_LIMIT:
        return count_take("limit", value, LIMIT_MOST, &tasks->limit);
    case OPTION_CURSOR:
        tasks->cursor = value;
        return EXIT_CODE_OK;
    case OPTION_SCAN_LIMIT:
        return count_take("scan-limit", value, 1ULL << 40, &tasks->scan_limit);
    default:
        tasks->as_json |= option == OPTION_JSON;
        tasks->all |= option == OPTION_ALL;
        tasks->is_sure |= option == OPTION_YES;
        return EXIT_CODE_OK;
    }
}

static int list_check(struct tasks *tasks)
{
    int code = EXIT_CODE_OK;
    if (tasks->id_count == 1 && !tasks->has_place)
        code = place_take(tasks, tasks->ids[0]);
    else if (tasks->id_count > 0 || !tasks->has_place)
        return command_misused(&command_tasks, "list one place: queue, schedule, retry, dead or claims");
    if (code == EXIT_CODE_OK && tasks->place == TASK_IN_QUEUE && tasks->queue == NULL)
        return command_misused(&command_tasks, "say which one with --queue NAME; `holdfast queues` lists them");
    return code;
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
    int code = console_begin(&tasks->console, &command_tasks, tasks->path, action >= ACTION_RETRY);
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
    console_end(&tasks->console);
    return code;
}

static int run(int argc, char **argv)
{
    struct tasks tasks = {.limit = LIMIT_DEFAULT, .scan_limit = SCAN_DEFAULT};
    struct command_line line = command_line_begin(&command_tasks, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        int code = option_take(&tasks, option, line.value);
        if (code != EXIT_CODE_OK)
            return code;
    }
    if (line.is_over)
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
    .synopsis = "-c FILE list PLACE | show ID... | retry|bury|delete ID... | --all --place PLACE [options]",
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
    .examples = "  holdfast tasks -c holdfast.conf list retry --class mail\n"
                "  holdfast tasks -c holdfast.conf show 0123456789abcdef01234567\n"
                "  holdfast tasks -c holdfast.conf retry 1795194409.088278-0123456789abcdef01234567\n"
                "  holdfast tasks -c holdfast.conf retry --all --place dead --class mail --yes\n"
                "  holdfast tasks -c holdfast.conf list dead --json | jq -r '.tasks[].error_message'\n",
    .options = options,
    .arguments_max = IDS_MAX,
    .run = run,
};
