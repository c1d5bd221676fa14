#include "redlock/inspection.h"

#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "redlock/inspection_call.h"
#include "redlock/limits.h"

#define PULSE_NS      (5 * NS_PER_S)
#define HELD_PULSE_NS (1 * NS_PER_S)    /* while anything is held: the first answer shows that our clock stopped */
#define RETRY_NS      (100 * NS_PER_MS) /* of an inspection without an answer: until then the node has no vote */

/* --- what trust asks for ---------------------------------------------------------------------------------------- */

static void change_tell(const struct group_node *node)
{
    const struct trust_node *verdict = &node->group->trust.node[node->index];
    if (verdict->state == TRUST_UNSEEN)
        return; /* the connection logs that */
    bool votes = verdict->state == TRUST_VOTES;
    log_event(votes ? LOG_INFO : LOG_WARN, "lock_node_trust", "node=%s state=%s reason=%s%s%s%s",
              redis_node_name(node->node), trust_state_name(verdict->state), trust_reason_name(verdict->reason),
              votes ? "" : " advice=\"", votes ? "" : trust_advice(&node->group->trust, node->index),
              votes ? "" : "\"");
}

/* Until every node was tried, verdicts only say that too little is known. */
static void changes_tell(struct redlock_group *group, node_set changed)
{
    if (!group->is_trust_told) {
        if (!inspections_are_settled(group))
            return;
        group->is_trust_told = true;
        changed = (node_set)~trust_voters(&group->trust);
    }
    for (unsigned i = 0; i < group->node_count; i++)
        if (changed & (1u << i))
            change_tell(&group->nodes[i]);
}

static void marker_written(struct redis_call *call, const struct redis_result *result)
{
    struct group_node *node = list_owner(call, struct group_node, mark_call);
    node_counts_result(node, result);
    group_node_refused(node, result);
    inspection_ask(node);
}

static void marker_write_to(struct group_node *node)
{
    const struct trust *trust = &node->group->trust;
    char text[MARKER_TEXT_MAX];
    struct buffer *out = &node->group->request;
    if (redis_call_is_outstanding(&node->mark_call))
        return;
    int64_t highest = trust_marker_to_write(trust, node->index, text);
    inspection_call_mark(out, trust->node[node->index].marker_text, text, highest);
    if (group_node_call(node, out, &node->mark_call))
        log_event(LOG_INFO, "lock_node_marked", "node=%s marker=\"%s\"", redis_node_name(node->node), text);
}

static void locks_forget(struct redlock_group *group, node_set nodes)
{
    for (struct list *link = group->locks.next; link != &group->locks; link = link->next) {
        struct redlock_lock *lock = list_owner(link, struct redlock_lock, link);
        for (unsigned i = 0; i < group->node_count; i++)
            if (nodes & (1u << i))
                lock_take_step(lock, lease_forgot(&lock->lease, &lock->terms, i, instant_now()));
    }
}

static void locks_doubt(struct redlock_group *group, const struct trust_step *step)
{
    if (step->own_clock_stood)
        log_event(LOG_WARN, "own_clock_stood_still",
                  "advice=\"the clocks of the lock nodes moved ahead of ours together: was this machine paused?\"");
    for (struct list *link = group->locks.next; link != &group->locks; link = link->next) {
        struct redlock_lock *lock = list_owner(link, struct redlock_lock, link);
        struct lease_step doubted = {0};
        if (step->own_clock_stood)
            doubted = lease_doubt(&lock->lease, &lock->terms, instant_now());
        else
            lease_suspect(&lock->lease, &lock->terms, step->suspect_ns, instant_now());
        lock_take_step(lock, doubted);
    }
}

static void timer_follow(struct redlock_group *group, struct instant at)
{
    struct loop_timer *timer = &group->trust_timer;
    if (!loop_timer_is_set(timer) || instant_before(at, timer->item.at))
        loop_timer_set(group->loop, timer, at);
}

static void step_take(struct redlock_group *group, struct trust_step step)
{
    if (step.forgot != 0)
        locks_forget(group, step.forgot);
    if (step.own_clock_stood || step.suspect_ns > 0)
        locks_doubt(group, &step);
    changes_tell(group, step.changed);
    for (unsigned i = 0; i < group->node_count; i++) {
        if ((step.write & (1u << i)) && !group->is_guest)
            marker_write_to(&group->nodes[i]);
        if (step.look & (1u << i))
            inspection_ask(&group->nodes[i]);
    }
    if (group->trust.has_group)
        notifications_name_group(group->notifications, group->trust.group.group);
    notifications_keep_key(group->notifications, !group->is_guest);
    timer_follow(group, trust_next(&group->trust));
}

/* --- inspections ------------------------------------------------------------------------------------------------ */

void inspection_ask(struct group_node *node)
{
    struct redlock_group *group = node->group;
    char id[MARKER_GROUP_DIGITS + 1] = "";
    if (redis_call_is_outstanding(&node->inspect_call))
        return;
    if (!group->is_guest)
        random_digits(id, MARKER_GROUP_DIGITS);
    inspection_call_ask(&group->request, group->node_count == 1 ? id : NULL);
    node->inspected_at = loop_now(group->loop);
    node->inspection_asked = instant_now(); /* the loop's time may be older than what an answer has just shown */
    (void)!group_node_call(node, &group->request, &node->inspect_call); /* its connection says when to ask again */
}

static void inspected(struct redis_call *call, const struct redis_result *result)
{
    struct group_node *node = list_owner(call, struct group_node, inspect_call);
    struct redlock_group *group = node->group;
    struct trust_inspection inspection = {.reading = {.asked = node->inspection_asked, .answered = instant_now()}};
    node_counts_result(node, result);
    if (result->outcome == REDIS_VALUE && inspection_call_read(&inspection, NULL, result->reply)) {
        memcpy(group->node_id, inspection.node_id, sizeof group->node_id);
        bool is_other = strcmp(group->trust.node[node->index].marker_text, inspection.marker_text) != 0;
        step_take(group, trust_saw(&group->trust, node->index, &inspection, inspection.reading.answered));
        /* where one marker changed, others may have: a change of members is followed now, not at the next pulse */
        for (unsigned i = 0; i < group->node_count && is_other; i++)
            if (redis_node_state(group->nodes[i].node) == REDIS_NODE_UP &&
                instant_reached(inspection.reading.answered, instant_after(group->nodes[i].inspected_at, RETRY_NS)))
                inspection_ask(&group->nodes[i]);
        return;
    }
    if (result->outcome == REDIS_UNKNOWN || (result->outcome == REDIS_ERROR && result->error == REDIS_ERROR_DOWN)) {
        timer_follow(group, loop_after(group->loop, RETRY_NS));
        return;
    }
    group_node_refused(node, result);
    step_take(group, trust_unreadable(&group->trust, node->index, inspection.reading.answered));
    timer_follow(group, loop_after(group->loop, PULSE_NS));
}

static bool holds_something(const struct redlock_group *group)
{
    for (const struct list *link = group->locks.next; link != &group->locks; link = link->next)
        if (list_owner(link, struct redlock_lock, link)->lease.state == LEASE_HELD)
            return true;
    return false;
}

/* Scripts read a node's clock as well, so a busy node needs no inspection. An empty server that waits for its record is
 * always overdue: others may know more by now. */
static bool is_overdue(const struct group_node *node, bool holds, struct instant now)
{
    const struct trust_node *trusted = &node->group->trust.node[node->index];
    bool is_unheard = instant_reached(now, instant_after(trusted->clock.heard, HELD_PULSE_NS)) &&
                      instant_reached(now, instant_after(node->inspected_at, HELD_PULSE_NS));
    return trusted->state == TRUST_UNSEEN || trusted->reason == TRUST_UNRECORDED ||
           instant_reached(now, instant_after(node->inspected_at, PULSE_NS)) || (holds && is_unheard);
}

static void trust_fire(struct loop_timer *timer)
{
    struct redlock_group *group = list_owner(timer, struct redlock_group, trust_timer);
    struct instant now = loop_now(group->loop);
    bool holds = holds_something(group);
    for (unsigned i = 0; i < group->node_count; i++) {
        struct group_node *node = &group->nodes[i];
        if (redis_node_state(node->node) == REDIS_NODE_UP && is_overdue(node, holds, now))
            inspection_ask(node);
    }
    loop_timer_set(group->loop, timer, instant_after(now, HELD_PULSE_NS));
    step_take(group, trust_tick(&group->trust, now));
}

/* --- what the group reports --------------------------------------------------------------------------------------- */

void inspections_init(struct redlock_group *group)
{
    trust_init(&group->trust, group->node_count, redlock_longest_patience_ns(group->slowest_timeout_ns),
               group->drift_factor);
    loop_timer_init(&group->trust_timer, trust_fire);
    for (unsigned i = 0; i < group->node_count; i++) {
        group->nodes[i].inspect_call = (struct redis_call){.done = inspected};
        group->nodes[i].mark_call = (struct redis_call){.done = marker_written};
    }
    loop_timer_set(group->loop, &group->trust_timer, loop_after(group->loop, PULSE_NS));
}

void inspection_node_down(struct group_node *node)
{
    step_take(node->group, trust_unseen(&node->group->trust, node->index, instant_now()));
}

void inspection_doubts(struct group_node *node)
{
    inspection_node_down(node);
    inspection_ask(node);
}

void inspection_sampled(struct group_node *node, struct instant asked, struct instant answered, int64_t node_us)
{
    struct trust_step step = trust_sampled(&node->group->trust, node->index, asked, answered, node_us, answered);
    if ((step.forgot | step.write | step.look | step.changed) != 0 || step.own_clock_stood)
        step_take(node->group, step);
}

bool inspections_are_settled(const struct redlock_group *group)
{
    for (unsigned i = 0; i < group->node_count; i++) {
        const struct redis_node *node = group->nodes[i].node;
        bool is_unseen = redis_node_state(node) == REDIS_NODE_UP && group->trust.node[i].state == TRUST_UNSEEN;
        if (!redis_node_was_tried(node) || is_unseen)
            return false;
    }
    return true;
}
