/* Bytes out and replies in: the hot path. Loop thread only.
 *
 * Out: everything that gathered during a turn leaves in one send at its end. A socket that takes no more is watched
 * until it does. In: one read per readiness into a fixed buffer; the reader cuts it into replies, and each reply
 * belongs to the oldest pending request.
 *
 * That match by order is what must never slip, or a reply becomes the answer to another question, possibly a vote
 * for another lock (E50). So a reply is believed only when the request at the head was sent completely, and after
 * each read nothing may be left over that no request asked for. Anything else closes the connection; messages of
 * channels are the one exception (node_message.c).
 *
 * An answer that shows a demotion closes the connection too, behind the replies that came with it: they are true
 * answers to the calls they belong to, and calls that are made meanwhile are refused at once.
 *
 * NOSCRIPT is the one answer that is not passed on (E43): the command was not executed, so the request, whose bytes
 * are still in `out`, is sent once more behind a SCRIPT LOAD. Several such calls keep their order, because their
 * replies arrive in order. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis/fault_request.h"
#include "redis/node_private.h"

/* Answered bytes are dropped from the front of `out` when there are this many and they are the larger part. */
static const size_t drop_answered_from = 8 * 1024;
/* Reads in a row while the buffer comes back full, before other connections get their turn. */
enum { READS_IN_A_ROW = 4 };

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

/* --- out ---------------------------------------------------------------------------------------------------- */

/* The connection may have been closed by a server that said why: its last replies are read before it is given up. */
static bool write_failed(struct redis_node *node, int error)
{
    if (!node_read(node))
        return false;
    node_lose(node, "write to %s: %s", node->address, strerror(error));
    return false;
}

bool node_write(struct redis_node *node)
{
    size_t length = node->out.length - node->written;
    if (length == 0 || node->blocked)
        return true;
    ssize_t sent = send(node->fd, node->out.bytes + node->written, length, MSG_NOSIGNAL);
    node->counters.writes++;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS)
        return write_failed(node, errno);
    if (sent > 0)
        node->written += (size_t)sent;
    if (node->written < node->out.length) {
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

/* The script that a request calls: the one whose digest is the first to appear in its bytes. */
static const struct redis_script *called_script(const struct redis_node *node, const char *request, size_t length,
                                                size_t *index)
{
    const struct redis_script *found = NULL;
    const char *first = NULL;
    for (size_t i = 0; i < node->options.script_count; i++) {
        const char *place = memmem(request, length, node->options.scripts[i]->sha1, 40);
        if (place != NULL && (first == NULL || place < first)) {
            first = place;
            found = node->options.scripts[i];
            *index = i;
        }
    }
    return found;
}

/* A SCRIPT LOAD that is still unanswered serves the calls behind it too. */
static void load_again(struct redis_node *node, const struct redis_script *script, size_t index)
{
    if (node->reload_places[index] > node->pending.head)
        return;
    size_t from = node->out.length;
    redis_request_begin(&node->out, 3);
    redis_request_text(&node->out, "SCRIPT");
    redis_request_text(&node->out, "LOAD");
    redis_request_bytes(&node->out, script->source, script->length);
    uint64_t sequence =
        node_expect(node, node->out.length - from, (struct pending){.deadline = INSTANT_NEVER, .kind = PENDING_RELOAD});
    node->reload_places[index] = sequence + 1;
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
    loop_at_turn_end(node->loop, LOOP_WRITE, &node->write_hook);
    return true;
}

/* --- in ----------------------------------------------------------------------------------------------------- */

static bool desynchronised(struct redis_node *node, const char *what, const char *detail)
{
    node->counters.desyncs++;
    node_lose(node, "%s sent %s%s%s", node->address, what, detail[0] != '\0' ? ": " : "", detail);
    return false;
}

static bool demoted(struct redis_node *node)
{
    node_lose_demoted(node);
    return false;
}

/* What only a replica answers; UNBLOCKED has two forms, and the other one is what an operator did. And what the old
 * master answers after a failover, while the sentinels know the new one already and have not yet told the old one. */
static bool shows_demotion(const struct redis_node *node, enum redis_error error, const char *text)
{
    static const char unblocked[] = "UNBLOCKED force";
    return error == REDIS_ERROR_READONLY || error == REDIS_ERROR_MASTERDOWN ||
           (error == REDIS_ERROR_UNBLOCKED && strncmp(text, unblocked, sizeof unblocked - 1) == 0) ||
           (error == REDIS_ERROR_NOREPLICAS && node->search.count > 0);
}

static void answer(struct redis_node *node, const struct pending *entry, size_t start, const struct redis_reply *reply)
{
    enum redis_error error =
        reply->kind == REDIS_FAILURE ? redis_error_classify(reply->bytes, reply->length) : REDIS_ERROR_NONE;
    if (shows_demotion(node, error, reply->bytes))
        node->demoted_by = error;
    if (entry->call == NULL) {
        if (entry->expired)
            node->counters.late_replies++;
        return;
    }
    struct redis_result result = {.outcome = REDIS_VALUE, .reply = reply, .reason = ""};
    fault_request(&node->options, node->out.bytes + start, entry->length, FAULT_AFTER);
    if (reply->kind == REDIS_FAILURE) {
        result.outcome = REDIS_ERROR;
        result.error = error;
        result.reason = reply->bytes;
        if (result.error == REDIS_ERROR_NOSCRIPT && resend(node, *entry, start))
            return;
    }
    node_complete(entry->call, &result);
}

/* Only then can a reply be meant for it. */
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
        patience_note(&node->patience, instant_since(entry.queued_at, loop_now(node->loop)), loop_now(node->loop));
        node_follow_subscriptions(node, reply);
        answer(node, &entry, start, reply);
        return true;
    case PENDING_RELOAD:
        return true; /* if it failed, the call behind it is answered NOSCRIPT again, and its caller hears that */
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
                return demoted(node);
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
    if (got < 0)
        node_lose(node, "read from %s: %s", node->address, strerror(errno));
    else
        node_lose(node, "%s closed the connection", node->address);
    return false;
}

bool node_read(struct redis_node *node)
{
    for (int i = 0; i < READS_IN_A_ROW; i++) {
        ssize_t got = recv(node->fd, node->received, NODE_READ_SIZE, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            break;
        node->counters.reads++;
        if (got <= 0)
            return read_ended(node, got);
        if (!take_bytes(node, (size_t)got))
            return false;
        if (got < NODE_READ_SIZE)
            break;
    }
    drop_answered(node);
    return true;
}
