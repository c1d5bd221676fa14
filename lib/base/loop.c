/* The loop: its life, its deadlines, its cycle-end hooks and its messages; file descriptors, signals and names.
 *
 * A cycle, in the order in which libuv takes it:
 *
 *     prepare   cycle-end hooks, stage by stage, until none is left; then the timerfd is moved if the earliest
 *               deadline lies before the one it is set for
 *     poll      wait; then the callbacks of everything that is ready, each of which begins with loop_enter
 *     close     frees stopped watches; runs no code of the users
 *
 * Only callbacks, and code before the loop runs, register hooks and deadlines. Prepare runs between each of these and
 * the next wait, so none of them is left for an event that may not come. The timerfd moves only in prepare: that is at
 * most one system call a cycle, and none for a deadline that is cleared within the cycle or is later than another.
 *
 * The timerfd may expire for a deadline that was cleared or has fired meanwhile. Then nothing is due, and prepare
 * sets it for the next one. It never expires late: when the loop waits, `armed` is never later than the earliest
 * deadline. */
#include "base/loop.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/histogram.h"
#include "base/invariant.h"
#include "base/memory.h"

struct loop {
    uv_loop_t uv;
    uv_prepare_t before_wait; /* runs the cycle-end hooks and moves the timerfd */
    uv_async_t wake;          /* a message arrived, or loop_stop was called */
    uv_poll_t alarm;          /* the timerfd */
    int alarm_fd;

    struct instant now;
    struct histogram *cycles;   /* NULL = they are not measured */
    struct instant cycle_began; /* 0 = none has since the last wait */
    struct heap deadlines;
    struct instant armed; /* when the timerfd expires; INSTANT_NEVER after it did */
    bool firing;          /* inside fire_due */

    struct list hooks[LOOP_STAGES];
    struct list abandoned; /* look-ups that were cancelled and go on */
    struct mailbox mailbox;
    atomic_bool stop_asked;
    _Atomic(pthread_t) owner; /* 0 = none: the loop does not run */

    size_t watches, resolutions, signals; /* live ones: none may outlive the loop */
};

/* --- deadlines ---------------------------------------------------------------------------------------------- */

static void fire_due(struct loop *loop)
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

/* The first act of every callback of libuv: take the time and fire what is due, before any input is read. It costs
 * one vDSO call and a look at the top of the heap. A deadline may stop or cancel the object whose callback this is,
 * so the caller looks at its own state only afterwards. */
static void loop_enter(struct loop *loop)
{
    loop->now = instant_now();
    if (loop->cycle_began.ns == 0)
        loop->cycle_began = loop->now;
    const struct heap_item *first = heap_first(&loop->deadlines);
    if (first != NULL && instant_reached(loop->now, first->at))
        fire_due(loop);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, struct instant at)
{
    loop_assert_inside(loop);
    /* a deadline that a callback sets, due already, waits for the next cycle: sockets must get their turn in between */
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

    /* zero would disarm the timerfd */
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
    (void)length; /* nothing to read: the timerfd was moved after it expired, and will expire again */
    loop->armed = INSTANT_NEVER;
    loop_enter(loop);
}

/* --- the end of the cycle ------------------------------------------------------------------------------------ */

void loop_at_cycle_end(struct loop *loop, enum loop_stage stage, struct loop_hook *hook)
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

static void cycle_ends(uv_prepare_t *before_wait)
{
    struct loop *loop = before_wait->data;
    hooks_run(loop);
    alarm_arm(loop);
    if (loop->cycles != NULL && loop->cycle_began.ns != 0)
        histogram_record(loop->cycles, instant_since(loop->cycle_began, instant_now()) / NS_PER_US);
    loop->cycle_began.ns = 0;
}

void loop_measure_cycles(struct loop *loop, struct histogram *cycles)
{
    loop_assert_inside(loop);
    loop->cycles = cycles;
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
        mail = mail->next; /* before the receiver may free the message */
        message->deliver(message);
    }
}

static void woken(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    loop_enter(loop);
    /* read first: messages posted before loop_stop are delivered before the loop stops */
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

/* Also waits for cancelled look-ups: the resolver cannot be interrupted, and it writes into memory of the loop. */
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
        status = uv_prepare_start(&loop->before_wait, cycle_ends);
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
    list_init(&loop->abandoned);

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
    hooks_run(loop); /* of the last cycle: libuv returned after the events, before the next prepare */
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

/* --- file descriptors --------------------------------------------------------------------------------------------- */

/* File descriptors in the loop: one uv_poll_t each, level-triggered.
 *
 * libuv takes two system calls to change what a uv_poll_t waits for, so setting the same events again is skipped.
 * Connections wait for room to write only while the kernel refuses their bytes, which is rare. */

_Static_assert((int)LOOP_READABLE == (int)UV_READABLE && (int)LOOP_WRITABLE == (int)UV_WRITABLE,
               "libuv's masks are passed on as they are");

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
        return; /* stopped by a deadline just now */

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
    /* takes the fd out of epoll at once, and frees the watch after this cycle's events */
    uv_close((uv_handle_t *)&watch->poll, poll_closed);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

/* libuv's handler writes the number into a pipe, so the callback of a signal runs like any other. */

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
    pthread_sigmask(SIG_BLOCK, &blocked, &before); /* libuv restores the default action */
    loop_signal_stop(watch);
    signal(number, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- names to addresses ------------------------------------------------------------------------------------------- */

/* Names to addresses. getaddrinfo blocks, for many seconds if a name server is silent, so libuv runs it in a thread of
 * its pool. A numeric address needs no thread. Its answer, and every refusal that is known at once, comes from a
 * deadline that is due immediately, so that `done` never runs inside loop_resolve.
 *
 * Once the resolver has begun, a look-up cannot be stopped. Cancelling forgets the caller; whoever asks for the same
 * next takes it over. Otherwise one name whose server is silent would soon occupy all threads of the pool, and a server
 * that takes longer than its callers wait would never be heard. The memory is freed when the resolver returns, and
 * loop_destroy waits for that. */

struct loop_resolution {
    uv_getaddrinfo_t request;
    struct loop *loop;
    struct list link; /* in loop->abandoned */
    char *host;
    unsigned port;
    struct loop_timer answer; /* set when the answer is known already */
    bool in_resolver;
    loop_resolved *done; /* NULL = cancelled */
    void *context;

    struct loop_addresses found; /* none = failed, see reason */
    const char *reason;
};

static void resolution_free(struct loop_resolution *resolution)
{
    list_remove(&resolution->link);
    free(resolution->host);
    free(resolution);
}

static void answer_give(struct loop_resolution *resolution)
{
    resolution->loop->resolutions--;
    resolution->done(resolution->context, resolution->found.count > 0 ? &resolution->found : NULL, resolution->reason);
    resolution_free(resolution);
}

static void answer_due(struct loop_timer *timer)
{
    answer_give(list_owner(timer, struct loop_resolution, answer));
}

static void answer_later(struct loop_resolution *resolution)
{
    loop_timer_set(resolution->loop, &resolution->answer, loop_now(resolution->loop));
}

/* The system's resolver has sorted them. */
static void addresses_keep(struct loop_resolution *resolution, const struct addrinfo *given)
{
    struct loop_addresses *found = &resolution->found;
    for (; given != NULL && found->count < LOOP_ADDRESSES_MAX; given = given->ai_next) {
        struct loop_address *address = &found->items[found->count];
        if (given->ai_addrlen > sizeof address->bytes)
            continue;
        memcpy(&address->bytes, given->ai_addr, given->ai_addrlen);
        address->length = given->ai_addrlen;
        found->count++;
    }
    if (found->count == 0)
        resolution->reason = "the name has no address";
}

static bool address_from_digits(struct loop_resolution *resolution, const char *host, const char *service)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return false;
    addresses_keep(resolution, found);
    freeaddrinfo(found);
    return true;
}

static void resolver_done(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct loop_resolution *resolution = request->data;
    loop_enter(resolution->loop);
    if (resolution->done == NULL) {
        resolution_free(resolution);
    } else {
        if (status == 0)
            addresses_keep(resolution, found);
        else
            resolution->reason = uv_strerror(status);
        answer_give(resolution);
    }
    uv_freeaddrinfo(found);
}

static void resolver_ask(struct loop_resolution *resolution, const char *host, const char *service)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    resolution->request.data = resolution;
    int status = uv_getaddrinfo(&resolution->loop->uv, &resolution->request, resolver_done, host, service, &hints);
    if (status == 0) {
        resolution->in_resolver = true;
    } else {
        resolution->reason = uv_strerror(status);
        answer_later(resolution);
    }
}

static struct loop_resolution *resolution_create(struct loop *loop, const char *host, unsigned port)
{
    struct loop_resolution *resolution = memory_new(struct loop_resolution);
    resolution->loop = loop;
    resolution->host = memory_text(host);
    resolution->port = port;
    list_init(&resolution->link);
    loop_timer_init(&resolution->answer, answer_due);
    return resolution;
}

static struct loop_resolution *abandoned_find(struct loop *loop, const char *host, unsigned port)
{
    for (struct list *link = loop->abandoned.next; link != &loop->abandoned; link = link->next) {
        struct loop_resolution *resolution = list_owner(link, struct loop_resolution, link);
        if (resolution->port == port && strcmp(resolution->host, host) == 0)
            return resolution;
    }
    return NULL;
}

struct loop_resolution *loop_resolve(struct loop *loop, const char *host, unsigned port, loop_resolved *done,
                                     void *context)
{
    loop_assert_inside(loop);
    struct loop_resolution *resolution = abandoned_find(loop, host, port);
    bool is_new = resolution == NULL;
    if (is_new)
        resolution = resolution_create(loop, host, port);
    list_remove(&resolution->link);
    resolution->done = done;
    resolution->context = context;
    loop->resolutions++;

    char service[16];
    snprintf(service, sizeof service, "%u", port);
    if (!is_new) {
        /* The resolver works on it. */
    } else if (port > UINT16_MAX) {
        resolution->reason = "the port is above 65535";
        answer_later(resolution);
    } else if (address_from_digits(resolution, host, service)) {
        answer_later(resolution);
    } else {
        resolver_ask(resolution, host, service);
    }
    return resolution;
}

void loop_resolve_cancel(struct loop_resolution *resolution)
{
    loop_assert_inside(resolution->loop);
    invariant(resolution->done != NULL);
    resolution->loop->resolutions--;
    if (!resolution->in_resolver) {
        loop_timer_clear(resolution->loop, &resolution->answer);
        resolution_free(resolution);
        return;
    }
    resolution->done = NULL;
    if (uv_cancel((uv_req_t *)&resolution->request) != 0) /* a thread has begun */
        list_append(&resolution->loop->abandoned, &resolution->link);
}
