/* The share of the tasks that want a resource, by the line on which popularity_at draws. */
#ifndef SUPPORT_POPULARITY_SHARE_H
#define SUPPORT_POPULARITY_SHARE_H

#include "worker/dry_run/plan/popularity.h"

static inline double popularity_share(const struct popularity *popularity, unsigned resource)
{
    const double *ends = popularity->cumulative;
    if (ends == NULL)
        return 1.0 / popularity->count;
    return (ends[resource] - (resource > 0 ? ends[resource - 1] : 0)) / ends[popularity->count - 1];
}

#endif
