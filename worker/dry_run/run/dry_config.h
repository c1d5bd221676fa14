/* The configuration of a dry run: that of production, with what must differ. What runs with it knows nothing of it.
 *
 *     struct config *config = path != NULL ? config_read(path, &findings) : dry_config_built_in(&findings);
 *     ... plan_check, plugins, startup_check against the configuration as it is ...
 *     dry_config_use_nodes(config, &nodes);                        on private nodes only
 *     dry_config_convert(config, &plan, &error);
 *     dry_config_key_space(&plan, space);                          for worker_options.key_space, and the queue node
 *
 * Changed in place, because it has passwords in it, which nothing prints:
 *
 *     the locks     have keys of the run, lock.prefix + "dry:RUN:". Tokens are remembered for the run and an hour. On
 *                   nodes of others the run writes no markers
 *     the tasks     run in threads, no programs, and keep no results
 *     the queues    of a rehearsal: LOAD_QUEUE alone, for all classes; of a shadow: as they are
 *     the worker    has the threads of the plan, ends quickly, logs warnings only, and may be root (it runs nothing)
 *     nothing       is pushed by itself (`periodic`), and no command is run (`on_event`)
 *     its path      is none, so that a reload cannot bring the configuration of production in */
#ifndef WORKER_DRY_RUN_DRY_CONFIG_H
#define WORKER_DRY_RUN_DRY_CONFIG_H

#include "redlock/redlock.h"
#include "worker/config/config.h"
#include "worker/dry_run/plan/plan.h"

enum { DRY_CONFIG_SPACE_MAX = 32 };

/* What there is when nothing was configured: all defaults, and no lock nodes. */
struct config *dry_config_built_in(struct findings *findings) MUST_CHECK;

struct dry_config_nodes {
    const char *host;     /* of all of them */
    const char *password; /* NULL = none */
    unsigned queue_port;
    unsigned lock_ports[REDLOCK_NODES_MAX];
    unsigned lock_count;
};
/* Instead of the configured ones. They have the timeouts of these, where there were any. */
void dry_config_use_nodes(struct config *config, const struct dry_config_nodes *nodes);

/* From now on it is that of the run. False when a lock prefix of this length has no room for that of the run; nothing
 * is changed then. */
bool dry_config_convert(struct config *config, const struct dry_run_plan *plan, struct error *error) MUST_CHECK;

/* "hf:2:dry:RUN:", which is before every key of the run on the queue node. */
const char *dry_config_key_space(const struct dry_run_plan *plan, char space[DRY_CONFIG_SPACE_MAX]);

#endif
