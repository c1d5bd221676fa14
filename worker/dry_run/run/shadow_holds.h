/* How long the tasks of a live fleet hold, by class, for a shadow: as long as its runs of today and yesterday (UTC)
 * took, by the histograms that every worker keeps on the queue node (queue/run_durations.h).
 *
 *     struct shadow_holds holds = {0};
 *     shadow_holds_read(&holds, live, plugins, &findings);    workforce_options.classes = holds.classes ...
 *     shadow_holds_fini(&holds);                              after workforce_end
 *
 * Only the run of the handler was measured; what a worker does around it is real in a dry run. Read in a process apart,
 * so before the workers are forked. */
#ifndef WORKER_DRY_RUN_SHADOW_HOLDS_H
#define WORKER_DRY_RUN_SHADOW_HOLDS_H

#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/dry_run/run/simulated_handlers.h"
#include "worker/plugin/plugin.h"

/* Begins zeroed. */
struct shadow_holds {
    struct simulated_class *classes; /* those that have run; names are the plugins' */
    size_t count;
};

/* Of all classes that the plugins serve, which must stay. Classes of which no run is known, or all of them when the
 * queue node does not have, are named in a warning: their tasks hold as the plan says. Blocks. */
void shadow_holds_read(struct shadow_holds *holds, const struct config *live, const struct plugins *plugins,
                       struct findings *findings);
void shadow_holds_fini(struct shadow_holds *holds);

#endif
