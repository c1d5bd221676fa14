/* holdfast result: what a task that is done has left, now or as soon as it is there. */
#include "worker/commands/command.h"

#include <string.h>

#include "queue/envelope.h"
#include "worker/commands/task_await.h"

struct result_command {
    struct console console;
    struct task_await await;
};

#define AT(member) offsetof(struct result_command, member)
static const struct option_row options[] = {
    {OPTION_DURATION, 'w', "wait", "[=DURATION]", "until there is one, or there will be none; at most so long",
     .offset = AT(await.wait_ns), .given = GIVEN(AT(await.waits))},
    {OPTION_COUNT, 0, "scan-limit", "N", "look for the task through so many entries of a state (10000)",
     .offset = AT(await.scan_limit), .least = 1},
    {OPTION_TABLE, .table = console_options, .offset = AT(console)},
    {.type = OPTION_END},
};
#undef AT

static int run(int argc, char **argv)
{
    struct result_command command = {.await = {.wait_ns = INT64_MAX, .scan_limit = TASK_AWAIT_SCAN}};
    struct command_line line;
    if (!command_line_read(&line, &command_result, argc, argv, &command))
        return line.exit_code;
    if (line.argument_count != 1)
        return command_misused(&command_result, "name the task by its jid");
    command.await.console = &command.console;
    command.await.jid = line.arguments[0];
    if (!envelope_jid_is_sound(command.await.jid, strlen(command.await.jid)))
        return command_misused(&command_result, "the argument cannot be a jid");
    int code = console_open(&command.console, &command_result, ORIGIN_NEEDS_QUEUE, false);
    if (code == EXIT_CODE_OK)
        code = task_await(&command.await);
    return console_close(&command.console, code);
}

const struct command command_result = {
    .name = "result",
    .summary = "what a task that is done has left as its result",
    .arguments = "JID",
    .about =
        "Prints the result of a task as JSON. Results are kept for as long as the class of the task says\n"
        "(result_ttl). With --wait it waits until there is one, or until it is clear that there will be none: the\n"
        "task is dead, or is nowhere. It looks up to five times a second, later every two seconds.\n"
        "\n"
        "When there is none it says why, in the words of `holdfast why`.\n"
        "\n"
        "Exits with 0 when there is a result; with 1 when there is none and none is to be expected: the task is\n"
        "dead, has ended without one, or nobody knows it; with 75 when there is none yet: the task waits, runs or\n"
        "is to be tried again, or nodes could not be reached.\n"
        "\n"
        "JSON: jid, state (done, cancelled, gone, unknown, or that of `holdfast tasks`); of a task that is done or\n"
        "cancelled also ended_at and result; of any other what `holdfast why` prints, and error (of its last run, or\n"
        "null).\n",
    .examples = "  holdfast result 0123456789abcdef01234567\n"
                "  holdfast result 0123456789abcdef01234567 --wait=30s\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
