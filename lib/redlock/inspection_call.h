/* Private to lib/redlock: the question that decides about trust in a node (inspect.lua), and its answer as trust.h
 * wants it. For the group, which asks again and again, and for the operator's session, which asks while it waits. */
#ifndef REDLOCK_INSPECTION_CALL_H
#define REDLOCK_INSPECTION_CALL_H

#include "base/buffer.h"
#include "base/error.h"
#include "redis/reply.h"
#include "redlock/trust.h"

enum { INSPECTION_POLICY_SIZE = 32 };

/* Replaces what is in `request`. */
void inspection_call_ask(struct buffer *request);
/* Asks for another marker where there is the one that was seen ("" = none; to "" = delete it): mark.lua. Replaces what
 * is in `request`. */
void inspection_call_mark(struct buffer *request, const char *seen, const char *wanted);
/* False when it is no answer to the inspection. `asked` and `answered` are left as they are. `policy`, the eviction
 * policy in words, may be NULL. */
bool inspection_call_read(struct trust_inspection *inspection, char *policy,
                          const struct redis_reply *reply) MUST_CHECK;

#endif
