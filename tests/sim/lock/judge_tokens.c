/* Fencing: a hold that was complete before another was asked for has the smaller token, and no two are the same,
 * whatever pauses, clocks and networks do, as long as no more than a minority forgets. Where more is forgotten, the
 * same holds for those that are so far apart that right clocks can tell them apart. A reader may have the token of an
 * earlier hold, and has no smaller one.
 *
 * What a lock protects is written to by its holders, over a network of its own with delays of any length, and refuses a
 * token that is smaller than one that it has seen. */
#include <stdlib.h>

#include "base/memory.h"
#include "tests/sim/lock/schedule.h"

#define LATE_MAX_NS (6 * NS_PER_S)
#define RUIN_GAP_NS (4 * NS_PER_S) /* clocks are up to 0.4 s apart, and run apart */

enum { HOLDS_MAX = 4096 };

static struct hold {
    struct instant asked, complete;
    uint64_t token;
    unsigned resources;
    bool is_reader;
} holds[HOLDS_MAX];
static unsigned hold_count;

static struct sink {
    uint64_t token;       /* the largest that was accepted */
    struct instant asked; /* the latest, of those that were accepted */
} sinks[LOCK_RESOURCES_MAX];

struct write {
    struct world_event event;
    unsigned hold;
};

void lock_judge_tokens_begin(void)
{
    hold_count = 0;
    for (unsigned i = 0; i < LOCK_RESOURCES_MAX; i++)
        sinks[i] = (struct sink){.token = 0};
}

/* Whether the first was complete so long before the second was requested that their tokens must be in order. */
static bool is_before(const struct hold *one, struct instant asked)
{
    int64_t gap_ns = lock_schedule.profile == LOCK_RUIN ? RUIN_GAP_NS : 0;
    return lock_schedule.profile != LOCK_ANY && instant_before(instant_after(one->complete, gap_ns), asked);
}

static bool is_too_low(const struct hold *before, const struct lock_user *user)
{
    return user->is_reader ? before->token > user->token : before->token >= user->token;
}

void lock_judge_token(struct lock_user *user)
{
    bool is_unique = lock_schedule.profile != LOCK_RUIN && lock_schedule.profile != LOCK_ANY;
    user->hold = HOLDS_MAX;
    if (user->token == 0)
        return;
    for (unsigned i = 0; i < hold_count; i++) {
        if ((holds[i].resources & user->resources) == 0)
            continue;
        if (is_unique && !holds[i].is_reader && !user->is_reader && holds[i].token == user->token)
            play_violated("tokens", "user %u.%u got token %llu, which another hold of the same has",
                          user->client->number, user->number, (unsigned long long)user->token);
        if (is_before(&holds[i], user->asked) && is_too_low(&holds[i], user))
            play_violated("tokens", "user %u.%u got token %llu, but %llu was given before it was asked for",
                          user->client->number, user->number, (unsigned long long)user->token,
                          (unsigned long long)holds[i].token);
    }
    if (hold_count == HOLDS_MAX)
        return;
    user->hold = hold_count++;
    holds[user->hold] = (struct hold){.asked = user->asked,
                                      .complete = world_time(),
                                      .token = user->token,
                                      .resources = user->resources,
                                      .is_reader = user->is_reader};
}

static void write_arrives(struct world_event *event)
{
    struct write *write = list_owner(event, struct write, event);
    const struct hold *hold = &holds[write->hold];
    for (unsigned resource = 0; resource < lock_schedule.resource_count; resource++) {
        struct sink *sink = &sinks[resource];
        if ((hold->resources & 1u << resource) == 0)
            continue;
        if (hold->token < sink->token) {
            play_count("fenced off", 1);
            continue;
        }
        if (sink->asked.ns != 0 && is_before(hold, sink->asked))
            play_violated("tokens", "%s accepts a stale write with token %llu", lock_key_name(resource),
                          (unsigned long long)hold->token);
        if (hold->is_reader) /* it reads what is stored */
            continue;
        sink->token = hold->token;
        if (instant_before(sink->asked, hold->asked))
            sink->asked = hold->asked;
    }
    free(write);
}

void lock_judge_write(struct lock_user *user)
{
    if (user->token == 0 || user->hold >= HOLDS_MAX)
        return;
    struct write *write = world_owns(memory_new(struct write));
    *write = (struct write){.event = {.fire = write_arrives}, .hold = user->hold};
    world_at(&write->event, instant_after(world_time(), chance_scale(&user->chance, NS_PER_MS, LATE_MAX_NS)));
}
