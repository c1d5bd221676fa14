/* Adding a key: a field in the struct of config.h, a line here, then `make docs` (the sample file and the manual are
 * printed from this table, and a test says so when they are not up to date). */
#include "worker/config/config_table.h"

#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/config/config_node.h"

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const queue_orders[] = {"strict", "weighted", NULL};
static const char *const timestamps[] = {"seconds", "ms", NULL};
static const char *const promotions[] = {"served", "all", NULL};
static const char *const batches[] = {"refuse", "run", NULL};

_Static_assert(LOG_DEBUG == 0 && LOG_ERROR == 3, "log_levels lists enum log_level in its order");
_Static_assert(CONFIG_ORDER_STRICT == 0 && CONFIG_ORDER_WEIGHTED == 1, "queue_orders lists enum config_queue_order");

#define DAYS(count) ((count)*INT64_C(24) * 3600 * NS_PER_S)

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

#define FIELD(member) .offset = offsetof(struct config_worker, member)
static const struct config_key worker_keys[] = {
    {.name = "threads",
     .type = CONFIG_COUNT,
     FIELD(threads),
     .fallback = "16",
     .min = 1,
     .max = 1024,
     .help = "Threads that run handlers: as many tasks run at once in this process."},
    {.name = "queues",
     .type = CONFIG_WORDS,
     FIELD(queues),
     .fallback = "default",
     .min = 1,
     .max = 64,
     .help = "Queues to take tasks from. A group of processes of its own for some queues is a file of its own, or the "
             "option --queues of holdfast work, which overrides this."},
    {.name = "queue_order",
     .type = CONFIG_CHOICE,
     FIELD(queue_order),
     .fallback = "strict",
     .choices = queue_orders,
     .help = "strict: a queue is served while those before it are empty. weighted: by chance, each queue in proportion "
             "to its weight in queue_settings, so that none starves."},
    {.name = "jobs_directory",
     .type = CONFIG_PATH,
     FIELD(jobs_directory),
     .max = 4095,
     .example = "../build/jobs",
     .is_reloadable = true,
     .help = "Directory of the plugins (*.so). Default: jobs beside the program or, once it is installed, "
             "../lib/holdfast/jobs. It and its files must belong to root or to the user that runs the worker, and "
             "nobody else may be able to write them."},
    {.name = "jobs",
     .type = CONFIG_WORDS,
     FIELD(jobs),
     .max = 256,
     .example = "[\"transfer\", \"echo\"]",
     .is_reloadable = true,
     .help = "The plugins to load, by the name of the file without .so. Default: all of the directory."},
    {.name = "host",
     .type = CONFIG_TEXT,
     FIELD(host),
     .max = 64,
     .example = "app-1",
     .help = "The name of this host in claims, locks and logs. Default: what hostname(1) says. Two workers on one "
             "machine may play two hosts with it."},
    {.name = "log_level",
     .type = CONFIG_CHOICE,
     FIELD(log_level),
     .fallback = "info",
     .choices = log_levels,
     .is_reloadable = true,
     .help = "Lines below this level are not written."},
    {.name = "log_file",
     .type = CONFIG_PATH,
     FIELD(log_file),
     .max = 4095,
     .example = "/var/log/holdfast/worker.log",
     .is_reloadable = true,
     .help = "File to append the log to. Default: standard error."},
    {.name = "lease",
     .type = CONFIG_DURATION,
     FIELD(lease_ns),
     .fallback = "15s",
     .min = NS_PER_S,
     .max = 300 * NS_PER_S,
     .help = "A process that the queue node has not heard of for so long is taken for dead: others put its tasks back "
             "into their queues. It is renewed three times as often. All workers at one queue node should have the "
             "same."},
    {.name = "stop_timeout",
     .type = CONFIG_DURATION,
     FIELD(stop_timeout_ns),
     .fallback = "25s",
     .min = 0,
     .max = 3600 * NS_PER_S,
     .is_reloadable = true,
     .help = "After the first SIGTERM or SIGINT no task is started; those that run have this long to finish, then "
             "they are told to stop and are given back. Keep it below the TimeoutStopSec of the service."},
    {.name = "max_task_size",
     .type = CONFIG_SIZE,
     FIELD(max_task_size),
     .fallback = "1MiB",
     .min = KIB,
     .max = 64 * MIB,
     .is_reloadable = true,
     .help = "A longer task is not looked into: it goes to the dead set with that reason. What failures add to the "
             "record of a task does not count."},
    {.name = "max_task_depth",
     .type = CONFIG_COUNT,
     FIELD(max_task_depth),
     .fallback = "64",
     .min = 2,
     .max = JSON_DEPTH_MAX,
     .is_reloadable = true,
     .help = "The same for a task whose arrays and objects are nested deeper; the task itself is the first level."},
    {.name = "max_task_keys",
     .type = CONFIG_COUNT,
     FIELD(max_task_keys),
     .fallback = "4096",
     .min = 16,
     .max = 1000000,
     .is_reloadable = true,
     .help = "The same for a task with more object members, at all levels together."},
    {.name = "timestamps",
     .type = CONFIG_CHOICE,
     FIELD(timestamps),
     .fallback = "seconds",
     .choices = timestamps,
     .is_reloadable = true,
     .help = "How times are written into tasks: seconds are real numbers, which dashboards of every version show "
             "correctly. ms: where a task came with an integer of milliseconds, as version 8 writes them, it is "
             "renewed in that form, which older dashboards show wrongly."},
    {.name = "promote",
     .type = CONFIG_CHOICE,
     FIELD(promote),
     .fallback = "served",
     .choices = promotions,
     .help = "Which due entries of schedule and retry this worker moves to their queues: served, those for its own "
             "queues; all, every one."},
    {.name = "batches",
     .type = CONFIG_CHOICE,
     FIELD(batches),
     .fallback = "refuse",
     .choices = batches,
     .is_reloadable = true,
     .help = "A task that belongs to a batch (it has a bid): refuse buries it, because its batch would wait for ever "
             "for a worker that does not count it down; run runs it all the same."},
    {.name = "allow_root",
     .type = CONFIG_FLAG,
     FIELD(allow_root),
     .fallback = "false",
     .help = "Whether the worker may run as root. Handlers do what tasks ask for: as root a mistake in one of them "
             "owns the machine. As the option --allow-root."},
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_lock, member)
static const struct config_key lock_keys[] = {
    {.name = "ttl",
     .type = CONFIG_DURATION,
     FIELD(ttl_ns),
     .fallback = "10s",
     .min = 500 * NS_PER_MS,
     .max = 60 * NS_PER_S,
     .is_reloadable = true,
     .help = "How long a lock outlives its holder. While a handler runs its lock is extended in the background, so "
             "this is not a limit for tasks; it is how long others wait after a crash."},
    {.name = "drift_factor",
     .type = CONFIG_RATIO,
     FIELD(drift_factor),
     .fallback = "0.01",
     .min = 1000,
     .max = 100000,
     .help = "Share by which the clocks of this host and of the lock nodes may differ in rate. A lock is trusted for "
             "that share of its ttl (and 7 ms) less, and a node whose clock differs by more gets no vote. Slew all "
             "these clocks by at most half of it: docs/lock-nodes.md."},
    {.name = "tries",
     .type = CONFIG_COUNT,
     FIELD(tries),
     .fallback = "3",
     .min = 1,
     .max = 1000,
     .is_reloadable = true,
     .help = "How often to ask the nodes for a lock before the task waits, or ends otherwise. A task that is parked "
             "when its lock is held asks once then: it is woken when that is free."},
    {.name = "retry_delay",
     .type = CONFIG_DURATION,
     FIELD(retry_delay_ns),
     .fallback = "20ms",
     .min = NS_PER_MS,
     .max = 10 * NS_PER_S,
     .is_reloadable = true,
     .help = "Pause between two of these tries."},
    {.name = "retry_jitter",
     .type = CONFIG_DURATION,
     FIELD(retry_jitter_ns),
     .fallback = "30ms",
     .min = NS_PER_MS,
     .max = 10 * NS_PER_S,
     .is_reloadable = true,
     .help = "Up to this much more, at random, so that two who want the same lock do not meet again and again."},
    {.name = "prefix",
     .type = CONFIG_TEXT,
     FIELD(prefix),
     .max = 64,
     .example = "lock:",
     .help = "Put before the name of a resource to make the key on the lock nodes. All programs that are to exclude "
             "each other need the same one. Empty unless set; \"lock:\" is what conf/redis-users.conf allows."},
    {.name = "park_delay",
     .type = CONFIG_DURATION,
     FIELD(park_delay_ns),
     .fallback = "1s",
     .min = 10 * NS_PER_MS,
     .max = 3600 * NS_PER_S,
     .is_reloadable = true,
     .help =
         "How long tasks sleep in the schedule when a majority of the lock nodes cannot be reached, and with "
         "on_conflict = \"delay\" where conflict_delay says nothing. They occupy no thread meanwhile, and it does not "
         "count as a retry. What waits for a lock that is held is woken: docs/contention.md."},
    {.name = "fence",
     .type = CONFIG_FLAG,
     FIELD(fence),
     .fallback = "true",
     .is_reloadable = true,
     .help = "Whether locks have fencing tokens: a number for each hold that is larger than that of every hold of the "
             "resource before it. Without them locks are cheaper, and good for efficiency only: see docs/fencing.md."},
    {.name = "fence_ttl",
     .type = CONFIG_DURATION,
     FIELD(fence_ttl_ns),
     .fallback = "7d",
     .min = 3600 * NS_PER_S,
     .max = DAYS(3653),
     .help =
         "How long a lock node remembers the token of a resource after it was granted: more than the longest hold. A "
         "store that remembers tokens for longer than this is safe still, because new tokens follow the clock."},
    {.name = "max_hold",
     .type = CONFIG_DURATION,
     FIELD(max_hold_ns),
     .fallback = "0s",
     .min = 0,
     .max = DAYS(3653),
     .is_reloadable = true,
     .help = "A lock is lost after so long, however often it was extended: a handler that hangs does not keep its "
             "resource for ever. It counts as a failure of the task. 0s: no limit. Otherwise at least lock.ttl."},
    {.name = "hand_over_tasks",
     .type = CONFIG_COUNT,
     FIELD(hand_over_tasks),
     .fallback = "64",
     .min = 1,
     .max = 1000000,
     .is_reloadable = true,
     .help = "When a task ends and others wait for its lock, the next that this process may run takes the lock over "
             "without giving it up. After so many in a row it is given up, so that other hosts get their turn."},
    {.name = "hand_over_time",
     .type = CONFIG_DURATION,
     FIELD(hand_over_ns),
     .fallback = "1s",
     .min = NS_PER_MS,
     .max = 3600 * NS_PER_S,
     .is_reloadable = true,
     .help = "The same after so long, however few tasks it were."},
    {.name = "max_waiters",
     .type = CONFIG_COUNT,
     FIELD(waiters_max),
     .fallback = "0",
     .min = 0,
     .max = 100000000,
     .is_reloadable = true,
     .help = "How many tasks may wait for one resource, all hosts together; what comes then goes where on_crowd of its "
             "class says. 0: any number."},
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_queue, member)
static const struct config_key queue_keys[] = {
    {.name = "queue",
     .type = CONFIG_TEXT,
     FIELD(name),
     .min = 1,
     .max = 128,
     .is_required = true,
     .example = "default",
     .in_sample = true,
     .help = "The queue that this entry is about. It serves nothing by itself: see worker.queues."},
    {.name = "weight",
     .type = CONFIG_COUNT,
     FIELD(weight),
     .fallback = "1",
     .min = 1,
     .max = 1000,
     .help = "Its share when worker.queue_order is weighted: with 3 it is the first to be looked into three times as "
             "often as a queue with 1."},
    {.name = "classes",
     .type = CONFIG_WORDS,
     FIELD(classes),
     .max = 256,
     .example = "[\"transfer\"]",
     .is_reloadable = true,
     .help = "The classes that tasks of this queue may have; a task of another one is buried, not run. Default: all."},
    {.name = NULL},
};
#undef FIELD

const struct config_section config_sections[] = {
    {.name = "worker",
     .offset = offsetof(struct config, worker),
     .item_size = sizeof(struct config_worker),
     .keys = worker_keys,
     .help = "The process: what it runs, and how it logs and stops."},
    {.name = "queue_node",
     .is_required = true,
     .offset = offsetof(struct config, queue_node),
     .item_size = sizeof(struct config_node),
     .keys = config_queue_node_keys,
     .help = "The Redis server with the queues. Tasks are as durable as this server makes them: docs/operations.md "
             "says what it needs."},
    {.name = "lock_nodes",
     .is_list = true,
     .offset = offsetof(struct config, lock_nodes),
     .count_offset = offsetof(struct config, lock_node_count),
     .item_size = sizeof(struct config_node),
     .keys = config_lock_node_keys,
     .help = "The independent Redis masters of the Redlock: three or five, on different machines, no replicas of each "
             "other. A minority of them may fail. The list may be left out only when no class takes a lock.",
     .sample_more = "    { host = \"127.0.0.1\"; port = 7002; },\n"
                    "    { host = \"127.0.0.1\"; port = 7003; },\n"
                    "    { host = \"127.0.0.1\"; port = 7004; },\n"
                    "    { host = \"127.0.0.1\"; port = 7005; }\n"},
    {.name = "lock",
     .offset = offsetof(struct config, lock),
     .item_size = sizeof(struct config_lock),
     .keys = lock_keys,
     .help = "The terms of every lock."},
    {.name = "queue_settings",
     .is_list = true,
     .offset = offsetof(struct config, queues),
     .count_offset = offsetof(struct config, queue_count),
     .item_size = sizeof(struct config_queue),
     .keys = queue_keys,
     .help = "Settings for queues. A queue that is not listed has the defaults."},
    {.name = "classes",
     .is_list = true,
     .offset = offsetof(struct config, classes),
     .count_offset = offsetof(struct config, class_count),
     .item_size = sizeof(struct config_class),
     .keys = config_class_keys,
     .help = "Settings for classes of tasks. A class that is not listed has the defaults."},
    {.name = "plugin_settings",
     .is_list = true,
     .offset = offsetof(struct config, plugins),
     .count_offset = offsetof(struct config, plugin_count),
     .item_size = sizeof(struct config_plugin),
     .keys = config_plugin_keys,
     .help = "Settings for plugins."},
    {.name = "periodic",
     .is_list = true,
     .is_optional = true,
     .offset = offsetof(struct config, periodic),
     .count_offset = offsetof(struct config, periodic_count),
     .item_size = sizeof(struct config_periodic),
     .keys = config_periodic_keys,
     .help = "Tasks that are pushed at certain times, once per tick by all workers together. docs/periodic.md says "
             "what happens across crashes, missed ticks and changes of the clock."},
    {.name = "on_event",
     .is_optional = true,
     .offset = offsetof(struct config, on_event),
     .item_size = sizeof(struct config_event),
     .keys = config_event_keys,
     .help = "A command that is run when something happens to a task that people should know of. docs/operations.md "
             "says what it is told."},
    {.name = NULL},
};
