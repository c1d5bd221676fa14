/* Blocking claims wake an idle worker.
 *
 * Producers only push; they send no message. So for each queue a separate connection waits in a blocking move from
 * the queue into a list of this process, its bell. A task there is claimed: if the reply is lost, the task is still
 * there, and every claim call empties the bells first. The wait ends by itself after a while, which reveals a
 * connection that died silently.
 *
 * The server may execute a wait for as long as it has the connection, which can be longer than we do: a stopped
 * server reads what we wrote before it notices that we closed the connection. So CLIENT INFO first reports the server's
 * name of each connection. A connection lost while it waited is killed by id and address before another one waits, and
 * before the process leaves. Then no task can get into the bell of a process that has left. The address is needed
 * because a restarted server gives the same ids again.
 *
 * No wait is sent before the process is listed: no process would find a task in the bell of an unlisted one.
 *
 * A node that refuses the move (out of memory, say) is asked again only after a pause. After each pause the worker
 * claims by itself, because nothing else would tell it about tasks. Runs on the loop. */
#include "queue/queue_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/* Each wait costs a command. If this process's host vanishes, the wait withholds new tasks from other processes until
 * it ends; so it ends before the lease does, of which at least two thirds are left (10 s of the usual 15). */
#define WAIT_S        10
#define WAIT_SLACK_NS (2 * NS_PER_S)
#define REST_NS       (1 * NS_PER_S)

static struct instant call_deadline(const struct queue *queue)
{
    return loop_after(queue->loop, queue->options.timeout_ns);
}

/* --- ringing -------------------------------------------------------------------------------------------------- */

/* No slot is idle any more: the task goes back to the end it came from, for other processes. One call for each wait,
 * also for waits that come while one is on its way. */
static void blocking_claim_put_back(struct blocking_claim *claim)
{
    if (claim->putting_back) {
        claim->puts_due++;
        return;
    }
    claim->putting_back = true;
    struct buffer *out = &claim->put_back.request;
    buffer_clear(out);
    redis_request_begin(out, 5);
    redis_request_text(out, "LMOVE");
    queue_keys_request_bell(&claim->queue->keys, claim->name, out);
    queue_keys_request_queue(&claim->queue->keys, claim->name, out);
    redis_request_text(out, "LEFT"); /* the newest, if there are several */
    redis_request_text(out, "RIGHT");
    retried_call_start(&claim->put_back);
}

static void blocking_claim_wake(struct blocking_claim *claim)
{
    struct queue *queue = claim->queue;
    if (queue->listening && !claim->is_paused)
        queue->options.wake(queue->options.context);
}

/* The bell has, or may have, a task. No other process can take it from there. */
static void blocking_claim_hand_on(struct blocking_claim *claim)
{
    struct queue *queue = claim->queue;
    if ((!queue->listening || claim->is_paused) && !queue->leaving)
        blocking_claim_put_back(claim);
    else
        blocking_claim_wake(claim);
}

static void put_back_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    (void)reply;
    struct blocking_claim *claim = list_owner(retried_call, struct blocking_claim, put_back);
    claim->putting_back = false;
    for (; claim->puts_due > 0 && !claim->putting_back; claim->puts_due--)
        blocking_claim_hand_on(claim);
}

static void blocking_claim_arm(struct blocking_claim *claim);

static void refusal_log(struct blocking_claim *claim, const struct redis_result *result)
{
    struct buffer key = {0};
    buffer_append_text(&key, claim->queue->keys.queue_prefix);
    buffer_append_text(&key, claim->name);
    retried_calls_log_refusal(&claim->queue->retried_calls, result, buffer_text(&key));
    buffer_fini(&key);
}

static void wait_ended(struct redis_call *call, const struct redis_result *result)
{
    struct blocking_claim *claim = list_owner(call, struct blocking_claim, wait);
    struct queue *queue = claim->queue;
    bool may_have_moved = result->outcome == REDIS_VALUE && (result->reply->kind == REDIS_STRING || claim->doubtful);
    claim->doubtful = result->reply == NULL; /* the next reply counts as a task: this wait may have moved one */
    if (result->reply != NULL)
        claim->waits = false;
    if (result->outcome == REDIS_ERROR && result->reply != NULL) {
        refusal_log(claim, result);
        loop_timer_set(queue->loop, &claim->rest, loop_after(queue->loop, REST_NS));
    }
    queue->counters.rings += may_have_moved;
    if (may_have_moved)
        blocking_claim_hand_on(claim);
    blocking_claim_arm(claim);
}

static void rest_over(struct loop_timer *timer)
{
    struct blocking_claim *claim = list_owner(timer, struct blocking_claim, rest);
    blocking_claim_wake(claim);
    blocking_claim_arm(claim);
}

static void blocking_claim_arm(struct blocking_claim *claim)
{
    struct queue *queue = claim->queue;
    bool is_busy = redis_call_is_outstanding(&claim->wait) || loop_timer_is_set(&claim->rest);
    if (!queue->is_listed || !queue->listening || queue->leaving || claim->is_paused || !claim->introduced || is_busy)
        return;
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_begin(out, 6);
    redis_request_text(out, "BLMOVE");
    queue_keys_request_queue(&queue->keys, claim->name, out);
    queue_keys_request_bell(&queue->keys, claim->name, out);
    redis_request_texts(out, "RIGHT", "LEFT");
    redis_request_integer(out, WAIT_S);
    struct instant deadline = loop_after(queue->loop, WAIT_S * NS_PER_S + WAIT_SLACK_NS);
    if (!redis_node_call(claim->node, out, deadline, &claim->wait))
        return; /* armed when the connection is up */
    claim->waits = true;
    claim->waiting = claim->connection;
}

void blocking_claims_arm(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++)
        blocking_claim_arm(&queue->blocking_claims[i]);
}

/* --- ending a wait -------------------------------------------------------------------------------------------- */

static void blocking_claim_introduced(struct blocking_claim *claim)
{
    claim->introduced = true;
    if (claim->doubtful)
        blocking_claim_hand_on(claim); /* the reply that brought a task may have been lost */
    else
        blocking_claim_wake(claim); /* tasks may have come while no wait was open */
    blocking_claim_arm(claim);
}

/* CLIENT UNBLOCK id, or CLIENT KILL ID id ADDR address, one at a time. */
static void client_command(struct blocking_claim *claim, struct redis_node *node, const char *command,
                           bool with_address, void (*done)(struct redis_call *call, const struct redis_result *result))
{
    struct queue *queue = claim->queue;
    struct buffer *out = &queue->request;
    if (redis_call_is_outstanding(&claim->ending))
        return;
    buffer_clear(out);
    redis_request_begin(out, with_address ? 6 : 3);
    redis_request_texts(out, "CLIENT", command);
    if (with_address)
        redis_request_text(out, "ID");
    redis_request_integer(out, claim->waiting.id);
    if (with_address) {
        redis_request_texts(out, "ADDR", claim->waiting.address);
    }
    claim->ending.done = done;
    if (!redis_node_call(node, out, call_deadline(queue), &claim->ending))
        return; /* asked again when the connection is up, or by the next look */
}

static void connection_ask(struct blocking_claim *claim);

static bool connection_is_free(const struct blocking_claim *claim)
{
    return redis_node_state(claim->node) == REDIS_NODE_UP && !redis_call_is_outstanding(&claim->asking);
}

/* Killed, or the connection does not exist, or we may not kill: then nothing better can be done. If the answer does
 * not come in time, the introduction begins anew, because an unknown connection never waits. */
static void connection_killed(struct redis_call *call, const struct redis_result *result)
{
    struct blocking_claim *claim = list_owner(call, struct blocking_claim, ending);
    bool is_free = connection_is_free(claim);
    if (result->reply != NULL)
        claim->waits = false;
    if (is_free && result->reply != NULL)
        blocking_claim_introduced(claim);
    else if (is_free && !claim->queue->leaving)
        connection_ask(claim);
}

/* The wait itself answers. If its connection was replaced meanwhile, the introduction waits for this call. */
static void wait_unblocked(struct redis_call *call, const struct redis_result *result)
{
    (void)result;
    struct blocking_claim *claim = list_owner(call, struct blocking_claim, ending);
    if (!claim->introduced && connection_is_free(claim) && !claim->queue->leaving)
        connection_ask(claim);
}

/* --- the connection ------------------------------------------------------------------------------------------- */

/* "id=7 addr=127.0.0.1:4242 laddr=..." */
static void connection_read(struct claim_connection *connection, const struct redis_reply *reply)
{
    *connection = (struct claim_connection){.id = 0};
    if (reply == NULL || reply->kind != REDIS_STRING ||
        sscanf(reply->bytes, "id=%lld addr=%159s", &connection->id, connection->address) != 2)
        connection->id = 0;
}

static void connection_told(struct redis_call *call, const struct redis_result *result)
{
    struct blocking_claim *claim = list_owner(call, struct blocking_claim, asking);
    if (result->reply == NULL)
        return; /* the connection is lost, or about to be */
    connection_read(&claim->connection, result->reply);
    if (claim->waits && claim->waiting.id != 0)
        client_command(claim, claim->node, "KILL", true, connection_killed);
    else
        blocking_claim_introduced(claim);
}

static void connection_ask(struct blocking_claim *claim)
{
    struct queue *queue = claim->queue;
    buffer_clear(&queue->request);
    redis_request_command(&queue->request, "CLIENT", "INFO");
    /* Without an answer the connection is useless, and the silence limit ends it. */
    if (!redis_node_call(claim->node, &queue->request, INSTANT_NEVER, &claim->asking))
        return;
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct blocking_claim *claim = context;
    claim->introduced = false;
    claim->connection.id = 0;
    if (state == REDIS_NODE_UP)
        connection_ask(claim);
}

static void blocking_claim_create(struct blocking_claim *claim, struct queue *queue, const char *name)
{
    struct redis_node_options node = queue->options.node;
    struct buffer node_name = {0};
    buffer_format(&node_name, "%s/bell:%s", node.name, name);
    claim->queue = queue;
    claim->name = name;
    claim->wait.done = wait_ended;
    claim->asking.done = connection_told;
    loop_timer_init(&claim->rest, rest_over);
    retried_call_init(&claim->put_back, &queue->retried_calls, put_back_done);
    node.name = buffer_text(&node_name);
    node.scripts = NULL;
    node.script_count = 0;
    node.changed = node_changed;
    node.context = claim;
    node.silence_limit_ns = WAIT_S * NS_PER_S + 2 * WAIT_SLACK_NS;
    claim->node = redis_node_create(queue->loop, &node);
    buffer_fini(&node_name);
}

void blocking_claims_create(struct queue *queue)
{
    queue->blocking_claims = memory_zeroed(queue->options.name_count, sizeof queue->blocking_claims[0]);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        blocking_claim_create(&queue->blocking_claims[i], queue, queue->names[i]);
}

void blocking_claims_destroy(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        redis_node_destroy(queue->blocking_claims[i].node);
        redis_call_cancel(&queue->blocking_claims[i].ending); /* may be the queue's own connection */
        loop_timer_clear(queue->loop, &queue->blocking_claims[i].rest);
        retried_call_fini(&queue->blocking_claims[i].put_back);
    }
    free(queue->blocking_claims);
}

/* --- the end -------------------------------------------------------------------------------------------------- */

/* After a failover a bell may still wait at the previous master, which has not noticed yet. We cannot end that wait
 * from here. What it moves there is no task of this master, and the wait ends with the connection. */
static bool waits_elsewhere(const struct blocking_claim *claim)
{
    return strcmp(redis_node_address(claim->node), redis_node_address(claim->queue->node)) != 0;
}

static bool blocking_claim_end(struct blocking_claim *claim)
{
    struct queue *queue = claim->queue;
    bool is_here = redis_call_is_outstanding(&claim->wait);
    if (!claim->waits || (claim->waiting.id == 0 && !is_here) || (is_here && waits_elsewhere(claim)))
        return true;
    if (claim->waiting.id == 0)
        return false; /* the wait ends by itself */
    if (is_here && claim->connection.id != 0)
        client_command(claim, queue->node, "UNBLOCK", false, wait_unblocked);
    else
        client_command(claim, queue->node, "KILL", true, connection_killed);
    return false;
}

bool blocking_claims_end(struct queue *queue)
{
    bool silent = true;
    for (unsigned i = 0; i < queue->options.name_count; i++)
        silent = blocking_claim_end(&queue->blocking_claims[i]) && silent;
    return silent;
}

/* Ends an outstanding wait, which would otherwise move the next task of the paused queue. */
void blocking_claim_pause(struct blocking_claim *claim, bool is_paused)
{
    if (claim->is_paused == is_paused)
        return;
    claim->is_paused = is_paused;
    char text[LOG_QUOTE_MAX];
    log_event(LOG_INFO, is_paused ? "queue_paused" : "queue_resumed", "queue=%s", log_value(claim->name, text));
    if (is_paused) {
        (void)blocking_claim_end(claim);
        return;
    }
    blocking_claim_wake(claim);
    blocking_claim_arm(claim);
}

void queue_listen(struct queue *queue, bool wanted)
{
    queue->listening = wanted && !queue->leaving;
    blocking_claims_arm(queue);
}

void queue_end_listening(struct queue *queue)
{
    queue_listen(queue, false);
    (void)blocking_claims_end(queue);
}
