#include "worker/isolation/isolation.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/isolation/process_pool.h"
#include "worker/isolation/program.h"

struct isolation {
    struct process_pool *pool;
    struct programs *programs;
};

static bool is_program(const struct isolated_run *run)
{
    return run->handler->program != NULL;
}

struct isolation *isolation_create(const struct isolation_options *options)
{
    struct isolation *isolation = memory_new(struct isolation);
    isolation->pool = process_pool_create(options);
    isolation->programs = programs_create(options);
    return isolation;
}

void isolation_destroy(struct isolation *isolation)
{
    if (isolation == NULL)
        return;
    process_pool_destroy(isolation->pool);
    programs_destroy(isolation->programs);
    free(isolation);
}

void isolation_start(struct isolation *isolation, struct isolated_run *run)
{
    if (is_program(run))
        programs_start(isolation->programs, run);
    else
        process_pool_start(isolation->pool, run);
}

bool isolation_withdraw(struct isolation *isolation, struct isolated_run *run)
{
    return is_program(run) ? programs_withdraw(isolation->programs, run) : process_pool_withdraw(isolation->pool, run);
}

/* A handler in a process polls the run table. */
void isolation_interrupt(struct isolation *isolation, struct isolated_run *run)
{
    if (is_program(run))
        programs_interrupt(isolation->programs, run);
}

void isolation_renew(struct isolation *isolation)
{
    process_pool_renew(isolation->pool);
}
