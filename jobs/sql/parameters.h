/* The parameters of a statement from the arguments of a task: an array for ?1, ?2 ..., an object for :a, @a or $a. */
#ifndef JOBS_SQL_PARAMETERS_H
#define JOBS_SQL_PARAMETERS_H

#include <sqlite3.h>
#include <stddef.h>

#include "jobs/arguments/arguments.h"

enum { SQL_PARAMETERS_MAX = 256 };

/* Whether they can be parameters at all; 0 with a reason. */
int sql_parameters_check(struct argument parameters, char *reason, size_t reason_size);
/* Binds every parameter of the statement. 0 with a reason, which is about the arguments, when one is missing, or there
 * is one too many. null is NULL, true and false are 1 and 0, arrays and objects are their JSON as text. */
int sql_parameters_bind(sqlite3_stmt *statement, struct argument parameters, char *reason, size_t reason_size);

#endif
