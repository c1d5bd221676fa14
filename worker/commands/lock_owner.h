/* Whose value a lock has: workers write "host:pid:slot:jid" into it. That text is read here, and the process and task
 * that it means are looked for among what the queue node knows of the fleet.
 *
 *     struct lock_owner owner;
 *     if (lock_owner_read(&owner, text, length)) {
 *         code = lock_runner_find(&runner, &owner, console);
 *         ... lock_runner_free(&runner);                    also after a failure
 *     } */
#ifndef WORKER_LOCK_OWNER_H
#define WORKER_LOCK_OWNER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/commands/console.h"

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
    char *fence;                    /* the token that its handler was told */
};

/* Fills `runner`; nothing that is not found is an error. Returns an exit code; complains. */
int lock_runner_find(struct lock_runner *runner, const struct lock_owner *owner, struct console *console) MUST_CHECK;
void lock_runner_free(struct lock_runner *runner);

#endif
