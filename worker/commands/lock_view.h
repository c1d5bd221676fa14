/* What is known of one lock: what the lock nodes have under its key, whose that is, and who waits. For `who` and
 * `unlock`.
 *
 *     struct lock_view view;
 *     int code = lock_view_open(&view, &(struct lock_view_options){...});
 *     if (code == EXIT_CODE_OK)
 *         lock_view_look(&view);                 as often as one likes
 *     lock_view_close(&view);                    also after a failure
 *
 * The lock nodes decide; when the queue node cannot be asked, that is said, and has_queue is false. */
#ifndef WORKER_LOCK_VIEW_H
#define WORKER_LOCK_VIEW_H

#include "worker/commands/console.h"
#include "worker/commands/lock_owner.h"
#include "worker/commands/lock_waiters.h"
#include "worker/commands/nodes.h"

enum lock_state {
    LOCK_IS_FREE,
    LOCK_IS_HELD,     /* a majority has one value */
    LOCK_IS_LEFTOVER, /* a minority has values: nobody holds it */
    LOCK_IS_UNKNOWN,  /* too few nodes answered, or vote, to tell */
};

struct lock_view_options {
    const struct command *command;
    const char *path, *user, *password_file; /* of the configuration; of the lock nodes' user, or NULL */
    const char *resource;                    /* without the prefix of the configuration */
    bool changes;
};

struct lock_view {
    struct lock_view_options options;
    struct console console;
    bool has_queue;
    int queue_code; /* why not */
    char *password;
    struct nodes_session session;
    enum lock_state state;
    unsigned holder_count;
    struct redlock_holder holders[REDLOCK_NODES_MAX]; /* values */
    struct lock_owner owners[REDLOCK_NODES_MAX];      /* of those with is_ours */
    struct lock_runner runners[REDLOCK_NODES_MAX];
    bool is_ours[REDLOCK_NODES_MAX]; /* a worker's value */
};

int lock_view_open(struct lock_view *view, const struct lock_view_options *options) MUST_CHECK;
void lock_view_close(struct lock_view *view);

/* Returns an exit code: not EXIT_CODE_OK only when the queue node went away meanwhile. */
int lock_view_look(struct lock_view *view);

void lock_view_print(const struct lock_view *view);
void lock_view_json(const struct lock_view *view, struct json_writer *json); /* members of an object */

#endif
