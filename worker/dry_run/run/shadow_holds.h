/* How long the tasks of a live fleet hold, by class, for a shadow: as long as its locks of today and yesterday (UTC)
 * were held, as every worker counts it on the queue node (presence/lock_counts.h).
 *
 *     struct shadow_holds holds = {0};
 *     shadow_holds_read(&holds, live, plugins, &findings);    workforce_options.classes = holds.classes ...
 *     shadow_holds_fini(&holds);                              after workforce_end
 *
 * What a worker does between taking a lock and leaving it is in these times, and once more in the dry run: a fraction
 * of a millisecond. Read in a process apart, so before the workers are forked. */
#ifndef WORKER_DRY_RUN_SHADOW_HOLDS_H
#define WORKER_DRY_RUN_SHADOW_HOLDS_H

#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/dry_run/run/simulated_handlers.h"
#include "worker/plugin/plugin.h"

/* Begins zeroed. */
struct shadow_holds {
    struct simulated_class *classes; /* those that had a lock; names are the plugins' */
    size_t count;
};

/* Of all classes that the plugins serve, which must stay. Classes of which no lock is known, or all of them when the
 * queue node does not have, are named in a warning: their tasks hold as the plan says. Blocks. */
void shadow_holds_read(struct shadow_holds *holds, const struct config *live, const struct plugins *plugins,
                       struct findings *findings);
void shadow_holds_fini(struct shadow_holds *holds);

#endif
