/* holdfast cancel: a task is marked, so that it does not start, or does not start again; and whoever runs it is called.
 *
 * The mark comes first: a process that is called looks only at what it runs at that moment. */
#include "worker/commands/commands.h"

#include <string.h>

#include "base/log.h"
#include "queue/control.h"
#include "queue/iteration.h"
#include "worker/commands/console.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

enum { OPTION_CONFIG, OPTION_JSON, JIDS_MAX = 100 };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    {0, NULL, NULL, NULL},
};

static int jids_mark(struct console *console, char *const *jids, int count)
{
    inquiry_begin(console->inquiry);
    for (int i = 0; i < count; i++)
        iteration_request_cancel(&console->keys, jids[i], inquiry_compose(console->inquiry));
    int code = console_run(console);
    for (int i = 0; code == EXIT_CODE_OK && i < count; i++)
        if (inquiry_reply_of(console->inquiry, (size_t)i, REDIS_INTEGER) == NULL)
            return (int)inquiry_complain_reply(console->inquiry, (size_t)i, console->command->name);
    return code;
}

static int processes_call(struct console *console, char *const *jids, int count, long long *called)
{
    inquiry_begin(console->inquiry);
    for (int i = 0; i < count; i++) {
        struct buffer call = {0};
        buffer_format(&call, "CANCEL %s", jids[i]);
        control_request_call_all(&console->keys, buffer_text(&call), inquiry_compose(console->inquiry));
        buffer_fini(&call);
    }
    int code = console_run(console);
    for (int i = 0; code == EXIT_CODE_OK && i < count; i++) {
        *called = inquiry_integer(console->inquiry, (size_t)i, -1);
        if (*called < 0)
            return (int)inquiry_complain_reply(console->inquiry, (size_t)i, console->command->name);
    }
    return code;
}

static void tell(bool as_json, char *const *jids, int count, long long called)
{
    char quoted[LOG_QUOTE_MAX];
    if (!as_json) {
        for (int i = 0; i < count; i++)
            printf("%s is to be cancelled\n", log_quote(jids[i], quoted));
        printf("%lld process%s called\n", called, called == 1 ? " was" : "es were");
        return;
    }
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_open(&json, "cancelled", '[');
    for (int i = 0; i < count; i++)
        json_text(&json, NULL, jids[i]);
    json_close(&json, ']');
    json_number(&json, "processes_called", called);
    json_close(&json, '}');
    json_print(&out);
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool as_json = false;
    struct command_line line = command_line_begin(&command_cancel, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            path = line.value;
        as_json |= option == OPTION_JSON;
    }
    if (line.is_over)
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(&command_cancel, "name the tasks by their jids");
    for (int i = 0; i < line.argument_count; i++)
        if (!envelope_jid_is_sound(line.arguments[i], strlen(line.arguments[i])))
            return command_misused(&command_cancel, "argument %d cannot be a jid", i + 1);
    struct console console;
    long long called = 0;
    int code = console_begin(&console, &command_cancel, path, true);
    if (code == EXIT_CODE_OK)
        code = jids_mark(&console, line.arguments, line.argument_count);
    if (code == EXIT_CODE_OK)
        code = processes_call(&console, line.arguments, line.argument_count, &called);
    if (code == EXIT_CODE_OK)
        tell(as_json, line.arguments, line.argument_count, called);
    console_end(&console);
    return code;
}

const struct command command_cancel = {
    .name = "cancel",
    .summary = "end tasks, or keep them from starting",
    .synopsis = "-c FILE JID... [--json]",
    .about =
        "Marks tasks to be cancelled, wherever they are, and calls every living process, so that a running one hears\n"
        "of it at once: its handler is told and should return. One that has not started yet does not start, if that\n"
        "would be within a day; it ends as cancelled. What is in a set can also be taken away with `tasks delete`.\n"
        "A jid that nobody knows is marked as well: finding it could take long, and it may be pushed later.\n"
        "\n"
        "JSON: cancelled (jids), processes_called.\n",
    .examples = "  holdfast cancel -c holdfast.conf 0123456789abcdef01234567\n",
    .options = options,
    .arguments_max = JIDS_MAX,
    .run = run,
};
