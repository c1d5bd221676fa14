/* A node's calls and their deadlines. Threads: the loop's only.
 *
 * One timer serves all deadlines of a node. It moves only for an earlier deadline, never when a call is answered. So
 * in the steady state it fires rarely, finds nothing expired, and is set to the earliest deadline of the outstanding
 * calls. A call that expires leaves a tombstone in the ring, an entry without a call. The tombstone keeps the place
 * of the reply, which still has to arrive, or the connection ends at the silence limit. The search starts at
 * `first_live`, behind the tombstones of a server that hangs. */
#include "redis/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redis/fault_request.h"
#include "redis/node_private.h"

/* Delays the next search, so that one search finds all calls that expire soon after each other. */
static const int64_t search_pause_ns = NS_PER_MS;

/* --- messages of channels ----------------------------------------------------------------------------------------- */

/* Subscriptions: messages that a server sends without a request. Loop thread only.
 *
 * A message has no request, so it must be distinguished from replies without fail. Each reply to SUBSCRIBE and
 * UNSUBSCRIBE says how many channels are left, and the server sends messages only while that is not zero. In that state
 * (of RESP2) it accepts no command whose reply could be ["message", ...]. So while subscribed, an array of this form is
 * a message, and anything else is a reply. Otherwise there are no messages, and what looks like one is matched like
 * every reply.
 *
 * A subscriber may send nothing for hours, so a server that hangs, or half a message, would go unnoticed. The pulse,
 * a PING while nothing else is unanswered, gives the silence limit something to measure. */

static bool is_word(const struct redis_reply *reply, const char *word)
{
    return redis_reply_is_text(&reply->elements[0], word);
}

/* Delivers a message. False if `reply` is a reply. */
static bool node_takes_message(struct redis_node *node, const struct redis_reply *reply)
{
    if (!node->is_subscribed || reply->kind != REDIS_ARRAY || reply->count != 3 || !is_word(reply, "message"))
        return false;
    const struct redis_reply *channel = &reply->elements[1], *payload = &reply->elements[2];
    if (channel->kind != REDIS_STRING || payload->kind != REDIS_STRING)
        return false;
    node->options.message(node->options.context, node, channel->bytes, channel->length, payload->bytes,
                          payload->length);
    return true;
}

static void plan_pulse(struct redis_node *node)
{
    loop_timer_set(node->loop, &node->pulse_timer, loop_after(node->loop, node->options.pulse_interval_ns));
}

/* Learns from replies whether the connection is subscribed. */
static void node_follow_subscriptions(struct redis_node *node, const struct redis_reply *reply)
{
    bool is_change = node->options.message != NULL && reply->kind == REDIS_ARRAY && reply->count == 3 &&
                     (is_word(reply, "subscribe") || is_word(reply, "unsubscribe")) &&
                     reply->elements[2].kind == REDIS_INTEGER;
    if (!is_change)
        return;
    node->is_subscribed = reply->elements[2].integer > 0;
    if (!node->is_subscribed)
        loop_timer_clear(node->loop, &node->pulse_timer);
    else if (!loop_timer_is_set(&node->pulse_timer))
        plan_pulse(node);
}

static void pulse_fired(struct loop_timer *timer)
{
    struct redis_node *node = list_owner(timer, struct redis_node, pulse_timer);
    plan_pulse(node);
    if (!pending_is_empty(&node->pending))
        return; /* one is unanswered already */
    size_t from = node->out.length;
    redis_request_command(&node->out, "PING");
    (void)node_expect(node, node->out.length - from,
                      (struct pending){.deadline = INSTANT_NEVER, .kind = PENDING_PULSE});
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
}

/* A refusal by an access list also shows that the server lives. */
static bool node_is_pulse_reply(const struct redis_reply *reply)
{
    return reply->kind == REDIS_FAILURE || redis_reply_is_status(reply, "PONG") ||
           (reply->kind == REDIS_ARRAY && reply->count == 2 && is_word(reply, "pong"));
}

/* --- creation ----------------------------------------------------------------------------------------------- */

static bool node_read(struct redis_node *node);
static bool node_write(struct redis_node *node);
static void timer_fired(struct loop_timer *timer);
static void cycle_ended(struct loop_hook *hook);
static void socket_ready(void *context, int events);

struct redis_node *redis_node_create(struct loop *loop, const struct redis_node_options *options)
{
    invariant(options->name != NULL);
    invariant((options->host != NULL) + (options->unix_path != NULL) + (options->sentinels.count > 0) == 1);
    invariant(options->sentinels.count == 0 || options->sentinels.master != NULL);
    invariant(options->script_count <= UINT16_MAX);

    struct redis_node *node = memory_new(struct redis_node);
    node->loop = loop;
    node_options_take(&node->options, options);
    if (node->options.tls.is_on) {
        node->tls_context = tls_context_create(&node->options.tls, options->name);
        node->options.tls = *tls_context_options(node->tls_context);
    }
    sentinel_search_init(&node->search, &options->sentinels);
    node->search.master = node->options.sentinels.master;
    node->fd = -1;
    node->reader = redis_reader_create(node->options.reply_limit, node->options.element_limit);
    node->received = memory_resize(NULL, NODE_READ_SIZE, 1);
    node->reloaded_at = memory_zeroed(options->script_count + 1, sizeof *node->reloaded_at);
    loop_hook_init(&node->write_hook, cycle_ended);
    loop_timer_init(&node->timer, timer_fired);
    node->socket_ready = socket_ready;
    node->write = node_write;
    loop_timer_init(&node->pulse_timer, pulse_fired);
    node->timer_at = INSTANT_NEVER;
    node_wake_at(node, loop_now(loop)); /* not at once: `changed` must not run inside this function */
    return node;
}

void redis_node_destroy(struct redis_node *node)
{
    if (node == NULL)
        return;
    node_drop_connection(node);
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
    free(node->reloaded_at);
    sentinel_search_fini(&node->search);
    tls_context_destroy(node->tls_context);
    node_options_drop(&node->options);
    free(node);
}

/* --- what others may ask ------------------------------------------------------------------------------------ */

const char *redis_node_name(const struct redis_node *node)
{
    return node->options.name;
}

const struct redis_node_options *redis_node_options_of(const struct redis_node *node)
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

int64_t redis_node_timeout_ns(const struct redis_node *node, int64_t least_ns, int64_t most_ns)
{
    return answer_timeout_ns(&node->answer_times, least_ns, most_ns, loop_now(node->loop));
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
        return false; /* the connection is fine */
    if (redis_node_unanswered(node) <= limit - length)
        return true;
    node->overloaded = true;
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
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

    fault_request(node->options.scripts, node->options.script_count, request->bytes, request->length, FAULT_BEFORE);
    buffer_append(&node->out, request->bytes, request->length);
    uint64_t sequence =
        node_expect(node, request->length, (struct pending){.call = call, .deadline = deadline, .kind = PENDING_CALL});
    if (call != NULL) {
        call->node = node;
        call->sequence = sequence;
    }
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
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

/* --- time --------------------------------------------------------------------------------------------------- */

/* Completes the calls that expired. The callbacks may push new entries and so move the ring: refer to entries by
 * number. */
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

static void step_overdue(struct redis_node *node)
{
    bool has_time = !instant_reached(loop_now(node->loop), node->step_ends);
    if (has_time && node->phase == NODE_CONNECTING)
        node_connect_next(node, ETIMEDOUT);
    else if (has_time)
        node_wake_at(node, node->step_ends); /* that was the share of an address */
    else
        node_lose(node, "%s took longer than %lld ms%s", node_phase_name(node->phase),
                  (long long)(node->step_limit_ns / NS_PER_MS),
                  node->phase == NODE_TLS ? "; does the server speak TLS?" : "");
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
    case NODE_TLS:
    case NODE_HANDSHAKE:
        step_overdue(node);
        break;
    case NODE_UP:
        if (node_read(node))
            check_deadlines(node);
        break;
    }
}

static void cycle_ended(struct loop_hook *hook)
{
    struct redis_node *node = list_owner(hook, struct redis_node, write_hook);
    if (node->overloaded)
        node_lose(node, "more than %zu bytes unanswered", node->options.unanswered_limit);
    else
        (void)node_write(node);
}

static const char no_evalsha[] = "unknown command 'EVALSHA'";

static bool lose_demoted(struct redis_node *node)
{
    if (node->demoted_by == REDIS_ERROR_CLUSTER || node->demoted_by == REDIS_ERROR_NOSCRIPT) {
        node_lose_unfit(node, node->demoted_by, no_evalsha);
        return false;
    }
    if (node->demoted_by == REDIS_ERROR_NOREPLICAS)
        node_lose(node, "%s lacks replicas (NOREPLICAS): another one may be the master by now", node->address);
    else
        node_lose(node, "%s is no master any more (%s)", node->address, redis_error_name(node->demoted_by));
    return false;
}

/* --- traffic: the hot path ---------------------------------------------------------------------------------------- */

/* Bytes out and replies in: the hot path. Loop thread only.
 *
 * Out: one send at the end of a cycle writes all its output. A full socket is watched until it has room. In: each
 * readiness causes one read into a fixed buffer. The reader cuts it into replies, and each reply belongs to the oldest
 * pending request.
 *
 * This order must never slip: a reply would answer another request, possibly as a vote for another lock (E50). So a
 * reply counts only if the request at the head was sent completely, and after each read no byte may be left that no
 * request asked for. Anything else closes the connection. Messages of channels are the one exception.
 *
 * An answer that shows a demotion closes the connection too, but after the replies that were read with it: they are
 * valid. Calls made meanwhile are refused at once.
 *
 * Only NOSCRIPT is not passed on (E43): the command was not executed, so the request, whose bytes are still in
 * `out`, is sent again after a SCRIPT LOAD. Several such calls keep their order, because their replies arrive in
 * order. */

/* Answered bytes are dropped from the front of `out` when they are at least this many, and more than half of it. */
static const size_t drop_answered_from = 8 * 1024;
/* Limits consecutive reads that fill the buffer, so that other connections get their turn. */
enum { READS_IN_A_ROW = 4 };

/* --- out ---------------------------------------------------------------------------------------------------- */

/* The server may have said why it closed the connection: its last replies are read first. */
static bool write_failed(struct redis_node *node, int error)
{
    if (!node_read(node))
        return false;
    node_lose(node, "write to %s: %s", node->address, strerror(error));
    return false;
}

/* All that has gathered goes through TLS at once. */
static bool seal(struct redis_node *node)
{
    struct error error = ERROR_NONE;
    size_t length = node->out.length - node->written;
    if (length == 0)
        return true;
    if (!tls_write(node->tls, node->out.bytes + node->written, length, &error)) {
        node_lose(node, "write to %s: %s", node->address, error.text);
        return false;
    }
    node->written += length;
    return true;
}

static bool node_write(struct redis_node *node)
{
    struct buffer *sealed = node->tls != NULL ? tls_output(node->tls) : NULL;
    if (node->blocked)
        return true;
    if (sealed != NULL && !seal(node))
        return false;
    const char *bytes = sealed != NULL ? sealed->bytes : node->out.bytes + node->written;
    size_t length = sealed != NULL ? sealed->length : node->out.length - node->written;
    if (length == 0)
        return true;
    ssize_t sent = send(node->fd, bytes, length, MSG_NOSIGNAL);
    node->counters.writes++;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS)
        return write_failed(node, errno);
    if (sent > 0 && sealed != NULL)
        buffer_drop_front(sealed, (size_t)sent);
    else if (sent > 0)
        node->written += (size_t)sent;
    if (sent < 0 || (size_t)sent < length) {
        node->blocked = true;
        loop_watch_change(node->watch, LOOP_READABLE | LOOP_WRITABLE);
    }
    return true;
}

static void drop_answered(struct redis_node *node)
{
    if (node->answered == node->out.length) {
        buffer_clear(&node->out);
        node->answered = node->written = 0;
    } else if (node->answered >= drop_answered_from && node->answered > node->out.length / 2) {
        buffer_drop_front(&node->out, node->answered);
        node->written -= node->answered;
        node->answered = 0;
    }
}

/* --- scripts that the server forgot ------------------------------------------------------------------------- */

/* The script that a request calls: the one whose digest appears first in its bytes. */
static const struct redis_script *called_script(const struct redis_node *node, const char *request, size_t length,
                                                size_t *index)
{
    const struct redis_script *found = NULL;
    const char *first = NULL;
    for (size_t i = 0; i < node->options.script_count; i++) {
        const char *at = memmem(request, length, node->options.scripts[i]->sha1, 40);
        if (at != NULL && (first == NULL || at < first)) {
            first = at;
            found = node->options.scripts[i];
            *index = i;
        }
    }
    return found;
}

/* One unanswered SCRIPT LOAD serves all calls after it. */
static void load_again(struct redis_node *node, const struct redis_script *script, size_t index)
{
    if (node->reloaded_at[index] > node->pending.head)
        return;
    size_t from = node->out.length;
    redis_request_begin(&node->out, 3);
    redis_request_texts(&node->out, "SCRIPT", "LOAD");
    redis_request_bytes(&node->out, script->source, script->length);
    uint64_t sequence =
        node_expect(node, node->out.length - from, (struct pending){.deadline = INSTANT_NEVER, .kind = PENDING_RELOAD});
    node->reloaded_at[index] = sequence + 1;
    node->counters.script_reloads++;
}

/* `entry` was taken from the ring; its request still lies at `start`. */
static bool resend(struct redis_node *node, struct pending entry, size_t start)
{
    size_t index = 0;
    const struct redis_script *script = called_script(node, node->out.bytes + start, entry.length, &index);
    if (script == NULL || entry.resent || instant_reached(loop_now(node->loop), entry.deadline))
        return false;
    load_again(node, script, index);

    buffer_reserve(&node->out, entry.length);
    buffer_append(&node->out, node->out.bytes + start, entry.length);
    entry.resent = true;
    entry.call->sequence = node_expect(node, entry.length, entry);
    loop_at_cycle_end(node->loop, LOOP_WRITE, &node->write_hook);
    return true;
}

/* --- in ----------------------------------------------------------------------------------------------------- */

static bool desynchronised(struct redis_node *node, const char *what, const char *detail)
{
    node->counters.desyncs++;
    node_lose(node, "%s sent %s%s%s", node->address, what, detail[0] != '\0' ? ": " : "", detail);
    return false;
}

/* Errors that only a replica answers (UNBLOCKED has two forms; the other one comes from an operator's CLIENT
 * UNBLOCK), and the error of an old master after a failover, before the sentinels have reconfigured it. */
static bool shows_demotion(const struct redis_node *node, enum redis_error error, const char *text)
{
    static const char unblocked[] = "UNBLOCKED force";
    return error == REDIS_ERROR_READONLY || error == REDIS_ERROR_MASTERDOWN ||
           (error == REDIS_ERROR_UNBLOCKED && strncmp(text, unblocked, sizeof unblocked - 1) == 0) ||
           (error == REDIS_ERROR_NOREPLICAS && node->search.count > 0);
}

/* Of a server that keeps scripts and cannot run them. */
static bool lacks_scripts(const struct redis_reply *reply)
{
    static const char unknown[] = "ERR unknown command";
    return reply->length >= sizeof unknown - 1 && memcmp(reply->bytes, unknown, sizeof unknown - 1) == 0 &&
           strcasestr(reply->bytes + sizeof unknown - 1, "EVALSHA") != NULL;
}

struct failure {
    enum redis_error error,
        unfit; /* `unfit`: what only a server answers that cannot be a node; else REDIS_ERROR_NONE */
};

static struct failure failure_of(const struct redis_reply *reply)
{
    struct failure failure = {.error = redis_error_classify(reply->bytes, reply->length), .unfit = REDIS_ERROR_NONE};
    if (failure.error == REDIS_ERROR_SYNTAX && lacks_scripts(reply))
        failure.unfit = REDIS_ERROR_NOSCRIPT;
    else if (failure.error == REDIS_ERROR_CLUSTER)
        failure.unfit = failure.error;
    return failure;
}

static void note_demotion(struct redis_node *node, struct failure failure, const char *text)
{
    if (shows_demotion(node, failure.error, text))
        node->demoted_by = failure.error;
    else if (failure.unfit != REDIS_ERROR_NONE && node->options.unfit_pause_ns > 0)
        node->demoted_by = failure.unfit;
}

/* The words of a server that cannot be a node would explain nothing. */
static void answer_failure(struct redis_node *node, const struct pending *entry, size_t start,
                           const struct redis_reply *reply, struct failure failure)
{
    char reason[NODE_UNFIT_MAX];
    struct redis_reply told = *reply;
    struct redis_result result = {.outcome = REDIS_ERROR, .reply = &told, .error = failure.error};
    if (failure.unfit != REDIS_ERROR_NONE) {
        told.bytes = node_unfit_reason(node, failure.unfit, no_evalsha, reason);
        told.length = strlen(told.bytes);
    }
    result.reason = told.bytes;
    if (result.error != REDIS_ERROR_NOSCRIPT || !resend(node, *entry, start))
        node_complete(entry->call, &result);
}

static void answer(struct redis_node *node, const struct pending *entry, size_t start, const struct redis_reply *reply)
{
    bool is_failure = reply->kind == REDIS_FAILURE;
    struct failure failure = {REDIS_ERROR_NONE, REDIS_ERROR_NONE};
    if (is_failure) {
        failure = failure_of(reply);
        note_demotion(node, failure, reply->bytes);
    }
    if (entry->call == NULL) {
        if (entry->expired)
            node->counters.late_replies++;
        return;
    }
    fault_request(node->options.scripts, node->options.script_count, node->out.bytes + start, entry->length,
                  FAULT_AFTER);
    if (is_failure)
        answer_failure(node, entry, start, reply, failure);
    else
        node_complete(entry->call, &(struct redis_result){.outcome = REDIS_VALUE, .reply = reply, .reason = ""});
}

/* A reply belongs to the request at the head only if that was sent completely. */
static bool is_head_sent(const struct redis_node *node)
{
    const struct pending_ring *ring = &node->pending;
    return !pending_is_empty(ring) && node->answered + pending_at(ring, ring->head)->length <= node->written;
}

static bool take_reply(struct redis_node *node, const struct redis_reply *reply)
{
    if (node_takes_message(node, reply))
        return true;
    if (!is_head_sent(node))
        return desynchronised(node, "a reply that nothing asked for", reply->kind == REDIS_FAILURE ? reply->bytes : "");
    struct pending entry = pending_pop(&node->pending);
    size_t start = node->answered;
    node->answered += entry.length;
    node->counters.replies++;
    switch (entry.kind) {
    case PENDING_CALL:
        answer_times_note(&node->answer_times, instant_since(entry.queued_at, loop_now(node->loop)),
                          loop_now(node->loop));
        node_follow_subscriptions(node, reply);
        answer(node, &entry, start, reply);
        return true;
    case PENDING_RELOAD:
        return true; /* if it failed, the next call fails with NOSCRIPT again, and its caller gets that */
    case PENDING_PULSE:
        return node_is_pulse_reply(reply) || desynchronised(node, "another reply than one to PING", "");
    default:
        return node_handshake_reply(node, &entry, reply);
    }
}

static bool take_bytes(struct redis_node *node, size_t length)
{
    const struct redis_reply *reply = NULL;
    redis_reader_give(node->reader, node->received, length);
    for (;;) {
        switch (redis_reader_next(node->reader, &reply)) {
        case REDIS_READER_REPLY:
            if (!take_reply(node, reply))
                return false;
            break;
        case REDIS_READER_NOTHING:
            if (node->demoted_by != REDIS_ERROR_NONE)
                return lose_demoted(node);
            if (!is_head_sent(node) && !node->is_subscribed && !redis_reader_is_idle(node->reader))
                return desynchronised(node, "bytes that nothing asked for", "");
            return true;
        case REDIS_READER_BROKEN:
            return desynchronised(node, "an unacceptable reply", redis_reader_reason(node->reader));
        }
    }
}

static bool read_ended(struct redis_node *node, ssize_t got)
{
    const char *advice = "";
    if (node->phase == NODE_HANDSHAKE && node->tls == NULL)
        advice = "; does it want TLS?";
    else if (node->failures > 0 && node->phase == NODE_UP && !node_has_lasted(node) &&
             !pending_is_empty(&node->pending))
        advice =
            " again before it answered; is the answer larger than its client-output-buffer-limit for normal clients?";
    if (got < 0)
        node_lose(node, "read from %s: %s%s", node->address, strerror(errno), advice);
    else
        node_lose(node, "%s closed the connection%s", node->address, advice);
    return false;
}

/* What came through TLS: the buffer that it came in is used again for what it says. */
static bool take_sealed(struct redis_node *node, size_t length)
{
    struct error error = ERROR_NONE;
    ssize_t got = 0;
    tls_give(node->tls, node->received, length);
    if (node->phase == NODE_TLS && !node_handshake_tls(node))
        return false;
    while (node->phase != NODE_TLS && (got = tls_read(node->tls, node->received, NODE_READ_SIZE, &error)) > 0)
        if (!take_bytes(node, (size_t)got))
            return false;
    if (got < 0 && error_is_set(&error))
        node_lose(node, "read from %s: %s", node->address, error.text);
    else if (got < 0)
        (void)read_ended(node, 0);
    return got >= 0 && (tls_output(node->tls)->length == 0 || node_write(node));
}

static bool node_read(struct redis_node *node)
{
    for (int i = 0; i < READS_IN_A_ROW; i++) {
        ssize_t got = recv(node->fd, node->received, NODE_READ_SIZE, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            break;
        if (got <= 0)
            return read_ended(node, got);
        if (!(node->tls != NULL ? take_sealed(node, (size_t)got) : take_bytes(node, (size_t)got)))
            return false;
        if (got < NODE_READ_SIZE)
            break;
    }
    drop_answered(node);
    return true;
}

static void socket_ready(void *context, int events)
{
    struct redis_node *node = context;
    if (node->phase == NODE_CONNECTING) {
        node_handshake(node);
        return;
    }
    if ((events & LOOP_WRITABLE) != 0 && node->blocked) {
        node->blocked = false;
        loop_watch_change(node->watch, LOOP_READABLE);
        if (!node_write(node))
            return;
    }
    if ((events & LOOP_READABLE) != 0)
        (void)node_read(node);
}
