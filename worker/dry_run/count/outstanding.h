/* The tasks of a dry run that were pushed and have not ended for good, by jid. One thread. */
#ifndef WORKER_DRY_RUN_OUTSTANDING_H
#define WORKER_DRY_RUN_OUTSTANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum outstanding_state {
    OUTSTANDING_WAITING, /* in a queue, in line, or claimed and without its lock */
    OUTSTANDING_INSIDE,  /* its handler runs */
    OUTSTANDING_AWAY,    /* it comes again at a time of its own: it failed, or was put off */
};

/* Times are nanoseconds of CLOCK_BOOTTIME, 0 = not yet. */
struct outstanding {
    struct outstanding *next; /* private */
    uint64_t hash;            /* private */
    int64_t pushed;
    int64_t waits_since;    /* while WAITING: when that began, for this try */
    int64_t asked_since;    /* for this try: when it first asked for its lock, or was parked without that */
    int64_t inside_since;   /* while INSIDE */
    int64_t left;           /* when it last left a slot */
    unsigned host, process; /* of its last enter */
    unsigned tries;         /* holds that it had */
    enum outstanding_state state;
    bool had_runner; /* when it was pushed a runner was free */
    bool was_alone;  /* and nobody had to do with its resources */
    bool is_there;   /* it wants its resources, as far as it was told to their turn-overs */
    bool is_parked;
    unsigned resource_count;
    const char *jid;
    unsigned resources[]; /* numbers of resource_table.h */
};

struct outstanding_table {
    struct outstanding **buckets;
    size_t bucket_count, count;
};

void outstanding_init(struct outstanding_table *table);
void outstanding_fini(struct outstanding_table *table);
/* NULL when it is there already. */
struct outstanding *outstanding_add(struct outstanding_table *table, const char *jid, const unsigned *resources,
                                    unsigned resource_count);
struct outstanding *outstanding_find(const struct outstanding_table *table, const char *jid);
void outstanding_remove(struct outstanding_table *table, struct outstanding *task);
void outstanding_each(const struct outstanding_table *table, void (*visit)(void *context, struct outstanding *task),
                      void *context);

#endif
