/* The environment of a program: facts of its task, and four variables of the worker's own environment.
 *
 *     program_environment_set(&environment, &facts);      again for each run
 *     plan.environment = environment.variables;           until the next one
 *     program_environment_fini(&environment);
 *
 * Pure; one thread at a time for each struct. */
#ifndef WORKER_PROGRAM_ENVIRONMENT_H
#define WORKER_PROGRAM_ENVIRONMENT_H

#include "base/buffer.h"
#include "worker/task/job_host.h"
#include "worker/task/task_rules.h"

enum { PROGRAM_INHERITED = 4, PROGRAM_VARIABLES_MAX = 24 };

/* PATH, HOME, LANG and TZ, which every program gets. It gets nothing else of the worker's environment, so that no
 * secret is passed on. */
struct program_inheritance {
    char *variables[PROGRAM_INHERITED]; /* "NAME=VALUE", NULL = it has none */
};

/* Copies them from this process. No other thread may change the environment meanwhile. */
void program_inheritance_take(struct program_inheritance *inheritance);
void program_inheritance_fini(struct program_inheritance *inheritance);

/* Zeroed = empty. */
struct program_environment {
    struct buffer text;
    const char *variables[PROGRAM_VARIABLES_MAX + 1]; /* ends with NULL */
};

void program_environment_set(struct program_environment *environment, const struct program_inheritance *inheritance,
                             const struct hf_job *job, const struct task_rules *rules);
void program_environment_fini(struct program_environment *environment);

#endif
