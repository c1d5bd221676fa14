/* What the run of a task that is done leaves behind is made ready for the move that ends it: the tasks that follow from
 * it, complete as of now, and the record of its result. On the loop. */
#include <string.h>

#include "queue/task_result.h"
#include "worker/worker_state.h"

/* What a large one needed is given back. */
enum { TEXT_KEPT_MAX = 64 * 1024 };

static bool follow_ups_take(struct slot *slot, struct error *error)
{
    const struct job_outcome *outcome = &slot->job.outcome;
    if (outcome->follow_up_count == 0)
        return true;
    if (slot->flow.committed)
        return error_set(error,
                         "the task runs at most once and had ended before it ran, so nothing can follow from it");
    struct follow_up_parent parent = {.jid = slot->jid, .queue = slot->queue, .limits = slot->worker->limits};
    return follow_ups_read(&slot->follow_ups, &parent, outcome->follow_ups, outcome->follow_up_count,
                           queue_now(slot->worker->queue), error);
}

bool slot_outcome_take(struct slot *slot)
{
    const struct job_outcome *outcome = &slot->job.outcome;
    struct error error = ERROR_NONE;
    slot_outcome_clear(slot);
    if (!follow_ups_take(slot, &error)) {
        slot_outcome_refuse(slot, error.text);
        return false;
    }
    if (outcome->has_result && slot->rules.result_ttl_ns > 0)
        task_result_write(slot->jid, slot->envelope.class_name, wall_now(), text_span_of(&outcome->result),
                          &slot->result_record);
    slot->flow.task.leaves_more = slot->follow_ups.count > 0 || slot->result_record.length > 0;
    return true;
}

void slot_outcome_refuse(struct slot *slot, const char *reason)
{
    job_outcome_clear(&slot->job.outcome);
    failure_set(&slot->job.outcome.failure, "HF::FollowUpRefused", "%s", reason);
}

static void buffer_empty(struct buffer *buffer)
{
    if (buffer->capacity > TEXT_KEPT_MAX)
        buffer_fini(buffer);
    buffer_clear(buffer);
}

void slot_outcome_clear(struct slot *slot)
{
    follow_ups_clear(&slot->follow_ups);
    buffer_empty(&slot->follow_ups.texts);
    buffer_empty(&slot->result_record);
}
