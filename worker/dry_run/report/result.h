/* What came out of a dry run: everything that the report says, as text, as JSON (result_json.h) and as a page, and that
 * two runs are compared by. Times are seconds, rates are per second, shares are 0 to 1. */
#ifndef WORKER_DRY_RUN_RESULT_H
#define WORKER_DRY_RUN_RESULT_H

#include "base/buffer.h"
#include "base/histogram.h"
#include "worker/dry_run/plan/plan.h"

enum { RESULT_RESOURCES_MAX = 1000, RESULT_NODES_MAX = 16, RESULT_TEXT_MAX = 512, RESULT_ADVICE_MAX = 8 };

/* Durations: how many, their mean and the percentiles that are reported, and how they are spread. */
struct result_spread {
    uint64_t count;
    double mean, p50, p90, p99, p999, max;
    double mean_error;           /* half the width of the 95 % interval of the mean, by batch means; 0 = not known */
    struct histogram *histogram; /* NULL = only the numbers are known */
};

/* What happened in one second of the run (seconds from its beginning). */
struct result_second {
    double at;
    double pushed, ended, parked, handed_over, lost; /* a second */
    double wait_p50, wait_p99, hold_p50, hold_p99, acquire_p50, acquire_p99, extend_p99;
    double waiting; /* tasks in the queues and in waiting lists, at its end */
    double busy;    /* share of the runners */
};

/* What the queueing formula expects. */
struct result_expected {
    bool is_known;      /* it applies, and there was enough to go by */
    double utilisation; /* of the resource */
    double wait;        /* mean; negative = it grows for as long as the load lasts */
    double throughput;  /* tasks a second that end */
};

struct result_resource {
    char *name; /* its own */
    uint64_t arrived, held, parks, hand_overs, lost, fence_refusals, overlaps, refusals;
    double load;       /* tasks that arrived, a second */
    double throughput; /* holds that ended, a second */
    double share_held; /* of the time */
    double waiters;    /* mean number of tasks that wait for it */
    unsigned waiters_max;
    double hold_mean, hold_second_moment;
    double wait_mean, wait_p50, wait_p99;
    double wait_error;      /* half the width of the 95 % interval of wait_mean, by batch means; 0 = not known */
    double changeover_mean; /* from one holder's end to the next holder's start, while a task waited */
    double changeover_second_moment;
    uint64_t changeovers;
    double lone_changeover_mean, lone_changeover_second_moment; /* of those to the only one that waited */
    uint64_t lone_changeovers;
    struct result_expected expected;
};

struct result_node {
    char name[64], address[128];
    bool is_queue_node;
    uint64_t requests, granted, refused, errors, timeouts, split_votes;
    struct result_spread latency;
    /* The node's own count of the same time (INFO), beside what we count that we sent it. */
    uint64_t commands_counted, commands_sent;
    double cpu_share;     /* of one processor, by its own account */
    uint64_t keys_at_end; /* of this run that are left on it, after it was cleaned up */
};

struct result_host {
    char id[DRY_RUN_ID_BYTES + 1]; /* of its part of the run */
    char name[128];
    unsigned processes, threads;
    double cpu_share;      /* of one processor: its workers, all together */
    uint64_t records_lost; /* there was no room for them */
    unsigned processors;   /* of the machine; 0 = not known */
    double machine_busy;   /* share of all of them that was busy, whoever used it; below 0 = not known */
    double load_behind;    /* share of the pushes that came late */
};

/* What a task costs beside its hold, as measured in a run: what the queueing formulas are given besides
 * arrivals and holds. None of these is the wait that they predict. Seconds, and square seconds for second moments. */
struct moments { /* of values that come one by one */
    uint64_t count;
    double sum, squares;
};

struct result_overheads {
    double arrivals;     /* pushes a second, measured */
    double together;     /* resources of a task, mean */
    struct moments base; /* from push to locked, of tasks with no other task in the way */
    /* From one holder's end to the next holder's start, while a task waited: of resources that had too few of their
     * own to speak for themselves. */
    struct moments changeover;
    struct moments crowd_changeover; /* of all resources, while others waited, too */
    double hold_extra;  /* a lock is held longer than its handler was to run: beginning, ending, timers that are late */
    double claim_extra; /* a runner is taken longer than the lock is held: for tasks with no other in the way */
    double park_cost;   /* a runner is taken so long by the parks of a task, mean of all tasks */
    double runner_changeover; /* from one task's end on a runner to the next one's beginning, while tasks were there */
    double next_push;         /* closed loop: from one task's end to the push of the next */
    double tries;             /* holds that a task takes: more than 1 when runs fail and come again */
};

enum result_bottleneck {
    RESULT_NONE,       /* nothing is full */
    RESULT_RESOURCE,   /* one resource is held nearly all the time */
    RESULT_RUNNERS,    /* the threads are busy */
    RESULT_WORKER_CPU, /* the loop of a worker process has no time left */
    RESULT_QUEUE_NODE,
    RESULT_LOCK_NODES,
    RESULT_MACHINE, /* the processors of this machine */
    RESULT_LOAD,    /* the generator itself did not keep up */
    RESULT_TROUBLE, /* no quorum, or nothing ran */
    RESULT_UNKNOWN, /* the run does not show it: too few tasks, faults, or something beside the load held tasks up */
};

struct result_point { /* of a what-if */
    unsigned threads, processes;
    double throughput, wait_mean, wait_p99, share_busy;
    struct result_expected expected;
};

struct result_fault {
    struct dry_run_fault fault;
    char text[RESULT_TEXT_MAX]; /* what was done to whom, and what could be seen of it */
    double at;
    bool was_done;
};

struct result {
    struct dry_run_plan plan;
    char version[32];
    char began[40];      /* wall time */
    int64_t began_us;    /* by the queue node's clock: the same at all hosts of a run */
    double measured_for; /* seconds, the warm-up left out */
    bool was_interrupted;
    bool is_drained; /* nothing was left when it ended */
    /* the plain answer */
    enum result_bottleneck bottleneck;
    double headroom; /* the load could grow by this factor until the bottleneck is full; below 1: it is overloaded; 0 =
                        not known */
    char answer[RESULT_TEXT_MAX];
    char advice[RESULT_ADVICE_MAX][RESULT_TEXT_MAX];
    unsigned advice_count;
    /* totals */
    uint64_t pushed, ended, done, failed /* and are retried, or may not be */, dead, parked, skipped, dropped,
        given_back, lost, fence_refusals, overlaps,
        overlaps_unfenced /* tokens would not have kept one of the two out */, twice /* ended more than once */,
        left /* not ended */;
    double throughput;
    double tries_per_hold;    /* acquisitions that were requested, for one hold */
    double commands_per_hold; /* on one lock node */
    double utilisation;       /* of the runners */
    double overhead_share;    /* of one processor: what the dry run itself used, counting and pushing */
    double observation_ns;    /* what a task costs more because it is observed */
    struct result_spread wait, hold, acquire, extend;
    struct result_expected expected;      /* of all */
    char shadowed[RESULT_TEXT_MAX];       /* what a shadow copied, and what it could not; "" in a rehearsal */
    char formula[RESULT_TEXT_MAX];        /* which formula, and where it is from */
    char crashed_checks[RESULT_TEXT_MAX]; /* classes whose check() crashed or hung, how, and how often; "" = none */
    struct result_second *seconds;
    size_t second_count;
    struct result_resource *resources; /* by load, the greatest first */
    size_t resource_count;
    uint64_t resources_left_out;
    struct result_node nodes[RESULT_NODES_MAX];
    unsigned node_count;
    struct result_overheads overheads;
    struct result_host *hosts;
    size_t host_count;
    struct result_fault faults[DRY_RUN_FAULTS_MAX];
    unsigned fault_count;
    struct result_point points[DRY_RUN_POINTS_MAX];
    unsigned point_count;
};

/* Hosts of the run are missing: results of all of them are joined by result_merge. */
static inline bool result_is_part(const struct result *result)
{
    return result->plan.hosts > 1 && result->host_count < result->plan.hosts;
}

/* Frees what it owns, its plan too, and empties it. */
void result_fini(struct result *result);

/* What colour the answer has. */
enum result_tone {
    RESULT_GOOD, /* there is room everywhere */
    RESULT_FAIR, /* something is a bottleneck, or nothing was measured */
    RESULT_BAD,  /* more comes than can be done, two were at one resource and no fence would have shown it, or code
                    of production crashed */
};
enum result_tone result_tone(const struct result *result);

/* What is no terminal gets lines of this width; a terminal gets its own, within the bounds. */
enum { RESULT_TEXT_WIDTH = 100, RESULT_TEXT_WIDTH_MIN = 60, RESULT_TEXT_WIDTH_MAX = 140 };

/* For a terminal or a file of text: the plain answer first, then what it was found by. Appends the lines, each with a
 * line end and at most `width` wide. */
void result_text_write(const struct result *result, unsigned width, bool has_colour, struct buffer *out);

/* As one page of HTML that needs nothing else, however long the run was and however many resources it had. */
enum { RESULT_PAGE_MAX = 2 * 1024 * 1024 };
void result_page_write(const struct result *result, struct buffer *out);

#endif
