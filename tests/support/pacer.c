#include "tests/support/pacer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/random.h"
#include "redis/node.h"

struct pacer {
    const struct pacer_options *options;
    struct histogram *latencies;
    struct loop *loop;
    struct redis_node *pusher, *fetcher;
    struct redis_call fetch;
    struct loop_timer timer;
    struct buffer request;
    unsigned up, pushed, taken;
    bool failed;
};

static void fail(struct pacer *pacer)
{
    pacer->failed = true;
    loop_stop(pacer->loop);
}

static unsigned total(const struct pacer *pacer)
{
    return pacer->options->rate * pacer->options->seconds;
}

/* --- pushing ------------------------------------------------------------------------------------------------------ */

static void task_push(struct pacer *pacer)
{
    char task[320];
    int length = snprintf(task, sizeof task,
                          "{\"class\":\"stamp\",\"queue\":\"default\",\"args\":[%" PRId64 "],\"jid\":\"%024x\","
                          "\"created_at\":1795194349.25,\"enqueued_at\":1795194359.25,\"retry\":true",
                          instant_now().ns, pacer->pushed);
    if (pacer->options->with_resource)
        length += snprintf(task + length, sizeof task - (size_t)length, ",\"resource\":\"acct:%u\"", pacer->pushed);
    task[length++] = '}';
    buffer_clear(&pacer->request);
    redis_request_begin(&pacer->request, 3);
    redis_request_text(&pacer->request, "LPUSH");
    redis_request_text(&pacer->request, pacer->options->list);
    redis_request_bytes(&pacer->request, task, (size_t)length);
    pacer->pushed++;
    if (!redis_node_call(pacer->pusher, &pacer->request, INSTANT_NEVER, NULL))
        fail(pacer);
}

/* Pauses of a Poisson process, so that they never keep the rhythm of a timer. */
static void pause_set(struct pacer *pacer)
{
    double share = (double)(random_between(1, 1000000)) / 1e6;
    int64_t pause = (int64_t)(-log(share) / pacer->options->rate * (double)NS_PER_S);
    loop_timer_set(pacer->loop, &pacer->timer, instant_after(loop_now(pacer->loop), pause));
}

static void pause_over(struct loop_timer *timer)
{
    struct pacer *pacer = list_owner(timer, struct pacer, timer);
    task_push(pacer);
    if (pacer->pushed < total(pacer))
        pause_set(pacer);
    else if (!pacer->options->takes_them_back)
        loop_stop(pacer->loop);
}

/* --- taking back -------------------------------------------------------------------------------------------------- */

static void fetch_send(struct pacer *pacer)
{
    buffer_clear(&pacer->request);
    redis_request_begin(&pacer->request, 6);
    redis_request_text(&pacer->request, "BLMOVE");
    redis_request_text(&pacer->request, pacer->options->list);
    redis_request_text(&pacer->request, "bench:taken");
    redis_request_text(&pacer->request, "RIGHT");
    redis_request_text(&pacer->request, "LEFT");
    redis_request_integer(&pacer->request, 0);
    if (!redis_node_call(pacer->fetcher, &pacer->request, INSTANT_NEVER, &pacer->fetch))
        fail(pacer);
}

static void fetched(struct redis_call *call, const struct redis_result *result)
{
    struct pacer *pacer = list_owner(call, struct pacer, fetch);
    const char *args = result->outcome == REDIS_VALUE ? strstr(result->reply->bytes, "\"args\":[") : NULL;
    if (args == NULL) {
        fail(pacer);
        return;
    }
    int64_t pushed = strtoll(args + strlen("\"args\":["), NULL, 10);
    histogram_record(pacer->latencies, (instant_now().ns - pushed) / NS_PER_US);
    if (++pacer->taken < total(pacer))
        fetch_send(pacer);
    else
        loop_stop(pacer->loop);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct pacer *pacer = context;
    if (state != REDIS_NODE_UP) {
        fail(pacer);
        return;
    }
    if (++pacer->up < (pacer->options->takes_them_back ? 2 : 1))
        return;
    if (pacer->options->takes_them_back)
        fetch_send(pacer);
    pause_set(pacer);
}

bool pacer_run(const struct pacer_options *options, struct histogram *latencies)
{
    struct pacer pacer = {.options = options, .latencies = latencies, .loop = loop_create(NULL)};
    if (pacer.loop == NULL)
        return false;
    struct redis_node_options node = {
        .name = "queue", .host = "127.0.0.1", .port = options->port, .changed = node_changed, .context = &pacer};
    pacer.fetch.done = fetched;
    loop_timer_init(&pacer.timer, pause_over);
    pacer.pusher = redis_node_create(pacer.loop, &node);
    if (options->takes_them_back)
        pacer.fetcher = redis_node_create(pacer.loop, &node);
    loop_run(pacer.loop);
    loop_timer_clear(pacer.loop, &pacer.timer);
    if (pacer.fetcher != NULL)
        redis_node_destroy(pacer.fetcher);
    redis_node_destroy(pacer.pusher);
    loop_destroy(pacer.loop);
    buffer_fini(&pacer.request);
    return !pacer.failed;
}
