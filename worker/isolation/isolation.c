#include "worker/isolation/isolation.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/isolation/crew.h"
#include "worker/isolation/program.h"

struct isolation {
    struct crew *crew;
    struct programs *programs;
};

static bool is_program(const struct isolated_run *run)
{
    return run->handler->program != NULL;
}

struct isolation *isolation_create(const struct isolation_options *options)
{
    struct isolation *isolation = memory_new(struct isolation);
    isolation->crew = crew_create(options);
    isolation->programs = programs_create(options);
    return isolation;
}

void isolation_destroy(struct isolation *isolation)
{
    if (isolation == NULL)
        return;
    crew_destroy(isolation->crew);
    programs_destroy(isolation->programs);
    free(isolation);
}

void isolation_start(struct isolation *isolation, struct isolated_run *run)
{
    if (is_program(run))
        programs_start(isolation->programs, run);
    else
        crew_start(isolation->crew, run);
}

bool isolation_withdraw(struct isolation *isolation, struct isolated_run *run)
{
    return is_program(run) ? programs_withdraw(isolation->programs, run) : crew_withdraw(isolation->crew, run);
}

/* A handler in a process sees it by itself. */
void isolation_interrupt(struct isolation *isolation, struct isolated_run *run)
{
    if (is_program(run))
        programs_interrupt(isolation->programs, run);
}

void isolation_renew(struct isolation *isolation)
{
    crew_renew(isolation->crew);
}
