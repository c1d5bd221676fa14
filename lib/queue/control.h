/* Calls to a running worker process: from dashboards (quiet, stop, dump, through the list IDENTITY-signals) and from
 * Holdfast's own commands (look at the paused queues, drain, cancel a task, lose a lock, through hf:2:calls:IDENTITY).
 *
 * A separate connection waits at both lists in a blocking pop, so a call arrives at once. A call whose reply was
 * lost with the connection is lost, as with other programs of this data model: the caller sees that nothing
 * happened and calls again. All calls are safe to repeat. An unknown call is logged and ignored.
 *
 * The server takes a call out of the list for a process that waits for one, even if that process hangs. So LOSE, whose
 * caller must be sure, is confirmed once it was acted upon: its text is put under hf:2:heard:IDENTITY. A confirmation
 * may be lost like a call.
 *
 * Callers bound the lists and let them expire (scripts/call.lua): the lists of a dead process are gone after a
 * minute. Threads: the loop's only. */
#ifndef QUEUE_CONTROL_H
#define QUEUE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "queue/keys.h"
#include "redis/node.h"

enum control_call {
    CONTROL_QUIET,  /* TSTP: claim no more tasks, go on with the running ones */
    CONTROL_STOP,   /* TERM, INT: end in order */
    CONTROL_DUMP,   /* TTIN: say what runs */
    CONTROL_LOOK,   /* LOOK: the list of paused queues has changed */
    CONTROL_DRAIN,  /* DRAIN: claim no more tasks, and end when none runs */
    CONTROL_CANCEL, /* CANCEL JID: this task, if it runs here */
    CONTROL_LOSE,   /* LOSE JID: this task has lost its lock, if it has one here: an operator takes the lock */
};

/* Parses a call. `jid` is set for CONTROL_CANCEL and CONTROL_LOSE, a part of `text`. False if it is no call. Pure. */
bool control_parse(const char *text, size_t length, enum control_call *call, const char **jid);

struct control;

struct control_options {
    struct redis_node_options node; /* as for the queue node; name, scripts, `changed` and limits are set here */
    const struct queue_keys *keys;  /* of this process; outlive the control */
    void (*called)(void *context, enum control_call call, const char *jid); /* may not destroy the control */
    void *context;
};

struct control *control_create(struct loop *loop, const struct control_options *options);
/* Hangs up at once; a call that comes later stays in its list and expires with it. */
void control_destroy(struct control *control);

/* Appends a request that sends `text` to the process `identity` ("" = every process) if its lease runs, and deletes its
 * former confirmation. Answers the number of processes. */
void control_request_call(const struct queue_keys *keys, const char *identity, const char *text, struct buffer *out);
/* Appends a request for the last text that this process confirmed: a string, or nothing. */
void control_request_heard(const struct queue_keys *keys, const char *identity, struct buffer *out);

#endif
