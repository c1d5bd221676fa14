/* What the files of the statistics share. stats.c takes in, stats_task.c judges what became of a task, stats_result.c
 * sums up; all keep what they know in the tables of stats_tables.c, which know nothing of each other. One thread. */
#ifndef WORKER_DRY_RUN_STATS_PRIVATE_H
#define WORKER_DRY_RUN_STATS_PRIVATE_H

#include "base/heap.h"
#include "base/histogram.h"
#include "worker/dry_run/count/overlap_detector.h"
#include "worker/dry_run/count/stats.h"
#include "worker/dry_run/report/estimate.h"

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* The tasks of a dry run that were pushed and have not ended for good, by jid. */
enum outstanding_state {
    OUTSTANDING_WAITING, /* in a queue, in a waiting list, or claimed and without its lock */
    OUTSTANDING_INSIDE,  /* its handler runs */
    OUTSTANDING_AWAY,    /* it comes again at a time of its own: it failed, or was put off */
};

/* Times are nanoseconds of CLOCK_BOOTTIME, 0 = not yet. */
struct outstanding {
    struct outstanding *next; /* private */
    uint64_t hash;            /* private */
    int64_t pushed;
    int64_t waits_since;  /* while WAITING: when that began, for this try */
    int64_t asked_since;  /* for this try: when it first requested its lock, or was parked without that */
    int64_t inside_since; /* while INSIDE */
    int64_t left;         /* when it last left a slot */
    unsigned process;     /* of its last enter */
    unsigned tries;       /* holds that it had */
    enum outstanding_state state;
    bool had_runner; /* when it was pushed a runner was free */
    bool was_alone;  /* and no other task was at its resources */
    bool is_there;   /* it wants its resources, as noted at their changeovers */
    bool is_parked;
    unsigned resource_count;
    const char *jid;
    unsigned resources[]; /* numbers of resources, or RESOURCE_NONE */
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

/* --- resources ---------------------------------------------------------------------------------------------------- */

/* What is counted of each resource of a dry run. A resource gets a number when it is first seen, from 0 on; the numbers
 * go up to a limit, and what comes then has none. */
#define RESOURCE_NONE UINT32_MAX

/* Of those that had some load. */
struct resource_detail {
    struct histogram waits;
    struct batch_means means;
    struct moments lone_changeovers; /* of the changeovers, those for which only one waited */
};

/* "measured": in the measured part of the run. Seconds; instants are nanoseconds. */
struct resource_count {
    char *name;          /* its own */
    uint32_t next, hash; /* private */
    unsigned arrived, arrived_measured, held, parks, hand_overs, lost, refusals, fence_refusals, overlaps;
    unsigned outstanding;                     /* tasks of it that have not ended */
    unsigned waiting, waiting_max;            /* of them, those that wait now, and the most that ever did */
    double waiting_time;                      /* measured: of all tasks together */
    double held_time;                         /* measured */
    struct moments holds, waits, changeovers; /* measured */
    /* As it was at the time up to which things are in order. */
    unsigned there, behind; /* tasks that want it; that the last holder left behind */
    int64_t first_came;     /* when a task came and no other was there */
    bool first_found_runner;
    bool is_broken;                 /* the last holder did not leave */
    int64_t last_left;              /* of the last holder, in order; 0 = not known */
    struct resource_detail *detail; /* its own; NULL = too little load, or too many others */
};

struct resource_table {
    struct resource_count *resources;
    size_t count, capacity, limit;
    uint32_t *buckets;
    size_t bucket_count;
    unsigned detailed, detailed_max;
    unsigned detailed_from; /* arrivals that it takes */
    uint64_t left_out;      /* arrivals at what got no number */
};

/* Details are kept of the first `detailed_max` resources with so many arrivals. */
void resource_table_init(struct resource_table *table, size_t limit, unsigned detailed_max, unsigned detailed_from);
void resource_table_fini(struct resource_table *table);
uint32_t resource_table_number(struct resource_table *table, const char *name);
void resource_table_arrive(struct resource_table *table, uint32_t number, bool is_measured);
/* NULL for RESOURCE_NONE. Valid until a resource is added. */
static inline struct resource_count *resource_table_at(const struct resource_table *table, uint32_t number)
{
    return number == RESOURCE_NONE ? NULL : &table->resources[number];
}

/* --- what happens at resources ------------------------------------------------------------------------------------ */

/* Puts what tasks do at resources into the order in which it happened. Records of one process come in order, those of
 * different ones do not: an event is taken EVENT_ORDER_NS after it, by the latest time that was reported. */
#define EVENT_ORDER_NS (2 * NS_PER_S)

enum resource_event_kind {
    EVENT_COMES,  /* a task wants the resource from now on */
    EVENT_LEAVES, /* one that had it */
    EVENT_GOES,   /* one that had it not */
    EVENT_BREAKS, /* it was held, until some time before */
};

/* Nanoseconds. */
struct resource_event {
    enum resource_event_kind kind;
    uint32_t resource;
    int64_t at;
    bool
        found_runner; /* COMES: a runner was free, and it wants nothing else. LEAVES: one was free when it was pushed */
    /* LEAVES */
    int64_t locked, asked_since; /* it had it; it requested it, 0 = not known */
    bool handed_over, had_refusal;
};

void event_order_fini(struct heap *order); /* a zeroed one is empty */
void event_order_add(struct heap *order, const struct resource_event *event);
/* False when nothing happened before `until`. */
bool event_order_take(struct heap *order, struct instant until, struct resource_event *event);

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* What worker processes say of themselves a few times a second, as differences: their counters count from the start of
 * a process, and a process that was killed begins anew. */
/* The last that one process said. */
struct process_count {
    struct instant heard; /* 0 = nothing yet, of this life */
    unsigned runners, busy;
    int64_t cpu_ns;
    uint64_t claim_calls;
    struct histogram extensions;
    struct redlock_node_counters nodes[RECORD_NODES_MAX];
};

/* Sums of what all said. */
struct process_sums {
    struct histogram extensions;                          /* measured */
    struct redlock_node_counters nodes[RECORD_NODES_MAX]; /* counts of the whole run, latency measured */
    uint64_t claim_calls;                                 /* of the whole run */
    unsigned node_count;
};

/* --- seconds ------------------------------------------------------------------------------------------------------ */

/* The lines of a run, one a second: counts and percentiles of what happened since the line before. */
enum { SECOND_SERIES_MAX = 24 * 60 * 60 }; /* what comes then is not kept */

struct second_series {
    struct instant began, closed; /* the run; the last line */
    /* since then */
    uint64_t pushed, ended, parked, handed_over, lost;
    struct histogram wait, hold, acquire, extend;
    double taken_s; /* of the runners, by tasks */
    /* closed lines; their `busy` is in seconds until they are taken */
    struct result_second *lines;
    size_t count, capacity;
};

void second_series_init(struct second_series *series, struct instant began);
void second_series_fini(struct second_series *series);
/* A task took a runner for this time, which may lie in lines that are closed. */
void second_series_take(struct second_series *series, int64_t from_ns, int64_t until_ns);
/* Makes a line of what came since the last one; `waiting` as now. A line of no time is none. */
void second_series_close(struct second_series *series, struct instant now, double waiting);
/* The lines, which are the caller's from now on, with shares of so many runners. */
struct result_second *second_series_finish(struct second_series *series, unsigned runners, size_t *count);

/* --- crashes ------------------------------------------------------------------------------------------------------ */

/* Classes whose check() of arguments came to a bad end in a dry run, and how often. */
enum { CRASH_LIST_CLASSES_MAX = 16, CRASH_LIST_NAME_MAX = 128 };

/* Zeroed: none. */
struct crash_list {
    struct crash_count {
        char class_name[CRASH_LIST_NAME_MAX];
        int signal; /* of the first */
        bool hangs;
        uint64_t count;
    } classes[CRASH_LIST_CLASSES_MAX];
    unsigned count;
    uint64_t others; /* crashes of classes there was no room for */
};

/* --- the statistics ----------------------------------------------------------------------------------------------- */

struct stats_node_count {
    struct result_node told;
    bool is_known;
    struct stats_node_sample last;
    double cpu_s, cpu_over_s; /* measured */
};

struct stats {
    const struct dry_run_plan *plan;
    struct instant load_from, measured_from;
    struct instant load_until; /* INSTANT_NEVER while it goes on */
    struct instant latest;     /* of what was reported */
    struct instant calm_until; /* the first fault; INSTANT_NEVER without one */

    struct outstanding_table tasks;
    struct resource_table resources;
    struct second_series series;
    struct heap events;
    struct overlap_detector *detector;
    unsigned parked_now, inside_now, away_now; /* of the tasks that are outstanding */

    struct result_host host;
    int64_t cpu_ns, cpu_over_ns; /* measured: of all processes, and the time of theirs that it is of */
    struct process_count *processes[DRY_RUN_PROCESSES_MAX]; /* its own; NULL = no record yet */
    struct stats_node_count nodes[RESULT_NODES_MAX];
    struct process_sums sums;
    struct crash_list crashes; /* of the check() of arguments */

    /* the whole run */
    uint64_t pushed, ended, endings[FLOW_ENDINGS], lost, twice, asks, holds, first_holds, overlaps, overlaps_unfenced,
        fence_refusals;
    /* measured */
    uint64_t ended_measured, pushed_measured, arrived_measured /* at all resources */;
    struct histogram wait, hold, acquire;
    struct batch_means wait_means, hold_means, acquire_means; /* of the same, in seconds */
    struct moments holds_measured, runs_measured;
    struct moments base, changeover;   /* model.h */
    struct moments claim_extra, parks; /* seconds that a runner was taken */
    double taken_s;                    /* of the runners by tasks, all together */
    /* the changeover of runners: of seconds in which tasks were there all the time */
    double runner_idle_s, taken_this_second;
    uint64_t runner_changeovers, left_this_second;
    bool was_backlog;
    struct moments next_push; /* closed loop */
    int64_t made_room;        /* the last task that left, unless another was pushed since; 0 = none */
};

static inline double seconds_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* Nearest microsecond. */
static inline int64_t microseconds_of(int64_t ns)
{
    return (ns + NS_PER_US / 2) / NS_PER_US;
}

static inline bool stats_is_measured(const struct stats *stats, int64_t at_ns)
{
    return at_ns >= stats->measured_from.ns && at_ns < stats->load_until.ns;
}

/* What is measured then is what a task costs, and not what a fault did. */
static inline bool stats_is_calm(const struct stats *stats, int64_t at_ns)
{
    return stats_is_measured(stats, at_ns) && at_ns < stats->calm_until.ns;
}

/* Seconds of the interval that lie in the measured part. */
double stats_clip(const struct stats *stats, int64_t from_ns, int64_t until_ns);
static inline unsigned stats_runners(const struct stats *stats)
{
    return stats->plan->processes * stats->plan->threads;
}

/* A task took a runner for this time. */
void stats_runner_taken(struct stats *stats, int64_t from_ns, int64_t until_ns);

/* `task` goes from what it does to `state`, from `at_ns` on. */
void stats_task_is(struct stats *stats, struct outstanding *task, enum outstanding_state state, int64_t at_ns);
/* It wants its resources from then on; it does no more, and did not have them. */
void stats_task_comes(struct stats *stats, struct outstanding *task, int64_t at_ns);
void stats_task_goes(struct stats *stats, struct outstanding *task, int64_t at_ns);
/* It waited for its lock until then. */
void stats_task_waited(struct stats *stats, struct outstanding *task, int64_t until_ns);
void stats_task_left(struct stats *stats, const struct observed_task *left);
/* Holds that have come into order by then. */
void stats_events_take(struct stats *stats, struct instant until);

#endif
