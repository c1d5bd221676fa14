/* What the observer of a worker is told (observer.h). On the loop; only the two ends of a run are noted by the runner.
 *
 * The loop's own time is that of the beginning of its turn, which may be a millisecond old by the time that an answer
 * is looked at: so what is told is read off the clock where it happens, and without an observer nothing is read. */
#include <sys/resource.h>

#include "worker/worker_state.h"

#define LOOK_NS (500 * NS_PER_MS)

static bool is_observed(const struct slot *slot)
{
    return slot->worker->options.observer != NULL;
}

/* --- a task ------------------------------------------------------------------------------------------------------- */

void slot_observe_claim(struct slot *slot)
{
    if (is_observed(slot))
        slot->observed = (struct slot_observed){.claimed = instant_now()};
}

void slot_observe_asking(struct slot *slot)
{
    if (is_observed(slot))
        slot->observed.asked = instant_now();
}

void slot_observe_answer(struct slot *slot, const struct redlock_event *event)
{
    struct slot_observed *observed = &slot->observed;
    if (!is_observed(slot))
        return;
    observed->attempts = event->attempts;
    if (event->answer != REDLOCK_ACQUIRED) {
        observed->had_refusal = true;
        observed->refusal = event->answer;
        return;
    }
    observed->locked = instant_now();
    observed->token = redlock_lock_token(slot->lock);
    observed->handed_over = event->handed_over;
}

void slot_observe_lost(struct slot *slot)
{
    slot->observed.was_lost = is_observed(slot);
}

void slot_observe_fenced_off(struct slot *slot)
{
    slot->observed.was_fenced_off = is_observed(slot);
}

/* A handler that was abandoned still runs, and its runner may be writing when it began. */
static void run_fill(const struct slot *slot, struct observed_task *task)
{
    if (slot->abandoned) {
        task->started = slot->handed_over;
        return;
    }
    if (!slot->started)
        return;
    task->started = slot->run_started;
    task->ended = slot->run_ended;
    task->was_lost = task->was_lost || slot->hold != FLOW_HELD;
}

void slot_observe_left(struct slot *slot, enum flow_ending ending)
{
    const struct worker_observer *observer = slot->worker->options.observer;
    const struct slot_observed *observed = &slot->observed;
    if (observer == NULL || observer->task_left == NULL)
        return;
    bool is_task = slot->invalid.text[0] == '\0';
    struct observed_task task = {
        .jid = slot->jid,
        .class_name = is_task ? slot->envelope.class_name : "",
        .resources = slot->resources.names,
        .resource_count = is_task ? slot->resources.count : 0,
        .ending = ending,
        .claimed = observed->claimed,
        .asked = observed->asked,
        .locked = observed->locked,
        .left = instant_now(),
        .attempts = observed->attempts,
        .token = observed->token,
        .handed_over = observed->handed_over,
        .had_refusal = observed->had_refusal,
        .refusal = observed->refusal,
        .was_lost = observed->was_lost,
        .was_fenced_off = observed->was_fenced_off,
    };
    run_fill(slot, &task);
    observer->task_left(observer->context, &task);
    slot->observed = (struct slot_observed){.attempts = 0};
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static bool is_running(const struct slot *slot)
{
    return slot->flow.state == FLOW_READY && !slot->has_ended && !slot_run_waits(slot);
}

static unsigned running_count(const struct worker *worker)
{
    unsigned count = 0;
    for (unsigned i = 0; i < worker->slot_count; i++)
        count += is_running(&worker->slots[i]);
    return count;
}

static int64_t time_ns(struct timeval time)
{
    return (int64_t)time.tv_sec * NS_PER_S + (int64_t)time.tv_usec * NS_PER_US;
}

static int64_t cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
}

static void locks_fill(const struct redlock_group *locks, struct observed_process *process,
                       const struct redlock_node_counters *nodes[REDLOCK_NODES_MAX + 1])
{
    process->locks = redlock_group_counters(locks);
    process->extensions = redlock_group_extensions(locks);
    process->nodes = nodes;
    while ((nodes[process->node_count] = redlock_group_node_counters(locks, process->node_count)) != NULL)
        process->node_count++;
}

void worker_observe(struct worker *worker)
{
    const struct worker_observer *observer = worker->options.observer;
    const struct redlock_node_counters *nodes[REDLOCK_NODES_MAX + 1];
    if (observer == NULL || observer->looked == NULL)
        return;
    struct observed_process process = {
        .at = instant_now(),
        .runners = worker->runner_count,
        .busy = running_count(worker),
        .cpu_ns = cpu_ns(),
        .claims = queue_counters(worker->queue)->claims,
        .claim_calls = queue_counters(worker->queue)->claim_calls,
    };
    if (worker->locks != NULL)
        locks_fill(worker->locks, &process, nodes);
    observer->looked(observer->context, &process);
}

static void observe_fire(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, observe);
    loop_timer_set(worker->loop, timer, loop_after(worker->loop, LOOK_NS));
    worker_observe(worker);
}

void worker_observe_begin(struct worker *worker)
{
    loop_timer_init(&worker->observe, observe_fire);
    if (worker->options.observer != NULL)
        loop_timer_set(worker->loop, &worker->observe, loop_now(worker->loop));
}
