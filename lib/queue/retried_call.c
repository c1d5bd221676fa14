#include "queue/retried_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "queue/json.h"

#define RETRY_NS    (200 * NS_PER_MS)
#define COMPLAIN_NS (1 * NS_PER_S)

/* A request that held a large task gives its memory back. */
enum { REQUEST_KEPT_MAX = 64 * 1024 };

static void retry_fire(struct loop_timer *timer)
{
    struct errands *errands = list_owner(timer, struct errands, retry);
    if (redis_node_state(errands->node) == REDIS_NODE_UP)
        errands_connected(errands);
}

void errands_init(struct errands *errands, struct loop *loop, int64_t timeout_ns, uint64_t *repeats)
{
    *errands = (struct errands){.loop = loop, .timeout_ns = timeout_ns, .repeats = repeats};
    list_init(&errands->waiting);
    loop_timer_init(&errands->retry, retry_fire);
}

void errands_fini(struct errands *errands)
{
    loop_timer_clear(errands->loop, &errands->retry);
}

static void errand_send(struct errand *errand)
{
    struct errands *errands = errand->errands;
    struct instant deadline = loop_after(errands->loop, errands->timeout_ns);
    if (!redis_node_call(errands->node, &errand->request, deadline, &errand->call))
        list_append(&errands->waiting, &errand->link);
}

void errands_connected(struct errands *errands)
{
    struct list batch, *link = NULL;
    list_init(&batch);
    while ((link = list_take_first(&errands->waiting)) != NULL)
        list_append(&batch, link);
    while ((link = list_take_first(&batch)) != NULL)
        errand_send(list_owner(link, struct errand, link));
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

/* The keys of a script's call, with blanks between them: one of them holds what is foreign, the error does not say
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

void errands_log_refusal(struct errands *errands, const struct redis_result *result, const char *keys)
{
    if (instant_before(loop_now(errands->loop), instant_after(errands->complained, COMPLAIN_NS)))
        return;
    errands->complained = loop_now(errands->loop);
    char text[LOG_QUOTE_MAX], names[LOG_QUOTE_MAX];
    const char *node = redis_node_name(errands->node);
    if (result->error == REDIS_ERROR_WRONGTYPE)
        log_event(LOG_WARN, "queue_node_refused",
                  "node=%s error=WRONGTYPE keys=%s reason=%s advice=\"one of these keys holds a value of another "
                  "program; it is asked again\"",
                  node, log_value(keys, names), log_value(result->reason, text));
    else
        log_event(LOG_WARN, "queue_node_refused", "node=%s error=%s reason=%s advice=\"it is asked again\"", node,
                  redis_error_name(result->error), log_value(result->reason, text));
}

static void refusal_log(struct errand *errand, const struct redis_result *result)
{
    struct buffer keys = {0};
    if (result->error == REDIS_ERROR_WRONGTYPE)
        keys_list(&errand->request, &keys);
    errands_log_refusal(errand->errands, result, buffer_text(&keys));
    buffer_fini(&keys);
}

static void errand_answered(struct redis_call *call, const struct redis_result *result)
{
    struct errand *errand = list_owner(call, struct errand, call);
    struct errands *errands = errand->errands;
    if (result->outcome == REDIS_VALUE) {
        if (errand->request.capacity > REQUEST_KEPT_MAX)
            buffer_fini(&errand->request);
        errand->done(errand, result->reply);
        return;
    }
    (*errands->repeats)++;
    if (result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN) {
        refusal_log(errand, result);
        if (errands->refused != NULL)
            errands->refused(errands, result);
    }
    list_append(&errands->waiting, &errand->link);
    if (!loop_timer_is_set(&errands->retry))
        loop_timer_set(errands->loop, &errands->retry, loop_after(errands->loop, RETRY_NS));
}

void errand_init(struct errand *errand, struct errands *errands,
                 void (*done)(struct errand *errand, const struct redis_reply *reply))
{
    *errand = (struct errand){.errands = errands, .call.done = errand_answered, .done = done};
    list_init(&errand->link);
}

void errand_cancel(struct errand *errand)
{
    redis_call_cancel(&errand->call);
    list_remove(&errand->link);
}

void errand_fini(struct errand *errand)
{
    errand_cancel(errand);
    buffer_fini(&errand->request);
}

void errand_start(struct errand *errand)
{
    errand_send(errand);
}
