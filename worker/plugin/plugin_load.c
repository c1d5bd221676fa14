/* Loading plugins. The only user of dlfcn.h.
 *
 * A plugin runs inside the worker with all its rights; what is checked here protects against accidents (an old build,
 * a wrong file, two plugins for one class, a constructor that crashes) and against files that somebody else could have
 * changed (plugin_file.c), not against a malicious author.
 *
 * The descriptor of the file stays open for as long as the library is in memory, that is for ever: the C library
 * knows a loaded library by the name it was opened with, which is /proc/PID/fd/N here, and if N were given to another
 * file, dlopen would return the old library for it. One descriptor a plugin is what that costs, and processes that run
 * its handlers are given it: so they have the same code, whatever the directory has by then. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "jobs/job.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin_private.h"

/* --- descriptors -------------------------------------------------------------------------------------------------- */

/* What a plugin says about itself: the structs of jobs/job.h in the version that it was built with.
 *
 * A descriptor is copied by the size that it states, so that a plugin built with an older, shorter job.h reads as one
 * whose new members are zero; nothing else of it is looked at before the magic number and the version have been
 * checked. */

enum { CLASS_NAME_MAX = 256, PLUGIN_NAME_MAX = 64, DESCRIPTOR_SIZE_MAX = 4096, HOLD_MS_MAX = 60000 };

/* Ten years. */
#define TIME_MS_MAX (INT64_C(3653) * 24 * 3600 * MS_PER_S)

/* What version 1.0 of the interface has; later ones add members behind. */
#define SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))
#define PLUGIN_SIZE_LEAST        SIZE_UP_TO(hf_plugin, handlers)
#define HANDLER_SIZE_LEAST       SIZE_UP_TO(hf_handler, max_hold_ms)

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

/* False when it is refused; then the reason is among the findings. The texts stay the plugin's. `path` is for messages
 * only. magic, abi_major, abi_minor and size lie at the same offsets in every version. */
static bool plugin_descriptor_read(const hf_plugin *found, const char *path, hf_plugin *descriptor,
                                   struct findings *findings)
{
    if (found->magic != HF_MAGIC) {
        findings_error(findings,
                       "%s: holdfast_plugin has the magic number %08x instead of %08x: it is no hf_plugin of "
                       "jobs/job.h",
                       path, (unsigned)found->magic, (unsigned)HF_MAGIC);
    } else if (found->abi_major != HF_ABI_MAJOR || found->abi_minor > HF_ABI_MINOR) {
        findings_error(findings,
                       "%s: was built for version %u.%u of the interface, this worker has %d.%d; build it with "
                       "the job.h of this worker",
                       path, (unsigned)found->abi_major, (unsigned)found->abi_minor, HF_ABI_MAJOR, HF_ABI_MINOR);
    } else if (!sized_copy(descriptor, sizeof *descriptor, found, found->size, PLUGIN_SIZE_LEAST)) {
        findings_error(findings,
                       "%s: states a size of %zu bytes for its hf_plugin, which has %zu; set .size = "
                       "sizeof(hf_plugin)",
                       path, found->size, sizeof(hf_plugin));
    } else if (!text_is_name(descriptor->name, PLUGIN_NAME_MAX)) {
        findings_error(findings, "%s: its name is missing or longer than %d bytes", path, PLUGIN_NAME_MAX);
    } else if (descriptor->handlers == NULL || descriptor->handlers[0] == NULL) {
        findings_error(findings, "%s: has no handler", path);
    } else {
        return true;
    }
    return false;
}

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

/* The same of its handler number `index`. `*handler` is zeroed before. */
static bool plugin_handler_read(const hf_handler *found, const char *path, size_t index, hf_handler *handler,
                                struct findings *findings)
{
    if (!sized_copy(handler, sizeof *handler, found, found->size, HANDLER_SIZE_LEAST))
        findings_error(findings, "%s: handler %zu states a size of %zu bytes; set .size = sizeof(hf_handler)", path,
                       index, found->size);
    else if (!text_is_name(handler->name, CLASS_NAME_MAX))
        findings_error(findings, "%s: handler %zu has no name, or one longer than %d bytes", path, index,
                       CLASS_NAME_MAX);
    else if (handler->run == NULL)
        findings_error(findings, "%s: the handler of %s has no run function", path, handler->name);
    else if (handler->retries > ENVELOPE_RETRIES_MAX || handler->retry_for_ms < 0 ||
             handler->retry_for_ms > TIME_MS_MAX || handler->expires_in_ms < 0 || handler->expires_in_ms > TIME_MS_MAX)
        findings_error(findings,
                       "%s: the handler of %s states retries beyond %d, or a time that is negative or beyond ten years",
                       path, handler->name, ENVELOPE_RETRIES_MAX);
    else if (handler->retry_queue != NULL && !queue_name_is_sound(handler->retry_queue))
        findings_error(findings,
                       "%s: the retry_queue of the handler of %s is not 1 to %d bytes without blanks, or begins with "
                       "hf:",
                       path, handler->name, ENVELOPE_QUEUE_BYTES_MAX);
    else if (!run_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states an isolation that there is not, or a timeout, grace or maximum "
                       "hold that is negative or beyond ten years",
                       path, handler->name);
    else if (!lock_members_fit(handler))
        findings_error(findings,
                       "%s: the handler of %s states a mode or on_conflict that there is not, or a hold_at_least_ms "
                       "outside 0 to %d, or HF_CONFLICT_SKIP or hold_at_least_ms without HF_EFFICIENCY, or "
                       "HF_LOCK_REQUIRED with HF_UNLOCKED",
                       path, handler->name, HOLD_MS_MAX);
    else
        return true;
    return false;
}

enum { HANDLERS_PER_PLUGIN_MAX = 256, LIBRARY_NAME_MAX = 64 };

/* --- handlers ----------------------------------------------------------------------------------------------- */

static void handler_add(struct plugins *plugins, const struct plugin *plugin, const hf_handler *handler,
                        struct findings *findings)
{
    char quoted[LOG_QUOTE_MAX];
    const struct plugin_handler *other = plugins_handler_of(plugins, handler->name);
    if (other != NULL) {
        findings_error(findings,
                       "%s: its handler for the class %s is the second one: %s has one already; load only one "
                       "of them (worker.jobs)",
                       plugin->path, log_quote(handler->name, quoted), other->origin);
        return;
    }
    struct handler_entry *entry = memory_new(struct handler_entry);
    entry->handler = (struct plugin_handler){.class_name = handler->name,
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
                                             .origin = plugin->path,
                                             .plugin = plugin};
    plugins_add_handler(plugins, entry);
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

/* With the number of this process, by which a debugger that looks from outside finds the same file: as "self" it would
 * open a descriptor of its own, and may hang on it. */
static void library_name(int fd, char name[LIBRARY_NAME_MAX])
{
    snprintf(name, LIBRARY_NAME_MAX, "/proc/%ld/fd/%d", (long)getpid(), fd);
    if (access(name, F_OK) != 0) /* this /proc numbers processes otherwise */
        snprintf(name, LIBRARY_NAME_MAX, "/proc/self/fd/%d", fd);
}

/* NULL when the library cannot be loaded or has no descriptor. */
static const hf_plugin *library_load(int fd, const char *path, bool *is_mapped, struct findings *findings)
{
    char opened[LIBRARY_NAME_MAX];
    library_name(fd, opened);
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
    plugins_add(plugins, plugin);
    handlers_add(plugins, plugin, findings);
}

/* A descriptor of a library that is in memory stays open. */
void plugins_add_library(struct plugins *plugins, const struct library *library, struct findings *findings)
{
    bool is_mapped = false;
    struct plugin *plugin = memory_new(struct plugin);
    plugin->path = memory_text(library->path);
    plugin->file = library->fd;
    plugin->identity = library->identity;
    const hf_plugin *found = library_load(library->fd, library->path, &is_mapped, findings);
    if (library->loaded != NULL)
        library->loaded(library->context);
    if (found != NULL)
        plugin_add(plugins, plugin, found, findings);
    else
        plugin_free(plugin);
    if (!is_mapped)
        close(library->fd);
}

struct plugins *plugins_load_file(int fd, const char *path, struct findings *findings)
{
    struct plugins *plugins = plugins_create();
    plugins_add_library(plugins, &(struct library){.fd = fd, .path = path}, findings);
    plugins_sort(plugins);
    return plugins;
}

void plugin_inspect(int fd, const char *path, void (*loaded)(void *context), void *context, struct findings *findings)
{
    struct plugins *plugins = plugins_create();
    struct library library = {.fd = fd, .path = path, .loaded = loaded, .context = context};
    plugins_add_library(plugins, &library, findings);
    plugins_close(plugins);
}
