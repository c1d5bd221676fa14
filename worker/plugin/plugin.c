/* Loading plugins. The only user of dlfcn.h.
 *
 * A plugin runs inside the worker with all its rights; what is checked here protects against accidents (an old build,
 * a wrong file, two plugins for one class) and against files that somebody else could have changed
 * (plugin_file.c), not against a malicious author. Its descriptor is copied by the sizes that it states, so that a
 * plugin built with an older, shorter job.h reads as one whose new fields are zero; nothing of it is called before
 * the magic number and the version have been checked.
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

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "worker/plugin/plugin_file.h"

enum {
    HANDLERS_PER_PLUGIN_MAX = 256,
    CLASS_NAME_MAX = 256,
    PLUGIN_NAME_MAX = 64,
    DESCRIPTOR_SIZE_MAX = 4096,
    HOLD_MS_MAX = 60000
};

/* Ten years. */
#define TIME_MS_MAX (INT64_C(3653) * 24 * 3600 * MS_PER_S)

/* What every version of the interface has; later ones add fields behind. */
#define PLUGIN_SIZE_LEAST  (offsetof(hf_plugin, handlers) + sizeof(((hf_plugin *)NULL)->handlers))
#define HANDLER_SIZE_LEAST offsetof(hf_handler, check)

struct plugin {
    char *path;
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

/* --- the descriptor ----------------------------------------------------------------------------------------- */

/* Copies what both sides know of a struct that begins with, or holds, its size. */
static bool sized_copy(void *to, size_t to_size, const void *from, size_t from_size, size_t least)
{
    if (from_size < least || from_size > DESCRIPTOR_SIZE_MAX)
        return false;
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return true;
}

static bool text_is_name(const char *text, size_t longest)
{
    return text != NULL && text[0] != '\0' && strnlen(text, longest + 1) <= longest;
}

/* magic, abi_major, abi_minor and size lie at the same places in every version. */
static bool descriptor_check(const hf_plugin *found, struct plugin *plugin, struct findings *findings)
{
    if (found->magic != HF_MAGIC) {
        findings_error(findings,
                       "%s: holdfast_plugin has the magic number %08x instead of %08x: it is no hf_plugin of "
                       "jobs/job.h",
                       plugin->path, (unsigned)found->magic, (unsigned)HF_MAGIC);
    } else if (found->abi_major != HF_ABI_MAJOR || found->abi_minor > HF_ABI_MINOR) {
        findings_error(findings,
                       "%s: was built for version %u.%u of the interface, this worker has %d.%d; build it with "
                       "the job.h of this worker",
                       plugin->path, (unsigned)found->abi_major, (unsigned)found->abi_minor, HF_ABI_MAJOR,
                       HF_ABI_MINOR);
    } else if (!sized_copy(&plugin->descriptor, sizeof plugin->descriptor, found, found->size, PLUGIN_SIZE_LEAST)) {
        findings_error(findings,
                       "%s: states a size of %zu bytes for its hf_plugin, which has %zu; set .size = "
                       "sizeof(hf_plugin)",
                       plugin->path, found->size, sizeof(hf_plugin));
    } else if (!text_is_name(plugin->descriptor.name, PLUGIN_NAME_MAX)) {
        findings_error(findings, "%s: its name is missing or longer than %d bytes", plugin->path, PLUGIN_NAME_MAX);
    } else if (plugin->descriptor.handlers == NULL || plugin->descriptor.handlers[0] == NULL) {
        findings_error(findings, "%s: has no handler", plugin->path);
    } else {
        return true;
    }
    return false;
}

/* --- handlers ----------------------------------------------------------------------------------------------- */

static bool lock_members_fit(const hf_handler *handler)
{
    bool for_efficiency = handler->on_conflict == HF_CONFLICT_SKIP || handler->hold_at_least_ms > 0;
    bool contradicts = handler->mode == HF_UNLOCKED && (handler->flags & HF_LOCK_REQUIRED) != 0;
    return (unsigned)handler->mode <= HF_UNLOCKED && (unsigned)handler->on_conflict <= HF_CONFLICT_FAIL &&
           handler->hold_at_least_ms >= 0 && handler->hold_at_least_ms <= HOLD_MS_MAX &&
           (!for_efficiency || handler->mode == HF_EFFICIENCY) && !contradicts;
}

static bool time_fits(int64_t milliseconds)
{
    return milliseconds >= 0 && milliseconds <= TIME_MS_MAX;
}

static bool run_members_fit(const hf_handler *handler)
{
    return (unsigned)handler->isolation <= HF_ISOLATION_PROCESS && time_fits(handler->timeout_ms) &&
           time_fits(handler->grace_ms) && time_fits(handler->max_hold_ms);
}

static bool handler_check(const struct plugin *plugin, size_t index, hf_handler *handler, struct findings *findings)
{
    const hf_handler *found = plugin->descriptor.handlers[index];
    if (!sized_copy(handler, sizeof *handler, found, found->size, HANDLER_SIZE_LEAST))
        findings_error(findings, "%s: handler %zu states a size of %zu bytes; set .size = sizeof(hf_handler)",
                       plugin->path, index, found->size);
    else if (!text_is_name(handler->name, CLASS_NAME_MAX))
        findings_error(findings, "%s: handler %zu has no name, or one longer than %d bytes", plugin->path, index,
                       CLASS_NAME_MAX);
    else if (handler->run == NULL)
        findings_error(findings, "%s: the handler of %s has no run function", plugin->path, handler->name);
    else if (handler->retries > ENVELOPE_RETRIES_MAX || handler->retry_for_ms < 0 ||
             handler->retry_for_ms > TIME_MS_MAX || handler->expires_in_ms < 0 || handler->expires_in_ms > TIME_MS_MAX)
        findings_error(findings,
                       "%s: the handler of %s states retries beyond %d, or a time that is negative or beyond ten years",
                       plugin->path, handler->name, ENVELOPE_RETRIES_MAX);
    else if (handler->retry_queue != NULL && !queue_name_is_sound(handler->retry_queue))
        findings_error(findings,
                       "%s: the retry_queue of the handler of %s is not 1 to %d bytes without blanks, or begins with "
                       "hf:",
                       plugin->path, handler->name, ENVELOPE_QUEUE_BYTES_MAX);
    else if (!run_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states an isolation that there is not, or a timeout, grace or maximum "
                       "hold that is negative or beyond ten years",
                       plugin->path, handler->name);
    else if (!lock_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states a mode or on_conflict that there is not, or a hold_at_least_ms "
                       "outside 0 to %d, or HF_CONFLICT_SKIP or hold_at_least_ms without HF_EFFICIENCY, or "
                       "HF_LOCK_REQUIRED with HF_UNLOCKED",
                       plugin->path, handler->name, HOLD_MS_MAX);
    else
        return true;
    return false;
}

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
        if (handler_check(plugin, i, &handler, findings))
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
    if (!descriptor_check(found, plugin, findings)) {
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

static void plugin_load(struct plugins *plugins, int directory_fd, const char *directory, const char *name,
                        struct findings *findings)
{
    bool is_mapped = false;
    int fd = plugin_file_open(directory_fd, directory, name, findings);
    if (fd < 0)
        return;
    size_t size = strlen(directory) + strlen(name) + sizeof "/.so";
    struct plugin *plugin = memory_new(struct plugin);
    plugin->path = memory_zeroed(1, size);
    snprintf(plugin->path, size, "%s/%s.so", directory, name);
    const hf_plugin *found = library_load(fd, plugin->path, &is_mapped, findings);
    if (found != NULL)
        plugin_add(plugins, plugin, found, findings);
    else
        plugin_free(plugin);
    if (!is_mapped)
        close(fd);
}

static int compare_handlers(const void *a, const void *b)
{
    const struct plugin_handler *const *left = a, *const *right = b;
    return strcmp((*left)->class_name, (*right)->class_name);
}

static void load_all(struct plugins *plugins, int directory_fd, const char *directory, struct findings *findings)
{
    size_t count;
    char **names = plugin_directory_list(directory_fd, &count);
    if (count == 0)
        findings_error(findings, "%s: there is no plugin (*.so) in this directory; see worker.jobs_directory",
                       directory);
    for (size_t i = 0; i < count; i++) {
        plugin_load(plugins, directory_fd, directory, names[i], findings);
        free(names[i]);
    }
    free(names);
}

struct plugins *plugins_load(const char *directory, char *const *names, size_t name_count, struct findings *findings)
{
    struct plugins *plugins = memory_new(struct plugins);
    int directory_fd = plugin_directory_open(directory, findings);
    if (directory_fd < 0)
        return plugins;
    for (size_t i = 0; i < name_count; i++)
        plugin_load(plugins, directory_fd, directory, names[i], findings);
    if (name_count == 0)
        load_all(plugins, directory_fd, directory, findings);
    close(directory_fd);
    if (plugins->handler_count > 0)
        qsort(plugins->handlers, plugins->handler_count, sizeof(struct plugin_handler *), compare_handlers);
    return plugins;
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

void *plugin_handler_state(const struct plugin_handler *handler)
{
    return handler->plugin->state;
}
