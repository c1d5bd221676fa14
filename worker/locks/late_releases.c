#include "worker/locks/late_releases.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/memory.h"
#include "worker/locks/contention.h"
#include "worker/locks/stale_grants.h"

struct release_watch {
    struct list link; /* in late->under_way or late->idle */
    struct late_releases *late;
    struct redlock_lock *lock;
    struct instant since;
    struct buffer text; /* the names of the lists, each with its NUL */
    unsigned list_count;
};

struct late_releases {
    struct loop *loop;
    struct queue *queue;
    const struct redlock_terms *terms;
    struct list under_way, idle;
    struct stale_grants *stale;
    struct loop_timer retell;
};

/* --- what may be left --------------------------------------------------------------------------------------------- */

static void retell_follow(struct late_releases *late)
{
    struct instant next = stale_grants_next(late->stale);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(late->loop, &late->retell);
    else
        loop_timer_set(late->loop, &late->retell, next);
}

static void retell_fire(struct loop_timer *timer)
{
    struct late_releases *late = list_owner(timer, struct late_releases, retell);
    const char *list = NULL;
    while ((list = stale_grants_due(late->stale, loop_now(late->loop))) != NULL)
        queue_free(late->queue, &(struct waiting_end){.lists = &list, .list_count = 1});
    retell_follow(late);
}

void late_releases_doubt(struct late_releases *late, const char *const *lists, unsigned list_count)
{
    for (unsigned i = 0; i < list_count; i++)
        stale_grants_note(late->stale, lists[i], loop_now(late->loop), ns_from_ms(late->terms->ttl_ms));
    retell_follow(late);
}

/* --- releases under way ------------------------------------------------------------------------------------------- */

struct late_releases *late_releases_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms)
{
    struct late_releases *late = memory_new(struct late_releases);
    late->loop = loop;
    late->queue = queue;
    late->terms = terms;
    late->stale = stale_grants_create();
    loop_timer_init(&late->retell, retell_fire);
    list_init(&late->under_way);
    list_init(&late->idle);
    return late;
}

static void release_watch_free(struct release_watch *release)
{
    list_remove(&release->link);
    buffer_fini(&release->text);
    free(release);
}

void late_releases_destroy(struct late_releases *late)
{
    struct list *link = NULL;
    if (late == NULL)
        return;
    while ((link = list_take_first(&late->under_way)) != NULL) {
        struct release_watch *release = list_owner(link, struct release_watch, link);
        redlock_lock_destroy(release->lock);
        release_watch_free(release);
    }
    while ((link = list_take_first(&late->idle)) != NULL)
        release_watch_free(list_owner(link, struct release_watch, link));
    loop_timer_clear(late->loop, &late->retell);
    stale_grants_destroy(late->stale);
    free(late);
}

static void waiters_tell(struct release_watch *release, bool is_late, bool is_certain)
{
    const char *lists[WAITING_NAMES_MAX];
    const char *text = release->text.bytes;
    for (unsigned i = 0; i < release->list_count; i++, text += strlen(text) + 1)
        lists[i] = text;
    if (is_late)
        queue_free(release->late->queue, &(struct waiting_end){.lists = lists, .list_count = release->list_count});
    if (!is_certain)
        late_releases_doubt(release->late, lists, release->list_count);
}

static void late_release_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct release_watch *release = context;
    struct late_releases *late = release->late;
    if (event->kind != REDLOCK_EVENT_RELEASED)
        return;
    bool is_late = instant_since(release->since, loop_now(late->loop)) > LATE_RELEASE_NS;
    if (release->list_count > 0)
        waiters_tell(release, is_late, event->ending != REDLOCK_UNKNOWN);
    list_remove(&release->link);
    list_append(&late->idle, &release->link);
    redlock_lock_destroy(lock);
}

void late_releases_add(struct late_releases *late, struct redlock_lock *lock, const char *const *lists,
                       unsigned list_count)
{
    struct list *idle = list_take_first(&late->idle);
    struct release_watch *release =
        idle != NULL ? list_owner(idle, struct release_watch, link) : memory_new(struct release_watch);
    if (idle == NULL)
        list_init(&release->link);
    release->late = late;
    release->lock = lock;
    release->since = loop_now(late->loop);
    release->list_count = list_count;
    buffer_clear(&release->text);
    for (unsigned i = 0; i < list_count; i++)
        buffer_append(&release->text, lists[i], strlen(lists[i]) + 1);
    list_append(&late->under_way, &release->link);
    redlock_lock_tell_to(lock, late_release_event, release);
}
