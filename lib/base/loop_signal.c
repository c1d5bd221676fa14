/* Signals in the loop: libuv's handler writes the number into a pipe, so the callback runs like any other. */
#include "base/loop_private.h"

#include <signal.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"

struct loop_signal {
    uv_signal_t handle;
    struct loop *loop;
    bool stopped;
    void (*caught)(void *context, int number);
    void *context;
};

static void signal_caught(uv_signal_t *handle, int number)
{
    struct loop_signal *watch = handle->data;
    loop_enter(watch->loop);
    if (!watch->stopped)
        watch->caught(watch->context, number);
}

struct loop_signal *loop_signal_start(struct loop *loop, int number, void (*caught)(void *context, int number),
                                      void *context)
{
    loop_assert_inside(loop);
    struct loop_signal *watch = memory_new(struct loop_signal);
    watch->loop = loop;
    watch->caught = caught;
    watch->context = context;
    invariant(uv_signal_init(&loop->uv, &watch->handle) == 0);
    watch->handle.data = watch;
    invariant(uv_signal_start(&watch->handle, signal_caught, number) == 0); /* fails for SIGKILL, SIGSTOP, ... */
    loop->signals++;
    return watch;
}

static void signal_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void loop_signal_stop(struct loop_signal *watch)
{
    loop_assert_inside(watch->loop);
    invariant(!watch->stopped);
    watch->stopped = true;
    watch->loop->signals--;
    uv_close((uv_handle_t *)&watch->handle, signal_closed);
}

void loop_signal_end(struct loop_signal *watch)
{
    int number = watch->handle.signum;
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, &before); /* libuv leaves the default behind */
    loop_signal_stop(watch);
    signal(number, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
