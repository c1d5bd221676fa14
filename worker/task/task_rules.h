/* The rules for a task, from the first of these that sets them: the task itself, the configuration of its class, the
 * handler of its class, the default. They are merged once, when the task was claimed; all other code reads the result.
 *
 * A task sets its own retries if `retry` is a number (how often), false or null (never, and it is discarded), or if it
 * has `retry_for`; `retry` true or absent means the default of its class. The first of the four sources that sets a
 * number or a time decides both.
 *
 * Pure; any thread. The texts belong to the envelope, the configuration and the plugin. */
#ifndef WORKER_TASK_RULES_H
#define WORKER_TASK_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/envelope.h"
#include "worker/config/config.h"
#include "worker/plugin/plugin.h"

struct task_rules {
    bool retry_off;          /* the task itself wants no retry: a failure discards it */
    unsigned retry_max;      /* tries after the first; ignored if retry_for_us is set */
    int64_t retry_for_us;    /* after the first failure; -1 = limited by number */
    const char *retry_queue; /* "" = where it came from */
    bool dead_off;           /* a final failure is discarded, not buried */
    unsigned backtrace;      /* lines to keep; 0 = none */
    struct wall_time expiry; /* the time after which it must not start; 0 = none */
    bool at_most_once;       /* finish it before it runs */

    bool unfenced;       /* its lock needs no token */
    int64_t max_hold_ns; /* of its lock; 0 = no limit */
    enum config_on_lost on_lost;

    enum config_mode mode;               /* never CONFIG_MODE_BY_HANDLER */
    bool must_lock;                      /* it is buried if it has nothing to lock; never in CONFIG_MODE_NONE */
    enum config_on_conflict on_conflict; /* never CONFIG_CONFLICT_BY_HANDLER */
    int64_t conflict_delay_ns;
    int64_t hold_at_least_ns; /* since the lock was acquired, unless the task failed; 0 except in efficiency mode */
    bool fails_open;          /* it runs unlocked if a majority of the lock nodes is unavailable */
    unsigned limit;           /* how many may hold its resource at once, at least 1 */
    unsigned waiters_max;     /* for one resource; 0 = any number */
    enum config_on_crowd on_crowd;
    unsigned share; /* runners that its class may occupy at once, at least 1 */

    enum config_isolation isolation;          /* never CONFIG_ISOLATION_BY_HANDLER */
    int64_t timeout_ns;                       /* of a run; 0 = none */
    int64_t grace_ns;                         /* between cancelling a run and killing it, where that is possible */
    unsigned tasks_per_process;               /* 0 = any number */
    int64_t memory_per_process, memory_limit; /* bytes; 0 = any */
    int64_t open_files_limit;                 /* 0 = as the worker has */
    int64_t result_ttl_ns;                    /* 0 = results are not kept */

    /* The task must be buried with this error class and reason, and not run; NULL = it may run. */
    const char *refused_class, *refused_reason;
};

/* `handler` is NULL if the class is not served. */
struct task_rules task_rules_of(const struct envelope *envelope, const struct config *config,
                                const struct plugin_handler *handler);

/* Where the handler of a class runs; `entry` is NULL without settings for the class. */
enum config_isolation class_isolation_of(const struct config_class *entry, const struct plugin_handler *handler);

const char *isolation_name(enum config_isolation isolation); /* "thread", "process" or "exec" */

/* For a task whose class is not served here: when it was first found so, or now, and whether its grace is over, so
 * that it may fail. Ignores a time in the future. */
struct task_unserved {
    struct wall_time since;
    bool is_over;
};
struct task_unserved task_rules_unserved(struct wall_time since, int64_t grace_ns, struct wall_time now);

/* Whether it is too late to start the task. */
bool task_rules_expired(const struct task_rules *rules, struct wall_time now);

/* --- the mode of a class ------------------------------------------------------------------------------------------ */

/* The mode of a class: what its tasks need their locks for. It comes from the configuration of the class (`mode`, or
 * `lock = "none"`), else from its handler, else from what its locks can promise: correctness if at least three lock
 * nodes give them tokens, efficiency otherwise.
 *
 * Pure; any thread. */

/* Fewer are no Redlock: the loss of one node loses the lock. */
enum { CLASS_MODE_NODES_LEAST = 3 };

/* `entry` is the configuration of the handler's class; NULL = none. Never returns CONFIG_MODE_BY_HANDLER. */
enum config_mode class_mode_of(const struct config *config, const struct config_class *entry,
                               const struct plugin_handler *handler);
/* Whether tasks of this mode are buried if they have nothing to lock; false in CONFIG_MODE_NONE. */
bool class_mode_must_lock(enum config_mode mode, const struct config_class *entry,
                          const struct plugin_handler *handler);
/* How long the lock of a successful task is kept; 0 except in CONFIG_MODE_EFFICIENCY. */
int64_t class_mode_hold_at_least_ns(enum config_mode mode, const struct config_class *entry,
                                    const struct plugin_handler *handler);
/* How many of its tasks, and of those of other classes with this limit, may hold a resource at once; at least 1. */
unsigned class_limit_of(const struct config_class *entry);
/* Whether its locks have fencing tokens. */
bool class_mode_is_fenced(const struct config *config, const struct config_class *entry);
const char *class_mode_name(enum config_mode mode); /* "correctness", ... */

#endif
