/* What a process knows about the waiting lists (queue/waiting.h): which locks are taken here, which are taken
 * elsewhere, and which have waiters. So a task whose lock is taken is parked without a request to a lock node, and a
 * holder knows that it should look for a successor.
 *
 *     contention_take(table, list)  ... contention_taken(table, list) is how many ...  contention_leave(table, list)
 *
 * Local information is exact. The rest is cached and expires. A holder elsewhere is cached until a given time, with the
 * queue node's time at which it was certain; by that time the queue node decides whether the lock was freed since.
 * Waiters are cached for CONTENTION_MEMORY_NS. The cache keeps the latest CONTENTION_CACHED_MAX lists, whatever
 * producers name.
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

/* Counts the tasks of this process that have it or request it. */
void contention_take(struct contention *table, const char *list);
void contention_leave(struct contention *table, const char *list);
unsigned contention_taken(const struct contention *table, const char *list);

/* A holder elsewhere, seen at `seen_us` of the queue node's time; cached until `until`. */
struct contention_held {
    int64_t seen_us;
    struct instant free_at; /* unless its holder extends it */
    bool is_left;           /* free, but left to other clients until then: only a task that parks waits for it */
};
void contention_note_held(struct contention *table, const char *list, struct instant until,
                          struct contention_held held);
/* False if no holder is cached, or no longer. */
bool contention_is_held(const struct contention *table, const char *list, struct instant now,
                        struct contention_held *held);
/* The lock was held here, or was freed. */
void contention_forget_held(struct contention *table, const char *list);

void contention_note_waiters(struct contention *table, const char *list, bool wait, struct instant now);
bool contention_has_waiters(const struct contention *table, const char *list, struct instant now);

/* --- names of waiting lists --------------------------------------------------------------------------------------- */

/* The names of a task's waiting lists (queue/waiting.h): one for each resource that it locks, in the order in which
 * locks are taken, and last the list of its class, if the class may use only a share of the runners.
 *
 * Zeroed at first; pure; one thread at a time. */

enum { WAITING_NAMES_MAX = REDLOCK_RESOURCES_MAX + 1 };

struct waiting_names {
    const char *names[WAITING_NAMES_MAX];
    unsigned count, resource_count;
    struct buffer text;
};

/* At most REDLOCK_RESOURCES_MAX resources; duplicates count once. `class_name` is NULL for a class with all runners;
 * `has_limit`: several tasks may hold the resource. Everything is copied. */
void waiting_names_set(struct waiting_names *names, const char *const *resources, unsigned count,
                       const char *class_name, bool has_limit);
void waiting_names_clear(struct waiting_names *names);
void waiting_names_fini(struct waiting_names *names);

/* A digest of all names: equal sets have equal digests. */
void waiting_names_digest(const struct waiting_names *names, char text[DIGEST_TEXT_SIZE]);
/* The list of the class; NULL = it has all runners. */
const char *waiting_names_class(const struct waiting_names *names);
/* The resource of a list, for people; returns the list of a class unchanged. */
const char *waiting_names_resource(const char *list);

#endif
