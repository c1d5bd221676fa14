#include "queue/dead_set_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"

#define LOOK_NS  (60 * NS_PER_S)
#define RETRY_NS (1 * NS_PER_S)
#define TELL_NS  (3600 * NS_PER_S)

struct dead_set_watch {
    struct loop *loop;
    struct redis_node *node;
    int64_t timeout_ns;
    struct loop_timer timer;
    struct redis_call call;
    struct buffer request;
    bool is_told;
    struct instant told; /* when is_told */
};

static void look_after(struct dead_set_watch *watch, int64_t wait_ns)
{
    wait_ns = random_between(wait_ns / 2, wait_ns);
    loop_timer_set(watch->loop, &watch->timer, loop_after(watch->loop, wait_ns));
}

static void full_tell(struct dead_set_watch *watch, long long entries)
{
    struct instant now = loop_now(watch->loop);
    if (watch->is_told && instant_before(now, instant_after(watch->told, TELL_NS)))
        return;
    watch->is_told = true;
    watch->told = now;
    log_event(LOG_WARN, "dead_full",
              "entries=%lld advice=\"each further dead task removes the oldest one: retry or delete them with "
              "holdfast tasks\"",
              entries);
}

/* Ignores a foreign value under the key: burying a task reports it. */
static void counted(struct redis_call *call, const struct redis_result *result)
{
    struct dead_set_watch *watch = list_owner(call, struct dead_set_watch, call);
    look_after(watch, result->outcome == REDIS_UNKNOWN ? RETRY_NS : LOOK_NS);
    if (result->outcome != REDIS_VALUE || result->reply->kind != REDIS_INTEGER)
        return;
    if (result->reply->integer >= DEAD_ENTRIES - 1)
        full_tell(watch, result->reply->integer);
    else
        watch->is_told = false;
}

static void look_fire(struct loop_timer *timer)
{
    struct dead_set_watch *watch = list_owner(timer, struct dead_set_watch, timer);
    struct instant deadline = loop_after(watch->loop, watch->timeout_ns);
    if (!redis_node_call(watch->node, &watch->request, deadline, &watch->call))
        look_after(watch, RETRY_NS);
}

struct dead_set_watch *dead_set_watch_create(struct loop *loop, struct redis_node *node, const struct queue_keys *keys,
                                             int64_t timeout_ns)
{
    struct dead_set_watch *watch = memory_new(struct dead_set_watch);
    watch->loop = loop;
    watch->node = node;
    watch->timeout_ns = timeout_ns;
    watch->call.done = counted;
    redis_request_command(&watch->request, "ZCARD", keys->dead);
    loop_timer_init(&watch->timer, look_fire);
    look_after(watch, RETRY_NS);
    return watch;
}

void dead_set_watch_destroy(struct dead_set_watch *watch)
{
    if (watch == NULL)
        return;
    loop_timer_clear(watch->loop, &watch->timer);
    redis_call_cancel(&watch->call);
    buffer_fini(&watch->request);
    free(watch);
}
