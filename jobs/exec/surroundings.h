/* What a program of the exec job is told about its task: its environment, as variables HF_*. */
#ifndef JOBS_EXEC_SURROUNDINGS_H
#define JOBS_EXEC_SURROUNDINGS_H

#include "jobs/kit.h"

enum { EXEC_VARIABLES_MAX = 16 };

struct exec_environment {
    char *variables[EXEC_VARIABLES_MAX + 1]; /* ends with NULL */
    unsigned count;
};

/* PATH, HOME, LANG and TZ of the worker, and the facts of the task. 0 without memory; fini in any case. */
int exec_environment_make(struct exec_environment *environment, const struct kit *kit, const hf_job *job);
void exec_environment_fini(struct exec_environment *environment);

#endif
