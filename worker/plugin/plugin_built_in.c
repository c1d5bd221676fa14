#include "worker/plugin/plugin_built_in.h"

#include "base/invariant.h"
#include "base/memory.h"
#include "worker/plugin/plugin_private.h"

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
