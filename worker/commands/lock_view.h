/* What is known of one lock: what the lock nodes have under its key, whose that is, and who waits. For `who` and
 * `unlock`.
 *
 *     struct lock_view view = {.command = &command_who};        its origin and login are filled by options
 *     int code = lock_view_open(&view);
 *     if (code == EXIT_CODE_OK)
 *         code = lock_view_look(&view);                         as often as one likes
 *     return lock_view_close(&view, code);                      also after a failure
 *
 * The lock nodes decide; when the queue node cannot be asked, that is said, and has_queue is false. Of lock nodes that
 * options or $HOLDFAST_LOCK_NODES name, no queue node is known. */
#ifndef WORKER_LOCK_VIEW_H
#define WORKER_LOCK_VIEW_H

#include "queue/envelope.h"
#include "queue/waiting.h"
#include "worker/commands/console.h"
#include "worker/commands/nodes.h"
#include "worker/commands/waiting_lists.h"

/* Whose value a lock has: workers write "host:pid:slot:jid" into it. */
enum { LOCK_OWNER_HOST_MAX = 60, LOCK_OWNER_JID_MAX = 40 }; /* what workers cut them to */

struct lock_owner {
    char host[LOCK_OWNER_HOST_MAX + 1];
    long pid;
    unsigned slot;
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    bool is_cut; /* the jid may be longer */
};

/* False when a worker did not write it. Pure. */
bool lock_owner_read(struct lock_owner *owner, const char *text, size_t length);
/* Whether this process, HOST:PID:NONCE, may have written it. Pure. */
bool lock_owner_is_of(const struct lock_owner *owner, const char *identity);

/* The process that runs the task, as far as the queue node knows; NULL and 0 are not known. */
struct lock_runner {
    char *identity;
    bool is_living;                 /* its lease runs */
    char *jid, *queue, *class_name; /* of what the slot has claimed */
    struct wall_time since;         /* when it began to run, by the clock of its host, in whole seconds */
    char *fence;                    /* the token that its handler got */
};

enum lock_state {
    LOCK_IS_FREE,
    LOCK_IS_HELD,     /* a majority has one value */
    LOCK_IS_BLOCKED,  /* nobody can have it: too many nodes have what is no lock, or has no end */
    LOCK_IS_LEFTOVER, /* a minority has values: nobody holds it */
    LOCK_IS_UNKNOWN,  /* too few nodes answered, or vote, to decide */
};

struct lock_view {
    const struct command *command;
    const char *resource;              /* without the prefix of the configuration */
    int64_t seat;                      /* of a resource that several may hold; 0 = it has only one, or all */
    char name[REDLOCK_SEAT_NAME_SIZE]; /* what is locked: the resource, or a seat of it */
    /* Of those that wait for it, or for any seat. The second: without a seat, the other kind of list; else "". */
    char lists[2][WAITING_LIST_BYTES_MAX + 1];
    unsigned seats[REDLOCK_LIMIT_MAX], seat_count; /* for which the nodes have something, unless one was named */
    const struct config_class *owner;              /* the class whose template makes such names; NULL = none here */
    bool changes;
    struct nodes_login login;
    struct console *console; /* by which it asks */
    struct console own;
    bool has_queue;
    int queue_code;   /* why not; EXIT_CODE_OK: only lock nodes are named */
    unsigned blocked; /* nodes that have something which is no lock, or has no end */
    struct nodes_session session;
    enum lock_state state;
    unsigned holder_count;
    struct redlock_holder holders[REDLOCK_HOLDERS_MAX]; /* values, or readers */
    struct lock_owner owners[REDLOCK_HOLDERS_MAX];      /* of those with is_ours */
    struct lock_runner runners[REDLOCK_HOLDERS_MAX];
    bool is_ours[REDLOCK_HOLDERS_MAX]; /* a worker's value */
};

extern const struct option_row lock_view_options[]; /* --json, the configuration or lock nodes, the login */

/* Whether it can be locked with this prefix (NULL = none). Complains, and returns an exit code. */
int lock_resource_check(const struct command *command, const char *resource, const char *prefix) MUST_CHECK;

/* Takes the resource from the line. */
int lock_view_open(struct lock_view *view, const struct command_line *line) MUST_CHECK;
int lock_view_close(struct lock_view *view, int code); /* returns `code` */

/* For a command that has a console: instead of lock_view_open. False, with the reason in the session: its configuration
 * names no lock nodes. */
bool lock_view_share(struct lock_view *view, struct console *console) MUST_CHECK;
void lock_view_leave(struct lock_view *view); /* instead of lock_view_close; harmless before lock_view_share */
/* Looks at any resource; of several seats at the first that is in use. The resource has to stay. */
void lock_view_look_at(struct lock_view *view, const char *resource);

/* Looks at the resource, or at its seat. If no seat was named and the nodes have something for one of them only, that
 * is the seat from now on. Returns an exit code: not EXIT_CODE_OK only when the queue node became unreachable
 * meanwhile. */
int lock_view_look(struct lock_view *view);
/* Whether several seats are in use, and none was named: only lock_view_put looks at all of them then. */
bool lock_view_has_several(const struct lock_view *view);
/* Whether it is held, or blocked: nobody else gets it now. */
bool lock_view_is_taken(const struct lock_view *view);

/* Looks at each of several seats first; then `state` is that of all. */
void lock_view_put(struct lock_view *view, struct printer *out);

#endif
