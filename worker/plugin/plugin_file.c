/* The files of plugins: which there are, whether they can be trusted, and loading those of a directory.
 *
 * Both the directory and the file must be trusted (trusted_file.h), and the file is no symbolic link.
 *
 * What is checked is what is loaded: the directory is opened once, the file is opened relative to it with O_PATH (a
 * FIFO or a device is thereby never opened for real), its facts come from that descriptor, and dlopen gets the
 * descriptor's entry in /proc. Renaming or replacing anything in between changes nothing (CWE-367).
 *
 * A file that ends too early, because it is still being copied or its disk was full, is found here: the C library maps
 * what the program headers speak of and dies of SIGBUS. */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/config/suggest.h"
#include "worker/config/trusted_file.h"
#include "worker/plugin/plugin_private.h"
#include "worker/plugin/plugin_vetting.h"

enum { SEGMENTS_MAX = 64, PLUGINS_MAX = 256 /* of a directory */ };

static bool is_trusted(const struct stat *facts, const char *path, struct findings *findings)
{
    struct error error = ERROR_NONE;
    if (trusted_facts(facts, path, "runs inside the worker", &error))
        return true;
    findings_error(findings, "%s", error.text);
    return false;
}

static int directory_open(const char *directory, struct findings *findings)
{
    struct stat facts;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        findings_error(findings, "%s: this directory of plugins cannot be opened: %s; see worker.jobs_directory",
                       directory, strerror(errno));
    } else if (is_trusted(&facts, directory, findings)) {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **directory_list(int directory_fd, size_t *count)
{
    char **names = memory_zeroed(PLUGINS_MAX, sizeof *names);
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    *count = 0;
    if (entries == NULL) {
        if (fd >= 0)
            close(fd);
        return names;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL && *count < PLUGINS_MAX;) {
        size_t length = strlen(entry->d_name);
        if (length > 3 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 3, ".so") == 0)
            names[(*count)++] = memory_text_of(entry->d_name, length - 3);
    }
    closedir(entries);
    qsort(names, *count, sizeof *names, compare_names);
    return names;
}

static bool name_is_safe(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) <= 128 && strchr(name, '/') == NULL;
}

static bool directory_has(int directory_fd, const char *name)
{
    char file[160];
    snprintf(file, sizeof file, "%s.so", name);
    return name_is_safe(name) && faccessat(directory_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* In a build tree all of them are in one directory; handlers and examples are installed apart. */
static const char *const shipped_folders[] = {"jobs", "../lib/holdfast/handlers", "../lib/holdfast/examples"};
enum { SHIPPED = sizeof shipped_folders / sizeof shipped_folders[0] };

static int shipped_open(size_t index, char *path, size_t size)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *end = strrchr(program, '/');
    if (end == NULL)
        return -1;
    *end = '\0';
    bool fits = snprintf(path, size, "%s/%s", program, shipped_folders[index]) < (int)size;
    return fits ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

char *plugin_shipped_directory(const char *name)
{
    char path[4096 + 64];
    bool is_there = false;
    for (size_t i = 0; i < SHIPPED && !is_there; i++) {
        int fd = shipped_open(i, path, sizeof path);
        is_there = fd >= 0 && directory_has(fd, name);
        if (fd >= 0)
            close(fd);
    }
    return is_there ? memory_text(path) : NULL;
}

static void names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

char **plugin_shipped_list(size_t *count)
{
    char **all = NULL, path[4096 + 64];
    *count = 0;
    for (size_t i = 0; i < SHIPPED; i++) {
        size_t more = 0;
        int fd = shipped_open(i, path, sizeof path);
        char **names = fd >= 0 ? directory_list(fd, &more) : NULL;
        all = memory_resize(all, *count + more + 1, sizeof *all);
        for (size_t j = 0; j < more; j++)
            all[(*count)++] = names[j];
        free(names);
        if (fd >= 0)
            close(fd);
    }
    return all;
}

static void report_missing(int directory_fd, const char *path, const char *name, struct findings *findings)
{
    size_t own_count = 0, shipped_count = 0;
    char **own = directory_fd >= 0 ? directory_list(directory_fd, &own_count) : NULL;
    char **others = plugin_shipped_list(&shipped_count), hint[SUGGEST_HINT_MAX];
    struct suggestion suggestion = suggestion_for(name);
    for (size_t i = 0; i < own_count; i++)
        suggestion_offer(&suggestion, own[i]);
    for (size_t i = 0; i < shipped_count; i++)
        suggestion_offer(&suggestion, others[i]);
    findings_error(findings, "%s: there is no such plugin, nor does one of this name come with Holdfast%s", path,
                   suggestion_hint(&suggestion, hint));
    names_free(own, own_count);
    names_free(others, shipped_count);
}

static bool file_is_good(int fd, const char *path, struct findings *findings)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        findings_error(findings, "%s: cannot be examined: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(facts.st_mode)) {
        findings_error(findings, "%s: is %s; a plugin is a regular file", path,
                       S_ISLNK(facts.st_mode) ? "a symbolic link" : "no regular file");
        return false;
    }
    return is_trusted(&facts, path, findings);
}

static bool segment_is_whole(const ElfW(Phdr) * segment, uint64_t file_size)
{
    return segment->p_type != PT_LOAD ||
           (segment->p_offset <= file_size && segment->p_filesz <= file_size - segment->p_offset);
}

/* Whether all that would be mapped is there. What else may be wrong with a library, dlopen reports itself. */
static bool segments_are_whole(int fd, uint64_t file_size)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[SEGMENTS_MAX];
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return false;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof segments[0])
        return true; /* not for this machine, or no library */
    size_t length = header.e_phnum * sizeof segments[0];
    if (header.e_phnum > SEGMENTS_MAX || header.e_phoff > file_size ||
        pread(fd, segments, length, (off_t)header.e_phoff) != (ssize_t)length)
        return false;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (!segment_is_whole(&segments[i], file_size))
            return false;
    return true;
}

/* A descriptor of O_PATH cannot be read: it is opened once more, through its entry in /proc. */
static bool file_is_whole(int path_fd, const char *path, struct findings *findings)
{
    char opened[64];
    struct stat facts;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", path_fd);
    int fd = open(opened, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        findings_error(findings, "%s: cannot be read: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool is_whole = segments_are_whole(fd, (uint64_t)facts.st_size);
    if (!is_whole)
        findings_error(findings, "%s: is no library, or was cut off; was it copied completely?", path);
    close(fd);
    return is_whole;
}

static int file_open(int directory_fd, const char *directory, const char *name, struct findings *findings)
{
    char quoted[LOG_QUOTE_MAX];
    if (!name_is_safe(name)) {
        findings_error(findings,
                       "worker.jobs: %s is no name of a plugin: a file name without directory and without .so",
                       log_quote(name, quoted));
        return -1;
    }
    char path[4096 + 256], file[160];
    snprintf(path, sizeof path, "%s/%s.so", directory, name);
    snprintf(file, sizeof file, "%s.so", name);
    int fd = directory_fd >= 0 ? openat(directory_fd, file, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 && (directory_fd < 0 || errno == ENOENT)) {
        report_missing(directory_fd, directory[0] != '\0' ? path : file, name, findings);
        return -1;
    }
    if (fd < 0) {
        findings_error(findings, "%s: this plugin cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (file_is_good(fd, path, findings) && file_is_whole(fd, path, findings))
        return fd;
    close(fd);
    return -1;
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

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
    int fd = list->count < PLUGINS_MAX ? file_open(directory_fd, directory, name, findings) : -1;
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
    char **names = directory_list(directory_fd, &count);
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
    bool is_own = directory_fd >= 0 && directory_has(directory_fd, name);
    char *shipped = is_own ? NULL : plugin_shipped_directory(name);
    int shipped_fd = shipped != NULL ? directory_open(shipped, findings) : -1;
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
    int directory_fd = directory[0] != '\0' ? directory_open(directory, findings) : -1;
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
    size_t found[PLUGINS_MAX], count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].former == NULL && list->items[i].fd >= 0) {
            found[count] = i;
            vetted[count++] = (struct vetted_file){.fd = list->items[i].fd, .path = list->items[i].path};
        }
    plugin_vetting_run(vetted, count, findings);
    for (size_t i = 0; i < count; i++)
        if (vetted[i].is_refused) {
            close(vetted[i].fd);
            list->items[found[i]].fd = -1;
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
            plugins_add_library(
                plugins, &(struct library){.fd = file->fd, .path = file->path, .identity = file->identity}, findings);
        free(file->path);
    }
    free(list);
    plugins_sort(plugins);
}

struct plugins *plugins_load(const char *directory, char *const *names, size_t name_count, struct findings *findings)
{
    struct plugins *plugins = plugins_create();
    files_load(plugins, files_find(directory, names, name_count, findings), NULL, findings);
    return plugins;
}

struct plugins *plugins_load_vetted(const char *directory, char *const *names, size_t name_count,
                                    struct findings *findings)
{
    struct plugins *plugins = plugins_create();
    struct file_list *list = files_find(directory, names, name_count, findings);
    files_vet(list, findings);
    files_load(plugins, list, NULL, findings);
    return plugins;
}

/* --- loading again ---------------------------------------------------------------------------------------------- */

/* -1 with errno on an error of the file system. */
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
    struct plugins *plugins = plugins_create();
    plugins->generation = running->generation + 1;
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
