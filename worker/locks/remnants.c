#include "worker/locks/remnants.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/memory.h"
#include "queue/waiting.h"

struct remnant {
    struct list link;      /* in remnants->noted, the one that was noted last at the end; or in remnants->idle */
    struct heap_item next; /* when it is told */
    int64_t pause_ns;      /* before that */
    struct instant until;
    char list[WAITING_LIST_BYTES_MAX + 1];
};

struct remnants {
    struct list noted, idle;
    struct heap heap;
};

struct remnants *remnants_create(void)
{
    struct remnants *table = memory_new(struct remnants);
    list_init(&table->noted);
    list_init(&table->idle);
    return table;
}

static void remnants_free(struct list *remnants)
{
    for (struct list *link; (link = list_take_first(remnants)) != NULL;)
        free(list_owner(link, struct remnant, link));
}

void remnants_destroy(struct remnants *table)
{
    if (table == NULL)
        return;
    heap_fini(&table->heap); /* it lets go of its items */
    remnants_free(&table->noted);
    remnants_free(&table->idle);
    free(table);
}

static void forget(struct remnants *table, struct remnant *remnant)
{
    heap_remove(&table->heap, &remnant->next);
    list_remove(&remnant->link);
    list_append(&table->idle, &remnant->link);
}

static struct remnant *find(const struct remnants *table, const char *list)
{
    for (struct list *link = table->noted.next; link != &table->noted; link = link->next) {
        struct remnant *remnant = list_owner(link, struct remnant, link);
        if (strcmp(remnant->list, list) == 0)
            return remnant;
    }
    return NULL;
}

static struct remnant *new_one(struct remnants *table, const char *list, struct instant now)
{
    if (table->heap.count == REMNANTS_MAX)
        forget(table, list_owner(table->noted.next, struct remnant, link));
    struct list *idle = list_take_first(&table->idle);
    struct remnant *remnant = idle != NULL ? list_owner(idle, struct remnant, link) : memory_new(struct remnant);
    size_t length = strnlen(list, WAITING_LIST_BYTES_MAX);
    memcpy(remnant->list, list, length);
    remnant->list[length] = '\0';
    remnant->until = now;
    remnant->pause_ns = REMNANTS_FIRST_NS;
    remnant->next = (struct heap_item){.place = 0};
    list_init(&remnant->link);
    heap_set(&table->heap, &remnant->next, instant_after(now, remnant->pause_ns));
    return remnant;
}

void remnants_note(struct remnants *table, const char *list, struct instant now, int64_t lasts_ns)
{
    struct remnant *remnant = find(table, list);
    struct instant until = instant_after(now, lasts_ns);
    if (remnant == NULL)
        remnant = new_one(table, list, now);
    list_remove(&remnant->link);
    list_append(&table->noted, &remnant->link);
    if (instant_before(remnant->until, until))
        remnant->until = until;
}

struct instant remnants_next(const struct remnants *table)
{
    const struct heap_item *first = heap_first(&table->heap);
    return first != NULL ? first->at : INSTANT_NEVER;
}

/* The text of what is forgotten stays as it is until it is used again, which takes another call. */
const char *remnants_due(struct remnants *table, struct instant now)
{
    struct heap_item *first = heap_first(&table->heap);
    if (first == NULL || instant_before(now, first->at))
        return NULL;
    struct remnant *remnant = list_owner(first, struct remnant, next);
    int64_t twice_ns = 2 * remnant->pause_ns;
    remnant->pause_ns = twice_ns < REMNANTS_PAUSE_MAX_NS ? twice_ns : REMNANTS_PAUSE_MAX_NS;
    struct instant next = instant_after(now, remnant->pause_ns);
    if (instant_before(remnant->until, next))
        forget(table, remnant);
    else
        heap_set(&table->heap, first, next);
    return remnant->list;
}
