#include "worker/dry_run/shadow/shadow.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/dry_run/shadow/shadow_private.h"
#include "worker/config/node_options.h"

#define TELL_NS (5 * NS_PER_MS)
/* What was not told in time is made up for within this. */
#define ALLOWANCE_NS (50 * NS_PER_MS)
enum { REPLY_BYTES_MAX = 256 * 1024 * 1024, REPLY_ELEMENTS_MAX = 65536 };

/* As many as the rate allows by now. */
static void tell_some(struct loop_timer *timer)
{
    struct shadow *shadow = list_owner(timer, struct shadow, tell);
    struct instant now = loop_now(shadow->options.loop);
    int64_t each_ns = (int64_t)((double)NS_PER_S / shadow->rate);
    struct instant earliest = instant_after(now, -ALLOWANCE_NS);
    if (instant_before(shadow->told_until, earliest))
        shadow->told_until = earliest;
    loop_timer_set(shadow->options.loop, timer, loop_after(shadow->options.loop, TELL_NS));
    while (!shadow->is_ended && instant_before(shadow->told_until, now) && !list_is_empty(&shadow->waiting)) {
        struct shadow_entry *entry = list_owner(list_take_first(&shadow->waiting), struct shadow_entry, link);
        shadow->told_until = instant_after(shadow->told_until, each_ns);
        shadow->counts.waiting--;
        shadow_tell(shadow, entry);
        free(entry);
    }
}

void shadow_limit(struct shadow *shadow, double rate)
{
    shadow->rate = rate;
}

struct shadow_counts shadow_counts(const struct shadow *shadow)
{
    return shadow->counts;
}

void shadow_begin(struct shadow *shadow)
{
    shadow->told_until = instant_now();
    shadow->schedule_until_us = wall_now().us + shadow->options.plan->for_ns / NS_PER_US;
    loop_timer_set(shadow->options.loop, &shadow->look, instant_now());
    loop_timer_set(shadow->options.loop, &shadow->tell, instant_now());
}

void shadow_end(struct shadow *shadow)
{
    shadow->is_ended = true;
    loop_timer_clear(shadow->options.loop, &shadow->look);
    loop_timer_clear(shadow->options.loop, &shadow->tell);
    redis_call_cancel(&shadow->call);
}

struct shadow *shadow_create(const struct shadow_options *options)
{
    struct shadow *shadow = memory_new(struct shadow);
    struct findings findings = {0}; /* were told when the configuration was checked */
    struct redis_node_options node = node_options(&options->live->queue_node, "dry-run");
    node.reply_limit = REPLY_BYTES_MAX;
    node.element_limit = REPLY_ELEMENTS_MAX;
    shadow->options = *options;
    shadow->rate = options->plan->copy_rate;
    shadow->is_opening = shadow->is_first = true;
    shadow->total_first = -1;
    shadow->limits = config_task_limits(options->live);
    shadow->known = class_resources_create(options->live, options->plugins, &findings);
    findings_fini(&findings);
    list_init(&shadow->page);
    list_init(&shadow->waiting);
    loop_timer_init(&shadow->look, shadow_look);
    loop_timer_init(&shadow->tell, tell_some);
    shadow->call.done = shadow_answered;
    queue_keys_init(&shadow->keys, "", "");
    shadow->node = redis_node_create(options->loop, &node);
    return shadow;
}

static void entries_free(struct list *entries)
{
    for (struct list *link; (link = list_take_first(entries)) != NULL;)
        free(list_owner(link, struct shadow_entry, link));
}

void shadow_destroy(struct shadow *shadow)
{
    if (shadow == NULL)
        return;
    shadow_end(shadow);
    redis_node_destroy(shadow->node);
    entries_free(&shadow->page);
    entries_free(&shadow->waiting);
    shadow_processes_forget(shadow);
    queue_keys_fini(&shadow->keys);
    seen_set_fini(&shadow->seen);
    class_resources_free(shadow->known);
    task_resources_fini(&shadow->resources);
    envelope_fini(&shadow->envelope);
    buffer_fini(&shadow->request);
    free(shadow);
}
