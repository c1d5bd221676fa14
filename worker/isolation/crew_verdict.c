#include <sys/wait.h>

#include "worker/isolation/child_end.h"
#include "worker/isolation/crew_private.h"
#include "worker/isolation/runner_process.h"

/* The zygote did, because the time of the run was over: whose time that was is on the board. */
static int killed_in_time(struct isolated_run *run, const struct board *board)
{
    struct hf_job *job = run->job;
    int asked = atomic_load_explicit(&run->berth->asked, memory_order_relaxed);
    bool was_asked = asked != HF_NOT_CANCELLED && asked != HF_TIMEOUT;
    if (was_asked || !job_lock_is_valid(job) || (asked != HF_TIMEOUT && atomic_load(&board->must_stop)))
        return HF_CANCELLED;
    failure_set(&job->outcome.failure, "HF::TimedOut", "it ran for longer than its class may, and was killed");
    return HF_FAIL;
}

int crew_verdict(struct isolated_run *run, uint64_t run_number, const struct board *board, const struct child_exit *end,
                 const char *complaint)
{
    char text[128];
    struct job_outcome *outcome = &run->job->outcome;
    job_outcome_clear(outcome);
    if (end->killed_run == run_number && board->berths + end->killed_berth == run->berth)
        return killed_in_time(run, board);
    if (end->killed_run != 0) /* the kill was meant for its run before: this one has nothing to do with it */
        return ISOLATION_NOT_STARTED;
    child_end_describe(end->wait_status, text, sizeof text);
    if (complaint[0] != '\0')
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", complaint);
    else if (WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == RUNNER_CUT_OFF)
        failure_set(&outcome->failure, "HF::Crashed", "it closed a descriptor of its process that was not its own");
    else
        failure_set(&outcome->failure, "HF::Crashed", "its process %s", text);
    return HF_FAIL;
}
