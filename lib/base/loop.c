/* The loop itself: its life, its deadlines, its turn-end hooks and its messages. File descriptors, signals and names
 * have files of their own (loop_watch.c, loop_signal.c, loop_resolve.c).
 *
 * A turn, in the order in which libuv takes it:
 *
 *     prepare   turn-end hooks, stage by stage, until none is left; then the timerfd is moved if the earliest
 *               deadline lies before the one it is set for
 *     poll      wait; then the callbacks of everything that is ready, each of which begins with loop_enter
 *     close     frees stopped watches; runs no code of the users
 *
 * Hooks and deadlines can only be asked for in callbacks, or before the loop runs, and prepare comes between each of
 * these and the next wait: so none of them is ever left for an event that may not come. Moving the timerfd there and
 * nowhere else makes it at most one system call a turn, and none at all for a deadline that is set and cleared within
 * the turn or lies behind an earlier one.
 *
 * The timerfd may go off for a deadline that has been cleared or fired meanwhile; then nothing is due, and prepare
 * sets it for the next. It never goes off late: `armed` is never later than the earliest deadline when the loop
 * waits. */
#include "base/loop_private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/memory.h"

/* --- deadlines ---------------------------------------------------------------------------------------------- */

void loop_fire_due(struct loop *loop)
{
    struct heap_item *first;
    loop->firing = true;
    while ((first = heap_first(&loop->deadlines)) != NULL && instant_reached(loop->now, first->at)) {
        heap_remove(&loop->deadlines, first);
        struct loop_timer *timer = list_owner(first, struct loop_timer, item);
        timer->fire(timer);
    }
    loop->firing = false;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, struct instant at)
{
    loop_assert_inside(loop);
    /* a callback that sets what is due already waits for the next turn: the sockets must get theirs in between */
    if (loop->firing && instant_reached(loop->now, at))
        at = instant_after(loop->now, 1);
    heap_set(&loop->deadlines, &timer->item, at);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    heap_remove(&loop->deadlines, &timer->item);
}

static void alarm_arm(struct loop *loop)
{
    const struct heap_item *first = heap_first(&loop->deadlines);
    if (first == NULL || !instant_before(first->at, loop->armed))
        return;

    /* zero would switch the timerfd off */
    int64_t at_ns = first->at.ns > 0 ? first->at.ns : 1;
    struct itimerspec at = {.it_value = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S}};
    invariant(timerfd_settime(loop->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
    loop->armed = first->at;
}

static void alarm_rang(uv_poll_t *alarm, int status, int events)
{
    (void)status;
    (void)events;
    struct loop *loop = alarm->data;
    uint64_t times;
    ssize_t length = read(loop->alarm_fd, &times, sizeof times);
    (void)length; /* nothing there: the alarm was moved after it had gone off, and will ring again */
    loop->armed = INSTANT_NEVER;
    loop_enter(loop);
}

/* --- the end of the turn ------------------------------------------------------------------------------------ */

void loop_at_turn_end(struct loop *loop, enum loop_stage stage, struct loop_hook *hook)
{
    if (list_is_empty(&hook->link))
        list_append(&loop->hooks[stage], &hook->link);
}

void loop_hook_cancel(struct loop_hook *hook)
{
    list_remove(&hook->link);
}

/* The next hook in the order of the stages. */
static struct loop_hook *hook_take(struct loop *loop)
{
    for (int stage = 0; stage < LOOP_STAGES; stage++) {
        struct list *link = list_take_first(&loop->hooks[stage]);
        if (link != NULL)
            return list_owner(link, struct loop_hook, link);
    }
    return NULL;
}

static void hooks_run(struct loop *loop)
{
    for (struct loop_hook *hook; (hook = hook_take(loop)) != NULL;)
        hook->run(hook);
}

static void turn_ends(uv_prepare_t *before_wait)
{
    struct loop *loop = before_wait->data;
    hooks_run(loop);
    alarm_arm(loop);
}

/* --- messages ----------------------------------------------------------------------------------------------- */

void loop_post(struct loop *loop, struct loop_message *message)
{
    if (mailbox_send(&loop->mailbox, &message->mail))
        uv_async_send(&loop->wake);
}

static void messages_deliver(struct loop *loop)
{
    struct mail *mail = mailbox_take(&loop->mailbox);
    while (mail != NULL) {
        struct loop_message *message = list_owner(mail, struct loop_message, mail);
        mail = mail->next; /* before the message is given away */
        message->deliver(message);
    }
}

static void woken(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    loop_enter(loop);
    /* asked first: what was posted before loop_stop is delivered before the loop stops */
    bool stop = atomic_exchange(&loop->stop_asked, false);
    messages_deliver(loop);
    if (stop)
        uv_stop(&loop->uv);
}

/* --- life --------------------------------------------------------------------------------------------------- */

static void handle_close(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Waits for cancelled look-ups too: the resolver cannot be interrupted, and it writes into memory of the loop. */
static void handles_close(struct loop *loop)
{
    uv_walk(&loop->uv, handle_close, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    invariant(uv_loop_close(&loop->uv) == 0);
}

static int handles_open(struct loop *loop)
{
    int status = uv_prepare_init(&loop->uv, &loop->before_wait);
    loop->before_wait.data = loop;
    if (status == 0)
        status = uv_prepare_start(&loop->before_wait, turn_ends);
    if (status == 0)
        status = uv_async_init(&loop->uv, &loop->wake, woken);
    loop->wake.data = loop;
    if (status == 0)
        status = uv_poll_init(&loop->uv, &loop->alarm, loop->alarm_fd);
    loop->alarm.data = loop;
    if (status == 0)
        status = uv_poll_start(&loop->alarm, UV_READABLE, alarm_rang);
    return status;
}

static bool loop_open(struct loop *loop, struct error *error)
{
    loop->alarm_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->alarm_fd < 0)
        return error_set(error, "cannot create a timerfd for the event loop: %s", strerror(errno));

    int status = uv_loop_init(&loop->uv);
    if (status == 0) {
        status = handles_open(loop);
        if (status == 0)
            return true;
        handles_close(loop);
    }
    close(loop->alarm_fd);
    return error_set(error, "cannot create the event loop: %s; is the limit of open files (ulimit -n) too low?",
                     uv_strerror(status));
}

struct loop *loop_create(struct error *error)
{
    struct loop *loop = memory_new(struct loop);
    loop->armed = INSTANT_NEVER;
    loop->now = instant_now();
    atomic_init(&loop->owner, pthread_self());
    for (int stage = 0; stage < LOOP_STAGES; stage++)
        list_init(&loop->hooks[stage]);

    if (!loop_open(loop, error)) {
        free(loop);
        return NULL;
    }
    signal(SIGPIPE, SIG_IGN);
    return loop;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    invariant(loop->watches == 0 && loop->resolutions == 0 && loop->signals == 0);
    messages_deliver(loop);
    heap_fini(&loop->deadlines);
    handles_close(loop);
    close(loop->alarm_fd);
    free(loop);
}

void loop_run(struct loop *loop)
{
    atomic_store(&loop->owner, pthread_self());
    loop_enter(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    hooks_run(loop); /* of the last turn: libuv has left after the events, before the next prepare */
    atomic_store(&loop->owner, (pthread_t)0);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stop_asked, true);
    uv_async_send(&loop->wake);
}

struct instant loop_now(const struct loop *loop)
{
    return loop->now;
}

void loop_assert_inside(const struct loop *loop)
{
    pthread_t owner = atomic_load_explicit(&loop->owner, memory_order_relaxed);
    invariant(owner == (pthread_t)0 || pthread_equal(owner, pthread_self()));
}
