#include "queue/recovery_permit.h"

#include <stdio.h>
#include <string.h>

void recovery_permit_renewed(struct recovery_permit *permit, bool held, const char *run_id, struct instant sent)
{
    bool same_run = strncmp(permit->run_id, run_id, sizeof permit->run_id - 1) == 0;
    if (!held || !same_run || permit->since.ns == 0)
        permit->since = sent;
    snprintf(permit->run_id, sizeof permit->run_id, "%s", run_id);
}

void recovery_permit_broken(struct recovery_permit *permit)
{
    permit->since.ns = 0;
}

bool recovery_permit_may_recover(const struct recovery_permit *permit, struct instant now)
{
    return permit->since.ns != 0 && instant_reached(now, instant_after(permit->since, permit->lease_ns));
}
