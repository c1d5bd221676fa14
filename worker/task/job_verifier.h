/* Whether a lock is still held, asked by a handler on its own thread and answered by the lock nodes through the loop:
 * what is behind verify() of jobs/job.h. One verifier a slot, for as long as the worker lives.
 *
 * A question is a small piece of memory that the asking thread and the loop share; the last to let go of it frees it.
 * So neither waits for the other: the thread gives up after its patience, whatever the loop does, and the loop answers
 * what it still finds when it comes to it, also when the thread has left, its run was abandoned, or the slot has
 * another task by then. When the lock goes, all questions about it are answered with no.
 *
 * If the process dies here: nothing is left. */
#ifndef WORKER_JOB_VERIFIER_H
#define WORKER_JOB_VERIFIER_H

#include "base/list.h"
#include "base/loop.h"
#include "redlock/redlock_loop.h"

struct job_verifier {
    struct loop *loop;
    int64_t patience_ns;
    /* the loop's */
    struct redlock_lock *lock; /* NULL: there is none to ask about */
    struct list questions;
};

void job_verifier_init(struct job_verifier *verifier, struct loop *loop, int64_t patience_ns);
/* On the loop: from now on the questions are about this lock. */
void job_verifier_open(struct job_verifier *verifier, struct redlock_lock *lock);
/* On the loop, when the lock was destroyed. Harmless when there was none. */
void job_verifier_close(struct job_verifier *verifier);

/* Any thread but the loop's, several at once. True when a majority says that the lock is held. Blocks for at most
 * `limit_ns` or the verifier's patience, whichever is less. */
bool job_verifier_ask(struct job_verifier *verifier, int64_t limit_ns);

#endif
