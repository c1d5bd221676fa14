/* One object for each thread, such as a connection: created on first use, freed when the thread ends or the plugin is
 * closed, whichever is first.
 *
 *     per_thread_init(&things, thing_free)             in open(); 0 = success
 *     struct thing *thing = per_thread_get(&things);   in run(); NULL: this thread has none yet
 *     per_thread_set(&things, thing)                   0 = success: `things` frees it from now on
 *     per_thread_fini(&things)                         in close(), when no thread is inside run()
 *
 * Static inline, because a plugin is one file. */
#ifndef JOBS_PER_THREAD_H
#define JOBS_PER_THREAD_H

#include <pthread.h>
#include <stdlib.h>

struct per_thread_item;

struct per_thread {
    pthread_key_t key;
    pthread_mutex_t mutex; /* guards the list */
    struct per_thread_item *items;
    void (*release)(void *thing);
};

struct per_thread_item {
    struct per_thread_item *next, *previous;
    struct per_thread *owner;
    void *thing;
};

/* Runs when a thread ends. */
static void per_thread_drop(void *value)
{
    struct per_thread_item *item = value;
    struct per_thread *owner = item->owner;
    pthread_mutex_lock(&owner->mutex);
    if (item->previous != NULL)
        item->previous->next = item->next;
    else
        owner->items = item->next;
    if (item->next != NULL)
        item->next->previous = item->previous;
    pthread_mutex_unlock(&owner->mutex);
    owner->release(item->thing);
    free(item);
}

static inline int per_thread_init(struct per_thread *things, void (*release)(void *thing))
{
    things->items = NULL;
    things->release = release;
    if (pthread_key_create(&things->key, per_thread_drop) != 0)
        return -1;
    pthread_mutex_init(&things->mutex, NULL);
    return 0;
}

static inline void *per_thread_get(const struct per_thread *things)
{
    const struct per_thread_item *item = pthread_getspecific(things->key);
    return item != NULL ? item->thing : NULL;
}

static inline int per_thread_set(struct per_thread *things, void *thing)
{
    struct per_thread_item *item = calloc(1, sizeof *item);
    if (item == NULL || pthread_setspecific(things->key, item) != 0) {
        free(item);
        return -1;
    }
    item->owner = things;
    item->thing = thing;
    pthread_mutex_lock(&things->mutex);
    item->next = things->items;
    if (things->items != NULL)
        things->items->previous = item;
    things->items = item;
    pthread_mutex_unlock(&things->mutex);
    return 0;
}

static inline void per_thread_fini(struct per_thread *things)
{
    pthread_key_delete(things->key);
    while (things->items != NULL) {
        struct per_thread_item *item = things->items;
        things->items = item->next;
        things->release(item->thing);
        free(item);
    }
    pthread_mutex_destroy(&things->mutex);
}

#endif
