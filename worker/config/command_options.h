/* Command line options, described by a table of typed rows. Parsing, `--help`, the manual pages and shell completion
 * all use the same rows; worker/commands/manual.h has the last three.
 *
 *     struct example { bool as_json; int64_t wait_ns; const char *path; };
 *     #define AT(member) offsetof(struct example, member)
 *     static const struct option_row options[] = {
 *         {OPTION_FLAG, 0, "json", NULL, "print one JSON object", .offset = AT(as_json)},
 *         {OPTION_DURATION, 'w', "wait", "[=DURATION]", "wait, at most so long", .offset = AT(wait_ns),
 *          .given = GIVEN(AT(waits))},
 *         {OPTION_TEXT, 'c', "config", "FILE", "the configuration", .offset = AT(path)},
 *         {.type = OPTION_END}};
 *
 *     struct example example = {.wait_ns = NS_PER_S};         the defaults
 *     struct options_found found;
 *     switch (options_read(options, argc, argv, &example, &found, &error)) ...
 *
 * Options follow the rules of GNU: -cFILE, -c FILE, --config=FILE, --config FILE, --conf FILE, and "--" ends them. An
 * optional value ("[=VALUE]") needs the "=". If an option is repeated, the last one counts, except for OPTION_TEXTS.
 * Texts point into argv. In all commands, a letter has the same meaning, and a name the same kind (flag, value,
 * optional value); a unit test checks all tables. `holdfast lock` is the exception, for the habits of its users.
 *
 * Threads: the main thread only; getopt_long has global state. */
#ifndef WORKER_COMMAND_OPTIONS_H
#define WORKER_COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum option_type {
    OPTION_END,      /* ends a table */
    OPTION_FLAG,     /* bool; set to true */
    OPTION_TEXT,     /* const char * */
    OPTION_TEXTS,    /* struct option_texts: repeatable, at most `most` times */
    OPTION_COUNT,    /* int64_t, from `least` to `most` (0 = any) */
    OPTION_DURATION, /* int64_t in ns, likewise */
    OPTION_TAKEN,    /* `take` reads it */
    OPTION_TABLE,    /* all rows of `table`, whose struct is at `offset`; `help` is a headline above them */
};

struct option_row {
    enum option_type type;
    char letter;       /* 0 = none */
    const char *name;  /* of the long form */
    const char *value; /* the name of its value in the help; NULL = no value, "[=VALUE]" = optional */
    const char *help;  /* one line; the default in brackets at its end */
    size_t offset;     /* of its target in the struct of the command */
    int64_t least, most;
    size_t given; /* GIVEN(offset) of a bool that becomes true if the option was given; 0 = none */
    /* Reads `text` into the target at `offset`; NULL = no value was given. Errors are prefixed with "--NAME: ". */
    bool (*take)(void *target, const char *text, struct error *error);
    const struct option_row *table;
};

#define GIVEN(member_offset) ((member_offset) + 1)

enum { OPTION_TEXTS_MAX = 64, OPTION_ROWS_MAX = 64, OPTION_TABLES_MAX = 4 };

struct option_texts {
    const char *items[OPTION_TEXTS_MAX];
    size_t count;
};

enum options_outcome {
    OPTIONS_READ,
    OPTIONS_HELP,  /* --help or -h */
    OPTIONS_WRONG, /* the error says what */
};

struct options_found {
    int first;                     /* the operands are argv[first .. argc) */
    const struct option_row *bare; /* the last option without its optional value; NULL = none */
    const char *behind_bare;       /* the word that followed it; NULL = none */
};

/* Reads the options of argv[1 .. argc), and moves the operands behind them. */
enum options_outcome options_read(const struct option_row *table, int argc, char **argv, void *into,
                                  struct options_found *found, struct error *error) MUST_CHECK;

/* Iterates over the row of --help, which every command has, and the rows of a table and its nested tables, except those
 * of type OPTION_TABLE and OPTION_END.
 *
 *     struct option_walk walk = {.table = options};
 *     while ((row = option_next(&walk)) != NULL) ... walk.headline is the headline that begins here, or NULL */
struct option_walk {
    const struct option_row *table;
    bool has_begun;
    size_t base; /* where the struct of the table begins */
    const char *headline;
    struct {
        const struct option_row *table;
        size_t base;
    } outer[OPTION_TABLES_MAX];
    unsigned depth;
};
const struct option_row *option_next(struct option_walk *walk);
bool option_value_is_optional(const struct option_row *row);

#endif
