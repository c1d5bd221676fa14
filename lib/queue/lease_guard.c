#include "queue/lease_guard.h"

#include <stdio.h>
#include <string.h>

void lease_guard_renewed(struct lease_guard *guard, bool held, const char *run_id, struct instant sent)
{
    bool same_run = strncmp(guard->run_id, run_id, sizeof guard->run_id - 1) == 0;
    if (!held || !same_run || guard->since.ns == 0)
        guard->since = sent;
    snprintf(guard->run_id, sizeof guard->run_id, "%s", run_id);
}

void lease_guard_broken(struct lease_guard *guard)
{
    guard->since.ns = 0;
}

bool lease_guard_may_recover(const struct lease_guard *guard, struct instant now)
{
    return guard->since.ns != 0 && instant_reached(now, instant_after(guard->since, guard->lease_ns));
}
