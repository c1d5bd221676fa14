/* Waking an idle worker.
 *
 * Producers only push; they send no message. So for each queue one connection of its own waits in a blocking move
 * from the queue into this process's bell, which is a claim like any other: if the reply is lost the task is still
 * there, and every claim call empties the bells first. The wait ends by itself after a while, so that a connection
 * that died silently is noticed. */
#include "queue/queue_private.h"

#include <stdlib.h>

#include "base/memory.h"

#define WAIT_S        5
#define WAIT_SLACK_NS (2 * NS_PER_S)

static void put_back_done(struct errand *errand, const struct redis_reply *reply)
{
    (void)reply;
    list_owner(errand, struct bell, put_back)->putting_back = false;
}

/* Nobody here is idle any more: the task goes back to the end it was taken from, for others. */
static void bell_put_back(struct bell *bell)
{
    if (bell->putting_back)
        return;
    bell->putting_back = true;
    struct buffer *out = &bell->put_back.request;
    buffer_clear(out);
    redis_request_begin(out, 5);
    redis_request_text(out, "LMOVE");
    queue_keys_request_bell(&bell->queue->keys, bell->name, out);
    queue_keys_request_queue(&bell->queue->keys, bell->name, out);
    redis_request_text(out, "RIGHT");
    redis_request_text(out, "RIGHT");
    errand_start(&bell->put_back);
}

static void bell_arm(struct bell *bell);

static void bell_rang(struct redis_call *call, const struct redis_result *result)
{
    struct bell *bell = list_owner(call, struct bell, wait);
    struct queue *queue = bell->queue;
    bool rang = result->outcome == REDIS_VALUE && result->reply->kind == REDIS_STRING;
    if (rang && queue->listening) {
        queue->counters.rings++;
        queue->options.rang(queue->options.context);
    } else if (rang && !queue->leaving) {
        bell_put_back(bell);
    }
    bell_arm(bell);
}

static void bell_arm(struct bell *bell)
{
    struct queue *queue = bell->queue;
    if (!queue->listening || queue->leaving || redis_call_is_outstanding(&bell->wait))
        return;
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_begin(out, 6);
    redis_request_text(out, "BLMOVE");
    queue_keys_request_queue(&queue->keys, bell->name, out);
    queue_keys_request_bell(&queue->keys, bell->name, out);
    redis_request_text(out, "RIGHT");
    redis_request_text(out, "LEFT");
    redis_request_integer(out, WAIT_S);
    struct instant deadline = instant_after(loop_now(queue->loop), WAIT_S * NS_PER_S + WAIT_SLACK_NS);
    if (!redis_node_call(bell->node, out, deadline, &bell->wait))
        return; /* armed when the connection is up */
}

void bells_arm(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++)
        bell_arm(&queue->bells[i]);
}

static void client_id_told(struct redis_call *call, const struct redis_result *result)
{
    struct bell *bell = list_owner(call, struct bell, asking);
    if (result->outcome == REDIS_VALUE && result->reply->kind == REDIS_INTEGER)
        bell->client_id = result->reply->integer;
}

static void client_id_ask(struct bell *bell)
{
    struct queue *queue = bell->queue;
    bell->client_id = 0;
    buffer_clear(&queue->request);
    redis_request_begin(&queue->request, 2);
    redis_request_text(&queue->request, "CLIENT");
    redis_request_text(&queue->request, "ID");
    struct instant deadline = instant_after(loop_now(queue->loop), queue->options.timeout_ns);
    redis_call_cancel(&bell->asking);
    if (!redis_node_call(bell->node, &queue->request, deadline, &bell->asking))
        bell->client_id = 0;
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct bell *bell = context;
    struct queue *queue = bell->queue;
    if (state != REDIS_NODE_UP)
        return;
    client_id_ask(bell);
    if (queue->listening) /* tasks may have come while nobody listened, or a ring was lost */
        queue->options.rang(queue->options.context);
    bell_arm(bell);
}

void bells_create(struct queue *queue)
{
    queue->bells = memory_zeroed(queue->options.name_count, sizeof queue->bells[0]);
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        struct bell *bell = &queue->bells[i];
        bell->queue = queue;
        bell->name = queue->names[i];
        bell->wait.done = bell_rang;
        bell->asking.done = client_id_told;
        errand_init(&bell->put_back, &queue->errands, put_back_done);
        struct redis_node_options node = queue->options.node;
        node.scripts = NULL;
        node.script_count = 0;
        node.changed = node_changed;
        node.context = bell;
        node.silence_limit_ns = WAIT_S * NS_PER_S + 2 * WAIT_SLACK_NS;
        bell->node = redis_node_create(queue->loop, &node);
    }
}

void bells_destroy(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        redis_node_destroy(queue->bells[i].node);
        errand_fini(&queue->bells[i].put_back);
    }
    free(queue->bells);
}

static void bell_unblock(struct bell *bell)
{
    struct queue *queue = bell->queue;
    buffer_clear(&queue->request);
    redis_request_begin(&queue->request, 3);
    redis_request_text(&queue->request, "CLIENT");
    redis_request_text(&queue->request, "UNBLOCK");
    redis_request_integer(&queue->request, bell->client_id);
    struct instant deadline = instant_after(loop_now(queue->loop), queue->options.timeout_ns);
    if (!redis_node_call(queue->node, &queue->request, deadline, NULL))
        return; /* asked again by the next look, or the wait ends by itself */
}

bool bells_silence(struct queue *queue)
{
    bool silent = true;
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        struct bell *bell = &queue->bells[i];
        if (!redis_call_is_outstanding(&bell->wait))
            continue;
        silent = false;
        if (bell->client_id != 0)
            bell_unblock(bell);
    }
    return silent;
}

void queue_listen(struct queue *queue, bool wanted)
{
    queue->listening = wanted && !queue->leaving;
    bells_arm(queue);
}
