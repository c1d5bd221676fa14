/* The group: N nodes, their connections, and what all locks over them share.
 */
#include "redlock/group_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redlock/inspection.h"
#include "redlock/limits.h"
#include "redlock/redlock_nodes.h"

#define FENCE_MEMORY_DEFAULT ((size_t)64 << 20)
/* Of a server, for an entry whose key has 64 bytes: measured with Redis 7.0 and 100,000 entries. */
#define FENCE_BYTES 176

#define PACE_LOOK_NS   (1 * NS_PER_MS)
#define READY_GRACE_NS (100 * NS_PER_MS)

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    struct group_node *member = context;
    if (state == REDIS_NODE_UP) {
        inspection_ask(member);
        late_release_reconnected(member);
    } else {
        inspection_node_down(member);
    }
}

static void pace_look(struct loop_timer *timer)
{
    struct redlock_group *group = list_owner(timer, struct redlock_group, pace_timer);
    loop_at_cycle_end(group->loop, LOOP_BATCH, &group->send);
}

/* --- the end of a cycle --------------------------------------------------------------------------------------- */

/* At the end of a cycle everything that gathered leaves, releases first. A grant that cannot be sent may end an attempt
 * and gather more; the loop then runs this hook again, for the releases. New grants wait for another cycle: a user that
 * asks again right after each refusal would otherwise keep the loop busy. */
static void group_send(struct loop_hook *hook)
{
    struct redlock_group *group = list_owner(hook, struct redlock_group, send);
    struct list *link = NULL;
    batches_flush(group);
    if (list_is_empty(&group->granting))
        return;
    if (group->granted_in.ns == loop_now(group->loop).ns || group_must_wait(group)) {
        if (!loop_timer_is_set(&group->pace_timer))
            loop_timer_set(group->loop, &group->pace_timer, loop_after(group->loop, PACE_LOOK_NS));
        return;
    }
    group->granted_in = loop_now(group->loop);
    while ((link = list_take_first(&group->granting)) != NULL)
        lock_grants_gather(list_owner(link, struct redlock_lock, granting_link));
    batches_flush_grants(group);
}

/* --- life ----------------------------------------------------------------------------------------------------- */

static void node_open(struct redlock_group *group, unsigned index, const struct redlock_options *options)
{
    const struct redlock_node *wanted = &options->nodes[index];
    struct group_node *member = &group->nodes[index];
    char name[REDLOCK_NODE_NAME_SIZE];
    redlock_node_name(wanted, name);
    *member = (struct group_node){.group = group,
                                  .index = index,
                                  .timeout_ns = redlock_node_timeout_ns(wanted),
                                  .grants_since_trim = (unsigned)random_between(0, TRIM_INTERVAL - 1)};
    list_init(&member->late);
    struct redis_node_options connected = redlock_node_options(wanted, options, name);
    connected.silence_limit_ns = GROUP_SILENCE_LIMIT_NS;
    connected.changed = node_changed;
    connected.context = member;
    member->node = redis_node_create(group->loop, &connected);
}

static void waiting_init(struct redlock_group *group)
{
    struct redis_node *nodes[REDLOCK_NODES_MAX];
    uint64_t seed = 0;
    random_bytes(&seed, sizeof seed);
    for (unsigned i = 0; i < group->node_count; i++)
        nodes[i] = group->nodes[i].node;
    group->local_waiters = local_waiters_create(seed);
    group->notifications = notifications_create(
        group->loop, &(struct notifications_options){
                         .nodes = nodes, .node_count = group->node_count, .series_ns = NOTIFICATIONS_SERIES_NS});
}

struct redlock_group *redlock_group_create(struct loop *loop, const struct redlock_options *options, char *reason,
                                           size_t reason_size)
{
    if (loop == NULL)
        redlock_refuse(reason, reason_size, "the loop is NULL");
    if (loop == NULL || !redlock_options_check(options, reason, reason_size))
        return NULL;
    struct redlock_group *group = memory_new(struct redlock_group);
    group->loop = loop;
    group->take_step = lock_take_step;
    group->tell_answer = lock_tell_answer;
    group->node_sampled = inspection_sampled;
    group->node_doubted = inspection_doubts;
    group->node_count = (unsigned)options->node_count;
    group->key_prefix = memory_text(options->key_prefix != NULL ? options->key_prefix : "");
    group->key_prefix_length = strlen(group->key_prefix);
    group->slowest_timeout_ns = redlock_slowest_timeout_ns(options);
    group->drift_factor = redlock_drift_factor(options);
    size_t fence_memory = options->fence_memory > 0 ? options->fence_memory : FENCE_MEMORY_DEFAULT;
    group->fences_max = (int64_t)(fence_memory / FENCE_BYTES);
    group->is_guest = options->is_guest;
    list_init(&group->batches);
    list_init(&group->idle_batches);
    list_init(&group->locks);
    list_init(&group->idle_locks);
    for (int kind = 0; kind < BATCH_KINDS; kind++)
        list_init(&group->full_batches[kind]);
    list_init(&group->swaps);
    list_init(&group->idle_swaps);
    list_init(&group->granting);
    loop_hook_init(&group->send, group_send);
    loop_timer_init(&group->late_timer, late_release_fire);
    loop_timer_init(&group->pace_timer, pace_look);
    for (unsigned i = 0; i < group->node_count; i++)
        node_open(group, i, options);
    inspections_init(group);
    waiting_init(group);
    return group;
}

void redlock_group_destroy(struct redlock_group *group)
{
    if (group == NULL)
        return;
    loop_hook_cancel(&group->send);
    loop_timer_clear(group->loop, &group->trust_timer);
    notifications_destroy(group->notifications);
    loop_timer_clear(group->loop, &group->late_timer);
    loop_timer_clear(group->loop, &group->pace_timer);
    for (unsigned i = 0; i < group->node_count; i++) {
        redis_node_destroy(group->nodes[i].node);
        late_release_dispose(&group->nodes[i]);
    }
    batches_dispose(group);
    lock_swaps_dispose(group);
    struct list *link = NULL;
    while ((link = list_take_first(&group->locks)) != NULL)
        lock_dispose(list_owner(link, struct redlock_lock, link));
    local_waiters_destroy(group->local_waiters);
    free(group->seats_seen);
    buffer_fini(&group->request);
    free(group->key_prefix);
    free(group);
}

const struct redlock_counters *redlock_group_counters(const struct redlock_group *group)
{
    return group != NULL ? &group->counters : NULL;
}

const struct histogram *redlock_group_extensions(const struct redlock_group *group)
{
    return group != NULL ? &group->extensions : NULL;
}

unsigned redlock_group_voters(const struct redlock_group *group)
{
    return group != NULL ? (unsigned)__builtin_popcount(trust_voters(&group->trust)) : 0;
}

bool redlock_group_is_settled(const struct redlock_group *group)
{
    return group != NULL && inspections_are_settled(group);
}

bool redlock_group_is_ready(struct redlock_group *group)
{
    if (redlock_group_is_settled(group))
        return true;
    if (group == NULL || redlock_group_voters(group) <= group->node_count / 2)
        return false;
    if (group->ready_at.ns == 0)
        group->ready_at = loop_after(group->loop, READY_GRACE_NS);
    return instant_reached(loop_now(group->loop), group->ready_at);
}

unsigned redlock_group_busy(const struct redlock_group *group)
{
    return group != NULL ? group->locks_in_use + group->batches_in_flight : 0;
}

/* --- how its nodes stand ------------------------------------------------------------------------------------------ */

/* Counts the states of the nodes of a group, for a caller that decides whether to go on. On the loop. */

void redlock_group_status_read(const struct redlock_group *group, struct redlock_group_status *status)
{
    if (status != NULL)
        *status = (struct redlock_group_status){0};
    if (group == NULL || status == NULL)
        return;
    *status = (struct redlock_group_status){
        .nodes = group->node_count,
        .up = redlock_group_nodes_up(group),
        .voters = redlock_group_voters(group),
        .max_ttl_ns = trust_max_ttl_ns(&group->trust),
    };
    bool is_alone = group->node_count == 1;
    status->knows_group =
        is_alone ? group->trust.node[0].seen || redlock_group_busy(group) > 0 : group->trust.has_group;
    if (status->knows_group)
        memcpy(status->group, is_alone ? group->node_id : group->trust.group.group, sizeof status->group);
    for (unsigned i = 0; group->node_count > 1 && i < group->node_count; i++) {
        const struct trust_node *node = &group->trust.node[i];
        status->blank += node->seen && !node->has_marker && node->known_id[0] == '\0';
    }
}

bool redlock_group_node_status_read(const struct redlock_group *group, unsigned node,
                                    struct redlock_node_status *status)
{
    *status = (struct redlock_node_status){.state = ""};
    if (group == NULL || node >= group->node_count)
        return false;
    struct instant now = loop_now(group->loop), until = trust_node_until(&group->trust, node);
    const struct trust_node *trusted = &group->trust.node[node];
    status->is_up = redis_node_state(group->nodes[node].node) == REDIS_NODE_UP;
    status->votes = (trust_voters(&group->trust) >> node & 1) != 0;
    status->state = trust_state_name(trusted->state);
    status->reason = trust_reason_name(trusted->reason);
    if (until.ns != INSTANT_NEVER.ns && instant_before(now, until))
        status->quarantine_left_ns = instant_since(now, until);
    status->is_clock_known = trusted->clock.is_known;
    if (!status->is_clock_known)
        return true;
    int64_t low_us = trust_node_time_low_us(&group->trust, node, now);
    int64_t middle_us = low_us + (trust_node_time_us(&group->trust, node, now) - low_us) / 2;
    status->clock_ahead_ns = (middle_us - wall_now().us) * NS_PER_US;
    status->silence_ns = instant_since(trusted->clock.heard, now);
    return true;
}

/* --- announcements of releases ------------------------------------------------------------------------------------ */

struct redlock_watch {
    struct notification_want want;
    void (*released)(void *context);
    void *context;
    struct buffer key;
};

static void watch_heard(struct notification_want *want, enum notification_kind kind, int64_t detail)
{
    struct redlock_watch *watch = list_owner(want, struct redlock_watch, want);
    (void)detail;
    if (kind == NOTIFIED_FREE || kind == NOTIFIED_ALONE || kind == NOTIFIED_LIVE)
        watch->released(watch->context);
}

struct redlock_watch *redlock_watch_create(struct redlock_group *group, const char *resource, unsigned seat,
                                           void (*released)(void *context), void *context)
{
    char name[REDLOCK_SEAT_NAME_SIZE];
    struct redlock_watch *watch = memory_new(struct redlock_watch);
    watch->released = released;
    watch->context = context;
    redlock_seat_name(resource, seat, name);
    buffer_append(&watch->key, group->key_prefix, group->key_prefix_length);
    buffer_append_text(&watch->key, name);
    notification_want_init(&watch->want, watch_heard);
    notifications_want(group->notifications, &watch->want, watch->key.bytes, watch->key.length);
    return watch;
}

void redlock_watch_destroy(struct redlock_watch *watch)
{
    notifications_unwant(&watch->want);
    buffer_fini(&watch->key);
    free(watch);
}
