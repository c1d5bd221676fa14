#include "worker/commands/plugin_view.h"

#include "base/clock.h"
#include "worker/task/class_mode.h"
#include "worker/print/human.h"
#include "worker/print/table.h"
#include "worker/task/task_rules.h"

/* --- one class -------------------------------------------------------------------------------------------------- */

struct class_view {
    const struct plugin_handler *handler;
    const char *isolation, *mode;
    int64_t timeout_ns; /* 0 = none */
    struct buffer resources;
};

static const char *mode_said(const struct plugin_handler *handler)
{
    static const char *const names[] = {[HF_MODE_USUAL] = "usual",
                                        [HF_CORRECTNESS] = "correctness",
                                        [HF_EFFICIENCY] = "efficiency",
                                        [HF_UNLOCKED] = "none"};
    return names[handler->mode];
}

static void resources_write(struct buffer *out, const struct config_class *entry, const struct plugin_handler *handler)
{
    if (entry != NULL && entry->resource.count > 0) {
        for (size_t i = 0; i < entry->resource.count; i++)
            buffer_format(out, "%s%s", i > 0 ? " " : "", entry->resource.items[i]);
        return;
    }
    for (size_t i = 0; handler->resources != NULL && handler->resources[i] != NULL; i++)
        buffer_format(out, "%s%s", i > 0 ? " " : "", handler->resources[i]);
}

static struct class_view class_view(const struct config *config, const struct plugin_handler *handler)
{
    const struct config_class *entry = config != NULL ? config_class_find(config, handler->class_name) : NULL;
    bool is_set = entry != NULL && entry->timeout_ns > 0;
    struct class_view view = {
        .handler = handler,
        .isolation = isolation_name(class_isolation_of(entry, handler)),
        .mode = config != NULL ? class_mode_name(class_mode_of(config, entry, handler)) : mode_said(handler),
        .timeout_ns = is_set ? entry->timeout_ns : handler->timeout_ms * NS_PER_MS,
    };
    resources_write(&view.resources, entry, handler);
    return view;
}

/* --- for people ------------------------------------------------------------------------------------------------- */

static void plugins_print(const struct plugins *plugins)
{
    static const struct table_column columns[] = {{"PLUGIN", false}, {"VERSION", false},   {"BUILD", false},
                                                  {"FILE", false},   {"INTERFACE", false}, {NULL, false}};
    if (plugins_count(plugins) == 0)
        return;
    struct table *table = table_create(columns);
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        table_cell(table, TABLE_PLAIN, "%s", plugin_name(plugin));
        table_cell(table, TABLE_PLAIN, "%s", plugin_version(plugin)[0] != '\0' ? plugin_version(plugin) : "-");
        table_cell(table, TABLE_PLAIN, "%s", plugin_build(plugin)[0] != '\0' ? plugin_build(plugin) : "-");
        table_cell(table, TABLE_PLAIN, "%s", plugin_path(plugin));
        table_cell(table, TABLE_PLAIN, "%d.%u", HF_ABI_MAJOR, plugin_abi_minor(plugin));
    }
    table_print(table, stdout);
    putchar('\n');
}

static void class_print(struct table *table, const struct plugins *plugins, size_t index, const struct config *config)
{
    struct class_view view = class_view(config, plugins_handler_at(plugins, index));
    const struct plugin_handler *handler = view.handler;
    char span[HUMAN_TEXT_MAX];
    table_cell(table, TABLE_PLAIN, "%s", handler->class_name);
    table_cell(table, TABLE_PLAIN, "%s", handler->plugin != NULL ? plugin_name(handler->plugin) : "(program)");
    table_cell(table, TABLE_PLAIN, "%s", view.isolation);
    table_cell(table, TABLE_PLAIN, "%s", view.mode);
    table_cell(table, TABLE_PLAIN, "%s", view.resources.length > 0 ? buffer_text(&view.resources) : "-");
    table_cell(table, TABLE_PLAIN, "%s", view.timeout_ns > 0 ? human_span(view.timeout_ns / NS_PER_US, span) : "-");
    table_cell(table, TABLE_DIM, "%s", handler->about != NULL ? handler->about : "");
    buffer_fini(&view.resources);
}

void plugin_view_print(const struct plugins *plugins, const struct config *config)
{
    static const struct table_column columns[] = {{"CLASS", false}, {"OF", false},    {"RUNS IN", false},
                                                  {"MODE", false},  {"LOCKS", false}, {"TIMEOUT", true},
                                                  {"ABOUT", false}, {NULL, false}};
    plugins_print(plugins);
    if (plugins_handler_count(plugins) == 0)
        return;
    struct table *table = table_create(columns);
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        class_print(table, plugins, i, config);
    table_print(table, stdout);
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

static void class_json(struct json_writer *json, const struct plugin_handler *handler, const struct config *config)
{
    struct class_view view = class_view(config, handler);
    json_open(json, NULL, '{');
    json_text(json, "class", handler->class_name);
    json_text(json, "isolation", view.isolation);
    json_text(json, "mode", view.mode);
    json_text(json, "resources", buffer_text(&view.resources));
    json_number(json, "timeout_ms", view.timeout_ns / NS_PER_MS);
    json_text(json, "about", handler->about);
    if (handler->program != NULL) {
        json_open(json, "program", '[');
        for (size_t i = 0; handler->program[i] != NULL; i++)
            json_text(json, NULL, handler->program[i]);
        json_close(json, ']');
        json_text(json, "where", handler->origin);
    }
    json_close(json, '}');
    buffer_fini(&view.resources);
}

/* Those of the plugin; NULL = the programs. */
static void classes_json(struct json_writer *json, const char *name, const struct plugins *plugins,
                         const struct plugin *plugin, const struct config *config)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        if (plugins_handler_at(plugins, i)->plugin == plugin)
            class_json(json, plugins_handler_at(plugins, i), config);
    json_close(json, ']');
}

void plugin_view_json(struct json_writer *json, const struct plugins *plugins, const struct config *config)
{
    char interface[32];
    json_open(json, "plugins", '[');
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        snprintf(interface, sizeof interface, "%d.%u", HF_ABI_MAJOR, plugin_abi_minor(plugin));
        json_open(json, NULL, '{');
        json_text(json, "name", plugin_name(plugin));
        json_text(json, "version", plugin_version(plugin));
        json_text_or_nothing(json, "build", plugin_build(plugin));
        json_text(json, "interface", interface);
        json_text(json, "file", plugin_path(plugin));
        classes_json(json, "classes", plugins, plugin, config);
        json_close(json, '}');
    }
    json_close(json, ']');
    classes_json(json, "programs", plugins, NULL, config);
}

static void findings_json(struct json_writer *json, const char *name, const struct findings *findings, bool warnings)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].is_warning == warnings)
            json_text(json, NULL, findings->items[i].text);
    json_close(json, ']');
}

void plugin_findings_json(struct json_writer *json, const struct findings *findings)
{
    findings_json(json, "errors", findings, false);
    findings_json(json, "warnings", findings, true);
}
