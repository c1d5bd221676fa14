/* A worker of a fleet that is not the built program: worker_run in a child of the test, with what the program has no
 * option for. */
#ifndef SUPPORT_WORKER_CHILD_H
#define SUPPORT_WORKER_CHILD_H

#include "tests/support/fleet.h"
#include "worker/events/observer.h"
#include "worker/task/run_table.h"

/* Starts it with the configuration that fleet_work would give it; returns its number in the fleet, which signals,
 * awaits and ends it like the others. `key_space` and `observer` may be NULL; what the observer writes, the test sees
 * in memory that it shares, and so is `run table` (of WORKER_SLOTS run entries; NULL = one of its own). */
unsigned worker_child_start(struct fleet *fleet, const struct fleet_setup *setup, const char *key_space,
                            const struct worker_observer *observer, struct run_table *run_table);

#endif
