/* holdfast help: the help of one command, and what else is made of the rows of all commands. */
#include "worker/commands/command.h"
#include "worker/commands/manual.h"
#include "worker/monitor/metric_table.h"

struct help_command {
    bool is_manual, is_metrics, is_man;
    const char *page, *shell;
};

#define AT(member) offsetof(struct help_command, member)
static const struct option_row options[] = {
    {OPTION_FLAG, 0, "manual", NULL, "print the page about all commands, in Markdown", .offset = AT(is_manual)},
    {OPTION_FLAG, 0, "metrics", NULL, "print the page about metrics, in Markdown", .offset = AT(is_metrics)},
    {OPTION_TEXT, 0, "man", "[=PAGE]", "print a page for man (holdfast-push.1), or the names of all",
     .offset = AT(page), .given = GIVEN(AT(is_man))},
    {OPTION_TEXT, 0, "completion", "SHELL", "print what completes command lines in bash, zsh or fish",
     .offset = AT(shell)},
    {.type = OPTION_END},
};
#undef AT

static int help_of(char *name)
{
    char *arguments[] = {name, (char[]){"--help"}, NULL};
    const struct command *command = command_find(name);
    return command != NULL ? command->run(2, arguments)
                           : command_misused(&command_help, "there is no command %s", name);
}

static int text_of(const struct help_command *command, struct buffer *out)
{
    if (command->is_manual)
        manual_print_markdown(out);
    else if (command->is_metrics)
        metric_manual_print(out);
    else if (command->shell != NULL && !completion_print(command->shell, out))
        return command_misused(&command_help, "--completion wants bash, zsh or fish, not \"%s\"", command->shell);
    else if (command->is_man && command->page == NULL)
        manual_list_pages(out);
    else if (command->is_man && !manual_print_page(command->page, out))
        return command_misused(&command_help, "there is no page %s (`holdfast help --man` lists them)", command->page);
    return EXIT_CODE_OK;
}

static int run(int argc, char **argv)
{
    struct help_command command = {.page = NULL};
    struct command_line line;
    struct buffer text = {0};
    if (!command_line_read(&line, &command_help, argc, argv, &command))
        return line.exit_code;
    int wanted =
        command.is_manual + command.is_metrics + command.is_man + (command.shell != NULL) + line.argument_count;
    if (wanted > 1)
        return command_misused(&command_help, "give one of COMMAND, --manual, --metrics, --man and --completion");
    if (line.argument_count == 1)
        return help_of(line.arguments[0]);
    if (wanted == 0)
        manual_print_program(&text);
    int code = text_of(&command, &text);
    fputs(buffer_text(&text), stdout);
    buffer_fini(&text);
    return code;
}

const struct command command_help = {
    .name = "help",
    .summary = "explain a command",
    .arguments = "[COMMAND]",
    .about = "Prints the help of one command, or the list of all.\n"
             "\n"
             "After `make install` man has a page for each command, and shells complete command lines.\n",
    .examples = "  holdfast help push\n"
                "  holdfast help --man=holdfast-push.1 | man -l -\n"
                "  source <(holdfast help --completion=bash)\n",
    .options = options,
    .arguments_max = 1,
    .run = run,
};
