/* How a task is treated: what it says itself, else what the configuration says of its class, else what the handler of
 * the class says, else what is usual. Merged once, when a task has been claimed; everybody else asks the result.
 *
 * About retries a task says something when `retry` is a number (so often), or false or null (never, and it is
 * forgotten), or when it has `retry_for`; `retry` true or absent means "as usual for its class". The first of the
 * four that says how often or how long decides both.
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
    bool retry_off;          /* a failure is the end, and nothing is buried: the task says so itself */
    unsigned retry_max;      /* tries after the first; not looked at when retry_for_us is set */
    int64_t retry_for_us;    /* after the first failure; -1 = limited by number */
    const char *retry_queue; /* "" = where it came from */
    bool dead_off;           /* a final failure is discarded, not buried */
    unsigned backtrace;      /* lines to keep of one; 0 = none */
    struct wall_time expiry; /* too late to be started; 0 = never */
    bool at_most_once;       /* finish it before it runs */

    bool unfenced;       /* its lock needs no token */
    int64_t max_hold_ns; /* of its lock; 0 = no limit */
    enum config_on_lost on_lost;

    enum config_mode mode;               /* never CONFIG_MODE_BY_HANDLER */
    bool must_lock;                      /* it is buried when it has nothing to lock; never in CONFIG_MODE_NONE */
    enum config_on_conflict on_conflict; /* never CONFIG_CONFLICT_BY_HANDLER */
    int64_t conflict_delay_ns;
    int64_t hold_at_least_ns; /* since it was taken, unless the task failed; 0 in all but CONFIG_MODE_EFFICIENCY */
    bool fails_open;          /* without a majority of the lock nodes it runs unlocked */
    unsigned waiters_max;     /* for one resource; 0 = any number */
    enum config_on_crowd on_crowd;
    unsigned share; /* runners that its class may occupy at once, at least 1 */

    enum config_isolation isolation; /* never CONFIG_ISOLATION_BY_HANDLER */
    int64_t timeout_ns;              /* of a run; 0 = none */
    int64_t grace_ns;                /* between a run's being cancelled and its being killed, where that can be done */
    unsigned tasks_per_process;      /* 0 = any number */
    int64_t memory_per_process, memory_limit; /* bytes; 0 = any */
    int64_t open_files_limit;                 /* 0 = as the worker has */
    int64_t result_ttl_ns;                    /* 0 = results are not kept */

    /* It must not be run at all, but buried with this class of error and this reason; NULL = it may. */
    const char *refused_class, *refused_reason;
};

/* `handler` is NULL when nobody serves the class. */
struct task_rules task_rules_of(const struct envelope *envelope, const struct config *config,
                                const struct plugin_handler *handler);

/* Where the handler of a class runs; `entry` is NULL when the file says nothing about the class. */
enum config_isolation class_isolation_of(const struct config_class *entry, const struct plugin_handler *handler);

const char *isolation_name(enum config_isolation isolation); /* "thread", "process" or "exec" */

/* Of a task whose class is not served here: when it was first met so, if that is not now, and whether its grace is
 * over, so that it may fail. A time that lies ahead is not believed. */
struct task_unserved {
    struct wall_time since;
    bool is_over;
};
struct task_unserved task_rules_unserved(struct wall_time since, int64_t grace_ns, struct wall_time now);

/* Whether it is too late to start the task. */
bool task_rules_expired(const struct task_rules *rules, struct wall_time now);

/* --- the mode of a class ------------------------------------------------------------------------------------------ */

/* What the tasks of a class need their locks for: its mode. The one place that answers it, from what the configuration
 * says of the class (`mode`, or `lock = "none"`), else from what its handler says, else from what its locks can
 * promise: correctness when they have tokens from at least three lock nodes, efficiency otherwise.
 *
 * Pure; any thread. */

/* Fewer are no Redlock: a lock there is gone when one node is. */
enum { CLASS_MODE_NODES_LEAST = 3 };

/* `entry` is what the configuration says of the class that the handler serves; NULL = nothing. Never
 * CONFIG_MODE_BY_HANDLER. */
enum config_mode class_mode_of(const struct config *config, const struct config_class *entry,
                               const struct plugin_handler *handler);
/* Whether tasks of a class of this mode are buried when they have nothing to lock; never in CONFIG_MODE_NONE. */
bool class_mode_must_lock(enum config_mode mode, const struct config_class *entry,
                          const struct plugin_handler *handler);
/* How long the lock of a task that went well stays; 0 in all but CONFIG_MODE_EFFICIENCY. */
int64_t class_mode_hold_at_least_ns(enum config_mode mode, const struct config_class *entry,
                                    const struct plugin_handler *handler);
/* Whether its locks have fencing tokens. */
bool class_mode_is_fenced(const struct config *config, const struct config_class *entry);
const char *class_mode_name(enum config_mode mode); /* "correctness", ... */

#endif
