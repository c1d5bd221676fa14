/* The configuration of a rehearsal. Without a file it is written here and read like one: so the command line needs no
 * rules of its own for what a class or a program may be. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/commands/rehearsal.h"
#include "worker/plugin/plugin_file.h"

/* A text of libconfig, in which everything that it could take for something else is a number. */
static void text_write(struct buffer *out, const char *text)
{
    buffer_append_text(out, "\"");
    for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0'; byte++)
        if (*byte < 32 || *byte == '"' || *byte == '\\')
            buffer_format(out, "\\x%02x", *byte);
        else
            buffer_append(out, byte, 1);
    buffer_append_text(out, "\"");
}

static bool file_ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);
    return length > end && strcmp(path + length - end, ending) == 0;
}

static void plugin_write(struct buffer *out, const char *path)
{
    char *directory = memory_text(path), *file = memory_text(path), *name = basename(file);
    name[strlen(name) - strlen(".so")] = '\0';
    buffer_append_text(out, "worker = { jobs_directory = ");
    text_write(out, dirname(directory));
    buffer_append_text(out, "; jobs = [");
    text_write(out, name);
    buffer_append_text(out, "]; };\n");
    free(directory);
    free(file);
}

static void program_write(struct buffer *out, const char *class_name, const char *path)
{
    buffer_append_text(out, "classes = ( { class = ");
    text_write(out, class_name);
    buffer_append_text(out, "; program = [");
    text_write(out, path);
    buffer_append_text(out, "]; } );\n");
}

/* What comes with Holdfast is loaded only by its name, which is that of its class. */
static void shipped_write(struct buffer *out, const char *class_name)
{
    char *directory = plugin_shipped_directory(class_name);
    if (directory != NULL)
        buffer_format(out, "worker = { jobs = [\"%s\"]; };\n", class_name);
    free(directory);
}

/* False after noting why. */
static bool config_write(const struct rehearsal_wish *wish, struct buffer *out, struct findings *findings)
{
    const char *given = wish->plugin != NULL ? wish->plugin : wish->program;
    char *path = given != NULL ? realpath(given, NULL) : NULL;
    bool is_good = given == NULL || path != NULL;
    if (!is_good)
        findings_error(findings, "%s: %s", given, strerror(errno));
    buffer_append_text(out, "queue_node = { host = \"localhost\"; };\n");
    if (path != NULL && wish->plugin != NULL) {
        is_good = file_ends_with(path, ".so");
        if (is_good)
            plugin_write(out, path);
        else
            findings_error(findings, "%s: the name of a plugin ends with .so", path);
    } else if (path != NULL) {
        program_write(out, wish->class_name, path);
    } else if (given == NULL) {
        shipped_write(out, wish->class_name);
    }
    free(path);
    return is_good;
}

struct config *rehearsal_config(const struct rehearsal_wish *wish, struct findings *findings)
{
    struct buffer text = {0};
    struct config *config = NULL;
    if (wish->config_path != NULL)
        return config_read(wish->config_path, findings);
    if (config_write(wish, &text, findings))
        config = config_read_written(&text, findings);
    buffer_fini(&text);
    return config;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static struct config_pairs *settings_of(struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config->plugin_count; i++)
        if (strcmp(config->plugins[i].name, plugin) == 0)
            return &config->plugins[i].settings;
    config->plugins = memory_resize(config->plugins, config->plugin_count + 1, sizeof *config->plugins);
    config->plugins[config->plugin_count] = (struct config_plugin){.name = memory_text(plugin)};
    return &config->plugins[config->plugin_count++].settings;
}

static void setting_put(struct config_pairs *settings, const struct config_pair *given)
{
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, given->key) == 0) {
            free(settings->items[i].value);
            settings->items[i].value = memory_text(given->value);
            return;
        }
    settings->items = memory_resize(settings->items, settings->count + 1, sizeof *settings->items);
    settings->items[settings->count++] = (struct config_pair){memory_text(given->key), memory_text(given->value)};
}

void rehearsal_settings_add(const struct rehearsal_wish *wish, struct config *config, const char *plugin)
{
    for (size_t i = 0; i < wish->settings.count; i++)
        setting_put(settings_of(config, plugin), &wish->settings.items[i]);
}
