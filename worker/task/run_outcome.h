/* What a handler's return code means for its task: the rules that a worker and `holdfast run-handler` share.
 *
 * Completes the job's failure if the handler gave no reason. Pure, except for the jitter of a delay; runs on the
 * thread that has the job. */
#ifndef WORKER_RUN_OUTCOME_H
#define WORKER_RUN_OUTCOME_H

#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/flow.h"
#include "worker/task/job_host.h"
#include "worker/task/task_rules.h"

struct run_end {
    struct hf_job *job;
    const struct envelope *envelope;
    const struct task_rules *rules;
    bool started; /* its handler was called */
    int code;     /* its return code, which should be an enum hf_code */
};

/* For a run whose lock, if any, is still held. If the run failed, sets `reason` like failure_outcome. */
enum flow_result run_result_of(const struct run_end *end, struct wall_time now, const char **reason);
/* The same for any failure of a task. */
enum flow_result run_failed_result(const struct envelope *envelope, const struct task_rules *rules,
                                   struct wall_time now, const char **reason);

/* The delay before its retry: the one its handler chose, or the usual one. */
int64_t run_retry_delay_ns(const struct hf_job *job, const struct envelope *envelope);
int64_t run_snooze_ns(const struct hf_job *job);

#endif
