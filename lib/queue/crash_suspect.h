/* Records on the queue node which slot crashed a process, before its lease ends and its tasks are recovered
 * (recovery.c).
 *
 * The call answers 1: recorded, or 0: too late. It may be repeated. Without the record, all tasks of the process
 * count alike when they are recovered. Use it only for a dead process: a process that enlists itself again removes
 * the record. */
#ifndef QUEUE_CRASH_SUSPECT_H
#define QUEUE_CRASH_SUSPECT_H

#include "base/buffer.h"
#include "queue/keys.h"

/* Encodes the call into `out`, which is empty. `slot` is that of the claim. */
void crash_suspect_request(struct buffer *out, const struct queue_keys *keys, const char *identity, unsigned slot);

#endif
