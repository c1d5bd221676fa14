/* One connection to one Redis server, kept up in the background.
 *
 * Calls are pipelined: redis_node_call only appends to a buffer, and the loop writes each node's buffer once at the end
 * of its cycle. Every call has its own deadline and completes exactly once, at the latest then. A reply that comes
 * later is matched to its place in the queue and discarded; the connection stays up. A reply that has arrived when the
 * deadline is checked is not late, however long this process was stopped. Replies are matched by order, so anything
 * that breaks the order (an unsolicited reply, a reply outside the limits, garbage) closes the connection: all its
 * calls become REDIS_UNKNOWN, and the node reconnects after a jittered back-off, which grows until a connection has
 * lasted for longer than the longest pause. Nothing is sent twice, with one exception: a call answered NOSCRIPT was not
 * executed, so the node loads the script and sends the call again within its deadline (E43).
 *
 * A server that stops answering costs bounded memory and time: the node closes the connection when more than
 * `unanswered_limit` bytes are unanswered, or the oldest request is for longer than `silence_limit`.
 *
 * Connecting = resolving the name (off the loop), connect to the first of its addresses that answers, the handshake of
 * TLS (tls.h) if it is wanted, AUTH, SELECT, CLIENT SETNAME, ROLE, and when that says "master" SCRIPT LOAD for each
 * script, all within `connect_timeout`. While it is not up, calls fail at once with REDIS_ERROR_DOWN; no call waits for
 * a reconnect (E17).
 *
 * A password in a file is read again for each attempt to connect, so a new one takes effect when the file is replaced.
 * If the file cannot be used, the password that was read before goes on, and the reason is logged once. A server that
 * refuses the password is asked again after the back-off, with what the file holds by then. Like the files of TLS, it
 * is read in the loop.
 *
 * Only a master is ever up. A replica is reported as down and tried again. A master that becomes a replica while
 * connected answers READONLY, MASTERDOWN or UNBLOCKED: the call gets that error (it was not executed), and the node
 * closes the connection. A server that does not know or allow ROLE counts as a master until it answers READONLY; one
 * that does not know or allow CLIENT shows no names of connections. One that is part of a Redis Cluster, or runs no
 * scripts, says so in an answer: the node is down, and tries again after `unfit_pause`.
 *
 * With sentinels, every attempt begins by asking them for the master, one after the other, each for
 * `sentinels.timeout_ns` at most; then ROLE must be known. Asking only without a connection is enough, because every
 * replacement of a master ends the connection to it: it died; it hangs or is cut off, and the silence limit ends it; it
 * became a replica, and answers READONLY; or the sentinels replaced a live master, and close its connections some ten
 * seconds later (CLIENT KILL TYPE normal). What the old master accepts until then is lost. No client can prevent that,
 * but min-replicas-to-write on the server does: the old master answers NOREPLICAS, and the node asks the sentinels at
 * once.
 *
 * With `message`, the connection can subscribe to channels: SUBSCRIBE and UNSUBSCRIBE, one channel a call, are ordinary
 * calls, answered with ["subscribe", channel, channels left]. A new connection has no subscriptions: make them again
 * when `changed` reports it up. Periodic PINGs detect a server that hangs. Use a separate connection: while subscribed,
 * a server takes no other command.
 *
 * Ownership: the caller owns the struct redis_call until `done` ran; redis_call_cancel ends it without `done`.
 * `done` may start, cancel and free calls, this one included, but not destroy the node.
 * Threads: the loop's only.
 * If the process dies: the server sees the connection close; what was written may still be executed. */
#ifndef REDIS_NODE_H
#define REDIS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "redis/address.h"
#include "redis/reply.h"
#include "redis/request.h"
#include "redis/tls.h"

struct redis_node;

enum redis_node_state { REDIS_NODE_DOWN, REDIS_NODE_CONNECTING, REDIS_NODE_UP };

/* Where to ask for the address of the node. */
struct redis_sentinels {
    const char *master;           /* the name that the sentinels know it by */
    const char *const *addresses; /* each an address (address.h); rediss:// means TLS to the node, too */
    size_t count;
    const char *user;          /* of the sentinels themselves; NULL: AUTH with the password only */
    const char *password;      /* NULL: no AUTH, or */
    const char *password_file; /* as that of the node */
    int64_t timeout_ns;        /* per sentinel; 0 = 300 ms */
};

struct redis_node_options {
    const char *name; /* for logs: "lock1"; required */
    const char *host; /* name, IP address, or an address with a scheme (address.h); this, unix_path or sentinels */
    unsigned port;    /* used if the address names none; 0 = 6379 */
    const char *unix_path;
    struct redis_sentinels sentinels; /* count 0: none */
    const char *user;                 /* NULL: AUTH with the password only */
    const char *password;             /* NULL: no AUTH; copied, wiped when the node is destroyed, never logged */
    const char *password_file;        /* instead of `password`: a private file (base/secret.h) that holds it */
    unsigned database;
    const char *client_name;      /* NULL: none */
    struct redis_tls_options tls; /* to the node and to its sentinels */

    int64_t connect_timeout_ns; /* 0 = 1 s; does not include asking sentinels */
    int64_t backoff_min_ns;     /* 0 = 50 ms */
    int64_t backoff_max_ns;     /* 0 = 2 s */
    int64_t unfit_pause_ns;     /* after a server that is part of a Redis Cluster, or runs no scripts; 0 = 30 s, -1 =
                                   the caller judges such answers itself */
    int64_t silence_limit_ns;   /* 0 = 10 s */
    size_t unanswered_limit;    /* bytes; 0 = 4 MiB */
    size_t reply_limit;         /* bytes of one reply; 0 = 1 MiB */
    size_t element_limit;       /* elements of one reply, all arrays together; 0 = 1024 */

    const struct redis_script *const *scripts; /* loaded on every connect; must outlive the node */
    size_t script_count;

    /* Called for every change between up and down, with a reason, and for the first failure of a node that was never
     * up; may be NULL. Never runs inside redis_node_create or redis_node_destroy. Runs before the calls of a lost
     * connection complete. It may start and cancel calls, but not destroy the node. */
    void (*changed)(void *context, struct redis_node *node, enum redis_node_state state, const char *reason);
    /* A message on a subscribed channel; NULL if the connection never subscribes. The texts, each followed by a NUL,
     * are valid during the call, which may start and cancel calls, but not destroy the node. */
    void (*message)(void *context, struct redis_node *node, const char *channel, size_t channel_length,
                    const char *payload, size_t payload_length);
    int64_t pulse_interval_ns; /* while it is subscribed; 0 = 5 s */
    void *context;
};

/* False with a reason if the addresses are wrong or contradict the other options, or files of a password or for TLS
 * cannot be used. */
bool redis_node_options_check(const struct redis_node_options *options, struct error *error) MUST_CHECK;
/* Whether they ask for TLS, by `tls` or by an address. */
bool redis_node_options_want_tls(const struct redis_node_options *options);

/* Starts connecting. The options, which have to be sound, are copied. */
struct redis_node *redis_node_create(struct loop *loop, const struct redis_node_options *options);
/* Outstanding calls are dropped without `done`. */
void redis_node_destroy(struct redis_node *node);

const char *redis_node_name(const struct redis_node *node);
/* The options of the node, with defaults filled in. The texts live as long as the node. Omits the addresses of
 * sentinels. */
const struct redis_node_options *redis_node_options_of(const struct redis_node *node);
/* The server of the connection or of the last attempt: "host:port", a path, "sentinel host:port"; "" before the
 * first attempt. Valid until the loop runs. */
const char *redis_node_address(const struct redis_node *node);
enum redis_node_state redis_node_state(const struct redis_node *node);
/* Why the node is down: the last failure, "" before the first. */
const char *redis_node_reason(const struct redis_node *node);
/* True once the first attempt to connect has ended, either way. */
bool redis_node_was_tried(const struct redis_node *node);
/* Calls that are sent or queued, and unanswered. */
size_t redis_node_unanswered(const struct redis_node *node);
/* When the oldest unanswered request was made; INSTANT_NEVER if there is none. */
struct instant redis_node_waits_since(const struct redis_node *node);

/* A timeout for calls, from `least_ns` to `most_ns`: twice the slowest recent answer, late ones included. */
int64_t redis_node_timeout_ns(const struct redis_node *node, int64_t least_ns, int64_t most_ns);

struct redis_call {
    void (*done)(struct redis_call *call, const struct redis_result *result);
    /* private */
    struct redis_node *node; /* NULL when not outstanding */
    uint64_t sequence;
};

static inline bool redis_call_is_outstanding(const struct redis_call *call)
{
    return call->node != NULL;
}

/* Sends the encoded request. Returns false, without calling `done`, if nothing was written because the node is down
 * (REDIS_ERROR_DOWN) or overloaded (REDIS_ERROR_OVERLOAD, after which the connection closes). Otherwise `done` runs
 * exactly once, never inside this function. With `call` NULL the reply is discarded. */
bool redis_node_call(struct redis_node *node, const struct buffer *request, struct instant deadline,
                     struct redis_call *call) MUST_CHECK;
/* The call ends without `done`; the server may still execute it. Harmless if the call is not outstanding. */
void redis_call_cancel(struct redis_call *call);

/* Counters since the node was created; `sentinels_asked` counts attempts to ask a sentinel. */
struct redis_node_counters {
    uint64_t replies, late_replies, writes, desyncs, script_reloads, sentinels_asked;
};
const struct redis_node_counters *redis_node_counters(const struct redis_node *node);

#endif
