/* Makes servers a lock group, as an operator does with `holdfast nodes init`, without its checks: what was there before
 * is forgotten. The numbers are the same in every group. */
#ifndef SUPPORT_LOCK_GROUP_H
#define SUPPORT_LOCK_GROUP_H

#include "redlock/marker.h"
#include "tests/support/redis_server.h"

/* All must run. Nothing happens when they are not three or more. */
void lock_group_make(struct redis_server *const *servers, unsigned count, int64_t max_ttl_ms);
/* What the marker of the i-th of `count` servers is then. */
struct marker lock_group_marker(struct redis_server *server, unsigned index, unsigned count, int64_t max_ttl_ms);
void lock_group_mark(struct redis_server *server, const struct marker *marker);

#endif
