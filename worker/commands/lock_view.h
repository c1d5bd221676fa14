/* What is known of one lock: what the lock nodes have under its key, whose that is, and who waits. For `who` and
 * `unlock`.
 *
 *     struct lock_view view = {.command = &command_who};        its origin and login are filled by options
 *     int code = lock_view_open(&view);
 *     if (code == EXIT_CODE_OK)
 *         code = lock_view_look(&view);                         as often as one likes
 *     return lock_view_close(&view, code);                      also after a failure
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

struct lock_view {
    const struct command *command;
    const char *resource; /* without the prefix of the configuration */
    bool changes;
    struct nodes_login login;
    struct console console;
    bool has_queue;
    int queue_code; /* why not */
    struct nodes_session session;
    enum lock_state state;
    unsigned holder_count;
    struct redlock_holder holders[REDLOCK_NODES_MAX]; /* values */
    struct lock_owner owners[REDLOCK_NODES_MAX];      /* of those with is_ours */
    struct lock_runner runners[REDLOCK_NODES_MAX];
    bool is_ours[REDLOCK_NODES_MAX]; /* a worker's value */
};

extern const struct option_row lock_view_options[]; /* --json, the configuration, the login */

/* Takes the resource from the line. */
int lock_view_open(struct lock_view *view, const struct command_line *line) MUST_CHECK;
int lock_view_close(struct lock_view *view, int code); /* returns `code` */

/* Returns an exit code: not EXIT_CODE_OK only when the queue node went away meanwhile. */
int lock_view_look(struct lock_view *view);

void lock_view_print(const struct lock_view *view);
void lock_view_json(const struct lock_view *view, struct json_writer *json); /* members of an object */

#endif
