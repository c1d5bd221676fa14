/* Dispatch, options, and help. All text that people see about a command comes from its struct command.
 *
 * Options follow GNU rules through getopt_long: -cFILE, -c FILE, --config=FILE, --conf FILE, and "--" ends them. The
 * messages are our own, because getopt's do not suggest. */
#include "worker/commands/command.h"

#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/job.h"
#include "worker/config/suggest.h"
#include "worker/version.h"

enum { OPTIONS_MAX = 32, HELP_COLUMN = 28, CODE_HELP = 256, CODE_FIRST = 257 };

static const struct {
    enum exit_code code;
    const char *meaning;
} exit_codes[] = {
    {EXIT_CODE_OK, "all went well"},
    {EXIT_CODE_FAILURE, "it failed: what and why is on standard error"},
    {EXIT_CODE_USAGE, "it was called with wrong options or arguments"},
    {EXIT_CODE_TEMPORARY, "nodes could not be reached, or it is not there yet: the same call may succeed later"},
};
enum { EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

/* --- help --------------------------------------------------------------------------------------------------- */

/* In getopt's terms. */
static int value_of(const struct command_option *option)
{
    if (option->argument == NULL)
        return no_argument;
    return option->argument[0] == '[' ? optional_argument : required_argument;
}

static void option_print(const struct command_option *option, struct buffer *out)
{
    size_t start = out->length;
    if (option->letter != 0)
        buffer_format(out, "  -%c, --%s", option->letter, option->name);
    else
        buffer_format(out, "      --%s", option->name);
    if (option->argument != NULL)
        buffer_format(out, "%s%s", value_of(option) == optional_argument ? "" : " ", option->argument);
    int used = (int)(out->length - start);
    buffer_format(out, "%*s  %s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 0, "", option->help);
}

static const struct command_option help_option = {'h', "help", NULL, "this text"};

static void command_print_help(const struct command *command, struct buffer *out)
{
    buffer_format(out, "Usage: holdfast %s %s\n\n%s\nOptions:\n", command->name, command->synopsis, command->about);
    for (const struct command_option *option = command->options; option->name != NULL; option++)
        option_print(option, out);
    option_print(&help_option, out);
    if (command->examples != NULL)
        buffer_format(out, "\nExamples:\n%s", command->examples);
}

static void exit_codes_print(struct buffer *out)
{
    for (size_t i = 0; i < EXIT_CODES; i++)
        buffer_format(out, "  %-3d %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

static void program_print_help(struct buffer *out)
{
    buffer_append_text(out, "Usage: holdfast COMMAND [OPTIONS]\n"
                            "       holdfast --help | --version\n"
                            "\n"
                            "A distributed job worker: tasks from a Redis list, each run under a Redlock.\n"
                            "\n"
                            "Commands:\n");
    for (const struct command *const *command = command_list; *command != NULL; command++)
        buffer_format(out, "  %-10s %s\n", (*command)->name, (*command)->summary);
    buffer_append_text(out, "\n`holdfast COMMAND --help` says more about a command.\n\nExit codes:\n");
    exit_codes_print(out);
    buffer_append_text(
        out, "\nA command that fails says why on standard error, also with --json: standard output then holds\n"
             "nothing, or what was done so far. Only `check --json` prints its errors as JSON, and `result --json`\n"
             "where a task is that has no result.\n");
}

void command_print_manual(struct buffer *out)
{
    buffer_append_text(out, "# Commands\n\n```\n");
    program_print_help(out);
    buffer_append_text(out, "```\n");
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        buffer_format(out, "\n## holdfast %s\n\n```\n", (*command)->name);
        command_print_help(*command, out);
        buffer_append_text(out, "```\n");
    }
    buffer_append_text(out, "\nThis page is printed by `holdfast help --manual`; `make docs` brings it up to date.\n");
}

static void buffer_write(struct buffer *text, FILE *to)
{
    fwrite(text->bytes, 1, text->length, to);
    buffer_fini(text);
}

/* --- options ------------------------------------------------------------------------------------------------ */

struct command_line command_line_begin(const struct command *command, int argc, char **argv)
{
    optind = 0; /* glibc: start anew */
    opterr = 0;
    return (struct command_line){.command = command, .argc = argc, .argv = argv};
}

int command_misused(const struct command *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "holdfast %s: ", command->name);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\nUsage: holdfast %s %s\n`holdfast %s --help` says more.\n", command->name, command->synopsis,
            command->name);
    va_end(values);
    return EXIT_CODE_USAGE;
}

static void line_fail(struct command_line *line, const char *what, const char *option, const char *hint)
{
    line->is_over = true;
    line->exit_code = command_misused(line->command, "%s %s%s", what, option, hint);
}

static void line_fail_unknown(struct command_line *line)
{
    char letter[] = {'-', (char)optopt, '\0'};
    const char *written = optind > 0 ? line->argv[optind - 1] : "";
    if (optopt != 0 && optopt < CODE_HELP) {
        line_fail(line, "unknown option", letter, "");
        return;
    }
    char name[SUGGEST_WORD_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(written, "="), written);
    struct suggestion suggestion = suggestion_for(name[0] == '-' && name[1] == '-' ? name + 2 : name);
    for (const struct command_option *option = line->command->options; option->name != NULL; option++)
        suggestion_offer(&suggestion, option->name);
    suggestion_offer(&suggestion, help_option.name);
    char hint[SUGGEST_HINT_MAX + 2] = "";
    if (suggestion.best != NULL)
        snprintf(hint, sizeof hint, " (did you mean --%s?)", suggestion.best);
    bool is_known = suggestion.best != NULL && suggestion.distance == 0;
    line_fail(line, is_known ? "this option takes no value:" : "unknown or ambiguous option", name,
              is_known ? "" : hint);
}

static void line_finish(struct command_line *line)
{
    line->arguments = line->argv + optind;
    line->argument_count = line->argc - optind;
    if (line->argument_count > (int)line->command->arguments_max)
        line_fail(line, "unexpected argument", line->arguments[line->command->arguments_max], "");
}

/* The tables of getopt_long, made from the command's own. Long options return CODE_FIRST + index. */
struct getopt_tables {
    char letters[3 * OPTIONS_MAX + 4];
    struct option names[OPTIONS_MAX + 2];
};

static void tables_fill(struct getopt_tables *tables, const struct command *command)
{
    char *letter = tables->letters;
    int count = 0;
    *letter++ = ':'; /* tells a missing value from an unknown option */
    *letter++ = 'h';
    for (const struct command_option *option = command->options; option->name != NULL; option++, count++) {
        int takes_value = value_of(option);
        tables->names[count] = (struct option){option->name, takes_value, NULL, CODE_FIRST + count};
        if (option->letter != 0)
            *letter++ = option->letter;
        for (int colons = takes_value; option->letter != 0 && colons > 0; colons--)
            *letter++ = ':'; /* one for a value, two for one that may be missing */
    }
    *letter = '\0';
    tables->names[count] = (struct option){"help", no_argument, NULL, CODE_HELP};
    tables->names[count + 1] = (struct option){NULL, 0, NULL, 0};
}

static int index_of_letter(const struct command *command, int letter)
{
    int index = 0;
    while (command->options[index].letter != letter)
        index++;
    return index;
}

int command_line_next(struct command_line *line)
{
    struct getopt_tables tables;
    tables_fill(&tables, line->command);
    int code = getopt_long(line->argc, line->argv, tables.letters, tables.names, NULL);
    line->value = optarg;
    if (code >= CODE_FIRST)
        return code - CODE_FIRST;
    switch (code) {
    case -1:
        line_finish(line);
        return -1;
    case '?':
        line_fail_unknown(line);
        return -1;
    case ':':
        line_fail(line, "a value is missing after", line->argv[optind - 1], "");
        return -1;
    case 'h':
    case CODE_HELP: {
        struct buffer help = {0};
        command_print_help(line->command, &help);
        buffer_write(&help, stdout);
        line->is_over = true;
        line->exit_code = EXIT_CODE_OK;
        return -1;
    }
    default:
        return index_of_letter(line->command, code);
    }
}

/* --- the program -------------------------------------------------------------------------------------------- */

static const struct command *command_find(const char *name)
{
    for (const struct command *const *command = command_list; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static int program_help(void)
{
    struct buffer help = {0};
    program_print_help(&help);
    buffer_write(&help, stdout);
    return EXIT_CODE_OK;
}

static int program_version(void)
{
    printf("holdfast %s (interface of jobs %d.%d)\n", HOLDFAST_VERSION, HF_ABI_MAJOR, HF_ABI_MINOR);
    return EXIT_CODE_OK;
}

static int program_misused(const char *word)
{
    struct suggestion suggestion = suggestion_for(word);
    for (const struct command *const *command = command_list; *command != NULL; command++)
        suggestion_offer(&suggestion, (*command)->name);
    char hint[SUGGEST_HINT_MAX];
    fprintf(stderr, "holdfast: there is no command %s%s\n`holdfast --help` lists them.\n", word,
            suggestion_hint(&suggestion, hint));
    return EXIT_CODE_USAGE;
}

/* `| head` has seen enough. What errno was when a write failed is not known any more. */
static bool reader_is_gone(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/* What was printed counts only if it reached its file: a full disk is a failure. */
static int output_close(int exit_code)
{
    if ((fflush(stdout) == 0 && ferror(stdout) == 0) || reader_is_gone())
        return exit_code;
    perror("holdfast: standard output");
    return exit_code == EXIT_CODE_OK ? EXIT_CODE_FAILURE : exit_code;
}

static int program_run(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "holdfast: a command is missing\n`holdfast --help` lists them.\n");
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return program_help();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return program_version();
    const struct command *command = command_find(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : program_misused(argv[1]);
}

int command_main(int argc, char **argv)
{
    return output_close(program_run(argc, argv));
}
