#include "worker/monitor/metric_table.h"

#include "base/clock.h"

#define US(ms) ((int64_t)((ms)*1000))

const int64_t metric_bounds_us[METRIC_BOUNDS] = {
    US(0.1), US(0.25), US(0.5),  US(1),    US(2.5),  US(5),     US(10),    US(25),    US(50),     US(100),
    US(250), US(500),  US(1000), US(2500), US(5000), US(10000), US(30000), US(60000), US(300000),
};

const char *const metric_answers[] = {"acquired", "busy",      "split",   "no_quorum",
                                      "too_slow", "cancelled", "invalid", NULL};
const char *const metric_releases[] = {"released", "expired", "foreign", "unknown", NULL};
const char *const metric_node_answers[] = {"granted", "refused", "error", "timeout", NULL};

#define SECONDS  .unit = "seconds"
#define IN_US    SECONDS, .per_unit = US_PER_S
#define IN_NS    SECONDS, .per_unit = NS_PER_S
#define COUNT    .per_unit = 1
#define BY_CLASS .labels = {LABEL_CLASS}
#define BY_NODE  .labels = {LABEL_NODE}

/* Names of the same kind of thing begin alike; what every process has, has the names that every exporter gives it. */
const struct metric_row metric_table[METRICS] = {
    [METRIC_TASKS] = {"holdfast_tasks",
                      METRIC_COUNTER,
                      {LABEL_QUEUE, LABEL_CLASS, LABEL_OUTCOME},
                      COUNT,
                      .is_sparse = true,
                      .help = "How tasks left this process; failed is to be retried, and dead, refused, invalid and "
                              "no_resource were buried"},
    [METRIC_TASK_WAIT] = {"holdfast_task_wait_seconds", METRIC_HISTOGRAM, BY_CLASS, IN_US,
                          .help = "From when a task was put into its queue until it ran, by the queue node's clock"},
    [METRIC_TASK_RUN] = {"holdfast_task_run_seconds", METRIC_HISTOGRAM, BY_CLASS, IN_US, .is_sparse = true,
                         .help = "How long handlers ran, also those that failed"},
    [METRIC_RUNNERS] = {"holdfast_runners", METRIC_GAUGE, COUNT, .help = "Handlers that may run at once"},
    [METRIC_RUNNERS_BUSY] = {"holdfast_runners_busy", METRIC_GAUGE, COUNT, .help = "Handlers that run now"},
    [METRIC_READY] = {"holdfast_ready", METRIC_GAUGE, COUNT, .help = "1 if the process claims tasks, as /readyz tells"},
    [METRIC_CLAIMS] = {"holdfast_claims", METRIC_COUNTER, COUNT, .help = "Tasks that were claimed"},
    [METRIC_CLAIM_CALLS] = {"holdfast_claim_calls", METRIC_COUNTER, COUNT,
                            .help = "Calls to the queue node that claim or settle tasks"},
    [METRIC_RECOVERED] = {"holdfast_recovered_tasks", METRIC_COUNTER, COUNT,
                          .help = "Tasks of dead processes that this one put back into their queues"},
    [METRIC_QUEUE_NODE_UP] = {"holdfast_queue_node_up", METRIC_GAUGE, COUNT,
                              .help = "1 if the queue node is connected"},
    [METRIC_LOCK_REQUESTS] = {"holdfast_lock_requests",
                              METRIC_COUNTER,
                              {LABEL_ANSWER},
                              COUNT,
                              .help = "How requests for locks ended; busy, split and no_quorum are refusals"},
    [METRIC_LOCK_TRIES] = {"holdfast_lock_tries", METRIC_COUNTER, COUNT,
                           .help = "Rounds over the lock nodes of all requests together"},
    [METRIC_LOCK_QUORUM] = {"holdfast_lock_quorum_seconds", METRIC_HISTOGRAM, BY_CLASS, IN_US, .is_sparse = true,
                            .help = "From when a lock was asked for until a majority had granted it"},
    [METRIC_LOCK_HOLD] = {"holdfast_lock_hold_seconds", METRIC_HISTOGRAM, BY_CLASS, IN_US, .is_sparse = true,
                          .help = "How long tasks held their locks"},
    [METRIC_LOCK_HANDED_OVER] = {"holdfast_lock_handed_over", METRIC_COUNTER, COUNT,
                                 .help = "Locks that went straight to the next task of this process"},
    [METRIC_LOCK_EXTENSIONS] = {"holdfast_lock_extensions", METRIC_COUNTER, COUNT, .help = "Extensions that succeeded"},
    [METRIC_LOCK_EXTENSION] = {"holdfast_lock_extension_seconds", METRIC_HISTOGRAM, IN_US,
                               .help = "How long the rounds took that extend locks"},
    [METRIC_LOCK_DANGERS] = {"holdfast_lock_dangers", METRIC_COUNTER, COUNT,
                             .help = "Locks that were not extended for two thirds of their ttl"},
    [METRIC_LOCK_LOST] = {"holdfast_lock_lost", METRIC_COUNTER, COUNT,
                          .help = "Locks that were lost while they were held"},
    [METRIC_LOCK_RELEASES] = {"holdfast_lock_releases",
                              METRIC_COUNTER,
                              {LABEL_RELEASE},
                              COUNT,
                              .help = "How releases of locks ended; unknown: no majority answered"},
    [METRIC_FENCED_OFF] = {"holdfast_fenced_off_tasks", METRIC_COUNTER, BY_CLASS, COUNT,
                           .help = "Tasks whose write a fence refused, because a later holder had been there"},
    [METRIC_NODES] = {"holdfast_lock_nodes", METRIC_GAUGE, COUNT, .help = "Lock nodes of the configuration"},
    [METRIC_NODES_VOTING] = {"holdfast_lock_nodes_voting", METRIC_GAUGE, COUNT,
                             .help = "Lock nodes that are connected and may vote; a majority is needed"},
    [METRIC_NODE_UP] = {"holdfast_lock_node_up", METRIC_GAUGE, BY_NODE, COUNT, .help = "1 if the node is connected"},
    [METRIC_NODE_VOTES] = {"holdfast_lock_node_votes", METRIC_GAUGE, BY_NODE, COUNT,
                           .help = "1 if the node is trusted to grant locks"},
    [METRIC_NODE_REQUESTS] = {"holdfast_lock_node_requests", METRIC_COUNTER, BY_NODE, COUNT,
                              .help = "Commands that were sent to the node for locks"},
    [METRIC_NODE_ANSWERS] = {"holdfast_lock_node_answers",
                             METRIC_COUNTER,
                             {LABEL_NODE, LABEL_NODE_SAID},
                             COUNT,
                             .help = "What the node said to requests for locks; timeout: late or nothing"},
    [METRIC_NODE_LATENCY] = {"holdfast_lock_node_latency_seconds", METRIC_HISTOGRAM, BY_NODE, IN_US,
                             .help = "From sending a request for a lock to the answer of the node"},
    [METRIC_NODE_CLOCK] = {"holdfast_lock_node_clock_offset_seconds", METRIC_GAUGE, BY_NODE, IN_NS,
                           .help = "How far the clock of the node is ahead of that of this host"},
    [METRIC_NODE_QUARANTINE] = {"holdfast_lock_node_quarantine_seconds", METRIC_GAUGE, BY_NODE, IN_NS,
                                .help = "How much longer the node has no vote because it may have forgotten locks"},
    [METRIC_NODE_SILENCE] = {"holdfast_lock_node_silence_seconds", METRIC_GAUGE, BY_NODE, IN_NS,
                             .help = "How long ago the clock of the node was heard last"},
    [METRIC_LOOP_CYCLE] = {"holdfast_loop_cycle_seconds", METRIC_HISTOGRAM, IN_US,
                           .help = "How long cycles of the loop took, from the first event to the next wait"},
    [METRIC_LOG_DROPPED] = {"holdfast_log_lines_dropped", METRIC_COUNTER, COUNT,
                            .help = "Lines that the log could not take"},
    [METRIC_AGE] = {"holdfast_snapshot_age_seconds", METRIC_GAUGE, IN_NS,
                    .help = "How old these figures are; the loop renews them twice a second"},
    [METRIC_INFO] =
        {"holdfast_process_info", METRIC_GAUGE, {LABEL_PROCESS}, COUNT, .help = "Always 1; the labels tell"},
    [METRIC_CPU] = {"process_cpu_seconds", METRIC_COUNTER, IN_NS, .help = "Processor time, user and system"},
    [METRIC_MEMORY] = {"process_resident_memory_bytes", METRIC_GAUGE, .unit = "bytes", .per_unit = 1,
                       .help = "Resident memory"},
    [METRIC_OPEN_FDS] = {"process_open_fds", METRIC_GAUGE, COUNT, .help = "Open file descriptors"},
    [METRIC_MAX_FDS] = {"process_max_fds", METRIC_GAUGE, COUNT, .help = "How many may be open"},
    [METRIC_START_TIME] = {"process_start_time_seconds", METRIC_GAUGE, IN_US,
                           .help = "When the process began, since 1970"},
    [METRIC_FLEET_PROCESSES] = {"holdfast_fleet_processes", METRIC_GAUGE, COUNT, .help = "Workers that are alive"},
    [METRIC_FLEET_BUSY] = {"holdfast_fleet_busy", METRIC_GAUGE, COUNT,
                           .help = "Handlers that run, as workers last said"},
    [METRIC_FLEET_PROCESSED] = {"holdfast_fleet_processed", METRIC_COUNTER, COUNT,
                                .help = "Tasks that were run, ever, failures included"},
    [METRIC_FLEET_FAILED] = {"holdfast_fleet_failed", METRIC_COUNTER, COUNT, .help = "Runs that failed, ever"},
    [METRIC_FLEET_QUEUE_TASKS] = {"holdfast_fleet_queue_tasks",
                                  METRIC_GAUGE,
                                  {LABEL_QUEUE},
                                  COUNT,
                                  .help = "Tasks in the queue; the longest 200 queues"},
    [METRIC_FLEET_QUEUE_LATENCY] = {"holdfast_fleet_queue_latency_seconds",
                                    METRIC_GAUGE,
                                    {LABEL_QUEUE},
                                    IN_US,
                                    .help = "How long the oldest task of the queue has waited"},
    [METRIC_FLEET_QUEUE_PAUSED] =
        {"holdfast_fleet_queue_paused", METRIC_GAUGE, {LABEL_QUEUE}, COUNT, .help = "1 if the queue is paused"},
    [METRIC_FLEET_SCHEDULED] = {"holdfast_fleet_scheduled_tasks", METRIC_GAUGE, COUNT,
                                .help = "Tasks that wait for their time"},
    [METRIC_FLEET_RETRIES] = {"holdfast_fleet_retry_tasks", METRIC_GAUGE, COUNT,
                              .help = "Tasks that are to be retried"},
    [METRIC_FLEET_DEAD] = {"holdfast_fleet_dead_tasks", METRIC_GAUGE, COUNT, .help = "Tasks that were buried"},
    [METRIC_FLEET_WAITING] = {"holdfast_fleet_waiting_tasks", METRIC_GAUGE, COUNT,
                              .help = "Tasks that wait for a lock"},
    [METRIC_FLEET_NODE_UP] =
        {"holdfast_fleet_lock_node_up", METRIC_GAUGE, {LABEL_NODE}, COUNT, .help = "1 if the lock node answers"},
    [METRIC_FLEET_NODE_VOTES] = {"holdfast_fleet_lock_node_votes",
                                 METRIC_GAUGE,
                                 {LABEL_NODE},
                                 COUNT,
                                 .help = "1 if the lock node counts for majorities"},
    [METRIC_FLEET_QUEUE_NODE_UP] = {"holdfast_fleet_queue_node_up", METRIC_GAUGE, COUNT,
                                    .help = "1 if the queue node answered the last look"},
    [METRIC_FLEET_AGE] = {"holdfast_fleet_age_seconds", METRIC_GAUGE, IN_NS, .help = "How old these figures are"},
};

const char *metric_label_name(enum metric_label label)
{
    static const char *const names[METRIC_LABELS] = {
        [LABEL_QUEUE] = "queue",    [LABEL_CLASS] = "class", [LABEL_OUTCOME] = "outcome",  [LABEL_ANSWER] = "answer",
        [LABEL_RELEASE] = "ending", [LABEL_NODE] = "node",   [LABEL_NODE_SAID] = "answer",
    };
    return names[label];
}

static void row_print(const struct metric_row *row, struct buffer *out)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    buffer_format(out, "| `%s%s` | %s | ", row->name, row->kind == METRIC_COUNTER ? "_total" : "", kinds[row->kind]);
    for (unsigned i = 0; i < METRIC_LABELS_MAX && row->labels[i] != LABEL_NONE; i++)
        buffer_format(out, "%s%s", i > 0 ? ", " : "",
                      row->labels[i] == LABEL_PROCESS ? "host, process, version" : metric_label_name(row->labels[i]));
    buffer_format(out, " | %s |\n", row->help);
}

void metric_manual_print(struct buffer *out)
{
    buffer_append_text(
        out,
        "# Metrics\n\n"
        "What a worker tells at `/metrics` when [http.listen](configuration.md#http) is set, and what\n"
        "[`holdfast serve`](commands.md#holdfast-serve) tells there of the whole fleet (`holdfast_fleet_...`). This\n"
        "page is printed by `holdfast help --metrics` from the table that the programs use.\n"
        "[operations](operations.md#monitoring) has the rest: health, alerts, a dashboard.\n\n"
        "Counters of a worker count from its start. Times are seconds; buckets end at");
    for (unsigned i = 0; i < METRIC_BOUNDS; i++)
        buffer_format(out, "%s%s%g", i > 0 ? "," : "", i == 11 ? "\n" : " ",
                      (double)metric_bounds_us[i] / (double)US_PER_S);
    buffer_append_text(out,
                       " s.\n"
                       "The `class` of a task is `other` if no plugin of the worker has loaded it, because producers\n"
                       "invent names; nor is a resource ever a label: `holdfast top` shows the hottest ones. What\n"
                       "has not happened yet for a class has no sample.\n\n"
                       "| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for (unsigned i = 0; i < METRICS; i++)
        row_print(&metric_table[i], out);
}
