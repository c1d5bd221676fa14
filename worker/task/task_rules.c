/* Merges one rule at a time, each in the order task, configuration, handler, default. */
#include "worker/task/task_rules.h"

#include "base/clock.h"

#define US_PER_MS           (US_PER_S / MS_PER_S)
#define GRACE_USUAL_NS      (5 * NS_PER_S)
#define RESULT_TTL_USUAL_NS (INT64_C(24) * 3600 * NS_PER_S)

/* For classes without settings, and classes without a handler. */
static const struct config_class no_settings;
static const struct plugin_handler no_handler;

static void retries_merge(struct task_rules *rules, const struct envelope *envelope, const struct config_class *entry,
                          const struct plugin_handler *handler)
{
    rules->retry_off = envelope->retry_off;
    rules->retry_max = envelope->retry_max;
    rules->retry_for_us = envelope->retry_for_us;
    if (envelope->retry_off || envelope->retry_counted || envelope->retry_for_us >= 0)
        return;
    if (config_class_retries(entry, &rules->retry_max))
        return;
    if (entry->retry_for_ns > 0)
        rules->retry_for_us = entry->retry_for_ns / NS_PER_US;
    else if ((handler->flags & HF_NO_RETRY) != 0)
        rules->retry_max = 0;
    else if (handler->retry_for_ms > 0)
        rules->retry_for_us = handler->retry_for_ms * US_PER_MS;
    else if (handler->retries > 0)
        rules->retry_max = handler->retries;
}

static const char *retry_queue_of(const struct envelope *envelope, const struct config_class *entry,
                                  const struct plugin_handler *handler)
{
    if (envelope->retry_queue[0] != '\0')
        return envelope->retry_queue;
    if (entry->retry_queue != NULL && entry->retry_queue[0] != '\0')
        return entry->retry_queue;
    return handler->retry_queue != NULL ? handler->retry_queue : "";
}

static bool answer_of(enum config_answer answer, bool by_handler)
{
    return answer == CONFIG_BY_HANDLER ? by_handler : answer == CONFIG_YES;
}

static void lock_rules_merge(struct task_rules *rules, const struct config_class *entry,
                             const struct plugin_handler *handler, const struct config_lock *lock)
{
    rules->unfenced = entry->fence == CONFIG_FENCE_BY_LOCK ? !lock->fence : entry->fence == CONFIG_FENCE_NO;
    int64_t class_ns = entry->max_hold_ns > 0 ? entry->max_hold_ns : handler->max_hold_ms * NS_PER_MS;
    rules->max_hold_ns = class_ns > 0 ? class_ns : lock->max_hold_ns;
    rules->on_lost = entry->on_lost;
}

static enum config_on_conflict conflict_of(const struct config_class *entry, const struct plugin_handler *handler,
                                           enum config_mode mode)
{
    static const enum config_on_conflict of_handlers[] = {
        [HF_CONFLICT_USUAL] = CONFIG_CONFLICT_PARK, [HF_CONFLICT_PARK] = CONFIG_CONFLICT_PARK,
        [HF_CONFLICT_SKIP] = CONFIG_CONFLICT_SKIP,  [HF_CONFLICT_DELAY] = CONFIG_CONFLICT_DELAY,
        [HF_CONFLICT_FAIL] = CONFIG_CONFLICT_FAIL,
    };
    if (entry->on_conflict != CONFIG_CONFLICT_BY_HANDLER)
        return entry->on_conflict;
    enum config_on_conflict by_handler = of_handlers[handler->on_conflict];
    return by_handler == CONFIG_CONFLICT_SKIP && mode != CONFIG_MODE_EFFICIENCY ? CONFIG_CONFLICT_PARK : by_handler;
}

static void mode_rules_merge(struct task_rules *rules, const struct config *config, const struct config_class *entry,
                             const struct plugin_handler *handler)
{
    rules->mode = class_mode_of(config, entry, handler);
    rules->must_lock = class_mode_must_lock(rules->mode, entry, handler);
    rules->on_conflict = conflict_of(entry, handler, rules->mode);
    rules->conflict_delay_ns = entry->conflict_delay_ns > 0 ? entry->conflict_delay_ns : config->lock.park_delay_ns;
    rules->hold_at_least_ns = class_mode_hold_at_least_ns(rules->mode, entry, handler);
    rules->fails_open = rules->mode == CONFIG_MODE_EFFICIENCY && entry->on_no_quorum == CONFIG_QUORUM_OPEN;
    rules->limit = class_limit_of(entry);
    rules->waiters_max = entry->waiters_max > 0 ? entry->waiters_max : config->lock.waiters_max;
    rules->on_crowd = entry->on_crowd;
    /* A class without settings has no share: all of them. */
    unsigned percent = entry->share > 0 ? entry->share : 100, threads = config->worker.threads;
    rules->share = threads * percent / 100 > 0 ? threads * percent / 100 : 1;
}

enum config_isolation class_isolation_of(const struct config_class *entry, const struct plugin_handler *handler)
{
    if (handler->program != NULL)
        return CONFIG_ISOLATION_EXEC;
    if (entry != NULL && entry->isolation != CONFIG_ISOLATION_BY_HANDLER)
        return entry->isolation;
    return handler->isolation == HF_ISOLATION_THREAD ? CONFIG_ISOLATION_THREAD : CONFIG_ISOLATION_PROCESS;
}

const char *isolation_name(enum config_isolation isolation)
{
    static const char *const names[] = {[CONFIG_ISOLATION_BY_HANDLER] = "handler",
                                        [CONFIG_ISOLATION_THREAD] = "thread",
                                        [CONFIG_ISOLATION_PROCESS] = "process",
                                        [CONFIG_ISOLATION_EXEC] = "exec"};
    return names[isolation];
}

static void run_rules_merge(struct task_rules *rules, const struct config_class *entry,
                            const struct plugin_handler *handler)
{
    int64_t grace_ns = entry->grace_ns > 0 ? entry->grace_ns : handler->grace_ms * NS_PER_MS;
    rules->isolation = class_isolation_of(entry, handler);
    rules->timeout_ns = entry->timeout_ns > 0 ? entry->timeout_ns : handler->timeout_ms * NS_PER_MS;
    rules->grace_ns = grace_ns > 0 ? grace_ns : GRACE_USUAL_NS;
    rules->tasks_per_process = entry->tasks_per_process;
    rules->memory_per_process = entry->memory_per_process;
    rules->memory_limit = entry->memory_limit;
    rules->open_files_limit = entry->open_files_limit;
    rules->result_ttl_ns = entry != &no_settings ? entry->result_ttl_ns : RESULT_TTL_USUAL_NS;
}

static void refusal_of(struct task_rules *rules, const struct envelope *envelope, const struct config *config)
{
    if (envelope->is_encrypted) {
        rules->refused_class = "HF::Encrypted";
        rules->refused_reason = "its last argument is encrypted (\"encrypt\"), and this worker has no key for it: push "
                                "it unencrypted, or to a queue of a worker that can read it";
    } else if (envelope->has_batch && config->worker.batches == CONFIG_BATCHES_REFUSED) {
        rules->refused_class = "HF::Batch";
        rules->refused_reason = "it belongs to a batch (\"bid\"), which would wait for ever, because this worker does "
                                "not count batches down; worker.batches = \"run\" runs it all the same";
    }
}

struct task_rules task_rules_of(const struct envelope *envelope, const struct config *config,
                                const struct plugin_handler *handler)
{
    struct task_rules rules = {0};
    const struct config_class *entry = config_class_find(config, envelope->class_name);
    if (entry == NULL)
        entry = &no_settings;
    if (handler == NULL)
        handler = &no_handler;
    retries_merge(&rules, envelope, entry, handler);
    rules.retry_queue = retry_queue_of(envelope, entry, handler);
    rules.dead_off = envelope->dead_off || !answer_of(entry->dead, (handler->flags & HF_NO_GRAVE) == 0);
    rules.backtrace = envelope->backtrace_given ? envelope->backtrace : entry->backtrace;
    int64_t class_us = entry->expires_in_ns > 0 ? entry->expires_in_ns / NS_PER_US : handler->expires_in_ms * US_PER_MS;
    rules.expiry = envelope_expiry(envelope, class_us);
    rules.at_most_once = answer_of(entry->at_most_once, (handler->flags & HF_AT_MOST_ONCE) != 0);
    lock_rules_merge(&rules, entry, handler, &config->lock);
    mode_rules_merge(&rules, config, entry, handler);
    run_rules_merge(&rules, entry, handler);
    refusal_of(&rules, envelope, config);
    return rules;
}

bool task_rules_expired(const struct task_rules *rules, struct wall_time now)
{
    return rules->expiry.us != 0 && now.us >= rules->expiry.us;
}

struct task_unserved task_rules_unserved(struct wall_time since, int64_t grace_ns, struct wall_time now)
{
    struct wall_time first = since.us > 0 && since.us <= now.us ? since : now;
    return (struct task_unserved){.since = first, .is_over = now.us - first.us >= grace_ns / NS_PER_US};
}

/* --- the mode of a class ------------------------------------------------------------------------------------------ */

bool class_mode_is_fenced(const struct config *config, const struct config_class *entry)
{
    if (entry == NULL || entry->fence == CONFIG_FENCE_BY_LOCK)
        return config->lock.fence;
    return entry->fence == CONFIG_FENCE_YES;
}

static enum config_mode mode_of_handler(const struct plugin_handler *handler)
{
    static const enum config_mode modes[] = {
        [HF_MODE_USUAL] = CONFIG_MODE_BY_HANDLER,
        [HF_CORRECTNESS] = CONFIG_MODE_CORRECTNESS,
        [HF_EFFICIENCY] = CONFIG_MODE_EFFICIENCY,
        [HF_UNLOCKED] = CONFIG_MODE_NONE,
    };
    return modes[handler->mode];
}

enum config_mode class_mode_of(const struct config *config, const struct config_class *entry,
                               const struct plugin_handler *handler)
{
    if (entry != NULL && entry->lock == CONFIG_LOCK_NONE)
        return CONFIG_MODE_NONE;
    if (entry != NULL && entry->mode != CONFIG_MODE_BY_HANDLER)
        return entry->mode;
    if (handler->mode != HF_MODE_USUAL)
        return mode_of_handler(handler);
    bool is_redlock = config->lock_node_count >= CLASS_MODE_NODES_LEAST;
    return is_redlock && class_mode_is_fenced(config, entry) ? CONFIG_MODE_CORRECTNESS : CONFIG_MODE_EFFICIENCY;
}

bool class_mode_must_lock(enum config_mode mode, const struct config_class *entry, const struct plugin_handler *handler)
{
    if (mode == CONFIG_MODE_NONE)
        return false;
    if (entry == NULL || entry->lock == CONFIG_LOCK_BY_HANDLER)
        return (handler->flags & HF_LOCK_REQUIRED) != 0;
    return entry->lock == CONFIG_LOCK_REQUIRED;
}

int64_t class_mode_hold_at_least_ns(enum config_mode mode, const struct config_class *entry,
                                    const struct plugin_handler *handler)
{
    if (mode != CONFIG_MODE_EFFICIENCY)
        return 0;
    return entry != NULL && entry->hold_at_least_ns > 0 ? entry->hold_at_least_ns
                                                        : handler->hold_at_least_ms * NS_PER_MS;
}

unsigned class_limit_of(const struct config_class *entry)
{
    return entry != NULL && entry->limit > 1 ? entry->limit : 1;
}

const char *class_mode_name(enum config_mode mode)
{
    static const char *const names[] = {
        [CONFIG_MODE_BY_HANDLER] = "handler",
        [CONFIG_MODE_CORRECTNESS] = "correctness",
        [CONFIG_MODE_EFFICIENCY] = "efficiency",
        [CONFIG_MODE_NONE] = "none",
    };
    return names[mode];
}
