/* See contention.h. A hash table of lists. The cached ones are also in a linked list, the latest first, so that the
 * oldest can be evicted. An entry without information is removed. */
#include "worker/locks/contention.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/list.h"
#include "base/memory.h"
#include "redlock/limits.h"

enum { BUCKETS = 1024, SHORT_BYTES = 64 };

struct entry {
    struct entry *next;
    struct list cached_link; /* in table->cached, if anything is cached */
    unsigned taken;
    struct instant held_until;
    struct contention_held held;
    struct instant waiters_until;
    char name[];
};

struct contention {
    uint64_t seed;
    struct entry *buckets[BUCKETS];
    struct list cached; /* the latest first */
    unsigned cached_count;
    struct entry *idle; /* with room for SHORT_BYTES: as many as there were at once */
};

static struct entry **link_of(const struct contention *table, const char *list)
{
    uint64_t hash = hash_words(table->seed, list, strlen(list));
    struct entry *const *link = &table->buckets[hash % BUCKETS];
    while (*link != NULL && strcmp((*link)->name, list) != 0)
        link = &(*link)->next;
    return (struct entry **)(uintptr_t)link;
}

static struct entry *entry_make(struct contention *table, const char *list)
{
    struct entry **link = link_of(table, list);
    if (*link != NULL)
        return *link;
    size_t size = strlen(list) + 1;
    struct entry *entry = size <= SHORT_BYTES ? table->idle : NULL;
    if (entry != NULL) {
        table->idle = entry->next;
        memset(entry, 0, sizeof *entry);
    } else {
        entry = memory_zeroed(1, sizeof *entry + (size <= SHORT_BYTES ? SHORT_BYTES : size));
    }
    memcpy(entry->name, list, size);
    list_init(&entry->cached_link);
    *link = entry;
    return entry;
}

static void entry_drop(struct contention *table, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    if (strlen(entry->name) >= SHORT_BYTES) {
        free(entry);
        return;
    }
    entry->next = table->idle;
    table->idle = entry;
}

/* The entry, if the table has one: usually it has none at all. */
static struct entry *cached_find(const struct contention *table, const char *list)
{
    return table->cached_count > 0 ? *link_of(table, list) : NULL;
}

static void cached_end(struct contention *table, struct entry *entry)
{
    list_remove(&entry->cached_link);
    table->cached_count--;
    entry->held_until = entry->waiters_until = (struct instant){0};
    if (entry->taken == 0)
        entry_drop(table, link_of(table, entry->name));
}

/* Finds or adds the entry, as the most recent of the cache. */
static struct entry *cached_begin(struct contention *table, const char *list)
{
    struct entry *entry = entry_make(table, list);
    if (list_is_empty(&entry->cached_link))
        table->cached_count++;
    list_remove(&entry->cached_link);
    list_prepend(&table->cached, &entry->cached_link);
    if (table->cached_count > CONTENTION_CACHED_MAX)
        cached_end(table, list_owner(table->cached.previous, struct entry, cached_link));
    return entry;
}

struct contention *contention_create(uint64_t seed)
{
    struct contention *table = memory_new(struct contention);
    table->seed = seed;
    list_init(&table->cached);
    return table;
}

static void entries_free(struct entry *first)
{
    for (struct entry *next = NULL; first != NULL; first = next) {
        next = first->next;
        free(first);
    }
}

void contention_destroy(struct contention *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        entries_free(table->buckets[i]);
    entries_free(table->idle);
    free(table);
}

void contention_take(struct contention *table, const char *list)
{
    entry_make(table, list)->taken++;
}

void contention_leave(struct contention *table, const char *list)
{
    struct entry **link = link_of(table, list);
    invariant(*link != NULL && (*link)->taken > 0);
    (*link)->taken--;
    if ((*link)->taken == 0 && list_is_empty(&(*link)->cached_link))
        entry_drop(table, link);
}

unsigned contention_taken(const struct contention *table, const char *list)
{
    const struct entry *entry = *link_of(table, list);
    return entry != NULL ? entry->taken : 0;
}

void contention_note_held(struct contention *table, const char *list, struct instant until, struct contention_held held)
{
    struct entry *entry = cached_begin(table, list);
    entry->held_until = until;
    entry->held = held;
}

bool contention_is_held(const struct contention *table, const char *list, struct instant now,
                        struct contention_held *held)
{
    const struct entry *entry = cached_find(table, list);
    if (entry == NULL || instant_reached(now, entry->held_until))
        return false;
    *held = entry->held;
    return true;
}

void contention_forget_held(struct contention *table, const char *list)
{
    struct entry *entry = cached_find(table, list);
    if (entry != NULL)
        entry->held_until = (struct instant){0};
}

void contention_note_waiters(struct contention *table, const char *list, bool wait, struct instant now)
{
    struct entry *entry = cached_find(table, list);
    if (!wait && entry == NULL)
        return;
    entry = wait ? cached_begin(table, list) : entry;
    entry->waiters_until = wait ? instant_after(now, CONTENTION_MEMORY_NS) : (struct instant){0};
}

bool contention_has_waiters(const struct contention *table, const char *list, struct instant now)
{
    const struct entry *entry = cached_find(table, list);
    return entry != NULL && instant_before(now, entry->waiters_until);
}

/* --- names of waiting lists --------------------------------------------------------------------------------------- */

static const char resource_prefix[] = "resource:", seats_prefix[] = "seats:", class_prefix[] = "class:";

void waiting_names_set(struct waiting_names *names, const char *const *resources, unsigned count,
                       const char *class_name, bool has_limit)
{
    const char *sorted[REDLOCK_RESOURCES_MAX];
    size_t starts[WAITING_NAMES_MAX];
    invariant(count <= REDLOCK_RESOURCES_MAX);
    waiting_names_clear(names);
    names->resource_count =
        redlock_resources_sort(&(struct redlock_request){.resources = resources, .resource_count = count}, sorted);
    names->count = names->resource_count + (class_name != NULL);
    for (unsigned i = 0; i < names->count; i++) {
        bool is_class = i == names->resource_count;
        starts[i] = names->text.length;
        buffer_append_text(&names->text, is_class ? class_prefix : has_limit ? seats_prefix : resource_prefix);
        buffer_append_text(&names->text, is_class ? class_name : sorted[i]);
        buffer_append(&names->text, "", 1);
    }
    for (unsigned i = 0; i < names->count; i++)
        names->names[i] = names->text.bytes + starts[i];
}

void waiting_names_clear(struct waiting_names *names)
{
    buffer_clear(&names->text);
    names->count = names->resource_count = 0;
}

void waiting_names_fini(struct waiting_names *names)
{
    buffer_fini(&names->text);
}

void waiting_names_digest(const struct waiting_names *names, char text[DIGEST_TEXT_SIZE])
{
    digest_text(names->text.bytes, names->text.length, text);
}

const char *waiting_names_class(const struct waiting_names *names)
{
    return names->count > names->resource_count ? names->names[names->resource_count] : NULL;
}

const char *waiting_names_resource(const char *list)
{
    bool has_limit = strncmp(list, seats_prefix, sizeof seats_prefix - 1) == 0;
    bool is_resource = has_limit || strncmp(list, resource_prefix, sizeof resource_prefix - 1) == 0;
    return is_resource ? strchr(list, ':') + 1 : list;
}
