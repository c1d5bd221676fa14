/* To add a key: a field in the struct of config.h, a row here, then `make docs`, which prints the sample file and
 * the manual from this table (a test compares them). */
#include "worker/config/config_table.h"

#include "base/clock.h"
#include "queue/envelope.h"
#include "redlock/redlock.h"

#define DAYS(count) ((count)*INT64_C(24) * 3600 * NS_PER_S)
#define KIB         INT64_C(1024)
#define MIB         (1024 * KIB)

/* --- nodes -------------------------------------------------------------------------------------------------------- */

#define FIELD(member) .offset = offsetof(struct config_node, member)
#define ADDRESS_KEYS(sample_port)                                                                                      \
    {KEY("host", CONFIG_TEXT, host, NULL, 0, 255), .example = "127.0.0.1", .in_sample = true,                          \
     .help = "Name or address of the server; or redis://[USER@]HOST[:PORT][/DATABASE], with tls rediss://."},          \
        {KEY("port", CONFIG_COUNT, port, "6379", 1, 65535), .example = sample_port, .in_sample = true,                 \
         .help = "Its TCP port."},                                                                                     \
        {KEY("unix_path", CONFIG_PATH, unix_path, NULL, 0, 107), .example = "/run/redis/redis.sock",                   \
         .help = "Instead of host: the path of its unix socket."},                                                     \
        {KEY("user", CONFIG_TEXT, user, NULL, 0, 128), .example = "holdfast",                                          \
         .help = "The user to authenticate as. Default: the password alone is sent."},                                 \
        {KEY("password_file", CONFIG_PATH, password_file, NULL, 0, 4095), .example = "/etc/holdfast/password",         \
         .help = "File with the password in its first line, read for each connection; only its owner may have access " \
                 "to it (chmod 600), and to one of root also a group of this process (chmod 440)."},                   \
        {KEY("password_env", CONFIG_TEXT, password_env, NULL, 0, 255), .example = "REDIS_PASSWORD",                    \
         .help = "Environment variable with the password, instead of a file."},                                        \
        {KEY("tls", CONFIG_FLAG, tls, "false", 0, 0),                                                                  \
         .help = "Speak TLS (1.2 or 1.3), to sentinels too. The certificate of the server has to be for host, or for " \
                 "tls_server_name."},                                                                                  \
        {KEY("tls_ca_file", CONFIG_PATH, tls_ca_file, NULL, 0, 4095), .example = "/etc/holdfast/ca.pem",               \
         .help = "PEM file of the authorities whose certificates are trusted. Default: those of the system."},         \
        {KEY("tls_cert_file", CONFIG_PATH, tls_cert_file, NULL, 0, 4095), .example = "/etc/holdfast/client.pem",       \
         .help = "PEM file of the certificate to show to a server that asks for one, with its chain. A file that is "  \
                 "replaced is used from the next connection on."},                                                     \
        {KEY("tls_key_file", CONFIG_PATH, tls_key_file, NULL, 0, 4095), .example = "/etc/holdfast/client.key",         \
         .help = "PEM file of its key, without a passphrase."},                                                        \
        {KEY("tls_server_name", CONFIG_TEXT, tls_server_name, NULL, 0, 255), .example = "redis.example",               \
         .help = "The name that the certificate has to be for, when it is not the host."},                             \
        {KEY("database", CONFIG_COUNT, database, "0", 0, 65535), .help = "Number of the database to select."},         \
    {                                                                                                                  \
        KEY("connect_timeout", CONFIG_DURATION, connect_timeout_ns, "1s", 10 * NS_PER_MS, 60 * NS_PER_S),              \
            .help = "For connecting and authenticating; the addresses of a name share it. It is tried in the "         \
                    "background for ever."                                                                             \
    }

static const struct config_key config_queue_node_keys[] = {
    ADDRESS_KEYS("7000"),
    {KEY("sentinels", CONFIG_WORDS, sentinels, NULL, 0, 16),
     .example = "[\"10.0.0.1:26379\", \"10.0.0.2:26379\", \"10.0.0.3:26379\"]",
     .help = "Instead of host: the Redis Sentinels to ask for its address, each HOST:PORT, or with tls "
             "rediss://HOST:PORT."},
    {KEY("master", CONFIG_TEXT, master, NULL, 0, 128), .example = "mymaster",
     .help = "The name under which the sentinels know the server."},
    {KEY("sentinel_user", CONFIG_TEXT, sentinel_user, NULL, 0, 128), .example = "holdfast",
     .help = "The user to authenticate as at the sentinels. Default: the password alone is sent."},
    {KEY("sentinel_password_file", CONFIG_PATH, sentinel_password_file, NULL, 0, 4095),
     .example = "/etc/holdfast/sentinel-password",
     .help = "Like password_file, for the sentinels. Default: none is sent."},
    {KEY("call_timeout", CONFIG_DURATION, call_timeout_ns, "1s", 10 * NS_PER_MS, 60 * NS_PER_S),
     .help = "For one operation on this node."},
    {.name = NULL},
};

static const struct config_key config_lock_node_keys[] = {
    {KEY("name", CONFIG_TEXT, name, NULL, 0, 64), .example = "lock1",
     .help = "The name of this node in logs. Default: lock1, lock2 and so on."},
    ADDRESS_KEYS("7001"),
    {KEY("timeout", CONFIG_DURATION, call_timeout_ns, "50ms", NS_PER_MS, 5 * NS_PER_S),
     .help =
         "How long to wait for an answer of this node: at most a quarter of lock.ttl. A node that was slow within the "
         "last minute gets twice its slowest answer time, up to ten times the timeout and a quarter of lock.ttl."},
    {.name = NULL},
};
#undef FIELD

/* --- plugin_settings, periodic, on_event -------------------------------------------------------------------------- */

static const char *const missed_modes[] = {"last", "skip", NULL};
_Static_assert(CONFIG_MISSED_LAST == 0 && CONFIG_MISSED_SKIP == 1, "missed_modes lists enum config_missed");

#define FIELD(member) .offset = offsetof(struct config_plugin, member)
static const struct config_key config_plugin_keys[] = {
    {KEY("plugin", CONFIG_TEXT, name, NULL, 1, 64), .is_required = true, .example = "transfer", .in_sample = true,
     .help = "The name of the plugin."},
    {KEY("settings", CONFIG_PAIRS, settings, NULL, 0, 256), .example = "{ ledger = \"ledger.db\"; }", .in_sample = true,
     .help = "Texts for the plugin, whose manual lists the keys."},
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_periodic, member)
static const struct config_key config_periodic_keys[] = {
    {KEY("name", CONFIG_TEXT, name, NULL, 0, 128), .is_reloadable = true, .example = "nightly report",
     .help = "Workers whose entries have the same name share the ticks, also after its times or arguments changed. "
             "Default: class and cron."},
    {KEY("cron", CONFIG_TEXT, cron, NULL, 1, 255), .is_reloadable = true, .is_required = true, .example = "*/5 * * * *",
     .in_sample = true,
     .help = "When: minute, hour, day of the month, month and day of the week, as in crontab(5); or @hourly, @daily, "
             "@weekly, @monthly, @yearly."},
    {KEY("zone", CONFIG_TEXT, zone, "UTC", 1, 64), .is_reloadable = true, .example = "Europe/Vienna",
     .help = "The time zone of these times, by its name in /usr/share/zoneinfo (package tzdata)."},
    {KEY("class", CONFIG_TEXT, class_name, NULL, 1, 256), .is_reloadable = true, .is_required = true, .example = "echo",
     .in_sample = true, .help = "The class of the task that is pushed at each tick."},
    {KEY("args", CONFIG_TEXT, args, "[]", 2, 65536), .is_reloadable = true, .example = "[\"daily\", 7]",
     .help = "Its arguments, a JSON array as text."},
    {KEY("queue", CONFIG_TEXT, queue, "default", 1, 128), .is_reloadable = true, .help = "The queue it is pushed to."},
    {KEY("resources", CONFIG_WORDS, resources, NULL, 0, 16), .is_reloadable = true, .example = "[\"report:daily\"]",
     .help = "What it locks while it runs."},
    {KEY("retry", CONFIG_TEXT, retry, "class", 1, 16), .is_reloadable = true,
     .help = "How often it is retried: a number as text, \"0\" = never; class: the setting of its class."},
    {KEY("expires_in", CONFIG_DURATION, expires_in_ns, "0s", 0, INT64_C(365) * 24 * 3600 * NS_PER_S),
     .is_reloadable = true, .example = "10m",
     .help = "A task that has not started this long after its push is dropped. 0s: never."},
    {KEY("missed", CONFIG_CHOICE, missed, "last", 0, 0), .is_reloadable = true, .choices = missed_modes,
     .help = "Ticks at which no worker ran or the queue node was unreachable. last: the latest is pushed once, if it "
             "is not older than catch_up. skip: none is."},
    {KEY("catch_up", CONFIG_DURATION, catch_up_ns, "1h", 60 * NS_PER_S, INT64_C(31) * 24 * 3600 * NS_PER_S),
     .is_reloadable = true, .help = "The maximum age of a missed tick."},
    {.name = NULL},
};
#undef FIELD

/* Of a class with a program, and of on_event. */
#define SURROUNDINGS_KEYS                                                                                              \
    {KEY("environment", CONFIG_PAIRS, surroundings.environment, NULL, 0, 256), .is_reloadable = true,                  \
     .example = "{ STAGE = \"test\"; API = \"${API}\"; }",                                                             \
     .help = "Variables of the program: texts; ${NAME} is the worker's own variable, which has to be set. They come "  \
             "before PATH, HOME, LANG and TZ of the worker."},                                                         \
        {KEY("environment_file", CONFIG_PATH, surroundings.environment_file, NULL, 0, 4095), .is_reloadable = true,    \
         .example = "/etc/holdfast/resize.env",                                                                        \
         .help = "File with more of them, a line NAME=VALUE each, the place for secrets; private as a password_file. " \
                 "Read at the start and by a reload."},                                                                \
    {                                                                                                                  \
        KEY("directory", CONFIG_PATH, surroundings.directory, NULL, 0, 4095),                                          \
            .is_reloadable = true, .example = "/srv/resize", .help = "The directory in which it starts. Default: /."   \
    }

#define FIELD(member) .offset = offsetof(struct config_event, member)
static const struct config_key config_event_keys[] = {
    {KEY("command", CONFIG_WORDS, command, NULL, 0, 64), .item_max = 4095, .may_be_one = true,
     .example = "[\"/usr/local/bin/tell-somebody\"]", .is_reloadable = true, .in_sample = true,
     .help = "The absolute path of a program, and its arguments. It reads the event as a JSON object from its standard "
             "input. Default: none."},
    {KEY("events", CONFIG_WORDS, events, "dead lock_lost", 0, 16), .is_reloadable = true,
     .help = "When it runs: dead (a task was buried), skipped (its lock was held), dropped (too many waited for its "
             "lock), lock_lost (while it ran), failed (and will be retried), expired."},
    {KEY("timeout", CONFIG_DURATION, timeout_ns, "30s", 100 * NS_PER_MS, 3600 * NS_PER_S), .is_reloadable = true,
     .help = "A command that takes longer gets SIGTERM and, 2 seconds later, SIGKILL."},
    {KEY("parallel", CONFIG_COUNT, parallel, "2", 1, 64), .is_reloadable = true,
     .help = "How many may run at once. Up to 1,000 events wait; more are dropped, and the log says how many."},
    SURROUNDINGS_KEYS,
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_http, member)
static const struct config_key config_http_keys[] = {
    {KEY("listen", CONFIG_WORDS, listen, NULL, 0, 16), .may_be_one = true, .example = "[\"127.0.0.1:9190\"]",
     .in_sample = true,
     .help = "Addresses to listen on: ADDRESS:PORT, [ADDRESS]:PORT, or the path of a unix socket. With --processes the "
             "second process has the next port, or the path with .2 behind it, and so on. Default: none."},
    {KEY("token_file", CONFIG_PATH, token_file, NULL, 0, 4095), .example = "/etc/holdfast/http-token",
     .help = "File with the token (16 characters or more) in its first line, which requests have to bring "
             "(Authorization: Bearer TOKEN); private as a password_file. Needed if other machines can reach an "
             "address. Read again by a reload."},
    {.name = NULL},
};
#undef FIELD

/* --- classes ------------------------------------------------------------------------------------------------------ */

static const char *const lock_modes[] = {"handler", "required", "optional", "none", NULL};
static const char *const answers[] = {"handler", "yes", "no", NULL};
static const char *const fences[] = {"lock", "yes", "no", NULL};
static const char *const lost_actions[] = {"retry", "requeue", "dead", NULL};
static const char *const modes[] = {"handler", "correctness", "efficiency", "none", NULL};
static const char *const conflicts[] = {"handler", "park", "skip", "delay", "fail", NULL};
static const char *const no_quorums[] = {"closed", "open", NULL};
static const char *const isolations[] = {"handler", "thread", "process", NULL};
static const char *const max_waiters_actions[] = {"dead", "drop", "delay", NULL};

_Static_assert(CONFIG_FENCE_BY_LOCK == 0 && CONFIG_FENCE_NO == 2, "fences lists enum config_fence");
_Static_assert(CONFIG_LOST_RETRY == 0 && CONFIG_LOST_DEAD == 2, "lost_actions lists enum config_on_lost");
_Static_assert(CONFIG_LOCK_BY_HANDLER == 0 && CONFIG_LOCK_NONE == 3, "lock_modes lists enum config_lock_mode");
_Static_assert(CONFIG_MODE_BY_HANDLER == 0 && CONFIG_MODE_NONE == 3, "modes lists enum config_mode");
_Static_assert(CONFIG_CONFLICT_BY_HANDLER == 0 && CONFIG_CONFLICT_FAIL == 4, "conflicts lists enum config_on_conflict");
_Static_assert(CONFIG_QUORUM_CLOSED == 0 && CONFIG_QUORUM_OPEN == 1, "no_quorums lists enum config_on_no_quorum");
_Static_assert(CONFIG_ISOLATION_BY_HANDLER == 0 && CONFIG_ISOLATION_PROCESS == 2,
               "isolations lists enum config_isolation");
_Static_assert(CONFIG_CROWD_DEAD == 0 && CONFIG_CROWD_DELAY == 2, "max_waiters_actions lists enum config_on_crowd");

#define GIB (1024 * MIB)

#define FIELD(member) .offset = offsetof(struct config_class, member)
static const struct config_key config_class_keys[] = {
    {KEY("class", CONFIG_TEXT, name, NULL, 1, 256), .is_required = true, .example = "transfer", .in_sample = true,
     .is_reloadable = true, .help = "The class of the tasks."},
    {KEY("lock", CONFIG_CHOICE, lock, "handler", 0, 0), .choices = lock_modes, .is_reloadable = true,
     .help =
         "required: a task that names no resource is buried. optional: locked if it names one. none: never locked."},
    {KEY("retry", CONFIG_TEXT, retry, "handler", 0, 7), .is_reloadable = true,
     .help = "How often a failed task is retried, unless the task has a number: a number in quotes, or no. The default "
             "of plugins is 25. For a task with \"retry\": true this setting counts; one with false is never retried."},
    {KEY("retry_for", CONFIG_DURATION, retry_for_ns, "0s", 0, DAYS(3653)), .is_reloadable = true,
     .help = "Instead of a number: for how long after its first failure. 0s: the plugin decides."},
    {KEY("retry_queue", CONFIG_TEXT, retry_queue, NULL, 0, 128), .example = "low", .is_reloadable = true,
     .help = "The queue of its retries, unless the task names one. Default: that of the plugin, else the queue it came "
             "from."},
    {KEY("dead", CONFIG_CHOICE, dead, "handler", 0, 0), .choices = answers, .is_reloadable = true,
     .help = "Whether a task that failed for good goes to the dead set. no, or \"dead\": false in the task: it is "
             "discarded."},
    {KEY("backtrace", CONFIG_COUNT, backtrace, "0", 0, ENVELOPE_BACKTRACE_ALL), .is_reloadable = true,
     .help = "How many lines of the call stack the record of a failure keeps, unless the task has a number."},
    {KEY("expires_in", CONFIG_DURATION, expires_in_ns, "0s", 0, DAYS(3653)), .is_reloadable = true,
     .help = "A task that has not started this long after it entered its queue expires, unless it has its own time. "
             "0s: the plugin decides, else never."},
    {KEY("at_most_once", CONFIG_CHOICE, at_most_once, "handler", 0, 0), .choices = answers, .is_reloadable = true,
     .help = "yes: the task is finished before it runs, so it never runs twice: a failure goes to the dead set, a "
             "crash loses the task. no: it is finished after it ran."},
    {KEY("fence", CONFIG_CHOICE, fence, "lock", 0, 0), .choices = fences, .is_reloadable = true,
     .help = "Whether its locks have fencing tokens. lock: the value of lock.fence."},
    {KEY("max_hold", CONFIG_DURATION, max_hold_ns, "0s", 0, DAYS(3653)), .example = "10m", .is_reloadable = true,
     .help = "How long its tasks may hold their locks, extensions included; at least lock.ttl. 0s: lock.max_hold."},
    {KEY("on_lost", CONFIG_CHOICE, on_lost, "retry", 0, 0), .choices = lost_actions, .is_reloadable = true,
     .help = "Where a task goes whose lock was lost while it ran. retry: it is retried after the usual delay, which "
             "uses up a retry only if it exceeded max_hold. requeue: to the head of its queue, as if it had not run. "
             "dead: to the dead set."},
    {KEY("mode", CONFIG_CHOICE, mode, "handler", 0, 0), .choices = modes, .is_reloadable = true,
     .help = "What its locks are for: docs/contention.md. correctness: two of its tasks at one resource would do harm; "
             "needs three lock nodes and tokens, and never runs without its lock. efficiency: they would only do work "
             "twice. none: no lock. Without a mode of the plugin: correctness if its locks have tokens from three lock "
             "nodes or more, else efficiency."},
    {KEY("resource", CONFIG_WORDS, resource, NULL, 0, 16), .item_max = 512, .may_be_one = true,
     .example = "\"account:{0}\"", .is_reloadable = true,
     .help = "What its tasks lock if they name no resource. {0} is their first argument, {1.a.b} the member b of the "
             "member a of the second; {{ is a brace. A task whose arguments have no text or whole number there is "
             "buried. Default: that of the plugin."},
    {KEY("on_conflict", CONFIG_CHOICE, on_conflict, "handler", 0, 0), .choices = conflicts, .is_reloadable = true,
     .help =
         "What happens to a task whose lock is held. park (the default of plugins): it waits in a list, occupies no "
         "thread, and is woken. skip: it ends as skipped; not in mode correctness. delay: it is tried again after "
         "conflict_delay, in no order. fail: as if its handler had failed."},
    {KEY("conflict_delay", CONFIG_DURATION, conflict_delay_ns, "0s", 0, 3600 * NS_PER_S), .example = "5s",
     .is_reloadable = true, .help = "The pause of on_conflict and on_crowd = \"delay\". 0s: lock.park_delay."},
    {KEY("hold_at_least", CONFIG_DURATION, hold_at_least_ns, "0s", 0, 60 * NS_PER_S), .example = "10s",
     .is_reloadable = true,
     .help = "In mode efficiency only: the lock of a successful task stays this long after it was taken, so that the "
             "same work is not repeated at once. At most the max_ttl of the lock nodes. 0s: the plugin decides, else "
             "not at all."},
    {KEY("on_no_quorum", CONFIG_CHOICE, on_no_quorum, "closed", 0, 0), .choices = no_quorums, .is_reloadable = true,
     .help = "While no majority of the lock nodes can be reached. closed: its tasks wait. open: they run without a "
             "lock; in mode efficiency only."},
    {KEY("limit", CONFIG_COUNT, limit, "1", 1, REDLOCK_LIMIT_MAX), .is_reloadable = true,
     .help =
         "How many tasks may hold its resource at once, on all hosts together. More than 1: each of its tasks locks "
         "one resource, and tokens are ordered for each seat: docs/contention.md. All classes that lock the "
         "resource, on all hosts, need the same limit."},
    {KEY("max_waiters", CONFIG_COUNT, waiters_max, "0", 0, 100000000), .is_reloadable = true,
     .help = "How many tasks may wait for one of its resources, on all hosts together. 0: lock.max_waiters."},
    {KEY("on_crowd", CONFIG_CHOICE, on_crowd, "dead", 0, 0), .choices = max_waiters_actions, .is_reloadable = true,
     .help = "Beyond that number. dead: a task goes to the dead set. drop: it ends as dropped. delay: it is tried "
             "again after conflict_delay."},
    {KEY("share", CONFIG_COUNT, share, "100", 1, 100), .is_reloadable = true,
     .help = "Percent of the threads of a process that its tasks may occupy at once, rounded down, but at least one."},
    {KEY("isolation", CONFIG_CHOICE, isolation, "handler", 0, 0), .choices = isolations, .is_reloadable = true,
     .help =
         "Where its handler runs: docs/handlers.md. thread: in the worker, which a crash takes down. process (the "
         "default of plugins): beside it, where a crash costs that run only, and a run that does not stop is killed."},
    {KEY("program", CONFIG_WORDS, program, NULL, 1, 64), .item_max = 4095, .may_be_one = true,
     .example = "[\"/usr/local/bin/resize\", \"--fast\"]", .is_reloadable = true,
     .help = "Instead of a plugin: the absolute path of a program that is started for each of its tasks, and its first "
             "arguments: docs/handlers.md. It gains no privileges (no_new_privs), by sudo for example."},
    SURROUNDINGS_KEYS,
    {KEY("timeout", CONFIG_DURATION, timeout_ns, "0s", 0, DAYS(366)), .example = "5m", .is_reloadable = true,
     .help = "A run that takes longer fails: it is cancelled and, in a process, killed after grace. 0s: the plugin "
             "decides, else never."},
    {KEY("grace", CONFIG_DURATION, grace_ns, "0s", 0, 3600 * NS_PER_S), .is_reloadable = true,
     .help = "How long a run in a process may continue after it was asked to stop; never beyond the end of its lock. "
             "0s: the plugin decides, else 5 s."},
    {KEY("tasks_per_process", CONFIG_COUNT, tasks_per_process, "0", 0, 100000000), .is_reloadable = true,
     .help = "A process that has run this many of its tasks is replaced. 0: any number."},
    {KEY("memory_per_process", CONFIG_SIZE, memory_per_process, "0", 0, 1024 * GIB), .example = "200MiB",
     .is_reloadable = true, .help = "A process that has more memory than this after a run is replaced. 0: any."},
    {KEY("memory_limit", CONFIG_SIZE, memory_limit, "0", 0, 1024 * GIB), .example = "1GiB", .is_reloadable = true,
     .help =
         "The memory of each of its processes, at least 64 MiB: the private memory that it may write (RLIMIT_DATA). "
         "0: the worker's limit."},
    {KEY("open_files_limit", CONFIG_COUNT, open_files_limit, "0", 0, 1048576), .is_reloadable = true,
     .help = "The file descriptors of its processes, at least 16. 0: the worker's limit."},
    {KEY("result_ttl", CONFIG_DURATION, result_ttl_ns, "24h", 0, DAYS(366)), .is_reloadable = true,
     .help = "How long results are kept for holdfast result. 0s: not at all."},
    {.name = NULL},
};
#undef FIELD

/* --- worker, lock, queues ----------------------------------------------------------------------------------------- */

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"text", "json", NULL};
static const char *const log_tasks[] = {"auto", "all", "failures", NULL};
static const char *const queue_orders[] = {"strict", "weighted", NULL};
static const char *const timestamps[] = {"seconds", "ms", NULL};
static const char *const promotions[] = {"served", "all", NULL};
static const char *const batches[] = {"refuse", "run", NULL};

_Static_assert(LOG_DEBUG == 0 && LOG_ERROR == 3, "log_levels lists enum log_level in its order");
_Static_assert(LOG_TEXT == 0 && LOG_JSON == 1, "log_formats lists enum log_format in its order");
_Static_assert(CONFIG_LOG_TASKS_AUTO == 0 && CONFIG_LOG_TASKS_FAILURES == 2, "log_tasks lists enum config_log_tasks");
_Static_assert(CONFIG_ORDER_STRICT == 0 && CONFIG_ORDER_WEIGHTED == 1, "queue_orders lists enum config_queue_order");

#define FIELD(member) .offset = offsetof(struct config_worker, member)
static const struct config_key worker_keys[] = {
    {KEY("threads", CONFIG_COUNT, threads, "16", 1, 1024), .help = "How many tasks this process runs at once."},
    {KEY("queues", CONFIG_WORDS, queues, "default", 1, 64),
     .help = "Queues to take tasks from. holdfast work --queues overrides it."},
    {KEY("queue_order", CONFIG_CHOICE, queue_order, "strict", 0, 0), .choices = queue_orders,
     .help = "strict: a queue is served while those before it are empty. weighted: at random, by the weights in "
             "queue_settings, so that none starves."},
    {KEY("jobs_directory", CONFIG_PATH, jobs_directory, NULL, 0, 4095), .example = "jobs", .is_reloadable = true,
     .help = "Directory of your own plugins (*.so). Default: ../lib/holdfast/jobs beside the program, where `make "
             "install` of a plugin puts it. It and its files must belong to root or to the user of the worker, and no "
             "one else may write to them."},
    {KEY("jobs", CONFIG_WORDS, jobs, NULL, 0, 256), .example = "[\"words\", \"webhook\"]", .is_reloadable = true,
     .help =
         "The plugins to load, by file name without .so: those of jobs_directory, and those that come with Holdfast "
         "(webhook, sql, exec; to try things out echo, sleep, transfer, render). Default: all of the directory."},
    {KEY("host", CONFIG_TEXT, host, NULL, 0, 64), .example = "app-1",
     .help = "The name of this host in claims, locks and logs. Default: what hostname(1) says."},
    {KEY("log_level", CONFIG_CHOICE, log_level, "info", 0, 0), .choices = log_levels, .is_reloadable = true,
     .help = "Lines below this level are not written."},
    {KEY("log_format", CONFIG_CHOICE, log_format, "text", 0, 0), .choices = log_formats, .is_reloadable = true,
     .help = "text: TIME LEVEL event key=value. json: one JSON object a line, where the event is called msg."},
    {KEY("log_tasks", CONFIG_CHOICE, log_tasks, "auto", 0, 0), .choices = log_tasks, .is_reloadable = true,
     .help = "Which tasks get a line when they end. auto: all, but of successful ones at most 100 a second, divided by "
             "the number of processes; the rest is summed up. all: each, also when it is parked. failures: those that "
             "did not succeed."},
    {KEY("log_file", CONFIG_PATH, log_file, NULL, 0, 4095), .example = "/var/log/holdfast/worker.log",
     .is_reloadable = true, .help = "File to append the log to. Default: standard error."},
    {KEY("lease", CONFIG_DURATION, lease_ns, "15s", NS_PER_S, 300 * NS_PER_S),
     .help = "A process that the queue node has not heard from for this long counts as dead, and others put its tasks "
             "back into their queues. Set the same for all workers of a queue node."},
    {KEY("stop_timeout", CONFIG_DURATION, stop_timeout_ns, "25s", 0, 3600 * NS_PER_S), .is_reloadable = true,
     .help = "How long running tasks may take to finish after the first SIGTERM or SIGINT, before they are asked to "
             "stop. Keep it below TimeoutStopSec of the service."},
    {KEY("max_task_size", CONFIG_SIZE, max_task_size, "1MiB", KIB, 64 * MIB), .is_reloadable = true,
     .help = "A longer task goes to the dead set unread."},
    {KEY("max_task_depth", CONFIG_COUNT, max_task_depth, "64", 2, JSON_DEPTH_MAX), .is_reloadable = true,
     .help = "The same for nesting of arrays and objects; the task itself is the first level."},
    {KEY("max_task_keys", CONFIG_COUNT, max_task_keys, "4096", 16, 1000000), .is_reloadable = true,
     .help = "The same for object members, at all levels together."},
    {KEY("unknown_class_grace", CONFIG_DURATION, unknown_class_grace_ns, "10m", 0, DAYS(30)), .is_reloadable = true,
     .help = "How long a task of a class that this worker does not serve comes back without counting a failure: the "
             "time of a rolling deployment. Then it fails by its own retry rules, but only while no living process of "
             "the fleet announces its class. 0: from the first time on."},
    {KEY("timestamps", CONFIG_CHOICE, timestamps, "seconds", 0, 0), .choices = timestamps, .is_reloadable = true,
     .help = "How times are written into tasks. seconds: as real numbers, which every dashboard shows correctly. ms: "
             "integers of milliseconds, as Sidekiq 8 writes them, stay so; older dashboards show those wrongly."},
    {KEY("promote", CONFIG_CHOICE, promote, "served", 0, 0), .choices = promotions,
     .help = "Which due entries of schedule and retry this worker moves to their queues. served: those for its own "
             "queues."},
    {KEY("batches", CONFIG_CHOICE, batches, "refuse", 0, 0), .choices = batches, .is_reloadable = true,
     .help = "A task of a batch (it has a bid). refuse: it is buried, because no worker here counts the batch down. "
             "run: it runs all the same."},
    {KEY("allow_root", CONFIG_FLAG, allow_root, "false", 0, 0),
     .help =
         "Whether the worker may run as root, like the option --allow-root. A bug in a handler then owns the machine."},
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_lock, member)
static const struct config_key lock_keys[] = {
    {KEY("ttl", CONFIG_DURATION, ttl_ns, "10s", 500 * NS_PER_MS, 60 * NS_PER_S), .is_reloadable = true,
     .help = "How long others wait for a lock after a crash of its holder. It does not limit tasks: while a handler "
             "runs, its lock is extended."},
    {KEY("drift_factor", CONFIG_RATIO, drift_factor, "0.01", 1000, 100000),
     .help = "Share by which the clocks of this host and of the lock nodes may differ in rate. A lock is trusted for "
             "that share of its ttl (and 7 ms) less, and a node whose clock differs by more has no vote. Slew these "
             "clocks by at most half of it: docs/lock-nodes.md."},
    {KEY("tries", CONFIG_COUNT, tries, "3", 1, 1000), .is_reloadable = true,
     .help = "How often to request a lock before the task waits or ends. A task that will be parked asks once."},
    {KEY("retry_delay", CONFIG_DURATION, retry_delay_ns, "20ms", NS_PER_MS, 10 * NS_PER_S), .is_reloadable = true,
     .help = "Pause between tries."},
    {KEY("retry_jitter", CONFIG_DURATION, retry_jitter_ns, "30ms", NS_PER_MS, 10 * NS_PER_S), .is_reloadable = true,
     .help = "At most this much more, at random, so that two tasks do not collide repeatedly."},
    {KEY("prefix", CONFIG_TEXT, prefix, NULL, 0, 64), .example = "lock:",
     .help = "The beginning of keys on the lock nodes, before the resource. All programs that exclude each other need "
             "the same one. conf/redis-users.conf allows \"lock:\"."},
    {KEY("park_delay", CONFIG_DURATION, park_delay_ns, "1s", 10 * NS_PER_MS, 3600 * NS_PER_S), .is_reloadable = true,
     .help = "How long tasks wait in the schedule while no majority of the lock nodes can be reached, and with "
             "on_conflict = \"delay\" without a conflict_delay. They use up no retry."},
    {KEY("fence", CONFIG_FLAG, fence, "true", 0, 0), .is_reloadable = true,
     .help = "Whether locks have fencing tokens (docs/fencing.md). Without them locks are cheaper, and good for "
             "efficiency only."},
    {KEY("fence_memory", CONFIG_SIZE, fence_memory, "64MiB", MIB, 64 * GIB),
     .help = "About how much memory the tokens take on a lock node (docs/lock-nodes.md). The "
             "lowest are forgotten first, and new ones begin above all that were forgotten."},
    {KEY("max_hold", CONFIG_DURATION, max_hold_ns, "0s", 0, DAYS(3653)), .is_reloadable = true,
     .help = "A lock is lost after this time, however often it was extended, and its task fails. 0s: no limit. "
             "Otherwise at least lock.ttl."},
    {KEY("hand_over_tasks", CONFIG_COUNT, hand_over_tasks, "64", 1, 1000000), .is_reloadable = true,
     .help = "When a task ends, the next of this process that waits for its lock takes it over. After this many in a "
             "row the lock is released, so that other hosts get their turn."},
    {KEY("hand_over_time", CONFIG_DURATION, hand_over_ns, "1s", NS_PER_MS, 3600 * NS_PER_S), .is_reloadable = true,
     .help = "The same after this time, for any number of tasks."},
    {KEY("max_waiters", CONFIG_COUNT, waiters_max, "0", 0, 100000000), .is_reloadable = true,
     .help = "How many tasks may wait for one resource, on all hosts together; on_crowd of the class says where more "
             "go. 0: any number."},
    {.name = NULL},
};
#undef FIELD

#define FIELD(member) .offset = offsetof(struct config_queue, member)
static const struct config_key queue_keys[] = {
    {KEY("queue", CONFIG_TEXT, name, NULL, 1, 128), .is_required = true, .example = "default", .in_sample = true,
     .help = "The name of the queue."},
    {KEY("weight", CONFIG_COUNT, weight, "1", 1, 1000),
     .help = "Its share if worker.queue_order is weighted: with 3 it comes first three times as often as with 1."},
    {KEY("classes", CONFIG_WORDS, classes, NULL, 0, 256), .example = "[\"transfer\"]", .is_reloadable = true,
     .help = "The classes of its tasks; a task of another class is buried. Default: all."},
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
     .help = "The Redis server with the queues. Tasks are as durable as it makes them: docs/operations.md."},
    {.name = "lock_nodes",
     .is_list = true,
     .offset = offsetof(struct config, lock_nodes),
     .count_offset = offsetof(struct config, lock_node_count),
     .item_size = sizeof(struct config_node),
     .keys = config_lock_node_keys,
     .help = "The independent Redis masters of the Redlock: three or five, on different machines, no replicas of each "
             "other. A minority may fail. Needed unless no class takes a lock.",
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
     .help = "A queue that is not listed has the defaults."},
    {.name = "classes",
     .is_list = true,
     .offset = offsetof(struct config, classes),
     .count_offset = offsetof(struct config, class_count),
     .item_size = sizeof(struct config_class),
     .keys = config_class_keys,
     .help = "A class that is not listed has the defaults. Where a value is \"handler\", the plugin decides."},
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
     .help = "Tasks that all workers together push once at certain times: docs/periodic.md."},
    {.name = "on_event",
     .is_optional = true,
     .offset = offsetof(struct config, on_event),
     .item_size = sizeof(struct config_event),
     .keys = config_event_keys,
     .help = "A command that runs after events of tasks: docs/operations.md."},
    {.name = "http",
     .is_optional = true,
     .offset = offsetof(struct config, http),
     .item_size = sizeof(struct config_http),
     .keys = config_http_keys,
     .help = "Where a worker serves /metrics, /healthz and /readyz: docs/operations.md."},
    {.name = NULL},
};
