/* A node's calls and their deadlines. Threads: the loop's only.
 *
 * One timer serves all deadlines of a node. It is moved only when an earlier deadline arrives, never when a call is
 * answered, so in the steady state it fires now and then, finds nothing expired, looks for the earliest deadline
 * among the outstanding calls and sleeps again. A call that expires leaves its entry in the ring without a call:
 * a tombstone that keeps the place of the reply, which still has to come, or the connection ends at the silence
 * limit. `first_live` lets the search skip the tombstones of a server that hangs.
 *
 * When a connection ends, its calls get the answer that is true: DOWN for those of which no byte was written,
 * UNKNOWN for all others, because the server may have executed them. */
#include "redis/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redis/fault_request.h"
#include "redis/node_private.h"

/* After a search, calls that expire soon after each other are found together. */
static const int64_t search_pause_ns = NS_PER_MS;

/* More than this is given back to the allocator when a connection ends. */
static const size_t out_kept_max = 256 * 1024;

/* --- creation ----------------------------------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    return text != NULL ? memory_text(text) : NULL;
}

static void copy_texts(struct redis_node_options *own, const struct redis_node_options *given)
{
    own->name = memory_text(given->name);
    own->host = copy_text(given->host);
    own->unix_path = copy_text(given->unix_path);
    own->user = copy_text(given->user);
    own->password = copy_text(given->password);
    own->client_name = copy_text(given->client_name);
    own->sentinels.master = copy_text(given->sentinels.master);
    own->sentinels.user = copy_text(given->sentinels.user);
    own->sentinels.password = copy_text(given->sentinels.password);
    own->sentinels.addresses = NULL; /* they are in the search */
}

static void take_options(struct redis_node_options *own, const struct redis_node_options *given)
{
    *own = *given;
    copy_texts(own, given);
    if (own->sentinels.timeout_ns == 0)
        own->sentinels.timeout_ns = 300 * NS_PER_MS;
    if (own->connect_timeout_ns == 0)
        own->connect_timeout_ns = NS_PER_S;
    if (own->backoff_min_ns == 0)
        own->backoff_min_ns = 50 * NS_PER_MS;
    if (own->backoff_max_ns == 0)
        own->backoff_max_ns = 2 * NS_PER_S;
    if (own->silence_limit_ns == 0)
        own->silence_limit_ns = 10 * NS_PER_S;
    if (own->unanswered_limit == 0)
        own->unanswered_limit = (size_t)4 << 20;
    if (own->unanswered_limit > UINT32_MAX)
        own->unanswered_limit = UINT32_MAX;
    if (own->reply_limit == 0)
        own->reply_limit = (size_t)1 << 20;
    if (own->element_limit == 0)
        own->element_limit = 1024;
}

static void drop_secret(const char *secret)
{
    if (secret != NULL)
        memory_wipe((char *)secret, strlen(secret));
    free((char *)secret);
}

static void drop_options(struct redis_node_options *own)
{
    free((char *)own->name);
    free((char *)own->host);
    free((char *)own->unix_path);
    free((char *)own->user);
    drop_secret(own->password);
    free((char *)own->client_name);
    free((char *)own->sentinels.master);
    free((char *)own->sentinels.user);
    drop_secret(own->sentinels.password);
}

static void timer_fired(struct loop_timer *timer);
static void turn_ended(struct loop_hook *hook);

struct redis_node *redis_node_create(struct loop *loop, const struct redis_node_options *options)
{
    invariant(options->name != NULL);
    invariant((options->host != NULL) + (options->unix_path != NULL) + (options->sentinels.count > 0) == 1);
    invariant(options->sentinels.count == 0 || options->sentinels.master != NULL);
    invariant(options->script_count <= UINT16_MAX);

    struct redis_node *node = memory_new(struct redis_node);
    node->loop = loop;
    take_options(&node->options, options);
    sentinel_search_init(&node->search, &options->sentinels);
    node->search.master = node->options.sentinels.master;
    node->fd = -1;
    node->reader = redis_reader_create(node->options.reply_limit, node->options.element_limit);
    node->received = memory_resize(NULL, NODE_READ_SIZE, 1);
    node->reload_places = memory_zeroed(options->script_count + 1, sizeof *node->reload_places);
    loop_hook_init(&node->write_hook, turn_ended);
    loop_timer_init(&node->timer, timer_fired);
    node_messages_init(node);
    node->timer_at = INSTANT_NEVER;
    node_wake_at(node, loop_now(loop)); /* the first attempt begins in the loop, not here: nobody is told from here */
    return node;
}

static void drop_connection(struct redis_node *node)
{
    loop_hook_cancel(&node->write_hook);
    loop_timer_clear(node->loop, &node->timer);
    node->timer_at = INSTANT_NEVER;
    node_messages_end(node);
    if (node->resolution != NULL)
        loop_resolve_cancel(node->resolution);
    node->resolution = NULL;
    if (node->watch != NULL)
        loop_watch_stop(node->watch);
    node->watch = NULL;
    if (node->fd >= 0)
        close(node->fd);
    node->fd = -1;
    node->blocked = node->overloaded = false;
    node->demoted_by = REDIS_ERROR_NONE;
}

void node_drop_output(struct redis_node *node)
{
    if (node->out.length > 0)
        memory_wipe(node->out.bytes, node->out.length); /* at the beginning of the handshake it holds the password */
    if (node->out.capacity > out_kept_max)
        buffer_fini(&node->out);
    buffer_clear(&node->out);
    node->answered = node->written = 0;
}

void redis_node_destroy(struct redis_node *node)
{
    if (node == NULL)
        return;
    drop_connection(node);
    node_drop_output(node);
    while (!pending_is_empty(&node->pending)) {
        struct pending entry = pending_pop(&node->pending);
        if (entry.call != NULL)
            entry.call->node = NULL;
    }
    free(node->pending.entries);
    buffer_fini(&node->out);
    redis_reader_destroy(node->reader);
    free(node->received);
    free(node->reload_places);
    sentinel_search_fini(&node->search);
    drop_options(&node->options);
    free(node);
}

/* --- what others may ask ------------------------------------------------------------------------------------ */

const char *redis_node_name(const struct redis_node *node)
{
    return node->options.name;
}

const struct redis_node_options *redis_node_options(const struct redis_node *node)
{
    return &node->options;
}

const char *redis_node_address(const struct redis_node *node)
{
    return node->address;
}

enum redis_node_state redis_node_state(const struct redis_node *node)
{
    if (node->phase == NODE_UP)
        return REDIS_NODE_UP;
    return node->phase == NODE_WAITING ? REDIS_NODE_DOWN : REDIS_NODE_CONNECTING;
}

const char *redis_node_reason(const struct redis_node *node)
{
    return node->reason;
}

bool redis_node_was_tried(const struct redis_node *node)
{
    return node->is_tried;
}

size_t redis_node_unanswered(const struct redis_node *node)
{
    return node->out.length - node->answered;
}

struct instant redis_node_waits_since(const struct redis_node *node)
{
    if (pending_is_empty(&node->pending))
        return INSTANT_NEVER;
    return pending_at(&node->pending, node->pending.head)->queued_at;
}

int64_t redis_node_patience_ns(const struct redis_node *node, int64_t least_ns, int64_t most_ns)
{
    return patience_of(&node->patience, least_ns, most_ns, loop_now(node->loop));
}

const struct redis_node_counters *redis_node_counters(const struct redis_node *node)
{
    return &node->counters;
}

/* --- calls -------------------------------------------------------------------------------------------------- */

static bool has_room(struct redis_node *node, size_t length)
{
    size_t limit = node->options.unanswered_limit;
    if (length > limit)
        return false; /* no fault of the connection */
    if (redis_node_unanswered(node) <= limit - length)
        return true;
    node->overloaded = true;
    loop_at_turn_end(node->loop, LOOP_WRITE, &node->write_hook);
    return false;
}

bool redis_node_call(struct redis_node *node, const struct buffer *request, struct instant deadline,
                     struct redis_call *call)
{
    invariant(call == NULL || call->node == NULL);
    invariant(request->length > 0);
    if (node->phase != NODE_UP || node->overloaded || node->demoted_by != REDIS_ERROR_NONE ||
        !has_room(node, request->length))
        return false;

    fault_request(&node->options, request->bytes, request->length, FAULT_BEFORE);
    buffer_append(&node->out, request->bytes, request->length);
    uint64_t sequence =
        node_expect(node, request->length, (struct pending){.call = call, .deadline = deadline, .kind = PENDING_CALL});
    if (call != NULL) {
        call->node = node;
        call->sequence = sequence;
    }
    node->counters.calls++;
    loop_at_turn_end(node->loop, LOOP_WRITE, &node->write_hook);
    return true;
}

void redis_call_cancel(struct redis_call *call)
{
    if (call->node == NULL)
        return;
    struct pending *entry = pending_at(&call->node->pending, call->sequence);
    invariant(entry->call == call);
    entry->call = NULL;
    call->node = NULL;
}

void node_complete(struct redis_call *call, const struct redis_result *result)
{
    call->node = NULL;
    call->done(call, result);
}

/* --- time --------------------------------------------------------------------------------------------------- */

void node_wake_at(struct redis_node *node, struct instant at)
{
    if (!instant_before(at, node->timer_at))
        return;
    node->timer_at = at;
    loop_timer_set(node->loop, &node->timer, at);
}

/* Completes the calls that expired. The callbacks may push new entries, so entries are reached by number only. */
static struct instant expire_calls(struct redis_node *node, struct instant now)
{
    struct pending_ring *ring = &node->pending;
    struct instant earliest = INSTANT_NEVER;
    const uint64_t end = ring->tail;
    if (node->first_live < ring->head)
        node->first_live = ring->head;
    while (node->first_live < end && pending_at(ring, node->first_live)->call == NULL)
        node->first_live++;

    for (uint64_t sequence = node->first_live; sequence < end; sequence++) {
        struct pending *entry = pending_at(ring, sequence);
        if (entry->call == NULL)
            continue;
        if (!instant_reached(now, entry->deadline)) {
            earliest = instant_earlier(earliest, entry->deadline);
            continue;
        }
        struct redis_call *call = entry->call;
        entry->call = NULL;
        entry->expired = true;
        node->counters.timeouts++;
        node_complete(call, &(struct redis_result){.outcome = REDIS_UNKNOWN, .reason = "no reply within its deadline"});
    }
    return earliest;
}

static void check_deadlines(struct redis_node *node)
{
    struct instant now = loop_now(node->loop);
    if (pending_is_empty(&node->pending))
        return;
    struct instant silent_at =
        instant_after(pending_at(&node->pending, node->pending.head)->queued_at, node->options.silence_limit_ns);
    if (instant_reached(now, silent_at)) {
        node_lose(node, "no reply for %lld ms", (long long)(node->options.silence_limit_ns / NS_PER_MS));
        return;
    }
    struct instant earliest = expire_calls(node, now);
    struct instant pause_end = instant_after(now, search_pause_ns);
    if (instant_before(earliest, pause_end))
        earliest = pause_end;
    node_wake_at(node, instant_earlier(earliest, silent_at));
}

static void timer_fired(struct loop_timer *timer)
{
    struct redis_node *node = list_owner(timer, struct redis_node, timer);
    node->timer_at = INSTANT_NEVER;
    switch (node->phase) {
    case NODE_WAITING:
        node_connect(node);
        break;
    case NODE_RESOLVING:
    case NODE_CONNECTING:
    case NODE_HANDSHAKE:
        node_lose(node, "%s took longer than %lld ms", node_phase_name(node->phase),
                  (long long)(node->step_limit_ns / NS_PER_MS));
        break;
    case NODE_UP:
        if (node_read(node))
            check_deadlines(node);
        break;
    }
}

static void turn_ended(struct loop_hook *hook)
{
    struct redis_node *node = list_owner(hook, struct redis_node, write_hook);
    if (node->overloaded)
        node_lose(node, "more than %zu bytes unanswered", node->options.unanswered_limit);
    else
        (void)node_write(node);
}

/* --- the end of a connection -------------------------------------------------------------------------------- */

/* Full jitter: a fleet that lost the same server does not come back in step. */
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

static void tell_down(struct redis_node *node)
{
    char name[LOG_QUOTE_MAX], reason[LOG_QUOTE_MAX];
    log_event(node->told_down ? LOG_DEBUG : LOG_WARN, "node_down", "node=%s reason=%s",
              log_value(node->options.name, name), log_value(node->reason, reason));
    if (node->told_down)
        return;
    node->told_down = true;
    if (node->options.changed != NULL)
        node->options.changed(node->options.context, node, REDIS_NODE_DOWN, node->reason);
}

static void complete_lost(struct redis_node *node)
{
    size_t written = node->written;
    size_t place = node->answered;
    while (!pending_is_empty(&node->pending)) {
        struct pending entry = pending_pop(&node->pending);
        bool is_sent = place < written;
        place += entry.length;
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
    drop_connection(node);
    node->phase = NODE_WAITING;
    complete_lost(node); /* requests of a handshake: nobody waits for them */
    node_drop_output(node);
    node_wake_at(node, loop_now(node->loop));
}

/* True when there is another one to ask. */
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

/* The next attempt asks the sentinels anew, and a sentinel whose answer did not lead to a master is asked last. */
static void restart_search(struct redis_node *node)
{
    if (node->search.found && node->phase != NODE_UP)
        sentinel_search_distrust(&node->search);
    sentinel_search_begin(&node->search);
}

void node_lose(struct redis_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->reason, sizeof node->reason, format, arguments);
    va_end(arguments);

    struct sentinel *sentinel = sentinel_search_current(&node->search);
    if (sentinel != NULL && sentinel_failed(node, sentinel)) {
        node_step(node);
        return;
    }
    restart_search(node);
    if (node->phase == NODE_UP)
        node->counters.disconnects++;
    drop_connection(node);
    node->phase = NODE_WAITING;
    node->is_tried = true;
    node->failures++;
    tell_down(node);
    complete_lost(node);
    node_drop_output(node);
    node_wake_at(node, loop_after(node->loop, backoff_ns(node)));
}

/* A replica that hides its role, or a master that has no replicas, comes up again and again: demotions in a row count
 * like failed attempts. */
void node_lose_demoted(struct redis_node *node)
{
    struct instant lasted = instant_after(node->up_since, node->options.backoff_max_ns);
    node->demotions = instant_reached(loop_now(node->loop), lasted) ? 0 : node->demotions;
    node->failures = node->demotions++;
    node->counters.demotions++;
    if (node->demoted_by == REDIS_ERROR_NOREPLICAS)
        node_lose(node, "%s lacks replicas (NOREPLICAS): another one may be the master by now", node->address);
    else
        node_lose(node, "%s is no master any more (%s)", node->address, redis_error_name(node->demoted_by));
}
