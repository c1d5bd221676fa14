/* Checks the section `periodic` for everything that would prevent a push, and reports it with its line. */
#ifndef WORKER_CONFIG_PERIODIC_H
#define WORKER_CONFIG_PERIODIC_H

#include "worker/config/config.h"

/* Sets default names, then checks the entries. */
void config_periodic_check(struct config *config, struct findings *findings);

#endif
