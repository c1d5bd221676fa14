/* The checks of the section `periodic`: everything that would keep an entry from being pushed, each with its line. */
#ifndef WORKER_CONFIG_PERIODIC_H
#define WORKER_CONFIG_PERIODIC_H

#include "worker/config/config.h"

/* Gives entries without a name theirs, then checks them. */
void config_periodic_check(struct config *config, struct findings *findings);

#endif
