/* Starts threads, and makes conditions that are waited for by a clock nobody sets. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Starts a thread with this name (at most 15 bytes) that blocks all signals: they belong to the threads that expect
 * them, and a handler of the program must not run on a thread of ours. Returns 0 or an errno. */
int thread_spawn(pthread_t *thread, const char *name, void *(*run)(void *context), void *context);

/* A condition whose absolute times are of CLOCK_MONOTONIC. */
void thread_condition_init(pthread_cond_t *condition);

#endif
