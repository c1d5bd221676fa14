/* From the tree of a file to struct config, by the table; then the checks that look at more than one key.
 *
 * Nothing stops at the first error: a wrong value is reported and its field keeps the default, so that one run shows
 * everything that has to be mended. Runs at the start of the program, on the main thread. */
#include "worker/config/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/config/config_file.h"
#include "worker/config/config_node.h"
#include "worker/config/config_queues.h"
#include "worker/config/config_periodic.h"
#include "worker/config/config_table.h"
#include "worker/config/config_text.h"
#include "worker/config/suggest.h"

enum { LIST_ITEMS_MAX = 256, SETTING_PATH_MAX = 128 };

struct reader {
    struct findings *findings;
    const char *directory;
};

/* --- one key ------------------------------------------------------------------------------------------------ */

static void value_error(struct reader *reader, const struct config_value *value, const char *path, const char *text)
{
    findings_error(reader->findings, "%s:%u: %s: %s", value->file, value->line, path, text);
}

static void type_error(struct reader *reader, const struct config_key *key, const struct config_value *value,
                       const char *path)
{
    struct buffer text = {0};
    buffer_append_text(&text, "expected ");
    config_key_expects(key, &text);
    bool is_empty = value->kind == CONFIG_IS_LIST && value->count == 0;
    buffer_format(&text, ", found %s", is_empty ? "an empty list" : config_kind_name(value->kind));
    value_error(reader, value, path, buffer_text(&text));
    buffer_fini(&text);
}

static bool kind_fits(const struct config_key *key, enum config_kind kind)
{
    switch (key->type) {
    case CONFIG_COUNT:
        return kind == CONFIG_IS_INTEGER;
    case CONFIG_RATIO:
        return kind == CONFIG_IS_INTEGER || kind == CONFIG_IS_REAL;
    case CONFIG_FLAG:
        return kind == CONFIG_IS_BOOL;
    case CONFIG_WORDS:
        return kind == CONFIG_IS_LIST || (key->may_be_one && kind == CONFIG_IS_TEXT);
    case CONFIG_PAIRS:
        return kind == CONFIG_IS_GROUP;
    default:
        return kind == CONFIG_IS_TEXT;
    }
}

static void word_apply(struct reader *reader, const struct config_key *key, const struct config_value *item,
                       const char *path, struct config_words *words)
{
    size_t longest = key->item_max > 0 ? key->item_max : CONFIG_ITEM_MAX;
    char expected[96];
    snprintf(expected, sizeof expected, "every item is to be a text of 1 to %zu bytes in quotes", longest);
    if (item->kind != CONFIG_IS_TEXT || item->text[0] == '\0' || strlen(item->text) > longest)
        value_error(reader, item, path, expected);
    else if (config_words_hold(words, item->text))
        value_error(reader, item, path, "names the same one twice");
    else
        config_words_add(words, item->text);
}

static void words_apply(struct reader *reader, const struct config_key *key, const struct config_value *value,
                        const char *path, struct config_words *field)
{
    struct config_words words = {0};
    bool is_one = value->kind == CONFIG_IS_TEXT;
    const struct config_value *items = is_one ? value : value->items;
    size_t count = is_one ? 1 : value->count;
    if ((int64_t)count < key->min || (int64_t)count > key->max) {
        type_error(reader, key, value, path);
        return;
    }
    for (size_t i = 0; i < count; i++)
        word_apply(reader, key, &items[i], path, &words);
    for (size_t i = 0; i < field->count; i++)
        free(field->items[i]);
    free(field->items);
    *field = words;
}

static void pairs_apply(struct reader *reader, const struct config_value *value, const char *path,
                        struct config_pairs *field)
{
    for (size_t i = 0; i < value->count; i++) {
        const struct config_value *item = &value->items[i];
        if (item->kind == CONFIG_IS_TEXT)
            config_pairs_add(field, item->name, item->text);
        else
            findings_error(reader->findings, "%s:%u: %s.%s: settings of plugins are texts: write the value in quotes",
                           item->file, item->line, path, item->name);
    }
}

static void key_apply(struct reader *reader, const struct config_key *key, const struct config_value *value,
                      const char *path, void *field)
{
    struct error error = ERROR_NONE;
    if (value->was_cut)
        return; /* reported by the scan */
    if (!kind_fits(key, value->kind))
        type_error(reader, key, value, path);
    else if (key->type == CONFIG_WORDS)
        words_apply(reader, key, value, path, field);
    else if (key->type == CONFIG_PAIRS)
        pairs_apply(reader, value, path, field);
    else if (!config_key_parse(key, value->text, reader->directory, field, &error))
        value_error(reader, value, path, error.text);
}

/* --- sections ----------------------------------------------------------------------------------------------- */

static const struct config_key *key_find(const struct config_section *section, const char *name)
{
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static void unknown_key(struct reader *reader, const struct config_section *section, const struct config_value *value,
                        const char *path)
{
    struct suggestion suggestion = suggestion_for(value->name);
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        suggestion_offer(&suggestion, key->name);
    char hint[SUGGEST_HINT_MAX];
    bool is_password = strcmp(value->name, "password") == 0 && key_find(section, "password_file") != NULL;
    findings_error(reader->findings, "%s:%u: %s.%s: there is no such key%s", value->file, value->line, path,
                   value->name,
                   is_password ? "; passwords are not written here, use password_file or password_env"
                               : suggestion_hint(&suggestion, hint));
}

static char *where_of(const struct config_value *value)
{
    struct buffer where = {0};
    buffer_format(&where, "%s:%u", value->file, value->line);
    char *text = memory_text(buffer_text(&where));
    buffer_fini(&where);
    return text;
}

static void group_apply(struct reader *reader, const struct config_section *section, const struct config_value *group,
                        const char *path, void *item)
{
    if (group->kind != CONFIG_IS_GROUP) {
        findings_error(reader->findings, "%s:%u: %s: expected a group { ... }, found %s", group->file, group->line,
                       path, config_kind_name(group->kind));
        return;
    }
    struct config_source *source = item; /* every section starts with one */
    size_t errors_before = reader->findings->errors;
    source->where = where_of(group);
    for (size_t i = 0; i < group->count; i++) {
        const struct config_value *value = &group->items[i];
        const struct config_key *key = key_find(section, value->name);
        source->is_broken |= value->was_cut;
        if (key == NULL) {
            unknown_key(reader, section, value, path);
            continue;
        }
        char key_path[SETTING_PATH_MAX];
        snprintf(key_path, sizeof key_path, "%s.%s", path, key->name);
        key_apply(reader, key, value, key_path, (char *)item + key->offset);
    }
    for (const struct config_key *key = section->keys; key->name != NULL; key++)
        if (key->is_required && config_value_member(group, key->name) == NULL)
            findings_error(reader->findings, "%s:%u: %s: the key %s is missing", group->file, group->line, path,
                           key->name);
    source->is_broken |= reader->findings->errors > errors_before;
}

static void list_apply(struct reader *reader, const struct config_section *section, const struct config_value *value,
                       struct config *config)
{
    if (value->kind != CONFIG_IS_LIST || value->count > LIST_ITEMS_MAX) {
        findings_error(reader->findings, "%s:%u: %s: expected a list of up to %d groups ( { ... }, { ... } ), found %s",
                       value->file, value->line, section->name, LIST_ITEMS_MAX, config_kind_name(value->kind));
        return;
    }
    if (value->count == 0)
        return;
    char *items = memory_zeroed(value->count, section->item_size);
    for (size_t i = 0; i < value->count; i++) {
        char path[SETTING_PATH_MAX];
        snprintf(path, sizeof path, "%s[%zu]", section->name, i);
        config_section_init(section, items + i * section->item_size);
        group_apply(reader, section, &value->items[i], path, items + i * section->item_size);
    }
    memcpy((char *)config + section->offset, &items, sizeof items);
    memcpy((char *)config + section->count_offset, &value->count, sizeof value->count);
}

static void unknown_section(struct reader *reader, const struct config_value *value)
{
    struct suggestion suggestion = suggestion_for(value->name);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        suggestion_offer(&suggestion, section->name);
        if (key_find(section, value->name) != NULL && !section->is_list) {
            findings_error(reader->findings, "%s:%u: %s: this key belongs into the group %s: %s = { %s = ...; };",
                           value->file, value->line, value->name, section->name, section->name, value->name);
            return;
        }
    }
    char hint[SUGGEST_HINT_MAX];
    findings_error(reader->findings, "%s:%u: %s: there is no such section%s", value->file, value->line, value->name,
                   suggestion_hint(&suggestion, hint));
}

static const struct config_section *section_find(const char *name)
{
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (strcmp(section->name, name) == 0)
            return section;
    return NULL;
}

static void sections_apply(struct reader *reader, const struct config_value *root, struct config *config)
{
    for (size_t i = 0; i < root->count; i++) {
        const struct config_value *value = &root->items[i];
        const struct config_section *section = section_find(value->name);
        if (section == NULL)
            unknown_section(reader, value);
        else if (section->is_list)
            list_apply(reader, section, value, config);
        else
            group_apply(reader, section, value, section->name, (char *)config + section->offset);
    }
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (section->is_required && config_value_member(root, section->name) == NULL)
            findings_error(reader->findings, "%s: the section %s is missing", config->path, section->name);
}

/* --- defaults that are not constants ------------------------------------------------------------------------ */

static void text_default(char **field, const char *text)
{
    if ((*field)[0] != '\0')
        return;
    free(*field);
    *field = memory_text(text);
}

/* Beside the program in a build tree, in ../lib once it is installed. */
static void default_jobs_directory(struct config_worker *worker)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (worker->jobs_directory[0] != '\0' || length <= 0)
        return;
    program[length] = '\0';
    char *directory = config_directory_of(program);
    char *beside = config_path_join(directory, "jobs");
    char *installed = config_path_join(directory, "../lib/holdfast/jobs");
    text_default(&worker->jobs_directory, access(beside, F_OK) == 0 ? beside : installed);
    free(directory);
    free(beside);
    free(installed);
}

static void defaults_resolve(struct config *config)
{
    char host[256] = "";
    default_jobs_directory(&config->worker);
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    host[64] = '\0';
    text_default(&config->worker.host, host);
    text_default(&config->queue_node.name, "queue");
    for (size_t i = 0; i < config->lock_node_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "lock%zu", i + 1);
        text_default(&config->lock_nodes[i].name, name);
    }
}

/* --- checks over several keys ------------------------------------------------------------------------------- */

static void names_check(const struct config *config, struct findings *findings)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        for (size_t j = 0; j < i; j++)
            if (config->plugins[i].name[0] != '\0' && strcmp(config->plugins[i].name, config->plugins[j].name) == 0)
                findings_error(findings, "%s: the plugin %s has a second entry (%s)", config->plugins[i].source.where,
                               config->plugins[i].name, config->plugins[j].source.where);
    size_t common = strnlen(config->lock.prefix, strlen("hf:")); /* "h" and the resource "f:lock:group", for example */
    if (common > 0 && strncmp(config->lock.prefix, "hf:", common) == 0)
        findings_error(findings, "%s: lock.prefix: makes keys that begin with hf:, which are Holdfast's own",
                       config->lock.source.where);
    if (config->worker.source.where != NULL && strpbrk(config->worker.host, ": \t") != NULL)
        findings_error(findings, "%s: worker.host: is part of identities HOST:PID:NONCE and takes no colon or space",
                       config->worker.source.where);
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

struct config *config_read(const char *path, struct findings *findings)
{
    struct config_file *file = config_file_read(path, findings);
    if (file == NULL)
        return NULL;
    struct config *config = memory_new(struct config);
    config->path = memory_text(path);
    for (const struct config_section *section = config_sections; section->name != NULL; section++)
        if (!section->is_list)
            config_section_init(section, (char *)config + section->offset);
    config->queue_node.name = memory_text("");
    struct reader reader = {.findings = findings, .directory = config_file_directory(file)};
    sections_apply(&reader, config_file_root(file), config);
    config_file_free(file);
    defaults_resolve(config);
    config_nodes_check(config, findings);
    names_check(config, findings);
    config_classes_check(config, findings);
    config_queues_check(config, findings);
    config_periodic_check(config, findings);
    config_event_check(config, findings);
    return config;
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    free(config->queue_node.name); /* not among its keys */
    config_nodes_forget(config);
    for (const struct config_section *section = config_sections; section->name != NULL; section++) {
        size_t count;
        char *items = config_section_items(section, config, &count);
        for (size_t i = 0; i < count; i++)
            config_section_fini(section, items + i * section->item_size);
        if (section->is_list)
            free(items);
    }
    free(config->path);
    free(config);
}

void config_clear_list(struct config *config, const char *name)
{
    const struct config_section *section = section_find(name);
    size_t count = 0;
    invariant(section != NULL && section->is_list);
    char *items = config_section_items(section, config, &count);
    for (size_t i = 0; i < count; i++)
        config_section_fini(section, items + i * section->item_size);
    free(items);
    items = NULL;
    count = 0;
    memcpy((char *)config + section->offset, &items, sizeof items);
    memcpy((char *)config + section->count_offset, &count, sizeof count);
}

const char *config_plugin_setting(const struct config *config, const char *plugin, const char *key)
{
    for (size_t i = 0; i < config->plugin_count; i++) {
        const struct config_plugin *entry = &config->plugins[i];
        if (strcmp(entry->name, plugin) != 0)
            continue;
        for (size_t j = 0; j < entry->settings.count; j++)
            if (strcmp(entry->settings.items[j].key, key) == 0)
                return entry->settings.items[j].value;
    }
    return NULL;
}
