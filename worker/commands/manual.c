#include "worker/commands/manual.h"

#include <string.h>
#include <unistd.h>

#include "worker/commands/nodes.h"
#include "worker/commands/origin.h"
#include "worker/config/config_print.h"
#include "worker/print/roff.h"
#include "worker/print/terminal.h"
#include "worker/print/version.h"

enum { WIDTH_LEAST = 40, WIDTH_MOST = 110, TERM_MOST = 34, HELP_LEAST = 24, HELP_INDENT = 10, PAGE_NAME_MAX = 64 };

#define CONFIGURATION_PAGE "holdfast.conf.5"

struct entry {
    const char *term, *meaning;
};

static const struct {
    enum exit_code code;
    const char *meaning;
} exit_codes[] = {
    {EXIT_CODE_OK, "all went well"},
    {EXIT_CODE_FAILURE, "it failed: what and why is on standard error"},
    {EXIT_CODE_USAGE, "it was called with wrong options or arguments"},
    {EXIT_CODE_TEMPORARY, "nodes could not be reached, or what was asked for is not there yet: try again later"},
    {EXIT_CODE_LOST, "`lock`: the lock was lost, and the command was killed"},
};
enum { EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

static const char what_it_is[] =
    "A distributed job worker: runs tasks from Redis lists, each under a lock on what it works on (a Redlock).\n";

static const char on_failure[] =
    "A command that fails says why on standard error, also with --json: standard output then holds\n"
    "nothing, or what was done so far. Only `check --json` prints its errors as JSON, and `result --json`\n"
    "where a task is that has no result yet.\n";

/* --- help --------------------------------------------------------------------------------------------------------- */

/* "-c, --config FILE" */
static void forms_print(const struct option_row *row, struct buffer *out)
{
    if (row->letter != 0)
        buffer_format(out, "-%c, ", row->letter);
    buffer_format(out, "--%s", row->name);
    if (row->value != NULL)
        buffer_format(out, "%s%s", option_value_is_optional(row) ? "" : " ", row->value);
}

static void row_begin(const struct option_row *row, struct buffer *out)
{
    buffer_append_text(out, row->letter != 0 ? "  " : "      ");
    forms_print(row, out);
}

/* How wide what stands before the help of options is: as the widest of them, except for a few that are wider. */
static size_t terms_width(struct option_walk walk)
{
    size_t widest = 0;
    for (const struct option_row *row; (row = option_next(&walk)) != NULL;) {
        struct buffer term = {0};
        row_begin(row, &term);
        widest = term.length > widest && term.length <= TERM_MOST ? term.length : widest;
        buffer_fini(&term);
    }
    return widest;
}

/* Lays out words that begin in the column `used`, and on further lines in the column `indent`. */
static size_t words_print(const char *text, size_t length, size_t used, size_t indent, size_t width, struct buffer *out)
{
    for (size_t at = 0, word; at < length; at += word) {
        at += strspn(text + at, " ");
        word = strcspn(text + at, " \n");
        word = word < length - at ? word : length - at;
        if (used > indent && used + 1 + word > width) {
            buffer_format(out, "\n%*s", (int)indent, "");
            used = indent;
        }
        if (used > indent)
            buffer_append(out, " ", 1);
        buffer_append(out, text + at, word);
        used += word + (used > indent);
    }
    return used;
}

/* Paragraphs are filled; a line that begins with a space stays as it is. */
static void text_print(const char *text, size_t width, struct buffer *out)
{
    size_t used = 0;
    for (size_t length; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        bool is_filled = length > 0 && text[0] != ' ';
        if (!is_filled && used > 0)
            buffer_append(out, "\n", 1);
        if (is_filled)
            used = words_print(text, length, used, 0, width, out);
        else
            buffer_format(out, "%.*s\n", (int)length, text);
        used = is_filled ? used : 0;
    }
    if (used > 0)
        buffer_append(out, "\n", 1);
}

/* A term that ends before `column`, and its help behind it; below it where that would be too narrow. */
static void help_print(size_t used, size_t column, const char *help, size_t width, struct buffer *out)
{
    bool is_below = width < column + HELP_LEAST, is_wide = !is_below && used >= column;
    size_t indent = is_below ? HELP_INDENT : column;
    if (is_below)
        buffer_format(out, "\n%*s", (int)indent, "");
    else
        buffer_format(out, "%*s", is_wide ? 1 : (int)(column - used), "");
    (void)words_print(help, strlen(help), is_wide ? used + 1 : indent, indent, width, out);
    buffer_append(out, "\n", 1);
}

static void row_print(const struct option_row *row, size_t column, size_t width, struct buffer *out)
{
    size_t start = out->length;
    row_begin(row, out);
    help_print(out->length - start, column + 2, row->help, width, out);
}

static void usage_words(const struct command *command, struct buffer *out)
{
    buffer_format(out, "holdfast %s [OPTIONS]%s%s\n", command->name, command->arguments != NULL ? " " : "",
                  command->arguments != NULL ? command->arguments : "");
}

void manual_print_usage(const struct command *command, struct buffer *out)
{
    buffer_append_text(out, "Usage: ");
    usage_words(command, out);
}

/* That of the terminal, within bounds. */
static size_t width_here(void)
{
    unsigned width = WIDTH_MOST, height;
    if (isatty(STDOUT_FILENO))
        terminal_size(&width, &height);
    return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
}

/* Options below a headline belong to many commands. The page of all of them explains these once, then names them. */
static void command_print(const struct command *command, bool explains_shared, size_t width, struct buffer *out)
{
    struct option_walk walk = {.table = command->options};
    bool is_list = false; /* of names only */
    size_t line = 0;      /* where that of the names begins */
    size_t column = terms_width(walk);
    manual_print_usage(command, out);
    buffer_append(out, "\n", 1);
    text_print(command->about, width, out);
    buffer_append_text(out, "\nOptions:\n");
    for (const struct option_row *row; (row = option_next(&walk)) != NULL;) {
        if (walk.headline != NULL) {
            const char *suffix = explains_shared ? ":\n" : " (see above):\n ";
            buffer_format(out, "%s\n%s%s", is_list ? "\n" : "", walk.headline, suffix);
            is_list = !explains_shared;
            line = out->length;
        }
        if (!is_list) {
            row_print(row, column, width, out);
            continue;
        }
        if (out->length + strlen(row->name) > line + width - 3) {
            buffer_append_text(out, "\n ");
            line = out->length;
        }
        buffer_format(out, " --%s", row->name);
    }
    buffer_append_text(out, is_list ? "\n" : "");
    if (command->examples != NULL)
        buffer_format(out, "\nExamples:\n%s", command->examples);
}

void manual_print_command(const struct command *command, struct buffer *out)
{
    command_print(command, true, width_here(), out);
}

static void table_print(const char *headline, const struct option_row *table, struct buffer *out)
{
    struct option_walk walk = {.table = table, .has_begun = true}; /* without the row of --help */
    buffer_format(out, "\n%s:\n", headline);
    for (const struct option_row *row; (row = option_next(&walk)) != NULL;)
        row_print(row, terms_width((struct option_walk){.table = table, .has_begun = true}), WIDTH_MOST, out);
}

static const struct {
    const struct command *first; /* of those up to the next group */
    const char *want;
} groups[] = {
    {&command_work, "run workers"}, {&command_push, "push tasks"}, {&command_status, "look"},
    {&command_doctor, "repair"},    {&command_lock, "lock"},       {&command_check, "rehearse"},
};

static const char *group_begins(const struct command *command)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (groups[i].first == command)
            return groups[i].want;
    return NULL;
}

static void program_print(size_t width, struct buffer *out)
{
    buffer_append_text(out, "Usage: holdfast COMMAND [OPTIONS]\n       holdfast --help | --version\n\n");
    text_print(what_it_is, width, out);
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        const char *group = group_begins(*command);
        if (group != NULL)
            buffer_format(out, "\nCommands to %s:\n", group);
        buffer_format(out, "  %s", (*command)->name);
        help_print(2 + strlen((*command)->name), 14, (*command)->summary, width, out);
    }
    buffer_append_text(out, "\n");
    text_print("`holdfast COMMAND --help` says more about a command.\n\nExit codes:\n", width, out);
    for (size_t i = 0; i < EXIT_CODES; i++) {
        buffer_format(out, "  %-2d", exit_codes[i].code);
        help_print(4, 6, exit_codes[i].meaning, width, out);
    }
    buffer_append_text(out, "\n");
    text_print(on_failure, width, out);
}

void manual_print_program(struct buffer *out)
{
    program_print(width_here(), out);
}

void manual_print_markdown(struct buffer *out)
{
    buffer_append_text(out, "# Commands\n\n```\n");
    program_print(WIDTH_MOST, out);
    buffer_append_text(out, "\nMany commands have these options.\n");
    table_print(ORIGIN_HEADLINE, origin_queue_options, out);
    table_print(NODES_LOGIN_HEADLINE, nodes_login_options, out);
    buffer_append_text(out, "```\n");
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        buffer_format(out, "\n## holdfast %s\n\n```\n", (*command)->name);
        command_print(*command, false, WIDTH_MOST, out);
        buffer_append_text(out, "```\n");
    }
    buffer_append_text(out, "\nThis page is printed by `holdfast help --manual`; `make docs` brings it up to date.\n");
}

/* --- pages for man ------------------------------------------------------------------------------------------------ */

static const struct entry environment[] = {
    {"HOLDFAST_CONFIG", "the configuration, where no option names one"},
    {"XDG_CONFIG_HOME", "where holdfast/holdfast.conf is looked for (~/.config)"},
    {"XDG_STATE_HOME", "where `holdfast work --local` keeps its nodes (~/.local/state)"},
    {"REDIS_SERVER", "the program of private nodes, instead of the redis-server or valkey-server of the PATH"},
    {"TMPDIR", "where dry runs keep the files of private nodes (/tmp)"},
    {"TZDIR", "where the time zones of periodic tasks are (/usr/share/zoneinfo)"},
    {"NO_COLOR", "set: print without colours"},
    {"NOTIFY_SOCKET, JOURNAL_STREAM",
     "set by systemd: a worker tells it how it is, and the journal how grave a line is"},
    {NULL, NULL}};

static const struct entry files[] = {
    {"./holdfast.conf, $XDG_CONFIG_HOME/holdfast/holdfast.conf, /etc/holdfast/holdfast.conf",
     "the configuration: the first of these that is there, where neither an option nor the environment names one; "
     "root and services do not look for the first"},
    {"$XDG_STATE_HOME/holdfast/local", "the private nodes of `holdfast work --local`, and what they keep"},
    {NULL, NULL}};

static void entries_print(const char *headline, const struct entry *entries, struct buffer *out)
{
    roff_headline(headline, out);
    for (; entries->term != NULL; entries++)
        roff_item(entries->term, entries->meaning, out);
}

static void program_page(struct buffer *out)
{
    char text[PAGE_NAME_MAX];
    roff_begin("holdfast", 1, "run tasks from a Redis list, each under a Redlock", HOLDFAST_VERSION, out);
    roff_headline("SYNOPSIS", out);
    roff_literal("holdfast COMMAND [OPTIONS]\nholdfast --help | --version\n", out);
    roff_headline("DESCRIPTION", out);
    roff_text(what_it_is, out);
    roff_headline("COMMANDS", out);
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        const char *group = group_begins(*command);
        if (group != NULL) {
            snprintf(text, sizeof text, "Commands to %s", group);
            roff_subheadline(text, out);
        }
        snprintf(text, sizeof text, "holdfast-%s(1)", (*command)->name);
        roff_item(text, (*command)->summary, out);
    }
    roff_headline("EXIT STATUS", out);
    roff_text(on_failure, out);
    for (size_t i = 0; i < EXIT_CODES; i++) {
        snprintf(text, sizeof text, "%d", exit_codes[i].code);
        roff_item(text, exit_codes[i].meaning, out);
    }
    entries_print("ENVIRONMENT", environment, out);
    entries_print("FILES", files, out);
    roff_headline("SEE ALSO", out);
    roff_text("holdfast.conf(5), job.h(3), libholdfast(3), libholdfast-fence(3), libredlock(3)\n", out);
}

/* Other commands that the text names, as in `holdfast work --local`. */
static void see_also(const struct command *about, struct buffer *out)
{
    struct buffer text = {0};
    buffer_append_text(&text, "holdfast(1), holdfast.conf(5)");
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        char words[PAGE_NAME_MAX];
        snprintf(words, sizeof words, "`holdfast %s", (*command)->name);
        const char *at = strstr(about->about, words);
        if (at != NULL && strchr(" `", at[strlen(words)]) != NULL && *command != about)
            buffer_format(&text, ", holdfast-%s(1)", (*command)->name);
    }
    roff_headline("SEE ALSO", out);
    roff_text(buffer_text(&text), out);
    buffer_fini(&text);
}

static void options_page(const struct command *command, struct buffer *out)
{
    struct option_walk walk = {.table = command->options};
    struct buffer forms = {0};
    roff_headline("OPTIONS", out);
    for (const struct option_row *row; (row = option_next(&walk)) != NULL; buffer_clear(&forms)) {
        if (walk.headline != NULL)
            roff_subheadline(walk.headline, out);
        forms_print(row, &forms);
        roff_item(buffer_text(&forms), row->help, out);
    }
    buffer_fini(&forms);
}

static void command_page(const struct command *command, struct buffer *out)
{
    char name[PAGE_NAME_MAX];
    struct buffer usage = {0};
    snprintf(name, sizeof name, "holdfast-%s", command->name);
    usage_words(command, &usage);
    roff_begin(name, 1, command->summary, HOLDFAST_VERSION, out);
    roff_headline("SYNOPSIS", out);
    roff_literal(buffer_text(&usage), out);
    roff_headline("DESCRIPTION", out);
    roff_text(command->about, out);
    options_page(command, out);
    if (command->examples != NULL) {
        roff_headline("EXAMPLES", out);
        roff_literal(command->examples, out);
    }
    see_also(command, out);
    buffer_fini(&usage);
}

void manual_list_pages(struct buffer *out)
{
    buffer_append_text(out, "holdfast.1\n" CONFIGURATION_PAGE "\n");
    for (const struct command *const *command = command_list; *command != NULL; command++)
        buffer_format(out, "holdfast-%s.1\n", (*command)->name);
}

bool manual_print_page(const char *name, struct buffer *out)
{
    if (strcmp(name, "holdfast.1") == 0) {
        program_page(out);
        return true;
    }
    if (strcmp(name, CONFIGURATION_PAGE) == 0) {
        config_print_page(HOLDFAST_VERSION, out);
        return true;
    }
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        char file[PAGE_NAME_MAX];
        snprintf(file, sizeof file, "holdfast-%s.1", (*command)->name);
        if (strcmp(file, name) == 0) {
            command_page(*command, out);
            return true;
        }
    }
    return false;
}
