#include "worker/locks/late_releases.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/memory.h"
#include "worker/locks/stale_grants.h"
#include "worker/locks/contention.h"

struct release_watch {
    struct list link; /* in pending->under_way or pending->idle */
    struct late_releases *pending;
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

static void retell_follow(struct late_releases *pending)
{
    struct instant next = stale_grants_next(pending->stale);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(pending->loop, &pending->retell);
    else
        loop_timer_set(pending->loop, &pending->retell, next);
}

static void retell_fire(struct loop_timer *timer)
{
    struct late_releases *pending = list_owner(timer, struct late_releases, retell);
    const char *list = NULL;
    while ((list = stale_grants_due(pending->stale, loop_now(pending->loop))) != NULL)
        queue_free(pending->queue, &(struct waiting_end){.lists = &list, .list_count = 1});
    retell_follow(pending);
}

void late_releases_doubt(struct late_releases *pending, const char *const *lists, unsigned list_count)
{
    for (unsigned i = 0; i < list_count; i++)
        stale_grants_note(pending->stale, lists[i], loop_now(pending->loop), ns_from_ms(pending->terms->ttl_ms));
    retell_follow(pending);
}

/* --- releases under way ------------------------------------------------------------------------------------------- */

struct late_releases *late_releases_create(struct loop *loop, struct queue *queue, const struct redlock_terms *terms)
{
    struct late_releases *pending = memory_new(struct late_releases);
    pending->loop = loop;
    pending->queue = queue;
    pending->terms = terms;
    pending->stale = stale_grants_create();
    loop_timer_init(&pending->retell, retell_fire);
    list_init(&pending->under_way);
    list_init(&pending->idle);
    return pending;
}

static void release_watch_free(struct release_watch *release)
{
    list_remove(&release->link);
    buffer_fini(&release->text);
    free(release);
}

void late_releases_destroy(struct late_releases *pending)
{
    struct list *link = NULL;
    if (pending == NULL)
        return;
    while ((link = list_take_first(&pending->under_way)) != NULL) {
        struct release_watch *release = list_owner(link, struct release_watch, link);
        redlock_lock_destroy(release->lock);
        release_watch_free(release);
    }
    while ((link = list_take_first(&pending->idle)) != NULL)
        release_watch_free(list_owner(link, struct release_watch, link));
    loop_timer_clear(pending->loop, &pending->retell);
    stale_grants_destroy(pending->stale);
    free(pending);
}

static void waiters_tell(struct release_watch *release, bool is_late, bool is_certain)
{
    const char *lists[WAITING_NAMES_MAX];
    const char *text = release->text.bytes;
    for (unsigned i = 0; i < release->list_count; i++, text += strlen(text) + 1)
        lists[i] = text;
    if (is_late)
        queue_free(release->pending->queue, &(struct waiting_end){.lists = lists, .list_count = release->list_count});
    if (!is_certain)
        late_releases_doubt(release->pending, lists, release->list_count);
}

static void pending_release_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct release_watch *release = context;
    struct late_releases *pending = release->pending;
    if (event->kind != REDLOCK_EVENT_RELEASED)
        return;
    bool is_late = instant_since(release->since, loop_now(pending->loop)) > PENDING_RELEASE_LATE_NS;
    if (release->list_count > 0)
        waiters_tell(release, is_late, event->ending != REDLOCK_UNKNOWN);
    list_remove(&release->link);
    list_append(&pending->idle, &release->link);
    redlock_lock_destroy(lock);
}

void late_releases_add(struct late_releases *pending, struct redlock_lock *lock, const char *const *lists,
                       unsigned list_count)
{
    struct list *idle = list_take_first(&pending->idle);
    struct release_watch *release =
        idle != NULL ? list_owner(idle, struct release_watch, link) : memory_new(struct release_watch);
    if (idle == NULL)
        list_init(&release->link);
    release->pending = pending;
    release->lock = lock;
    release->since = loop_now(pending->loop);
    release->list_count = list_count;
    buffer_clear(&release->text);
    for (unsigned i = 0; i < list_count; i++)
        buffer_append(&release->text, lists[i], strlen(lists[i]) + 1);
    list_append(&pending->under_way, &release->link);
    redlock_lock_tell_to(lock, pending_release_event, release);
}
