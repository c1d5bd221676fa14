/* Asks the nodes why a task does not run (task_reason.h).
 *
 *     struct task_why why = {.console = &console};
 *     code = task_why_look(&why, jid, entry, was_cut);       `entry`: where task_find.h found it; NULL = nowhere
 *     code = task_why_look(...);                              as often as one likes
 *     task_why_end(&why);                                     also after a failure
 *
 * It reads a bounded amount, whatever waits: the processes, the queue of the task, who waits before it, and the lock
 * that it waits for. The lock nodes are asked only about such a task. What they do not answer in time is a part of the
 * sentence. */
#ifndef WORKER_TASK_WHY_H
#define WORKER_TASK_WHY_H

#include "worker/commands/status.h"
#include "worker/commands/task_find.h"
#include "worker/commands/task_reason.h"

enum { TASK_ID_MAX = 256 };

struct task_why {
    struct console *console;
    struct task_reason reason;
    struct task_facts facts;
    /* private */
    struct task_view view;
    struct fleet fleet;
    struct task_search twins;
    struct lock_view lock;
    struct wall_time fleet_at; /* when it was read */
    bool knows_lock, has_lock;
    struct status_votes votes;
    char jid[TASK_ID_MAX];
    struct buffer error, terms, owner;
    struct buffer needs[ENVELOPE_RESOURCES_MAX]; /* what it locks, as far as is known */
    unsigned need_count;
};

int task_why_look(struct task_why *why, const char *jid, const struct task_entry *entry,
                  bool was_cut) MUST_CHECK; /* console->code */
void task_why_end(struct task_why *why);

#endif
