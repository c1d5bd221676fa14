/* What a text of the live fleet is: a task, its jid, and what the workers of the run will find that it locks. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/dry_run/shadow_private.h"

static bool text_read(struct shadow *shadow, const char *payload, size_t length)
{
    struct error error = ERROR_NONE;
    return envelope_parse(&shadow->envelope, payload, length, &shadow->limits, &error) &&
           shadow->envelope.jid[0] != '\0' &&
           plugins_find(shadow->options.plugins, shadow->envelope.class_name) != NULL;
}

struct shadow_entry *shadow_take(struct shadow *shadow, const char *queue, const char *payload, size_t length,
                                 int64_t at_us)
{
    if (!text_read(shadow, payload, length)) {
        shadow->counts.invalid++;
        return NULL;
    }
    if (shadow->seen.count >= SHADOW_SEEN_MAX || !seen_set_add(&shadow->seen, shadow->envelope.jid)) {
        shadow->met_known = true;
        return NULL;
    }
    const char *name = queue != NULL ? queue : shadow->envelope.queue;
    if (!queue_name_is_sound(name))
        name = "default";
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
                                                         .at_us = entry->at_us,
                                                         .digest = ""},
                                                .resources = shadow->resources.names,
                                                .resource_count = shadow->resources.count});
}
