/* What of the endings of tasks the command of on_event is told. On the loop. */
#include "worker/worker_state.h"

/* The word of on_event.events, or NULL. Whatever a task was buried for, it is dead. */
static const char *name_of(enum flow_ending ending)
{
    switch (ending) {
    case FLOW_DEAD:
    case FLOW_REFUSED:
    case FLOW_INVALID:
    case FLOW_NO_RESOURCE:
        return "dead";
    case FLOW_SKIPPED:
        return "skipped";
    case FLOW_DROPPED:
        return "dropped";
    case FLOW_LOCK_LOST:
        return "lock_lost";
    case FLOW_FAILED:
        return "failed";
    case FLOW_EXPIRED:
        return "expired";
    default:
        return NULL;
    }
}

/* An abandoned handler may still be writing into the failure. */
static void event_tell(struct slot *slot, const char *name, enum flow_ending ending)
{
    if (!event_commands_want(slot->worker->event_commands, name))
        return;
    const struct failure *failure = &slot->job.outcome.failure;
    bool is_task = ending != FLOW_INVALID;
    const char *message = slot->abandoned ? "its handler was abandoned"
                          : is_task       ? failure->message
                                          : slot->invalid.text;
    event_commands_tell(slot->worker->event_commands,
                        &(struct event){
                            .name = name,
                            .jid = slot->jid,
                            .class_name = is_task ? slot->envelope.class_name : NULL,
                            .queue = slot->queue,
                            .resource = slot->waiting.resource_count > 0 ? slot->resources.names[0] : NULL,
                            .error_class = slot->abandoned ? NULL : failure->error_class,
                            .message = message,
                            .fence = slot->job.fence,
                            .at = wall_now(),
                        });
}

void slot_event_tell(struct slot *slot, enum flow_ending ending)
{
    const char *name = name_of(ending);
    if (name == NULL)
        return;
    event_tell(slot, name, ending);
    /* A lock that was held for too long is lost too, and so is that of a task that is buried for it. Whether an
     * abandoned run began, its runner writes. */
    if (!slot->abandoned && slot->started && slot->hold != FLOW_HELD && ending != FLOW_LOCK_LOST)
        event_tell(slot, "lock_lost", ending);
}
