/* The worker processes that the queue node knows of: ours by their leases, and all that dashboards show.
 *
 *     struct fleet fleet;
 *     int code = fleet_read(&fleet, &console);
 *     fleet_free(&fleet);                          also after a failure */
#ifndef WORKER_FLEET_H
#define WORKER_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/terms.h"
#include "worker/commands/console.h"
#include "worker/commands/process_info.h"
#include "worker/print/printer.h"

enum fleet_state {
    FLEET_ALIVE,     /* its lease runs */
    FLEET_LOST,      /* its lease has ended and nobody has recovered its claims yet */
    FLEET_RECOVERED, /* its lease has ended and its claims were recovered */
    FLEET_UNLEASED,  /* calls itself holdfast, without a lease: it stopped, or is of another scheme */
    FLEET_FOREIGN,   /* a worker of another program */
};

struct fleet_process {
    char *identity;
    enum fleet_state state;
    bool is_leased, is_shown;   /* in hf:2:processes; has a hash for dashboards */
    struct wall_time lease_end; /* of a leased one, in the node's time */
    /* From its hash for dashboards; 0 and "" when it says nothing. Its queues may also come from its lease. */
    struct process_info info;
    long long concurrency, busy, rss_kb;
    int64_t rtt_us;
    bool is_quiet;
    struct wall_time beat;
    char *classes;    /* that it serves, one a line; NULL: it does not say */
    bool is_clash;    /* that hash is none: something foreign is under its key */
    long long claims; /* slots and queues in its hash of claims; of a leased one */
    /* Its terms, and the items of them for which it waits, one a line (queue/terms.h); "" = none. */
    char *terms, *waits;
};

struct fleet {
    struct fleet_process *items; /* by identity */
    size_t count;
    bool is_cut; /* there are more than FLEET_MAX */
};

enum { FLEET_MAX = 10000 };
/* A worker sends a heartbeat every five seconds: after so long one is missing. */
#define FLEET_BEAT_LATE_US (7 * US_PER_S)
/* Living processes have recovered the claims of one whose lease ended so long ago: they look when they renew their own
 * leases, and have held those for a while. */
#define FLEET_RECOVERY_US (60 * US_PER_S)

int fleet_read(struct fleet *fleet, struct console *console); /* console->code */
void fleet_free(struct fleet *fleet);

const struct fleet_process *fleet_find(const struct fleet *fleet, const char *identity); /* or NULL */
/* Whether a living process of ours serves the class, or may: one that does not say which it serves. */
bool fleet_announces(const struct fleet *fleet, const char *class_name);
/* Whether the queue is one of its, and whether it lives as well, be it ours or not. */
bool fleet_process_names(const struct fleet_process *process, const char *queue);
bool fleet_process_serves(const struct fleet_process *process, const char *queue);
size_t fleet_servers(const struct fleet *fleet, const char *queue); /* how many do */

/* Compares the terms of all processes that may run tasks with each other, or with `own` if that is not NULL. Calls
 * `tell` for each item on which two differ: once an item and pair of texts. */
void fleet_compare_terms(const struct fleet *fleet, const struct terms_party *own,
                         void (*tell)(void *context, const struct terms_difference *difference), void *context);

/* A row of the list of processes. */
void fleet_process_put(const struct fleet_process *process, struct printer *out);

#endif
