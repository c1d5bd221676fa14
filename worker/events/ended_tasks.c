#include "worker/events/ended_tasks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

struct ended_task {
    uint64_t hash;
    struct instant at; /* 0 = no task */
};

struct ended_tasks {
    uint64_t seed;
    struct ended_task places[ENDED_TASKS_MAX];
};

struct ended_tasks *ended_tasks_create(uint64_t seed)
{
    struct ended_tasks *ended = memory_new(struct ended_tasks);
    ended->seed = seed;
    return ended;
}

void ended_tasks_destroy(struct ended_tasks *ended)
{
    free(ended);
}

void ended_tasks_note(struct ended_tasks *ended, const char *jid, struct instant now)
{
    uint64_t hash = hash_words(ended->seed, jid, strlen(jid));
    ended->places[hash % ENDED_TASKS_MAX] = (struct ended_task){hash, now};
}

bool ended_tasks_find(const struct ended_tasks *ended, const char *jid, struct instant now, int64_t *age_ns)
{
    uint64_t hash = hash_words(ended->seed, jid, strlen(jid));
    const struct ended_task *place = &ended->places[hash % ENDED_TASKS_MAX];
    *age_ns = instant_since(place->at, now);
    return place->at.ns != 0 && place->hash == hash;
}
