/* The queues on the node: how long they are, how long their oldest task has waited, whether they are paused.
 *
 *     struct backlog backlog;
 *     int code = backlog_read(&backlog, &console);
 *     backlog_free(&backlog);                      also after a failure */
#ifndef WORKER_BACKLOG_H
#define WORKER_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/commands/fleet.h"
#include "worker/print/printer.h"

struct backlog_queue {
    char *name;
    long long length;   /* -1: its key holds something that is no list */
    int64_t latency_us; /* since the oldest was put there; -1: not known, 0: empty */
    bool is_paused;
    bool is_listed; /* in `queues` */
    /* Of one that grows: at least so many were pushed within the last minute, and all of them still wait. Else 0. */
    long long pushed_lately;
};

struct backlog {
    struct backlog_queue *items; /* by name */
    size_t count, capacity;
    bool is_cut;       /* there are more, about BACKLOG_MAX were read */
    size_t long_names; /* that were left out: no queue can have them */
    /* The keys `queues` and `paused` could be read; else names are missing, and is_paused says nothing. */
    bool knows_listed, knows_paused;
};

enum { BACKLOG_MAX = 1000000 };

/* Every queue that is listed or paused. */
int backlog_read(struct backlog *backlog, struct console *console); /* console->code */
/* Afterwards: which queues grow. `done` is what the fleet did in a minute, -1: not known. */
void backlog_growth_read(struct backlog *backlog, struct console *console, long long done);
void backlog_free(struct backlog *backlog);
/* Says on standard error what could not be read, or was left out. */
void backlog_complain(const struct backlog *backlog, struct console *console);
void backlog_complain_cut(const struct backlog *backlog, struct console *console); /* only the latter */
/* The list "queues", which is null for programs when it is not known which there are; and only its rows. With a fleet:
 * who serves each. */
void backlog_put(const struct backlog *backlog, const struct fleet *fleet, struct printer *out);
void backlog_put_rows(const struct backlog *backlog, const struct fleet *fleet, struct printer *out);
const struct backlog_queue *backlog_find(const struct backlog *backlog, const char *name); /* or NULL */

#endif
