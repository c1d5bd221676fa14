/* What the files of the loop share; nobody else includes this. */
#ifndef BASE_LOOP_PRIVATE_H
#define BASE_LOOP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/loop.h"

struct loop {
    uv_loop_t uv;
    uv_prepare_t before_wait; /* runs the turn-end hooks and moves the timerfd */
    uv_async_t wake;          /* messages have come, or loop_stop was called */
    uv_poll_t alarm;          /* the timerfd */
    int alarm_fd;

    struct instant now;
    struct heap deadlines;
    struct instant armed; /* what the timerfd is set for; INSTANT_NEVER when it has gone off */
    bool firing;          /* inside loop_fire_due */

    struct list hooks[LOOP_STAGES];
    struct mailbox mailbox;
    atomic_bool stop_asked;
    _Atomic(pthread_t) owner; /* 0 = nobody, the loop does not run */

    size_t watches, resolutions, signals; /* live ones, to find those that outlive the loop */
};

void loop_fire_due(struct loop *loop);

/* The first act of every callback that libuv makes: take the time and fire what is due, before anything that came
 * in is looked at. It costs one vDSO call and a look at the top of the heap. The deadlines may stop or cancel the
 * very object whose callback this is, so the caller looks at its own state only after this. */
static inline void loop_enter(struct loop *loop)
{
    loop->now = instant_now();
    const struct heap_item *first = heap_first(&loop->deadlines);
    if (first != NULL && instant_reached(loop->now, first->at))
        loop_fire_due(loop);
}

#endif
