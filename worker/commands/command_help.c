/* holdfast help: the page docs/commands.md, and the help of one command. */
#include <string.h>

#include "worker/commands/commands.h"

enum { OPTION_MANUAL };

static const struct command_option options[] = {
    [OPTION_MANUAL] = {0, "manual", NULL, "print the page about all commands, in Markdown"},
    {0, NULL, NULL, NULL},
};

static int help_of(char *name)
{
    char *arguments[] = {name, (char[]){"--help"}, NULL};
    for (const struct command *const *command = command_list; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return (*command)->run(2, arguments);
    return command_misused(&command_help, "there is no command %s", name);
}

static int run(int argc, char **argv)
{
    bool is_manual = false;
    struct command_line line = command_line_begin(&command_help, argc, argv);
    while (command_line_next(&line) == OPTION_MANUAL)
        is_manual = true;
    if (line.is_over)
        return line.exit_code;
    if (is_manual) {
        struct buffer page = {0};
        command_print_manual(&page);
        fwrite(page.bytes, 1, page.length, stdout);
        buffer_fini(&page);
        return EXIT_CODE_OK;
    }
    if (line.argument_count == 1)
        return help_of(line.arguments[0]);
    char *arguments[] = {(char[]){"holdfast"}, (char[]){"--help"}, NULL};
    return command_main(2, arguments);
}

const struct command command_help = {
    .name = "help",
    .summary = "explain a command",
    .synopsis = "[COMMAND | --manual]",
    .about = "Prints the help of one command, or the list of all.\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
