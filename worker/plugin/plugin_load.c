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
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "jobs/job.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin_file.h"
#include "worker/plugin/plugin_private.h"
#include "worker/plugin/plugin_vetting.h"

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
 * only. magic, abi_major, abi_minor and size lie at the same places in every version. */
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

/* What is to be loaded. */
struct library {
    int fd;
    const char *path; /* for messages */
    struct file_identity identity;
    void (*loaded)(void *context); /* may be NULL */
    void *context;
};

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
static void library_add(struct plugins *plugins, const struct library *library, struct findings *findings)
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

static struct plugins *plugins_begin(unsigned generation)
{
    struct plugins *plugins = memory_new(struct plugins);
    plugins->generation = generation;
    return plugins;
}

struct plugins *plugins_create(void)
{
    return plugins_begin(1);
}

struct plugins *plugins_load_file(int fd, const char *path, struct findings *findings)
{
    struct plugins *plugins = plugins_begin(1);
    library_add(plugins, &(struct library){.fd = fd, .path = path}, findings);
    plugins_sort(plugins);
    return plugins;
}

void plugin_inspect(int fd, const char *path, void (*loaded)(void *context), void *context, struct findings *findings)
{
    struct plugins *plugins = plugins_begin(1);
    struct library library = {.fd = fd, .path = path, .loaded = loaded, .context = context};
    library_add(plugins, &library, findings);
    plugins_close(plugins);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

struct file {
    char *path;
    int fd;
    struct file_identity identity;
    struct plugin *former; /* that was loaded from just this file; NULL = it has to be loaded */
};

struct file_list {
    struct file items[PLUGINS_MAX];
    size_t count;
};

static struct file_identity identity_of(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return (struct file_identity){.size = -1};
    return (struct file_identity){.device = facts.st_dev,
                                  .inode = facts.st_ino,
                                  .size = facts.st_size,
                                  .modified = facts.st_mtim,
                                  .changed = facts.st_ctim};
}

static bool time_is(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* A changed mode or owner changes no code, but the file was judged by it: so `changed` counts as well. */
static bool identity_is(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && time_is(a->modified, b->modified) &&
           time_is(a->changed, b->changed);
}

static void file_find(struct file_list *list, int directory_fd, const char *directory, const char *name,
                      struct findings *findings)
{
    int fd = list->count < PLUGINS_MAX ? plugin_file_open(directory_fd, directory, name, findings) : -1;
    if (fd < 0)
        return;
    struct buffer path = {0};
    buffer_format(&path, "%s/%s.so", directory, name);
    list->items[list->count++] =
        (struct file){.path = memory_text(buffer_text(&path)), .fd = fd, .identity = identity_of(fd)};
    buffer_fini(&path);
}

static void files_find_all(struct file_list *list, int directory_fd, const char *directory, struct findings *findings)
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

/* What the directory does not have may come with Holdfast. */
static void file_find_by_name(struct file_list *list, int directory_fd, const char *directory, const char *name,
                              struct findings *findings)
{
    bool is_own = directory_fd >= 0 && plugin_directory_has(directory_fd, name);
    char *shipped = is_own ? NULL : plugin_shipped_directory(name);
    int shipped_fd = shipped != NULL ? plugin_directory_open(shipped, findings) : -1;
    if (shipped == NULL)
        file_find(list, directory_fd, directory, name, findings);
    else if (shipped_fd >= 0)
        file_find(list, shipped_fd, shipped, name, findings);
    if (shipped_fd >= 0)
        close(shipped_fd);
    free(shipped);
}

static struct file_list *files_find(const char *directory, char *const *names, size_t name_count,
                                    struct findings *findings)
{
    struct file_list *list = memory_new(struct file_list);
    int directory_fd = directory[0] != '\0' ? plugin_directory_open(directory, findings) : -1;
    if (directory_fd < 0 && directory[0] != '\0')
        return list;
    for (size_t i = 0; i < name_count; i++)
        file_find_by_name(list, directory_fd, directory, names[i], findings);
    if (name_count == 0 && directory_fd >= 0)
        files_find_all(list, directory_fd, directory, findings);
    if (directory_fd >= 0)
        close(directory_fd);
    return list;
}

/* Those that are refused have no descriptor any more. */
static void files_vet(struct file_list *list, struct findings *findings)
{
    struct vetted_file vetted[PLUGINS_MAX];
    size_t places[PLUGINS_MAX], count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].former == NULL && list->items[i].fd >= 0) {
            places[count] = i;
            vetted[count++] = (struct vetted_file){.fd = list->items[i].fd, .path = list->items[i].path};
        }
    plugin_vetting_run(vetted, count, findings);
    for (size_t i = 0; i < count; i++)
        if (vetted[i].is_refused) {
            close(vetted[i].fd);
            list->items[places[i]].fd = -1;
        }
}

static void files_load(struct plugins *plugins, struct file_list *list, const struct plugins *running,
                       struct findings *findings)
{
    for (size_t i = 0; i < list->count; i++) {
        struct file *file = &list->items[i];
        if (file->former != NULL)
            plugins_share(plugins, file->former, running);
        else if (file->fd >= 0)
            library_add(plugins, &(struct library){.fd = file->fd, .path = file->path, .identity = file->identity},
                        findings);
        free(file->path);
    }
    free(list);
    plugins_sort(plugins);
}

struct plugins *plugins_load(const char *directory, char *const *names, size_t name_count, struct findings *findings)
{
    struct plugins *plugins = plugins_begin(1);
    files_load(plugins, files_find(directory, names, name_count, findings), NULL, findings);
    return plugins;
}

struct plugins *plugins_load_vetted(const char *directory, char *const *names, size_t name_count,
                                    struct findings *findings)
{
    struct plugins *plugins = plugins_begin(1);
    struct file_list *list = files_find(directory, names, name_count, findings);
    files_vet(list, findings);
    files_load(plugins, list, NULL, findings);
    return plugins;
}

/* --- loading again ---------------------------------------------------------------------------------------------- */

/* An error of the file system is told by -1 and errno. */
static int copy_make(const char *path, int from)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    struct stat facts;
    int copy = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (copy < 0 || fstat(from, &facts) != 0)
        return copy;
    for (off_t copied = 0; copied < facts.st_size;) {
        ssize_t count = sendfile(copy, from, &copied, (size_t)(facts.st_size - copied));
        if (count <= 0) {
            int cause = count < 0 ? errno : EIO; /* it became shorter */
            close(copy);
            errno = cause;
            return -1;
        }
    }
    fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return copy;
}

/* The C library takes a file with the device and inode of one that is loaded for that one, and a file may have been
 * written in place: so what is loaded beside something that runs is a copy that nobody can change. */
static void file_copy(struct file *file, struct findings *findings)
{
    char opened[64];
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", file->fd);
    int readable = open(opened, O_RDONLY | O_CLOEXEC), copy = readable >= 0 ? copy_make(file->path, readable) : -1;
    if (copy < 0)
        findings_error(findings, "%s: cannot be copied into memory: %s", file->path, strerror(errno));
    if (readable >= 0)
        close(readable);
    close(file->fd);
    file->fd = copy;
}

static struct plugin *former_of(const struct plugins *running, const struct file *file)
{
    for (size_t i = 0; i < running->count; i++)
        if (strcmp(running->items[i]->path, file->path) == 0 &&
            identity_is(&running->items[i]->identity, &file->identity))
            return running->items[i];
    return NULL;
}

struct plugins *plugins_load_again(const struct plugins *running, const char *directory, char *const *names,
                                   size_t name_count, struct findings *findings)
{
    struct plugins *plugins = plugins_begin(running->generation + 1);
    struct file_list *list = files_find(directory, names, name_count, findings);
    for (size_t i = 0; i < list->count; i++) {
        struct file *file = &list->items[i];
        file->former = former_of(running, file);
        if (file->former == NULL)
            file_copy(file, findings);
        else
            close(file->fd);
    }
    files_vet(list, findings);
    files_load(plugins, list, running, findings);
    return plugins;
}
