#include "queue/retried_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "queue/json.h"

#define RETRY_NS           (200 * NS_PER_MS)
#define COMPLAIN_NS        (1 * NS_PER_S)
#define UNRECEIVED_REST_NS (10 * NS_PER_S)

enum { LOST_ALONE_MAX = 3 };

/* A request that held a large task gives its memory back. */
enum { REQUEST_KEPT_MAX = 64 * 1024 };

static void retry_fire(struct loop_timer *timer)
{
    struct retried_calls *retried_calls = list_owner(timer, struct retried_calls, retry);
    if (redis_node_state(retried_calls->node) == REDIS_NODE_UP)
        retried_calls_connected(retried_calls);
}

void retried_calls_init(struct retried_calls *retried_calls, struct loop *loop, int64_t timeout_ns, uint64_t *repeats)
{
    *retried_calls = (struct retried_calls){.loop = loop, .timeout_ns = timeout_ns, .repeats = repeats};
    list_init(&retried_calls->waiting);
    loop_timer_init(&retried_calls->retry, retry_fire);
}

void retried_calls_fini(struct retried_calls *retried_calls)
{
    loop_timer_clear(retried_calls->loop, &retried_calls->retry);
}

static unsigned brings(const struct retried_call *retried_call)
{
    return retried_call->brings > 0 ? retried_call->brings : 1;
}

static bool is_unreceived(const struct retried_call *retried_call)
{
    return retried_call->lost_alone >= LOST_ALONE_MAX;
}

/* One that cost its connection each time has to wait. */
static bool may_send(const struct retried_call *retried_call)
{
    const struct retried_calls *retried_calls = retried_call->retried_calls;
    if (!answer_window_takes(&retried_calls->window, retried_calls->outstanding, brings(retried_call)))
        return false;
    return !is_unreceived(retried_call) ||
           (retried_calls->outstanding == 0 &&
            instant_reached(loop_now(retried_calls->loop), instant_after(retried_call->lost_at, UNRECEIVED_REST_NS)));
}

static bool call_send(struct retried_call *retried_call)
{
    struct retried_calls *retried_calls = retried_call->retried_calls;
    struct instant deadline = loop_after(retried_calls->loop, retried_calls->timeout_ns);
    if (!may_send(retried_call) ||
        !redis_node_call(retried_calls->node, &retried_call->request, deadline, &retried_call->call))
        return false;
    answer_window_sent(&retried_calls->window);
    retried_calls->outstanding += brings(retried_call);
    return true;
}

static void retry_soon(struct retried_calls *retried_calls)
{
    if (!loop_timer_is_set(&retried_calls->retry))
        loop_timer_set(retried_calls->loop, &retried_calls->retry, loop_after(retried_calls->loop, RETRY_NS));
}

static void call_wait(struct retried_call *retried_call)
{
    list_append(&retried_call->retried_calls->waiting, &retried_call->link);
}

void retried_call_start(struct retried_call *retried_call)
{
    struct retried_calls *retried_calls = retried_call->retried_calls;
    bool is_behind = retried_calls->window.limit > 0 && !list_is_empty(&retried_calls->waiting);
    if (is_behind || !call_send(retried_call))
        call_wait(retried_call);
}

/* In their order, as far as there is room. */
void retried_calls_connected(struct retried_calls *retried_calls)
{
    struct list batch, *link = NULL;
    bool has_unreceived = false;
    list_init(&batch);
    while ((link = list_take_first(&retried_calls->waiting)) != NULL)
        list_append(&batch, link);
    while ((link = list_take_first(&batch)) != NULL) {
        struct retried_call *retried_call = list_owner(link, struct retried_call, link);
        if (call_send(retried_call))
            continue;
        has_unreceived |= is_unreceived(retried_call);
        call_wait(retried_call);
    }
    if (has_unreceived)
        retry_soon(retried_calls);
}

/* The next argument of an encoded request, from `*at` on; false at its end. */
static bool argument_next(const struct buffer *request, size_t *at, struct text_span *argument)
{
    const char *head = memchr(request->bytes + *at, '$', request->length - *at);
    const char *body = head != NULL ? memchr(head, '\n', request->length - (size_t)(head - request->bytes)) : NULL;
    if (body == NULL)
        return false;
    *argument = (struct text_span){body + 1, strtoul(head + 1, NULL, 10)};
    *at = (size_t)(body + 1 - request->bytes) + argument->length + 2;
    return *at <= request->length;
}

/* Lists the keys of a script's call, separated by blanks: one of them holds a foreign value, and the error does not say
 * which. */
static void keys_list(const struct buffer *request, struct buffer *out)
{
    struct text_span argument;
    size_t at = 0;
    unsigned long keys = 0;
    for (unsigned i = 0; i < 3 + keys && argument_next(request, &at, &argument); i++) {
        if (i == 0 && (argument.length != 7 || memcmp(argument.bytes, "EVALSHA", 7) != 0))
            return;
        if (i == 2)
            keys = strtoul(argument.bytes, NULL, 10);
        if (i > 2 && argument.length > 0) {
            buffer_append_text(out, out->length > 0 ? " " : "");
            buffer_append(out, argument.bytes, argument.length);
        }
    }
}

void retried_calls_log_refusal(struct retried_calls *retried_calls, const struct redis_result *result, const char *keys)
{
    if (instant_before(loop_now(retried_calls->loop), instant_after(retried_calls->complained, COMPLAIN_NS)))
        return;
    retried_calls->complained = loop_now(retried_calls->loop);
    char text[LOG_QUOTE_MAX], names[LOG_QUOTE_MAX];
    const char *node = redis_node_name(retried_calls->node);
    if (result->error == REDIS_ERROR_WRONGTYPE)
        log_event(LOG_WARN, "queue_node_refused",
                  "node=%s error=WRONGTYPE keys=%s reason=%s advice=\"one of these keys holds a value of another "
                  "program; it is asked again\"",
                  node, log_value(keys, names), log_value(result->reason, text));
    else
        log_event(LOG_WARN, "queue_node_refused", "node=%s error=%s reason=%s advice=\"it is asked again\"", node,
                  redis_error_name(result->error), log_value(result->reason, text));
}

static void refusal_log(struct retried_call *retried_call, const struct redis_result *result)
{
    struct buffer keys = {0};
    if (result->error == REDIS_ERROR_WRONGTYPE)
        keys_list(&retried_call->request, &keys);
    retried_calls_log_refusal(retried_call->retried_calls, result, buffer_text(&keys));
    buffer_fini(&keys);
}

static void unreceived_tell(const struct retried_call *retried_call, const struct redis_result *result)
{
    char text[LOG_QUOTE_MAX];
    log_event(
        LOG_ERROR, "answer_unreceived",
        "node=%s times=%u reason=%s advice=\"the server may close the connection because the answer is larger than "
        "its client-output-buffer-limit for normal clients: raise that; the request is repeated every %lld s\"",
        redis_node_name(retried_call->retried_calls->node), retried_call->lost_alone, log_value(result->reason, text),
        (long long)(UNRECEIVED_REST_NS / NS_PER_S));
}

static void answer_lost(struct retried_call *retried_call, const struct redis_result *result)
{
    struct retried_calls *retried_calls = retried_call->retried_calls;
    bool is_down = redis_node_state(retried_calls->node) != REDIS_NODE_UP;
    answer_window_lost(&retried_calls->window, brings(retried_call));
    if (!is_down || retried_calls->outstanding > 0 || retried_calls->window.lost > 1)
        return;
    retried_call->lost_at = loop_now(retried_calls->loop);
    if (++retried_call->lost_alone != LOST_ALONE_MAX)
        return;
    retried_calls->unreceived++;
    unreceived_tell(retried_call, result);
}

static void forget_losses(struct retried_call *retried_call)
{
    if (retried_call->retried_calls != NULL)
        retried_call->retried_calls->unreceived -= is_unreceived(retried_call);
    retried_call->lost_alone = 0;
}

static void answer_take(struct retried_call *retried_call, const struct redis_reply *reply)
{
    struct retried_calls *retried_calls = retried_call->retried_calls;
    bool was_limited = retried_calls->window.limit > 0;
    answer_window_answered(&retried_calls->window);
    forget_losses(retried_call);
    if (retried_call->request.capacity > REQUEST_KEPT_MAX)
        buffer_fini(&retried_call->request);
    retried_call->done(retried_call, reply);
    if (was_limited && redis_node_state(retried_calls->node) == REDIS_NODE_UP)
        retried_calls_connected(retried_calls);
}

static void retried_call_answered(struct redis_call *call, const struct redis_result *result)
{
    struct retried_call *retried_call = list_owner(call, struct retried_call, call);
    struct retried_calls *retried_calls = retried_call->retried_calls;
    retried_calls->outstanding -= brings(retried_call);
    if (result->outcome == REDIS_VALUE) {
        answer_take(retried_call, result->reply);
        return;
    }
    (*retried_calls->repeats)++;
    if (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN) {
        refusal_log(retried_call, result);
        if (retried_calls->refused != NULL)
            retried_calls->refused(retried_calls, result);
    }
    if (result->outcome == REDIS_UNKNOWN)
        answer_lost(retried_call, result);
    retry_soon(retried_calls);
    if (result->outcome == REDIS_UNKNOWN && retried_call->brings > 1)
        retried_call->divide(retried_call);
    else
        call_wait(retried_call);
}

void retried_call_init(struct retried_call *retried_call, struct retried_calls *retried_calls,
                       void (*done)(struct retried_call *retried_call, const struct redis_reply *reply))
{
    *retried_call =
        (struct retried_call){.retried_calls = retried_calls, .call.done = retried_call_answered, .done = done};
    list_init(&retried_call->link);
}

void retried_call_cancel(struct retried_call *retried_call)
{
    struct retried_calls *retried_calls = retried_call->retried_calls;
    if (redis_call_is_outstanding(&retried_call->call)) {
        retried_calls->outstanding -= brings(retried_call);
        if (!list_is_empty(&retried_calls->waiting)) /* for the room that it leaves */
            retry_soon(retried_calls);
    }
    redis_call_cancel(&retried_call->call);
    forget_losses(retried_call);
    list_remove(&retried_call->link);
}

void retried_call_fini(struct retried_call *retried_call)
{
    retried_call_cancel(retried_call);
    buffer_fini(&retried_call->request);
}
