/* The generated load of a rehearsal: which task comes when, and what it wants. Pure: everything follows from the seed
 * of the plan and the number of the task. So a seed gives the same arrivals, resources, holds and failures in every run
 * and at every point of a what-if; only the id of the run in the jids differs.
 *
 *     struct load *load = load_create(&plan);           a complete plan, which outlives the load
 *     while (load_due_ns(load) <= so long ago the load began)   DRY_RUN_OPEN
 *         load_next(load, wall_now(), &task);           push it
 *     load_next(load, wall_now(), &task);               DRY_RUN_CLOSED: `population` of them at the beginning, and
 *     load_destroy(load);                               the next one when one has ended
 *
 * Used by one thread. The draws below are for any thread, and for handlers: they know the plan and the jid only. */
#ifndef WORKER_DRY_RUN_LOAD_GENERATOR_H
#define WORKER_DRY_RUN_LOAD_GENERATOR_H

#include "queue/envelope.h"
#include "worker/dry_run/plan/plan.h"

#define LOAD_QUEUE "default"

/* Of the tasks of this host: in a run of several each has a queue of its own, so that it sees all that becomes of its
 * tasks. */
static inline const char *load_queue(const struct dry_run_plan *plan)
{
    return plan->hosts > 1 ? plan->id : LOAD_QUEUE;
}

enum { LOAD_JID_DIGITS = 24 };

struct load_task {
    uint64_t number; /* 0, 1, ... */
    int64_t at_ns;   /* DRY_RUN_OPEN: after the load began; DRY_RUN_CLOSED: 0 */
    char jid[LOAD_JID_DIGITS + 1];
    const char *class_name, *queue;
    struct text_span text; /* the complete task */
    const char *const *resources;
    unsigned resource_count; /* `resources_per_task`, all different */
};

struct load;

struct load *load_create(const struct dry_run_plan *plan);
void load_destroy(struct load *load); /* NULL is fine */

/* When the next one comes; 0 = at once, as in a closed loop. */
int64_t load_due_ns(const struct load *load);
/* The next one. `now` is what its times say. Its texts are valid until the next call. */
void load_next(struct load *load, struct wall_time now, struct load_task *task);

/* What of a task is drawn. */
enum load_lot { LOAD_HOLD, LOAD_FAILURE };

/* A number in [0, 1) that follows from the seed, the jid and `attempt` (0 for the first run, as job.h counts). The id
 * of the run at the beginning of a jid does not count. Any jid will do, of a shadow too. */
double load_draw(const struct dry_run_plan *plan, const char *jid, unsigned attempt, enum load_lot lot);
/* How long this run holds, by that distribution (of the plan, or of its class) and the plan's speed. */
int64_t load_hold_ns(const struct dry_run_plan *plan, const struct distribution *hold, const char *jid,
                     unsigned attempt);
/* Whether it fails. */
bool load_fails(const struct dry_run_plan *plan, const char *jid, unsigned attempt);

#endif
