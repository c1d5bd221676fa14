/* The process: builds everything in order, runs the loop, takes it apart in reverse; and what it looks at ten times a
 * second: whether its lock nodes may be used, and whether it is done. How it ends is in stop.c,
 * what a slot does in slot.c. */
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/dead_set_watch.h"
#include "queue/promoter.h"
#include "worker/config/findings.h"
#include "worker/config/node_options.h"
#include "worker/config/surroundings.h"
#include "worker/events/ended_tasks.h"
#include "worker/events/event_commands.h"
#include "worker/locks/contention.h"
#include "worker/locks/late_releases.h"
#include "worker/locks/program_releases.h"
#include "worker/locks/task_resources.h"
#include "worker/monitor/monitor.h"
#include "worker/periodic/periodic.h"
#include "worker/presence/announced_terms.h"
#include "worker/presence/presence.h"
#include "worker/reload.h"
#include "worker/signals.h"
#include "worker/startup_check.h"
#include "worker/supervisor/service_notify.h"
#include "worker/worker_state.h"

static void queue_wake(void *context)
{
    struct worker *worker = context;
    worker->wake_next = 1;
    worker_wake_idle(worker);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

/* Whether the lock nodes are what the configuration takes them for. Judged once, when a majority of them has said what
 * it is: if they are not, waiting would not help, and tasks would only be parked again and again. Pure. */

enum { LOCK_JUDGE_REASON_MAX = 512 };

/* The first is enough for a log line; a reload or `holdfast check` lists all. */
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
                              const struct redlock_group_status *status, char reason[LOCK_JUDGE_REASON_MAX])
{
    if (status->blank >= status->nodes / 2 + 1) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "nodes=%u blank=%u advice=\"the lock nodes are no lock group yet: make them one with holdfast nodes "
                 "init\"",
                 status->nodes, status->blank);
        return "lock_group_missing";
    }
    if (status->max_ttl_ns > 0 && config->lock.ttl_ns > status->max_ttl_ns) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "ttl_ms=%lld max_ttl_ms=%lld advice=\"lock.ttl is above the max_ttl of the lock group: lower it\"",
                 (long long)(config->lock.ttl_ns / NS_PER_MS), (long long)(status->max_ttl_ns / NS_PER_MS));
        return "lock_ttl_too_long";
    }
    return holds_fit(config, plugins, status->max_ttl_ns, reason) ? NULL : "hold_at_least_too_long";
}

/* --- looking, ten times a second ---------------------------------------------------------------------------------- */

#define LOOK_NS    (100 * NS_PER_MS)
#define OBSERVE_NS (500 * NS_PER_MS)

/* That a reload may bring. */
enum { CLASSES_MORE = 16 };

static bool has_quorum(const struct redlock_group_status *status)
{
    return status->voters >= status->nodes / 2 + 1;
}

/* True when the worker stops because of what the lock nodes are. */
static bool locks_are_wrong(struct worker *worker, const struct redlock_group_status *status)
{
    char reason[LOCK_JUDGE_REASON_MAX];
    const char *event = lock_judge(worker->options.config, worker->options.plugins, status, reason);
    worker->judged = event == NULL && has_quorum(status);
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

/* What it runs by is announced once it is known, or will not be known soon. */
static void terms_look(struct worker *worker, const struct redlock_group_status *status, bool settled)
{
    bool knows_group = worker->locks == NULL || status->knows_group;
    bool is_news = knows_group != worker->knows_group || strcmp(status->group, worker->group) != 0;
    if (is_news || (settled && !worker->has_terms)) {
        worker->has_terms = true;
        worker_terms_take(worker);
    }
    announced_terms_look(worker->announced);
}

static void locks_look(struct worker *worker)
{
    struct redlock_group_status status;
    redlock_group_status_read(worker->locks, &status);
    bool settled = worker->locks == NULL || redlock_group_is_settled(worker->locks);
    terms_look(worker, &status, settled);
    if (worker->locks != NULL && settled && !worker->judged && locks_are_wrong(worker, &status))
        return;
    bool can_lock = worker->locks == NULL || (worker->judged && has_quorum(&status));
    bool ready = announced_terms_are_known(worker->announced) &&
                 (can_lock || (settled && config_runs_unlocked(worker->options.config)));
    if (ready == worker->ready)
        return;
    if (ready) {
        locks_ready(worker);
        return;
    }
    worker->ready = false; /* the terms are known by now */
    log_event(LOG_ERROR, "lock_quorum_missing",
              "nodes=%u nodes_up=%u voters=%u advice=\"nothing is claimed until a majority may vote; holdfast nodes "
              "tells why one may not\"",
              status.nodes, status.up, status.voters);
    worker_listen(worker);
}

static void worker_look(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, look);
    if (worker->stopping)
        return;
    loop_timer_set(worker->loop, timer, loop_after(worker->loop, LOOK_NS));
    locks_look(worker);
    bool all_idle = worker->idle_count == worker->runner_count;
    if (worker->ready && (all_idle || worker->taken > 0)) /* idle again: when it becomes ready, every slot asks */
        atomic_store(&worker->options.run_table->has_asked, true);
    if (all_idle && worker->options.max_tasks > 0 && worker->claimed >= worker->options.max_tasks)
        worker_stop(worker, "max_tasks");
    else if (all_idle && worker->options.drain)
        worker_drain_look(worker);
}

/* --- the lease ---------------------------------------------------------------------------------------------------- */

/* A process that stood still, or was cut off from the queue node, for as long as its lease may have lost its claims.
 * The queue node says so too, but perhaps only after a handler has written what another process writes too. So nothing
 * begins until the node has renewed the lease (flow.h), and what runs without a lock is asked to stop. A handler that
 * asks before this timer fires sees by the clock that the lease is over. */
static void lease_is_over(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, lease);
    int64_t lease_end = atomic_load(&worker->options.run_table->lease_end);
    log_event(LOG_WARN, "lease_over",
              "seconds=%.1f advice=\"this process stood still, or the queue node has not answered, for the time of the "
              "lease: nothing begins, and handlers without a lock are cancelled, until the node answers\"",
              (double)(loop_now(worker->loop).ns - lease_end + worker->options.config->worker.lease_ns) /
                  (double)NS_PER_S);
    slots_doubted(worker);
}

/* Also while it stops. */
static void lease_renewed(void *context, struct instant until)
{
    struct worker *worker = context;
    atomic_store(&worker->options.run_table->lease_end, until.ns);
    loop_timer_set(worker->loop, &worker->lease, until);
    slots_renewed(worker);
}

/* --- that the loop turns ------------------------------------------------------------------------------------------ */

/* To a supervisor, or to the service manager: also while it stops. */
#define WATCHDOG_NS (500 * NS_PER_MS)

static void watchdog_fire(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, watchdog);
    int64_t watchdog_ns = service_notify_watchdog_ns();
    loop_timer_set(worker->loop, timer, loop_after(worker->loop, watchdog_ns > 0 ? watchdog_ns : WATCHDOG_NS));
    atomic_fetch_add(&worker->options.run_table->heartbeats, 1);
    if (watchdog_ns > 0)
        service_notify_alive();
}

/* --- how others see and call it ----------------------------------------------------------------------------------- */

static size_t runs_fill(const struct worker *worker, struct heartbeat_run *runs)
{
    struct wall_time now = queue_now(worker->queue);
    size_t count = 0;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        if (slot->flow.state != FLOW_READY)
            continue;
        int64_t since_ns = instant_since(slot->handed_over, loop_now(worker->loop));
        runs[count++] = (struct heartbeat_run){
            .slot = i,
            .queue = slot->queue,
            .envelope = &slot->envelope,
            .started = {now.us - since_ns / NS_PER_US},
            .fence = slot->job.fence,
            .resources = slot->resources.names,
            .resource_count = slot->lock != NULL ? slot->resources.count : 0,
        };
    }
    return count;
}

static void facts_fill(void *context, struct heartbeat_facts *facts, struct heartbeat_run *runs)
{
    const struct worker *worker = context;
    facts->quiet = worker->quiet || worker->stopping;
    facts->classes = worker->class_names;
    facts->class_count = worker->class_count;
    facts->run_count = runs_fill(worker, runs);
}

static bool class_is_busy(void *context, const char *class_name)
{
    const struct worker *worker = context;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        if (slot->flow.has_task && slot->order < worker->terms_order &&
            strcmp(slot->envelope.class_name, class_name) == 0)
            return true;
    }
    return false;
}

static void terms_told(void *context, const char *terms, const char *waits, const struct terms_party *others,
                       size_t count)
{
    struct worker *worker = context;
    announced_terms_told(worker->announced, terms, waits, others, count);
}

static void terms_changed(void *context)
{
    struct worker *worker = context;
    bool is_waiting = announced_terms_reason(worker->announced)[0] != '\0';
    if (worker->stopping)
        return;
    if (!worker->quiet && (is_waiting || worker->told_waiting))
        service_notify_status(worker_status(worker));
    worker->told_waiting = is_waiting;
    loop_timer_set(worker->loop, &worker->look, loop_now(worker->loop));
}

static void task_cancel(struct worker *worker, const char *jid)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->flow.has_task && strcmp(slot->jid, jid) == 0)
            slot_cancel(slot);
    }
}

/* Its handler is cancelled, and the task ends as one that lost its lock. A lock that is not held yet cannot be lost. */
static void task_lose(struct worker *worker, const char *jid)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->flow.has_task && slot->lock != NULL && strcmp(slot->jid, jid) == 0)
            redlock_lock_forfeit(slot->lock);
    }
}

static void called(void *context, enum control_call call, const char *jid)
{
    struct worker *worker = context;
    switch (call) {
    case CONTROL_QUIET:
        worker_quiet(worker, "called");
        return;
    case CONTROL_STOP:
        worker_stop(worker, "called");
        return;
    case CONTROL_DUMP:
        worker_tell_running(worker);
        return;
    case CONTROL_LOOK:
        queue_look(worker->queue);
        return;
    case CONTROL_DRAIN:
        worker_drain(worker, "called");
        return;
    case CONTROL_CANCEL:
        task_cancel(worker, jid);
        return;
    case CONTROL_LOSE:
        task_lose(worker, jid);
        return;
    }
}

/* --- the observer ------------------------------------------------------------------------------------------------- */

static unsigned running_count(const struct worker *worker)
{
    unsigned count = 0;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        count += slot->flow.state == FLOW_READY && !slot->has_ended && !slot_run_waits(slot);
    }
    return count;
}

static int64_t cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

static void process_observe(struct worker *worker)
{
    const struct redlock_group *locks = worker->locks;
    const struct worker_observer *observer = worker->options.observer;
    const struct redlock_node_counters *nodes[REDLOCK_NODES_MAX + 1];
    if (observer == NULL || observer->looked == NULL)
        return;
    struct observed_process process = {
        .at = instant_now(),
        .runners = worker->runner_count,
        .busy = running_count(worker),
        .cpu_ns = cpu_ns(),
        .claim_calls = queue_counters(worker->queue)->claim_calls,
    };
    if (locks != NULL) {
        process.extensions = redlock_group_extensions(locks);
        process.nodes = nodes;
        while ((nodes[process.node_count] = redlock_group_node_counters(locks, process.node_count)) != NULL)
            process.node_count++;
    }
    observer->looked(observer->context, &process);
}

/* --- monitoring --------------------------------------------------------------------------------------------------- */

static const char *reason_not_ready(const struct worker *worker, bool queue_is_up)
{
    if (worker->stopping)
        return "the worker is stopping";
    if (worker->quiet)
        return "the worker is quiet: it claims nothing more";
    if (!queue_is_up)
        return "the queue node cannot be reached";
    return worker->ready && !worker_may_claim(worker) ? "the worker has taken as many tasks as it was to take" : NULL;
}

/* Of a worker without lock nodes only its queue node counts. */
static void readiness_read(const struct worker *worker, struct monitor_state *state)
{
    struct redlock_group_status status = {0};
    const char *reason = reason_not_ready(worker, state->queue_is_up);
    if (worker->locks != NULL)
        redlock_group_status_read(worker->locks, &status);
    state->is_ready = reason == NULL && worker->ready;
    if (reason != NULL)
        snprintf(state->reason, sizeof state->reason, "%s", reason);
    else if (worker->locks == NULL)
        snprintf(state->reason, sizeof state->reason, "the worker claims tasks");
    else
        snprintf(state->reason, sizeof state->reason, "the worker claims %s: %u of %u lock nodes may vote%s",
                 state->is_ready ? "tasks" : "nothing", status.voters, status.nodes,
                 has_quorum(&status) ? "" : ", which is no majority");
}

static void process_publish(struct worker *worker)
{
    struct monitor_state state = {
        .at = instant_now(),
        .queue_is_up = redis_node_state(queue_node(worker->queue)) == REDIS_NODE_UP,
        .queue = queue_counters(worker->queue),
        .locks = worker->locks,
        .runners = worker->runner_count,
        .busy = running_count(worker),
        .cpu_ns = cpu_ns(),
        .tally = worker->tally,
    };
    if (worker->monitor == NULL)
        return;
    readiness_read(worker, &state);
    monitor_publish(worker->monitor, &state);
}

static void observe_fire(struct loop_timer *timer)
{
    struct worker *worker = list_owner(timer, struct worker, observe);
    loop_timer_set(worker->loop, timer, loop_after(worker->loop, OBSERVE_NS));
    process_observe(worker);
    process_publish(worker);
}

/* The observer of a dry run stands in for the monitor. */
static bool monitor_build(struct worker *worker, struct error *error)
{
    struct worker_options *options = &worker->options;
    if (options->config->http.listen.count == 0 || options->observer != NULL)
        return true;
    worker->monitor = monitor_create(&(struct monitor_options){.config = options->config,
                                                               .class_max = worker->class_count + CLASSES_MORE,
                                                               .process = options->process},
                                     error);
    if (worker->monitor == NULL)
        return false;
    loop_measure_cycles(worker->loop, monitor_cycles(worker->monitor));
    return true;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* HOST:PID:NONCE, as the data model wants it. */
static void identity_make(struct worker *worker)
{
    char nonce[12];
    random_digits(nonce, sizeof nonce);
    snprintf(worker->identity, sizeof worker->identity, "%.200s:%ld:%.12s", worker->options.config->worker.host,
             (long)getpid(), nonce);
    memcpy(worker->options.run_table->identity, worker->identity, sizeof worker->identity);
}

static bool locks_create(struct worker *worker, struct error *error)
{
    const struct config *config = worker->options.config;
    if (config->lock_node_count == 0)
        return true;
    struct redlock_node nodes[REDLOCK_NODES_MAX];
    struct redlock_options options = lock_setup_options(config, worker->identity, nodes);
    char reason[256];
    if (!lock_setup_terms(config, &worker->terms, error))
        return false;
    worker->verify_patience_ns = lock_setup_verify_patience_ns(config);
    worker->locks = redlock_group_create(worker->loop, &options, reason, sizeof reason);
    return worker->locks != NULL || error_set(error, "%s: lock_nodes: %s", config->path, reason);
}

/* NULL when the order of the queues is strict. The caller frees it. */
static unsigned *weights_of(const struct config *config)
{
    if (config->worker.queue_order == CONFIG_ORDER_STRICT)
        return NULL;
    unsigned *weights = memory_zeroed(config->worker.queues.count, sizeof weights[0]);
    for (size_t i = 0; i < config->worker.queues.count; i++)
        weights[i] = config_queue_weight(config, config->worker.queues.items[i]);
    return weights;
}

static void queue_parked(void *context, int64_t due_ns)
{
    struct worker *worker = context;
    promoter_expect(worker->promoter, due_ns);
}

static void promoter_build(struct worker *worker)
{
    const struct config *config = worker->options.config;
    bool promotes_all = config->worker.promote == CONFIG_PROMOTE_ALL;
    worker->promoter = promoter_create(
        worker->loop, worker->queue,
        &(struct promoter_options){.limits = &worker->limits,
                                   .timeout_ns = config->queue_node.call_timeout_ns,
                                   .names = (const char *const *)config->worker.queues.items,
                                   .name_count = promotes_all ? 0 : (unsigned)config->worker.queues.count,
                                   .keep_ms = config->worker.timestamps == CONFIG_TIMES_AS_CAME});
}

/* Two calls cost the queue node more than one, so few runners do not gain by it. */
static unsigned call_slots_of(unsigned runners)
{
    enum { RUNNERS_MIN = 16 };
    return runners >= RUNNERS_MIN ? (runners + 1) / 2 : 0;
}

static void queue_build(struct worker *worker)
{
    const struct config *config = worker->options.config;
    const struct config_node *node = &config->queue_node;
    unsigned *weights = weights_of(config);
    worker->limits = config_task_limits(config);
    worker->queue = queue_create(worker->loop, &(struct queue_options){
                                                   .node = node_options(node, worker->identity),
                                                   .timeout_ns = node->call_timeout_ns,
                                                   .identity = worker->identity,
                                                   .space = worker->options.key_space,
                                                   .names = (const char *const *)config->worker.queues.items,
                                                   .weights = weights,
                                                   .name_count = (unsigned)config->worker.queues.count,
                                                   .slots = worker->slot_count,
                                                   .call_slots = call_slots_of(worker->runner_count),
                                                   .answered = slot_answered,
                                                   .lease_ns = config->worker.lease_ns,
                                                   .limits = &worker->limits,
                                                   .lost = slot_lost,
                                                   .confirmed = slot_confirmed,
                                                   .renewed = lease_renewed,
                                                   .wake = queue_wake,
                                                   .terms_told = terms_told,
                                                   .parked = queue_parked,
                                                   .context = worker,
                                               });
    free(weights);
    promoter_build(worker);
    worker->dead_set_watch = dead_set_watch_create(worker->loop, queue_node(worker->queue),
                                                   queue_keys_of(worker->queue), node->call_timeout_ns);
}

static bool periodic_build(struct worker *worker, struct error *error)
{
    const struct config *config = worker->options.config;
    struct periodic_entries *entries = periodic_entries_make(config, &worker->limits, error);
    if (entries == NULL)
        return false;
    worker->periodic = periodic_create(worker->loop,
                                       &(struct periodic_options){.node = queue_node(worker->queue),
                                                                  .keys = queue_keys_of(worker->queue),
                                                                  .timeout_ns = config->queue_node.call_timeout_ns},
                                       entries);
    return true;
}

static void slots_build(struct worker *worker)
{
    worker->slots = memory_zeroed(worker->slot_count, sizeof worker->slots[0]);
    list_init(&worker->idle);
    list_init(&worker->given_back);
    loop_hook_init(&worker->give_back, slots_give_back);
    for (unsigned i = worker->slot_count; i > 0; i--) {
        slot_init(&worker->slots[i - 1], worker, i - 1);
        if (i > worker->runner_count)
            continue;
        list_prepend(&worker->idle, &worker->slots[i - 1].idle_link);
        worker->idle_count++;
    }
    list_init(&worker->serials);
}

/* Its children died with it, but none is known to be reaped: their tasks keep their locks until those expire. */
static void zygote_lost(void *context)
{
    struct worker *worker = context;
    log_event(LOG_ERROR, "zygote_lost",
              "advice=\"what runs handlers in processes was killed: the worker stops, and has to be started again\"");
    worker->exit_code = EXIT_CODE_FAILURE;
    bool waits_in_vain = false; /* for the end of a run that no process will report, while its lock is extended */
    for (unsigned i = 0; i < worker->slot_count; i++)
        waits_in_vain = waits_in_vain || worker->slots[i].is_isolated;
    if (waits_in_vain)
        worker_stop_now(worker, "zygote_lost");
    else
        worker_stop(worker, "zygote_lost");
}

static void isolation_build(struct worker *worker)
{
    const struct worker_options *options = &worker->options;
    worker->launcher = launcher_create(worker->loop, options->zygote, options->run_table, zygote_lost, worker);
    worker->event_commands =
        event_commands_create(worker->loop, worker->launcher, &options->config->on_event, options->config->worker.host);
    event_commands_set_environment(worker->event_commands, options->event_environment);
    worker->options.event_environment = NULL;
    worker->isolation = isolation_create(&(struct isolation_options){.loop = worker->loop,
                                                                     .launcher = worker->launcher,
                                                                     .run_table = options->run_table,
                                                                     .config = options->config});
}

static void presence_build(struct worker *worker)
{
    worker->announced = announced_terms_create(&(struct announced_terms_options){.queue = worker->queue,
                                                                                 .identity = worker->identity,
                                                                                 .is_busy = class_is_busy,
                                                                                 .changed = terms_changed,
                                                                                 .context = worker});
    worker->presence = presence_create(&(struct presence_options){.loop = worker->loop,
                                                                  .queue = worker->queue,
                                                                  .config = worker->options.config,
                                                                  .identity = worker->identity,
                                                                  .tally = worker->tally,
                                                                  .runner_count = worker->runner_count,
                                                                  .run_max = worker->slot_count,
                                                                  .look = facts_fill,
                                                                  .called = called,
                                                                  .context = worker});
}

static void tally_build(struct worker *worker)
{
    const struct config_words *queues = &worker->options.config->worker.queues;
    worker->tally = tally_create(&(struct tally_setup){.queues = (const char *const *)queues->items,
                                                       .queue_count = (unsigned)queues->count,
                                                       .class_max = worker->class_count + CLASSES_MORE});
    worker_classes_take(worker);
}

static bool worker_build(struct worker *worker, struct error *error)
{
    identity_make(worker);
    worker->loop = loop_create(error);
    if (worker->loop == NULL || !locks_create(worker, error))
        return false;
    isolation_build(worker);
    tally_build(worker);
    slots_build(worker);
    worker->contention = contention_create((uint64_t)random_between(0, INT64_MAX - 1));
    worker->ended = ended_tasks_create((uint64_t)random_between(0, INT64_MAX - 1));
    worker->pool = thread_pool_create(worker->loop, worker->runner_count, error);
    if (worker->pool == NULL)
        return false;
    loop_timer_init(&worker->lease, lease_is_over);
    atomic_store(&worker->options.run_table->lease_end, 0); /* until the queue node has given one */
    queue_build(worker);
    worker->late_releases = late_releases_create(worker->loop, worker->queue, &worker->terms);
    worker->program_releases = program_releases_create(worker->loop, worker->locks, slot_lock_may_be_free, worker);
    if (!periodic_build(worker, error))
        return false;
    worker_resources_take(worker);
    presence_build(worker);
    worker->reload = reload_create(worker);
    worker->signals = signals_create(worker, error);
    if (worker->signals == NULL)
        return false;
    task_log_init(&worker->task_log, worker->options.processes);
    loop_timer_init(&worker->log_sums, worker_log_sums_fire);
    loop_timer_init(&worker->log_unserved, worker_log_unserved_fire);
    loop_timer_init(&worker->look, worker_look);
    loop_timer_set(worker->loop, &worker->look, instant_now());
    loop_timer_init(&worker->watchdog, watchdog_fire);
    if (worker->options.process > 0 || service_notify_watchdog_ns() > 0)
        loop_timer_set(worker->loop, &worker->watchdog, loop_now(worker->loop));
    loop_timer_init(&worker->observe, observe_fire);
    if (!monitor_build(worker, error))
        return false;
    if (worker->options.observer != NULL || worker->monitor != NULL)
        loop_timer_set(worker->loop, &worker->observe, loop_now(worker->loop));
    return true;
}

static void worker_free(struct worker *worker)
{
    /* A run that began while the worker was leaving ends with its thread. Its listeners are freed by then. */
    for (unsigned i = 0; worker->slots != NULL && i < worker->slot_count; i++)
        worker->slots[i].abandoned = true;
    if (worker->isolation != NULL)
        isolation_destroy(worker->isolation);
    event_commands_destroy(worker->event_commands);
    surroundings_forget(worker->options.event_environment);
    if (worker->loop != NULL)
        loop_measure_cycles(worker->loop, NULL);
    monitor_destroy(worker->monitor);
    if (worker->launcher != NULL)
        launcher_destroy(worker->launcher);
    if (worker->pool != NULL)
        thread_pool_destroy(worker->pool);
    periodic_destroy(worker->periodic);
    if (worker->presence != NULL)
        presence_destroy(worker->presence);
    announced_terms_destroy(worker->announced);
    tally_destroy(worker->tally);
    class_resources_free(worker->class_resources);
    for (unsigned i = 0; worker->slots != NULL && i < worker->slot_count; i++)
        slot_run_fini(&worker->slots[i]);
    late_releases_destroy(worker->late_releases);
    program_releases_destroy(worker->program_releases);
    dead_set_watch_destroy(worker->dead_set_watch);
    if (worker->promoter != NULL)
        promoter_destroy(worker->promoter);
    if (worker->queue != NULL)
        queue_destroy(worker->queue);
    if (worker->locks != NULL)
        redlock_group_destroy(worker->locks);
    for (unsigned i = 0; worker->slots != NULL && i < worker->slot_count; i++)
        slot_fini(&worker->slots[i]);
    if (worker->signals != NULL)
        signals_destroy(worker->signals);
    if (worker->loop != NULL) {
        if (worker->slots != NULL)
            loop_hook_cancel(&worker->give_back);
        loop_timer_clear(worker->loop, &worker->log_sums);
        loop_timer_clear(worker->loop, &worker->log_unserved);
        loop_timer_clear(worker->loop, &worker->look);
        loop_timer_clear(worker->loop, &worker->lease);
        loop_timer_clear(worker->loop, &worker->observe);
        loop_timer_clear(worker->loop, &worker->watchdog);
        loop_destroy(worker->loop);
    }
    if (worker->reload != NULL)
        reload_destroy(worker->reload);
    contention_destroy(worker->contention);
    ended_tasks_destroy(worker->ended);
    serials_free(worker);
    name_set_fini(&worker->told_unlocked);
    name_set_fini(&worker->told_misspelt);
    free(worker->class_names);
    free(worker->slots);
    buffer_fini(&worker->text);
    free(worker);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static bool report_save(const char *path, const struct buffer *text, struct error *error)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return error_set(error, "%s: %m", path);
    bool written = fwrite(text->bytes, 1, text->length, file) == text->length;
    return (fclose(file) == 0 && written) || error_set(error, "%s: %m", path);
}

static void report_finish(struct worker *worker)
{
    struct report_frame frame = {
        .host = worker->options.config->worker.host,
        .seconds = (double)instant_since(worker->started, instant_now()) / (double)NS_PER_S,
        .cpu_seconds = (double)cpu_ns() / (double)NS_PER_S,
        .pid = (long)getpid(),
        .threads = worker->runner_count,
        .claims = worker->taken,
        .claim_calls = queue_counters(worker->queue)->claim_calls,
        .rings = queue_counters(worker->queue)->rings,
        .promoted = promoter_moved(worker->promoter),
        .locks = worker->locks != NULL ? redlock_group_counters(worker->locks) : NULL,
    };
    struct error error = ERROR_NONE;
    struct tally_total *total = memory_new(struct tally_total);
    tally_total(worker->tally, total);
    report_log(total, &frame);
    buffer_clear(&worker->text);
    report_write(total, &frame, &worker->text);
    free(total);
    if (worker->options.report_path == NULL || report_save(worker->options.report_path, &worker->text, &error))
        return;
    char why[LOG_QUOTE_MAX];
    log_event(LOG_ERROR, "report_failed", "reason=%s", log_value(error.text, why));
    worker->exit_code = EXIT_CODE_FAILURE;
}

enum exit_code worker_run(const struct worker_options *options, bool *abandoned)
{
    struct worker *worker = memory_new(struct worker);
    struct error error = ERROR_NONE;
    char text[LOG_QUOTE_MAX], path[LOG_QUOTE_MAX];
    worker->options = *options;
    worker->runner_count = options->config->worker.threads;
    worker->slot_count = WORKER_SLOTS(worker->runner_count);
    worker->started = instant_now();
    name_set_init(&worker->told_unlocked, NAME_SET_MAX);
    name_set_init(&worker->told_misspelt, NAME_SET_MAX);
    worker->rested = worker_stop_look;
    *abandoned = false;
    if (!worker_build(worker, &error)) {
        log_event(LOG_ERROR, "worker_failed", "reason=%s", log_value(error.text, text));
        worker_free(worker);
        return EXIT_CODE_FAILURE;
    }
    log_event(LOG_INFO, "worker_started", "identity=%s threads=%u queues=%zu lock_nodes=%zu classes=%zu config=%s",
              log_value(worker->identity, text), worker->runner_count, options->config->worker.queues.count,
              options->config->lock_node_count, plugins_handler_count(options->plugins),
              log_value(options->config->path, path));
    atomic_store(&options->run_table->heartbeats, 1);
    atomic_store(&options->run_table->is_up, true);
    service_notify_ready(worker_status(worker));
    loop_run(worker->loop);
    atomic_store(&options->run_table->heartbeats, 0);
    process_observe(worker);
    worker_log_sums(worker);
    worker_log_unserved(worker);
    report_finish(worker);
    enum exit_code exit_code = worker->exit_code;
    *abandoned = !reload_end(worker->reload) || worker->abandoned;
    if (!*abandoned) /* else a thread still uses what would be freed */
        worker_free(worker);
    return exit_code;
}
