/* Private to lib/redlock: the question that decides about trust in a node (inspect.lua), and its answer as trust.h
 * wants it. For the group, which asks again and again, and for the operator's session, which asks while it waits. */
#ifndef REDLOCK_SIGHT_H
#define REDLOCK_SIGHT_H

#include "base/buffer.h"
#include "base/error.h"
#include "redis/reply.h"
#include "redlock/trust.h"

enum { SIGHT_POLICY_SIZE = 32 };

/* Replaces what is in `request`. */
void sight_ask(struct buffer *request);
/* Asks for another marker where there is the one that was seen ("" = none; to "" = delete it): mark.lua. Replaces what
 * is in `request`. */
void sight_mark(struct buffer *request, const char *seen, const char *wanted);
/* False when it is no answer to the inspection. `asked` and `answered` are left as they are. `policy`, the eviction
 * policy in words, may be NULL. */
bool sight_read(struct trust_sight *sight, char *policy, const struct redis_reply *reply) MUST_CHECK;

#endif
