/* Every connection, and every attempt to make one, ends here. Loop thread only.
 *
 * The calls of a connection that ends get DOWN if no byte of them was written, and otherwise UNKNOWN, because the
 * server may have executed them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "redis/node_private.h"

/* A larger buffer is freed when a connection ends. */
static const size_t out_kept_max = 256 * 1024;

void node_wake_at(struct redis_node *node, struct instant at)
{
    if (!instant_before(at, node->timer_at))
        return;
    node->timer_at = at;
    loop_timer_set(node->loop, &node->timer, at);
}

uint64_t node_expect(struct redis_node *node, size_t length, struct pending entry)
{
    struct instant now = loop_now(node->loop);
    entry.length = (uint32_t)length;
    entry.queued_at = now;
    if (node->phase == NODE_UP) {
        if (pending_is_empty(&node->pending))
            node_wake_at(node, instant_after(now, node->options.silence_limit_ns));
        if (entry.call != NULL)
            node_wake_at(node, entry.deadline);
    }
    return pending_push(&node->pending, entry);
}

/* Hands the result to the call. First remove the call's entry from the ring, or the call from the entry. */
void node_complete(struct redis_call *call, const struct redis_result *result)
{
    call->node = NULL;
    call->done(call, result);
}

void node_drop_connection(struct redis_node *node)
{
    loop_hook_cancel(&node->write_hook);
    loop_timer_clear(node->loop, &node->timer);
    node->timer_at = INSTANT_NEVER;
    node->is_subscribed = false;
    loop_timer_clear(node->loop, &node->pulse_timer);
    if (node->resolution != NULL)
        loop_resolve_cancel(node->resolution);
    node->resolution = NULL;
    if (node->watch != NULL)
        loop_watch_stop(node->watch);
    node->watch = NULL;
    tls_destroy(node->tls);
    node->tls = NULL;
    if (node->fd >= 0)
        close(node->fd);
    node->fd = -1;
    node->blocked = node->overloaded = false;
    node->demoted_by = REDIS_ERROR_NONE;
}

void node_drop_output(struct redis_node *node)
{
    if (node->out.length > 0)
        memory_wipe(node->out.bytes, node->out.length); /* early in the handshake it holds the password */
    if (node->out.capacity > out_kept_max)
        buffer_fini(&node->out);
    buffer_clear(&node->out);
    node->answered = node->written = 0;
}

/* Full jitter: a fleet that lost the same server does not reconnect in step. */
static int64_t backoff_ns(const struct redis_node *node)
{
    int64_t low = node->options.backoff_min_ns;
    int64_t high = low;
    for (unsigned i = 0; i < node->failures && high < node->options.backoff_max_ns; i++)
        high = high > INT64_MAX / 2 ? INT64_MAX : high * 2;
    if (high > node->options.backoff_max_ns)
        high = node->options.backoff_max_ns;
    return high > low ? random_between(low, high) : low;
}

bool node_has_lasted(const struct redis_node *node)
{
    struct instant lasted = instant_after(node->up_since, node->options.backoff_max_ns);
    return node->phase == NODE_UP && instant_reached(loop_now(node->loop), lasted);
}

enum { REASONS_TOLD = 3 };

/* How a connection ended says less than why there is no other, so the log has what is new, up to a limit. */
static void tell_down(struct redis_node *node, const char *reason_before)
{
    char name[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    bool is_first = node->told_reasons == 0;
    bool is_told = is_first || (node->told_reasons < REASONS_TOLD && strcmp(node->reason, reason_before) != 0);
    log_event(is_told ? LOG_WARN : LOG_DEBUG, "node_down", "node=%s reason=%s", log_value(node->options.name, name),
              log_value(node->reason, reason));
    node->told_reasons += is_told;
    if (is_first && node->options.changed != NULL)
        node->options.changed(node->options.context, node, REDIS_NODE_DOWN, node->reason);
}

static void complete_lost(struct redis_node *node)
{
    size_t written = node->written;
    size_t position = node->answered;
    while (!pending_is_empty(&node->pending)) {
        struct pending entry = pending_pop(&node->pending);
        bool is_sent = position < written;
        position += entry.length;
        if (entry.call == NULL)
            continue;
        struct redis_result result = {.outcome = REDIS_UNKNOWN, .reason = node->reason};
        if (!is_sent) {
            result.outcome = REDIS_ERROR;
            result.error = REDIS_ERROR_DOWN;
        }
        node_complete(entry.call, &result);
    }
}

void node_step(struct redis_node *node)
{
    node_drop_connection(node);
    node->phase = NODE_WAITING;
    complete_lost(node); /* requests of a handshake have no caller */
    node_drop_output(node);
    node_wake_at(node, loop_now(node->loop));
}

/* True if there is another sentinel to ask. */
static bool sentinel_failed(struct redis_node *node, struct sentinel *sentinel)
{
    char name[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX], last[sizeof node->reason];
    log_event(sentinel->is_told ? LOG_DEBUG : LOG_WARN, "sentinel_skipped", "node=%s reason=%s",
              log_value(node->options.name, name), log_value(node->reason, reason));
    sentinel->is_told = true;
    if (sentinel_search_skip(&node->search))
        return true;
    memcpy(last, node->reason, sizeof last);
    snprintf(node->reason, sizeof node->reason, "no sentinel of %zu told where master \"%.40s\" is; the last: %.140s",
             node->search.count, node->search.master, last);
    return false;
}

/* The next attempt asks the sentinels again, and asks last the one whose answer did not lead to a master. */
static void restart_search(struct redis_node *node)
{
    if (node->search.found && node->phase != NODE_UP)
        sentinel_search_distrust(&node->search);
    sentinel_search_begin(&node->search);
}

void node_lose(struct redis_node *node, const char *format, ...)
{
    char before[sizeof node->reason];
    va_list arguments;
    memcpy(before, node->reason, sizeof before);
    va_start(arguments, format);
    vsnprintf(node->reason, sizeof node->reason, format, arguments);
    va_end(arguments);

    struct sentinel *sentinel = sentinel_search_current(&node->search);
    if (sentinel != NULL && sentinel_failed(node, sentinel)) {
        node_step(node);
        return;
    }
    restart_search(node);
    node_drop_connection(node);
    node->failures = node_has_lasted(node) ? 1 : node->failures + 1;
    node->phase = NODE_WAITING;
    node->is_tried = true;
    tell_down(node, before);
    complete_lost(node);
    node_drop_output(node);
    bool rests = node->is_unfit && node->options.unfit_pause_ns > 0;
    node_wake_at(node, loop_after(node->loop, rests ? node->options.unfit_pause_ns : backoff_ns(node)));
    node->is_unfit = false;
}

const char *node_unfit_reason(const struct redis_node *node, enum redis_error error, const char *text,
                              char out[NODE_UNFIT_MAX])
{
    if (error == REDIS_ERROR_CLUSTER)
        snprintf(out, NODE_UNFIT_MAX, "%s is part of a Redis Cluster; the nodes have to be single masters",
                 node->address);
    else
        snprintf(out, NODE_UNFIT_MAX,
                 "%s refused to run Lua scripts, and every node has to run them (SCRIPT LOAD, EVALSHA): %.100s",
                 node->address, text);
    return out;
}

void node_lose_unfit(struct redis_node *node, enum redis_error error, const char *text)
{
    char reason[NODE_UNFIT_MAX];
    node->is_unfit = true;
    node_lose(node, "%s", node_unfit_reason(node, error, text, reason));
}
