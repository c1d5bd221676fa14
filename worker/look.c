/* What a worker looks at ten times a second: whether its lock nodes may be used, whether it was away, and whether it is
 * done. On the loop. */
#include "base/log.h"
#include "worker/lock_judge.h"
#include "worker/worker_state.h"

#define LOOK_NS (100 * NS_PER_MS)

static bool has_quorum(const struct redlock_standing *standing)
{
    return standing->voters >= standing->nodes / 2 + 1;
}

/* True when the worker stops because of what the lock nodes are. */
static bool locks_are_wrong(struct worker *worker, const struct redlock_standing *standing)
{
    char reason[LOCK_JUDGE_REASON_MAX];
    const char *event = lock_judge(worker->options.config, worker->options.plugins, standing, reason);
    worker->judged = event == NULL && has_quorum(standing);
    if (event == NULL)
        return false;
    log_event(LOG_ERROR, event, "%s", reason);
    worker->exit_code = EXIT_CODE_FAILURE;
    worker_stop(worker, event);
    return true;
}

static void locks_ready(struct worker *worker)
{
    worker->ready = true;
    worker->wake_next = worker->runner_count;
    worker_wake_idle(worker);
    worker_listen(worker);
}

static void locks_look(struct worker *worker)
{
    struct redlock_standing standing;
    if (worker->locks == NULL) {
        if (!worker->ready)
            locks_ready(worker);
        return;
    }
    redlock_group_standing(worker->locks, &standing);
    bool settled = redlock_group_is_settled(worker->locks);
    if (settled && !worker->judged && locks_are_wrong(worker, &standing))
        return;
    bool can_lock = worker->judged && has_quorum(&standing);
    bool ready = can_lock || (settled && config_runs_unlocked(worker->options.config));
    if (ready == worker->ready)
        return;
    if (ready) {
        locks_ready(worker);
        return;
    }
    worker->ready = false;
    log_event(LOG_ERROR, "lock_quorum_missing",
              "nodes=%u nodes_up=%u voters=%u advice=\"nothing is claimed until a majority may vote; holdfast nodes "
              "tells why one may not\"",
              standing.nodes, standing.up, standing.voters);
    worker_listen(worker);
}

/* A process that stood still for as long as its lease may have lost its claims. The queue node will tell, but not
 * before a handler writes what another process writes too: so those that run are told now, and whoever asks before
 * this was seen finds the pulse gone by the clock. */
static void pulse_beat(struct worker *worker)
{
    struct instant now = loop_now(worker->loop);
    int64_t pulse = atomic_load(&worker->options.board->pulse);
    if (now.ns > pulse) {
        log_event(LOG_WARN, "process_was_away",
                  "seconds=%.1f advice=\"it stood still for longer than its lease: handlers are cancelled\"",
                  (double)(now.ns - pulse + worker->options.config->worker.lease_ns) / (double)NS_PER_S);
        for (unsigned i = 0; i < worker->slot_count; i++)
            if (worker->slots[i].flow.state == FLOW_READY)
                slot_claim_doubt(&worker->slots[i]);
    }
    atomic_store(&worker->options.board->pulse, instant_after(now, worker->options.config->worker.lease_ns).ns);
}

void worker_look(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, look);
    pulse_beat(worker);
    if (worker->stopping) {
        atomic_store(&worker->options.board->pulse,
                     INT64_MAX); /* nobody beats it any more, and the stop has limits of its own */
        return;
    }
    loop_timer_set(worker->loop, timer, loop_after(worker->loop, LOOK_NS));
    locks_look(worker);
    bool all_idle = worker->idle_count == worker->runner_count;
    if (worker->ready && (all_idle || worker->taken > 0)) /* idle again: who becomes ready has every slot ask */
        atomic_store(&worker->options.board->has_asked, true);
    if (all_idle && worker->options.max_tasks > 0 && worker->claimed >= worker->options.max_tasks)
        worker_stop(worker, "max_tasks");
    else if (all_idle && worker->options.drain)
        worker_drain_look(worker);
}
