/* Calls to a running worker process: dashboards send quiet, stop and dump through the list IDENTITY-signals; Holdfast's
 * own commands (look at the paused queues, drain, cancel a task, lose a lock) use hf:2:calls:IDENTITY.
 *
 * A separate connection waits at both lists in a blocking pop, so a call arrives at once. If the connection breaks, the
 * call in its reply is lost, as in other programs of this data model: the caller sees that nothing happened and calls
 * again. All calls are safe to repeat. An unknown call is logged and ignored.
 *
 * The server hands a call to a waiting process even if that process hangs. But the caller of LOSE must be sure, so the
 * process confirms it after acting: it puts the text under hf:2:heard:IDENTITY. A confirmation may be lost like a call.
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
    CONTROL_STOP,   /* TERM, INT: stop in order */
    CONTROL_DUMP,   /* TTIN: log what runs */
    CONTROL_LOOK,   /* LOOK: the list of paused queues has changed */
    CONTROL_DRAIN,  /* DRAIN: claim no more tasks, and stop when none runs */
    CONTROL_CANCEL, /* CANCEL JID: this task, if it runs here */
    CONTROL_LOSE,   /* LOSE JID: this task has lost its lock, if it has one here: an operator takes the lock */
};

/* Parses a call. CONTROL_CANCEL and CONTROL_LOSE set `jid`, a part of `text`. False if the text is no call. Pure. */
bool control_parse(const char *text, size_t length, enum control_call *call, const char **jid);

struct control;

struct control_options {
    struct redis_node_options node; /* as for the queue node; name, scripts, `changed` and limits are set here */
    const struct queue_keys *keys;  /* of this process; outlive the control */
    void (*called)(void *context, enum control_call call, const char *jid); /* may not destroy the control */
    void *context;
};

struct control *control_create(struct loop *loop, const struct control_options *options);
/* Closes the connection at once; later calls stay in their list and expire with it. */
void control_destroy(struct control *control);

/* Appends a request that sends `text` to the process `identity` ("" = every process) if its lease runs, and deletes its
 * former confirmation. Answers the number of processes. */
void control_request_call(const struct queue_keys *keys, const char *identity, const char *text, struct buffer *out);
/* Appends a request for the last text that this process confirmed: a string, or nothing. */
void control_request_heard(const struct queue_keys *keys, const char *identity, struct buffer *out);

#endif
