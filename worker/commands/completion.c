/* What completes command lines in a shell: a script of that shell, made from the rows of all commands. It offers the
 * commands, their options and the words that they take, and files where a value is one. */
#include "worker/commands/manual.h"

#include <string.h>

#include "worker/commands/command.h"

/* What an option or the arguments of a command take. */
enum kind { KIND_NOTHING, KIND_TEXT, KIND_FILE, KIND_DIRECTORY };

/* "FILE", "[list | check FILE...]", "PATH", "A.json B.json" */
static enum kind kind_of(const char *value)
{
    if (value == NULL)
        return KIND_NOTHING;
    if (strstr(value, "FILE") != NULL || strstr(value, "PATH") != NULL || strstr(value, ".json") != NULL)
        return KIND_FILE;
    return strcmp(value, "DIR") == 0 ? KIND_DIRECTORY : KIND_TEXT;
}

/* The words that are taken as they are written: "list" and "check" of "[list | check FILE...]". */
static void literals_print(const struct command *command, struct buffer *out)
{
    const char *text = command->arguments != NULL ? command->arguments : "";
    if (strcmp(text, "[COMMAND]") == 0)
        for (const struct command *const *each = command_list; *each != NULL; each++)
            buffer_format(out, "%s ", (*each)->name);
    while (*(text += strspn(text, " []|")) != '\0') {
        size_t length = strcspn(text, " []|");
        if (length > 1 && strspn(text, "abcdefghijklmnopqrstuvwxyz-") == length)
            buffer_format(out, "%.*s ", (int)length, text);
        text += length;
    }
}

/* As a part of a word in single quotes; `special` are the characters that want a backslash. */
static void quoted_print(const char *text, const char *special, struct buffer *out)
{
    for (; *text != '\0'; text++) {
        if (strchr(special, *text) != NULL)
            buffer_append_text(out, "\\");
        buffer_append_text(out, *text == '\'' ? "'\\'" : "");
        buffer_append(out, text, 1);
    }
}

/* A script is `head`, all commands, `body`, the options of each command, and `tail`. */
struct shell {
    const char *name, *head, *body, *tail;
    const char *list[3];  /* before and behind the name of a command, and behind its summary; NULL = without that */
    const char *begin[2]; /* before and behind the name of a command whose options follow */
    void (*option)(const struct command *command, const struct option_row *row, struct buffer *out);
    void (*end)(const struct command *command, const char *literals, struct buffer *out); /* see literals_print */
};

/* --- bash --------------------------------------------------------------------------------------------------------- */

/* An option is --NAME:KIND, with an = behind the name when it needs a value. */
static const char bash_head[] =
    "# Printed by `holdfast help --completion=bash`.\n"
    "_holdfast() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} is_value= kind=\n"
    "    local option options='-h: --help: -V: --version:' offered= files= words='";

static const char bash_body[] = "'\n"
                                "    # Readline makes a word of its own of the = in --name=value.\n"
                                "    if [[ $word == = ]]; then is_value=1 word=\n"
                                "    elif [[ $before == = ]]; then is_value=1 before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                                "    fi\n"
                                "    case $((COMP_CWORD > 1)),${COMP_WORDS[1]} in\n";

static const char bash_tail[] =
    "    1,*) return ;;\n"
    "    esac\n"
    "    for option in $options; do\n"
    "        offered+=\"${option%%:*} \"\n"
    "        if [[ ${option%%[=:]*} == \"$before\" ]]; then kind=${option#*:}; fi\n"
    "    done\n"
    "    if [[ -n $is_value ]]; then kind=${kind:-text}; fi\n"
    "    case $kind,$word in\n"
    "    text,*) COMPREPLY=() ;;\n"
    "    ?*,*) mapfile -t COMPREPLY < <(compgen -A \"$kind\" -- \"$word\"); compopt -o filenames ;;\n"
    "    ,-*)\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$word\")\n"
    "        if [[ ${COMPREPLY-} == *= ]]; then compopt -o nospace; fi\n"
    "        ;;\n"
    "    *)\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" ${files:+-f} -- \"$word\")\n"
    "        if [[ -n $files ]]; then compopt -o filenames; fi\n"
    "        ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _holdfast holdfast\n";

static void bash_option(const struct command *command, const struct option_row *row, struct buffer *out)
{
    static const char *const kinds[] = {"", "text", "file", "directory"};
    bool needs_value = row->value != NULL && !option_value_is_optional(row);
    const char *kind = kinds[needs_value ? kind_of(row->value) : KIND_NOTHING];
    (void)command;
    if (row->letter != 0)
        buffer_format(out, "-%c:%s ", row->letter, kind);
    buffer_format(out, "--%s%s:%s ", row->name, needs_value ? "=" : "", kind);
}

static void bash_end(const struct command *command, const char *literals, struct buffer *out)
{
    buffer_format(out, "' words='%s' files=%s ;;\n", literals, kind_of(command->arguments) == KIND_FILE ? "1" : "");
}

/* --- zsh ---------------------------------------------------------------------------------------------------------- */

static const char zsh_head[] = "#compdef holdfast\n"
                               "# Printed by `holdfast help --completion=zsh`.\n"
                               "_holdfast() {\n"
                               "    local -a commands=(\n";

static const char zsh_body[] =
    "    )\n"
    "    if ((CURRENT == 2)); then\n"
    "        _arguments '(-)'{-h,--help}'[explain the commands]' \\\n"
    "            '(-)'{-V,--version}'[print the version]' '1: :{_describe command commands}'\n"
    "        return\n"
    "    fi\n"
    "    shift words\n"
    "    ((CURRENT--))\n"
    "    case $words[1] in\n";

static const char zsh_tail[] =
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _holdfast ]]; then _holdfast \"$@\"; else compdef _holdfast holdfast; fi\n";

static const char *zsh_action(const char *value)
{
    static const char *const actions[] = {"", " ", "_files", "_files -/"};
    return actions[kind_of(value)];
}

/* {-c+,--config=}'[the configuration]:FILE:_files' */
static void zsh_option(const struct command *command, const struct option_row *row, struct buffer *out)
{
    bool has_value = row->value != NULL, is_optional = option_value_is_optional(row);
    const char *letter_sign = !has_value ? "" : is_optional ? "-" : "+";
    const char *name_sign = !has_value ? "" : is_optional ? "=-" : "=";
    (void)command;
    buffer_format(out, " \\\n            %s", row->type == OPTION_TEXTS ? "\\*" : "");
    if (row->letter != 0)
        buffer_format(out, "{-%c%s,--%s%s}'[", row->letter, letter_sign, row->name, name_sign);
    else
        buffer_format(out, "--%s%s'[", row->name, name_sign);
    quoted_print(row->help, "\\[]:", out);
    buffer_append_text(out, !has_value ? "]" : is_optional ? "]::" : "]:");
    quoted_print(has_value ? row->value : "", "\\:", out);
    buffer_format(out, "%s%s'", has_value ? ":" : "", zsh_action(row->value));
}

static void zsh_end(const struct command *command, const char *literals, struct buffer *out)
{
    if (literals[0] != '\0')
        buffer_format(out, " \\\n            '1: :(%s)'", literals);
    if (command->arguments != NULL) /* without a list, be it empty, zsh offers no options behind a word */
        buffer_format(out, " \\\n            '*: :%s'", kind_of(command->arguments) == KIND_FILE ? "_files" : "()");
    buffer_append_text(out, "\n        ;;\n");
}

/* --- fish --------------------------------------------------------------------------------------------------------- */

static const char fish_head[] =
    "# Printed by `holdfast help --completion=fish`.\n"
    "function __holdfast_runs\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
    "end\n"
    "complete -c holdfast -f\n"
    "complete -c holdfast -n __fish_use_subcommand -s h -l help -d 'explain the commands'\n"
    "complete -c holdfast -n __fish_use_subcommand -s V -l version -d 'print the version'\n";

static void fish_option(const struct command *command, const struct option_row *row, struct buffer *out)
{
    static const char *const kinds[] = {"", " -x", " -r -F", " -x -a '(__fish_complete_directories)'"};
    buffer_format(out, "complete -c holdfast -n '__holdfast_runs %s' -l %s", command->name, row->name);
    if (row->letter != 0)
        buffer_format(out, " -s %c", row->letter);
    buffer_format(out, "%s -d '", option_value_is_optional(row) ? "" : kinds[kind_of(row->value)]);
    quoted_print(row->help, "\\", out);
    buffer_append_text(out, "'\n");
}

static void fish_end(const struct command *command, const char *literals, struct buffer *out)
{
    if (kind_of(command->arguments) == KIND_FILE)
        buffer_format(out, "complete -c holdfast -n '__holdfast_runs %s' -F\n", command->name);
    if (literals[0] != '\0')
        buffer_format(out, "complete -c holdfast -n '__holdfast_runs %s' -a '%s'\n", command->name, literals);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static const struct shell shells[] = {
    {"bash", bash_head, bash_body, bash_tail, {"", " ", NULL}, {"    1,", ") options='"}, bash_option, bash_end},
    {"zsh",
     zsh_head,
     zsh_body,
     zsh_tail,
     {"        '", ":", "'\n"},
     {"    (", ")\n        _arguments -s -S"},
     zsh_option,
     zsh_end},
    {"fish",
     fish_head,
     "",
     "",
     {"complete -c holdfast -n __fish_use_subcommand -a ", " -d '", "'\n"},
     {"# ", "\n"},
     fish_option,
     fish_end},
};

static void list_print(const struct shell *shell, struct buffer *out)
{
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        buffer_format(out, "%s%s%s", shell->list[0], (*command)->name, shell->list[1]);
        if (shell->list[2] == NULL)
            continue;
        quoted_print((*command)->summary, "\\", out);
        buffer_append_text(out, shell->list[2]);
    }
}

static void command_print(const struct shell *shell, const struct command *command, struct buffer *out)
{
    struct buffer literals = {0};
    struct option_walk walk = {.table = command->options};
    literals_print(command, &literals);
    buffer_format(out, "%s%s%s", shell->begin[0], command->name, shell->begin[1]);
    for (const struct option_row *row; (row = option_next(&walk)) != NULL;)
        shell->option(command, row, out);
    shell->end(command, buffer_text(&literals), out);
    buffer_fini(&literals);
}

bool completion_print(const char *name, struct buffer *out)
{
    const struct shell *shell = shells, *end = shells + sizeof shells / sizeof shells[0];
    while (shell < end && strcmp(shell->name, name) != 0)
        shell++;
    if (shell == end)
        return false;
    buffer_append_text(out, shell->head);
    list_print(shell, out);
    buffer_append_text(out, shell->body);
    for (const struct command *const *command = command_list; *command != NULL; command++)
        command_print(shell, *command, out);
    buffer_append_text(out, shell->tail);
    return true;
}
