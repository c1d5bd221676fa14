#include "worker/departures.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/memory.h"
#include "worker/waiting_names.h"

struct departure {
    struct list link; /* in departures->under_way or departures->idle */
    struct departures *departures;
    struct redlock_lock *lock;
    struct instant since;
    struct buffer text; /* the names of the lists, each with its NUL */
    unsigned list_count;
};

struct departures {
    struct loop *loop;
    struct queue *queue;
    struct list under_way, idle;
};

struct departures *departures_create(struct loop *loop, struct queue *queue)
{
    struct departures *departures = memory_new(struct departures);
    departures->loop = loop;
    departures->queue = queue;
    list_init(&departures->under_way);
    list_init(&departures->idle);
    return departures;
}

static void departure_free(struct departure *departure)
{
    list_remove(&departure->link);
    buffer_fini(&departure->text);
    free(departure);
}

void departures_destroy(struct departures *departures)
{
    struct list *link = NULL;
    if (departures == NULL)
        return;
    while ((link = list_take_first(&departures->under_way)) != NULL) {
        struct departure *departure = list_owner(link, struct departure, link);
        redlock_lock_destroy(departure->lock);
        departure_free(departure);
    }
    while ((link = list_take_first(&departures->idle)) != NULL)
        departure_free(list_owner(link, struct departure, link));
    free(departures);
}

static void free_again(struct departure *departure)
{
    const char *lists[WAITING_NAMES_MAX];
    const char *text = departure->text.bytes;
    for (unsigned i = 0; i < departure->list_count; i++, text += strlen(text) + 1)
        lists[i] = text;
    queue_free(departure->departures->queue,
               &(struct waiting_end){.lists = lists, .list_count = departure->list_count});
}

static void departure_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct departure *departure = context;
    struct departures *departures = departure->departures;
    if (event->kind != REDLOCK_EVENT_RELEASED)
        return;
    if (departure->list_count > 0 && instant_since(departure->since, loop_now(departures->loop)) > DEPARTURE_LATE_NS)
        free_again(departure);
    list_remove(&departure->link);
    list_append(&departures->idle, &departure->link);
    redlock_lock_destroy(lock);
}

void departures_add(struct departures *departures, struct redlock_lock *lock, const char *const *lists,
                    unsigned list_count)
{
    struct list *idle = list_take_first(&departures->idle);
    struct departure *departure =
        idle != NULL ? list_owner(idle, struct departure, link) : memory_new(struct departure);
    if (idle == NULL)
        list_init(&departure->link);
    departure->departures = departures;
    departure->lock = lock;
    departure->since = loop_now(departures->loop);
    departure->list_count = list_count;
    buffer_clear(&departure->text);
    for (unsigned i = 0; i < list_count; i++)
        buffer_append(&departure->text, lists[i], strlen(lists[i]) + 1);
    list_append(&departures->under_way, &departure->link);
    redlock_lock_tell_to(lock, departure_event, departure);
}
