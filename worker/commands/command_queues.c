/* holdfast queues: what there is, who serves it, and deleting one. */
#include "worker/commands/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "queue/operate.h"
#include "worker/commands/backlog.h"
#include "worker/commands/fleet.h"
#include "worker/commands/human.h"
#include "worker/commands/json_writer.h"
#include "worker/commands/table.h"

enum { OPTION_CONFIG, OPTION_JSON, OPTION_YES };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    [OPTION_YES] = {'y', "yes", NULL, "delete without being asked"},
    {0, NULL, NULL, NULL},
};

static bool is_serving(const struct fleet_process *process)
{
    return process->state == FLEET_ALIVE || process->state == FLEET_FOREIGN;
}

static size_t servers_of(const struct fleet *fleet, const char *queue)
{
    size_t servers = 0;
    for (size_t i = 0; i < fleet->count; i++)
        servers += is_serving(&fleet->items[i]) && fleet_process_serves(&fleet->items[i], queue);
    return servers;
}

static void print_for_people(const struct backlog *backlog, const struct fleet *fleet)
{
    static const struct table_column columns[] = {{"QUEUE", false},    {"TASKS", true}, {"LATENCY", true},
                                                  {"PROCESSES", true}, {"", false},     {NULL, false}};
    if (backlog->count == 0) {
        printf("%s\n", backlog->knows_listed ? "no queues" : "queues ?");
        return;
    }
    struct table *table = table_create(columns);
    for (size_t i = 0; i < backlog->count; i++) {
        const struct backlog_queue *queue = &backlog->items[i];
        char human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
        size_t servers = servers_of(fleet, queue->name);
        table_cell(table, TABLE_PLAIN, "%s", log_quote(queue->name, quoted));
        table_cell(table, TABLE_PLAIN, "%s", queue->length < 0 ? "?" : human_count(queue->length, human));
        table_cell(table, TABLE_PLAIN, "%s", queue->latency_us < 0 ? "?" : human_span(queue->latency_us, human));
        table_cell(table, servers > 0 ? TABLE_PLAIN : TABLE_WARN, "%zu", servers);
        table_cell(table, TABLE_WARN, "%s", backlog_queue_remark(backlog, queue));
    }
    table_print(table, stdout);
}

static void print_json(const struct backlog *backlog, const struct fleet *fleet)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    if (!backlog->knows_listed)
        json_nothing(&json, "queues");
    else
        json_open(&json, "queues", '[');
    for (size_t i = 0; backlog->knows_listed && i < backlog->count; i++) {
        const struct backlog_queue *queue = &backlog->items[i];
        json_open(&json, NULL, '{');
        json_text(&json, "name", queue->name);
        if (queue->length >= 0)
            json_number(&json, "length", queue->length);
        else
            json_nothing(&json, "length");
        if (queue->latency_us >= 0)
            json_seconds(&json, "latency", queue->latency_us);
        else
            json_nothing(&json, "latency");
        if (backlog->knows_paused)
            json_truth(&json, "paused", queue->is_paused);
        else
            json_nothing(&json, "paused");
        json_open(&json, "served_by", '[');
        for (size_t j = 0; j < fleet->count; j++)
            if (is_serving(&fleet->items[j]) && fleet_process_serves(&fleet->items[j], queue->name))
                json_text(&json, NULL, fleet->items[j].identity);
        json_close(&json, ']');
        json_close(&json, '}');
    }
    if (backlog->knows_listed)
        json_close(&json, ']');
    json_close(&json, '}');
    json_print(&out);
}

static int queues_list(struct console *console, bool as_json)
{
    struct backlog backlog;
    struct fleet fleet = {0};
    int code = backlog_read(&backlog, console);
    if (code == EXIT_CODE_OK)
        code = fleet_read(&fleet, console);
    if (code == EXIT_CODE_OK)
        backlog_complain(&backlog, console);
    if (code == EXIT_CODE_OK && as_json)
        print_json(&backlog, &fleet);
    else if (code == EXIT_CODE_OK)
        print_for_people(&backlog, &fleet);
    backlog_free(&backlog);
    fleet_free(&fleet);
    return code;
}

static int length_read(struct console *console, const char *name, long long *length)
{
    inquiry_begin(console->inquiry);
    struct buffer *request = inquiry_compose(console->inquiry);
    redis_request_begin(request, 2);
    redis_request_text(request, "LLEN");
    queue_keys_request_queue(&console->keys, name, request);
    int code = console_run(console);
    if (code == EXIT_CODE_OK)
        *length = inquiry_integer(console->inquiry, 0, -1);
    return code;
}

static int queue_delete(struct console *console, const char *name, bool is_sure, bool as_json)
{
    char id[OPERATE_ID_SIZE], human[HUMAN_TEXT_MAX], quoted[LOG_QUOTE_MAX];
    long long length = 0;
    int code = length_read(console, name, &length);
    if (code != EXIT_CODE_OK)
        return code;
    if (!console_confirm(console, is_sure, "delete the queue %s and its %s task%s", log_quote(name, quoted),
                         human_count(length, human), human_plural(length)))
        return EXIT_CODE_FAILURE;
    operate_new_id(id);
    inquiry_begin(console->inquiry);
    operate_drop(&console->keys, id, name, inquiry_compose(console->inquiry));
    code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    length = inquiry_integer(console->inquiry, 0, -2);
    if (length == -2)
        return (int)inquiry_complain_reply(console->inquiry, 0, "queues");
    if (length == -1)
        return console_complain(console, "the key of queue %s holds something that is no list; nothing was deleted",
                                log_quote(name, quoted));
    if (as_json) {
        struct buffer out = {0};
        struct json_writer json = {.out = &out};
        json_open(&json, NULL, '{');
        json_text(&json, "deleted", name);
        json_number(&json, "tasks", length);
        json_close(&json, '}');
        json_print(&out);
    } else {
        printf("deleted queue %s with %s task%s\n", log_quote(name, quoted), human_count(length, human),
               human_plural(length));
    }
    return EXIT_CODE_OK;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool as_json = false, is_sure = false;
    struct command_line line = command_line_begin(&command_queues, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            path = line.value;
        as_json |= option == OPTION_JSON;
        is_sure |= option == OPTION_YES;
    }
    if (line.is_over)
        return line.exit_code;
    bool deletes = line.argument_count > 0 && strcmp(line.arguments[0], "delete") == 0;
    if (line.argument_count > 0 && !deletes && strcmp(line.arguments[0], "list") != 0)
        return command_misused(&command_queues, "there is no 'queues %s': it is list or delete", line.arguments[0]);
    if (line.argument_count != (deletes ? 2 : line.argument_count > 0))
        return command_misused(&command_queues, deletes ? "name the queue to delete" : "list takes no name");
    if (deletes && !queue_name_is_sound(line.arguments[1]))
        return command_misused(&command_queues, "'%s' cannot be the name of a queue", line.arguments[1]);
    struct console console;
    int code = console_begin(&console, &command_queues, path, deletes);
    if (code == EXIT_CODE_OK)
        code = deletes ? queue_delete(&console, line.arguments[1], is_sure, as_json) : queues_list(&console, as_json);
    console_end(&console);
    return code;
}

const struct command command_queues = {
    .name = "queues",
    .summary = "list the queues, or delete one",
    .synopsis = "-c FILE [list | delete NAME [--yes]] [--json]",
    .about =
        "Lists the queues with their lengths, how long the oldest task has waited, how many processes serve them,\n"
        "and which are paused. A queue with tasks that nobody serves is a mistake, mostly in a name.\n"
        "\n"
        "`delete` takes a queue away with all its tasks. It asks first; without a terminal it wants --yes.\n"
        "\n"
        "JSON: queues, a list of name, length, latency (seconds), paused, served_by (identities); of delete:\n"
        "deleted, tasks.\n",
    .examples = "  holdfast queues -c holdfast.conf\n"
                "  holdfast queues -c holdfast.conf delete old_reports --yes\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
