/* A synchronous client of one node, for commands: it sends requests, waits for the answers, and returns.
 *
 *     struct node_client *client = node_client_open(&(struct node_client_options){.node = node}, &error);
 *     node_client_begin(client);                                   a new pipeline; forgets the last one
 *     size_t length = node_client_ask(client, "LLEN", key, NULL);
 *     struct buffer *request = node_client_compose(client);        or with redis_request_begin ... (redis/request.h)
 *     if (!node_client_run(client))
 *         return node_client_complain(client, "status");           says why, returns the exit code
 *     node_client_reply(client, length)->integer ...
 *     node_client_close(client);
 *
 * A run ends when every request was answered. A request whose reply was lost (the connection broke, the node was slow)
 * is SENT AGAIN until the patience is over, so ask only what may be repeated: reads, and scripts that answer the same
 * when they are repeated. After a loss fewer answers are outstanding at once, because the node may close a connection
 * for which too much waits. So is one that the node refused because it is loading, busy or a replica for the moment.
 * Other error replies are answers: REDIS_FAILURE, with the server's text.
 *
 * The first attempt to connect decides, unless it keeps_trying: when it fails, the run has failed. SIGINT and SIGTERM
 * end a run; between runs, and when the run has just been answered, they do what they do to any program. Owns a loop;
 * one thread. If the process dies, requests that were sent may be executed. */
#ifndef WORKER_NODE_CLIENT_H
#define WORKER_NODE_CLIENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "redis/reply.h"
#include "redis/request.h"
#include "worker/config/config.h"
#include "worker/print/exit_code.h"

struct node_client;

struct node_client_options {
    const struct config_node *node;            /* stays the caller's, must outlive the client */
    const char *client_name;                   /* how the node lists the connection; NULL = none */
    const struct redis_script *const *scripts; /* those that are called; must outlive the client */
    size_t script_count;
    int64_t patience_ns; /* for one run; 0 = 10 s */
    bool keeps_trying;   /* to connect, until its timeout */
};

/* NULL only when there can be no loop. Connects in the first run. */
struct node_client *node_client_open(const struct node_client_options *options, struct error *error) MUST_CHECK;
void node_client_close(struct node_client *client); /* NULL is fine */

/* --- one pipeline ----------------------------------------------------------------------------------------------- */

/* Forgets the requests and replies of the last pipeline. */
void node_client_begin(struct node_client *client);
/* Adds a request of texts; the list ends with NULL. Returns its index: 0, 1, 2 ... */
size_t node_client_ask(struct node_client *client, ...) __attribute__((sentinel));
size_t node_client_ask_list(struct node_client *client, va_list texts);
/* Adds an empty request, to be filled before the next call. Its index is node_client_count() - 1. */
struct buffer *node_client_compose(struct node_client *client);
size_t node_client_count(const struct node_client *client);

/* The next runs may ask for less: one whose only outstanding answer is lost with the connection ends at once. */
void node_client_may_divide(struct node_client *client, bool may);
/* Sends all and waits. True when each was answered, be it with an error reply. */
bool node_client_run(struct node_client *client) MUST_CHECK;

/* Until the next node_client_begin. Never NULL: what was not answered is nil. */
const struct redis_reply *node_client_reply(const struct node_client *client, size_t index);
/* The reply if it is of this kind, else NULL. */
const struct redis_reply *node_client_reply_of(const struct node_client *client, size_t index,
                                               enum redis_reply_kind kind);
/* The integer, or `otherwise` when the reply is none. */
long long node_client_integer(const struct node_client *client, size_t index, long long otherwise);
/* The reply becomes the caller's: one piece of memory, freed with free(). */
struct redis_reply *node_client_take(struct node_client *client, size_t index);

/* --- trouble ---------------------------------------------------------------------------------------------------- */

enum node_client_end {
    NODE_CLIENT_ANSWERED,
    NODE_CLIENT_UNREACHABLE, /* nothing of this run was executed, or all that was is known */
    NODE_CLIENT_REFUSED,     /* it is there and does not let us in */
    NODE_CLIENT_UNKNOWN,     /* requests were sent that have no answer: they may have been executed */
    NODE_CLIENT_CUT,         /* an answer was lost that may be smaller: see node_client_may_divide */
    NODE_CLIENT_INTERRUPTED, /* the same, because of a signal */
};

/* How the last run ended, and why in words that name the node. */
enum node_client_end node_client_ended(const struct node_client *client);
const char *node_client_reason(const struct node_client *client);
/* Prints "holdfast COMMAND: reason" to standard error; returns the code to exit with. */
enum exit_code node_client_complain(const struct node_client *client, const char *command);
/* The same for a reply that should have been no error: "holdfast COMMAND: the queue node refused: ...". */
enum exit_code node_client_complain_reply(const struct node_client *client, size_t index, const char *command);

/* For a command that owns the terminal: from now on, until node_client_close, SIGINT, SIGTERM, SIGHUP and SIGQUIT are
 * watched all the time, also between runs, and end the run or pause that goes on or comes next. `input` (-1 = none;
 * open, non-blocking, the caller's) is watched during runs and pauses: `typed` reads it and says what comes of it.
 * SIGWINCH and SIGTSTP call `resized` and `suspended`, and end a pause. */
enum node_client_typed {
    NODE_CLIENT_TYPED_NOTHING,
    NODE_CLIENT_TYPED_KEY, /* ends a pause */
    NODE_CLIENT_TYPED_END, /* ends the run or pause, and all that come later */
};
struct node_client_terminal {
    int input;
    enum node_client_typed (*typed)(void *context);
    void (*resized)(void *context), (*suspended)(void *context);
    void *context;
};
void node_client_attend(struct node_client *client, const struct node_client_terminal *terminal);
/* For one run, from now on. */
void node_client_set_patience(struct node_client *client, int64_t patience_ns);

/* Waits without asking anything; false when a signal ended it. */
bool node_client_pause(struct node_client *client, int64_t duration_ns) MUST_CHECK;
/* For callers that pause again and again: signals are watched between the runs, too; the first one ends this and all
 * later runs. */
void node_client_hold_signals(struct node_client *client, bool holds);
/* SIGHUP calls `reload`, from a run or a pause, and ends a pause: until node_client_close. */
void node_client_watch_reload(struct node_client *client, void (*reload)(void *context), void *context);

#endif
