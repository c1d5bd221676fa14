/* Warns when `dead` is full.
 *
 * `dead` is bounded, as the data model requires (keys.h): burying a task removes the oldest entries beyond the limit.
 * The scripts cannot prevent that and do not report it, but it must not go unnoticed for months. So each process
 * counts the entries once a minute, and warns when it finds `dead` full, and then once an hour for as long as it stays
 * full. Runs on the loop. If the process dies, it leaves nothing behind. */
#ifndef QUEUE_DEAD_SET_WATCH_H
#define QUEUE_DEAD_SET_WATCH_H

#include "base/loop.h"
#include "queue/keys.h"
#include "redis/node.h"

struct dead_set_watch;

/* `node` and `keys` must outlive it; `timeout_ns` is that of one call. */
struct dead_set_watch *dead_set_watch_create(struct loop *loop, struct redis_node *node, const struct queue_keys *keys,
                                             int64_t timeout_ns);
void dead_set_watch_destroy(struct dead_set_watch *watch); /* NULL is harmless */

#endif
