/* The only user of libconfig: it parses the text that config_text.c gathered, and its tree is copied into ours at
 * once, so that nothing else depends on its version (1.5 and later; it never sees an @include or an integer of more
 * than 32 bits).
 *
 * libconfig reports the first syntax error only; what follows one cannot be understood anyway. */
#include "worker/config/config_file.h"

#include <libconfig.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "worker/config/config_text.h"

enum { DEPTH_MAX = 8 };

struct config_file {
    struct config_text text;
    struct config_value root;
};

static void value_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings);

static enum config_kind kind_of(config_setting_t *setting)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_GROUP:
        return CONFIG_IS_GROUP;
    case CONFIG_TYPE_ARRAY:
    case CONFIG_TYPE_LIST:
        return CONFIG_IS_LIST;
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return CONFIG_IS_INTEGER;
    case CONFIG_TYPE_FLOAT:
        return CONFIG_IS_REAL;
    case CONFIG_TYPE_BOOL:
        return CONFIG_IS_BOOL;
    default:
        return CONFIG_IS_TEXT;
    }
}

static char *scalar_text(config_setting_t *setting, enum config_kind kind)
{
    struct buffer text = {0};
    if (kind == CONFIG_IS_INTEGER)
        buffer_format(&text, "%lld", config_setting_get_int64(setting));
    else if (kind == CONFIG_IS_REAL)
        buffer_format(&text, "%.17g", config_setting_get_float(setting));
    else if (kind == CONFIG_IS_BOOL)
        buffer_append_text(&text, config_setting_get_bool(setting) ? "true" : "false");
    else
        buffer_append_text(&text, config_setting_get_string(setting));
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return copy;
}

static void items_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings)
{
    int count = config_setting_length(setting);
    if (depth == DEPTH_MAX) {
        findings_error(findings, "%s:%u: is nested too deep", value->file, value->line);
        return;
    }
    if (count <= 0)
        return;
    value->items = memory_zeroed((size_t)count, sizeof *value->items);
    value->count = (size_t)count;
    for (unsigned i = 0; i < (unsigned)count; i++)
        value_copy(file, config_setting_get_elem(setting, i), &value->items[i], depth + 1, findings);
}

static void value_copy(struct config_file *file, config_setting_t *setting, struct config_value *value, unsigned depth,
                       struct findings *findings)
{
    const struct config_line *line = config_text_line(&file->text, config_setting_source_line(setting));
    value->kind = kind_of(setting);
    value->name = config_setting_name(setting) != NULL ? memory_text(config_setting_name(setting)) : NULL;
    value->file = line->file;
    value->line = line->number;
    value->was_cut = line->has_cut_number && value->kind == CONFIG_IS_INTEGER && config_setting_get_int64(setting) == 0;
    if (value->kind == CONFIG_IS_GROUP || value->kind == CONFIG_IS_LIST)
        items_copy(file, setting, value, depth, findings);
    else
        value->text = scalar_text(setting, value->kind);
}

static void value_fini(struct config_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        value_fini(&value->items[i]);
    free(value->items);
    free(value->name);
    if (value->text != NULL)
        memory_wipe(value->text, strlen(value->text)); /* a plugin's setting may be a secret */
    free(value->text);
}

static bool tree_read(struct config_file *file, struct findings *findings)
{
    config_t parsed;
    config_init(&parsed);
    bool understood = config_read_string(&parsed, buffer_text(&file->text.bytes)) == CONFIG_TRUE;
    if (understood) {
        value_copy(file, config_root_setting(&parsed), &file->root, 0, findings);
    } else {
        const struct config_line *line = config_text_line(&file->text, (unsigned)config_error_line(&parsed));
        findings_error(findings,
                       "%s:%u: %s here or just before; a setting is written KEY = VALUE; and a list of texts "
                       "[\"a\", \"b\"]",
                       line->file, line->number, config_error_text(&parsed));
    }
    config_destroy(&parsed);
    return understood;
}

struct config_file *config_file_read(const char *path, struct findings *findings)
{
    struct config_file *file = memory_new(struct config_file);
    if (config_text_read(&file->text, path, findings) && tree_read(file, findings))
        return file;
    config_file_free(file);
    return NULL;
}

void config_file_free(struct config_file *file)
{
    value_fini(&file->root);
    memory_wipe(file->text.bytes.bytes, file->text.bytes.length);
    config_text_fini(&file->text);
    free(file);
}

const struct config_value *config_file_root(const struct config_file *file)
{
    return &file->root;
}

const char *config_file_directory(const struct config_file *file)
{
    return file->text.directory;
}

const struct config_value *config_value_member(const struct config_value *group, const char *name)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].name != NULL && strcmp(group->items[i].name, name) == 0)
            return &group->items[i];
    return NULL;
}

const char *config_kind_name(enum config_kind kind)
{
    static const char *const names[] = {
        [CONFIG_IS_TEXT] = "a text in quotes", [CONFIG_IS_INTEGER] = "a whole number", [CONFIG_IS_REAL] = "a number",
        [CONFIG_IS_BOOL] = "true or false",    [CONFIG_IS_GROUP] = "a group { }",      [CONFIG_IS_LIST] = "a list",
    };
    return names[kind];
}
