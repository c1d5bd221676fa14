#include "worker/presence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/control.h"
#include "queue/heartbeat.h"
#include "worker/config/node_options.h"
#include "worker/print/version.h"
#include "worker/worker_state.h"

struct presence {
    struct worker *worker;
    struct heartbeat *heartbeat;
    struct control *control;
    struct wall_time started;
    struct heartbeat_queue *queues;
    size_t queue_count;
    struct heartbeat_run *runs;
    struct buffer class_name;
    bool leaving;
};

/* --- what is shown ---------------------------------------------------------------------------------------------- */

/* The resident memory of the process in KiB; 0 when the system does not tell. */
static long rss_kb(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    int read = fscanf(file, "%ld %ld", &all, &resident);
    fclose(file);
    return read == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : 0;
}

static size_t runs_fill(struct presence *presence)
{
    const struct worker *worker = presence->worker;
    struct wall_time now = wall_now();
    size_t count = 0;
    for (unsigned i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        if (slot->flow.state != FLOW_READY)
            continue;
        int64_t since_ns = instant_since(slot->handed_over, loop_now(worker->loop));
        presence->runs[count++] = (struct heartbeat_run){
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

static bool is_weighted(const struct config *config)
{
    return config->worker.queue_order == CONFIG_ORDER_WEIGHTED;
}

static void facts_fill(void *context, struct heartbeat_facts *facts)
{
    struct presence *presence = context;
    const struct worker *worker = presence->worker;
    const struct config *config = worker->options.config;
    *facts = (struct heartbeat_facts){
        .hostname = config->worker.host,
        .tag = "holdfast",
        .version = "holdfast " HOLDFAST_VERSION,
        .pid = (long)getpid(),
        .started = presence->started,
        .concurrency = worker->runner_count,
        .quiet = worker->quiet || worker->stopping,
        .rss_kb = rss_kb(),
        .mode = is_weighted(config) ? HEARTBEAT_WEIGHTED : HEARTBEAT_STRICT,
        .queues = presence->queues,
        .queue_count = presence->queue_count,
        .classes = worker->class_names,
        .class_count = worker->class_count,
        .runs = presence->runs,
        .run_count = runs_fill(presence),
    };
}

/* Which queues a process serves, and in which order, does not change while it runs. */
static void queues_fill(struct presence *presence)
{
    const struct config *config = presence->worker->options.config;
    presence->queue_count = config->worker.queues.count;
    presence->queues = memory_zeroed(presence->queue_count, sizeof presence->queues[0]);
    for (size_t i = 0; i < presence->queue_count; i++) {
        const char *name = config->worker.queues.items[i];
        presence->queues[i].name = name;
        presence->queues[i].weight = is_weighted(config) ? config_queue_weight(config, name) : 0;
    }
}

static unsigned lock_counts_take(void *context, struct wall_time at, struct buffer *arguments)
{
    const struct presence *presence = context;
    return lock_metrics_take(presence->worker->lock_metrics, at, arguments);
}

/* --- what is called --------------------------------------------------------------------------------------------- */

static void task_cancel(struct worker *worker, const char *jid)
{
    for (unsigned i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->flow.has_task && strcmp(slot->jid, jid) == 0)
            slot_cancel(slot);
    }
}

/* Its handler is told, and its end is that of a task that lost its lock. A lock that is not held yet is not lost. */
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
    struct presence *presence = context;
    struct worker *worker = presence->worker;
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

/* --- counting --------------------------------------------------------------------------------------------------- */

/* A job that another library wrapped is known by its own class. */
static const char *class_shown(struct presence *presence, const struct envelope *envelope)
{
    struct text_span wrapped = envelope_member_value(envelope, "wrapped");
    buffer_clear(&presence->class_name);
    bool is_text = wrapped.bytes != NULL && json_string_read(wrapped, &presence->class_name);
    return is_text && presence->class_name.length > 0 ? buffer_text(&presence->class_name) : envelope->class_name;
}

void presence_count(struct presence *presence, const struct slot *slot, bool failed)
{
    int64_t ran_ns = instant_since(slot->run_started, slot->run_ended);
    heartbeat_count(presence->heartbeat, class_shown(presence, &slot->envelope), failed, ran_ns);
}

void presence_tell(struct presence *presence)
{
    heartbeat_soon(presence->heartbeat);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

struct presence *presence_create(struct worker *worker)
{
    struct presence *presence = memory_new(struct presence);
    const struct config_node *node = &worker->options.config->queue_node;
    presence->worker = worker;
    presence->started = wall_now();
    presence->runs = memory_zeroed(worker->slot_count, sizeof presence->runs[0]);
    queues_fill(presence);
    presence->heartbeat = heartbeat_create(worker->loop, &(struct heartbeat_options){
                                                             .node = queue_node(worker->queue),
                                                             .keys = queue_keys_of(worker->queue),
                                                             .identity = worker->identity,
                                                             .timeout_ns = node->call_timeout_ns,
                                                             .look = facts_fill,
                                                             .take = lock_counts_take,
                                                             .others = LOCK_METRICS_OTHERS_NAME,
                                                             .context = presence,
                                                         });
    presence->control = control_create(worker->loop, &(struct control_options){
                                                         .node = node_options(node, worker->identity),
                                                         .keys = queue_keys_of(worker->queue),
                                                         .called = called,
                                                         .context = presence,
                                                     });
    return presence;
}

void presence_destroy(struct presence *presence)
{
    control_destroy(presence->control);
    heartbeat_destroy(presence->heartbeat);
    buffer_fini(&presence->class_name);
    free(presence->queues);
    free(presence->runs);
    free(presence);
}

static void heartbeat_left(void *context, bool left)
{
    struct presence *presence = context;
    presence->leaving = false;
    if (!left)
        log_event(LOG_WARN, "heartbeat_unwritten",
                  "advice=\"the last counts are missing in the statistics, and dashboards show this process for "
                  "another minute\"");
}

void presence_leave(struct presence *presence, struct instant deadline)
{
    if (!queue_was_reached(presence->worker->queue))
        return; /* there is nothing to take back */
    presence->leaving = true;
    heartbeat_leave(presence->heartbeat, deadline, heartbeat_left);
}

bool presence_is_leaving(const struct presence *presence)
{
    return presence->leaving;
}
