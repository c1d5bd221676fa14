/* Warns when `dead` is full.
 *
 * What `dead` keeps is bounded, as the data model wants it (keys.h): whoever buries a task removes the oldest entries
 * above that. Nothing can be done about it at that moment, and the scripts do not tell; but it must not go on unnoticed
 * for months. So each process looks how many there are, once a minute, and warns when it finds `dead` full, and then
 * once an hour for as long as it stays so. Runs on the loop. If the process dies, nothing is left. */
#ifndef QUEUE_DEAD_WATCH_H
#define QUEUE_DEAD_WATCH_H

#include "base/loop.h"
#include "queue/keys.h"
#include "redis/node.h"

struct dead_watch;

/* `node` and `keys` must outlive it; `timeout_ns` is that of one call. */
struct dead_watch *dead_watch_create(struct loop *loop, struct redis_node *node, const struct queue_keys *keys,
                                     int64_t timeout_ns);
void dead_watch_destroy(struct dead_watch *watch); /* NULL is harmless */

#endif
