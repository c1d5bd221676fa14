/* What a task costs beside its hold, as measured in a run: what the queueing formulas (model.h) are given besides
 * arrivals and holds. None of these is the wait that they predict. Seconds, and square seconds for second moments. */
#ifndef WORKER_DRY_RUN_MODEL_OVERHEADS_H
#define WORKER_DRY_RUN_MODEL_OVERHEADS_H

#include <stdint.h>

enum { MODEL_TURNS_MIN = 30 };

struct model_overheads {
    double arrivals;                 /* pushes a second, measured */
    double base, base_second_moment; /* from push to locked, of tasks that nobody was in the way of */
    uint64_t base_count;
    /* From one holder's end to the next holder's start, while somebody waited: of resources that had fewer than
     * MODEL_TURNS_MIN of their own. */
    double turn, turn_second_moment;
    uint64_t turn_count;
    double crowd_turn, crowd_turn_second_moment; /* of all resources, while others waited, too */
    uint64_t crowd_turn_count;
    double hold_extra;  /* a lock is held longer than its handler was to run: beginning, ending, timers that are late */
    double claim_extra; /* a runner is taken longer than the lock is held: for tasks that nobody was in the way of */
    double park_cost;   /* a runner is taken so long by the parks of a task, mean of all tasks */
    double runner_turn; /* from one task's end on a runner to the next one's beginning, while tasks were there */
    double next_push;   /* closed loop: from one task's end to the push of the next */
    double tries;       /* holds that a task takes: more than 1 when runs fail and come again */
};

#endif
