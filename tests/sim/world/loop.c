/* base/loop.h in virtual time. A cycle is as that of the real loop: deadlines first, before every callback; then what
 * is ready, messages and answers; last the hooks. */
#include "base/loop.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/world/network.h"
#include "tests/sim/world/world.h"

struct loop {
    struct process *process;
    struct thread *owner; /* NULL = it does not run */
    struct instant now;
    struct heap deadlines;
    struct list hooks[LOOP_STAGES];
    struct list watches, stopped, resolutions;
    struct mailbox mailbox;
    bool is_firing, is_stop_asked, is_stopped, is_rung;
};

struct loop_watch {
    struct list link;
    struct loop *loop;
    int fd, events;
    bool is_stopped;
    void (*ready)(void *context, int events);
    void *context;
};

struct loop_resolution {
    struct list link;
    struct loop *loop;
    struct world_event event;
    struct loop_message message;
    bool is_cancelled;
    struct loop_addresses found;
    char reason[80];
    char host[64];
    unsigned port;
    loop_resolved *done;
    void *context;
};

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

static void deadlines_fire(struct loop *loop)
{
    struct heap_item *first;
    loop->is_firing = true;
    while ((first = heap_first(&loop->deadlines)) != NULL && instant_reached(loop->now, first->at)) {
        heap_remove(&loop->deadlines, first);
        struct loop_timer *timer = list_owner(first, struct loop_timer, item);
        timer->fire(timer);
    }
    loop->is_firing = false;
}

/* A cycle takes no time here. */
void loop_measure_cycles(struct loop *loop, struct histogram *cycles)
{
    (void)loop;
    (void)cycles;
}

static void callback_enter(struct loop *loop)
{
    loop->now = instant_now();
    deadlines_fire(loop);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, struct instant at)
{
    if (loop->is_firing && instant_reached(loop->now, at))
        at = instant_after(loop->now, 1);
    heap_set(&loop->deadlines, &timer->item, at);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    heap_remove(&loop->deadlines, &timer->item);
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

void loop_at_cycle_end(struct loop *loop, enum loop_stage stage, struct loop_hook *hook)
{
    if (list_is_empty(&hook->link))
        list_append(&loop->hooks[stage], &hook->link);
}

void loop_hook_cancel(struct loop_hook *hook)
{
    list_remove(&hook->link);
}

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

/* --- messages ----------------------------------------------------------------------------------------------------- */

void loop_wake(struct loop *loop)
{
    loop->is_rung = true;
    thread_wake(loop->process, loop, true);
}

void loop_post(struct loop *loop, struct loop_message *message)
{
    mailbox_send(&loop->mailbox, &message->mail);
    loop_wake(loop);
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

/* --- descriptors -------------------------------------------------------------------------------------------------- */

struct loop_watch *loop_watch_start(struct loop *loop, int fd, int events, void (*ready)(void *context, int events),
                                    void *context)
{
    struct loop_watch *watch = memory_new(struct loop_watch);
    *watch = (struct loop_watch){.loop = loop, .fd = fd, .events = events, .ready = ready, .context = context};
    list_init(&watch->link);
    list_append(&loop->watches, &watch->link);
    socket_watch(fd, loop);
    if (socket_ready(fd) != 0)
        loop_wake(loop);
    return watch;
}

void loop_watch_change(struct loop_watch *watch, int events)
{
    invariant(!watch->is_stopped);
    watch->events = events;
    if ((socket_ready(watch->fd) & events) != 0)
        loop_wake(watch->loop);
}

void loop_watch_stop(struct loop_watch *watch)
{
    invariant(!watch->is_stopped);
    watch->is_stopped = true;
    socket_watch(watch->fd, NULL);
    list_remove(&watch->link);
    list_append(&watch->loop->stopped, &watch->link);
}

/* A callback may stop this watch and others: whoever was looked at goes to the end, so that each comes once. */
static void watches_look(struct loop *loop)
{
    unsigned count = 0;
    for (struct list *link = loop->watches.next; link != &loop->watches; link = link->next)
        count++;
    for (; count > 0 && !list_is_empty(&loop->watches); count--) {
        struct loop_watch *watch = list_owner(list_take_first(&loop->watches), struct loop_watch, link);
        list_append(&loop->watches, &watch->link);
        int events = socket_ready(watch->fd) & watch->events;
        if (events == 0)
            continue;
        callback_enter(loop);
        if (!watch->is_stopped)
            watch->ready(watch->context, events);
        if (!watch->is_stopped && (socket_ready(watch->fd) & watch->events) != 0)
            loop->is_rung = true; /* level-triggered */
    }
    for (struct list *link; (link = list_take_first(&loop->stopped)) != NULL;)
        free(list_owner(link, struct loop_watch, link));
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void resolution_deliver(struct loop_message *message)
{
    struct loop_resolution *resolution = list_owner(message, struct loop_resolution, message);
    list_remove(&resolution->link);
    if (!resolution->is_cancelled)
        resolution->done(resolution->context, resolution->found.count > 0 ? &resolution->found : NULL,
                         resolution->reason);
    free(resolution);
}

static void resolution_fire(struct world_event *event)
{
    struct loop_resolution *resolution = list_owner(event, struct loop_resolution, event);
    if (!resolution->loop->process->is_alive)
        return;
    struct loop_address *address = &resolution->found.items[0];
    if (network_resolve(resolution->host, resolution->port, (struct sockaddr_in *)&address->bytes))
        address->length = sizeof(struct sockaddr_in), resolution->found.count = 1;
    else
        snprintf(resolution->reason, sizeof resolution->reason, "Name or service not known");
    loop_post(resolution->loop, &resolution->message);
}

struct loop_resolution *loop_resolve(struct loop *loop, const char *host, unsigned port, loop_resolved *done,
                                     void *context)
{
    struct loop_resolution *resolution = memory_new(struct loop_resolution);
    resolution->loop = loop;
    resolution->event.fire = resolution_fire;
    resolution->message.deliver = resolution_deliver;
    snprintf(resolution->host, sizeof resolution->host, "%s", host);
    resolution->port = port;
    resolution->done = done;
    resolution->context = context;
    list_init(&resolution->link);
    list_append(&loop->resolutions, &resolution->link);
    world_at(&resolution->event,
             instant_after(world_time(), chance_scale(world_chance(), 20 * NS_PER_US, 2 * NS_PER_MS)));
    return resolution;
}

void loop_resolve_cancel(struct loop_resolution *resolution)
{
    resolution->is_cancelled = true;
}

/* --- signals: of commands at a terminal, which have none in the world --------------------------------------------- */

struct loop_signal {
    int number;
};

struct loop_signal *loop_signal_start(struct loop *loop, int number, void (*caught)(void *context, int number),
                                      void *context)
{
    (void)loop;
    (void)caught;
    (void)context;
    struct loop_signal *watch = memory_new(struct loop_signal);
    watch->number = number;
    return watch;
}

void loop_signal_stop(struct loop_signal *watch)
{
    free(watch);
}

void loop_signal_end(struct loop_signal *watch)
{
    free(watch);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct loop *loop_create(struct error *error)
{
    (void)error;
    struct loop *loop = memory_new(struct loop);
    loop->process = process_current();
    invariant(loop->process != NULL);
    loop->now = instant_now();
    for (int stage = 0; stage < LOOP_STAGES; stage++)
        list_init(&loop->hooks[stage]);
    list_init(&loop->watches);
    list_init(&loop->stopped);
    list_init(&loop->resolutions);
    return loop;
}

/* A look-up that was cancelled ends by itself, and finds no loop. */
static void resolutions_drop(struct loop *loop)
{
    for (struct list *link; (link = list_take_first(&loop->resolutions)) != NULL;) {
        struct loop_resolution *resolution = list_owner(link, struct loop_resolution, link);
        invariant(resolution->is_cancelled);
        world_cancel(&resolution->event);
        free(resolution);
    }
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    messages_deliver(loop);
    resolutions_drop(loop);
    invariant(list_is_empty(&loop->watches));
    /* What they belong to is freed by now. */
    invariant(heap_first(&loop->deadlines) == NULL && hook_take(loop) == NULL);
    for (struct list *link; (link = list_take_first(&loop->stopped)) != NULL;)
        free(list_owner(link, struct loop_watch, link));
    heap_fini(&loop->deadlines);
    free(loop);
}

static void cycle(struct loop *loop)
{
    callback_enter(loop);
    watches_look(loop);
    callback_enter(loop);
    bool is_stop_asked = loop->is_stop_asked;
    messages_deliver(loop);
    loop->is_stopped = is_stop_asked;
    hooks_run(loop);
}

void loop_run(struct loop *loop)
{
    struct thread *before = loop->owner;
    loop->owner = thread_current();
    loop->is_stopped = false;
    thread_set_in_cycle(true);
    callback_enter(loop);
    hooks_run(loop);
    while (!loop->is_stopped) {
        const struct heap_item *first = heap_first(&loop->deadlines);
        thread_set_in_cycle(false);
        if (!loop->is_rung)
            thread_wait(loop, first != NULL ? first->at : INSTANT_NEVER);
        else
            thread_wait(&loop->is_rung, instant_now()); /* others have their turn too */
        thread_set_in_cycle(true);
        loop->is_rung = false;
        cycle(loop);
    }
    loop->is_stop_asked = false;
    thread_set_in_cycle(false);
    loop->owner = before;
}

void loop_stop(struct loop *loop)
{
    loop->is_stop_asked = true;
    loop_wake(loop);
}

struct instant loop_now(const struct loop *loop)
{
    return loop->now;
}

void loop_assert_inside(const struct loop *loop)
{
    invariant(loop->owner == NULL || loop->owner == thread_current());
}
