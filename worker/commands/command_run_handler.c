/* holdfast run-handler: one run of one handler, here and now, without Redis. */
#include "worker/commands/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/handler_run.h"

enum { ATTEMPT_MAX = 1000, ARGUMENTS_MAX = 16 << 20 };

/* --- options ------------------------------------------------------------------------------------------------------ */

static bool setting_take(void *target, const char *text, struct error *error)
{
    struct handler_run_settings *settings = target;
    char *pair = (char *)(uintptr_t)text, *equals = strchr(pair, '='); /* of argv, which may be written to */
    if (equals == NULL || equals == pair)
        return error_set(error, "KEY=VALUE, not \"%s\"", text);
    if (settings->count == HANDLER_RUN_SETTINGS_MAX)
        return error_set(error, "can be given %d times at most", HANDLER_RUN_SETTINGS_MAX);
    *equals = '\0';
    settings->items[settings->count++] = (struct config_pair){pair, equals + 1};
    return true;
}

static bool checkpoint_take(void *target, const char *json, struct error *error)
{
    struct envelope_limits limits = {.size = ITERATION_BYTES_MAX, .depth = 64, .keys = ITERATION_BYTES_MAX};
    *(const char **)target = json;
    return json_check(json, strlen(json), &limits, error);
}

#define AT(member) offsetof(struct handler_run_request, member)
static const struct option_row options[] = {
    {OPTION_TEXT, 0, "plugin", "FILE", "the plugin (.so) that has the handler", .offset = AT(plugin)},
    {OPTION_TEXT, 0, "program", "FILE", "the program that is the handler", .offset = AT(program)},
    {OPTION_FLAG, 0, "in-process", NULL, "in a thread of this process, for a debugger", .offset = AT(in_process)},
    {OPTION_TEXTS, 'r', "resource", "NAME", "what the task locks; up to 16 times", .offset = AT(resources),
     .most = ENVELOPE_RESOURCES_MAX},
    {OPTION_COUNT, 0, "fence", "N", "the fencing token of its lock (1)", .offset = AT(fence), .least = 1,
     .most = (INT64_C(1) << 53) - 1},
    {OPTION_DURATION, 0, "lose-lock-after", "DURATION", "the lock is lost then", .offset = AT(lose_after_ns)},
    {OPTION_DURATION, 0, "danger-after", "DURATION", "the lock is in danger from then on",
     .offset = AT(danger_after_ns)},
    {OPTION_DURATION, 0, "cancel-after", "DURATION", "somebody cancels the task then", .offset = AT(cancel_after_ns)},
    {OPTION_DURATION, 0, "timeout", "DURATION", "how long it may run, instead of what its class says; 0: for ever",
     .offset = AT(timeout_ns)},
    {OPTION_COUNT, 0, "attempt", "N", "it is the N-th retry (0: the first run)", .offset = AT(attempt),
     .most = ATTEMPT_MAX},
    {OPTION_TAKEN, 0, "checkpoint", "JSON", "what an earlier run saved", .offset = AT(checkpoint),
     .take = checkpoint_take},
    {OPTION_TAKEN, 0, "setting", "KEY=VALUE", "a setting of the plugin, over that of the configuration",
     .offset = AT(settings), .take = setting_take},
    {OPTION_FLAG, 0, "json", NULL, "print the outcome as one JSON object; the rest goes to standard error",
     .offset = AT(as_json)},
    {OPTION_TABLE, .table = origin_options, .help = ORIGIN_HEADLINE, .offset = AT(origin)},
    {.type = OPTION_END},
};
#undef AT

static int request_check(const struct handler_run_request *request)
{
    bool has_origin = request->origin.path != NULL || request->origin.is_local;
    if (has_origin + (request->plugin != NULL) + (request->program != NULL) > 1)
        return command_misused(&command_run_handler, "give one of -c, --local, --plugin and --program");
    if (request->in_process && request->program != NULL)
        return command_misused(&command_run_handler, "a program cannot run in this process");
    if (request->class_name[0] == '\0')
        return command_misused(&command_run_handler, "CLASS is empty");
    return EXIT_CODE_OK;
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static bool input_read(struct buffer *text)
{
    for (;;) {
        char *to = buffer_reserve(text, 64 << 10);
        ssize_t count = read(STDIN_FILENO, to, 64 << 10);
        if (count <= 0 && !(count < 0 && errno == EINTR))
            return count == 0;
        text->length += count > 0 ? (size_t)count : 0;
        if (text->length > ARGUMENTS_MAX)
            return true; /* refused for its length */
    }
}

/* The arguments begin and end with their brackets. */
static bool arguments_read(const char *given, struct buffer *text, struct text_span *args)
{
    struct envelope_limits limits = {.size = ARGUMENTS_MAX, .depth = JSON_DEPTH_MAX, .keys = ARGUMENTS_MAX};
    struct error error = ERROR_NONE;
    if (strcmp(given, "-") != 0)
        buffer_append_text(text, given);
    else if (!input_read(text))
        error_set(&error, "standard input cannot be read: %s", strerror(errno));
    while (text->length > 0 && strchr(" \t\r\n", text->bytes[text->length - 1]) != NULL)
        text->length--;
    size_t blanks = 0;
    while (blanks < text->length && strchr(" \t\r\n", text->bytes[blanks]) != NULL)
        blanks++;
    *args = (struct text_span){text->bytes + blanks, text->length - blanks};
    if (error_is_set(&error) || !json_check(args->bytes, args->length, &limits, &error))
        command_complain(&command_run_handler, "the arguments: %s", error.text);
    else if (args->bytes[0] != '[')
        command_complain(&command_run_handler, "the arguments have to be a JSON array, as in '[1,\"two\"]'");
    else
        return true;
    return false;
}

static int run_and_print(struct handler_run_request *request)
{
    struct handler_run *run = handler_run_create(request);
    int code = EXIT_CODE_FAILURE;
    bool is_ready = handler_run_prepare(run);
    bool is_over = is_ready && run->ending != HANDLER_RUN_UNKNOWN; /* it must not run */
    if (is_over || (is_ready && handler_run_execute(run))) {
        log_stop(); /* what is said last is the outcome */
        handler_run_print(run);
        code = handler_run_exit_code(run);
    }
    log_stop();
    if (run->ending == HANDLER_RUN_UNKNOWN && origin_path(&request->origin) != NULL)
        origin_tell(&request->origin, &command_run_handler);
    handler_run_free(run);
    return code;
}

static int run(int argc, char **argv)
{
    struct handler_run_request request = {
        .fence = 1, .lose_after_ns = -1, .danger_after_ns = -1, .cancel_after_ns = -1, .timeout_ns = -1};
    struct command_line line;
    if (!command_line_read(&line, &command_run_handler, argc, argv, &request))
        return line.exit_code;
    if (line.argument_count == 0)
        return command_misused(&command_run_handler, "name the class: run-handler CLASS [ARGS]");
    request.class_name = line.arguments[0];
    int code = request_check(&request);
    if (code != EXIT_CODE_OK)
        return code;
    struct buffer text = {0};
    request.origin.changes = true; /* who knows what a handler does */
    bool is_given = request.plugin != NULL || request.program != NULL;
    code = EXIT_CODE_USAGE;
    if (arguments_read(line.argument_count > 1 ? line.arguments[1] : "[]", &text, &request.args))
        code = is_given ? EXIT_CODE_OK : origin_find(&request.origin, &command_run_handler, ORIGIN_NEEDS_NOTHING);
    if (code == EXIT_CODE_OK)
        code = run_and_print(&request);
    origin_close(&request.origin);
    buffer_fini(&text);
    return code;
}

const struct command command_run_handler = {
    .name = "run-handler",
    .summary = "run one handler here, without Redis, to try or debug it",
    .arguments = "CLASS [ARGS]",
    .about =
        "Runs the handler of CLASS once, with ARGS (a JSON array, [] by default, - reads it from standard input),\n"
        "and prints what it says, its progress, its result, the tasks that follow from it, and what would become of\n"
        "its task. Nothing is pushed or kept, and no node is asked. Without --plugin or --program the class is what\n"
        "the configuration says, which is looked for as by every command; without one the plugins that a worker\n"
        "would load are looked through.\n"
        "\n"
        "It runs where a worker would run it: in a thread, in a process of its own, or as a program. What a worker\n"
        "enforces is enforced here: time limits, the grace, and the end of its lock. With --in-process it runs in a\n"
        "thread in any case, and its lock lasts for as long as a debugger stops it:\n"
        "  gdb --args holdfast run-handler --in-process --plugin ./NAME.so CLASS ARGS\n"
        "\n"
        "With --resource, or when its class or its arguments say what to lock, it runs under a pretended lock, which\n"
        "is extended until the options say otherwise. Ctrl-C cancels the task, a second one kills the run.\n"
        "\n"
        "JSON: class, jid, isolation, outcome, error (class and message, or null), comes_again_in (seconds or\n"
        "null), ran_for (seconds), progress (the last), result, pushed (tasks).\n"
        "\n"
        "Exit codes, by the outcome: 0 done; 75 retry; 65 dead; 99 discarded; 98 snoozed; 97 lock_lost, so what it\n"
        "returned was refused; 96 returned to its queue; 130 cancelled. 1: there was no run, or the handler called\n"
        "exit() in this process, and standard error says so; 2: wrong use.\n",
    .examples = "  holdfast run-handler echo '[\"fail\"]'\n"
                "  holdfast run-handler --plugin ./resize.so resize '[\"a.png\"]' -r image:a --lose-lock-after 2s\n"
                "  holdfast run-handler --program ./report report - --json < arguments.json\n",
    .options = options,
    .arguments_max = 2,
    .run = run,
};
