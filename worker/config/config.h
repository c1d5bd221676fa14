/* The configuration of a worker, checked and resolved: durations in nanoseconds, sizes in bytes, paths joined to the
 * directory of the file, passwords read. worker/config/config_table.c defines all keys; parsing, checking, printing,
 * the sample file and docs/configuration.md are loops over it.
 *
 *     struct findings findings = {0};
 *     struct config *config = config_read(path, &findings);
 *     if (config == NULL || findings.errors > 0) ... print the findings, do not go on
 *     config_free(config);
 *
 * All errors are reported, each as "file:line: key: what is wrong and what is allowed". Passwords are never printed,
 * and config_free overwrites them. Any thread may read, but in a running worker the reloadable settings belong to
 * the loop thread, which exchanges them when it reloads the configuration (reload.h). The others never change. */
#ifndef WORKER_CONFIG_H
#define WORKER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/log.h"
#include "queue/json.h"
#include "worker/config/findings.h"

struct config_words {
    char **items;
    size_t count;
};

struct config_pair {
    char *key, *value;
};

struct config_pairs {
    struct config_pair *items;
    size_t count;
};

/* Every section starts with where it is in the file. */
struct config_source {
    char *where;    /* "file:line", or NULL if the section is not in the file */
    bool is_broken; /* an error was found in it */
};

enum config_timestamps {
    CONFIG_TIMES_IN_SECONDS,
    CONFIG_TIMES_AS_CAME, /* integers of milliseconds stay so */
};

enum config_promote {
    CONFIG_PROMOTE_SERVED, /* entries for the queues of this worker */
    CONFIG_PROMOTE_ALL,
};

enum config_batches {
    CONFIG_BATCHES_REFUSED, /* a task with `bid` is buried */
    CONFIG_BATCHES_RUN,     /* it runs; its batch is not counted down */
};

enum config_queue_order {
    CONFIG_ORDER_STRICT,   /* a queue is served while those before it are empty */
    CONFIG_ORDER_WEIGHTED, /* at random, in proportion to the weights */
};

enum config_log_tasks {
    CONFIG_LOG_TASKS_AUTO, /* above a rate limit, successful ones are summarised */
    CONFIG_LOG_TASKS_ALL,
    CONFIG_LOG_TASKS_FAILURES,
};

struct config_worker {
    struct config_source source;
    unsigned threads;
    struct config_words queues; /* the served queues; in order of priority if strict */
    enum config_queue_order queue_order;
    char *jobs_directory;
    struct config_words jobs; /* names of .so files without the suffix; none = all of the directory */
    char *host;               /* the name of this host in claims and locks */
    enum log_level log_level;
    enum log_format log_format;
    enum config_log_tasks log_tasks;
    char *log_file; /* "" = standard error */
    int64_t lease_ns;
    int64_t stop_timeout_ns;
    int64_t unknown_class_grace_ns;
    int64_t max_task_size; /* bytes */
    unsigned max_task_depth, max_task_keys;
    enum config_timestamps timestamps;
    enum config_promote promote;
    enum config_batches batches;
    bool allow_root;
};

struct config_node {
    struct config_source source;
    char *name;
    char *host; /* "" if unix_path is set or there are sentinels, and vice versa */
    unsigned port;
    char *unix_path;
    struct config_words sentinels; /* "HOST:PORT"; of the queue node only */
    char *master;                  /* the sentinels' name of the server; NULL = sentinels are impossible */
    char *sentinel_user;           /* "" = AUTH with the password alone */
    char *sentinel_password_file;
    char *user;          /* "" = AUTH with the password alone */
    char *password_file; /* "" = none */
    char *password_env;
    char *password; /* of password_env or of an address; NULL = none */
    bool tls;
    char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name; /* "" = none */
    unsigned database;
    int64_t connect_timeout_ns;
    int64_t call_timeout_ns; /* of one operation: key "call_timeout" of the queue node, "timeout" of a lock node */
};

struct config_lock {
    struct config_source source;
    int64_t ttl_ns;
    double drift_factor;
    unsigned tries;
    int64_t retry_delay_ns;
    int64_t retry_jitter_ns;
    char *prefix;
    int64_t park_delay_ns;
    bool fence;
    int64_t fence_memory;
    int64_t max_hold_ns; /* 0 = no limit */
    unsigned hand_over_tasks;
    int64_t hand_over_ns;
    unsigned waiters_max; /* 0 = any number */
    bool is_guest;        /* not a setting: set in a dry run beside a live fleet (redlock.h) */
};

/* What a class needs its locks for; docs/contention.md says what each promises. */
enum config_mode {
    CONFIG_MODE_BY_HANDLER,
    CONFIG_MODE_CORRECTNESS, /* two at once would do harm */
    CONFIG_MODE_EFFICIENCY,  /* two at once would do the work twice */
    CONFIG_MODE_NONE,        /* no lock is taken */
};

/* What happens to a task whose lock is held elsewhere. */
enum config_on_conflict {
    CONFIG_CONFLICT_BY_HANDLER,
    CONFIG_CONFLICT_PARK,  /* it waits in a list and is woken */
    CONFIG_CONFLICT_SKIP,  /* it ends as skipped */
    CONFIG_CONFLICT_DELAY, /* it is tried again after conflict_delay, in no order */
    CONFIG_CONFLICT_FAIL,  /* as if its handler had failed */
};

enum config_on_no_quorum {
    CONFIG_QUORUM_CLOSED, /* nothing runs without its lock */
    CONFIG_QUORUM_OPEN,   /* it runs unlocked */
};

/* What happens to a task that would have to wait in a full list. */
enum config_on_crowd {
    CONFIG_CROWD_DEAD,
    CONFIG_CROWD_DROP,
    CONFIG_CROWD_DELAY, /* it is tried again after conflict_delay, and is in no waiting list */
};

enum config_lock_mode {
    CONFIG_LOCK_BY_HANDLER, /* the handler's flags decide: required or optional */
    CONFIG_LOCK_REQUIRED,   /* a task that names no resource is buried */
    CONFIG_LOCK_OPTIONAL,   /* locked if the task names a resource */
    CONFIG_LOCK_NONE,       /* never locked, even if the task names a resource and the handler requires one */
};

/* Whether the locks of a class have fencing tokens. */
enum config_fence {
    CONFIG_FENCE_BY_LOCK, /* the value of lock.fence */
    CONFIG_FENCE_YES,
    CONFIG_FENCE_NO,
};

/* What happens to a task whose lock was lost while it ran. */
enum config_on_lost {
    CONFIG_LOST_RETRY,   /* tried again later */
    CONFIG_LOST_REQUEUE, /* back to the head of its queue */
    CONFIG_LOST_DEAD,    /* buried, for a person to look at */
};

enum config_isolation {
    CONFIG_ISOLATION_BY_HANDLER,
    CONFIG_ISOLATION_THREAD,
    CONFIG_ISOLATION_PROCESS,
    CONFIG_ISOLATION_EXEC, /* for a class with a program; never in a file */
};

struct config_queue {
    struct config_source source;
    char *name;
    unsigned weight;
    struct config_words classes; /* allowed in this queue; none = all */
};

/* For settings that a handler has as well. */
enum config_answer { CONFIG_BY_HANDLER, CONFIG_YES, CONFIG_NO };

/* What a program finds when it starts; see surroundings.h. */
struct config_surroundings {
    struct config_pairs environment;
    char *environment_file; /* "" = none */
    char *directory;        /* "" = / */
};

/* The settings of one class. task_rules.h derives the rules from them. */
struct config_class {
    struct config_source source;
    char *name;
    enum config_lock_mode lock;
    char *retry; /* "handler", "no" or a number; checked, and read by config_class_retries */
    int64_t retry_for_ns;
    char *retry_queue; /* "" = the handler decides */
    enum config_answer dead;
    unsigned backtrace; /* lines, for tasks without a number */
    int64_t expires_in_ns;
    enum config_answer at_most_once;
    enum config_fence fence;
    int64_t max_hold_ns; /* 0 = the value of lock.max_hold */
    enum config_on_lost on_lost;
    enum config_mode mode;
    struct config_words resource; /* templates, see resource_template.h; none = those of the handler */
    enum config_on_conflict on_conflict;
    int64_t conflict_delay_ns; /* 0 = the value of lock.park_delay */
    int64_t hold_at_least_ns;  /* 0 = the handler decides */
    enum config_on_no_quorum on_no_quorum;
    unsigned limit;       /* tasks that may hold its resource at once, at least 1 */
    unsigned waiters_max; /* 0 = the value of lock.max_waiters */
    enum config_on_crowd on_crowd;
    unsigned share; /* percent of the threads */
    enum config_isolation isolation;
    struct config_words program;             /* the file and its first arguments; none = the handler is in a plugin */
    struct config_surroundings surroundings; /* of the program */
    int64_t timeout_ns, grace_ns;            /* 0 = the handler decides */
    unsigned tasks_per_process;              /* 0 = any number */
    int64_t memory_per_process;              /* bytes above which a process is replaced; 0 = any */
    int64_t memory_limit;                    /* bytes, RLIMIT_DATA; 0 = the worker's limit */
    unsigned open_files_limit;               /* 0 = the worker's limit */
    int64_t result_ttl_ns;                   /* 0 = results are not kept */
};

struct config_plugin {
    struct config_source source;
    char *name;
    struct config_pairs settings;
};

enum config_missed {
    CONFIG_MISSED_LAST, /* the latest missed tick is pushed, if it is not too old */
    CONFIG_MISSED_SKIP, /* missed ticks are dropped */
};

struct config_periodic {
    struct config_source source;
    char *name; /* never "" after config_read */
    char *cron, *zone;
    char *class_name;
    char *args; /* a JSON array */
    char *queue;
    struct config_words resources;
    char *retry;           /* "class", or a number */
    int64_t expires_in_ns; /* 0 = never */
    enum config_missed missed;
    int64_t catch_up_ns;
};

/* A command that runs after events of tasks; see event_commands.h. */
struct config_event {
    struct config_source source;
    struct config_words command; /* the file and its first arguments; none = no command */
    struct config_words events;
    struct config_surroundings surroundings; /* of the command */
    int64_t timeout_ns;
    unsigned parallel;
};

/* Where the worker tells how it is; see monitor.h. */
struct config_http {
    struct config_source source;
    struct config_words listen; /* http_address.h; none = nowhere */
    char *token_file;           /* "" = none; its content is in `token` */
    char *token;                /* NULL = none */
};

struct config {
    char *path;
    struct config_worker worker;
    struct config_node queue_node;
    struct config_node *lock_nodes;
    size_t lock_node_count;
    struct config_lock lock;
    struct config_queue *queues;
    size_t queue_count;
    struct config_class *classes;
    size_t class_count;
    struct config_plugin *plugins;
    size_t plugin_count;
    struct config_periodic *periodic;
    size_t periodic_count;
    struct config_event on_event;
    struct config_http http;
};

/* NULL if the file cannot be read or parsed at all. Otherwise the configuration, with defaults instead of wrong
 * values; if there are errors, use it for further checks only. */
struct config *config_read(const char *path, struct findings *findings) MUST_CHECK;
/* The same from a text that the program wrote. */
struct config *config_read_written(const struct buffer *text, struct findings *findings) MUST_CHECK;
void config_free(struct config *config); /* NULL is fine */
/* Removes all groups of a list section: "periodic", "queue_settings", ... */
void config_clear_list(struct config *config, const char *section);

/* Replaces the served queues by `names`, separated by commas. Reports errors in them. */
void config_serve_queues(struct config *config, const char *names, struct findings *findings);
/* The weight of this queue for the weighted order: 1 to 1000, by default 1. */
unsigned config_queue_weight(const struct config *config, const char *queue);
/* False if the queue has a list of allowed classes without this one. */
bool config_queue_allows(const struct config *config, const char *queue, const char *class_name);

/* The limits for tasks of producers. */
struct envelope_limits config_task_limits(const struct config *config);

/* The settings for this class, NULL if there are none. */
const struct config_class *config_class_find(const struct config *config, const char *class_name);
/* Whether some class runs without its lock while no majority of the lock nodes is available. */
bool config_runs_unlocked(const struct config *config);
/* Whether the file sets the number of retries, and the number: 0 = never. */
bool config_class_retries(const struct config_class *entry, unsigned *retries);
/* The setting `key` of a plugin, or NULL. */
const char *config_plugin_setting(const struct config *config, const char *plugin, const char *key);

/* "host:port", the path of the unix socket, or "NAME (by 3 sentinels)". */
const char *config_node_address(const struct config_node *node, struct buffer *out);

#endif
