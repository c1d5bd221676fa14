#include "worker/events/task_log.h"

static uint64_t *sum_of(struct task_sums *sums, enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DONE:
        return &sums->done;
    case FLOW_SKIPPED:
        return &sums->skipped;
    case FLOW_SNOOZED:
        return &sums->snoozed;
    default:
        return NULL;
    }
}

void task_log_init(struct task_log *log, unsigned processes)
{
    unsigned share = TASK_LOG_LINES_PER_S / (processes > 0 ? processes : 1);
    *log = (struct task_log){.limit = share > 0 ? share : 1};
}

bool task_log_wants(struct task_log *log, enum config_log_tasks mode, enum flow_ending ending, int64_t ran_ns,
                    struct instant now)
{
    uint64_t *sum = sum_of(&log->sums, ending);
    if (sum == NULL || mode == CONFIG_LOG_TASKS_ALL)
        return true;
    if (mode == CONFIG_LOG_TASKS_FAILURES)
        return false;
    if (!instant_before(now, log->until) && !task_log_has_sums(log)) {
        log->until = instant_after(now, NS_PER_S);
        log->lines = 0;
    }
    if (log->lines < log->limit) {
        log->lines++;
        return true;
    }
    ++*sum;
    log->sums.ran_ns += ran_ns;
    return false;
}

bool task_log_has_sums(const struct task_log *log)
{
    return log->sums.done + log->sums.skipped + log->sums.snoozed > 0;
}

bool task_log_is_due(const struct task_log *log, struct instant now)
{
    return task_log_has_sums(log) && !instant_before(now, log->until);
}

struct task_sums task_log_take(struct task_log *log)
{
    struct task_sums sums = log->sums;
    log->sums = (struct task_sums){0};
    return sums;
}
