/* The waiting lists that have tasks now (queue/waiting.h): whose lock or share tasks wait for, and how many do.
 * A task waits while it is parked: it is an entry of `schedule` then. One that stays in its list and was woken is in
 * its queue, or runs, and does not count. Such ones are at the front, where a bounded number is looked at.
 *
 *     struct waiting_lists lists;
 *     int code = waiting_lists_read(&lists, &console);
 *     waiting_lists_free(&lists);                     also after a failure */
#ifndef WORKER_WAITING_LISTS_H
#define WORKER_WAITING_LISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "worker/commands/console.h"
#include "worker/print/printer.h"

/* The tasks that wait for a lock, in the order in which the queue node recorded them (docs/data-model.md). Read-only.
 *
 *     struct lock_waiters waiters;
 *     int code = lock_waiters_read(&waiters, &console, "acct:42", 50);
 *     lock_waiters_free(&waiters);                  also after a failure
 *
 * A task that locks several resources waits in the list of the one that was refused. */
enum lock_waiter_state {
    LOCK_WAITER_PARKED,   /* in `schedule`, until it is woken or due */
    LOCK_WAITER_ON_WAY,   /* woken, due or claimed: in a queue, or tried at this moment */
    LOCK_WAITER_VANISHED, /* another program took it out of `schedule`: nobody waits for it, and it leaves the list */
    LOCK_WAITER_UNKNOWN,  /* it has left the list meanwhile, or is nothing that is understood */
};

struct lock_waiter {
    char *jid, *queue, *class_name; /* "" when not known */
    enum lock_waiter_state state;
    struct wall_time due; /* of a parked one: when it looks by itself; else: since when it is on its way */
    char due_text[32], digest[48];
};

struct lock_waiters {
    struct lock_waiter *items;
    size_t count;
    long long total; /* those behind the limit included */
};

int lock_waiters_read(struct lock_waiters *waiters, struct console *console, const char *list,
                      size_t limit); /* console->code */
void lock_waiters_free(struct lock_waiters *waiters);

void lock_waiters_put(const struct lock_waiters *waiters, struct printer *out); /* members waiters, waiting */

/* Reads "due\ndigest\nqueue\nset\nclass" into a waiter whose state is then known but for one question: whether
 * `schedule` has something at its time. Pure. */
void lock_waiter_read(struct lock_waiter *waiter, const char *text, size_t length);
/* It has not: another program deleted it, or moved it to its queue when it was due. Pure. */
void lock_waiter_gone(struct lock_waiter *waiter, struct wall_time now);

/* Appends a request that lets the oldest of the list go, as if the lock had just been released. May be repeated. */
void lock_waiters_request_free(const struct console *console, const char *list, struct buffer *out);

struct waiting_list {
    char *list;       /* "resource:acct:7" */
    const char *kind; /* "resource", "seats" of a resource, "class", or "" when it is none of them */
    const char *name; /* "acct:7", in the memory of `list` */
    long long waiters;
};

struct waiting_lists {
    struct waiting_list *items; /* the longest first; none is empty */
    size_t count;
    bool is_cut;   /* there are more than WAITING_LISTS_MAX, of which only so many were read */
    bool is_clash; /* the key that lists them holds something else */
};

enum { WAITING_LISTS_MAX = 1000 };

int waiting_lists_read(struct waiting_lists *lists, struct console *console); /* console->code */
long long waiting_lists_total(const struct waiting_lists *lists);
/* Rows of a list, at most so many. */
void waiting_lists_put(const struct waiting_lists *lists, size_t most, struct printer *out);
void waiting_lists_free(struct waiting_lists *lists);

#endif
