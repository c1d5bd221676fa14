/* Makes lock nodes that have just been started, and hold nothing, a lock group, as `holdfast nodes init` does.
 *
 * A process does it that is forked for this: it wants a loop, and the caller will fork again. So the caller must have
 * one thread and no loop. Blocks, for 15 s at most. */
#ifndef WORKER_SERVERS_NEW_GROUP_H
#define WORKER_SERVERS_NEW_GROUP_H

#include "base/error.h"
#include "worker/servers/private_server.h"

/* Of three servers or more. `max_ttl_ns`: 1 s to 10 min, 0 = as `holdfast nodes init` has it: 60 s. */
bool new_group_make(const struct private_server *servers, unsigned count, int64_t max_ttl_ns,
                    struct error *error) MUST_CHECK;

#endif
