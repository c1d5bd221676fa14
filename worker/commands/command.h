/* The commands of the holdfast program: one file worker/commands/command_NAME.c each, listed in
 * worker/commands/command_list.c.
 *
 * A command describes itself with data, from which come its --help, the list in `holdfast --help`, docs/commands.md
 * and the suggestions for mistyped names. Its run function takes its options one by one:
 *
 *     enum { OPTION_CONFIG, OPTION_JSON };
 *     static const struct command_option options[] = {
 *         [OPTION_CONFIG] = {'c', "config", "FILE", "the configuration of the worker"},
 *         [OPTION_JSON] = {0, "json", NULL, "print JSON"}, {0, NULL, NULL, NULL}};
 *
 *     struct command_line line = command_line_begin(&command_example, argc, argv);
 *     for (int option; (option = command_line_next(&line)) >= 0;)
 *         switch (option) { case OPTION_CONFIG: path = line.value; ... }
 *     if (line.is_over)
 *         return line.exit_code;      help was printed, or a mistake was reported
 *     ... the arguments are line.arguments[0 .. line.argument_count) */
#ifndef WORKER_COMMAND_H
#define WORKER_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "worker/exit_code.h"

struct command_option {
    char letter;          /* 0 = none */
    const char *name;     /* of the long form; NULL ends the list */
    const char *argument; /* how the help calls its value; NULL = it has none, "[=VALUE]" = it may have one */
    const char *help;     /* one line */
};

struct command {
    const char *name;
    const char *summary;  /* one line for the list */
    const char *synopsis; /* what follows "holdfast NAME": "-c FILE [--json]" */
    const char *about;    /* what it does; lines end with \n */
    const char *examples; /* lines that end with \n; may be NULL */
    const struct command_option *options;
    unsigned arguments_max;            /* how many it takes besides its options */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns enum exit_code */
};

extern const struct command *const command_list[]; /* ends with NULL */

/* The whole program but for main(). */
int command_main(int argc, char **argv);

struct command_line {
    const struct command *command;
    int argc;
    char **argv;
    const char *value; /* of the option that command_line_next returned; NULL when it has none */
    bool is_over;
    int exit_code;
    char **arguments;
    int argument_count;
};

struct command_line command_line_begin(const struct command *command, int argc, char **argv);
/* The index of the next option in the command's table; -1 after the last. `--help` and mistakes are dealt with here:
 * then -1 is returned and is_over is set. */
int command_line_next(struct command_line *line);
/* Reports a mistake in how the command was called, with a pointer to --help. Returns EXIT_CODE_USAGE. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* docs/commands.md */
void command_print_manual(struct buffer *out);

#endif
