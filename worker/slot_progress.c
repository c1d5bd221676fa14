/* Tasks whose handler reports progress (HF_PROGRESS): their state on the queue node is begun before they run, written
 * every few seconds from what the handler said last, and closed when they leave the slot. A cancellation that a
 * dashboard asked for is seen at the beginning and at every write. On the loop. */
#include <stdlib.h>

#include "base/memory.h"
#include "queue/iteration.h"
#include "worker/task/job_progress.h"
#include "worker/worker_state.h"

struct slot_progress {
    struct slot *slot;
    struct iteration *iteration;
    struct job_progress reported;
    bool is_open; /* begun, or about to be */
    bool waits;   /* for the answer before the run */
};

static void run_began(void *context, bool cancelled, const char *cursor, size_t length)
{
    struct slot_progress *progress = context;
    progress->waits = false;
    job_progress_start(&progress->reported, cursor, length);
    progress->slot->job.checkpoint = progress->reported.loaded;
    if (cancelled)
        slot_cancel(progress->slot);
    slot_submit(progress->slot);
}

static void report_take(void *context)
{
    struct slot_progress *progress = context;
    char text[ITERATION_BYTES_MAX];
    size_t length = 0;
    if (job_progress_take(&progress->reported, text, &length))
        iteration_save(progress->iteration, text, length);
}

static void run_cancelled(void *context)
{
    struct slot_progress *progress = context;
    slot_cancel(progress->slot);
}

static struct slot_progress *progress_create(struct slot *slot)
{
    struct slot_progress *progress = memory_new(struct slot_progress);
    struct worker *worker = slot->worker;
    progress->slot = slot;
    job_progress_init(&progress->reported);
    progress->iteration =
        iteration_create(worker->loop, &(struct iteration_options){
                                           .node = queue_node(worker->queue),
                                           .keys = queue_keys_of(worker->queue),
                                           .timeout_ns = worker->options.config->queue_node.call_timeout_ns,
                                           .began = run_began,
                                           .look = report_take,
                                           .cancelled = run_cancelled,
                                           .context = progress,
                                       });
    return progress;
}

bool slot_progress_begin(struct slot *slot)
{
    if (!(slot->handler->flags & HF_PROGRESS))
        return false;
    if (slot->progress == NULL)
        slot->progress = progress_create(slot);
    slot->progress->is_open = slot->progress->waits = true;
    iteration_begin(slot->progress->iteration, slot->jid);
    return true;
}

bool slot_progress_put(struct slot *slot, const char *json)
{
    return slot->progress != NULL && job_progress_put(&slot->progress->reported, json);
}

bool slot_progress_waits(const struct slot *slot)
{
    return slot->progress != NULL && slot->progress->waits;
}

void slot_progress_end(struct slot *slot, enum flow_ending ending)
{
    struct slot_progress *progress = slot->progress;
    if (progress == NULL || !progress->is_open)
        return;
    if (!progress->waits)
        report_take(progress);
    progress->is_open = progress->waits = false;
    iteration_end(progress->iteration, ending == FLOW_DONE || ending == FLOW_DISCARDED || ending == FLOW_CANCELLED);
}

void slot_progress_free(struct slot *slot)
{
    if (slot->progress == NULL)
        return;
    iteration_destroy(slot->progress->iteration);
    job_progress_fini(&slot->progress->reported);
    free(slot->progress);
    slot->progress = NULL;
}
