/* What the files of a node share. Private to lib/redis.
 *
 *   node.c          creation, calls, cancellation, deadlines; bytes out, replies and messages in, scripts that a server
 *                   forgot
 *   node_options.c  what may not be, and what an address says of the others
 *   node_connect.c  from a name to a connection that is up: resolve, connect, handshake
 *   node_lose.c     how every connection ends
 *   sentinel.c      which sentinel is asked next, and what it answered: no I/O
 *
 *        +-----------------------------------------------------------------------------+
 *        v                                                                             |
 *   NODE_WAITING --timer--> NODE_RESOLVING --> NODE_CONNECTING --> NODE_HANDSHAKE --> NODE_UP
 *        ^                        |                   |                  |
 *        +------- node_lose ------+-------------------+------------------+
 *
 * With sentinels, one attempt goes around several times: each sentinel has a short handshake of its own, and then
 * node_step leads to the next one, or to the master, without a pause. Only if no sentinel knows the master, or the
 * reported master does not work, node_lose schedules the next attempt.
 *
 * Invariants:
 *   - node_lose runs only from the loop's own callbacks (timer, readiness, cycle end, resolver), never inside
 *     redis_node_call or redis_call_cancel; so the callback of a call may do anything to other calls while a batch of
 *     replies, or of expired or lost calls, is processed.
 *   - The bytes of a request stay in `out` until its reply arrives: out.bytes[answered..written) was sent, or handed to
 *     TLS, [written..length) was not, and the lengths of the pending entries add up to length - answered.
 *   - Functions that return bool return false when the connection is gone (node_lose ran). */
#ifndef REDIS_NODE_PRIVATE_H
#define REDIS_NODE_PRIVATE_H

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "redis/answer_times.h"
#include "redis/node.h"
#include "redis/reader.h"
#include "redis/sentinel.h"

/* The unanswered requests of a connection, in order: a ring that grows by doubling and never shrinks. A request is
 * identified by its sequence number, which is unique in the life of the node. A push invalidates pointers into the
 * ring. */
enum pending_kind {
    PENDING_CALL,
    PENDING_RELOAD, /* SCRIPT LOAD after a NOSCRIPT */
    PENDING_PULSE,
    /* The handshake. */
    PENDING_AUTH,
    PENDING_SELECT,
    PENDING_CLIENT_NAME,
    PENDING_ROLE,
    PENDING_SCRIPT,
    PENDING_PING,
    PENDING_MASTER, /* the question to a sentinel */
};

struct pending {
    struct redis_call *call; /* NULL: no caller waits, the reply is discarded */
    struct instant deadline;
    struct instant queued_at;
    uint32_t length; /* bytes of the request */
    uint16_t script; /* of PENDING_SCRIPT */
    uint8_t kind;    /* enum pending_kind */
    bool expired : 1;
    bool resent : 1; /* after NOSCRIPT: once at most */
};

struct pending_ring {
    struct pending *entries;
    size_t capacity;     /* a power of two, or 0 */
    uint64_t head, tail; /* sequence numbers: head <= entry < tail */
};

static inline bool pending_is_empty(const struct pending_ring *ring)
{
    return ring->head == ring->tail;
}

static inline struct pending *pending_at(const struct pending_ring *ring, uint64_t sequence)
{
    invariant(sequence >= ring->head && sequence < ring->tail);
    return &ring->entries[sequence & (ring->capacity - 1)];
}

static inline struct pending pending_pop(struct pending_ring *ring)
{
    struct pending first = *pending_at(ring, ring->head);
    ring->head++;
    return first;
}

static inline void pending_grow(struct pending_ring *ring)
{
    size_t capacity = ring->capacity > 0 ? ring->capacity * 2 : 64;
    struct pending *entries = memory_resize(NULL, capacity, sizeof *entries);
    for (uint64_t sequence = ring->head; sequence < ring->tail; sequence++)
        entries[sequence & (capacity - 1)] = *pending_at(ring, sequence);
    free(ring->entries);
    ring->entries = entries;
    ring->capacity = capacity;
}

/* Returns the sequence number of the new entry. */
static inline uint64_t pending_push(struct pending_ring *ring, struct pending entry)
{
    if (ring->tail - ring->head == ring->capacity)
        pending_grow(ring);
    ring->entries[ring->tail & (ring->capacity - 1)] = entry;
    return ring->tail++;
}

enum { NODE_READ_SIZE = 64 * 1024, NODE_ADDRESS_MAX = REDIS_HOST_MAX + 32, NODE_UNFIT_MAX = NODE_ADDRESS_MAX + 224 };

enum node_phase { NODE_WAITING, NODE_RESOLVING, NODE_CONNECTING, NODE_TLS, NODE_HANDSHAKE, NODE_UP };

struct redis_node {
    struct loop *loop;
    struct redis_node_options options;              /* its strings are our copies */
    bool password_failed, sentinel_password_failed; /* to be read again from its file */
    struct sentinel_search search;
    char address[NODE_ADDRESS_MAX]; /* of the current server, for people: "host:port", "sentinel host:port", a path */

    enum node_phase phase;
    int fd; /* -1: none */
    struct loop_watch *watch;
    void (*socket_ready)(void *context, int events);
    /* Sends what has gathered, as far as the socket takes it; false when the connection is gone. */
    bool (*write)(struct redis_node *node);
    bool blocked;                    /* the socket is full: waiting for LOOP_WRITABLE */
    struct tls_context *tls_context; /* NULL: without TLS */
    struct tls *tls;                 /* of the connection */
    struct loop_resolution *resolution;
    struct loop_addresses addresses; /* of the server */
    unsigned address_next;           /* to be tried */
    int address_error;               /* of those that were; 0 = none */
    struct loop_timer timer;         /* next attempt, or connect deadline, or earliest deadline of the calls */
    struct instant timer_at;         /* INSTANT_NEVER: not set */
    struct loop_hook write_hook;

    struct buffer out;
    size_t answered, written;
    struct pending_ring pending;
    uint64_t first_live; /* all entries before it are tombstones */
    struct answer_times answer_times;
    struct redis_reader *reader;
    char *received;        /* NODE_READ_SIZE bytes */
    uint64_t *reloaded_at; /* per script: sequence number behind its last SCRIPT LOAD */

    bool is_subscribed; /* to at least one channel */
    struct loop_timer pulse_timer;

    bool overloaded;             /* close at the end of the cycle */
    enum redis_error demoted_by; /* not NONE: close after the replies that have arrived */
    bool is_unfit;               /* the next attempt is far off */
    bool is_tried;
    unsigned told_reasons; /* why it is down, since it was last up */
    unsigned failures;     /* in a row: a connection that lasted for less than the longest pause is one */
    struct instant up_since;
    int64_t step_limit_ns; /* of the current step, until the end of its handshake */
    struct instant step_ends;
    char reason[256];

    struct redis_node_counters counters;
};

/* --- node_options.c --- */
void node_options_take(struct redis_node_options *own, const struct redis_node_options *given);
void node_options_drop(struct redis_node_options *own);

/* --- node_lose.c --- */
/* Ends the connection or the attempt, keeps and reports the reason, and schedules the next attempt. */
void node_lose(struct redis_node *node, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same of a server that cannot be a node however often it is asked, as `error` with this text says: it is tried
 * again rarely. */
void node_lose_unfit(struct redis_node *node, enum redis_error error, const char *text);
/* Writes what is said of such a server, and returns `out`. */
const char *node_unfit_reason(const struct redis_node *node, enum redis_error error, const char *text,
                              char out[NODE_UNFIT_MAX]);
/* The connection is up for at least the longest pause between attempts. A server that ends each connection soon,
 * because its answers are too large, or as a replica that hides its role or a master that lacks replicas, would be
 * connected to in a tight loop. */
bool node_has_lasted(const struct redis_node *node);
/* Disconnects without a failure: the next step of the attempt begins in the next cycle. */
void node_step(struct redis_node *node);
/* Drops and overwrites all output, sent or not. */
void node_drop_output(struct redis_node *node);
void node_drop_connection(struct redis_node *node);
/* Moves the timer to `at` if it is set for later. */
void node_wake_at(struct redis_node *node, struct instant at);
/* Records that the last `length` bytes of `out` are the request that `entry` describes. */
uint64_t node_expect(struct redis_node *node, size_t length, struct pending entry);
/* Hands the result to the call. No entry of the ring may hold the call. */
void node_complete(struct redis_call *call, const struct redis_result *result);

/* --- node_connect.c --- */
void node_connect(struct redis_node *node);
/* Tries the next address, after `error` with that before; the connection is lost if there is none. */
void node_connect_next(struct redis_node *node, int error);
/* The connecting socket is ready. */
void node_handshake(struct redis_node *node);
/* Goes on with the handshake of TLS; false when the connection is gone. */
bool node_handshake_tls(struct redis_node *node);
/* Handles the reply to a request of the handshake. */
bool node_handshake_reply(struct redis_node *node, const struct pending *entry, const struct redis_reply *reply);
const char *node_phase_name(enum node_phase phase);

#endif
