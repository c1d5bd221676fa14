/* What a worker looks at ten times a second: whether its lock nodes may be used, whether it was away, and whether it is
 * done. On the loop. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "redlock/redlock_loop.h"
#include "worker/config/config.h"
#include "worker/config/findings.h"
#include "worker/plugin/plugin.h"
#include "worker/startup.h"
#include "worker/worker_state.h"

/* --- judging ------------------------------------------------------------------------------------------------------ */

/* Whether the lock nodes are what the configuration takes them for. Judged once, when a majority of them has said what
 * it is: if they are not, waiting would not help, and tasks would only be parked again and again. Pure. */

enum { LOCK_JUDGE_REASON_MAX = 512 };

/* The first is enough for a log line; a reload or `holdfast check` tells all. */
static bool holds_fit(const struct config *config, const struct plugins *plugins, int64_t max_ttl_ns,
                      char reason[LOCK_JUDGE_REASON_MAX])
{
    struct findings findings = {0};
    char text[LOG_QUOTE_MAX];
    startup_check_holds(config, plugins, max_ttl_ns, &findings);
    bool fit = findings.errors == 0;
    if (!fit)
        snprintf(reason, LOCK_JUDGE_REASON_MAX, "reason=%s", log_value(findings.items[0].text, text));
    findings_fini(&findings);
    return fit;
}

/* NULL when they are, else the event to be logged; its values are written into `reason`. */
static const char *lock_judge(const struct config *config, const struct plugins *plugins,
                              const struct redlock_standing *standing, char reason[LOCK_JUDGE_REASON_MAX])
{
    if (standing->blank >= standing->nodes / 2 + 1) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "nodes=%u blank=%u advice=\"the lock nodes are no lock group yet: make them one with holdfast nodes "
                 "init\"",
                 standing->nodes, standing->blank);
        return "lock_group_missing";
    }
    if (standing->max_ttl_ns > 0 && config->lock.ttl_ns > standing->max_ttl_ns) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "ttl_ms=%lld max_ttl_ms=%lld advice=\"lock.ttl is above the max_ttl of the lock group: lower it\"",
                 (long long)(config->lock.ttl_ns / NS_PER_MS), (long long)(standing->max_ttl_ns / NS_PER_MS));
        return "lock_ttl_too_long";
    }
    return holds_fit(config, plugins, standing->max_ttl_ns, reason) ? NULL : "hold_at_least_too_long";
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

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
