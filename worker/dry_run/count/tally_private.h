/* What the files of the tally share. tally.c takes in, tally_task.c judges what became of a task, tally_result.c sums
 * up. */
#ifndef WORKER_DRY_RUN_TALLY_PRIVATE_H
#define WORKER_DRY_RUN_TALLY_PRIVATE_H

#include "worker/dry_run/count/batch_means.h"
#include "worker/dry_run/count/crash_list.h"
#include "worker/dry_run/count/outstanding.h"
#include "worker/dry_run/count/process_count.h"
#include "worker/dry_run/count/resource_table.h"
#include "worker/dry_run/count/second_series.h"
#include "worker/dry_run/count/tally.h"
#include "worker/dry_run/count/turn_order.h"
#include "worker/dry_run/count/witness.h"

/* A mean and a second moment in the making. */
struct moments {
    uint64_t count;
    double sum, squares;
};

static inline void moments_add(struct moments *moments, double value)
{
    moments->count++;
    moments->sum += value;
    moments->squares += value * value;
}

static inline double moments_mean(const struct moments *moments)
{
    return moments->count > 0 ? moments->sum / (double)moments->count : 0;
}

static inline double moments_second(const struct moments *moments)
{
    return moments->count > 0 ? moments->squares / (double)moments->count : 0;
}

struct tally_host_count {
    char name[128];
    unsigned processes, threads;
    int64_t clock_error_ns;
    uint64_t records_lost;
    int64_t cpu_ns, cpu_over_ns; /* measured: of all its processes, and the time of theirs that it is of */
    struct process_count *process[DRY_RUN_PROCESSES_MAX]; /* its own; NULL = not heard yet */
};

struct tally_node_count {
    char name[64], address[128];
    bool is_known, is_queue_node;
    struct tally_node_sample last;
    uint64_t commands, commands_sent;
    double cpu_s, cpu_over_s; /* measured */
};

struct tally {
    const struct dry_run_plan *plan;
    struct instant load_from, measured_from;
    struct instant load_until; /* INSTANT_NEVER while it goes on */
    struct instant latest;     /* of what was heard */

    struct outstanding_table tasks;
    struct resource_table resources;
    struct second_series series;
    struct turn_order turns;
    struct witness *witness;
    unsigned parked_now, inside_now, away_now; /* of the tasks that are outstanding */

    struct tally_host_count *hosts[TALLY_HOSTS_MAX];
    unsigned host_count; /* the highest number and one */
    struct tally_node_count nodes[RESULT_NODES_MAX];
    struct process_sums sums;
    struct crash_list crashes; /* of the check() of arguments */

    /* the whole run */
    uint64_t pushed, ended, endings[FLOW_ENDINGS], lost, twice, asks, holds, first_holds, overlaps, overlaps_unfenced,
        fence_refusals;
    /* measured */
    uint64_t ended_measured, pushed_measured;
    struct histogram wait, hold, acquire;
    struct batch_means wait_means, hold_means, acquire_means; /* of the same, in seconds */
    struct moments holds_measured, runs_measured;
    struct moments base, turn;         /* model_overheads.h */
    struct moments claim_extra, parks; /* seconds that a runner was taken */
    double taken_s;                    /* of the runners by tasks, all together */
    /* the turn of runners: of seconds in which tasks were there all the time */
    double runner_idle_s, taken_this_second;
    uint64_t runner_turns, left_this_second;
    bool was_backlog;
    struct moments next_push; /* closed loop */
    int64_t *ends;            /* of tasks whose successor was not pushed yet, a ring; its own */
    size_t end_first, end_count, end_capacity;

    struct model_overheads overheads;
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

static inline bool tally_is_measured(const struct tally *tally, int64_t at_ns)
{
    return at_ns >= tally->measured_from.ns && at_ns < tally->load_until.ns;
}

/* Seconds of the interval that lie in the measured part. */
double tally_clip(const struct tally *tally, int64_t from_ns, int64_t until_ns);
unsigned tally_runners(const struct tally *tally);
/* A task took a runner for this time. */
void tally_runner_taken(struct tally *tally, int64_t from_ns, int64_t until_ns);

/* `task` goes from what it does to `state`, from `at_ns` on. */
void tally_task_is(struct tally *tally, struct outstanding *task, enum outstanding_state state, int64_t at_ns);
/* It wants its resources from then on; it does no more, and did not have them. */
void tally_task_comes(struct tally *tally, struct outstanding *task, int64_t at_ns);
void tally_task_goes(struct tally *tally, struct outstanding *task, int64_t at_ns);
/* It waited for its lock until then. */
void tally_task_waited(struct tally *tally, struct outstanding *task, int64_t until_ns);
/* Times in `left` are this host's. */
bool tally_task_left(struct tally *tally, const struct observed_task *left);
void tally_task_gone(struct tally *tally, struct outstanding *task);
/* Holds that have come into order by then. */
void tally_turns_take(struct tally *tally, struct instant until);

#endif
