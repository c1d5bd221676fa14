/* Implements verify() of jobs/job.h: a handler asks on its own thread whether its lock is still held, and the lock
 * nodes answer through the loop. Each slot has one verifier for the life of the worker.
 *
 * The asking thread and the loop share the memory of a question; the last to release it frees it. So neither waits for
 * the other. The thread gives up after its patience, whatever the loop does. The loop answers even if the thread has
 * given up, its run was abandoned, or the slot has another task by then. When the lock is lost, the answer to all
 * questions about it is no.
 *
 * If the process dies, nothing remains. */
#ifndef WORKER_JOB_VERIFIER_H
#define WORKER_JOB_VERIFIER_H

#include "base/list.h"
#include "base/loop.h"
#include "redlock/redlock_loop.h"

struct job_verifier {
    struct loop *loop;
    int64_t patience_ns;
    /* the loop's */
    struct redlock_lock *lock; /* NULL: no lock */
    struct list questions;
};

void job_verifier_init(struct job_verifier *verifier, struct loop *loop, int64_t patience_ns);
/* On the loop: further questions are about this lock. */
void job_verifier_open(struct job_verifier *verifier, struct redlock_lock *lock);
/* On the loop, when the lock was destroyed. Harmless without a lock. */
void job_verifier_close(struct job_verifier *verifier);

/* Any thread but the loop's, several at once. True if a majority confirms that the lock is held. Blocks for at most
 * `limit_ns` or the verifier's patience, whichever is less. */
bool job_verifier_ask(struct job_verifier *verifier, int64_t limit_ns);

#endif
