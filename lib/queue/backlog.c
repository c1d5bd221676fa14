/* The count of what there is to do, for a worker that stops when all is done. Runs on the loop. */
#include "queue/queue_private.h"
#include "queue/scripts.h"

static void backlog_told(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, count_call);
    struct queue_backlog backlog = {.known = result->outcome == REDIS_VALUE && result->reply->kind == REDIS_ARRAY &&
                                             result->reply->count == 2};
    if (backlog.known) {
        backlog.waiting = result->reply->elements[0].integer;
        backlog.pending = result->reply->elements[1].integer;
    }
    queue->counted(queue->options.context, &backlog);
}

void queue_count(struct queue *queue, int64_t since_ns, int64_t horizon_ns,
                 void (*told)(void *context, const struct queue_backlog *backlog))
{
    struct buffer *out = &queue->request;
    size_t names = queue->options.name_count;
    redis_call_cancel(&queue->count_call);
    queue->counted = told;
    queue->count_call.done = backlog_told;
    buffer_clear(out);
    redis_request_script(out, &queue_script_backlog, 5 + names, 6 + names);
    redis_request_text(out, queue->keys.schedule);
    redis_request_text(out, queue->keys.retry);
    redis_request_text(out, queue->keys.paused);
    redis_request_text(out, queue->keys.processes);
    redis_request_text(out, queue->keys.contended);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    redis_request_integer(out, since_ns / NS_PER_S);
    redis_request_integer(out, horizon_ns / NS_PER_S);
    redis_request_text(out, queue->keys.process_prefix);
    redis_request_text(out, queue->keys.any_bell_prefix);
    redis_request_text(out, queue->keys.waiting_prefix);
    redis_request_text(out, queue->keys.places_prefix);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        redis_request_text(out, queue->names[i]);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    if (!redis_node_call(queue->node, out, deadline, &queue->count_call))
        told(queue->options.context, &(struct queue_backlog){.known = false});
}
