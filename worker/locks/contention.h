/* What a process knows about the waiting lists (queue/waiting.h): what is taken here, what is taken elsewhere, and
 * for what somebody waits. So that a task that cannot have its lock is parked without asking a lock node, and that a
 * holder knows that it should look for a successor.
 *
 *     contention_take(table, list)  ... contention_taken(table, list) is how many ...  contention_leave(table, list)
 *
 * What is taken here is exact. The rest is cached and ends by itself: that a lock is held elsewhere is believed
 * until a time given, and only together with the queue node's time at which it was still certain, by which the queue
 * node judges whether the lock was freed since; that somebody waits is believed for CONTENTION_MEMORY_NS. A table
 * remembers CONTENTION_CACHED_MAX lists in its cache, the latest ones, whatever producers name.
 *
 * Pure; one thread, the loop's. */
#ifndef WORKER_CONTENTION_H
#define WORKER_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/digest.h"
#include "redlock/redlock.h"

enum { CONTENTION_CACHED_MAX = 4096 };
#define CONTENTION_MEMORY_NS (5 * NS_PER_S)

struct contention;

struct contention *contention_create(uint64_t seed);
void contention_destroy(struct contention *table); /* NULL is fine */

/* One more, one less of this process has it or asks for it. */
void contention_take(struct contention *table, const char *list);
void contention_leave(struct contention *table, const char *list);
unsigned contention_taken(const struct contention *table, const char *list);

/* Somebody elsewhere had it at `seen_us` of the queue node's time; that is believed until `until`. */
struct contention_held {
    int64_t seen_us;
    struct instant free_at; /* unless its holder extends it */
};
void contention_note_held(struct contention *table, const char *list, struct instant until,
                          struct contention_held held);
/* False when nothing is known, or not any more. */
bool contention_is_held(const struct contention *table, const char *list, struct instant now,
                        struct contention_held *held);
/* It was had here, or freed. */
void contention_forget_held(struct contention *table, const char *list);

void contention_note_waiters(struct contention *table, const char *list, bool wait, struct instant now);
bool contention_has_waiters(const struct contention *table, const char *list, struct instant now);

/* --- names of waiting lists --------------------------------------------------------------------------------------- */

/* The names of the waiting lists (queue/waiting.h) that a task has to do with: one for each resource that it locks,
 * in the order in which locks are taken, and last the one of its class, when the class may use a share of the
 * runners only.
 *
 * Zeroed at first; pure; one thread at a time. */

enum { WAITING_NAMES_MAX = REDLOCK_RESOURCES_MAX + 1 };

struct waiting_names {
    const char *names[WAITING_NAMES_MAX];
    unsigned count, resource_count;
    struct buffer text;
};

/* At most REDLOCK_RESOURCES_MAX resources; named twice they count once. `class_name` is NULL for a class with all
 * runners. Everything is copied. */
void waiting_names_set(struct waiting_names *names, const char *const *resources, unsigned count,
                       const char *class_name);
void waiting_names_clear(struct waiting_names *names);
void waiting_names_fini(struct waiting_names *names);

/* A digest of all of them: equal sets have equal ones. */
void waiting_names_digest(const struct waiting_names *names, char text[DIGEST_TEXT_SIZE]);
/* The list of the class; NULL = it has all runners. */
const char *waiting_names_class(const struct waiting_names *names);
/* The resource that a list is about, for people; a list of a class as it is. */
const char *waiting_names_resource(const char *list);

#endif
