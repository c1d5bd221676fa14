/* Private to lib/redlock: what a mutex needs of the blocking client beyond redlock.h. */
#ifndef REDLOCK_CLIENT_H
#define REDLOCK_CLIENT_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

#include "redlock/group_private.h"

struct told_list {
    struct redlock_mutex *first, *last;
};

struct redlock_client {
    struct loop *loop;
    struct redlock_group *group;
    pthread_t thread;
    pid_t process; /* which opened it; a child after fork has no such thread */
    sem_t settled;
    struct loop_timer poll_timer; /* until the group is settled, and later until it can be closed */
    struct loop_message close_message;
    struct instant close_by;
    pthread_mutex_t lock;                       /* of what mutex.c keeps; nobody waits for the loop with it */
    unsigned lockers;                           /* threads that lock a mutex now */
    bool is_closing;                            /* they give up */
    pthread_cond_t changed;                     /* by CLOCK_MONOTONIC: after a leave, a cancel or a callback */
    struct told_list told_here, told_elsewhere; /* mutexes with news: for our thread, or for dispatch */
    struct loop_message tell_message;           /* another thread has found somebody for told_here */
    bool is_posted;                             /* it is on its way */
    struct telling *tellings;                   /* callbacks that run now */
    int news_descriptor;                        /* -1: not requested yet */
};

/* Why a call must not wait for the client here; NULL: it may. */
const char *client_refusal(const struct redlock_client *client);
/* True in the process that opened it. False if it is NULL. */
bool client_is_ours(const struct redlock_client *client);

/* An acquire of which another thread can give up: create, acquire, free unless it was acquired. `told` runs on the loop
 * at DANGER and LOST. */
struct redlock_held *held_create(struct redlock_client *client, void (*told)(void *context, bool is_lost),
                                 void *context);
enum redlock_answer held_acquire(struct redlock_held *held, const struct redlock_terms *terms,
                                 const struct redlock_request *request, char *reason, size_t reason_size);
/* The acquire ends soon: with CANCELLED, or with what it has become meanwhile. Any thread, before held_free. */
void held_cancel(struct redlock_held *held);
/* By CLOCK_BOOTTIME; 0 = it is not certain. */
int64_t held_valid_until_ns(const struct redlock_held *held);
void held_free(struct redlock_held *held);

#endif
