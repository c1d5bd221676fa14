/* holdfast cancel: a task is marked, so that it does not start, or does not start again; and the process that runs it
 * is called.
 *
 * The mark comes first: a process that is called looks only at what it runs at that moment. */
#include "worker/commands/command.h"

#include <string.h>

#include "base/log.h"
#include "queue/control.h"
#include "queue/iteration.h"
#include "worker/commands/tasks.h"
#include "worker/print/printer.h"

enum { JIDS_MAX = 100 };

int tasks_cancel(struct console *console, char *const *jids, int count, long long *called)
{
    node_client_begin(console->client);
    for (int i = 0; i < count; i++)
        iteration_request_cancel(&console->keys, jids[i], node_client_compose(console->client));
    console_run(console);
    for (int i = 0; i < count; i++)
        if (node_client_reply_of(console->client, (size_t)i, REDIS_INTEGER) == NULL)
            return console_refuse(console, (size_t)i);
    node_client_begin(console->client);
    for (int i = 0; i < count; i++) {
        struct buffer call = {0};
        buffer_format(&call, "CANCEL %s", jids[i]);
        control_request_call(&console->keys, "", buffer_text(&call), node_client_compose(console->client));
        buffer_fini(&call);
    }
    console_run(console);
    for (int i = 0; i < count; i++) {
        *called = node_client_integer(console->client, (size_t)i, -1);
        if (*called < 0)
            return console_refuse(console, (size_t)i);
    }
    return EXIT_CODE_OK;
}

static void tell(const struct console *console, char *const *jids, int count, long long called)
{
    char quoted[LOG_QUOTE_MAX];
    struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
    for (int i = 0; i < count; i++)
        printer_line(&out, "%s is to be cancelled", log_quote(jids[i], quoted));
    printer_texts(&out, NULL, "cancelled", jids, (size_t)count);
    printer_number(&out, NULL, "processes_called", called);
    printer_line(&out, "%lld process%s called", called, called == 1 ? " was" : "es were");
    printer_end(&out);
}

static int run(int argc, char **argv)
{
    struct console console = {0};
    struct command_line line;
    if (!command_line_read(&line, &command_cancel, argc, argv, &console))
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(&command_cancel, "name the tasks by their jids");
    for (int i = 0; i < line.argument_count; i++)
        if (!envelope_jid_is_sound(line.arguments[i], strlen(line.arguments[i])))
            return command_misused(&command_cancel, "argument %d cannot be a jid", i + 1);
    long long called = 0;
    int code = console_open(&console, &command_cancel, ORIGIN_NEEDS_QUEUE, true);
    if (code == EXIT_CODE_OK) {
        origin_tell(&console.origin, &command_cancel);
        code = tasks_cancel(&console, line.arguments, line.argument_count, &called);
    }
    if (code == EXIT_CODE_OK)
        tell(&console, line.arguments, line.argument_count, called);
    return console_close(&console, code);
}

const struct command command_cancel = {
    .name = "cancel",
    .summary = "end tasks, or keep them from starting",
    .arguments = "JID...",
    .about =
        "Marks tasks to be cancelled, wherever they are, and calls every living process, so that a running one hears\n"
        "of it at once: its handler is told and should return. One that has not started yet does not start, if that\n"
        "would be within a day; it ends as cancelled. What is in a set can also be taken away with `tasks delete`.\n"
        "A jid that nobody knows is marked as well: finding it could take long, and it may be pushed later.\n"
        "\n"
        "JSON: cancelled (jids), processes_called.\n",
    .examples = "  holdfast cancel 0123456789abcdef01234567\n",
    .options = console_options,
    .arguments_max = JIDS_MAX,
    .run = run,
};
