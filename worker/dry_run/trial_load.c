/* What is pushed while the load lasts: tasks of the generator, at the times that the plan wants or as fast as others
 * end. A shadow pushes by itself (shadow.h).
 *
 * A wait is counted from when a task was to come, not from when it was pushed: else a generator that falls behind would
 * hide just the waits that matter (coordinated omission). */
#include "base/random.h"
#include "worker/dry_run/trial_private.h"

/* Later than this it counts as late. */
#define LATE_NS (50 * NS_PER_MS)
/* At once; what is more comes in the next turn of the loop. */
enum { BURST_MAX = 2000 };

static void task_push(struct trial *trial, struct instant due)
{
    struct load_task task;
    load_next(trial->load, wall_now(), &task);
    tally_pushed(trial->tally, task.jid, task.resources, task.resource_count, due);
    feeder_add(
        trial->feeder,
        &(struct intake_task){
            .payload = task.text, .class_name = task.class_name, .queue = task.queue, .jid = task.jid, .digest = ""});
    trial->pushed++;
    trial->pushed_late += instant_since(due, instant_now()) > LATE_NS;
}

static struct instant next_due(const struct trial *trial)
{
    return instant_after(trial->load_from, load_due_ns(trial->load));
}

/* Open arrivals: all that are due by now. False when no more will come. */
static bool due_push(struct trial *trial)
{
    struct instant now = instant_now();
    for (unsigned i = 0; i < BURST_MAX && !instant_before(now, next_due(trial)); i++) {
        if (instant_reached(next_due(trial), trial->load_until))
            return false;
        task_push(trial, next_due(trial));
    }
    return true;
}

static void arrivals_due(struct loop_timer *timer)
{
    struct trial *trial = list_owner(timer, struct trial, arrival);
    if (due_push(trial))
        loop_timer_set(trial->loop, timer, next_due(trial));
}

void trial_load_follow(struct trial *trial, unsigned ended)
{
    if (trial->load == NULL || trial->plan->arrivals != DRY_RUN_CLOSED || trial->phase != TRIAL_LOADING)
        return;
    for (struct instant now = instant_now(); ended > 0; ended--)
        task_push(trial, now);
}

void trial_load_begin(struct trial *trial)
{
    if (trial->load == NULL) {
        trial_shadow_begin(trial);
        return;
    }
    loop_timer_init(&trial->arrival, arrivals_due);
    if (trial->plan->arrivals == DRY_RUN_OPEN)
        loop_timer_set(trial->loop, &trial->arrival, next_due(trial));
    else
        trial_load_follow(trial, trial->plan->population);
}

/* What was due in the last moment is pushed too, so that a seed gives as many tasks each time. */
void trial_load_end(struct trial *trial)
{
    if (trial->load != NULL && trial->plan->arrivals == DRY_RUN_OPEN && !trial->was_interrupted)
        (void)due_push(trial);
    loop_timer_clear(trial->loop, &trial->arrival);
    if (trial->shadow != NULL)
        shadow_end(trial->shadow);
}
