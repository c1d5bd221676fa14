#include "worker/config/config_periodic.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/periodic/periodic_entry.h"

/* Derives the name from class and times, so that it does not depend on the order in the file. */
static void name_default(struct config_periodic *entry)
{
    if (entry->name[0] != '\0')
        return;
    struct buffer name = {0};
    buffer_format(&name, "%s %s", entry->class_name, entry->cron);
    free(entry->name);
    entry->name = memory_text(buffer_text(&name));
    buffer_fini(&name);
}

static void name_check(const struct config *config, size_t index, struct findings *findings)
{
    const struct config_periodic *entry = &config->periodic[index];
    for (size_t i = 0; i < index; i++)
        if (strcmp(config->periodic[i].name, entry->name) == 0)
            findings_error(findings,
                           "%s: the periodic task \"%s\" has a second entry (%s): they would share their ticks, so "
                           "give each a name of its own",
                           entry->source.where, entry->name, config->periodic[i].source.where);
}

static void entry_check(const struct config_periodic *config, const struct envelope_limits *limits,
                        struct findings *findings)
{
    struct periodic_entry entry;
    struct error error = ERROR_NONE;
    if (!periodic_entry_init(&entry, config, limits, &error))
        findings_error(findings, "%s: periodic task \"%s\": %s", config->source.where, config->name, error.text);
    periodic_entry_fini(&entry);
}

void config_periodic_check(struct config *config, struct findings *findings)
{
    struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;
    limits.size = (size_t)config->worker.max_task_size;
    for (size_t i = 0; i < config->periodic_count; i++) {
        struct config_periodic *entry = &config->periodic[i];
        if (entry->source.is_broken)
            continue;
        name_default(entry);
        name_check(config, i, findings);
        entry_check(entry, &limits, findings);
    }
}
