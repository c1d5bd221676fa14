/* The settings of the classes of tasks, and of tasks in general: what config_table.c cannot check, and how they are
 * looked up. */
#include <stdlib.h>
#include <string.h>

#include "queue/envelope.h"
#include "queue/keys.h"
#include "worker/config/config.h"

#define MEMORY_LIMIT_MIN (INT64_C(64) * 1024 * 1024)
enum { OPEN_FILES_MIN = 16 };

struct envelope_limits config_task_limits(const struct config *config)
{
    return (struct envelope_limits){.size = (size_t)config->worker.max_task_size,
                                    .depth = config->worker.max_task_depth,
                                    .keys = config->worker.max_task_keys};
}

const struct config_class *config_class_find(const struct config *config, const char *class_name)
{
    for (size_t i = 0; i < config->class_count; i++)
        if (strcmp(config->classes[i].name, class_name) == 0)
            return &config->classes[i];
    return NULL;
}

bool config_runs_unlocked(const struct config *config)
{
    for (size_t i = 0; i < config->class_count; i++)
        if (config->classes[i].on_no_quorum == CONFIG_QUORUM_OPEN)
            return true;
    return false;
}

/* -1 = as the handler says, -2 = not understood. */
static long retry_read(const char *text)
{
    if (text == NULL || text[0] == '\0' || strcmp(text, "handler") == 0)
        return -1;
    if (strcmp(text, "no") == 0)
        return 0;
    size_t length = strlen(text);
    long count = length <= 7 && strspn(text, "0123456789") == length ? strtol(text, NULL, 10) : -2;
    return count <= ENVELOPE_RETRIES_MAX ? count : -2;
}

bool config_class_retries(const struct config_class *entry, unsigned *retries)
{
    long count = retry_read(entry->retry);
    if (count < 0)
        return false;
    *retries = (unsigned)count;
    return true;
}

/* A hold that ends before the lock would by itself is no limit of a hold. */
static void hold_check(const struct config *config, const char *where, const char *name, int64_t max_hold_ns,
                       struct findings *findings)
{
    if (max_hold_ns > 0 && max_hold_ns < config->lock.ttl_ns)
        findings_error(findings, "%s: %s: must be at least lock.ttl, or 0s", where != NULL ? where : config->path,
                       name);
}

static void process_check(const struct config_class *entry, struct findings *findings)
{
    const char *where = entry->source.where;
    if (entry->memory_limit > 0 && entry->memory_limit < MEMORY_LIMIT_MIN)
        findings_error(findings, "%s: memory_limit: must be at least 64MiB, or 0", where);
    if (entry->open_files_limit > 0 && entry->open_files_limit < OPEN_FILES_MIN)
        findings_error(findings, "%s: open_files_limit: must be at least %d, or 0", where, OPEN_FILES_MIN);
    if (entry->program.count == 0)
        return;
    if (entry->program.items[0][0] != '/')
        findings_error(findings,
                       "%s: program: \"%s\" is no absolute path; what a worker runs must not depend on its "
                       "directory or PATH",
                       where, entry->program.items[0]);
    if (entry->isolation != CONFIG_ISOLATION_BY_HANDLER)
        findings_error(findings, "%s: has both program and isolation; a program is started for each task anyway",
                       where);
    if (entry->tasks_per_process > 0 || entry->memory_per_process > 0)
        findings_error(findings,
                       "%s: tasks_per_process and memory_per_process have no meaning for a program: it is "
                       "started for each task",
                       where);
}

static void class_check(const struct config *config, const struct config_class *entry, struct findings *findings)
{
    const char *where = entry->source.where, *queue = entry->retry_queue;
    if (retry_read(entry->retry) == -2)
        findings_error(findings, "%s: retry: \"%s\" is not allowed here; expected handler, no, or a number up to %d",
                       where, entry->retry, ENVELOPE_RETRIES_MAX);
    if (queue[0] != '\0' && !queue_name_is_sound(queue))
        findings_error(findings,
                       "%s: retry_queue: not 1 to %d bytes without blanks and control characters, or begins with hf:",
                       where, ENVELOPE_QUEUE_BYTES_MAX);
    if (retry_read(entry->retry) >= 0 && entry->retry_for_ns > 0)
        findings_error(findings, "%s: has both retry and retry_for; keep one", where);
    hold_check(config, where, "max_hold", entry->max_hold_ns, findings);
    process_check(entry, findings);
    bool takes_locks = entry->mode == CONFIG_MODE_CORRECTNESS || entry->mode == CONFIG_MODE_EFFICIENCY;
    if ((entry->lock == CONFIG_LOCK_NONE && takes_locks) ||
        (entry->lock == CONFIG_LOCK_REQUIRED && entry->mode == CONFIG_MODE_NONE))
        findings_error(findings, "%s: lock and mode contradict each other; keep one", where);
}

void config_classes_check(const struct config *config, struct findings *findings)
{
    hold_check(config, config->lock.source.where, "lock.max_hold", config->lock.max_hold_ns, findings);
    for (size_t i = 0; i < config->class_count; i++) {
        const struct config_class *entry = &config->classes[i];
        class_check(config, entry, findings);
        const struct config_class *first = config_class_find(config, entry->name);
        if (entry->name[0] != '\0' && first != entry)
            findings_error(findings, "%s: the class %s has a second entry (%s)", entry->source.where, entry->name,
                           first->source.where);
    }
}
