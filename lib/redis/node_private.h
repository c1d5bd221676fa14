/* What the files of a node share. Private to lib/redis.
 *
 *   node.c          creation, calls, cancellation, deadlines, and the one way in which a connection ends
 *   node_connect.c  from a name to a connection that is up: resolve, connect, handshake
 *   node_traffic.c  bytes out, replies in, scripts that a server forgot
 *   node_message.c  messages of channels, and the pulse of a connection that only listens
 *   sentinel.c      which sentinel is asked next, and what it answered: no I/O
 *
 *        +-----------------------------------------------------------------------------+
 *        v                                                                             |
 *   NODE_WAITING --timer--> NODE_RESOLVING --> NODE_CONNECTING --> NODE_HANDSHAKE --> NODE_UP
 *        ^                        |                   |                  |
 *        +------- node_lose ------+-------------------+------------------+
 *
 * With sentinels one attempt goes several times around: each sentinel that is asked is a server like another, with a
 * short handshake of its own, and then node_step leads to the next one, or to the master, without a pause. Only when
 * none knew, or the master they told did not do, node_lose plans the next attempt.
 *
 * Invariants:
 *   - node_lose runs only from the loop's own callbacks (timer, readiness, turn end, resolver), never inside
 *     redis_node_call or redis_call_cancel; so a callback of a call may do anything to other calls while a batch of
 *     replies, or of expired or lost calls, is worked through.
 *   - The bytes of a request stay in `out` until its reply came: out.bytes[answered..written) was sent,
 *     [written..length) was not, and the lengths of the pending entries add up to length - answered.
 *   - Functions that return bool return false when the connection is gone (node_lose ran). */
#ifndef REDIS_NODE_PRIVATE_H
#define REDIS_NODE_PRIVATE_H

#include "redis/node.h"
#include "redis/patience.h"
#include "redis/pending.h"
#include "redis/reader.h"
#include "redis/sentinel.h"

enum { NODE_READ_SIZE = 64 * 1024, NODE_ADDRESS_MAX = REDIS_HOST_MAX + 32 };

enum node_phase { NODE_WAITING, NODE_RESOLVING, NODE_CONNECTING, NODE_HANDSHAKE, NODE_UP };

struct redis_node {
    struct loop *loop;
    struct redis_node_options options; /* its strings are our copies */
    struct sentinel_search search;
    char address[NODE_ADDRESS_MAX]; /* of the server at hand, for people: "host:port", "sentinel host:port", a path */

    enum node_phase phase;
    int fd; /* -1: none */
    struct loop_watch *watch;
    bool blocked; /* the socket takes no more: waiting for LOOP_WRITABLE */
    struct loop_resolution *resolution;
    struct loop_timer timer; /* next attempt, or connect deadline, or earliest deadline of the calls */
    struct instant timer_at; /* INSTANT_NEVER: not set */
    struct loop_hook write_hook;

    struct buffer out;
    size_t answered, written;
    struct pending_ring pending;
    uint64_t first_live; /* no call before it waits any more */
    struct patience patience;
    struct redis_reader *reader;
    char *received;          /* NODE_READ_SIZE bytes */
    uint64_t *reload_places; /* per script: sequence number behind its last SCRIPT LOAD */

    bool is_subscribed; /* to a channel at least */
    struct loop_timer pulse_timer;

    bool overloaded;             /* close at the end of the turn */
    enum redis_error demoted_by; /* not NONE: close when the replies that are here have been read */
    bool is_tried, told_down;
    unsigned failures;  /* since it was last up */
    unsigned demotions; /* one soon after the other */
    struct instant up_since;
    int64_t step_limit_ns; /* of the step that is under way, up to the end of its handshake */
    char reason[256];

    struct redis_node_counters counters;
};

/* --- node.c --- */
/* Ends the connection, or the attempt to make one, for a reason that is kept and told; plans the next attempt. */
void node_lose(struct redis_node *node, const char *format, ...) PRINTF_LIKE(2, 3);
/* Leaves this server, which is no failure: the next step of the attempt begins in the next turn. */
void node_step(struct redis_node *node);
/* Ends a connection whose server gave an answer that says, or lets us fear, that it is not the master any more. */
void node_lose_demoted(struct redis_node *node);
/* Forgets and overwrites all that was to be sent or was. */
void node_drop_output(struct redis_node *node);
/* Moves the timer to `at` if it is set for later. */
void node_wake_at(struct redis_node *node, struct instant at);
/* Hands the result to the call; the entry that held the call must be out of the ring by then, or have forgotten it. */
void node_complete(struct redis_call *call, const struct redis_result *result);

/* --- node_connect.c --- */
void node_connect(struct redis_node *node);
/* Handles the reply to a request of the handshake. */
bool node_handshake_reply(struct redis_node *node, const struct pending *entry, const struct redis_reply *reply);
const char *node_phase_name(enum node_phase phase);

/* --- node_traffic.c --- */
/* Records that the last `length` bytes of `out` are a request that is described by `entry`. */
uint64_t node_expect(struct redis_node *node, size_t length, struct pending entry);
bool node_write(struct redis_node *node);
bool node_read(struct redis_node *node);

/* --- node_message.c --- */
void node_messages_init(struct redis_node *node);
void node_messages_end(struct redis_node *node); /* with the connection */
/* True when it was a message, which has been delivered; it is no reply then. */
bool node_takes_message(struct redis_node *node, const struct redis_reply *reply);
/* Looks at the reply to every call for what it says about subscriptions. */
void node_follow_subscriptions(struct redis_node *node, const struct redis_reply *reply);
bool node_is_pulse_reply(const struct redis_reply *reply);

#endif
