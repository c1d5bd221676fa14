/* Whether the lock nodes are what the configuration takes them for. Judged once, when a majority of them has said what
 * it is: if they are not, waiting would not help, and tasks would only be parked again and again. Pure. */
#ifndef WORKER_LOCK_JUDGE_H
#define WORKER_LOCK_JUDGE_H

#include "redlock/redlock_loop.h"
#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

enum { LOCK_JUDGE_REASON_MAX = 512 };

/* NULL when they are, else the event to be logged; its values are written into `reason`. */
const char *lock_judge(const struct config *config, const struct plugins *plugins,
                       const struct redlock_standing *standing, char reason[LOCK_JUDGE_REASON_MAX]);

#endif
