#include "worker/config/config_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/quantity.h"
#include "worker/config/config_table.h"
#include "worker/print/roff.h"

enum { SAMPLE_WIDTH = 100 };

/* --- the effective configuration ---------------------------------------------------------------------------- */

static bool field_is_empty(const struct config_key *key, const void *field)
{
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
        return (*(char *const *)field)[0] == '\0';
    case CONFIG_WORDS:
        return ((const struct config_words *)field)->count == 0;
    case CONFIG_PAIRS:
        return ((const struct config_pairs *)field)->count == 0;
    default:
        return false;
    }
}

static void fields_print(const struct config_section *section, const char *item, const char *indent, struct buffer *out)
{
    for (const struct config_key *key = section->keys; key->name != NULL; key++) {
        const void *field = item + key->offset;
        if (field_is_empty(key, field))
            continue;
        buffer_format(out, "%s%s = ", indent, key->name);
        config_key_print(key, field, out);
        buffer_append_text(out, ";\n");
    }
}

static void list_print(const struct config_section *section, const struct config *config, struct buffer *out)
{
    size_t count;
    const char *items = config_section_items(section, config, &count);
    buffer_format(out, "%s = (", section->name);
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i == 0 ? "\n    {\n" : ",\n    {\n");
        fields_print(section, items + i * section->item_size, "        ", out);
        buffer_append_text(out, "    }");
    }
    buffer_append_text(out, count > 0 ? "\n);\n" : ");\n");
}

void config_print(const struct config *config, struct buffer *out)
{
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        size_t count;
        if (section->is_list) {
            list_print(section, config, out);
            continue;
        }
        buffer_format(out, "%s = {\n", section->name);
        fields_print(section, config_section_items(section, config, &count), "    ", out);
        buffer_append_text(out, "};\n");
    }
}

/* --- the sample file ---------------------------------------------------------------------------------------- */

/* The text as comment lines of at most SAMPLE_WIDTH columns. */
static void comment_print(const char *indent, const char *text, struct buffer *out)
{
    size_t width = SAMPLE_WIDTH - strlen(indent) - 2;
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > width) {
            length = width;
            while (length > 0 && text[length] != ' ')
                length--;
        }
        buffer_format(out, "%s# %.*s\n", indent, (int)length, text);
        text += length;
        text += *text == ' ';
    }
}

static bool is_written_in_quotes(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_RATIO:
    case CONFIG_FLAG:
    case CONFIG_WORDS:
    case CONFIG_PAIRS:
        return false;
    default:
        return true;
    }
}

static void words_print(const char *words, struct buffer *out)
{
    buffer_append_text(out, "[\"");
    for (; *words != '\0'; words++)
        buffer_append(out, *words == ' ' ? "\", \"" : words, *words == ' ' ? strlen("\", \"") : 1);
    buffer_append_text(out, "\"]");
}

static void fallback_print(const struct config_key *key, struct buffer *out)
{
    if (key->type == CONFIG_WORDS)
        words_print(key->fallback, out);
    else if (is_written_in_quotes(key))
        buffer_format(out, "\"%s\"", key->fallback);
    else
        buffer_append_text(out, key->fallback);
}

static void sample_keys_print(const struct config_section *section, const char *indent, struct buffer *out)
{
    for (const struct config_key *key = section->keys; key->name != NULL; key++) {
        buffer_append_text(out, key == section->keys ? "" : "\n");
        comment_print(indent, key->help, out);
        buffer_format(out, "%s%s%s = ", indent, key->in_sample ? "" : "# ", key->name);
        if (key->example == NULL)
            fallback_print(key, out);
        else if (is_written_in_quotes(key))
            config_text_print(key->example, out);
        else
            buffer_append_text(out, key->example);
        buffer_append_text(out, !key->in_sample && key->example != NULL ? "; # an example\n" : ";\n");
    }
}

/* Comments out every line after offset `from`. */
static void lines_comment_out(struct buffer *out, size_t from)
{
    char *text = memory_text_of(out->bytes + from, out->length - from);
    out->length = from;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        buffer_format(out, end == line ? "#\n" : "# %.*s\n", (int)(end - line), line);
    free(text);
}

static void sample_section_print(const struct config_section *section, struct buffer *out)
{
    size_t from = out->length;
    buffer_format(out, section->is_list ? "%s = (\n    {\n" : "%s = {\n", section->name);
    sample_keys_print(section, section->is_list ? "        " : "    ", out);
    if (section->is_list)
        buffer_format(out, section->sample_more != NULL ? "    },\n%s);\n" : "    }\n%s);\n",
                      section->sample_more != NULL ? section->sample_more : "");
    else
        buffer_append_text(out, "};\n");
    if (section->is_optional)
        lines_comment_out(out, from);
}

void config_print_sample(struct buffer *out)
{
    buffer_append_text(
        out,
        "# A configuration for Holdfast. Settings that are commented out show their defaults; those marked\n"
        "# \"an example\" do not: left out, they are empty or what their comment says. Check with: holdfast check -c "
        "FILE\n"
        "# Durations and sizes are texts with a unit: \"250ms\", \"10s\", \"5m\", \"64KiB\", \"1MiB\". Relative paths\n"
        "# begin at the directory of this file, and @include \"NAME\" reads another file from there.\n"
        "#\n"
        "# Printed by `holdfast config --sample`.\n");
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        buffer_append_text(out, "\n");
        comment_print("", section->help, out);
        sample_section_print(section, out);
    }
}

/* --- the manual --------------------------------------------------------------------------------------------- */

static void manual_default_print(const struct config_key *key, struct buffer *out)
{
    if (key->fallback == NULL) {
        buffer_append_text(out, key->is_required ? "required" : "-");
        return;
    }
    buffer_append_text(out, "`");
    fallback_print(key, out);
    buffer_append_text(out, "`");
}

/* Short, because it fills a narrow column. */
static void manual_value_print(const struct config_key *key, struct buffer *out)
{
    struct buffer expected = {0};
    config_key_expects(key, &expected);
    const char *bounds = strstr(buffer_text(&expected), " from ");
    if (key->type == CONFIG_TEXT || key->type == CONFIG_PATH)
        buffer_format(out, "up to %lld bytes", (long long)key->max);
    else if (key->type == CONFIG_WORDS)
        buffer_format(out, "%sup to %lld texts", key->may_be_one ? "a text, or " : "", (long long)key->max);
    else
        buffer_append_text(out, bounds != NULL ? bounds + strlen(" from ") : buffer_text(&expected));
    buffer_fini(&expected);
}

/* Lock nodes and the queue node share the rows of the address: the manual describes them once. */
static const struct config_section *section_with(const struct config_section *before, const struct config_key *key)
{
    for (const struct config_section *section = config_sections; section != before; section++)
        for (const struct config_key *other = section->keys; other->name != NULL; other++)
            if (strcmp(other->name, key->name) == 0 && strcmp(other->help, key->help) == 0)
                return section;
    return NULL;
}

static void manual_keys_print(const struct config_section *section, struct buffer *out)
{
    struct buffer others = {0};
    buffer_append_text(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (const struct config_key *key = section->keys; key->name != NULL; key++) {
        const struct config_section *first = section_with(section, key);
        if (first != NULL && others.length == 0)
            buffer_format(&others, "\nAs in `%s`:", first->name);
        if (first != NULL) {
            buffer_format(&others, " `%s`", key->name);
            continue;
        }
        buffer_format(out, "| `%s`%s | ", key->name, key->is_reloadable ? "*" : "");
        manual_value_print(key, out);
        buffer_append_text(out, " | ");
        manual_default_print(key, out);
        buffer_format(out, " | %s |\n", key->help);
    }
    if (others.length > 0)
        buffer_format(out, "%s.\n", buffer_text(&others));
    buffer_fini(&others);
}

static const char manual_text[] =
    "A worker reads one file, `holdfast work -c FILE`. `holdfast check -c FILE` reports all errors in it, and\n"
    "`holdfast config -c FILE` prints what is in effect. The commented sample is `conf/holdfast.conf`.\n"
    "\n"
    "Without `-c` each command takes the first existing file of `$HOLDFAST_CONFIG`, `./holdfast.conf`,\n"
    "`$XDG_CONFIG_HOME/holdfast/holdfast.conf` (by default below `~/.config`) and `/etc/holdfast/holdfast.conf`. Root\n"
    "and services of systemd pass over `./holdfast.conf`, which others may have put there. Where it is, a command\n"
    "that changes something ends, and one that only reads says which file it took. `-v` prints the file. If that one\n"
    "is refused, wrong, or not filled in yet (as `/etc/holdfast/holdfast.conf` of the packages), the command ends.\n"
    "Where there is no file, what only reads from the queue node asks 127.0.0.1:6379, and says so; the rest ends. A\n"
    "dry run takes a configuration by `-c` only.\n"
    "\n"
    "- The syntax is that of libconfig: `section = { key = value; };`, lists of groups in `( ... )`, lists of texts\n"
    "  in `[ ... ]`, comments with `#`, `//` or `/* */`. `@include \"NAME\"` at the beginning of a line reads another\n"
    "  file.\n"
    "- Durations and sizes are texts with a unit: `\"800us\"`, `\"250ms\"`, `\"1.5s\"`, `\"5m\"`, `\"2h\"`, `\"7d\"`; "
    "`\"512B\"`,\n"
    "  `\"64KiB\"`, `\"1MiB\"`. Whole numbers have 32 bits.\n"
    "- Relative paths begin at the directory of the file; included files are there or below.\n"
    "- Passwords come from `password_file` or `password_env`, and are never printed. A plugin's setting, or a\n"
    "  variable of a program, whose name contains `password`, `secret`, `token`, `credential`, `private` or `key` is\n"
    "  printed as `(redacted)`.\n"
    "- The file decides which code runs. So it and its directory must belong to root or to the user who reads it, and\n"
    "  no one else may write to them. The private group of a user, which has the same number, may (with a umask of\n"
    "  002 it does), except for root; and a directory may be sticky (as `/tmp`) or mounted read-only.\n"
    "- On SIGHUP a worker [reloads](operations.md#signals) its file: reloadable settings apply to tasks that begin\n"
    "  afterwards.\n";

void config_print_manual(struct buffer *out)
{
    buffer_format(out, "# Configuration\n\n%s\nA reloadable setting is marked with *.\n", manual_text);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        buffer_format(out, "\n## %s%s\n\n%s%s\n\n", section->name, section->is_list ? " (a list of groups)" : "",
                      section->is_required ? "Required. " : "", section->help);
        manual_keys_print(section, out);
    }
    buffer_append_text(out,
                       "\nThis page is printed by `holdfast config --manual`; `make docs` brings it up to date.\n");
}

/* --- the manual page ---------------------------------------------------------------------------------------------- */

static void page_key(const struct config_key *key, struct buffer *out)
{
    struct buffer text = {0};
    buffer_format(&text, "%s Wants ", key->help);
    config_key_expects(key, &text);
    if (key->is_required || key->fallback != NULL) {
        buffer_append_text(&text, key->is_required ? "; " : "; by default ");
        manual_default_print(key, &text);
    }
    buffer_append_text(&text, key->is_reloadable ? "; reloadable." : ".");
    roff_item(key->name, buffer_text(&text), out);
    buffer_fini(&text);
}

void config_print_page(const char *version, struct buffer *out)
{
    roff_begin("holdfast.conf", 5, "the configuration of Holdfast", version, out);
    roff_headline("DESCRIPTION", out);
    roff_text(manual_text, out);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        roff_headline(section->name, out);
        roff_text(section->help, out);
        for (const struct config_key *key = section->keys; key->name != NULL; key++)
            page_key(key, out);
    }
    roff_headline("SEE ALSO", out);
    roff_text("holdfast(1), holdfast-config(1), holdfast-check(1)\n", out);
}
