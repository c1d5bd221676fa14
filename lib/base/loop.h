/* The loop: one thread, every socket, every deadline. This is the only place that knows libuv.
 *
 * A turn of the loop: wait for something to happen; take the time once; fire the deadlines that are due; then hand
 * out socket events, messages and signals; last, run the turn-end hooks, in which connections write everything that
 * gathered during the turn in one system call each (automatic pipelining). Deadlines come first in every turn,
 * because a lock that has run out must be seen as lost before any reply is believed.
 *
 * Deadlines sit in one heap behind one timerfd on CLOCK_BOOTTIME (libuv's timers stand still in suspend). The
 * timerfd is moved only when an earlier deadline arrives than the one it is set for, so that setting and clearing
 * deadlines costs no system call in the steady state.
 *
 * Threads: everything here belongs to the loop thread, the one that runs loop_run; before that, to the one that
 * created the loop. The exceptions are loop_post and loop_stop, which any thread may call. Callbacks must not block. */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mailbox.h"

struct loop;

/* Also makes the whole process ignore SIGPIPE: a peer that has gone shows as EPIPE where it is written to. */
struct loop *loop_create(struct error *error) MUST_CHECK;
/* All watches, resolutions and signals must have been stopped and no thread may post any more; delivers the messages
 * that are still there, and frees the rest. Waits for look-ups that were cancelled while the resolver was at work. */
void loop_destroy(struct loop *loop);
/* Returns after loop_stop, with the messages posted before it delivered and the hooks of the last turn run. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* The time of this turn: read after the wait, so never later than the clock and late by at most the turn. Use it
 * for the start of things (an earlier start is the safe side); where "is it still valid" is decided, read
 * instant_now(). */
struct instant loop_now(const struct loop *loop);
/* So much after the time of this turn: a deadline. */
static inline struct instant loop_after(const struct loop *loop, int64_t ns)
{
    return instant_after(loop_now(loop), ns);
}
/* Aborts when called on another thread than the loop's. */
void loop_assert_inside(const struct loop *loop);

/* --- deadlines ---------------------------------------------------------------------------------------------- */

struct loop_timer {
    struct heap_item item;
    void (*fire)(struct loop_timer *timer);
};

static inline void loop_timer_init(struct loop_timer *timer, void (*fire)(struct loop_timer *timer))
{
    *timer = (struct loop_timer){.fire = fire};
}

/* Sets or moves. Fires once, at or after `at`, out of the heap by then: the callback may set it again or free it. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, struct instant at);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); /* harmless when not set */

static inline bool loop_timer_is_set(const struct loop_timer *timer)
{
    return heap_holds(&timer->item);
}

/* --- the end of the turn ------------------------------------------------------------------------------------ */

/* Runs `run` once at the end of this turn, after all events; hooks asked for twice run once. Earlier stages run
 * first, so that what one stage produces (a batch of releases) leaves in the writes of the next. A hook may ask for
 * hooks of its own or a later stage in the same turn. */
enum loop_stage { LOOP_GATHER, LOOP_BATCH, LOOP_WRITE, LOOP_STAGES };

struct loop_hook {
    struct list link;
    void (*run)(struct loop_hook *hook);
};

static inline void loop_hook_init(struct loop_hook *hook, void (*run)(struct loop_hook *hook))
{
    list_init(&hook->link);
    hook->run = run;
}

void loop_at_turn_end(struct loop *loop, enum loop_stage stage, struct loop_hook *hook);
void loop_hook_cancel(struct loop_hook *hook);

/* --- file descriptors --------------------------------------------------------------------------------------- */

enum { LOOP_READABLE = 1, LOOP_WRITABLE = 2 };

struct loop_watch; /* opaque */

/* `fd` must be non-blocking; the watch does not own it. `ready` gets a mask of LOOP_*; an error condition on the fd
 * is reported as both, so that the next read or write finds it. */
struct loop_watch *loop_watch_start(struct loop *loop, int fd, int events, void (*ready)(void *context, int events),
                                    void *context);
void loop_watch_change(struct loop_watch *watch, int events);
/* No callback runs after this; call it before closing the fd. */
void loop_watch_stop(struct loop_watch *watch);

/* --- messages from other threads ---------------------------------------------------------------------------- */

struct loop_message {
    struct mail mail;
    void (*deliver)(struct loop_message *message); /* runs on the loop thread, exactly once */
};

/* Any thread. The message belongs to the loop until it is delivered. Many posts cost one wake-up. */
void loop_post(struct loop *loop, struct loop_message *message);

/* --- names -------------------------------------------------------------------------------------------------- */

struct loop_resolution; /* opaque */

/* Resolves host and port off the loop. `done` runs once, unless cancelled: on success with one address, on failure
 * with address = NULL and a reason. It never runs inside loop_resolve, and the resolution is gone once it ran. */
struct loop_resolution *loop_resolve(struct loop *loop, const char *host, unsigned port,
                                     void (*done)(void *context, const struct sockaddr *address, socklen_t length,
                                                  const char *reason),
                                     void *context);
void loop_resolve_cancel(struct loop_resolution *resolution);

/* --- signals ------------------------------------------------------------------------------------------------ */

struct loop_signal; /* opaque */

struct loop_signal *loop_signal_start(struct loop *loop, int number, void (*caught)(void *context, int number),
                                      void *context);
/* The signal meets its default again. */
void loop_signal_stop(struct loop_signal *watch);
/* The same for the last watch of a signal of which the process wants to hear no more: it ignores it from now on. */
void loop_signal_end(struct loop_signal *watch);

#endif
