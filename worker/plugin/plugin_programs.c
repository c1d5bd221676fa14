#include "worker/plugin/plugin_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/config/surroundings.h"
#include "worker/config/trusted_file.h"
#include "worker/plugin/plugin_private.h"

/* Takes over the environment. */
static struct handler_entry *handler_make(const struct config_class *entry, char **environment)
{
    struct handler_entry *made = memory_new(struct handler_entry);
    struct buffer about = {0};
    made->class_name = memory_text(entry->name);
    made->origin = memory_text(entry->source.where);
    buffer_format(&about, "runs %s", entry->program.items[0]);
    made->about = memory_text(buffer_text(&about));
    buffer_fini(&about);
    made->program = memory_zeroed(entry->program.count + 1, sizeof made->program[0]);
    for (size_t i = 0; i < entry->program.count; i++)
        made->program[i] = memory_text(entry->program.items[i]);
    const char *directory = entry->surroundings.directory;
    made->environment = environment;
    made->directory = directory[0] != '\0' ? memory_text(directory) : NULL;
    made->handler = (struct plugin_handler){.class_name = made->class_name,
                                            .about = made->about,
                                            .flags = HF_PROGRESS,
                                            .program = (const char *const *)made->program,
                                            .environment = (const char *const *)environment,
                                            .directory = made->directory,
                                            .isolation = HF_ISOLATION_PROCESS,
                                            .origin = made->origin};
    return made;
}

static bool words_are_equal(const char *const *a, char *const *b)
{
    for (; *a != NULL && *b != NULL; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return *a == *b;
}

static bool is_what_it_was(const struct plugin_handler *handler, const struct config_class *entry, char **environment)
{
    if (handler == NULL || handler->program == NULL || strcmp(handler->origin, entry->source.where) != 0)
        return false;
    if (strcmp(handler->directory != NULL ? handler->directory : "", entry->surroundings.directory) != 0 ||
        !words_are_equal(handler->environment, environment))
        return false;
    for (size_t i = 0; i < entry->program.count; i++)
        if (handler->program[i] == NULL || strcmp(handler->program[i], entry->program.items[i]) != 0)
            return false;
    return handler->program[entry->program.count] == NULL;
}

static void program_add(struct plugins *plugins, const struct plugins *running, const struct config_class *entry,
                        struct findings *findings)
{
    char quoted[LOG_QUOTE_MAX];
    const struct plugin_handler *other = plugins_handler_of(plugins, entry->name);
    const struct plugin_handler *former = running != NULL ? plugins_find(running, entry->name) : NULL;
    if (other != NULL && other->program != NULL)
        return; /* the configuration has two entries for the class, and has said so */
    if (other != NULL) {
        findings_error(findings, "%s: the class %s has a program, and the plugin %s serves it too; remove one of them",
                       entry->source.where, log_quote(entry->name, quoted), other->origin);
        return;
    }
    char **environment = surroundings_read(&entry->surroundings, entry->source.where, "", findings);
    if (program_file_check(entry->program.items[0], entry->source.where, "program", findings) &&
        is_what_it_was(former, entry, environment)) {
        plugins_share_handler(plugins, former);
        surroundings_forget(environment);
    } else {
        plugins_add_handler(plugins, handler_make(entry, environment));
    }
}

void plugins_add_programs(struct plugins *plugins, const struct plugins *running, const struct config *config,
                          struct findings *findings)
{
    for (size_t i = 0; i < config->class_count; i++) {
        const struct config_class *entry = &config->classes[i];
        if (!entry->source.is_broken && entry->program.count > 0 && entry->program.items[0][0] == '/')
            program_add(plugins, running, entry, findings);
    }
    plugins_sort(plugins);
}

/* --- the file of a program ---------------------------------------------------------------------------------------- */

/* 0, or what `execve` would say; EPERM for what another user may change. */
static int refusal_of(int fd, const char *program, struct error *error)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        error_set(error, "%.250s: %m", program);
        return EACCES;
    }
    if (!S_ISREG(facts.st_mode)) {
        error_set(error, "%.250s is no regular file", program);
        return EACCES;
    }
    if (!trusted_file(fd, program, "runs with the worker's rights", error))
        return EPERM;
    if (faccessat(fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH) == 0)
        return 0;
    error_set(error, "%.250s cannot be executed (mode %03o); chmod +x it", program, (unsigned)facts.st_mode & 0777);
    return EACCES;
}

int program_file_open(const char *program, struct error *error)
{
    int fd = open(program, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        int failure = errno;
        error_set(error, "%.250s: %s", program, strerror(failure));
        errno = failure;
        return -1;
    }
    int refusal = refusal_of(fd, program, error);
    if (refusal == 0)
        return fd;
    close(fd);
    errno = refusal;
    return -1;
}

bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings)
{
    struct error error = ERROR_NONE;
    int fd = program_file_open(program, &error);
    if (fd < 0) {
        findings_error(findings, "%s: %s: %s", where, key, error.text);
        return false;
    }
    close(fd);
    return true;
}
