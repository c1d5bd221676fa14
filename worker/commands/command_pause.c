/* holdfast pause and resume: whether workers claim from a queue. */
#include "worker/commands/commands.h"

#include "base/log.h"
#include "queue/operate.h"
#include "redis/request.h"
#include "worker/commands/console.h"
#include "worker/print/human.h"
#include "worker/print/json_writer.h"

enum { OPTION_CONFIG, OPTION_JSON, NAMES_MAX = 100 };

static const struct command_option options[] = {
    [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the workers (required)"},
    [OPTION_JSON] = {0, "json", NULL, "print one JSON object, on one line"},
    {0, NULL, NULL, NULL},
};

static void print_json(bool pause, char *const *names, int count, long long told)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_open(&json, NULL, '{');
    json_open(&json, pause ? "paused" : "resumed", '[');
    for (int i = 0; i < count; i++)
        json_text(&json, NULL, names[i]);
    json_close(&json, ']');
    json_number(&json, "processes_told", told);
    json_close(&json, '}');
    json_print(&out);
}

static void is_paused_ask(const struct queue_keys *keys, const char *name, struct buffer *out)
{
    redis_request_begin(out, 3);
    redis_request_text(out, "SISMEMBER");
    redis_request_text(out, keys->paused);
    redis_request_text(out, name);
}

static void name_tell(bool pause, bool was_paused, const char *name)
{
    char quoted[LOG_QUOTE_MAX];
    const char *what = pause ? "is paused" : was_paused ? "is resumed" : "was not paused";
    printf("%s %s\n", log_quote(name, quoted), what);
}

static int pause_or_resume(struct console *console, bool pause, char *const *names, int count, bool as_json)
{
    inquiry_begin(console->inquiry);
    for (int i = 0; i < count; i++)
        is_paused_ask(&console->keys, names[i], inquiry_compose(console->inquiry));
    operate_pause(&console->keys, pause, names, (size_t)count, inquiry_compose(console->inquiry));
    int code = console_run(console);
    if (code != EXIT_CODE_OK)
        return code;
    long long told = inquiry_integer(console->inquiry, (size_t)count, -1);
    if (told < 0)
        return (int)inquiry_complain_reply(console->inquiry, (size_t)count, console->command->name);
    if (as_json) {
        print_json(pause, names, count, told);
        return EXIT_CODE_OK;
    }
    for (int i = 0; i < count; i++)
        name_tell(pause, inquiry_integer(console->inquiry, (size_t)i, 0) == 1, names[i]);
    printf("%lld process%s told\n", told, told == 1 ? " was" : "es were");
    return EXIT_CODE_OK;
}

static int run_either(const struct command *command, bool pause, int argc, char **argv)
{
    const char *path = NULL;
    bool as_json = false;
    struct command_line line = command_line_begin(command, argc, argv);
    for (int option; (option = command_line_next(&line)) >= 0;) {
        if (option == OPTION_CONFIG)
            path = line.value;
        as_json |= option == OPTION_JSON;
    }
    if (line.is_over)
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(command, "name the queues; `holdfast queues` lists them");
    for (int i = 0; i < line.argument_count; i++)
        if (!queue_name_is_sound(line.arguments[i]))
            return command_misused(command, "'%s' cannot be the name of a queue", line.arguments[i]);
    struct console console;
    int code = console_begin(&console, command, path, true);
    if (code == EXIT_CODE_OK)
        code = pause_or_resume(&console, pause, line.arguments, line.argument_count, as_json);
    console_end(&console);
    return code;
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
    .synopsis = "-c FILE NAME... [--json]",
    .about =
        "Pauses queues: no worker claims from them until `holdfast resume`. Tasks may still be pushed, and what was\n"
        "claimed goes on. Every living process is told at once; the pause is kept on the queue node.\n"
        "\n"
        "JSON: paused (names), processes_told.\n",
    .examples = "  holdfast pause -c holdfast.conf mail reports\n",
    .options = options,
    .arguments_max = NAMES_MAX,
    .run = run_pause,
};

const struct command command_resume = {
    .name = "resume",
    .summary = "let workers claim from paused queues again",
    .synopsis = "-c FILE NAME... [--json]",
    .about = "Ends what `holdfast pause` began. A queue that was not paused is said to be so, and that is no failure.\n"
             "\n"
             "JSON: resumed (names), processes_told.\n",
    .examples = "  holdfast resume -c holdfast.conf mail reports\n",
    .options = options,
    .arguments_max = NAMES_MAX,
    .run = run_resume,
};
