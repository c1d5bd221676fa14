#include "worker/locks/program_releases.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct expected {
    struct program_releases *releases;
    struct redlock_watch *watch; /* NULL: the entry is empty */
    char *list;
    unsigned seat;
    struct instant until;
};

struct program_releases {
    struct loop *loop;
    struct redlock_group *group;
    void (*released)(void *context, const char *list);
    void *context;
    struct loop_timer timer;
    struct expected all[PROGRAM_RELEASES_MAX];
};

static void expected_end(struct expected *expected)
{
    redlock_watch_destroy(expected->watch);
    free(expected->list);
    expected->watch = NULL;
    expected->list = NULL;
}

static void timer_follow(struct program_releases *releases)
{
    struct instant next = INSTANT_NEVER;
    for (unsigned i = 0; i < PROGRAM_RELEASES_MAX; i++)
        if (releases->all[i].watch != NULL)
            next = instant_earlier(next, releases->all[i].until);
    if (next.ns == INSTANT_NEVER.ns)
        loop_timer_clear(releases->loop, &releases->timer);
    else
        loop_timer_set(releases->loop, &releases->timer, next);
}

static void timer_fire(struct loop_timer *timer)
{
    struct program_releases *releases = list_owner(timer, struct program_releases, timer);
    for (unsigned i = 0; i < PROGRAM_RELEASES_MAX; i++)
        if (releases->all[i].watch != NULL && instant_reached(loop_now(releases->loop), releases->all[i].until))
            expected_end(&releases->all[i]);
    timer_follow(releases);
}

static void heard(void *context)
{
    struct expected *expected = context;
    expected->releases->released(expected->releases->context, expected->list);
}

struct program_releases *program_releases_create(struct loop *loop, struct redlock_group *group,
                                                 void (*released)(void *context, const char *list), void *context)
{
    struct program_releases *releases = memory_new(struct program_releases);
    releases->loop = loop;
    releases->group = group;
    releases->released = released;
    releases->context = context;
    loop_timer_init(&releases->timer, timer_fire);
    return releases;
}

void program_releases_destroy(struct program_releases *releases)
{
    if (releases == NULL)
        return;
    for (unsigned i = 0; i < PROGRAM_RELEASES_MAX; i++)
        if (releases->all[i].watch != NULL)
            expected_end(&releases->all[i]);
    loop_timer_clear(releases->loop, &releases->timer);
    free(releases);
}

/* Workers write "host:pid:slot:jid". A program that writes the like is taken for a task, which wakes the next one by
 * itself. That is harmless: the oldest task is due when the lock would run out, as behind a worker that died. */
static bool is_of_a_task(const char *owner)
{
    static const char digits[] = "0123456789";
    for (const char *at = strchr(owner, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const char *pid_end = at + 1 + strspn(at + 1, digits);
        const char *slot_end = *pid_end == ':' ? pid_end + 1 + strspn(pid_end + 1, digits) : pid_end;
        if (pid_end > at + 1 && slot_end > pid_end + 1 && *slot_end == ':')
            return true;
    }
    return false;
}

/* That of the list and seat, else an empty one, else the one that ends first. */
static struct expected *expected_find(struct program_releases *releases, const char *list, unsigned seat)
{
    struct expected *found = &releases->all[0];
    for (unsigned i = 0; i < PROGRAM_RELEASES_MAX; i++) {
        struct expected *expected = &releases->all[i];
        bool is_empty = expected->watch == NULL;
        if (!is_empty && expected->seat == seat && strcmp(expected->list, list) == 0)
            return expected;
        if (found->watch != NULL && (is_empty || instant_before(expected->until, found->until)))
            found = expected;
    }
    return found;
}

static void expect(struct program_releases *releases, const char *list, const char *resource, unsigned seat,
                   struct instant until)
{
    struct expected *expected = expected_find(releases, list, seat);
    bool is_known = expected->watch != NULL && expected->seat == seat && strcmp(expected->list, list) == 0;
    if (!is_known && expected->watch != NULL)
        expected_end(expected);
    expected->until = until;
    if (is_known)
        return;
    expected->releases = releases;
    expected->seat = seat;
    expected->list = memory_text(list);
    expected->watch = redlock_watch_create(releases->group, resource, seat, heard, expected);
}

void program_releases_expect(struct program_releases *releases, const char *owner, const char *list,
                             const char *resource, unsigned limit, struct instant until)
{
    if (is_of_a_task(owner))
        return;
    for (unsigned seat = 1; seat <= limit; seat++)
        expect(releases, list, resource, seat, until);
    timer_follow(releases);
}
