/* What a program of the configuration finds when it starts, beside the facts of its task: variables and a directory
 * (`environment`, `environment_file`, `directory` of a class and of on_event).
 *
 * A value of `environment` that is ${NAME} is that of the worker's own variable. The file has a line NAME=VALUE for
 * each variable; a value goes to the end of its line as it is. Empty lines and those that begin with # mean nothing.
 * The file may have secrets, so it has to be private (base/secret.h). A name in both has the value of
 * `environment`. Names that begin with HF_ are those of the worker, and so is TRACEPARENT. */
#ifndef WORKER_SURROUNDINGS_H
#define WORKER_SURROUNDINGS_H

#include "worker/config/config.h"
#include "worker/config/findings.h"

/* Reads the file and looks at the directory. The variables are "NAME=VALUE" and end with NULL; what is wrong is among
 * the findings, with the file and line. `where` is where the section is in the configuration; `section` is in
 * front of the names of settings there: "" or "on_event.". May block. */
char **surroundings_read(const struct config_surroundings *surroundings, const char *where, const char *section,
                         struct findings *findings) MUST_CHECK;
/* Overwrites and frees; NULL is harmless. */
void surroundings_forget(char **variables);
/* For a class whose program is taken away. */
void surroundings_clear(struct config_surroundings *surroundings);
bool surroundings_are_empty(const struct config_surroundings *surroundings);

#endif
