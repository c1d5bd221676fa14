/* Waking an idle worker.
 *
 * Producers only push; they send no message. So for each queue one connection of its own waits in a blocking move
 * from the queue into this process's bell, which is a claim like any other: if the reply is lost the task is still
 * there, and every claim call empties the bells first. The wait ends by itself after a while, so that a connection
 * that died silently is noticed.
 *
 * A wait that was sent may move a task as long as the server has its connection, and that can be longer than we have
 * it: a server that was stopped reads what we wrote before it notices that we hung up. So each connection is
 * introduced first (CLIENT INFO tells how the server calls it), and when one was lost while it waited, it is killed by
 * id and address before another one waits and before the process leaves. Then no task can get into the bell of a
 * process that has gone. (An id alone would not do: a server that was restarted gives it to somebody else.)
 *
 * No wait is sent before the process is listed: what a process that is not listed leaves behind is found by nobody.
 *
 * A node that refuses the move (it is out of memory, say) would be asked in a tight loop, so the bell rests, and
 * rings after each rest, because nobody else would tell about tasks. Runs on the loop. */
#include "queue/queue_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/* Each wait costs a command, and keeps what was pushed from others for as long when this process's host vanishes: then
 * it ends before the lease does, of which two thirds are left at least (10 s of the usual 15). */
#define WAIT_S        10
#define WAIT_SLACK_NS (2 * NS_PER_S)
#define REST_NS       (1 * NS_PER_S)

static struct instant call_deadline(const struct queue *queue)
{
    return loop_after(queue->loop, queue->options.timeout_ns);
}

/* --- ringing -------------------------------------------------------------------------------------------------- */

/* Nobody here is idle any more: the task goes back to the end it was taken from, for others. One for each ring, also
 * for those that come while one is on its way. */
static void bell_put_back(struct bell *bell)
{
    if (bell->putting_back) {
        bell->puts_owed++;
        return;
    }
    bell->putting_back = true;
    struct buffer *out = &bell->put_back.request;
    buffer_clear(out);
    redis_request_begin(out, 5);
    redis_request_text(out, "LMOVE");
    queue_keys_request_bell(&bell->queue->keys, bell->name, out);
    queue_keys_request_queue(&bell->queue->keys, bell->name, out);
    redis_request_text(out, "LEFT"); /* the newest, if there are several */
    redis_request_text(out, "RIGHT");
    retried_call_start(&bell->put_back);
}

static void bell_ring(struct bell *bell)
{
    struct queue *queue = bell->queue;
    if (queue->listening && !bell->is_paused)
        queue->options.rang(queue->options.context);
}

/* There is, or may be, a task in the bell. Nobody else can take it from there. */
static void bell_hand_on(struct bell *bell)
{
    struct queue *queue = bell->queue;
    if ((!queue->listening || bell->is_paused) && !queue->leaving)
        bell_put_back(bell);
    else
        bell_ring(bell);
}

static void put_back_done(struct retried_call *retried_call, const struct redis_reply *reply)
{
    (void)reply;
    struct bell *bell = list_owner(retried_call, struct bell, put_back);
    bell->putting_back = false;
    for (; bell->puts_owed > 0 && !bell->putting_back; bell->puts_owed--)
        bell_hand_on(bell);
}

static void bell_arm(struct bell *bell);

static void refusal_log(struct bell *bell, const struct redis_result *result)
{
    struct buffer key = {0};
    buffer_append_text(&key, bell->queue->keys.queue_prefix);
    buffer_append_text(&key, bell->name);
    retried_calls_log_refusal(&bell->queue->retried_calls, result, buffer_text(&key));
    buffer_fini(&key);
}

static void bell_rang(struct redis_call *call, const struct redis_result *result)
{
    struct bell *bell = list_owner(call, struct bell, wait);
    struct queue *queue = bell->queue;
    bool rang = result->outcome == REDIS_VALUE && (result->reply->kind == REDIS_STRING || bell->doubtful);
    bell->doubtful = result->reply == NULL; /* the next reply counts as a ring: this one may have been one */
    if (result->reply != NULL)
        bell->waits = false;
    if (result->outcome == REDIS_ERROR && result->reply != NULL) {
        refusal_log(bell, result);
        loop_timer_set(queue->loop, &bell->rest, loop_after(queue->loop, REST_NS));
    }
    queue->counters.rings += rang;
    if (rang)
        bell_hand_on(bell);
    bell_arm(bell);
}

static void rest_over(struct loop_timer *timer)
{
    struct bell *bell = list_owner(timer, struct bell, rest);
    bell_ring(bell);
    bell_arm(bell);
}

static void bell_arm(struct bell *bell)
{
    struct queue *queue = bell->queue;
    bool is_busy = redis_call_is_outstanding(&bell->wait) || loop_timer_is_set(&bell->rest);
    if (!queue->is_listed || !queue->listening || queue->leaving || bell->is_paused || !bell->introduced || is_busy)
        return;
    struct buffer *out = &queue->request;
    buffer_clear(out);
    redis_request_begin(out, 6);
    redis_request_text(out, "BLMOVE");
    queue_keys_request_queue(&queue->keys, bell->name, out);
    queue_keys_request_bell(&queue->keys, bell->name, out);
    redis_request_texts(out, "RIGHT", "LEFT");
    redis_request_integer(out, WAIT_S);
    struct instant deadline = loop_after(queue->loop, WAIT_S * NS_PER_S + WAIT_SLACK_NS);
    if (!redis_node_call(bell->node, out, deadline, &bell->wait))
        return; /* armed when the connection is up */
    bell->waits = true;
    bell->waiting = bell->line;
}

void bells_arm(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++)
        bell_arm(&queue->bells[i]);
}

/* --- ending a wait -------------------------------------------------------------------------------------------- */

static void bell_introduced(struct bell *bell)
{
    bell->introduced = true;
    if (bell->doubtful)
        bell_hand_on(bell); /* a ring may have been lost */
    else
        bell_ring(bell); /* tasks may have come while nobody waited */
    bell_arm(bell);
}

/* CLIENT UNBLOCK id, or CLIENT KILL ID id ADDR address, one at a time. */
static void client_command(struct bell *bell, struct redis_node *node, const char *command, bool with_address,
                           void (*done)(struct redis_call *call, const struct redis_result *result))
{
    struct queue *queue = bell->queue;
    struct buffer *out = &queue->request;
    if (redis_call_is_outstanding(&bell->ending))
        return;
    buffer_clear(out);
    redis_request_begin(out, with_address ? 6 : 3);
    redis_request_texts(out, "CLIENT", command);
    if (with_address)
        redis_request_text(out, "ID");
    redis_request_integer(out, bell->waiting.id);
    if (with_address) {
        redis_request_texts(out, "ADDR", bell->waiting.address);
    }
    bell->ending.done = done;
    if (!redis_node_call(node, out, call_deadline(queue), &bell->ending))
        return; /* asked again when the connection is up, or by the next look */
}

static void line_ask(struct bell *bell);

static bool line_is_free(const struct bell *bell)
{
    return redis_node_state(bell->node) == REDIS_NODE_UP && !redis_call_is_outstanding(&bell->asking);
}

/* Killed, or there is no such connection, or we have no right to kill: then nothing better can be done. When the answer
 * does not come in time, the introduction begins anew, because a bell that is not introduced never rings. */
static void line_killed(struct redis_call *call, const struct redis_result *result)
{
    struct bell *bell = list_owner(call, struct bell, ending);
    bool is_free = line_is_free(bell);
    if (result->reply != NULL)
        bell->waits = false;
    if (is_free && result->reply != NULL)
        bell_introduced(bell);
    else if (is_free && !bell->queue->leaving)
        line_ask(bell);
}

/* The wait itself answers. When its connection was replaced meanwhile, the introduction waits for this call. */
static void wait_unblocked(struct redis_call *call, const struct redis_result *result)
{
    (void)result;
    struct bell *bell = list_owner(call, struct bell, ending);
    if (!bell->introduced && line_is_free(bell) && !bell->queue->leaving)
        line_ask(bell);
}

/* --- the connection ------------------------------------------------------------------------------------------- */

/* "id=7 addr=127.0.0.1:4242 laddr=..." */
static void line_read(struct bell_line *line, const struct redis_reply *reply)
{
    *line = (struct bell_line){.id = 0};
    if (reply == NULL || reply->kind != REDIS_STRING ||
        sscanf(reply->bytes, "id=%lld addr=%159s", &line->id, line->address) != 2)
        line->id = 0;
}

static void line_told(struct redis_call *call, const struct redis_result *result)
{
    struct bell *bell = list_owner(call, struct bell, asking);
    if (result->reply == NULL)
        return; /* the connection is lost, or about to be */
    line_read(&bell->line, result->reply);
    if (bell->waits && bell->waiting.id != 0)
        client_command(bell, bell->node, "KILL", true, line_killed);
    else
        bell_introduced(bell);
}

static void line_ask(struct bell *bell)
{
    struct queue *queue = bell->queue;
    buffer_clear(&queue->request);
    redis_request_command(&queue->request, "CLIENT", "INFO");
    /* Without an answer the connection is of no use, and the silence limit ends it. */
    if (!redis_node_call(bell->node, &queue->request, INSTANT_NEVER, &bell->asking))
        return;
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct bell *bell = context;
    bell->introduced = false;
    bell->line.id = 0;
    if (state == REDIS_NODE_UP)
        line_ask(bell);
}

static void bell_create(struct bell *bell, struct queue *queue, const char *name)
{
    struct redis_node_options node = queue->options.node;
    struct buffer node_name = {0};
    buffer_format(&node_name, "%s/bell:%s", node.name, name);
    bell->queue = queue;
    bell->name = name;
    bell->wait.done = bell_rang;
    bell->asking.done = line_told;
    loop_timer_init(&bell->rest, rest_over);
    retried_call_init(&bell->put_back, &queue->retried_calls, put_back_done);
    node.name = buffer_text(&node_name);
    node.scripts = NULL;
    node.script_count = 0;
    node.changed = node_changed;
    node.context = bell;
    node.silence_limit_ns = WAIT_S * NS_PER_S + 2 * WAIT_SLACK_NS;
    bell->node = redis_node_create(queue->loop, &node);
    buffer_fini(&node_name);
}

void bells_create(struct queue *queue)
{
    queue->bells = memory_zeroed(queue->options.name_count, sizeof queue->bells[0]);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        bell_create(&queue->bells[i], queue, queue->names[i]);
}

void bells_destroy(struct queue *queue)
{
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        redis_node_destroy(queue->bells[i].node);
        redis_call_cancel(&queue->bells[i].ending); /* may be the queue's own connection */
        loop_timer_clear(queue->loop, &queue->bells[i].rest);
        retried_call_fini(&queue->bells[i].put_back);
    }
    free(queue->bells);
}

/* --- the end -------------------------------------------------------------------------------------------------- */

/* After a failover a bell may still wait at the master before, which has not noticed yet. Nobody can end that wait from
 * here, and what it moves there is no task of this master: it ends with the connection. */
static bool waits_elsewhere(const struct bell *bell)
{
    return strcmp(redis_node_address(bell->node), redis_node_address(bell->queue->node)) != 0;
}

static bool bell_silence(struct bell *bell)
{
    struct queue *queue = bell->queue;
    bool is_here = redis_call_is_outstanding(&bell->wait);
    if (!bell->waits || (bell->waiting.id == 0 && !is_here) || (is_here && waits_elsewhere(bell)))
        return true;
    if (bell->waiting.id == 0)
        return false; /* the wait ends by itself */
    if (is_here && bell->line.id != 0)
        client_command(bell, queue->node, "UNBLOCK", false, wait_unblocked);
    else
        client_command(bell, queue->node, "KILL", true, line_killed);
    return false;
}

bool bells_silence(struct queue *queue)
{
    bool silent = true;
    for (unsigned i = 0; i < queue->options.name_count; i++)
        silent = bell_silence(&queue->bells[i]) && silent;
    return silent;
}

/* A wait that is out is ended, or the next task of the queue would ring although nobody may take it. */
void bell_pause(struct bell *bell, bool is_paused)
{
    if (bell->is_paused == is_paused)
        return;
    bell->is_paused = is_paused;
    char text[LOG_QUOTE_MAX];
    log_event(LOG_INFO, is_paused ? "queue_paused" : "queue_resumed", "queue=%s", log_value(bell->name, text));
    if (is_paused) {
        (void)bell_silence(bell);
        return;
    }
    bell_ring(bell);
    bell_arm(bell);
}

void queue_listen(struct queue *queue, bool wanted)
{
    queue->listening = wanted && !queue->leaving;
    bells_arm(queue);
}
