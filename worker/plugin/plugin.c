/* What is loaded: sets of plugins and handlers, their life, and how they are looked up. */
#include "worker/plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/config/surroundings.h"
#include "worker/plugin/plugin_private.h"

/* --- sets ------------------------------------------------------------------------------------------------------- */

/* A list of pointers with one more at its end. */
#define LIST_ADD(list, count, pointer)                                                                                 \
    do {                                                                                                               \
        (list) = memory_resize((list), (count) + 1, sizeof *(list));                                                   \
        (list)[(count)++] = (pointer);                                                                                 \
    } while (0)

struct plugins *plugins_create(void)
{
    struct plugins *plugins = memory_new(struct plugins);
    plugins->generation = 1;
    return plugins;
}

void plugins_add(struct plugins *plugins, struct plugin *plugin)
{
    plugin->generation = plugins->generation;
    if (plugin->descriptor.version == NULL)
        plugin->descriptor.version = "";
    if (plugin->descriptor.build == NULL)
        plugin->descriptor.build = "";
    LIST_ADD(plugins->items, plugins->count, plugin);
    LIST_ADD(plugins->own, plugins->own_count, plugin);
}

void plugins_add_handler(struct plugins *plugins, struct handler_entry *entry)
{
    LIST_ADD(plugins->handlers, plugins->handler_count, &entry->handler);
    LIST_ADD(plugins->own_handlers, plugins->own_handler_count, entry);
}

void plugins_share_handler(struct plugins *plugins, const struct plugin_handler *handler)
{
    LIST_ADD(plugins->handlers, plugins->handler_count, handler);
}

void plugins_share(struct plugins *plugins, struct plugin *plugin, const struct plugins *of)
{
    LIST_ADD(plugins->items, plugins->count, plugin);
    for (size_t i = 0; i < of->own_handler_count; i++) /* also those that were left out */
        if (of->own_handlers[i]->handler.plugin == plugin)
            plugins_share_handler(plugins, &of->own_handlers[i]->handler);
}

const struct plugin_handler *plugins_handler_of(const struct plugins *plugins, const char *class_name)
{
    for (size_t i = 0; i < plugins->handler_count; i++)
        if (strcmp(plugins->handlers[i]->class_name, class_name) == 0)
            return plugins->handlers[i];
    return NULL;
}

static int compare_handlers(const void *a, const void *b)
{
    const struct plugin_handler *const *left = a, *const *right = b;
    return strcmp((*left)->class_name, (*right)->class_name);
}

void plugins_sort(struct plugins *plugins)
{
    if (plugins->handler_count > 0)
        qsort(plugins->handlers, plugins->handler_count, sizeof plugins->handlers[0], compare_handlers);
}

bool plugins_are_same(const struct plugins *plugins, const struct plugins *others)
{
    if (plugins->count != others->count || plugins->handler_count != others->handler_count)
        return false;
    for (size_t i = 0; i < plugins->count; i++)
        if (plugins->items[i] != others->items[i])
            return false;
    for (size_t i = 0; i < plugins->handler_count; i++)
        if (plugins->handlers[i] != others->handlers[i])
            return false;
    return true;
}

/* --- following on ----------------------------------------------------------------------------------------------- */

void plugins_keep(struct plugins *plugins, struct plugins *fresh)
{
    for (size_t i = 0; i < fresh->own_count; i++)
        LIST_ADD(plugins->own, plugins->own_count, fresh->own[i]);
    for (size_t i = 0; i < fresh->own_handler_count; i++)
        LIST_ADD(plugins->own_handlers, plugins->own_handler_count, fresh->own_handlers[i]);
    if (fresh->own_count > 0)
        plugins->generation = fresh->generation;
    free(fresh->items);
    free(fresh->handlers);
    free(fresh->own);
    free(fresh->own_handlers);
    free(fresh);
}

void plugins_become(struct plugins *plugins, struct plugins *fresh)
{
    struct plugin **items = plugins->items;
    const struct plugin_handler **handlers = plugins->handlers;
    plugins->items = fresh->items;
    plugins->count = fresh->count;
    plugins->handlers = fresh->handlers;
    plugins->handler_count = fresh->handler_count;
    fresh->items = items;
    fresh->handlers = handlers;
    plugins_keep(plugins, fresh);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static bool plugin_open(struct plugin *plugin, const struct hf_host *host, struct error *error)
{
    char reason[256] = "", quoted[LOG_QUOTE_MAX];
    if (plugin->descriptor.open != NULL && plugin->descriptor.open(host, &plugin->state, reason, sizeof reason) != 0) {
        reason[sizeof reason - 1] = '\0';
        return error_set(error, "%s: the plugin refused to open: %s", plugin->path,
                         reason[0] != '\0' ? log_quote(reason, quoted) : "it gave no reason");
    }
    plugin->is_open = true;
    return true;
}

static bool is_wanted(const struct plugins *plugins, const struct plugin *plugin, const struct plugin_opening *opening)
{
    for (size_t i = 0; i < plugins->handler_count; i++)
        if (plugins->handlers[i]->plugin == plugin && opening->runs_here(opening->context, plugins->handlers[i]))
            return true;
    return false;
}

bool plugins_open_for(struct plugins *plugins, const struct plugin_opening *opening, struct error *error)
{
    for (size_t i = 0; i < plugins->count; i++) {
        struct plugin *plugin = plugins->items[i];
        if (plugin->is_open || (opening->runs_here != NULL && !is_wanted(plugins, plugin, opening)))
            continue;
        if (!plugin_open(plugin, opening->host_for(opening->hosts, plugin->descriptor.name), error))
            return false;
    }
    return true;
}

bool plugins_open(struct plugins *plugins, const struct hf_host *(*host_for)(void *context, const char *plugin_name),
                  void *context, struct error *error)
{
    return plugins_open_for(plugins, &(struct plugin_opening){.host_for = host_for, .hosts = context}, error);
}

void plugin_free(struct plugin *plugin)
{
    free(plugin->path);
    free(plugin);
}

static void handler_entry_free(struct handler_entry *entry)
{
    for (char **word = entry->program; word != NULL && *word != NULL; word++)
        free(*word);
    free(entry->program);
    surroundings_forget(entry->environment);
    free(entry->directory);
    free(entry->class_name);
    free(entry->about);
    free(entry->origin);
    free(entry);
}

void plugins_close(struct plugins *plugins)
{
    if (plugins == NULL)
        return;
    for (size_t i = plugins->own_count; i-- > 0;) {
        struct plugin *plugin = plugins->own[i];
        if (plugin->is_open && plugin->descriptor.close != NULL)
            plugin->descriptor.close(plugin->state);
        plugin_free(plugin);
    }
    for (size_t i = 0; i < plugins->own_handler_count; i++)
        handler_entry_free(plugins->own_handlers[i]);
    free(plugins->handlers);
    free(plugins->items);
    free(plugins->own);
    free(plugins->own_handlers);
    free(plugins);
}

/* --- looking up --------------------------------------------------------------------------------------------- */

static int compare_class(const void *class_name, const void *handler)
{
    return strcmp(class_name, (*(const struct plugin_handler *const *)handler)->class_name);
}

const struct plugin_handler *plugins_find(const struct plugins *plugins, const char *class_name)
{
    if (plugins->handler_count == 0)
        return NULL;
    const struct plugin_handler *const *found =
        bsearch(class_name, plugins->handlers, plugins->handler_count, sizeof plugins->handlers[0], compare_class);
    return found != NULL ? *found : NULL;
}

void plugins_leave_out(struct plugins *plugins, const char *class_name)
{
    size_t kept = 0;
    for (size_t i = 0; i < plugins->handler_count; i++)
        if (strcmp(plugins->handlers[i]->class_name, class_name) != 0)
            plugins->handlers[kept++] = plugins->handlers[i];
    plugins->handler_count = kept;
}

size_t plugins_handler_count(const struct plugins *plugins)
{
    return plugins->handler_count;
}

const struct plugin_handler *plugins_handler_at(const struct plugins *plugins, size_t index)
{
    invariant(index < plugins->handler_count);
    return plugins->handlers[index];
}

size_t plugins_count(const struct plugins *plugins)
{
    return plugins->count;
}

const struct plugin *plugins_at(const struct plugins *plugins, size_t index)
{
    invariant(index < plugins->count);
    return plugins->items[index];
}

unsigned plugins_generation(const struct plugins *plugins)
{
    return plugins->generation;
}

void *plugin_handler_state(const struct plugin_handler *handler)
{
    return handler->plugin != NULL ? handler->plugin->state : NULL;
}

/* --- handlers of the program itself ------------------------------------------------------------------------------- */

/* Its path, which goes with it, is its name as well. */
struct plugins *plugins_create_built_in(const char *name, void *state)
{
    struct plugins *plugins = plugins_create();
    struct plugin *plugin = memory_new(struct plugin);
    plugin->path = memory_text(name);
    plugin->file = -1;
    plugin->descriptor.name = plugin->path;
    plugin->state = state;
    plugin->is_open = true;
    plugins_add(plugins, plugin);
    return plugins;
}

bool plugins_add_built_in(struct plugins *plugins, const struct plugin_handler *handler)
{
    invariant(plugins->count == 1);
    if (plugins_handler_of(plugins, handler->class_name) != NULL)
        return false;
    struct handler_entry *entry = memory_new(struct handler_entry);
    entry->handler = *handler;
    entry->handler.plugin = plugins->items[0];
    plugins_add_handler(plugins, entry);
    plugins_sort(plugins);
    return true;
}
