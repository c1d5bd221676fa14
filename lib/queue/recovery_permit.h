/* Decides whether a process may declare others dead. Pure.
 *
 * An ended lease proves nothing by itself: if the node was unreachable for a minute, or its clock was set, all leases
 * have ended. So only a process that has held its own lease without a gap for one full lease time, on one run of the
 * server and one connection, may recover the claims of others: every living process has renewed its lease by then. */
#ifndef QUEUE_RECOVERY_PERMIT_H
#define QUEUE_RECOVERY_PERMIT_H

#include <stdbool.h>

#include "base/clock.h"

enum { LEASE_RUN_ID_MAX = 48 };

struct recovery_permit {
    int64_t lease_ns;
    struct instant since; /* held without a gap from then on; 0 = not held */
    char run_id[LEASE_RUN_ID_MAX];
};

/* The lease was renewed by a call that was sent at `sent`. `held`: it had not ended before. */
void recovery_permit_renewed(struct recovery_permit *permit, bool held, const char *run_id, struct instant sent);
/* The connection was lost, or a renewal was not answered. */
void recovery_permit_broken(struct recovery_permit *permit);
bool recovery_permit_may_recover(const struct recovery_permit *permit, struct instant now);

#endif
