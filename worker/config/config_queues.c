#include "worker/config/config_queues.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "worker/config/config_table.h"

enum { SERVED_MAX = 64 };

static void words_clear(struct config_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct config_words){0};
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

#define BAD_NAME "is not 1 to %d bytes without blanks and control characters, or begins with hf:"

static void entry_check(const struct config *config, size_t index, struct findings *findings)
{
    const struct config_queue *entry = &config->queues[index];
    const char *where = entry->source.where;
    if (entry->source.is_broken)
        return;
    if (!queue_name_is_sound(entry->name))
        findings_error(findings, "%s: queue_settings[%zu].queue: " BAD_NAME, where, index, ENVELOPE_QUEUE_BYTES_MAX);
    for (size_t i = 0; i < index; i++)
        if (strcmp(entry->name, config->queues[i].name) == 0)
            findings_error(findings, "%s: the queue %s has a second entry (%s)", where, entry->name,
                           config->queues[i].source.where);
    if (!config_words_hold(&config->worker.queues, entry->name))
        findings_warn(findings, "%s: the queue %s is not served here: it is not in worker.queues", where, entry->name);
}

static bool has_weights(const struct config *config)
{
    for (size_t i = 0; i < config->queue_count; i++)
        if (config->queues[i].weight > 1)
            return true;
    return false;
}

void config_queues_check(const struct config *config, struct findings *findings)
{
    for (size_t i = 0; i < config->worker.queues.count; i++)
        if (!queue_name_is_sound(config->worker.queues.items[i]))
            findings_error(findings, "%s: worker.queues: the name of queue %zu " BAD_NAME, config->worker.source.where,
                           i + 1, ENVELOPE_QUEUE_BYTES_MAX);
    for (size_t i = 0; i < config->queue_count; i++)
        entry_check(config, i, findings);
    if (config->worker.queue_order == CONFIG_ORDER_STRICT && has_weights(config))
        findings_warn(findings,
                      "%s: queue_settings: weights mean nothing while worker.queue_order is strict; set it to "
                      "\"weighted\"",
                      config->path);
}

/* --- what is served ----------------------------------------------------------------------------------------------- */

static void served_add(struct config_words *words, const char *name, struct findings *findings)
{
    if (!queue_name_is_sound(name))
        findings_error(findings, "--queues: a name " BAD_NAME, ENVELOPE_QUEUE_BYTES_MAX);
    else if (config_words_hold(words, name))
        findings_error(findings, "--queues: names the queue %s twice", name);
    else if (words->count == SERVED_MAX)
        findings_error(findings, "--queues: names more than %d queues", SERVED_MAX);
    else
        config_words_add(words, name);
}

void config_serve_queues(struct config *config, const char *names, struct findings *findings)
{
    char *copy = memory_text(names), *rest = copy, *name = NULL;
    words_clear(&config->worker.queues);
    while ((name = strsep(&rest, ",")) != NULL)
        served_add(&config->worker.queues, name, findings);
    free(copy);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static const struct config_queue *entry_of(const struct config *config, const char *queue)
{
    for (size_t i = 0; i < config->queue_count; i++)
        if (strcmp(config->queues[i].name, queue) == 0)
            return &config->queues[i];
    return NULL;
}

unsigned config_queue_weight(const struct config *config, const char *queue)
{
    const struct config_queue *entry = entry_of(config, queue);
    return entry != NULL ? entry->weight : 1;
}

bool config_queue_allows(const struct config *config, const char *queue, const char *class_name)
{
    const struct config_queue *entry = entry_of(config, queue);
    return entry == NULL || entry->classes.count == 0 || config_words_hold(&entry->classes, class_name);
}
