/* holdfast local: starts, shows, ends and removes the private nodes of `holdfast work --local`. */
#include "worker/commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "worker/commands/console.h"
#include "worker/print/human.h"
#include "worker/print/printer.h"
#include "worker/servers/local_nodes.h"

struct local_command {
    bool as_json, is_sure;
};

#define AT(member) offsetof(struct local_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "json", NULL, "status and start: print one JSON object, on one line", .offset = AT(as_json)},
    {OPTION_FLAG, 'y', "yes", NULL, "stop and wipe: do not ask", .offset = AT(is_sure)},
    {.type = OPTION_END},
};
#undef AT

static int complain(const struct error *error, enum exit_code code)
{
    if (code != EXIT_CODE_OK)
        command_complain(&command_local, "%s", error->text);
    return (int)code;
}

/* --- status ------------------------------------------------------------------------------------------------------- */

static void view_put(const struct local_nodes_view *view, struct printer *out)
{
    char human[HUMAN_TEXT_MAX];
    printer_text(out, NULL, "directory", view->directory);
    printer_number(out, NULL, "worker", view->worker > 0 ? view->worker : -1);
    printer_list(out, "nodes");
    for (unsigned i = 0; i < LOCAL_NODES; i++) {
        const struct local_node_view *node = &view->nodes[i];
        printer_row(out);
        printer_text(out, "NODE", "name", node->name);
        printer_cell(out, "ADDRESS", TABLE_PLAIN, "127.0.0.1:%u", node->port);
        printer_text(out, NULL, "host", "127.0.0.1");
        printer_number(out, NULL, "port", node->port);
        printer_cell(out, "STATE", node->is_up ? TABLE_GOOD : TABLE_BAD, "%s", node->is_up ? "up" : "down");
        printer_truth(out, "up", node->is_up);
        printer_number(out, ">PID", "pid", node->pid > 0 ? node->pid : -1);
        printer_cell(out, ">DATA", TABLE_PLAIN, "%s", human_size(node->bytes, human));
        printer_number(out, NULL, "bytes", node->bytes);
        printer_row_end(out);
    }
    printer_list_end(out, NULL);
}

/* Servers that do not run are a result, not a failure. */
static int status(struct local_nodes_view *view, const struct local_command *command)
{
    bool are_there = view->nodes[0].port != 0 || view->up > 0;
    char worker[64] = "";
    struct printer out = printer_begin(command->as_json, (struct wall_time){0}, &(struct buffer){0});
    if (view->worker != 0)
        snprintf(worker, sizeof worker, " A worker lives: process %d.", (int)view->worker);
    if (are_there || out.is_json)
        view_put(view, &out);
    if (are_there)
        printer_line(&out, "Their files are in %s.%s%s", view->directory, worker,
                     view->is_changing ? " Somebody is starting or ending them." : "");
    else
        printer_line(&out, "There are no local nodes: `holdfast work --local` makes them, in %s.", view->directory);
    printer_end(&out);
    return view->up == LOCAL_NODES && !view->is_changing ? EXIT_CODE_OK : EXIT_CODE_TEMPORARY;
}

/* The worker that comes later finds them as they are. */
static int start(struct local_nodes_view *view, const struct local_command *command)
{
    struct error error = ERROR_NONE;
    char *path = NULL;
    int code = complain(&error, local_nodes_start(&path, stderr, &error));
    free(path);
    if (code != EXIT_CODE_OK)
        return code;
    local_nodes_view_fini(view);
    code = complain(&error, local_nodes_look(view, &error));
    return code == EXIT_CODE_OK ? status(view, command) : code;
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
    if (code == EXIT_CODE_OK && removes && view->worker != 0)
        fprintf(stderr, "process %d, a worker, lives on and cannot use the next nodes: end it\n", (int)view->worker);
    return code;
}

static int stop(struct local_nodes_view *view, const struct local_command *command)
{
    return end(view, command, false);
}

static int wipe(struct local_nodes_view *view, const struct local_command *command)
{
    return end(view, command, true);
}

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*act)(struct local_nodes_view *view, const struct local_command *command);
    } actions[] = {{"status", status}, {"start", start}, {"stop", stop}, {"wipe", wipe}};
    enum { ACTIONS = sizeof actions / sizeof actions[0] };
    struct local_command command = {0};
    struct local_nodes_view view;
    struct command_line line;
    struct error error = ERROR_NONE;
    size_t chosen = 0;
    if (!command_line_read(&line, &command_local, argc, argv, &command))
        return line.exit_code;
    while (line.argument_count > 0 && chosen < ACTIONS && strcmp(line.arguments[0], actions[chosen].name) != 0)
        chosen++;
    if (chosen == ACTIONS)
        return command_misused(&command_local, "there is no 'local %s': it is status, start, stop or wipe",
                               line.arguments[0]);
    int code = complain(&error, local_nodes_look(&view, &error));
    if (code == EXIT_CODE_OK)
        code = actions[chosen].act(&view, &command);
    local_nodes_view_fini(&view);
    return code;
}

const struct command command_local = {
    .name = "local",
    .summary = "start, show, stop or remove the private nodes of `holdfast work --local`",
    .arguments = "[status | start | stop | wipe]",
    .about =
        "`holdfast work --local` needs four Redis servers on this machine for this user: one for queues, with an\n"
        "append-only file, and three for locks. It starts what does not run; `start` does the same without a worker,\n"
        "and returns when they can be used. They outlive the worker. `status`, the default, shows them: it exits with\n"
        "75 when not all run, and while somebody starts or ends them. `stop` ends them; the tasks stay and are there\n"
        "again after the next start. `wipe` ends them and removes all of their files, tasks included; it always asks\n"
        "first, and `stop` does while a worker with --local lives.\n"
        "\n"
        "Their files are in $XDG_STATE_HOME/holdfast/local, by default ~/.local/state/holdfast/local.\n"
        "\n"
        "JSON: directory, worker (a process id, or null), nodes (name, host, port, up, pid, bytes).\n",
    .examples = "  holdfast local start\n"
                "  holdfast local\n"
                "  holdfast local stop\n"
                "  holdfast local wipe --yes\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
