/* Intrusive doubly linked ring. A list head is a link that points to itself when the list is empty; a link that is
 * in no list points to itself too, so removing twice is harmless. Not thread-safe: the owner's thread only. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *previous;
};

#define list_owner(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->next = list->previous = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_remove(struct list *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    list_init(link);
}

/* Appends at the tail. `link` must be initialised and in no list. */
static inline void list_append(struct list *list, struct list *link)
{
    link->previous = list->previous;
    link->next = list;
    list->previous->next = link;
    list->previous = link;
}

static inline void list_prepend(struct list *list, struct list *link)
{
    list_append(list->next, link);
}

/* Removes and returns the first link, or NULL when the list is empty. */
static inline struct list *list_take_first(struct list *list)
{
    struct list *first = list->next;
    if (first == list)
        return NULL;
    list_remove(first);
    return first;
}

#endif
