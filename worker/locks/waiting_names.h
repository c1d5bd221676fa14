/* The names of the waiting lists (queue/waiting.h) that a task has to do with: one for each resource that it locks,
 * in the order in which locks are taken, and last the one of its class, when the class may use a share of the
 * runners only.
 *
 * Zeroed at first; pure; one thread at a time. */
#ifndef WORKER_WAITING_NAMES_H
#define WORKER_WAITING_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "queue/digest.h"
#include "redlock/redlock.h"

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
