/* What a task has left as its result, now or as soon as it is there.
 *
 *     struct task_await await = {.console = &console, .jid = jid, .scan_limit = TASK_AWAIT_SCAN};
 *     code = task_await(&await);              an exit code, as `holdfast result` has them
 *
 * It looks at the result's key, first five times a second and then every two. Where the task is it asks more and more
 * seldom, because that can be a long search. A task that moves from one state to the next while they are searched can
 * be missed, so it is gone only when it was found nowhere twice. */
#ifndef WORKER_TASK_AWAIT_H
#define WORKER_TASK_AWAIT_H

#include "worker/commands/console.h"

enum { TASK_AWAIT_SCAN = 10000 };

struct task_await {
    struct console *console;
    const char *jid;
    bool waits;
    bool was_pushed;    /* by this command, so it is known that there is, or was, such a task */
    int64_t wait_ns;    /* at most so long */
    int64_t scan_limit; /* entries of a state */
};

/* Prints the result, or says why there is none. */
int task_await(const struct task_await *await) MUST_CHECK;

#endif
