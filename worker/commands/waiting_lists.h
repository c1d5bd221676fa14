/* The waiting lists that have tasks now (queue/waiting.h): whose lock or share tasks wait for, and how many do.
 * A task waits while it is parked: it is an entry of `schedule` then. One that keeps its place and was woken is in its
 * queue, or runs, and does not count. Such ones are at the front, where a bounded number is looked at.
 *
 *     struct waiting_lists lists;
 *     int code = waiting_lists_read(&lists, &console);
 *     waiting_lists_free(&lists);                     also after a failure */
#ifndef WORKER_WAITING_LISTS_H
#define WORKER_WAITING_LISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/commands/console.h"

struct waiting_list {
    char *list;       /* "resource:acct:7" */
    const char *kind; /* "resource", "class", or "" when it is neither */
    const char *name; /* "acct:7", in the memory of `list` */
    long long waiters;
};

struct waiting_lists {
    struct waiting_list *items; /* the longest first; none is empty */
    size_t count;
    bool is_cut;   /* there are more than WAITING_LISTS_MAX, of which only those were asked for */
    bool is_clash; /* the key that lists them holds something else */
};

enum { WAITING_LISTS_MAX = 1000 };

int waiting_lists_read(struct waiting_lists *lists, struct console *console) MUST_CHECK; /* an exit code; complains */
long long waiting_lists_total(const struct waiting_lists *lists);
void waiting_lists_free(struct waiting_lists *lists);

#endif
