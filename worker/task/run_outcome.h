/* What a handler's answer means for its task: the rules that a worker and `holdfast run-handler` share.
 *
 * What is missing in the job's failure is written into it ("failed without giving a reason"). Pure but for the jitter
 * of a delay; the thread that has the job. */
#ifndef WORKER_RUN_RESULT_H
#define WORKER_RUN_RESULT_H

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
    int code;     /* what it returned: an enum hf_code, if it is a good handler */
};

/* Of a run whose lock, if it had one, is still held. Sets `reason`, as failure_outcome does, only if the run failed. */
enum flow_result run_result_of(const struct run_end *end, struct wall_time now, const char **reason);
/* The same for any failure of a task. */
enum flow_result run_failed_result(const struct envelope *envelope, const struct task_rules *rules,
                                   struct wall_time now, const char **reason);

/* When it comes again: as its handler asked for, or as usual. */
int64_t run_retry_delay_ns(const struct hf_job *job, const struct envelope *envelope);
int64_t run_snooze_ns(const struct hf_job *job);

#endif
