#include "worker/task/class_mode.h"

#include "base/clock.h"

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
