#include "worker/locks/stale_grants.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/memory.h"
#include "queue/waiting.h"

struct stale_grant {
    struct list link;      /* in stale->noted, the latest last; or in stale->idle */
    struct heap_item next; /* when its waiters are woken next */
    int64_t pause_ns;      /* before that */
    struct instant until;
    char list[WAITING_LIST_BYTES_MAX + 1];
};

struct stale_grants {
    struct list noted, idle;
    struct heap heap;
};

struct stale_grants *stale_grants_create(void)
{
    struct stale_grants *table = memory_new(struct stale_grants);
    list_init(&table->noted);
    list_init(&table->idle);
    return table;
}

static void stale_grants_free(struct list *stale)
{
    for (struct list *link; (link = list_take_first(stale)) != NULL;)
        free(list_owner(link, struct stale_grant, link));
}

void stale_grants_destroy(struct stale_grants *table)
{
    if (table == NULL)
        return;
    heap_fini(&table->heap); /* it does not own its items */
    stale_grants_free(&table->noted);
    stale_grants_free(&table->idle);
    free(table);
}

static void forget(struct stale_grants *table, struct stale_grant *grant)
{
    heap_remove(&table->heap, &grant->next);
    list_remove(&grant->link);
    list_append(&table->idle, &grant->link);
}

static struct stale_grant *find(const struct stale_grants *table, const char *list)
{
    for (struct list *link = table->noted.next; link != &table->noted; link = link->next) {
        struct stale_grant *grant = list_owner(link, struct stale_grant, link);
        if (strcmp(grant->list, list) == 0)
            return grant;
    }
    return NULL;
}

static struct stale_grant *new_one(struct stale_grants *table, const char *list, struct instant now)
{
    if (table->heap.count == STALE_GRANTS_MAX)
        forget(table, list_owner(table->noted.next, struct stale_grant, link));
    struct list *idle = list_take_first(&table->idle);
    struct stale_grant *grant =
        idle != NULL ? list_owner(idle, struct stale_grant, link) : memory_new(struct stale_grant);
    size_t length = strnlen(list, WAITING_LIST_BYTES_MAX);
    memcpy(grant->list, list, length);
    grant->list[length] = '\0';
    grant->until = now;
    grant->pause_ns = STALE_GRANTS_FIRST_NS;
    grant->next = (struct heap_item){.position = 0};
    list_init(&grant->link);
    heap_set(&table->heap, &grant->next, instant_after(now, grant->pause_ns));
    return grant;
}

void stale_grants_note(struct stale_grants *table, const char *list, struct instant now, int64_t lasts_ns)
{
    struct stale_grant *grant = find(table, list);
    struct instant until = instant_after(now, lasts_ns);
    if (grant == NULL)
        grant = new_one(table, list, now);
    list_remove(&grant->link);
    list_append(&table->noted, &grant->link);
    if (instant_before(grant->until, until))
        grant->until = until;
}

struct instant stale_grants_next(const struct stale_grants *table)
{
    const struct heap_item *first = heap_first(&table->heap);
    return first != NULL ? first->at : INSTANT_NEVER;
}

/* The text of a removed entry stays valid until another call reuses the entry. */
const char *stale_grants_due(struct stale_grants *table, struct instant now)
{
    struct heap_item *first = heap_first(&table->heap);
    if (first == NULL || instant_before(now, first->at))
        return NULL;
    struct stale_grant *grant = list_owner(first, struct stale_grant, next);
    int64_t twice_ns = 2 * grant->pause_ns;
    grant->pause_ns = twice_ns < STALE_GRANTS_PAUSE_MAX_NS ? twice_ns : STALE_GRANTS_PAUSE_MAX_NS;
    struct instant next = instant_after(now, grant->pause_ns);
    if (instant_before(grant->until, next))
        forget(table, grant);
    else
        heap_set(&table->heap, first, next);
    return grant->list;
}
