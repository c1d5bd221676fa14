/* What must never happen, judged from outside: from what users were told, by the clocks of their hosts, and from what
 * the lock nodes hold.
 *
 *   overlap   two users believe in the same resource at once. A belief lasts until the published deadline, so a process
 *             that stands still counts as well: it would believe when it goes on.
 *   lease     while a user believes, fewer than a quorum of nodes would grant its resource to another: looked ahead to
 *             the end of the belief, so that a key which will expire too early is found although nobody asks for it
 *   tokens    a hold that was complete before another was asked for has the smaller token; no two are the same
 *   minority  with trouble at a minority of the nodes alone, nobody loses a lock or misses a majority
 *   liveness  when the trouble is over everybody gets locks again, every node votes again, and nothing is left behind
 *
 * `overlap` and `lease` hold where exclusion is promised. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/sim/lock/schedule.h"

#define RECORD_NS (8 * NS_PER_S) /* clients may notice late that the connection is dead */

enum { HOLDS_MAX = 4096 };

/* A hold of one resource, once it was complete. */
static struct {
    struct instant asked, complete;
    uint64_t token;
    unsigned resource;
} holds[HOLDS_MAX];
static unsigned hold_count;

/* --- beliefs ------------------------------------------------------------------------------------------------------ */

/* How long the user believes, by the clock of its host; 0 = it does not. */
static int64_t belief_ns(const struct lock_user *user)
{
    struct process *process = user->client->process;
    if (user->held == NULL || !process->is_alive)
        return 0;
    struct process *before = process_lend(process);
    int64_t ns = redlock_held_valid_for_ns(user->held);
    process_lend(before);
    return ns;
}

static void overlap_check(struct lock_user *user)
{
    struct lock_schedule *schedule = user->client->schedule;
    for (unsigned i = 0; i < schedule->client_count; i++)
        for (unsigned k = 0; k < schedule->user_count; k++) {
            struct lock_user *other = &schedule->clients[i].users[k];
            if (other != user && (other->resources & user->resources) != 0 && belief_ns(other) > 0)
                play_violated("overlap", "users %u.%u and %u.%u both believe that they hold", user->client->number,
                              user->number, i, k);
        }
}

/* --- what nodes hold ---------------------------------------------------------------------------------------------- */

/* Its value ends with the owner, which is another for each hold. */
static bool is_value_of(const struct value *value, const struct lock_user *user)
{
    if (value == NULL || value->type != VALUE_STRING)
        return false;
    size_t length = strlen(user->owner), bytes = value->string.length;
    return bytes > length && memcmp(value->string.bytes + bytes - length, user->owner, length) == 0;
}

static bool keeps_until(struct node *node, unsigned resource, const struct lock_user *user, struct instant end)
{
    struct keyspace *space = server_keyspace(node->server);
    space->now_us = node_now_us(node);
    const struct value *value = keyspace_find(space, text_of(lock_resource_names[resource]));
    if (!is_value_of(value, user))
        return false;
    int64_t left_ns = value->expires_ms * NS_PER_MS - node_now_us(node) * NS_PER_US;
    return !instant_before(instant_after(world_time(), left_ns), end);
}

/* Everybody keeps a server that forgot, or whose clock jumped, from voting for a while. */
static bool is_quarantined_until(const struct lock_schedule *schedule, const struct node *node, struct instant end)
{
    return node->lost_at.ns != 0 &&
           instant_before(end, instant_after(node->lost_at, schedule->max_ttl_ns - schedule->max_ttl_ns / 50));
}

void lock_judge_lease(struct lock_user *user)
{
    struct lock_schedule *schedule = user->client->schedule;
    int64_t ns = belief_ns(user);
    struct instant end = instant_after(world_time(), ns - ns / 50); /* its clock may be slower than all others */
    if (ns == 0 || schedule->is_wild || schedule->node_count == 1)
        return;
    for (unsigned resource = 0; resource < schedule->resource_count; resource++) {
        unsigned others = 0;
        if ((user->resources & 1u << resource) == 0)
            continue;
        for (unsigned i = 0; i < schedule->node_count; i++)
            others += !keeps_until(schedule->nodes[i], resource, user, end) &&
                      !is_quarantined_until(schedule, schedule->nodes[i], end);
        if (others > schedule->node_count / 2)
            play_violated("lease", "user %u.%u believes for %.3f ms more in %s, but %u of %u nodes do not keep it",
                          user->client->number, user->number, (double)ns / 1e6, lock_resource_names[resource], others,
                          schedule->node_count);
    }
}

static void all_leases_check(void *context, const struct server_event *event)
{
    struct lock_schedule *schedule = context;
    if (event->script == NULL || event->reply == NULL)
        return;
    for (unsigned i = 0; i < schedule->client_count; i++)
        for (unsigned k = 0; k < schedule->user_count; k++)
            lock_judge_lease(&schedule->clients[i].users[k]);
}

void lock_judge_watch(struct lock_schedule *schedule)
{
    hold_count = 0;
    for (unsigned i = 0; i < schedule->node_count; i++)
        server_observe(schedule->nodes[i]->server, all_leases_check, schedule);
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

static void token_check(const struct lock_user *user, unsigned resource)
{
    for (unsigned i = 0; i < hold_count; i++) {
        if (holds[i].resource != resource)
            continue;
        if (holds[i].token == user->token)
            play_violated("tokens", "token %llu of %s was given twice", (unsigned long long)user->token,
                          lock_resource_names[resource]);
        if (instant_before(holds[i].complete, user->asked) && holds[i].token > user->token)
            play_violated("tokens", "user %u.%u got token %llu of %s, but %llu was given before it was asked for",
                          user->client->number, user->number, (unsigned long long)user->token,
                          lock_resource_names[resource], (unsigned long long)holds[i].token);
    }
    if (hold_count == HOLDS_MAX)
        return;
    holds[hold_count].asked = user->asked;
    holds[hold_count].complete = world_time();
    holds[hold_count].token = user->token;
    holds[hold_count].resource = resource;
    hold_count++;
}

/* --- what users tell ---------------------------------------------------------------------------------------------- */

void lock_judge_acquired(struct lock_user *user)
{
    struct lock_schedule *schedule = user->client->schedule;
    user->acquired++;
    if (!schedule->is_wild && belief_ns(user) > 0)
        overlap_check(user);
    lock_judge_lease(user);
    for (unsigned resource = 0; resource < schedule->resource_count && !schedule->is_wild; resource++)
        if ((user->resources & 1u << resource) != 0)
            token_check(user, resource);
}

void lock_judge_holds(struct lock_user *user)
{
    if (!user->client->schedule->is_wild && belief_ns(user) > 0)
        overlap_check(user);
}

/* A server that has just come back without what it knew is recorded at the others: for a round trip or two a pass may
 * find no majority of one generation. */
static bool is_record_window(const struct lock_schedule *schedule)
{
    for (unsigned i = 0; i < schedule->node_count; i++) {
        struct instant lost_at = schedule->nodes[i]->lost_at;
        if (lost_at.ns != 0 && instant_before(world_time(), instant_after(lost_at, RECORD_NS)))
            return true;
    }
    return false;
}

/* Somebody noticed the trouble. */
static void noticed(const struct lock_user *user, const char *what)
{
    if (!user->client->schedule->is_minor)
        return;
    if (is_record_window(user->client->schedule))
        play_count("excused: a server is recorded", 1);
    else
        play_violated("minority", "user %u.%u %s, and a majority of the nodes was well", user->client->number,
                      user->number, what);
}

void lock_judge_lost(struct lock_user *user)
{
    play_count("lost", 1);
    noticed(user, "lost its lock");
}

void lock_judge_refused(struct lock_user *user, enum redlock_answer answer)
{
    if (answer == REDLOCK_NO_QUORUM || answer == REDLOCK_TOO_SLOW)
        noticed(user, "was refused for want of a majority");
}

/* --- when the trouble is over ------------------------------------------------------------------------------------- */

bool lock_judge_has_recovered(const struct lock_schedule *schedule, const struct lock_user **who)
{
    for (unsigned i = 0; i < schedule->client_count; i++)
        for (unsigned k = 0; k < schedule->user_count; k++) {
            *who = &schedule->clients[i].users[k];
            if ((*who)->acquired == (*who)->acquired_before)
                return false;
        }
    return true;
}

/* Long after the last was given back, or its owner killed. */
void lock_judge_left(struct lock_schedule *schedule)
{
    for (unsigned i = 0; i < schedule->node_count; i++) {
        struct node *node = schedule->nodes[i];
        struct keyspace *space = server_keyspace(node->server);
        space->now_us = node_now_us(node);
        for (unsigned resource = 0; resource < schedule->resource_count; resource++) {
            const struct value *value = keyspace_find(space, text_of(lock_resource_names[resource]));
            if (value != NULL && node->lost_at.ns == 0) /* else its clock may be anywhere */
                play_violated("liveness", "%s still holds the lock of %s", node->name, lock_resource_names[resource]);
        }
    }
}
