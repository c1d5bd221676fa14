/* The end of a process at the queue node. */
#include "queue/queue_private.h"

#include "queue/scripts.h"

#define LOOK_NS (5 * NS_PER_MS)

static void leave_end(struct queue *queue, bool left)
{
    loop_timer_clear(queue->loop, &queue->leave_timer);
    redis_call_cancel(&queue->leave_call);
    void (*done)(void *context, bool left) = queue->left;
    queue->left = NULL;
    if (done != NULL)
        done(queue->options.context, left);
}

static void leave_answered(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, leave_call);
    if (result->outcome == REDIS_VALUE)
        leave_end(queue, result->reply->kind == REDIS_INTEGER && result->reply->integer == 0);
    /* else: the timer tries again; the script finds nothing the second time */
}

static void leave_send(struct queue *queue)
{
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_leave, 2 + 2 * (size_t)queue->options.name_count, 2);
    redis_request_text(out, queue->keys.processes);
    redis_request_text(out, queue->keys.process);
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        queue_keys_request_bell(&queue->keys, queue->names[i], out);
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    }
    redis_request_text(out, queue->identity);
    redis_request_text(out, queue->keys.queue_prefix);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    queue->leave_call.done = leave_answered;
    if (!redis_node_call(queue->node, out, deadline, &queue->leave_call))
        return; /* the timer tries again */
}

/* A slot whose last call is on its way, or waits to be repeated: a task that is done must not be given back. What was
 * freed should be told too: others wait for it. */
static bool slots_settle(const struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.slots; i++)
        if (queue->slots[i].asking)
            return true;
    return waiting_frees(queue);
}

static void leave_look(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, leave_timer);
    if (!queue->was_up) {
        leave_end(queue, true);
        return;
    }
    if (instant_reached(loop_now(queue->loop), queue->leave_by)) {
        leave_end(queue, false);
        return;
    }
    loop_timer_set(queue->loop, timer, loop_after(queue->loop, LOOK_NS));
    bool settled = !slots_settle(queue) || instant_reached(loop_now(queue->loop), queue->settle_by);
    if (bells_silence(queue) && settled && !redis_call_is_outstanding(&queue->leave_call))
        leave_send(queue);
}

void queue_leave(struct queue *queue, struct instant deadline, void (*done)(void *context, bool left))
{
    queue->leaving = true;
    queue->listening = false;
    queue->left = done;
    queue->leave_by = deadline;
    queue->settle_by = instant_after(deadline, -instant_since(loop_now(queue->loop), deadline) / 2);
    errand_cancel(&queue->presence); /* it must not list the process again afterwards */
    beat_stop(queue);
    loop_timer_init(&queue->leave_timer, leave_look);
    leave_look(&queue->leave_timer);
}

void queue_leave_by(struct queue *queue, struct instant deadline)
{
    queue->leave_by = instant_earlier(queue->leave_by, deadline);
    queue->settle_by = instant_earlier(queue->settle_by, queue->leave_by);
}
