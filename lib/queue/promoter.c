#include "queue/promoter.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "queue/keys.h"
#include "queue/scripts.h"

#define LOOK_MIN_NS (700 * NS_PER_MS)
#define LOOK_MAX_NS (1300 * NS_PER_MS)

enum { ENTRIES_A_LOOK = 100, BYTES_A_LOOK = 4 << 20 };

enum { SET_RETRY, SET_SCHEDULE, SETS };

struct promoter {
    struct loop *loop;
    struct queue *queue;
    const struct envelope_limits *limits;
    int64_t timeout_ns;
    struct loop_timer timer;
    struct redis_call call;
    struct envelope envelope;
    struct buffer request, keys, entries, text;
    unsigned set; /* which one is being looked at */
    bool more;    /* something was due: there may be more */
    uint64_t moved;
};

static const char *set_key(const struct promoter *promoter)
{
    const struct queue_keys *keys = queue_keys_of(promoter->queue);
    return promoter->set == SET_RETRY ? keys->retry : keys->schedule;
}

static struct instant call_deadline(const struct promoter *promoter)
{
    return instant_after(loop_now(promoter->loop), promoter->timeout_ns);
}

static void look_later(struct promoter *promoter)
{
    promoter->set = SET_RETRY;
    loop_timer_set(promoter->loop, &promoter->timer,
                   instant_after(loop_now(promoter->loop), random_between(LOOK_MIN_NS, LOOK_MAX_NS)));
}

static void look_send(struct promoter *promoter);

/* Goes on with the same set while it gives something, then with the other, then sleeps. */
static void look_next(struct promoter *promoter)
{
    if (!promoter->more && ++promoter->set == SETS)
        look_later(promoter);
    else
        look_send(promoter);
}

static void promote_answered(struct redis_call *call, const struct redis_result *result)
{
    struct promoter *promoter = list_owner(call, struct promoter, call);
    if (result->outcome != REDIS_VALUE) {
        look_later(promoter);
        return;
    }
    long long moved = result->reply->kind == REDIS_INTEGER ? result->reply->integer : 0;
    promoter->moved += (uint64_t)moved;
    promoter->more = moved > 0;
    look_next(promoter);
}

/* The entry as it goes to its queue; false when it is no task, and then `text` is what goes to `dead`. */
static bool entry_rewrite(struct promoter *promoter, const char *entry, size_t length)
{
    struct error error = ERROR_NONE;
    struct wall_time now = wall_now();
    buffer_clear(&promoter->text);
    if (!envelope_parse(&promoter->envelope, entry, length, promoter->limits, &error)) {
        char why[LOG_QUOTE_MAX];
        log_event(LOG_WARN, "task_invalid", "place=%s bytes=%zu reason=%s", set_key(promoter), length,
                  log_quote(error.text, why));
        envelope_write_invalid(entry, length, "", error.text, now, &promoter->text);
        return false;
    }
    struct buffer at = {0};
    envelope_append_time(&at, now);
    envelope_rewrite(&promoter->envelope,
                     (struct envelope_change[]){{"enqueued_at", {at.bytes, at.length}}, {"at", {NULL, 0}}}, 2,
                     &promoter->text);
    buffer_fini(&at);
    return true;
}

static void entry_add(struct promoter *promoter, const struct redis_reply *entry)
{
    bool sound = entry_rewrite(promoter, entry->bytes, entry->length);
    const char *queue = !sound ? "" : promoter->envelope.queue[0] != '\0' ? promoter->envelope.queue : "default";
    queue_keys_request_queue(queue_keys_of(promoter->queue), queue, &promoter->keys);
    redis_request_bytes(&promoter->entries, entry->bytes, entry->length);
    redis_request_bytes(&promoter->entries, promoter->text.bytes, promoter->text.length);
    redis_request_text(&promoter->entries, queue);
}

static void promote_send(struct promoter *promoter, const struct redis_reply *due)
{
    const struct queue_keys *keys = queue_keys_of(promoter->queue);
    buffer_clear(&promoter->keys);
    buffer_clear(&promoter->entries);
    for (size_t i = 0; i < due->count; i++)
        entry_add(promoter, &due->elements[i]);
    struct buffer *out = &promoter->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_promote, 3 + due->count, 2 + 3 * due->count);
    redis_request_text(out, set_key(promoter));
    redis_request_text(out, keys->queues);
    redis_request_text(out, keys->dead);
    buffer_append(out, promoter->keys.bytes, promoter->keys.length);
    redis_request_integer(out, DEAD_AGE_S);
    redis_request_integer(out, DEAD_ENTRIES);
    buffer_append(out, promoter->entries.bytes, promoter->entries.length);
    promoter->call.done = promote_answered;
    if (!redis_node_call(queue_node(promoter->queue), out, call_deadline(promoter), &promoter->call))
        look_later(promoter);
}

static void due_answered(struct redis_call *call, const struct redis_result *result)
{
    struct promoter *promoter = list_owner(call, struct promoter, call);
    promoter->more = false;
    if (result->outcome != REDIS_VALUE || result->reply->kind != REDIS_ARRAY)
        look_later(promoter);
    else if (result->reply->count == 0)
        look_next(promoter);
    else
        promote_send(promoter, result->reply);
}

static void look_send(struct promoter *promoter)
{
    struct buffer *out = &promoter->request;
    buffer_clear(out);
    redis_request_script(out, &queue_script_due, 1, 2);
    redis_request_text(out, set_key(promoter));
    redis_request_integer(out, ENTRIES_A_LOOK);
    redis_request_integer(out, BYTES_A_LOOK);
    promoter->call.done = due_answered;
    if (!redis_node_call(queue_node(promoter->queue), out, call_deadline(promoter), &promoter->call))
        look_later(promoter);
}

static void look_fire(struct loop_timer *timer)
{
    look_send(list_owner(timer, struct promoter, timer));
}

struct promoter *promoter_create(struct loop *loop, struct queue *queue, const struct envelope_limits *limits,
                                 int64_t timeout_ns)
{
    struct promoter *promoter = memory_new(struct promoter);
    promoter->loop = loop;
    promoter->queue = queue;
    promoter->limits = limits;
    promoter->timeout_ns = timeout_ns;
    loop_timer_init(&promoter->timer, look_fire);
    look_later(promoter);
    return promoter;
}

void promoter_destroy(struct promoter *promoter)
{
    loop_timer_clear(promoter->loop, &promoter->timer);
    redis_call_cancel(&promoter->call);
    envelope_fini(&promoter->envelope);
    buffer_fini(&promoter->request);
    buffer_fini(&promoter->keys);
    buffer_fini(&promoter->entries);
    buffer_fini(&promoter->text);
    free(promoter);
}

uint64_t promoter_moved(const struct promoter *promoter)
{
    return promoter->moved;
}
