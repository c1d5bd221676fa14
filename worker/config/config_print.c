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

/* From `from` on, every line becomes a comment. */
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

static void manual_keys_print(const struct config_section *section, struct buffer *out)
{
    buffer_append_text(out, "| key | value | default | on reload | meaning |\n|---|---|---|---|---|\n");
    for (const struct config_key *key = section->keys; key->name != NULL; key++) {
        buffer_format(out, "| `%s` | ", key->name);
        config_key_expects(key, out);
        buffer_append_text(out, " | ");
        manual_default_print(key, out);
        buffer_format(out, " | %s | %s |\n", key->is_reloadable ? "reloadable" : "-", key->help);
    }
}

static const char manual_text[] =
    "A worker reads one file, `holdfast work -c FILE`. `holdfast check -c FILE` says everything that is wrong "
    "with\n"
    "it, with the plugins and with the nodes; `holdfast config -c FILE` prints what is in effect. The commented\n"
    "sample is `conf/holdfast.conf`.\n"
    "\n"
    "Without `-c` each command takes the first of these files that is there: `$HOLDFAST_CONFIG`, `./holdfast.conf`,\n"
    "`$XDG_CONFIG_HOME/holdfast/holdfast.conf` (by default below `~/.config`), `/etc/holdfast/holdfast.conf`. Root "
    "and\n"
    "services of systemd do not look at `./holdfast.conf`. `-v` says which file was taken. One that is there and is\n"
    "refused, or wrong, ends the command: the next one is not tried.\n"
    "\n"
    "- The syntax is that of libconfig: `section = { key = value; };`, lists of groups in `( ... )`, lists of "
    "texts\n"
    "  in `[ ... ]`, comments with `#`, `//` or `/* */`.\n"
    "- Durations and sizes are texts with a unit: `\"800us\"`, `\"250ms\"`, `\"10s\"`, `\"1.5s\"`, `\"5m\"`, "
    "`\"2h\"`, `\"7d\"`;\n"
    "  `\"512B\"`, `\"64KiB\"`, `\"1MiB\"`. A number without a unit is an error, and so is an integer that does "
    "not fit\n"
    "  into 32 bits.\n"
    "- Relative paths begin at the directory of the file. `@include \"NAME\"` at the beginning of a line reads "
    "another\n"
    "  file from there or below.\n"
    "- An unknown key is an error. All errors are reported at once, each with file and line.\n"
    "- Passwords are never written into the file: they come from `password_file` (mode 600) or `password_env`. "
    "They\n"
    "  are not printed anywhere. When the configuration is printed, a plugin's setting whose name contains\n"
    "  `password`, `secret`, `token`, `credential` or `private` is shown as `(redacted)`.\n"
    "- A file, and the directory that it lies in, has to belong to root or to the user who reads it and be\n"
    "  writable by nobody else: it decides which code runs. The group of a user other than root may write what\n"
    "  belongs to both, and a directory may be sticky (as `/tmp`) or mounted read-only.\n"
    "- On SIGHUP a worker reads its file again. Reloadable settings take effect then, for the tasks that begin\n"
    "  afterwards; every other setting that changed is named in the log and takes effect after a restart. A file\n"
    "  with an error changes nothing. A rolling restart loses no task: see operations.md.\n";

void config_print_manual(struct buffer *out)
{
    buffer_format(out, "# Configuration\n\n%s", manual_text);
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
