/* Classes whose handler is a program of the configuration (classes = ({ class = ...; program = ...; })). */
#ifndef WORKER_PLUGIN_PROGRAMS_H
#define WORKER_PLUGIN_PROGRAMS_H

#include <stdbool.h>

#include "base/error.h"
#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin.h"

/* Adds a handler for each. The program must be an executable file that belongs to root or to this user and that nobody
 * else may write; what is wrong is an error with the file and line of the class, and so is a class that a
 * plugin serves too. `running`, or NULL, is where handlers that have not changed are taken from. */
void plugins_add_programs(struct plugins *plugins, const struct plugins *running, const struct config *config,
                          struct findings *findings);

/* --- the file of a program ---------------------------------------------------------------------------------------- */

/* A program that the configuration names: whether a worker may start it. It has to be trusted (trusted_file.h). This is
 * looked at when the configuration is read, and again at each start, where the descriptor that was looked at is run. */

/* A descriptor (O_PATH); -1 with errno, which is EPERM when somebody else may change the program. */
int program_file_open(const char *program, struct error *error) MUST_CHECK;
/* `where` is the file and line of the setting `key` that names it. */
bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings);

#endif
