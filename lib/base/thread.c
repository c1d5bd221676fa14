#include "base/thread.h"

#include <signal.h>
#include <time.h>

int thread_spawn(pthread_t *thread, const char *name, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0)
        pthread_setname_np(*thread, name);
    return failure;
}

void thread_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
