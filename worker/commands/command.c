/* Dispatch and options. All text that people see about a command comes from its struct command. */
#include "worker/commands/command.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/quantity.h"
#include "jobs/job.h"
#include "worker/commands/manual.h"
#include "worker/config/suggest.h"
#include "worker/print/version.h"
#include "worker/servers/server_program.h"

/* By what one wants, in the order in which `holdfast --help` shows them. */
const struct command *const command_list[] = {
    &command_work,
    &command_quiet,
    &command_stop,
    &command_pause,
    &command_resume,
    &command_periodic,
    &command_local,

    &command_push,
    &command_result,
    &command_cancel,

    &command_status,
    &command_why,
    &command_top,
    &command_serve,
    &command_queues,
    &command_report,
    &command_help,

    &command_doctor,
    &command_tasks,
    &command_nodes,

    &command_lock,
    &command_who,
    &command_unlock,
    &command_contention,

    &command_check,
    &command_config,
    &command_plugins,
    &command_plugin,
    &command_run_handler,
    &command_dry_run,
    NULL,
};

static void buffer_write(struct buffer *text, FILE *to)
{
    fwrite(text->bytes, 1, text->length, to);
    buffer_fini(text);
}

/* --- options ------------------------------------------------------------------------------------------------ */

enum { COMPLAINT_MAX = 1024 };

int command_complain_list(const struct command *command, const char *format, va_list values)
{
    char text[COMPLAINT_MAX];
    vsnprintf(text, sizeof text, format, values);
    fprintf(stderr, "holdfast %s: %s\n", command->name, log_defuse(text));
    return EXIT_CODE_FAILURE;
}

int command_complain(const struct command *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    command_complain_list(command, format, values);
    va_end(values);
    return EXIT_CODE_FAILURE;
}

int command_misused(const struct command *command, const char *format, ...)
{
    struct buffer usage = {0};
    va_list values;
    va_start(values, format);
    fprintf(stderr, "holdfast %s: ", command->name);
    vfprintf(stderr, format, values);
    va_end(values);
    manual_print_usage(command, &usage);
    fprintf(stderr, "\n%s`holdfast %s --help` says more.\n", buffer_text(&usage), command->name);
    buffer_fini(&usage);
    return EXIT_CODE_USAGE;
}

/* "--wait 5s": the second word is meant as a value, and not as an argument. */
static bool is_stray_value(const struct options_found *found)
{
    struct error error = ERROR_NONE;
    int64_t ns;
    return found->bare != NULL && found->behind_bare != NULL && found->bare->type == OPTION_DURATION &&
           duration_parse(found->behind_bare, &ns, &error);
}

static int unexpected_argument(const struct command_line *line, const struct command *command,
                               const struct options_found *found)
{
    bool is_stray = is_stray_value(found);
    const char *argument = is_stray ? found->behind_bare : line->arguments[command->arguments_max];
    if (!is_stray && argument != found->behind_bare)
        return command_misused(command, "unexpected argument %s", argument);
    return command_misused(command, "unexpected argument %s (a value of --%s is written with =: --%s=%s)", argument,
                           found->bare->name, found->bare->name, argument);
}

bool command_line_read(struct command_line *line, const struct command *command, int argc, char **argv, void *into)
{
    struct error error = ERROR_NONE;
    struct options_found found;
    struct buffer help = {0};
    *line = (struct command_line){.exit_code = EXIT_CODE_OK};
    switch (options_read(command->options, argc, argv, into, &found, &error)) {
    case OPTIONS_HELP:
        manual_print_command(command, &help);
        buffer_write(&help, stdout);
        return false;
    case OPTIONS_WRONG:
        line->exit_code = command_misused(command, "%s", error.text);
        return false;
    default:
        break;
    }
    line->arguments = argv + found.first;
    line->argument_count = argc - found.first;
    if (line->argument_count <= (int)command->arguments_max && !is_stray_value(&found))
        return true;
    line->exit_code = unexpected_argument(line, command, &found);
    return false;
}

/* --- the program -------------------------------------------------------------------------------------------- */

const struct command *command_find(const char *name)
{
    for (const struct command *const *command = command_list; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static int program_version(const char *built)
{
    printf("holdfast %s\n%sjobs       interface %d.%d\nservers    " SERVER_PROGRAMS "\n", HOLDFAST_VERSION, built,
           HF_ABI_MAJOR, HF_ABI_MINOR);
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

int command_output_close(int exit_code)
{
    if ((fflush(stdout) == 0 && ferror(stdout) == 0) || reader_is_gone())
        return exit_code;
    perror("holdfast: standard output");
    return exit_code == EXIT_CODE_OK ? EXIT_CODE_FAILURE : exit_code;
}

static int program_run(int argc, char **argv, const char *built)
{
    if (argc < 2) {
        fprintf(stderr, "holdfast: a command is missing\n`holdfast --help` lists them.\n");
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        struct buffer help = {0};
        manual_print_program(&help);
        buffer_write(&help, stdout);
        return EXIT_CODE_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "version") == 0)
        return program_version(built);
    const struct command *command = command_find(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : program_misused(argv[1]);
}

int command_main(int argc, char **argv, const char *built)
{
    return command_output_close(program_run(argc, argv, built));
}
