/* The producer; see push.h. Runs on the loop.
 *
 * A slice is encoded while it fills: its body holds the tasks as arguments of the LPUSH that will carry them. Its
 * place in the order of its queue is its serial; slices that come back because they were not sent return to their
 * places among the waiting ones, so the order survives a lost connection. Bodies are used again, so that bulk pushing
 * allocates nothing in the steady state. */
#include "queue/push.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/keys.h"

enum {
    SLICE_TASKS = 1000,
    SLICE_BYTES = 1 << 20,
    FILLING_BYTES_MAX = 8 << 20, /* in slices that are not full, of all queues */
    SLICES_DEFAULT = 4,
};

struct push_queue {
    struct list link;
    struct push *push;
    char *name;
    struct slice *filling;      /* or NULL */
    struct redis_call announce; /* SADD */
    uint64_t announced;         /* number of the connection on which it was */
};

struct slice {
    struct list link; /* waiting, flying or spare; in none while it fills */
    struct push_queue *queue;
    struct buffer body;
    size_t count;
    uint64_t serial, first, last;
    struct redis_call call;
};

struct push {
    struct loop *loop;
    struct redis_node *node;
    struct push_options options;
    struct queue_keys keys;
    struct list queues; /* the one used last comes first */
    struct list waiting, flying, spare;
    unsigned waiting_count, flying_count, filling_count;
    size_t filling_bytes;
    uint64_t serial, connection;
    struct buffer request;
    struct push_counters counters;
};

/* --- slices ----------------------------------------------------------------------------------------------------- */

static void slice_ended(struct redis_call *call, const struct redis_result *result);

static struct slice *slice_open(struct push *push, struct push_queue *queue)
{
    struct list *link = list_take_first(&push->spare);
    struct slice *slice = link != NULL ? list_owner(link, struct slice, link) : memory_new(struct slice);
    list_init(&slice->link);
    slice->call.done = slice_ended;
    slice->queue = queue;
    slice->count = 0;
    buffer_clear(&slice->body);
    queue->filling = slice;
    push->filling_count++;
    return slice;
}

static void slice_spare(struct push *push, struct slice *slice)
{
    if (slice->body.capacity > 2 * SLICE_BYTES)
        buffer_fini(&slice->body);
    list_append(&push->spare, &slice->link);
}

static void slice_free(struct slice *slice)
{
    buffer_fini(&slice->body);
    free(slice);
}

/* Among the waiting ones by serial; a new one has the highest. */
static void slice_wait(struct push *push, struct slice *slice)
{
    struct list *before = &push->waiting;
    while (before->previous != &push->waiting &&
           list_owner(before->previous, struct slice, link)->serial > slice->serial)
        before = before->previous;
    list_append(before, &slice->link);
    push->waiting_count++;
}

static void slice_close(struct push *push, struct push_queue *queue)
{
    struct slice *slice = queue->filling;
    queue->filling = NULL;
    push->filling_count--;
    push->filling_bytes -= slice->body.length;
    slice->serial = ++push->serial;
    slice_wait(push, slice);
}

static void slice_report(struct push *push, struct slice *slice, enum push_end end, const char *reason)
{
    struct push_report report = {.end = end,
                                 .queue = slice->queue->name,
                                 .count = slice->count,
                                 .first = slice->first,
                                 .last = slice->last,
                                 .reason = reason};
    slice_spare(push, slice);
    push->options.ended(push->options.context, &report);
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

static void announce_answered(struct redis_call *call, const struct redis_result *result)
{
    struct push_queue *queue = list_owner(call, struct push_queue, announce);
    if (result->outcome == REDIS_VALUE)
        return;
    queue->announced = 0; /* the next slice tries again */
    if (result->reply == NULL)
        return;
    char name[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "queue_not_announced", "queue=%s reason=%s", log_quote(queue->name, name),
              log_quote(result->reason, reason));
}

static struct instant call_deadline(const struct push *push)
{
    return instant_after(loop_now(push->loop), push->options.timeout_ns);
}

static bool queue_announce(struct push *push, struct push_queue *queue)
{
    if (queue->announced == push->connection || redis_call_is_outstanding(&queue->announce))
        return true;
    struct buffer *out = &push->request;
    buffer_clear(out);
    redis_request_begin(out, 3);
    redis_request_text(out, "SADD");
    redis_request_text(out, push->keys.queues);
    redis_request_text(out, queue->name);
    queue->announced = push->connection;
    return redis_node_call(push->node, out, call_deadline(push), &queue->announce);
}

static bool slice_send(struct push *push, struct slice *slice)
{
    struct buffer *out = &push->request;
    if (!queue_announce(push, slice->queue))
        return false;
    buffer_clear(out);
    redis_request_begin(out, 2 + slice->count);
    redis_request_text(out, "LPUSH");
    queue_keys_request_queue(&push->keys, slice->queue->name, out);
    buffer_append(out, slice->body.bytes, slice->body.length);
    return redis_node_call(push->node, out, call_deadline(push), &slice->call);
}

static void slices_send(struct push *push)
{
    while (push->flying_count < push->options.slices_max && !list_is_empty(&push->waiting)) {
        struct slice *slice = list_owner(push->waiting.next, struct slice, link);
        if (!slice_send(push, slice))
            return; /* goes on when the connection is up */
        list_remove(&slice->link);
        list_append(&push->flying, &slice->link);
        push->waiting_count--;
        push->flying_count++;
        push->counters.slices++;
        push->counters.sent += slice->count;
    }
}

static enum push_end end_of(const struct redis_result *result)
{
    if (result->outcome == REDIS_VALUE)
        return result->reply->kind == REDIS_INTEGER ? PUSH_ACKNOWLEDGED : PUSH_UNKNOWN;
    return result->outcome == REDIS_ERROR ? PUSH_REFUSED : PUSH_UNKNOWN;
}

static void slice_ended(struct redis_call *call, const struct redis_result *result)
{
    struct slice *slice = list_owner(call, struct slice, call);
    struct push *push = slice->queue->push;
    list_remove(&slice->link);
    push->flying_count--;
    if (result->outcome == REDIS_ERROR && result->reply == NULL) { /* not a byte of it was written */
        push->counters.sent -= slice->count;
        slice_wait(push, slice);
        return;
    }
    enum push_end end = end_of(result);
    push->counters.acknowledged += end == PUSH_ACKNOWLEDGED ? slice->count : 0;
    push->counters.refused += end == PUSH_REFUSED ? slice->count : 0;
    push->counters.unknown += end == PUSH_UNKNOWN ? slice->count : 0;
    slice_report(push, slice, end, end == PUSH_ACKNOWLEDGED ? "" : result->reason);
    slices_send(push);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    struct push *push = context;
    if (state == REDIS_NODE_UP) {
        push->connection++;
        slices_send(push);
    }
    if (push->options.changed != NULL)
        push->options.changed(push->options.context, state, reason);
}

/* --- adding ----------------------------------------------------------------------------------------------------- */

static struct push_queue *queue_new(struct push *push, const char *name)
{
    struct push_queue *queue = memory_new(struct push_queue);
    queue->push = push;
    queue->name = memory_text(name);
    queue->announce.done = announce_answered;
    list_init(&queue->link);
    return queue;
}

/* Producers use few queues, and mostly the one they used last. */
static struct push_queue *queue_of(struct push *push, const char *name)
{
    struct push_queue *queue = NULL;
    for (struct list *link = push->queues.next; link != &push->queues && queue == NULL; link = link->next)
        if (strcmp(list_owner(link, struct push_queue, link)->name, name) == 0)
            queue = list_owner(link, struct push_queue, link);
    if (queue == NULL)
        queue = queue_new(push, name);
    list_remove(&queue->link);
    list_prepend(&push->queues, &queue->link);
    return queue;
}

static void slices_close(struct push *push)
{
    for (struct list *link = push->queues.next; link != &push->queues && push->filling_count > 0; link = link->next) {
        struct push_queue *queue = list_owner(link, struct push_queue, link);
        if (queue->filling != NULL)
            slice_close(push, queue);
    }
}

void push_add(struct push *push, const char *name, const char *payload, size_t length, uint64_t number)
{
    struct push_queue *queue = queue_of(push, name);
    if (queue->filling != NULL && queue->filling->body.length + length > SLICE_BYTES)
        slice_close(push, queue);
    struct slice *slice = queue->filling != NULL ? queue->filling : slice_open(push, queue);
    size_t before = slice->body.length;
    redis_request_bytes(&slice->body, payload, length);
    push->filling_bytes += slice->body.length - before;
    push->counters.added++;
    if (slice->count++ == 0)
        slice->first = number;
    slice->last = number;
    if (slice->count == SLICE_TASKS || slice->body.length >= SLICE_BYTES)
        slice_close(push, queue);
    if (push->filling_bytes > FILLING_BYTES_MAX)
        slices_close(push);
    slices_send(push);
}

bool push_is_full(const struct push *push)
{
    return push->waiting_count >= push->options.slices_max;
}

void push_flush(struct push *push)
{
    slices_close(push);
    slices_send(push);
}

void push_drop(struct push *push)
{
    slices_close(push);
    struct list dropped, *link = NULL;
    list_init(&dropped);
    while ((link = list_take_first(&push->waiting)) != NULL)
        list_append(&dropped, link);
    push->waiting_count = 0;
    while ((link = list_take_first(&dropped)) != NULL) {
        struct slice *slice = list_owner(link, struct slice, link);
        push->counters.dropped += slice->count;
        slice_report(push, slice, PUSH_DROPPED, "not sent");
    }
}

bool push_is_idle(const struct push *push)
{
    return push->waiting_count == 0 && push->flying_count == 0 && push->filling_count == 0;
}

/* --- life ------------------------------------------------------------------------------------------------------- */

struct push *push_create(struct loop *loop, const struct push_options *options)
{
    struct push *push = memory_new(struct push);
    push->loop = loop;
    push->options = *options;
    if (push->options.slices_max == 0)
        push->options.slices_max = SLICES_DEFAULT;
    list_init(&push->queues);
    list_init(&push->waiting);
    list_init(&push->flying);
    list_init(&push->spare);
    queue_keys_init(&push->keys, options->space != NULL ? options->space : "", "");
    struct redis_node_options *node = &push->options.node;
    node->changed = node_changed;
    node->context = push;
    node->unanswered_limit = (size_t)1 << 30; /* one task of any size; slices_max bounds what is in flight */
    push->node = redis_node_create(loop, node);
    return push;
}

static void slices_free(struct list *slices)
{
    struct list *link = NULL;
    while ((link = list_take_first(slices)) != NULL)
        slice_free(list_owner(link, struct slice, link));
}

void push_destroy(struct push *push)
{
    if (push == NULL)
        return;
    redis_node_destroy(push->node);
    slices_free(&push->waiting);
    slices_free(&push->flying);
    slices_free(&push->spare);
    struct list *link = NULL;
    while ((link = list_take_first(&push->queues)) != NULL) {
        struct push_queue *queue = list_owner(link, struct push_queue, link);
        if (queue->filling != NULL)
            slice_free(queue->filling);
        free(queue->name);
        free(queue);
    }
    queue_keys_fini(&push->keys);
    buffer_fini(&push->request);
    free(push);
}

struct redis_node *push_node(const struct push *push)
{
    return push->node;
}

const struct push_counters *push_counters(const struct push *push)
{
    return &push->counters;
}
