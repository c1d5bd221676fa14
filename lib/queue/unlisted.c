/* Finds claims of processes that are in no list, which nobody would recover: see scripts/unlisted.lua. A process asks
 * for a walk whenever it is listed itself, and every hour. Between two steps it rests, so that a walk through millions
 * of keys takes the node a small share of its time. Runs on the loop. */
#include <stdio.h>

#include "base/log.h"
#include "queue/queue_private.h"
#include "queue/scripts.h"

#define WALK_INTERVAL_NS (3600 * NS_PER_S)
#define STEP_INTERVAL_NS (50 * NS_PER_MS)
enum { STEP_KEYS = 1000 };

static void walk_end(struct queue *queue, int64_t next_ns)
{
    queue->unlisted.cursor[0] = '\0';
    loop_timer_set(queue->loop, &queue->unlisted.timer, loop_after(queue->loop, next_ns));
}

static void identities_tell(const struct redis_reply *answer)
{
    for (size_t i = 1; i < answer->count; i++) {
        char text[LOG_QUOTE_MAX];
        log_event(LOG_WARN, "process_unlisted",
                  "identity=%s advice=\"it has claims and was in no list of processes, as after a loss of data; if it "
                  "does not live, they are recovered when its new lease has ended\"",
                  log_value_bytes(answer->elements[i].bytes, answer->elements[i].length, text));
    }
}

/* A walk in which a step failed begins anew: a cursor is worth nothing to another server. */
static void step_answered(struct redis_call *call, const struct redis_result *result)
{
    struct queue *queue = list_owner(call, struct queue, unlisted.call);
    const struct redis_reply *reply = result->reply;
    if (result->outcome != REDIS_VALUE || reply->kind != REDIS_ARRAY || reply->count == 0 ||
        reply->elements[0].kind != REDIS_STRING || reply->elements[0].length >= sizeof queue->unlisted.cursor) {
        walk_end(queue, queue->options.lease_ns);
        return;
    }
    identities_tell(reply);
    if (redis_reply_is_text(&reply->elements[0], "0")) {
        walk_end(queue, WALK_INTERVAL_NS);
        return;
    }
    snprintf(queue->unlisted.cursor, sizeof queue->unlisted.cursor, "%s", reply->elements[0].bytes);
    loop_timer_set(queue->loop, &queue->unlisted.timer, loop_after(queue->loop, STEP_INTERVAL_NS));
}

static void step_ask(struct loop_timer *timer)
{
    struct queue *queue = list_owner(timer, struct queue, unlisted.timer);
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_unlisted, 2, 7);
    redis_request_texts(out, queue->keys.processes, queue->keys.walked, queue->identity, queue->unlisted.cursor);
    redis_request_integer(out, WALK_INTERVAL_NS / NS_PER_S);
    queue_request_lease(queue, out);
    redis_request_texts(out, queue->keys.process_prefix, queue->keys.any_bell_prefix);
    redis_request_integer(out, STEP_KEYS);
    if (!redis_node_call(queue->node, out, loop_after(queue->loop, queue->options.timeout_ns), &queue->unlisted.call))
        walk_end(queue, queue->options.lease_ns);
}

void unlisted_create(struct queue *queue)
{
    loop_timer_init(&queue->unlisted.timer, step_ask);
    queue->unlisted.call.done = step_answered;
}

/* A dry run touches nothing outside of its space. */
void unlisted_look(struct queue *queue)
{
    bool walks = queue->unlisted.cursor[0] != '\0' || redis_call_is_outstanding(&queue->unlisted.call);
    if (!walks && queue->keys.space[0] == '\0')
        loop_timer_set(queue->loop, &queue->unlisted.timer, loop_now(queue->loop));
}

void unlisted_stop(struct queue *queue)
{
    loop_timer_clear(queue->loop, &queue->unlisted.timer);
    redis_call_cancel(&queue->unlisted.call);
}
