#include "worker/plugin/plugin_programs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "worker/plugin/plugin_private.h"

static bool program_is_good(const struct config_class *entry, struct findings *findings)
{
    const char *where = entry->source.where, *program = entry->program.items[0];
    struct stat facts;
    if (stat(program, &facts) != 0)
        findings_error(findings, "%s: program: %s: %s", where, program, strerror(errno));
    else if (!S_ISREG(facts.st_mode))
        findings_error(findings, "%s: program: %s is no regular file", where, program);
    else if (facts.st_uid != 0 && facts.st_uid != geteuid())
        findings_error(findings,
                       "%s: program: %s belongs to user %u; it runs with the worker's rights, so it has to belong to "
                       "root or to user %u",
                       where, program, (unsigned)facts.st_uid, (unsigned)geteuid());
    else if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        findings_error(findings,
                       "%s: program: others may write %s (mode %03o), and it runs with the worker's rights; chmod "
                       "go-w it",
                       where, program, (unsigned)facts.st_mode & 0777);
    else if (access(program, X_OK) != 0)
        findings_error(findings, "%s: program: %s cannot be executed (mode %03o); chmod +x it", where, program,
                       (unsigned)facts.st_mode & 0777);
    else
        return true;
    return false;
}

static struct handler_entry *handler_make(const struct config_class *entry)
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
    made->handler = (struct plugin_handler){.class_name = made->class_name,
                                            .about = made->about,
                                            .flags = HF_PROGRESS,
                                            .program = (const char *const *)made->program,
                                            .isolation = HF_ISOLATION_PROCESS,
                                            .origin = made->origin};
    return made;
}

static bool is_what_it_was(const struct plugin_handler *handler, const struct config_class *entry)
{
    if (handler == NULL || handler->program == NULL || strcmp(handler->origin, entry->source.where) != 0)
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
    if (other != NULL)
        findings_error(findings, "%s: the class %s has a program, and the plugin %s serves it too; remove one of them",
                       entry->source.where, log_quote(entry->name, quoted), other->origin);
    else if (program_is_good(entry, findings) && is_what_it_was(former, entry))
        plugins_share_handler(plugins, former);
    else
        plugins_add_handler(plugins, handler_make(entry));
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
