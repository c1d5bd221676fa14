/* One periodic task: when it is due, and the task that is pushed for a tick. Made of an entry `periodic` of the
 * configuration; no I/O but for reading the time zone when it is made. The rules of missed ticks are here.
 *
 *     noted      the last tick that was pushed, as the queue node knows it; or since when it knows this schedule
 *     patience   how old a tick may be when it is pushed: `catch_up`, or a minute when missed ticks are skipped
 *
 * Of the ticks since `noted` only the latest is ever pushed, and not when it is older than the patience. One thread at
 * a time per entry. */
#ifndef WORKER_PERIODIC_ENTRY_H
#define WORKER_PERIODIC_ENTRY_H

#include "queue/task_builder.h"
#include "worker/config/config.h"
#include "worker/periodic/cron.h"

/* No tick is later: the end of the year 9999. */
#define PERIODIC_LATEST_S INT64_C(253402300799)

struct periodic_entry {
    const struct config_periodic *config;
    struct cron cron;
    struct time_zone *zone;
    char *schedule; /* cron and zone, as they are written: what is noted of the ticks belongs to it */
    struct task_builder *builder;
    struct buffer text; /* the task before task_builder.h fills it up */
};

/* False with a reason that names the key. What was made is to be freed in both cases. `config` is not copied. */
bool periodic_entry_init(struct periodic_entry *entry, const struct config_periodic *config,
                         const struct envelope_limits *limits, struct error *error) MUST_CHECK;
void periodic_entry_fini(struct periodic_entry *entry);

int64_t periodic_entry_patience_s(const struct periodic_entry *entry);

/* The tick to push next, in seconds: at once when it is not later than `now`, otherwise then; CRON_NEVER if none
 * comes. `*skipped` says whether there are ticks since `noted` that nobody will push. */
int64_t periodic_entry_plan(const struct periodic_entry *entry, int64_t noted, int64_t now, bool *skipped);

/* The task for a tick; valid until the next. */
bool periodic_entry_task(struct periodic_entry *entry, int64_t tick, struct wall_time now, struct built_task *task,
                         struct error *error) MUST_CHECK;

/* Those of a whole configuration, for periodic.h. */
struct periodic_entries {
    struct periodic_entry *items;
    size_t count;
};

/* Reads the time zones: not on the loop. NULL with a reason that names line and entry, when one cannot be used any
 * more (its time zone has gone). The list `periodic` of the configuration must outlive them. */
struct periodic_entries *periodic_entries_make(const struct config *config, const struct envelope_limits *limits,
                                               struct error *error) MUST_CHECK;
void periodic_entries_free(struct periodic_entries *entries); /* NULL is fine */

#endif
