/* One connection and one INFO a node, and to a lock node the two requests of a lock; all nodes at once, on a loop that
 * lives as long as the probing.
 *
 * A visit ends with the first of: the last answer, the first failed attempt to connect (a probe does not wait for a
 * reconnect), and its own deadline. Runs on the thread that calls it. If the process dies, the lock expires. */
#include "worker/nodes/node_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "redis/node.h"
#include "redlock/scripts.h"
#include "worker/config/node_options.h"

#define SENTINEL_NS (300 * NS_PER_MS)

enum { TRIAL_DIGITS = 24, TRIAL_TTL_MS = 100 };

struct visits;

struct visit {
    struct node_probe *probe;
    struct redis_node *connection;
    struct redis_call call;
    struct instant asked_at;
    struct loop_timer deadline;
    char digits[TRIAL_DIGITS + 1]; /* of the lock that is tried: the end of its name, and its value */
    bool is_over;
    struct visits *all;
};

struct visits {
    struct loop *loop;
    struct visit *items;
    size_t count, open;
};

static void visit_end(struct visit *visit, enum probe_state state, const char *reason)
{
    if (visit->is_over)
        return;
    visit->is_over = true;
    visit->probe->state = state;
    snprintf(visit->probe->reason, sizeof visit->probe->reason, "%s", reason);
    loop_timer_clear(visit->all->loop, &visit->deadline);
    if (--visit->all->open == 0)
        loop_stop(visit->all->loop);
}

/* --- a lock on trial -------------------------------------------------------------------------------------------- */

static void trial_send(struct visit *visit, const struct buffer *request,
                       void (*done)(struct redis_call *call, const struct redis_result *result))
{
    visit->call.done = done;
    if (!redis_node_call(visit->connection, request, visit->deadline.item.at, &visit->call))
        visit_end(visit, PROBE_UNREACHABLE, redis_node_reason(visit->connection));
}

static void trial_key_write(const struct visit *visit, struct buffer *request)
{
    char key[160];
    snprintf(key, sizeof key, "%sholdfast-check:%s", visit->probe->lock_prefix, visit->digits);
    redis_request_text(request, key);
}

/* False when the visit is over: the node refused, or was silent. */
static bool trial_goes_on(struct visit *visit, const struct redis_result *result)
{
    if (result->outcome == REDIS_VALUE)
        return true;
    if (result->outcome == REDIS_ERROR)
        snprintf(visit->probe->refusal, sizeof visit->probe->refusal, "%s", result->reason);
    visit_end(visit, result->outcome == REDIS_ERROR ? PROBE_ANSWERED : PROBE_UNREACHABLE, result->reason);
    return false;
}

static void trial_released(struct redis_call *call, const struct redis_result *result)
{
    struct visit *visit = list_owner(call, struct visit, call);
    if (trial_goes_on(visit, result))
        visit_end(visit, PROBE_ANSWERED, "");
}

static void trial_granted(struct redis_call *call, const struct redis_result *result)
{
    struct visit *visit = list_owner(call, struct visit, call);
    struct buffer request = {0};
    if (!trial_goes_on(visit, result))
        return;
    redis_request_script(&request, &redlock_script_release, 1, 1);
    trial_key_write(visit, &request);
    redis_request_text(&request, visit->digits);
    trial_send(visit, &request, trial_released);
    buffer_fini(&request);
}

static void trial_begin(struct visit *visit)
{
    struct buffer request = {0};
    random_digits(visit->digits, TRIAL_DIGITS);
    redis_request_begin(&request, 6);
    redis_request_text(&request, "SET");
    trial_key_write(visit, &request);
    redis_request_text(&request, visit->digits);
    redis_request_text(&request, "NX");
    redis_request_text(&request, "PX");
    redis_request_integer(&request, TRIAL_TTL_MS);
    trial_send(visit, &request, trial_granted);
    buffer_fini(&request);
}

/* --- who it is -------------------------------------------------------------------------------------------------- */

static void refusal_end(struct visit *visit, const char *what, const char *reason)
{
    char text[sizeof visit->probe->reason];
    snprintf(text, sizeof text, "%s: %s", what, reason);
    visit_end(visit, PROBE_REFUSED, text);
}

static void answered(struct redis_call *call, const struct redis_result *result)
{
    struct visit *visit = list_owner(call, struct visit, call);
    visit->probe->answer_ns = instant_since(visit->asked_at, instant_now());
    if (result->outcome == REDIS_UNKNOWN)
        visit_end(visit, PROBE_UNREACHABLE, result->reason);
    else if (result->outcome == REDIS_ERROR && visit->probe->use == NODE_FOR_LOCKS)
        refusal_end(visit, "a lock node has to answer INFO, or it has no vote", result->reason);
    else if (result->outcome == REDIS_ERROR && result->error == REDIS_ERROR_SYNTAX)
        visit_end(visit, PROBE_ANSWERED, ""); /* a server without this command */
    else if (result->outcome == REDIS_ERROR)
        visit_end(visit, PROBE_REFUSED, result->reason);
    else if (result->reply->kind != REDIS_STRING ||
             !node_facts_parse(&visit->probe->facts, result->reply->bytes, result->reply->length))
        visit_end(visit, PROBE_REFUSED, "answers INFO like no Redis server");
    else if (visit->probe->use == NODE_FOR_LOCKS)
        trial_begin(visit);
    else
        visit_end(visit, PROBE_ANSWERED, "");
}

static void ask(struct visit *visit)
{
    struct buffer request = {0};
    snprintf(visit->probe->address, sizeof visit->probe->address, "%s", redis_node_address(visit->connection));
    visit->asked_at = instant_now();
    visit->call.done = answered;
    redis_request_begin(&request, 1);
    redis_request_text(&request, "INFO");
    if (!redis_node_call(visit->connection, &request, visit->deadline.item.at, &visit->call))
        visit_end(visit, PROBE_UNREACHABLE, redis_node_reason(visit->connection));
    buffer_fini(&request);
}

/* What the reasons of lib/redis say when a server is there and does not let us in, or is none of those we want. */
static bool is_refusal(const char *reason)
{
    static const char *const parts[] = {" refused ",         " is a replica",          " is a sentinel",
                                        " knows no master ", " does not say whether ", " is part of a Redis Cluster"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(reason, parts[i]) != NULL)
            return true;
    return false;
}

static void changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct visit *visit = context;
    (void)node;
    if (visit->is_over)
        return;
    if (state == REDIS_NODE_UP)
        ask(visit);
    else
        visit_end(visit, is_refusal(reason) ? PROBE_REFUSED : PROBE_UNREACHABLE, reason);
}

static void too_late(struct loop_timer *timer)
{
    visit_end(list_owner(timer, struct visit, deadline), PROBE_UNREACHABLE, "did not answer in time");
}

static void visit_start(struct visit *visit)
{
    const struct config_node *node = visit->probe->node;
    struct redis_node_options options = node_options(node, "holdfast-check");
    int64_t patience_ns = node->connect_timeout_ns + (int64_t)node->sentinels.count * SENTINEL_NS + NS_PER_S;
    options.sentinels.timeout_ns = SENTINEL_NS;
    if (visit->probe->use == NODE_FOR_LOCKS) {
        options.scripts = redlock_scripts;
        options.script_count = REDLOCK_SCRIPT_COUNT;
    }
    options.changed = changed;
    options.context = visit;
    visit->all->open++;
    loop_timer_init(&visit->deadline, too_late);
    loop_timer_set(visit->all->loop, &visit->deadline, instant_after(instant_now(), patience_ns));
    visit->connection = redis_node_create(visit->all->loop, &options);
}

bool node_probe_all(struct node_probe *probes, size_t count, struct error *error)
{
    struct visits visits = {.loop = loop_create(error), .count = count};
    if (visits.loop == NULL)
        return false;
    visits.items = memory_zeroed(count, sizeof *visits.items);
    for (size_t i = 0; i < count; i++) {
        visits.items[i] = (struct visit){.probe = &probes[i], .all = &visits};
        probes[i].state = PROBE_SKIPPED;
        if (!probes[i].node->source.is_broken)
            visit_start(&visits.items[i]);
    }
    if (visits.open > 0)
        loop_run(visits.loop);
    for (size_t i = 0; i < visits.count; i++)
        if (visits.items[i].connection != NULL)
            redis_node_destroy(visits.items[i].connection);
    free(visits.items);
    loop_destroy(visits.loop);
    return true;
}
