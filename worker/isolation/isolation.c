#include "worker/isolation/isolation.h"

#include <stdlib.h>

#include "base/memory.h"
#include "worker/isolation/crew.h"

struct isolation {
    struct crew *crew;
};

struct isolation *isolation_create(const struct isolation_options *options)
{
    struct isolation *isolation = memory_new(struct isolation);
    isolation->crew = crew_create(options);
    return isolation;
}

void isolation_destroy(struct isolation *isolation)
{
    if (isolation == NULL)
        return;
    crew_destroy(isolation->crew);
    free(isolation);
}

void isolation_start(struct isolation *isolation, struct isolated_run *run)
{
    crew_start(isolation->crew, run);
}

bool isolation_withdraw(struct isolation *isolation, struct isolated_run *run)
{
    return crew_withdraw(isolation->crew, run);
}

/* A handler in a process sees it by itself. */
void isolation_interrupt(struct isolation *isolation, struct isolated_run *run)
{
    (void)isolation;
    (void)run;
}

void isolation_renew(struct isolation *isolation)
{
    crew_renew(isolation->crew);
}
