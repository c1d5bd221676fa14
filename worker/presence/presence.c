#include "worker/presence/presence.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/config/node_options.h"
#include "worker/print/version.h"

struct presence {
    struct presence_options options;
    struct heartbeat *heartbeat;
    struct control *control;
    struct wall_time started;
    struct heartbeat_queue *queues;
    size_t queue_count;
    struct heartbeat_run *runs;
    bool leaving;
};

/* --- what is shown ---------------------------------------------------------------------------------------------- */

static bool is_weighted(const struct config *config)
{
    return config->worker.queue_order == CONFIG_ORDER_WEIGHTED;
}

static void facts_fill(void *context, struct heartbeat_facts *facts)
{
    struct presence *presence = context;
    const struct config *config = presence->options.config;
    *facts = (struct heartbeat_facts){
        .hostname = config->worker.host,
        .tag = "holdfast",
        .version = "holdfast " HOLDFAST_VERSION,
        .pid = (long)getpid(),
        .started = presence->started,
        .concurrency = presence->options.runner_count,
        .unreceived = queue_unreceived(presence->options.queue),
        .rss_kb = (long)(memory_resident() / 1024),
        .mode = is_weighted(config) ? HEARTBEAT_WEIGHTED : HEARTBEAT_STRICT,
        .queues = presence->queues,
        .queue_count = presence->queue_count,
        .runs = presence->runs,
    };
    presence->options.look(presence->options.context, facts, presence->runs);
}

/* Which queues a process serves, and in which order, does not change while it runs. */
static void queues_fill(struct presence *presence)
{
    const struct config *config = presence->options.config;
    presence->queue_count = config->worker.queues.count;
    presence->queues = memory_zeroed(presence->queue_count, sizeof presence->queues[0]);
    for (size_t i = 0; i < presence->queue_count; i++) {
        const char *name = config->worker.queues.items[i];
        presence->queues[i].name = name;
        presence->queues[i].weight = is_weighted(config) ? config_queue_weight(config, name) : 0;
    }
}

/* --- what was counted ------------------------------------------------------------------------------------------- */

static void steps_append(struct buffer *text, const char *name, const struct histogram_coarse *histogram)
{
    for (unsigned i = 0; histogram != NULL && i < HISTOGRAM_COARSE_STEPS; i++)
        if (histogram->counts[i] > 0)
            buffer_format(text, "%s.%u %llu ", name, i, (unsigned long long)histogram->counts[i]);
}

static void locks_write(const struct tally_row *row, struct buffer *text)
{
    for (unsigned i = 0; i < TALLY_LOCK_COUNTS; i++)
        if (row->counts[i] > 0)
            buffer_format(text, "%s %llu ", tally_count_name((enum tally_count)i), (unsigned long long)row->counts[i]);
    steps_append(text, "wait", row->coarse[TALLY_WAIT]);
    steps_append(text, "hold", row->coarse[TALLY_HOLD]);
}

void presence_counts_take(struct tally *tally, struct heartbeat *heartbeat, struct wall_time at)
{
    struct tally_rows runs = tally_runs(tally), locks = tally_locks(tally);
    struct buffer text = {0};
    for (const struct tally_row *row = runs.rows; row < runs.rows + runs.count; row++)
        if (row->is_counted)
            heartbeat_count_runs(heartbeat, row->name, row->counts[TALLY_RUNS], row->counts[TALLY_FAILED],
                                 row->times[TALLY_RUN]);
    for (const struct tally_row *row = locks.rows; row < locks.rows + locks.count; row++) {
        if (!row->is_counted)
            continue;
        buffer_clear(&text);
        locks_write(row, &text);
        heartbeat_count_locks(heartbeat, row->name, &text);
    }
    buffer_fini(&text);
    tally_taken(tally, at);
}

static void counts_take(void *context, struct heartbeat *heartbeat, struct wall_time at)
{
    const struct presence *presence = context;
    presence_counts_take(presence->options.tally, heartbeat, at);
}

void presence_tell(struct presence *presence)
{
    heartbeat_soon(presence->heartbeat);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

struct presence *presence_create(const struct presence_options *options)
{
    struct presence *presence = memory_new(struct presence);
    const struct config_node *node = &options->config->queue_node;
    presence->options = *options;
    presence->started = wall_now();
    presence->runs = memory_zeroed(options->run_max, sizeof presence->runs[0]);
    queues_fill(presence);
    presence->heartbeat = heartbeat_create(options->loop, &(struct heartbeat_options){
                                                              .node = queue_node(options->queue),
                                                              .keys = queue_keys_of(options->queue),
                                                              .identity = options->identity,
                                                              .timeout_ns = node->call_timeout_ns,
                                                              .look = facts_fill,
                                                              .take = counts_take,
                                                              .others = TALLY_LOCK_OTHERS,
                                                              .context = presence,
                                                          });
    presence->control = control_create(options->loop, &(struct control_options){
                                                          .node = node_options(node, options->identity),
                                                          .keys = queue_keys_of(options->queue),
                                                          .called = options->called,
                                                          .context = options->context,
                                                      });
    return presence;
}

void presence_destroy(struct presence *presence)
{
    control_destroy(presence->control);
    heartbeat_destroy(presence->heartbeat);
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
    if (!queue_was_reached(presence->options.queue))
        return; /* there is nothing to take back */
    presence->leaving = true;
    heartbeat_leave(presence->heartbeat, deadline, heartbeat_left);
}

bool presence_is_leaving(const struct presence *presence)
{
    return presence->leaving;
}
