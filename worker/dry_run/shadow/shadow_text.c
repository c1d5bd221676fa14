/* What a text of the live fleet is: a task, its jid, and what the workers of the run will find that it locks. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/config/config_table.h"
#include "worker/dry_run/shadow/shadow_private.h"

static bool text_read(struct shadow *shadow, const char *payload, size_t length)
{
    struct error error = ERROR_NONE;
    return envelope_parse(&shadow->envelope, payload, length, &shadow->limits, &error) &&
           shadow->envelope.jid[0] != '\0';
}

/* Where its workers look for it: as NULL, or with a name that is none, in what the task says itself. */
static const char *queue_for(const struct shadow *shadow, const char *queue)
{
    const char *name = queue != NULL ? queue : shadow->envelope.queue;
    return queue_name_is_sound(name) ? name : "default";
}

/* Others may serve it in the live fleet; here it would wait for ever. */
static bool is_served(const struct shadow *shadow, const char *queue)
{
    return config_words_hold(&shadow->options.live->worker.queues, queue) &&
           plugins_find(shadow->options.plugins, shadow->envelope.class_name) != NULL;
}

/* Due only after the run, and not because it waits for a lock. */
static bool is_far(const struct shadow *shadow, int64_t at_us)
{
    return at_us > shadow->schedule_until_us && shadow->envelope.parked_at.us == 0;
}

/* Each once. */
static bool is_new(struct shadow *shadow, const char *payload, size_t length, bool is_task)
{
    const char *jid = shadow->envelope.jid;
    if (shadow->seen.count >= SHADOW_SEEN_MAX)
        return false;
    return is_task ? seen_set_add(&shadow->seen, jid, strlen(jid)) : seen_set_add(&shadow->seen, payload, length);
}

struct shadow_entry *shadow_take(struct shadow *shadow, const char *queue, const char *payload, size_t length,
                                 int64_t at_us)
{
    bool is_task = text_read(shadow, payload, length);
    if ((is_task && is_far(shadow, at_us)) || !is_new(shadow, payload, length, is_task))
        return NULL;
    shadow->news++;
    if (!is_task || !is_served(shadow, queue_for(shadow, queue))) {
        shadow->counts.invalid++;
        return NULL;
    }
    const char *name = queue_for(shadow, queue);
    struct shadow_entry *entry = memory_zeroed(1, sizeof *entry + length);
    list_init(&entry->link);
    entry->length = length;
    entry->at_us = shadow->envelope.parked_at.us > 0 ? 0 : at_us; /* who waits for a lock waits here too */
    memcpy(entry->payload, payload, length);
    memcpy(entry->queue, name, strlen(name));
    return entry;
}

void shadow_tell(struct shadow *shadow, const struct shadow_entry *entry)
{
    struct error error = ERROR_NONE;
    if (!text_read(shadow, entry->payload, entry->length))
        return;
    const struct plugin_handler *handler = plugins_find(shadow->options.plugins, shadow->envelope.class_name);
    struct task_rules rules = task_rules_of(&shadow->envelope, shadow->options.live, handler);
    if (task_resources_resolve(&shadow->resources, &shadow->envelope, &rules, shadow->known, &error) !=
        TASK_RESOURCES_OK)
        shadow->resources.count = 0;
    shadow->options.found(shadow->options.context,
                          &(struct shadow_task){.task = {.payload = {entry->payload, entry->length},
                                                         .class_name = shadow->envelope.class_name,
                                                         .queue = entry->queue,
                                                         .jid = shadow->envelope.jid,
                                                         .at_us = entry->at_us > wall_now().us ? entry->at_us : 0,
                                                         .digest = ""},
                                                .resources = shadow->resources.names,
                                                .resource_count = shadow->resources.count});
}
