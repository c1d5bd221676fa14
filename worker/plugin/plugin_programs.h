/* Classes whose handler is a program of the configuration (classes = ({ class = ...; program = ...; })). */
#ifndef WORKER_PLUGIN_PROGRAMS_H
#define WORKER_PLUGIN_PROGRAMS_H

#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

/* Adds a handler for each. The program must be an executable file that belongs to root or to this user and that nobody
 * else may write; what is wrong is an error with the place of the class in the configuration, and so is a class that a
 * plugin serves too. `running`, or NULL, is where handlers that have not changed are taken from. */
void plugins_add_programs(struct plugins *plugins, const struct plugins *running, const struct config *config,
                          struct findings *findings);

#endif
