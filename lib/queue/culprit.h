/* Who brought the end of a process about: noted at the queue node by whoever still knows when it is dead, before its
 * lease has ended and its tasks are recovered (recovery.c).
 *
 *     struct buffer *request = inquiry_compose(...);
 *     culprit_request(request, &keys, board->identity, slot);     with queue_script_culprit loaded
 *     ... the integer 1: noted; 0: too late
 *
 * May be repeated. Lost, or too late, it changes nothing: then all tasks that the process had are counted alike. Only
 * of a process that is dead: the note is gone when it enlists itself again. */
#ifndef QUEUE_CULPRIT_H
#define QUEUE_CULPRIT_H

#include "base/buffer.h"
#include "queue/keys.h"

/* Encodes the call into `out`, which is empty. `slot` is that of the claim. */
void culprit_request(struct buffer *out, const struct queue_keys *keys, const char *identity, unsigned slot);

#endif
