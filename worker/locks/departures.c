#include "worker/locks/departures.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/memory.h"
#include "worker/locks/remnants.h"
#include "worker/locks/contention.h"

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
    const struct redlock_terms *terms;
    struct list under_way, idle;
    struct remnants *remnants;
    struct loop_timer retell;
};

/* --- what may be left --------------------------------------------------------------------------------------------- */

static void retell_follow(struct departures *departures)
{
    struct instant next = remnants_next(departures->remnants);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(departures->loop, &departures->retell);
    else
        loop_timer_set(departures->loop, &departures->retell, next);
}

static void retell_fire(struct loop_timer *timer)
{
    struct departures *departures = list_owner(timer, struct departures, retell);
    const char *list = NULL;
    while ((list = remnants_due(departures->remnants, loop_now(departures->loop))) != NULL)
        queue_free(departures->queue, &(struct waiting_end){.lists = &list, .list_count = 1});
    retell_follow(departures);
}

void departures_doubt(struct departures *departures, const char *const *lists, unsigned list_count)
{
    for (unsigned i = 0; i < list_count; i++)
        remnants_note(departures->remnants, lists[i], loop_now(departures->loop), departures->terms->ttl_ns);
    retell_follow(departures);
}

/* --- releases under way ------------------------------------------------------------------------------------------- */

struct departures *departures_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms)
{
    struct departures *departures = memory_new(struct departures);
    departures->loop = loop;
    departures->queue = queue;
    departures->terms = terms;
    departures->remnants = remnants_create();
    loop_timer_init(&departures->retell, retell_fire);
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
    loop_timer_clear(departures->loop, &departures->retell);
    remnants_destroy(departures->remnants);
    free(departures);
}

static void waiters_tell(struct departure *departure, bool is_late, bool is_certain)
{
    const char *lists[WAITING_NAMES_MAX];
    const char *text = departure->text.bytes;
    for (unsigned i = 0; i < departure->list_count; i++, text += strlen(text) + 1)
        lists[i] = text;
    if (is_late)
        queue_free(departure->departures->queue,
                   &(struct waiting_end){.lists = lists, .list_count = departure->list_count});
    if (!is_certain)
        departures_doubt(departure->departures, lists, departure->list_count);
}

static void departure_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct departure *departure = context;
    struct departures *departures = departure->departures;
    if (event->kind != REDLOCK_EVENT_RELEASED)
        return;
    bool is_late = instant_since(departure->since, loop_now(departures->loop)) > DEPARTURE_LATE_NS;
    if (departure->list_count > 0)
        waiters_tell(departure, is_late, event->ending != REDLOCK_UNKNOWN);
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
