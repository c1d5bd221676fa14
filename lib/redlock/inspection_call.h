/* Private to lib/redlock: the question that decides about trust in a node (inspect.lua), and its answer as trust.h
 * wants it. For the group, and for the operator's session. */
#ifndef REDLOCK_INSPECTION_CALL_H
#define REDLOCK_INSPECTION_CALL_H

#include "base/buffer.h"
#include "base/error.h"
#include "redis/reply.h"
#include "redlock/trust.h"

enum { INSPECTION_POLICY_SIZE = 32 };

/* Both replace what is in `request`. `id`: of the only node; what it is called if it has none ("" = it stays without).
 * NULL = there are several. */
void inspection_call_ask(struct buffer *request, const char *id);
/* mark.lua: replaces the marker that was seen ("" = none) by the wanted one ("" = deletes it). `highest`: of
 * trust_marker_to_write. */
void inspection_call_mark(struct buffer *request, const char *seen, const char *wanted, int64_t highest);
/* False if the reply is no answer to the inspection. Leaves `asked` and `answered` alone. `policy`, the eviction policy
 * in words, may be NULL. */
bool inspection_call_read(struct trust_inspection *inspection, char *policy,
                          const struct redis_reply *reply) MUST_CHECK;

#endif
