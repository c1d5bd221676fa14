/* holdfast local: the private nodes of `holdfast work --local`: whether they run, ending them, removing them. */
#include "worker/commands/command.h"

#include <string.h>

#include "worker/commands/console.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"
#include "worker/print/table.h"
#include "worker/servers/local_nodes.h"

struct local_command {
    bool as_json, is_sure;
};

#define AT(member) offsetof(struct local_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "json", NULL, "status: print one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_FLAG, 'y', "yes", NULL, "stop and wipe: do not ask", .offset = AT(is_sure)},
    {.type = OPTION_END},
};
#undef AT

static int complain(const struct error *error, enum exit_code code)
{
    if (code != EXIT_CODE_OK)
        fprintf(stderr, "holdfast local: %s\n", error->text);
    return (int)code;
}

/* --- status ------------------------------------------------------------------------------------------------------- */

static void node_row(struct table *table, const struct local_node_view *node)
{
    char human[HUMAN_TEXT_MAX];
    table_cell(table, TABLE_PLAIN, "%s", node->name);
    table_cell(table, TABLE_PLAIN, "127.0.0.1:%u", node->port);
    table_cell(table, node->is_up ? TABLE_GOOD : TABLE_BAD, "%s", node->is_up ? "up" : "down");
    if (node->pid > 0)
        table_cell(table, TABLE_PLAIN, "%d", (int)node->pid);
    else
        table_cell(table, TABLE_DIM, "-");
    table_cell(table, TABLE_PLAIN, "%s", human_size(node->bytes, human));
}

static void view_print(const struct local_nodes_view *view)
{
    struct table *table = table_create("NODE|ADDRESS|STATE|>PID|>DATA");
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        node_row(table, &view->nodes[i]);
    table_print(table, stdout);
    printf("Their files are in %s.", view->directory);
    if (view->worker != 0)
        printf(" A worker lives: process %d.", (int)view->worker);
    if (view->is_changing)
        printf(" Somebody is starting or ending them.");
    puts("");
}

static void view_print_json(const struct local_nodes_view *view)
{
    struct json_writer json = json_begin(&(struct buffer){0});
    json_text(&json, "directory", view->directory);
    json_number_or_nothing(&json, "worker", view->worker > 0 ? view->worker : -1);
    json_open(&json, "nodes", '[');
    for (unsigned i = 0; i < LOCAL_NODES; i++) {
        const struct local_node_view *node = &view->nodes[i];
        json_open(&json, NULL, '{');
        json_text(&json, "name", node->name);
        json_text(&json, "host", "127.0.0.1");
        json_number(&json, "port", node->port);
        json_truth(&json, "up", node->is_up);
        json_number_or_nothing(&json, "pid", node->pid > 0 ? node->pid : -1);
        json_number(&json, "bytes", node->bytes);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_finish(&json);
}

/* Servers that do not run are what was asked for, not a failure of asking. */
static int status(const struct local_nodes_view *view, const struct local_command *command)
{
    if (command->as_json)
        view_print_json(view);
    else if (view->nodes[0].port != 0 || view->up > 0)
        view_print(view);
    else
        printf("There are no local nodes: `holdfast work --local` makes them, in %s.\n", view->directory);
    return view->up == LOCAL_NODES && !view->is_changing ? EXIT_CODE_OK : EXIT_CODE_TEMPORARY;
}

/* --- stop and wipe ------------------------------------------------------------------------------------------------ */

static int end(const struct local_nodes_view *view, const struct local_command *command, bool removes)
{
    struct console console = {.command = &command_local};
    struct error error = ERROR_NONE;
    char worker[80] = "";
    if (view->worker != 0)
        snprintf(worker, sizeof worker, "a worker (process %d) needs these nodes; ", (int)view->worker);
    if ((removes || view->worker != 0) &&
        !console_confirm(&console, command->is_sure, "%send them%s%s", worker, removes ? " and remove all of " : "",
                         removes ? view->directory : ""))
        return EXIT_CODE_FAILURE;
    int code = complain(&error, local_nodes_end(removes, &error));
    if (code == EXIT_CODE_OK)
        printf("%u server%s ended; %s %s\n", view->up, view->up == 1 ? " was" : "s were",
               removes ? "nothing is left of" : "the data stays in", view->directory);
    return code;
}

static int stop(const struct local_nodes_view *view, const struct local_command *command)
{
    return end(view, command, false);
}

static int wipe(const struct local_nodes_view *view, const struct local_command *command)
{
    return end(view, command, true);
}

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*act)(const struct local_nodes_view *view, const struct local_command *command);
    } actions[] = {{"status", status}, {"stop", stop}, {"wipe", wipe}};
    struct local_command command = {0};
    struct local_nodes_view view;
    struct command_line line;
    struct error error = ERROR_NONE;
    size_t chosen = 0;
    if (!command_line_read(&line, &command_local, argc, argv, &command))
        return line.exit_code;
    while (line.argument_count > 0 && chosen < 3 && strcmp(line.arguments[0], actions[chosen].name) != 0)
        chosen++;
    if (chosen == 3)
        return command_misused(&command_local, "there is no 'local %s': it is status, stop or wipe", line.arguments[0]);
    int code = complain(&error, local_nodes_look(&view, &error));
    if (code == EXIT_CODE_OK)
        code = actions[chosen].act(&view, &command);
    local_nodes_view_fini(&view);
    return code;
}

const struct command command_local = {
    .name = "local",
    .summary = "show, stop or remove the private nodes of `holdfast work --local`",
    .arguments = "[status | stop | wipe]",
    .about =
        "`holdfast work --local` starts four Redis servers on this machine for this user: one for queues, with an\n"
        "append-only file, and three for locks. They outlive the worker. `status`, the default, shows them: it exits\n"
        "with 75 when not all run, and while somebody starts or ends them. `stop` ends them; the tasks stay and\n"
        "are there again after the next `holdfast work --local`. `wipe` ends them and removes all of their files,\n"
        "tasks included; it always asks first, and `stop` does while a worker with --local lives.\n"
        "\n"
        "Their files are in $XDG_STATE_HOME/holdfast/local, by default ~/.local/state/holdfast/local.\n"
        "\n"
        "JSON: directory, worker (a process id, or null), nodes (name, host, port, up, pid, bytes).\n",
    .examples = "  holdfast local\n"
                "  holdfast local stop\n"
                "  holdfast local wipe --yes\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
