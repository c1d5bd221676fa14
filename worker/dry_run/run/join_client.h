/* A host that takes part in a dry run which another one leads (coordinator.h): its workers run in the same key space,
 * on the same lock nodes, and their records are brought to the host that leads.
 *
 *     join_client_ask(config, key_space, &plan, ...)      what the run is, before there is a loop
 *     ... workforce_start ...
 *     join_client_run(&terms, &error)                     until the run is over, or an interrupt
 *
 * If this process dies, its workers die with it; the host that leads sees it fall silent. */
#ifndef WORKER_DRY_RUN_JOIN_CLIENT_H
#define WORKER_DRY_RUN_JOIN_CLIENT_H

#include "worker/dry_run/run/dry_run.h"
#include "worker/dry_run/run/host_heartbeat.h"

/* Asks the queue node for the plan of a run, in a process apart. False with the reason when there is no such run, when
 * it is over or led by another version, or when the node cannot be reached. The caller ends the plan with plan_fini. */
bool join_client_ask(const struct config *config, const char *key_space, struct dry_run_plan *plan,
                     bool *is_unreachable, struct error *error) MUST_CHECK;

/* `name` is that of this host, different for each remote host. True after an orderly end. */
bool join_client_run(const struct dry_run *run, const char *name, struct error *error) MUST_CHECK;

#endif
