/* The check() of handlers, in a process of its own: one that crashes or hangs ends that process, another takes its
 * place, and the caller gets the reason. In production such a check() takes its worker down; a dry run reports that,
 * and a push goes on.
 *
 *     argument_check_start(&check, plugins, &error)          while there is one thread
 *     argument_check_ask(check, job->class_name, args, length, &answer);
 *     argument_check_end(check);
 *
 * Two processes: the guard waits and replaces, the checker has the plugins as the caller loaded them (never opened).
 * The question lies in shared memory; its number goes through a socket. What the checker prints is not shown, and it
 * leaves no core. Any thread may ask; one at a time is served, for CHECK_LIMIT_NS at most. Both processes die with the
 * thread that started them. */
#ifndef WORKER_ARGUMENT_CHECK_H
#define WORKER_ARGUMENT_CHECK_H

#include "worker/plugin/plugin.h"

enum { ARGUMENT_REASON_MAX = 256 };

/* Longer than this a check() takes only when it hangs. */
#define CHECK_LIMIT_NS (5 * NS_PER_S)

enum argument_verdict {
    ARGUMENT_PASSES,
    ARGUMENT_REFUSED,   /* with a reason */
    ARGUMENT_CRASHED,   /* by a signal, or 0: it ended its process */
    ARGUMENT_HANGS,     /* it was killed */
    ARGUMENT_UNCHECKED, /* there is no checker any more, or the arguments have no room */
};

struct argument_answer {
    enum argument_verdict verdict;
    int signal;
    char reason[ARGUMENT_REASON_MAX];
};

struct argument_check; /* opaque */

/* `*check` is NULL when none of the classes has a check(): then all arguments pass. `args_max` is the length of the
 * longest that are asked about; `limit_ns` 0 is CHECK_LIMIT_NS. The plugins must stay. */
bool argument_check_start(struct argument_check **check, const struct plugins *plugins, size_t args_max,
                          int64_t limit_ns, struct error *error) MUST_CHECK;
/* `check` may be NULL. */
void argument_check_ask(struct argument_check *check, const char *class_name, const char *args, size_t length,
                        struct argument_answer *answer);
/* Not to be asked any more. NULL is fine. */
void argument_check_end(struct argument_check *check);

#endif
