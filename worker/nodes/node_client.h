/* Questions to one node from a command that has nothing else to do: it asks, waits for the answers, and goes on.
 *
 *     struct inquiry *inquiry = inquiry_open(&(struct inquiry_options){.node = &config->queue_node}, &error);
 *     inquiry_begin(inquiry);                                   a new pipeline; forgets the last one
 *     size_t length = inquiry_ask(inquiry, "LLEN", key, NULL);
 *     struct buffer *request = inquiry_compose(inquiry);        or with redis_request_begin ... (redis/request.h)
 *     if (!inquiry_run(inquiry))
 *         return inquiry_complain(inquiry, "status");           says why, returns the exit code
 *     inquiry_reply(inquiry, length)->integer ...
 *     inquiry_close(inquiry);
 *
 * A run ends when every request was answered. A request whose reply was lost (the connection broke, the node was slow)
 * is SENT AGAIN until the patience is over, so ask only what may be repeated: reads, and scripts that answer the same
 * when they are repeated. So is one that the node refused because it is loading, busy or a replica for the moment.
 * Other error replies are answers: REDIS_FAILURE, with the server's text.
 *
 * The first attempt to connect decides, unless it keeps_trying: when it fails, the run has failed. SIGINT and SIGTERM
 * end a run; between runs, and when the run has just been answered, they do what they do to any program. Owns a loop;
 * one thread. If the process dies, requests that were sent may be executed. */
#ifndef WORKER_INQUIRY_H
#define WORKER_INQUIRY_H

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

struct inquiry;

struct inquiry_options {
    const struct config_node *node;            /* stays the caller's, must outlive the inquiry */
    const char *client_name;                   /* how the node lists the connection; NULL = none */
    const struct redis_script *const *scripts; /* those that are called; must outlive the inquiry */
    size_t script_count;
    int64_t patience_ns; /* for one run; 0 = 10 s */
    bool keeps_trying;   /* to connect, as long as it has patience */
};

/* NULL only when there can be no loop. Connects in the first run. */
struct inquiry *inquiry_open(const struct inquiry_options *options, struct error *error) MUST_CHECK;
void inquiry_close(struct inquiry *inquiry); /* NULL is fine */

/* --- one pipeline ----------------------------------------------------------------------------------------------- */

/* Forgets the requests and replies of the last pipeline. */
void inquiry_begin(struct inquiry *inquiry);
/* Adds a request of texts; the list ends with NULL. Returns its index: 0, 1, 2 ... */
size_t inquiry_ask(struct inquiry *inquiry, ...) __attribute__((sentinel));
size_t inquiry_ask_list(struct inquiry *inquiry, va_list texts);
/* Adds an empty request, to be filled before the next call. Its index is inquiry_count() - 1. */
struct buffer *inquiry_compose(struct inquiry *inquiry);
size_t inquiry_count(const struct inquiry *inquiry);

/* Sends all and waits. True when each was answered, be it with an error reply. */
bool inquiry_run(struct inquiry *inquiry) MUST_CHECK;

/* Until the next inquiry_begin. Never NULL: what was not answered is nil. */
const struct redis_reply *inquiry_reply(const struct inquiry *inquiry, size_t index);
/* The reply if it is of this kind, else NULL. */
const struct redis_reply *inquiry_reply_of(const struct inquiry *inquiry, size_t index, enum redis_reply_kind kind);
/* The integer, or `otherwise` when the reply is none. */
long long inquiry_integer(const struct inquiry *inquiry, size_t index, long long otherwise);
/* The reply becomes the caller's: one piece of memory, freed with free(). */
struct redis_reply *inquiry_take(struct inquiry *inquiry, size_t index);

/* --- trouble ---------------------------------------------------------------------------------------------------- */

enum inquiry_end {
    INQUIRY_ANSWERED,
    INQUIRY_UNREACHABLE, /* nothing of this run was executed, or all that was is known */
    INQUIRY_REFUSED,     /* it is there and does not let us in */
    INQUIRY_UNKNOWN,     /* requests were sent that have no answer: they may have been executed */
    INQUIRY_INTERRUPTED, /* the same, because of a signal */
};

/* How the last run ended, and why in words that name the node. */
enum inquiry_end inquiry_ended(const struct inquiry *inquiry);
const char *inquiry_reason(const struct inquiry *inquiry);
/* Prints "holdfast COMMAND: reason" to standard error; returns the code to exit with. */
enum exit_code inquiry_complain(const struct inquiry *inquiry, const char *command);
/* The same for a reply that should have been no error: "holdfast COMMAND: the queue node refused: ...". */
enum exit_code inquiry_complain_reply(const struct inquiry *inquiry, size_t index, const char *command);

/* For a command that owns the terminal: from now on, until inquiry_close, SIGINT, SIGTERM, SIGHUP and SIGQUIT are
 * watched all the time, also between runs, and end the run or pause that goes on or comes next. `input` (-1 = none;
 * open, non-blocking, the caller's) is watched during runs and pauses: `typed` reads it and says what comes of it.
 * SIGWINCH and SIGTSTP are told by `resized` and `suspended`, and end a pause. */
enum inquiry_typed {
    INQUIRY_TYPED_NOTHING,
    INQUIRY_TYPED_KEY, /* ends a pause */
    INQUIRY_TYPED_END, /* ends the run or pause, and all that come later */
};
struct inquiry_terminal {
    int input;
    enum inquiry_typed (*typed)(void *context);
    void (*resized)(void *context), (*suspended)(void *context);
    void *context;
};
void inquiry_attend(struct inquiry *inquiry, const struct inquiry_terminal *terminal);
/* For one run, from now on. */
void inquiry_set_patience(struct inquiry *inquiry, int64_t patience_ns);

/* Waits without asking anything; false when a signal ended it. */
bool inquiry_pause(struct inquiry *inquiry, int64_t duration_ns) MUST_CHECK;
/* For callers that pause again and again: signals are heard between the runs, too; the first one ends this and all
 * later runs. */
void inquiry_hold_signals(struct inquiry *inquiry, bool holds);

#endif
