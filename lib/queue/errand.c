#include "queue/errand.h"

#include "base/log.h"

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
    struct instant deadline = instant_after(loop_now(errands->loop), errands->timeout_ns);
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

void errands_log_refusal(struct errands *errands, const struct redis_result *result)
{
    if (instant_before(loop_now(errands->loop), instant_after(errands->complained, COMPLAIN_NS)))
        return;
    errands->complained = loop_now(errands->loop);
    char text[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "queue_node_refused", "node=%s error=%s reason=%s advice=\"it is asked again\"",
              redis_node_name(errands->node), redis_error_name(result->error), log_quote(result->reason, text));
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
        errands_log_refusal(errands, result);
        if (errands->refused != NULL)
            errands->refused(errands, result);
    }
    list_append(&errands->waiting, &errand->link);
    if (!loop_timer_is_set(&errands->retry))
        loop_timer_set(errands->loop, &errands->retry, instant_after(loop_now(errands->loop), RETRY_NS));
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
