/* Loading plugins. The only user of dlfcn.h.
 *
 * A plugin runs inside the worker with all its rights; what is checked here protects against accidents (an old build,
 * a wrong file, two plugins for one class) and against files that somebody else could have changed
 * (plugin_file.c), not against a malicious author.
 *
 * The descriptor of the file stays open for as long as the library is in memory, that is for ever: the C library
 * knows a loaded library by the name it was opened with, which is /proc/self/fd/N here, and if N were given to another
 * file, dlopen would return the old library for it. One descriptor a plugin is what that costs. */
#include "worker/plugin/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/plugin/plugin_descriptor.h"
#include "worker/plugin/plugin_file.h"
#include "worker/plugin/plugin_vetting.h"

enum { HANDLERS_PER_PLUGIN_MAX = 256 };

struct plugin {
    char *path;
    int file; /* open for as long as the library is in memory */
    hf_plugin descriptor;
    void *state;
    bool is_open;
};

struct plugins {
    struct plugin **items;
    size_t count;
    struct plugin_handler **handlers; /* sorted by class_name once loaded */
    size_t handler_count;
};

/* --- handlers ----------------------------------------------------------------------------------------------- */

static struct plugin_handler *handler_of_class(const struct plugins *plugins, const char *class_name)
{
    for (size_t i = 0; i < plugins->handler_count; i++)
        if (strcmp(plugins->handlers[i]->class_name, class_name) == 0)
            return plugins->handlers[i];
    return NULL;
}

static void handler_add(struct plugins *plugins, const struct plugin *plugin, const hf_handler *handler,
                        struct findings *findings)
{
    char quoted[LOG_QUOTE_MAX];
    const struct plugin_handler *other = handler_of_class(plugins, handler->name);
    if (other != NULL) {
        findings_error(findings,
                       "%s: its handler for the class %s is the second one: %s has one already; load only one "
                       "of them (worker.jobs)",
                       plugin->path, log_quote(handler->name, quoted), other->plugin->path);
        return;
    }
    struct plugin_handler *added = memory_new(struct plugin_handler);
    *added = (struct plugin_handler){.class_name = handler->name,
                                     .about = handler->about,
                                     .flags = handler->flags,
                                     .run = handler->run,
                                     .check = handler->check,
                                     .retries = handler->retries,
                                     .retry_for_ms = handler->retry_for_ms,
                                     .retry_queue = handler->retry_queue,
                                     .expires_in_ms = handler->expires_in_ms,
                                     .mode = handler->mode,
                                     .resources = handler->resources,
                                     .on_conflict = handler->on_conflict,
                                     .hold_at_least_ms = handler->hold_at_least_ms,
                                     .isolation = handler->isolation,
                                     .timeout_ms = handler->timeout_ms,
                                     .grace_ms = handler->grace_ms,
                                     .max_hold_ms = handler->max_hold_ms,
                                     .plugin = plugin};
    plugins->handlers = memory_resize(plugins->handlers, plugins->handler_count + 1, sizeof *plugins->handlers);
    plugins->handlers[plugins->handler_count++] = added;
}

static void handlers_add(struct plugins *plugins, const struct plugin *plugin, struct findings *findings)
{
    for (size_t i = 0; plugin->descriptor.handlers[i] != NULL; i++) {
        hf_handler handler = {0};
        if (i == HANDLERS_PER_PLUGIN_MAX) {
            findings_error(findings, "%s: has more than %d handlers; does the list end with NULL?", plugin->path,
                           HANDLERS_PER_PLUGIN_MAX);
            return;
        }
        if (plugin_handler_read(plugin->descriptor.handlers[i], plugin->path, i, &handler, findings))
            handler_add(plugins, plugin, &handler, findings);
    }
}

/* --- loading ------------------------------------------------------------------------------------------------ */

static struct plugin *plugin_of_name(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins->count; i++)
        if (strcmp(plugins->items[i]->descriptor.name, name) == 0)
            return plugins->items[i];
    return NULL;
}

/* Without the name of the entry in /proc, which would only puzzle. */
static const char *loader_message(const char *opened)
{
    const char *message = dlerror();
    size_t length = strlen(opened);
    if (message == NULL)
        return "unknown reason";
    if (strncmp(message, opened, length) == 0 && strncmp(message + length, ": ", 2) == 0)
        return message + length + 2;
    return message;
}

/* NULL when the library cannot be loaded or has no descriptor. */
static const hf_plugin *library_load(int fd, const char *path, bool *is_mapped, struct findings *findings)
{
    char opened[64];
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    void *library = dlopen(opened, RTLD_NOW | RTLD_LOCAL);
    *is_mapped = library != NULL;
    if (library == NULL) {
        findings_error(findings, "%s: cannot be loaded: %s", path, loader_message(opened));
        return NULL;
    }
    const hf_plugin *found = dlsym(library, "holdfast_plugin");
    if (found == NULL)
        findings_error(findings,
                       "%s: is no plugin of Holdfast: it does not export the symbol holdfast_plugin (see "
                       "jobs/job.h; HF_EXPORT makes it visible)",
                       path);
    return found;
}

static void plugin_free(struct plugin *plugin)
{
    free(plugin->path);
    free(plugin);
}

static void plugin_add(struct plugins *plugins, struct plugin *plugin_take, const hf_plugin *found,
                       struct findings *findings)
{
    struct plugin *plugin = plugin_take;
    if (!plugin_descriptor_read(found, plugin->path, &plugin->descriptor, findings)) {
        plugin_free(plugin);
        return;
    }
    const struct plugin *other = plugin_of_name(plugins, plugin->descriptor.name);
    if (other != NULL) {
        findings_error(findings, "%s: calls itself %s, as %s does; load only one of them (worker.jobs)", plugin->path,
                       plugin->descriptor.name, other->path);
        plugin_free(plugin);
        return;
    }
    plugins->items = memory_resize(plugins->items, plugins->count + 1, sizeof(struct plugin *));
    plugins->items[plugins->count++] = plugin;
    handlers_add(plugins, plugin, findings);
}

/* The descriptor is closed unless the library is loaded. */
static void file_load(struct plugins *plugins, int fd, const char *path, struct findings *findings)
{
    bool is_mapped = false;
    struct plugin *plugin = memory_new(struct plugin);
    plugin->path = memory_text(path);
    plugin->file = fd;
    const hf_plugin *found = library_load(fd, path, &is_mapped, findings);
    if (found != NULL)
        plugin_add(plugins, plugin, found, findings);
    else
        plugin_free(plugin);
    if (!is_mapped)
        close(fd);
}

void plugin_inspect(int fd, const char *path, void (*loaded)(void *context), void *context, struct findings *findings)
{
    struct plugins *plugins = memory_new(struct plugins);
    struct plugin *plugin = memory_new(struct plugin);
    bool is_mapped = false;
    plugin->path = memory_text(path);
    const hf_plugin *found = library_load(fd, path, &is_mapped, findings);
    loaded(context);
    if (found != NULL)
        plugin_add(plugins, plugin, found, findings);
    else
        plugin_free(plugin);
    plugins_close(plugins);
}

static int compare_handlers(const void *a, const void *b)
{
    const struct plugin_handler *const *left = a, *const *right = b;
    return strcmp((*left)->class_name, (*right)->class_name);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

struct file_list {
    struct vetted_file items[PLUGINS_MAX];
    char *paths[PLUGINS_MAX];
    size_t count;
};

static void file_find(struct file_list *list, int directory_fd, const char *directory, const char *name,
                      struct findings *findings)
{
    int fd = list->count < PLUGINS_MAX ? plugin_file_open(directory_fd, directory, name, findings) : -1;
    if (fd < 0)
        return;
    struct buffer path = {0};
    buffer_format(&path, "%s/%s.so", directory, name);
    list->paths[list->count] = memory_text(buffer_text(&path));
    list->items[list->count] = (struct vetted_file){.fd = fd, .path = list->paths[list->count]};
    list->count++;
    buffer_fini(&path);
}

static void files_find(struct file_list *list, int directory_fd, const char *directory, struct findings *findings)
{
    size_t count;
    char **names = plugin_directory_list(directory_fd, &count);
    if (count == 0)
        findings_error(findings, "%s: there is no plugin (*.so) in this directory; see worker.jobs_directory",
                       directory);
    for (size_t i = 0; i < count; i++) {
        file_find(list, directory_fd, directory, names[i], findings);
        free(names[i]);
    }
    free(names);
}

static void files_load(struct plugins *plugins, struct file_list *list, struct findings *findings)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].is_refused)
            close(list->items[i].fd);
        else
            file_load(plugins, list->items[i].fd, list->items[i].path, findings);
        free(list->paths[i]);
    }
}

static void handlers_sort(struct plugins *plugins)
{
    if (plugins->handler_count > 0)
        qsort(plugins->handlers, plugins->handler_count, sizeof(struct plugin_handler *), compare_handlers);
}

struct plugins *plugins_load_file(int fd, const char *path, struct findings *findings)
{
    struct plugins *plugins = memory_new(struct plugins);
    file_load(plugins, fd, path, findings);
    handlers_sort(plugins);
    return plugins;
}

static struct plugins *directory_load(const char *directory, char *const *names, size_t name_count, bool vets,
                                      struct findings *findings)
{
    struct plugins *plugins = memory_new(struct plugins);
    struct file_list *list = memory_new(struct file_list);
    int directory_fd = plugin_directory_open(directory, findings);
    for (size_t i = 0; directory_fd >= 0 && i < name_count; i++)
        file_find(list, directory_fd, directory, names[i], findings);
    if (directory_fd >= 0 && name_count == 0)
        files_find(list, directory_fd, directory, findings);
    if (vets)
        plugin_vetting_run(list->items, list->count, findings);
    files_load(plugins, list, findings);
    if (directory_fd >= 0)
        close(directory_fd);
    free(list);
    handlers_sort(plugins);
    return plugins;
}

struct plugins *plugins_load(const char *directory, char *const *names, size_t name_count, struct findings *findings)
{
    return directory_load(directory, names, name_count, false, findings);
}

struct plugins *plugins_load_vetted(const char *directory, char *const *names, size_t name_count,
                                    struct findings *findings)
{
    return directory_load(directory, names, name_count, true, findings);
}

/* --- life --------------------------------------------------------------------------------------------------- */

bool plugins_open(struct plugins *plugins, const struct hf_host *(*host_for)(void *context, const char *plugin_name),
                  void *context, struct error *error)
{
    for (size_t i = 0; i < plugins->count; i++) {
        struct plugin *plugin = plugins->items[i];
        char reason[256] = "", quoted[LOG_QUOTE_MAX];
        invariant(!plugin->is_open);
        if (plugin->descriptor.open != NULL && plugin->descriptor.open(host_for(context, plugin->descriptor.name),
                                                                       &plugin->state, reason, sizeof reason)) {
            reason[sizeof reason - 1] = '\0';
            return error_set(error, "%s: the plugin refused to open: %s", plugin->path,
                             reason[0] != '\0' ? log_quote(reason, quoted) : "it gave no reason");
        }
        plugin->is_open = true;
    }
    return true;
}

void plugins_close(struct plugins *plugins)
{
    if (plugins == NULL)
        return;
    for (size_t i = plugins->count; i-- > 0;) {
        struct plugin *plugin = plugins->items[i];
        if (plugin->is_open && plugin->descriptor.close != NULL)
            plugin->descriptor.close(plugin->state);
        plugin_free(plugin);
    }
    for (size_t i = 0; i < plugins->handler_count; i++)
        free(plugins->handlers[i]);
    free(plugins->handlers);
    free(plugins->items);
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
    struct plugin_handler *const *found =
        bsearch(class_name, plugins->handlers, plugins->handler_count, sizeof(struct plugin_handler *), compare_class);
    return found != NULL ? *found : NULL;
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

const char *plugin_name(const struct plugin *plugin)
{
    return plugin->descriptor.name;
}

const char *plugin_version(const struct plugin *plugin)
{
    return plugin->descriptor.version != NULL ? plugin->descriptor.version : "";
}

const char *plugin_path(const struct plugin *plugin)
{
    return plugin->path;
}

int plugin_file(const struct plugin *plugin)
{
    return plugin->file;
}

void *plugin_handler_state(const struct plugin_handler *handler)
{
    return handler->plugin->state;
}
