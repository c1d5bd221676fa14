/* The group `on_event`: its keys, and what the table cannot check of them. */
#include <string.h>

#include "base/clock.h"
#include "worker/config/config_table.h"

static const char *const event_names[] = {"dead", "skipped", "dropped", "lock_lost", "failed", "expired", NULL};

#define FIELD(member) .offset = offsetof(struct config_event, member)
const struct config_key config_event_keys[] = {
    {.name = "command",
     .type = CONFIG_WORDS,
     FIELD(command),
     .max = 64,
     .item_max = 4095,
     .may_be_one = true,
     .example = "[\"/usr/local/bin/tell-somebody\"]",
     .is_reloadable = true,
     .in_sample = true,
     .help =
         "The absolute path of a program, and its arguments. What happened is on its standard input as a JSON object. "
         "What it prints goes to the log. Default: nothing is run."},
    {.name = "events",
     .type = CONFIG_WORDS,
     FIELD(events),
     .fallback = "dead lock_lost",
     .max = 16,
     .is_reloadable = true,
     .help = "What it is run for: dead (a task was buried), skipped (somebody else held its lock), dropped (too many "
             "waited for its lock), lock_lost (while it ran), failed (and it is tried again), expired."},
    {.name = "timeout",
     .type = CONFIG_DURATION,
     FIELD(timeout_ns),
     .fallback = "30s",
     .min = 100 * NS_PER_MS,
     .max = 3600 * NS_PER_S,
     .is_reloadable = true,
     .help = "A command that runs for longer gets SIGTERM and, 2 seconds later, SIGKILL."},
    {.name = "parallel",
     .type = CONFIG_COUNT,
     FIELD(parallel),
     .fallback = "2",
     .min = 1,
     .max = 64,
     .is_reloadable = true,
     .help =
         "How many of them may run at once. Up to 1,000 events wait for their turn; what comes then is dropped, and "
         "the log says how many."},
    {.name = NULL},
};
#undef FIELD

static bool event_is_known(const char *name)
{
    for (size_t i = 0; event_names[i] != NULL; i++)
        if (strcmp(event_names[i], name) == 0)
            return true;
    return false;
}

void config_event_check(const struct config *config, struct findings *findings)
{
    const struct config_event *event = &config->on_event;
    const char *where = event->source.where;
    if (event->command.count > 0 && event->command.items[0][0] != '/')
        findings_error(findings,
                       "%s: on_event.command: \"%s\" is no absolute path; what a worker runs must not depend on its "
                       "directory or PATH",
                       where, event->command.items[0]);
    for (size_t i = 0; i < event->events.count; i++)
        if (!event_is_known(event->events.items[i]))
            findings_error(findings,
                           "%s: on_event.events: \"%s\" is not allowed here; expected dead, skipped, dropped, "
                           "lock_lost, failed, or expired",
                           where, event->events.items[i]);
}
