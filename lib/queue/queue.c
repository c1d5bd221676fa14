/* The life of a process at the queue node: connects, leaves, and counts the tasks that are left. */
#include "queue/queue_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "queue/scripts.h"

#define CLAIM_BYTES_DEFAULT (1 << 20)

/* --- the connection ------------------------------------------------------------------------------------------- */

/* Emptying the database also unlists this process. */
static void call_refused(struct retried_calls *retried_calls, const struct redis_result *result)
{
    static const char unlisted[] = "UNLISTED";
    if (strncmp(result->reason, unlisted, sizeof unlisted - 1) == 0)
        queue_enlist(list_owner(retried_calls, struct queue, retried_calls));
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct queue *queue = context;
    if (state == REDIS_NODE_UP) {
        queue_enlist(queue);
        retried_calls_connected(&queue->retried_calls);
    } else {
        recovery_permit_broken(&queue->permit);
    }
    queue->was_up = queue->was_up || state == REDIS_NODE_UP;
    if (queue->options.changed != NULL)
        queue->options.changed(queue->options.context, state);
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static unsigned *weights_copy(const unsigned *weights, unsigned count)
{
    unsigned *copy = memory_zeroed(count, sizeof copy[0]);
    memcpy(copy, weights, count * sizeof copy[0]);
    return copy;
}

static void options_take(struct queue *queue, const struct queue_options *options)
{
    invariant(options->name_count >= 1 && options->slots >= 1);
    queue->options = *options;
    if (queue->options.claim_bytes == 0)
        queue->options.claim_bytes = CLAIM_BYTES_DEFAULT;
    if (queue->options.lease_ns == 0)
        queue->options.lease_ns = QUEUE_LEASE_DEFAULT_NS;
    queue->identity = memory_text(options->identity);
    queue->names = memory_zeroed(options->name_count, sizeof queue->names[0]);
    for (unsigned i = 0; i < options->name_count; i++)
        queue->names[i] = memory_text(options->names[i]);
    if (options->weights != NULL)
        queue->options.weights = weights_copy(options->weights, options->name_count);
    queue_keys_init(&queue->keys, options->space != NULL ? options->space : "", options->identity);
}

/* A process must reconnect within the time before others declare it dead (recovery_permit.h). */
static int64_t backoff_max(const struct queue *queue)
{
    int64_t configured = queue->options.node.backoff_max_ns > 0 ? queue->options.node.backoff_max_ns : 2 * NS_PER_S;
    int64_t quarter = queue->options.lease_ns / 4;
    return configured < quarter ? configured : quarter;
}

static void node_open(struct queue *queue)
{
    struct redis_node_options *node = &queue->options.node;
    node->backoff_max_ns = backoff_max(queue);
    node->scripts = queue_scripts;
    node->script_count = QUEUE_SCRIPT_COUNT;
    node->changed = node_changed;
    node->context = queue;
    /* One call may carry every slot's payload, one of them of any size that a producer dared. */
    node->reply_limit = (size_t)512 << 20;
    node->element_limit = 4096;
    node->unanswered_limit = (size_t)1 << 30;
    queue->node = redis_node_create(queue->loop, node);
}

struct queue *queue_create(struct loop *loop, const struct queue_options *options)
{
    struct queue *queue = memory_new(struct queue);
    queue->loop = loop;
    options_take(queue, options);
    queue->slots = memory_zeroed(options->slots, sizeof queue->slots[0]);
    retried_calls_init(&queue->retried_calls, loop, options->timeout_ns, &queue->counters.repeats);
    queue->retried_calls.refused = call_refused;
    moves_init(queue);
    waiting_init(queue);
    claims_init(queue);
    enlist_init(queue);
    node_open(queue);
    queue->retried_calls.node = queue->node;
    blocking_claims_create(queue);
    process_lease_create(queue);
    unlisted_create(queue);
    return queue;
}

void queue_destroy(struct queue *queue)
{
    loop_hook_cancel(&queue->gather);
    loop_timer_clear(queue->loop, &queue->gather_rest);
    loop_timer_clear(queue->loop, &queue->leave_timer);
    unlisted_stop(queue);
    process_lease_destroy(queue);
    blocking_claims_destroy(queue);
    redis_node_destroy(queue->node);
    claims_free(queue);
    moves_fini(queue);
    waiting_fini(queue);
    enlist_fini(queue);
    retried_calls_fini(&queue->retried_calls);
    queue_keys_fini(&queue->keys);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        free(queue->names[i]);
    free(queue->names);
    free((void *)queue->options.weights);
    free(queue->identity);
    free(queue->slots);
    free(queue->gathered);
    buffer_fini(&queue->request);
    free(queue);
}

bool queue_has_cancels(const struct queue *queue)
{
    return queue->has_cancels;
}

bool queue_was_reached(const struct queue *queue)
{
    return queue->was_up;
}

unsigned queue_unreceived(const struct queue *queue)
{
    return queue->retried_calls.unreceived;
}

struct redis_node *queue_node(struct queue *queue)
{
    return queue->node;
}

const struct queue_keys *queue_keys_of(const struct queue *queue)
{
    return &queue->keys;
}

const struct queue_counters *queue_counters(const struct queue *queue)
{
    return &queue->counters;
}

/* --- the end of the process --------------------------------------------------------------------------------------- */

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
    redis_request_texts(out, queue->keys.processes, queue->keys.process);
    for (unsigned i = 0; i < queue->options.name_count; i++) {
        queue_keys_request_bell(&queue->keys, queue->names[i], out);
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    }
    redis_request_texts(out, queue->identity, queue->keys.queue_prefix);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    queue->leave_call.done = leave_answered;
    if (!redis_node_call(queue->node, out, deadline, &queue->leave_call))
        return; /* the timer tries again */
}

/* Waits for slots whose last call is on its way or will be repeated: a finished task must not be given back. Waits for
 * releases, too: other tasks wait for those locks. */
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
    if (!queue->was_up || instant_reached(loop_now(queue->loop), queue->leave_by)) {
        leave_end(queue, !queue->was_up);
        return;
    }
    loop_timer_set(queue->loop, timer, loop_after(queue->loop, LOOK_NS));
    bool settled = !slots_settle(queue) || instant_reached(loop_now(queue->loop), queue->settle_by);
    if (blocking_claims_end(queue) && settled && !redis_call_is_outstanding(&queue->leave_call))
        leave_send(queue);
}

void queue_leave(struct queue *queue, struct instant deadline, void (*done)(void *context, bool left))
{
    queue->leaving = true;
    queue->listening = false;
    queue->left = done;
    queue->leave_by = deadline;
    queue->settle_by = instant_after(deadline, -instant_since(loop_now(queue->loop), deadline) / 2);
    enlist_stop(queue); /* it must not list the process again afterwards */
    process_lease_stop(queue);
    unlisted_stop(queue);
    loop_timer_init(&queue->leave_timer, leave_look);
    leave_look(&queue->leave_timer);
}

void queue_leave_by(struct queue *queue, struct instant deadline)
{
    queue->leave_by = instant_earlier(queue->leave_by, deadline);
    queue->settle_by = instant_earlier(queue->settle_by, queue->leave_by);
}

/* --- backlog ------------------------------------------------------------------------------------------------------ */

/* Counts the remaining work, for a worker that stops once it is done. Runs on the loop. */

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
    redis_request_texts(out, queue->keys.schedule, queue->keys.retry, queue->keys.paused, queue->keys.processes,
                        queue->keys.contended);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        queue_keys_request_queue(&queue->keys, queue->names[i], out);
    redis_request_integer(out, since_ns / NS_PER_S);
    redis_request_integer(out, horizon_ns / NS_PER_S);
    redis_request_texts(out, queue->keys.process_prefix, queue->keys.any_bell_prefix, queue->keys.waiting_prefix,
                        queue->keys.waiters_prefix);
    for (unsigned i = 0; i < queue->options.name_count; i++)
        redis_request_text(out, queue->names[i]);
    struct instant deadline = loop_after(queue->loop, queue->options.timeout_ns);
    if (!redis_node_call(queue->node, out, deadline, &queue->count_call))
        told(queue->options.context, &(struct queue_backlog){.known = false});
}
