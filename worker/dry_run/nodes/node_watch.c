#include "worker/dry_run/nodes/node_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/config/node_options.h"
#include "worker/nodes/node_facts.h"

#define INTERVAL_NS (1 * NS_PER_S)
#define PATIENCE_NS (5 * NS_PER_S)

struct watched_node {
    struct node_watch *watch;
    struct redis_node *node;
    struct redis_call call;
};

struct node_watch {
    struct loop *loop;
    struct loop_timer timer;
    struct buffer request;
    void (*sampled)(void *context, unsigned node, const struct node_sample *sample);
    void *context;
    struct watched_node *nodes;
    unsigned count;
};

static double seconds_of(const char *info, size_t length, const char *field)
{
    char text[64];
    return strtod(node_facts_field(info, length, field, text, sizeof text), NULL);
}

/* "calls=12,usec=345,..." of a command. */
static void calls_add(const char *info, size_t length, const char *field, struct node_sample *sample)
{
    char text[256];
    const char *value = node_facts_field(info, length, field, text, sizeof text);
    const char *usec = strstr(value, ",usec=");
    sample->scripts += strncmp(value, "calls=", 6) == 0 ? strtoull(value + 6, NULL, 10) : 0;
    sample->script_us += usec != NULL ? strtoull(usec + 6, NULL, 10) : 0;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct watched_node *node = list_owner(call, struct watched_node, call);
    struct node_watch *watch = node->watch;
    if (result->outcome != REDIS_VALUE || result->reply->kind != REDIS_STRING)
        return;
    struct node_sample sample = {.at = loop_now(watch->loop)};
    calls_add(result->reply->bytes, result->reply->length, "cmdstat_evalsha", &sample);
    calls_add(result->reply->bytes, result->reply->length, "cmdstat_eval", &sample);
    sample.cpu_seconds = seconds_of(result->reply->bytes, result->reply->length, "used_cpu_sys") +
                         seconds_of(result->reply->bytes, result->reply->length, "used_cpu_user");
    watch->sampled(watch->context, (unsigned)(node - watch->nodes), &sample);
}

static void node_ask(struct watched_node *node)
{
    struct loop *loop = node->watch->loop;
    if (redis_call_is_outstanding(&node->call))
        return;
    bool is_asked = redis_node_call(node->node, &node->watch->request, loop_after(loop, PATIENCE_NS), &node->call);
    (void)is_asked; /* else when it is connected */
}

void node_watch_look(struct node_watch *watch)
{
    for (unsigned i = 0; i < watch->count; i++)
        node_ask(&watch->nodes[i]);
}

/* What it has counted until now is before all that follows. */
static void changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct watched_node *watched = context;
    (void)node, (void)reason;
    if (state == REDIS_NODE_UP && watched->node != NULL)
        node_ask(watched);
}

static void interval_over(struct loop_timer *timer)
{
    struct node_watch *watch = list_owner(timer, struct node_watch, timer);
    loop_timer_set(watch->loop, timer, loop_after(watch->loop, INTERVAL_NS));
    node_watch_look(watch);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void node_init(struct node_watch *watch, unsigned index, const struct config_node *node)
{
    struct redis_node_options options = node_options(node, "dry-run");
    struct watched_node *watched = &watch->nodes[index];
    options.backoff_max_ns = NS_PER_S / 5;
    watched->watch = watch;
    watched->call.done = answered;
    options.changed = changed;
    options.context = watched;
    watched->node = redis_node_create(watch->loop, &options);
}

struct node_watch *node_watch_create(struct loop *loop, const struct config *config,
                                     void (*sampled)(void *context, unsigned node, const struct node_sample *sample),
                                     void *context)
{
    struct node_watch *watch = memory_new(struct node_watch);
    watch->loop = loop;
    watch->sampled = sampled;
    watch->context = context;
    watch->count = (unsigned)config->lock_node_count + 1;
    watch->nodes = memory_zeroed(watch->count, sizeof watch->nodes[0]);
    redis_request_command(&watch->request, "INFO", "all");
    node_init(watch, 0, &config->queue_node);
    for (unsigned i = 1; i < watch->count; i++)
        node_init(watch, i, &config->lock_nodes[i - 1]);
    loop_timer_init(&watch->timer, interval_over);
    loop_timer_set(loop, &watch->timer, loop_after(loop, INTERVAL_NS));
    return watch;
}

void node_watch_destroy(struct node_watch *watch)
{
    if (watch == NULL)
        return;
    loop_timer_clear(watch->loop, &watch->timer);
    for (unsigned i = 0; i < watch->count; i++)
        redis_node_destroy(watch->nodes[i].node);
    buffer_fini(&watch->request);
    free(watch->nodes);
    free(watch);
}

bool node_watch_is_answered(const struct node_watch *watch)
{
    for (unsigned i = 0; i < watch->count; i++)
        if (redis_call_is_outstanding(&watch->nodes[i].call))
            return false;
    return true;
}

unsigned node_watch_nodes_up(const struct node_watch *watch)
{
    unsigned up = 0;
    for (unsigned i = 1; i < watch->count; i++)
        up += redis_node_state(watch->nodes[i].node) == REDIS_NODE_UP;
    return up;
}

bool node_watch_queue_is_up(const struct node_watch *watch)
{
    return redis_node_state(watch->nodes[0].node) == REDIS_NODE_UP;
}
