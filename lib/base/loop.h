/* The event loop: one thread, every socket, every deadline. Only this module uses libuv.
 *
 * A cycle of the loop: wait for an event; take the time once; fire the deadlines that are due; deliver socket events,
 * messages and signals; last, run the cycle-end hooks. In these, each connection writes all output of the cycle with
 * one system call (automatic pipelining). Deadlines come first in every cycle, because an expired lock must count as
 * lost before any reply is believed.
 *
 * One heap holds all deadlines, and one timerfd on CLOCK_BOOTTIME serves them (libuv's timers stop in suspend). The
 * timerfd moves only for a deadline that is earlier than the one it is set for, so in the steady state deadlines cost
 * no system call.
 *
 * Threads: only the thread that runs loop_run calls these functions; before that, the one that created the loop. Any
 * thread may call loop_post and loop_stop. Callbacks must not block. */
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

/* Also makes the whole process ignore SIGPIPE: writing to a closed peer fails with EPIPE instead. */
struct loop *loop_create(struct error *error) MUST_CHECK;
/* Stop all watches, resolutions and signals first; no thread may post any more. Delivers pending messages, then
 * frees everything. Waits for look-ups that were cancelled while the resolver ran. */
void loop_destroy(struct loop *loop);
/* Returns after loop_stop, with the messages posted before it delivered and the hooks of the last cycle run. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* From now on records how long each cycle takes, from the first event to the next wait: one more look at the clock a
 * cycle. NULL = no longer. */
struct histogram;
void loop_measure_cycles(struct loop *loop, struct histogram *cycles);

/* The time of this cycle: read after the wait, so never ahead of the clock, and behind it by at most the cycle. Use it
 * as the start of a period, where earlier is safe. To decide whether something is still valid, read instant_now(). */
struct instant loop_now(const struct loop *loop);
/* A deadline `ns` after the time of this cycle. */
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

/* Sets or moves. Fires once, at or after `at`, and has left the heap by then: the callback may set it again or free
 * it. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, struct instant at);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); /* harmless when not set */

static inline bool loop_timer_is_set(const struct loop_timer *timer)
{
    return heap_holds(&timer->item);
}

/* --- the end of the cycle ------------------------------------------------------------------------------------ */

/* Runs `run` once at the end of this cycle, after all events, even if it was registered twice. Earlier stages run
 * first, so that the next stage writes what one stage produces (a batch of releases). A hook may register hooks of
 * its own or a later stage for the same cycle. */
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

void loop_at_cycle_end(struct loop *loop, enum loop_stage stage, struct loop_hook *hook);
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

enum { LOOP_ADDRESSES_MAX = 8 };

/* What a name stands for, in the order in which they are to be tried; one at least. */
struct loop_addresses {
    unsigned count;
    struct loop_address {
        struct sockaddr_storage bytes;
        socklen_t length;
    } items[LOOP_ADDRESSES_MAX];
};

/* With the addresses, or NULL and a reason. */
typedef void loop_resolved(void *context, const struct loop_addresses *found, const char *reason);
/* Resolves host and port off the loop. `done` runs once, unless cancelled, never inside loop_resolve; the resolution is
 * freed after it ran. A look-up that was cancelled goes on where it cannot be stopped. Whoever asks for the same host
 * and port before its answer comes gets that answer: asking again and again adds no look-up. */
struct loop_resolution *loop_resolve(struct loop *loop, const char *host, unsigned port, loop_resolved *done,
                                     void *context);
void loop_resolve_cancel(struct loop_resolution *resolution);

/* --- signals ------------------------------------------------------------------------------------------------ */

struct loop_signal; /* opaque */

struct loop_signal *loop_signal_start(struct loop *loop, int number, void (*caught)(void *context, int number),
                                      void *context);
/* Restores the default action of the signal. */
void loop_signal_stop(struct loop_signal *watch);
/* As loop_signal_stop, but the process ignores the signal from now on. */
void loop_signal_end(struct loop_signal *watch);

#endif
