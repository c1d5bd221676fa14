#include "worker/task/run_outcome.h"

#include "base/invariant.h"

#define SNOOZE_NS (30 * NS_PER_S)

enum flow_result run_failed_result(const struct envelope *envelope, const struct task_rules *rules,
                                   struct wall_time now, const char **reason)
{
    switch (failure_outcome(envelope, rules, now, reason)) {
    case FAILURE_RETRY:
        return FLOW_RUN_FAILED;
    case FAILURE_DEAD:
        return FLOW_RUN_EXHAUSTED;
    case FAILURE_VANISHES:
        return FLOW_RUN_HOPELESS;
    }
    invariant_unreachable("a failure outcome outside its enum");
}

/* A timeout overrides every answer of the handler except success. */
static bool has_timed_out(const struct run_end *end)
{
    return end->code != HF_OK && atomic_load_explicit(&end->job->run_entry->asked, memory_order_relaxed) == HF_TIMEOUT;
}

static enum flow_result failed(const struct run_end *end, struct wall_time now, const char **reason)
{
    return run_failed_result(end->envelope, end->rules, now, reason);
}

enum flow_result run_result_of(const struct run_end *end, struct wall_time now, const char **reason)
{
    struct failure *failure = &end->job->outcome.failure;
    if (!end->started)
        return FLOW_RUN_NOT_STARTED;
    if (has_timed_out(end)) {
        failure_set(failure, "HF::TimedOut", "it took longer than its class may, which is %.3g s",
                    (double)end->rules->timeout_ns / (double)NS_PER_S);
        return failed(end, now, reason);
    }
    switch (end->code) {
    case HF_OK:
        return FLOW_RUN_OK;
    case HF_DISCARD:
        return FLOW_RUN_DISCARDED;
    case HF_BURY:
        failure_set(failure, "HF::Buried", "its handler buried it");
        return FLOW_RUN_BURIED;
    case HF_SNOOZE:
        return FLOW_RUN_SNOOZED;
    case HF_CANCELLED:
        if (job_is_unwanted(end->job))
            return FLOW_RUN_UNWANTED;
        if (job_was_cancelled(end->job))
            return FLOW_RUN_CANCELLED;
        failure_set(failure, "HF::BadResult", "its handler says that it was cancelled, and it was not");
        return failed(end, now, reason);
    case HF_FAIL:
        failure_set(failure, "HF::Failed", "its handler failed without giving a reason");
        return failed(end, now, reason);
    default:
        failure_set(failure, "HF::BadResult", "its handler returned %d, which is no result", end->code);
        return failed(end, now, reason);
    }
}

int64_t run_retry_delay_ns(const struct hf_job *job, const struct envelope *envelope)
{
    int64_t asked_ms = job->outcome.retry_in_ms;
    return asked_ms >= 0 ? asked_ms * NS_PER_MS : failure_delay_ns(envelope);
}

int64_t run_snooze_ns(const struct hf_job *job)
{
    int64_t asked_ms = job->outcome.retry_in_ms;
    return asked_ms >= 0 ? asked_ms * NS_PER_MS : SNOOZE_NS;
}
