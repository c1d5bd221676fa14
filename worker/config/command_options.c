#include "worker/config/command_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/quantity.h"
#include "worker/config/suggest.h"

enum { CODE_FIRST = 256 };

static const struct option_row help_row = {.type = OPTION_FLAG, .letter = 'h', .name = "help", .help = "this text"};

/* The tables for getopt_long, built from the rows. A long option returns CODE_FIRST + its index. */
struct reading {
    const struct option_row *rows[OPTION_ROWS_MAX];
    size_t bases[OPTION_ROWS_MAX]; /* the offset of the row's struct in the struct of the command */
    int count;
    char letters[3 * OPTION_ROWS_MAX + 2];
    struct option names[OPTION_ROWS_MAX + 1];
};

bool option_value_is_optional(const struct option_row *row)
{
    return row->value != NULL && row->value[0] == '[';
}

const struct option_row *option_next(struct option_walk *walk)
{
    walk->headline = NULL;
    if (!walk->has_begun) {
        walk->has_begun = true;
        return &help_row;
    }
    for (;;) {
        const struct option_row *row = walk->table++;
        if (row->type == OPTION_TABLE) {
            invariant(walk->depth < OPTION_TABLES_MAX);
            walk->outer[walk->depth].table = walk->table;
            walk->outer[walk->depth++].base = walk->base;
            walk->table = row->table;
            walk->base += row->offset;
            walk->headline = row->help != NULL ? row->help : walk->headline;
        } else if (row->type != OPTION_END) {
            return row;
        } else if (walk->depth == 0) {
            return NULL;
        } else {
            walk->table = walk->outer[--walk->depth].table;
            walk->base = walk->outer[walk->depth].base;
        }
    }
}

static int argument_kind(const struct option_row *row)
{
    if (row->value == NULL)
        return no_argument;
    return option_value_is_optional(row) ? optional_argument : required_argument;
}

static void reading_begin(struct reading *reading, const struct option_row *table)
{
    struct option_walk walk = {.table = table};
    char *letter = reading->letters;
    *letter++ = ':'; /* getopt then distinguishes a missing value from an unknown option */
    for (const struct option_row *row; (row = option_next(&walk)) != NULL; reading->count++) {
        invariant(reading->count < OPTION_ROWS_MAX);
        reading->rows[reading->count] = row;
        reading->bases[reading->count] = walk.base;
        reading->names[reading->count] =
            (struct option){row->name, argument_kind(row), NULL, CODE_FIRST + reading->count};
        if (row->letter != 0)
            *letter++ = row->letter;
        for (int colons = argument_kind(row); row->letter != 0 && colons > 0; colons--)
            *letter++ = ':'; /* one for a value, two for an optional value */
    }
    *letter = '\0';
    reading->names[reading->count] = (struct option){NULL, 0, NULL, 0};
    optind = 0; /* glibc: restart */
    opterr = 0;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool count_take(const struct option_row *row, const char *text, int64_t *count, struct error *error)
{
    int64_t most = row->most > 0 ? row->most : INT64_MAX;
    if (count_parse(text, row->least, most, count))
        return true;
    if (row->most > 0)
        return error_set(error, "--%s wants a number from %lld to %lld, not \"%s\"", row->name, (long long)row->least,
                         (long long)most, text);
    return error_set(error, "--%s wants a number from %lld on, not \"%s\"", row->name, (long long)row->least, text);
}

static bool duration_take(const struct option_row *row, const char *text, int64_t *ns, struct error *error)
{
    char least[QUANTITY_TEXT_MAX], most[QUANTITY_TEXT_MAX];
    int64_t value;
    if (!duration_parse(text, &value, error)) {
        error_prefix(error, "--%s", row->name);
        return false;
    }
    if (row->most > 0 && (value < row->least || value > row->most))
        return error_set(error, "--%s wants a time from %s to %s, not \"%s\"", row->name,
                         duration_print(row->least, least), duration_print(row->most, most), text);
    if (value < row->least)
        return error_set(error, "--%s wants at least %s, not \"%s\"", row->name, duration_print(row->least, least),
                         text);
    *ns = value;
    return true;
}

static bool texts_take(const struct option_row *row, const char *text, struct option_texts *texts, struct error *error)
{
    size_t most = row->most > 0 ? (size_t)row->most : OPTION_TEXTS_MAX;
    invariant(most <= OPTION_TEXTS_MAX);
    if (texts->count == most)
        return error_set(error, "--%s can be given %zu times at most", row->name, most);
    texts->items[texts->count++] = text;
    return true;
}

/* `text` is NULL for a flag or a missing optional value. */
static bool row_take(const struct option_row *row, const char *text, void *target, struct error *error)
{
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)target = true;
        return true;
    case OPTION_TAKEN:
        if (row->take(target, text, error))
            return true;
        error_prefix(error, "--%s", row->name);
        return false;
    default:
        break;
    }
    if (text == NULL)
        return true;
    switch (row->type) {
    case OPTION_TEXT:
        *(const char **)target = text;
        return true;
    case OPTION_TEXTS:
        return texts_take(row, text, target, error);
    case OPTION_COUNT:
        return count_take(row, text, target, error);
    case OPTION_DURATION:
        return duration_take(row, text, target, error);
    default:
        invariant_unreachable("an option has a type");
    }
}

static bool option_take(const struct reading *reading, int index, const char *text, char *into, struct error *error)
{
    const struct option_row *row = reading->rows[index];
    char *owner = into + reading->bases[index];
    if (!row_take(row, text, owner + row->offset, error))
        return false;
    if (row->given != 0)
        *(bool *)(owner + row->given - 1) = true;
    return true;
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

static bool unknown_option(const struct reading *reading, char **argv, struct error *error)
{
    const char *written = optind > 0 ? argv[optind - 1] : "";
    if (optopt != 0 && optopt < CODE_FIRST)
        return error_set(error, "unknown option -%c", optopt);
    char name[SUGGEST_WORD_MAX + 1], hint[SUGGEST_HINT_MAX + 2] = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(written, "="), written);
    struct suggestion suggestion = suggestion_for(strncmp(name, "--", 2) == 0 ? name + 2 : name);
    for (int i = 0; i < reading->count; i++)
        suggestion_offer(&suggestion, reading->rows[i]->name);
    if (suggestion.best != NULL && suggestion.distance == 0)
        return error_set(error, "the option %s takes no value", name);
    if (suggestion.best != NULL)
        snprintf(hint, sizeof hint, " (did you mean --%s?)", suggestion.best);
    return error_set(error, "unknown or ambiguous option %s%s", name, hint);
}

static int index_of_letter(const struct reading *reading, int letter)
{
    int index = 0;
    while (reading->rows[index]->letter != letter)
        index++;
    return index;
}

static enum options_outcome line_read(const struct option_row *table, int argc, char **argv, void *into,
                                      struct options_found *found, struct error *error)
{
    struct reading reading = {.count = 0};
    *found = (struct options_found){.bare = NULL};
    reading_begin(&reading, table);
    for (int code; (code = getopt_long(argc, argv, reading.letters, reading.names, NULL)) != -1;) {
        if (code == '?' && !unknown_option(&reading, argv, error))
            return OPTIONS_WRONG;
        if (code == ':' && !error_set(error, "a value is missing after %s", argv[optind - 1]))
            return OPTIONS_WRONG;
        int index = code >= CODE_FIRST ? code - CODE_FIRST : index_of_letter(&reading, code);
        if (reading.rows[index] == &help_row)
            return OPTIONS_HELP;
        if (!option_take(&reading, index, optarg, into, error))
            return OPTIONS_WRONG;
        if (optarg == NULL && option_value_is_optional(reading.rows[index]))
            *found = (struct options_found){.bare = reading.rows[index], .behind_bare = argv[optind]};
    }
    found->first = optind;
    return OPTIONS_READ;
}

enum options_outcome options_read(const struct option_row *table, int argc, char **argv, void *into,
                                  struct options_found *found, struct error *error)
{
    enum options_outcome outcome = line_read(table, argc, argv, into, found, error);
    if (outcome == OPTIONS_WRONG)
        log_defuse(error->text); /* it quotes the user's input */
    return outcome;
}
