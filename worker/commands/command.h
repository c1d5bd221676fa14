/* The commands of the holdfast program: one file worker/commands/command_NAME.c each, listed here and in command.c.
 *
 * A command describes itself with data, from which come its --help, the list in `holdfast --help`, docs/commands.md,
 * its page for man, the completion of shells and the suggestions for mistyped names. Its run function reads all of the
 * line at once (worker/config/command_options.h):
 *
 *     struct example example = {.limit = 50};
 *     struct command_line line;
 *     if (!command_line_read(&line, &command_example, argc, argv, &example))
 *         return line.exit_code;      help was printed, or a mistake was reported
 *     ... the arguments are line.arguments[0 .. line.argument_count) */
#ifndef WORKER_COMMAND_H
#define WORKER_COMMAND_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "worker/config/command_options.h"
#include "worker/print/exit_code.h"

struct command {
    const char *name;
    const char *summary;   /* one line for the list */
    const char *arguments; /* what it takes besides options, for its usage: "NAME..."; NULL = nothing */
    const struct option_row *options;
    const char *about;                 /* what it does; lines end with \n */
    const char *examples;              /* lines that end with \n; may be NULL */
    unsigned arguments_max;            /* how many it takes besides its options */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns enum exit_code */
};

const struct command *command_find(const char *name); /* NULL when there is none */
extern const struct command *const command_list[];    /* ends with NULL */

extern const struct command command_cancel;
extern const struct command command_check;
extern const struct command command_config;
extern const struct command command_contention;
extern const struct command command_doctor;
extern const struct command command_dry_run;
extern const struct command command_help;
extern const struct command command_local;
extern const struct command command_lock;
extern const struct command command_nodes;
extern const struct command command_pause;
extern const struct command command_periodic;
extern const struct command command_plugin;
extern const struct command command_plugins;
extern const struct command command_push;
extern const struct command command_queues;
extern const struct command command_quiet;
extern const struct command command_report;
extern const struct command command_result;
extern const struct command command_resume;
extern const struct command command_run_handler;
extern const struct command command_serve;
extern const struct command command_status;
extern const struct command command_stop;
extern const struct command command_tasks;
extern const struct command command_top;
extern const struct command command_unlock;
extern const struct command command_who;
extern const struct command command_why;
extern const struct command command_work;

/* The whole program but for main(). `built` is build_facts (worker/print/version.h). */
int command_main(int argc, char **argv, const char *built);

/* Flushes standard output. What was printed counts only if it reached its file: returns a failure if not, else
 * `exit_code`. */
int command_output_close(int exit_code);

struct command_line {
    int exit_code;
    char **arguments;
    int argument_count;
};

/* Reads the whole line: options into `into`, the rest as arguments. False when the command is over with
 * line->exit_code: help was printed, or a mistake was reported. */
bool command_line_read(struct command_line *line, const struct command *command, int argc, char **argv,
                       void *into) MUST_CHECK;
/* "holdfast COMMAND: text" on standard error, made safe for a terminal. Returns EXIT_CODE_FAILURE. */
int command_complain(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
int command_complain_list(const struct command *command, const char *format, va_list values)
    __attribute__((format(printf, 2, 0)));
/* Reports a mistake in how the command was called, with a pointer to --help. Returns EXIT_CODE_USAGE. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
