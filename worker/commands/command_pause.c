/* holdfast pause and resume: whether workers claim from a queue. */
#include "worker/commands/command.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/operate.h"
#include "worker/commands/fleet.h"
#include "worker/config/suggest.h"

enum { NAMES_MAX = 100 };

static void unknown_queue_tell(const struct fleet *fleet, const char *name)
{
    char quoted[LOG_QUOTE_MAX], hint[SUGGEST_HINT_MAX];
    struct suggestion suggestion = suggestion_for(name);
    for (size_t i = 0; i < fleet->count; i++)
        for (size_t j = 0; j < fleet->items[i].info.queue_count; j++)
            suggestion_offer(&suggestion, fleet->items[i].info.queues[j]);
    command_complain(&command_pause, "no process serves the queue %s, and no task was ever pushed to it%s",
                     log_quote(name, quoted), suggestion_hint(&suggestion, hint));
}

/* A queue can be paused before its first task, so a mistyped name is paused like any other: say that it may be one.
 * `pushed_at` is the index of the first answer that shows whether a task was ever pushed to a queue. */
static void unknown_tell(struct console *console, char *const *names, int count, size_t pushed_at)
{
    struct fleet fleet = {0};
    int code = EXIT_CODE_FAILURE;                                        /* not read yet */
    bool *was_pushed = memory_zeroed((size_t)count, sizeof *was_pushed); /* reading the fleet replaces the answers */
    for (int i = 0; i < count; i++)
        was_pushed[i] = node_client_integer(console->client, pushed_at + (size_t)i, 1) == 1;
    for (int i = 0; i < count; i++) {
        if (was_pushed[i])
            continue;
        if (code != EXIT_CODE_OK && (code = fleet_read(&fleet, console)) != EXIT_CODE_OK)
            break;
        if (fleet_servers(&fleet, names[i]) == 0)
            unknown_queue_tell(&fleet, names[i]);
    }
    free(was_pushed);
    fleet_free(&fleet);
}

static int pause_or_resume(struct console *console, bool pause, char *const *names, int count)
{
    node_client_begin(console->client);
    for (int i = 0; i < count; i++)
        node_client_ask(console->client, "SISMEMBER", console->keys.paused, names[i], NULL);
    operate_pause(&console->keys, pause, names, (size_t)count, node_client_compose(console->client));
    for (int i = 0; i < count; i++)
        node_client_ask(console->client, "SISMEMBER", console->keys.queues, names[i], NULL);
    console_run(console);
    long long told = node_client_integer(console->client, (size_t)count, -1);
    if (told < 0)
        return console_refuse(console, (size_t)count);
    struct printer out = printer_begin(console->as_json, console->now, &(struct buffer){0});
    for (int i = 0; i < count; i++) {
        char quoted[LOG_QUOTE_MAX];
        bool was_paused = node_client_integer(console->client, (size_t)i, 0) == 1;
        printer_line(&out, "%s %s", log_quote(names[i], quoted),
                     pause        ? "is paused"
                     : was_paused ? "is resumed"
                                  : "was not paused");
    }
    printer_texts(&out, NULL, pause ? "paused" : "resumed", names, (size_t)count);
    printer_number(&out, NULL, "processes_told", told);
    printer_line(&out, "%lld process%s told", told, told == 1 ? " was" : "es were");
    printer_end(&out);
    if (pause)
        unknown_tell(console, names, count, (size_t)count + 1);
    return EXIT_CODE_OK;
}

static int run_either(const struct command *command, bool pause, int argc, char **argv)
{
    struct console console = {0};
    struct command_line line;
    if (!command_line_read(&line, command, argc, argv, &console))
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(command, "name the queues; `holdfast queues` lists them");
    int code = console_open(&console, command, ORIGIN_NEEDS_QUEUE, true);
    if (code == EXIT_CODE_OK)
        code = pause_or_resume(&console, pause, line.arguments, line.argument_count);
    return console_close(&console, code);
}

static int run_pause(int argc, char **argv)
{
    return run_either(&command_pause, true, argc, argv);
}

static int run_resume(int argc, char **argv)
{
    return run_either(&command_resume, false, argc, argv);
}

const struct command command_pause = {
    .name = "pause",
    .summary = "keep workers from claiming from queues",
    .arguments = "NAME...",
    .about =
        "Pauses queues: no worker claims from them until `holdfast resume`. Tasks may still be pushed, and what was\n"
        "claimed goes on. Every living process is told at once; the pause is kept on the queue node.\n"
        "\n"
        "JSON: paused (names), processes_told.\n",
    .examples = "  holdfast pause mail reports\n",
    .options = console_options,
    .arguments_max = NAMES_MAX,
    .run = run_pause,
};

const struct command command_resume = {
    .name = "resume",
    .summary = "let workers claim from paused queues again",
    .arguments = "NAME...",
    .about = "Ends what `holdfast pause` began. A queue that was not paused is said to be so, and that is no failure.\n"
             "\n"
             "JSON: resumed (names), processes_told.\n",
    .examples = "  holdfast resume mail reports\n",
    .options = console_options,
    .arguments_max = NAMES_MAX,
    .run = run_resume,
};
