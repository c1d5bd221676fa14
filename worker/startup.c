#include "worker/startup.h"

#include <string.h>

#include "worker/class_mode.h"
#include "worker/config/suggest.h"

/* One finding is enough: the remedy is the same for every class. */
static void check_lock_nodes(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    if (config->lock_node_count > 0)
        return;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        const struct plugin_handler *handler = plugins_handler_at(plugins, i);
        if (class_mode_of(config, config_class_find(config, handler->class_name), handler) == CONFIG_MODE_NONE)
            continue;
        findings_error(findings,
                       "%s: there are no lock_nodes, but tasks of the class %s may need a lock; add nodes or "
                       "set lock = \"none\" for the class",
                       config->path, handler->class_name);
        return;
    }
}

/* A warning only: another worker may serve the class, and files are shared between them. */
static void check_class(const struct config_class *entry, const struct plugins *plugins, struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->name);
    char hint[SUGGEST_HINT_MAX];
    if (entry->source.is_broken || plugins_find(plugins, entry->name) != NULL)
        return;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(plugins, i)->class_name);
    findings_warn(findings, "%s: no plugin that is loaded serves the class %s%s", entry->source.where, entry->name,
                  suggestion_hint(&suggestion, hint));
}

static void check_settings(const struct config_plugin *entry, const struct plugins *plugins, struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->name);
    char hint[SUGGEST_HINT_MAX];
    if (entry->source.is_broken)
        return;
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const char *name = plugin_name(plugins_at(plugins, i));
        if (strcmp(name, entry->name) == 0)
            return;
        suggestion_offer(&suggestion, name);
    }
    findings_warn(findings, "%s: these settings reach nobody: no plugin that is loaded is called %s%s",
                  entry->source.where, entry->name, suggestion_hint(&suggestion, hint));
}

static void check_periodic_class(const struct config_periodic *entry, const struct plugins *plugins,
                                 struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->class_name);
    char hint[SUGGEST_HINT_MAX];
    if (plugins_find(plugins, entry->class_name) != NULL)
        return;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++)
        suggestion_offer(&suggestion, plugins_handler_at(plugins, i)->class_name);
    findings_warn(findings, "%s: periodic task \"%s\": no plugin that is loaded serves the class %s%s",
                  entry->source.where, entry->name, entry->class_name, suggestion_hint(&suggestion, hint));
}

static void check_periodic_queue(const struct config_periodic *entry, const struct config_words *served,
                                 struct findings *findings)
{
    struct suggestion suggestion = suggestion_for(entry->queue);
    char hint[SUGGEST_HINT_MAX];
    for (size_t i = 0; i < served->count; i++) {
        if (strcmp(served->items[i], entry->queue) == 0)
            return;
        suggestion_offer(&suggestion, served->items[i]);
    }
    findings_warn(findings, "%s: periodic task \"%s\": the queue %s is not among worker.queues%s", entry->source.where,
                  entry->name, entry->queue, suggestion_hint(&suggestion, hint));
}

void startup_check_periodic(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    for (size_t i = 0; i < config->periodic_count; i++) {
        const struct config_periodic *entry = &config->periodic[i];
        if (entry->source.is_broken)
            continue;
        check_periodic_class(entry, plugins, findings);
        check_periodic_queue(entry, &config->worker.queues, findings);
    }
}

void startup_check(const struct config *config, const struct plugins *plugins, struct findings *findings)
{
    check_lock_nodes(config, plugins, findings);
    for (size_t i = 0; i < config->class_count; i++)
        check_class(&config->classes[i], plugins, findings);
    for (size_t i = 0; i < config->plugin_count; i++)
        check_settings(&config->plugins[i], plugins, findings);
}
