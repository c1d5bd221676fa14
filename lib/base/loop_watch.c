/* File descriptors in the loop: one uv_poll_t each, level-triggered.
 *
 * libuv takes two system calls to change what a uv_poll_t waits for, so a change to the same events is left out here;
 * connections ask to be told about room to write only while the kernel refuses their bytes, which is seldom. */
#include "base/loop_private.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

_Static_assert((int)LOOP_READABLE == (int)UV_READABLE && (int)LOOP_WRITABLE == (int)UV_WRITABLE,
               "masks are handed through");

struct loop_watch {
    uv_poll_t poll;
    struct loop *loop;
    int events; /* what the user waits for; 0 when stopped */
    bool stopped;
    void (*ready)(void *context, int events);
    void *context;
};

static void poll_ready(uv_poll_t *poll, int status, int events);

static void poll_restart(struct loop_watch *watch)
{
    int status =
        watch->events == 0 ? uv_poll_stop(&watch->poll) : uv_poll_start(&watch->poll, watch->events, poll_ready);
    invariant(status == 0);
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
    struct loop_watch *watch = poll->data;
    loop_enter(watch->loop);
    if (watch->stopped)
        return; /* by a deadline, just now */

    if (status == 0) {
        events &= watch->events;
        if (events != 0)
            watch->ready(watch->context, events);
        return;
    }
    /* libuv has stopped a uv_poll_t whose fd is in an error condition; the user has not */
    watch->ready(watch->context, LOOP_READABLE | LOOP_WRITABLE);
    if (!watch->stopped)
        poll_restart(watch);
}

struct loop_watch *loop_watch_start(struct loop *loop, int fd, int events, void (*ready)(void *context, int events),
                                    void *context)
{
    loop_assert_inside(loop);
    struct loop_watch *watch = memory_new(struct loop_watch);
    watch->loop = loop;
    watch->ready = ready;
    watch->context = context;
    watch->events = events;
    invariant(uv_poll_init(&loop->uv, &watch->poll, fd) == 0); /* fails for a file, or an fd that is watched already */
    watch->poll.data = watch;
    poll_restart(watch);
    loop->watches++;
    return watch;
}

void loop_watch_change(struct loop_watch *watch, int events)
{
    invariant(!watch->stopped);
    if (watch->events == events)
        return;
    watch->events = events;
    poll_restart(watch);
}

static void poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void loop_watch_stop(struct loop_watch *watch)
{
    loop_assert_inside(watch->loop);
    invariant(!watch->stopped);
    watch->stopped = true;
    watch->loop->watches--;
    /* takes the fd out of epoll at once, and frees the watch after this turn's events */
    uv_close((uv_handle_t *)&watch->poll, poll_closed);
}
