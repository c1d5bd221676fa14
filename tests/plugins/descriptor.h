/* The parts of a plugin that the test plugins vary. */
#ifndef TESTS_PLUGINS_DESCRIPTOR_H
#define TESTS_PLUGINS_DESCRIPTOR_H

#include "jobs/job.h"

static inline int run_nothing(hf_job *job, void *state)
{
    (void)job;
    (void)state;
    return HF_OK;
}

#define HANDLER(symbol, class_name)                                                                                    \
    static const hf_handler symbol = {.size = sizeof symbol, .name = class_name, .run = run_nothing}

#define HANDLERS(...) static const hf_handler *const handlers[] = {__VA_ARGS__, NULL}

#endif
