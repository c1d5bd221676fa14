/* The environment of a program: facts of its task, what the configuration gives it, and four variables of the worker's
 * own environment.
 *
 *     program_environment_set(&environment, &inheritance, run);      again for each run
 *     plan.environment = environment.variables;           until the next one
 *     program_environment_fini(&environment);
 *
 * Pure; one thread at a time for each struct. */
#ifndef WORKER_PROGRAM_ENVIRONMENT_H
#define WORKER_PROGRAM_ENVIRONMENT_H

#include "base/buffer.h"
#include "worker/isolation/isolation.h"

enum { PROGRAM_INHERITED = 4 };

/* PATH, HOME, LANG and TZ, which every program gets, unless the configuration has others. It gets nothing else of the
 * worker's environment, so that no secret is passed on. */
struct program_inheritance {
    char *variables[PROGRAM_INHERITED]; /* "NAME=VALUE", NULL = it has none */
};

/* Copies them from this process. No other thread may change the environment meanwhile. */
void program_inheritance_take(struct program_inheritance *inheritance);
void program_inheritance_fini(struct program_inheritance *inheritance);

/* Zeroed = empty. */
struct program_environment {
    struct buffer text;     /* the facts, each with its NUL */
    const char **variables; /* ends with NULL */
    size_t capacity;
};

/* The parts, for a program that runs no task: facts, one after the other, then the list of these, of the variables
 * from the configuration (may be NULL), and of the inherited ones that those do not replace. */
void program_environment_put(struct program_environment *environment, const char *name, const char *value);
void program_environment_list(struct program_environment *environment, const struct program_inheritance *inheritance,
                              const char *const *configured);

void program_environment_set(struct program_environment *environment, const struct program_inheritance *inheritance,
                             const struct isolated_run *run);
void program_environment_fini(struct program_environment *environment);

#endif
