/* Releases of locks by programs. A task that ends wakes the next one at the queue node. A program that uses the lock
 * alone (`holdfast lock`, libredlock) does not know the queue node, but it announces its release at the lock nodes. A
 * worker whose task such a program refused listens for that, and wakes the oldest task.
 *
 * The PROGRAM_RELEASES_MAX latest locks are listened for, each as long as its holder said that it would keep it. So the
 * cost does not depend on how many tasks wait. A release without a notice is found when that time is over.
 *
 * Runs on the loop. If the process dies, other workers that were refused still listen. */
#ifndef WORKER_PROGRAM_RELEASES_H
#define WORKER_PROGRAM_RELEASES_H

#include "redlock/redlock_loop.h"

enum { PROGRAM_RELEASES_MAX = 64 };

struct program_releases;

/* `released` runs when the lock behind a waiting list may be free: after an announcement, and once when a watch begins
 * to hear them, because one may have been missed. A wake in vain costs one look of the oldest task. */
struct program_releases *program_releases_create(struct loop *loop, struct redlock_group *group,
                                                 void (*released)(void *context, const char *list), void *context);
/* Before the group is destroyed. NULL is harmless. */
void program_releases_destroy(struct program_releases *releases);
/* The owner refused a task that waits in `list` now: listens if it is no task, until the given time at most. */
void program_releases_expect(struct program_releases *releases, const char *owner, const char *list,
                             const char *resource, unsigned limit, struct instant until);

#endif
