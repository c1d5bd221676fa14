/* One node of a group: whether to ask it, how long to wait for it, what it is asked, and counts of its answers.
 *
 * Pace. A majority decides about locks, so users could run faster than the slowest node for ever: it would fall behind
 * without bound until its connection closes with too much unanswered, and its votes would come too late anyway.
 * Two rules keep every node within reach, and neither lets a slow or hung minority slow the others down for long:
 *   - The group waits for a node with much unanswered that still answers soon: grants stay here until it has caught
 *     up, releases and extensions leave. A loaded machine settles at the speed of all its nodes.
 *   - A node that is behind (it has not answered within its patience, or far too much is unanswered) gets no grants
 *     until it has answered: that is a vote less, as if it were down, and leaves nothing to clean up.
 *
 * Patience. The group waits for a node during its timeout, or twice the time of its slowest recent answer, up to ten
 * times the timeout. So a node that hangs for a moment now and then, on a busy machine, keeps its vote. */
#include "redlock/group_private.h"

#include <stdio.h>

#include "base/log.h"
#include "redlock/limits.h"
#include "redlock/scripts.h"

#define REFUSAL_SILENCE_NS (1 * NS_PER_S)

#define PACE_BYTES       ((size_t)256 << 10) /* more than some 1000 users have in flight at once */
#define PACE_PATIENCE_NS (50 * NS_PER_MS)    /* the group does not wait for a slower node */
#define BEHIND_BYTES     ((size_t)2 << 20)

/* --- refusals ------------------------------------------------------------------------------------------------- */

/* Logs once a second at most while it lasts: under load every request would get the same answer. */
bool group_node_refused(struct group_node *node, const struct redis_result *result)
{
    if (result->outcome != REDIS_ERROR || result->error == REDIS_ERROR_DOWN || result->error == REDIS_ERROR_OVERLOAD)
        return false;
    struct instant now = loop_now(node->group->loop);
    const char *name = redis_node_name(node->node);
    snprintf(node->group->refusal, sizeof node->group->refusal, "too few lock nodes grant it: %s answers: %s", name,
             result->reason);
    if (instant_before(now, instant_after(node->refusal_told, REFUSAL_SILENCE_NS)))
        return true;
    char why[LOG_QUOTE_MAX];
    node->refusal_told = now;
    log_event(LOG_WARN, "lock_node_refused", "node=%s error=%s reason=%s", name, redis_error_name(result->error),
              log_value(result->reason, why));
    return true;
}

/* --- pace ----------------------------------------------------------------------------------------------------- */

static int64_t answer_age_ns(const struct group_node *node)
{
    struct instant since = redis_node_waits_since(node->node);
    struct instant now = loop_now(node->group->loop);
    return instant_before(since, now) ? instant_since(since, now) : 0;
}

int64_t group_node_patience_ns(const struct group_node *node)
{
    return redis_node_timeout_ns(node->node, node->timeout_ns, redlock_longest_patience_ns(node->timeout_ns));
}

int64_t group_patience_ns(struct redlock_group *group)
{
    struct instant now = loop_now(group->loop);
    int64_t longest_ns = 0;
    if (group->patience_at.ns == now.ns)
        return group->patience_ns;
    for (unsigned i = 0; i < group->node_count; i++) {
        int64_t patience_ns = group_node_patience_ns(&group->nodes[i]);
        longest_ns = patience_ns > longest_ns ? patience_ns : longest_ns;
    }
    group->patience_at = now;
    group->patience_ns = longest_ns;
    return longest_ns;
}

static bool is_behind(const struct group_node *node)
{
    return answer_age_ns(node) >= group_node_patience_ns(node) || redis_node_unanswered(node->node) > BEHIND_BYTES;
}

bool group_node_takes_grants(struct group_node *node)
{
    bool behind = is_behind(node);
    if (behind && !node->told_behind)
        log_event(LOG_WARN, "lock_node_silent", "node=%s silent_ms=%lld advice=\"it has no vote until it answers\"",
                  redis_node_name(node->node), (long long)(answer_age_ns(node) / NS_PER_MS));
    /* The kernel of a stopped process still accepts a new connection, which has nothing unanswered yet. */
    bool answers = node->told_behind && !behind && redis_node_state(node->node) == REDIS_NODE_UP;
    if (answers)
        log_event(LOG_INFO, "lock_node_answers", "node=%s", redis_node_name(node->node));
    node->told_behind = (node->told_behind && !answers) || behind;
    return !behind && (trust_voters(&node->group->trust) & (1u << node->index)) != 0;
}

bool group_must_wait(const struct redlock_group *group)
{
    for (unsigned i = 0; i < group->node_count; i++) {
        const struct group_node *node = &group->nodes[i];
        if (redis_node_unanswered(node->node) > PACE_BYTES && answer_age_ns(node) < PACE_PATIENCE_NS &&
            !is_behind(node))
            return true;
    }
    return false;
}

bool group_is_unheard(const struct redlock_group *group)
{
    return !group->is_guest && instant_reached(loop_now(group->loop), group->heard_until);
}

/* --- requests and answers, counted where they happen ---------------------------------------------------------- */

bool group_node_call(struct group_node *node, const struct buffer *request, struct redis_call *call)
{
    struct instant deadline = loop_after(node->group->loop, group_node_patience_ns(node));
    bool is_sent = redis_node_call(node->node, request, deadline, call);
    node->counters.requests += is_sent;
    return is_sent;
}

void group_node_put_fences(struct group_node *node, unsigned fences)
{
    const struct redlock_group *group = node->group;
    struct buffer request = {0};
    node->grants_since_trim += fences;
    if (node->grants_since_trim < TRIM_INTERVAL)
        return;
    redis_request_script(&request, &redlock_script_trim, 1, 3);
    redis_request_texts(&request, MARKER_KEY, trust_marker_expected(&group->trust, node->index));
    redis_request_integer(&request, group->fences_max);
    redis_request_integer(&request, 2 * (int64_t)node->grants_since_trim);
    (void)!group_node_call(node, &request, NULL);
    buffer_fini(&request);
    node->grants_since_trim = 0;
}

static bool was_not_sent(const struct redis_result *result)
{
    return result->outcome == REDIS_ERROR &&
           (result->error == REDIS_ERROR_DOWN || result->error == REDIS_ERROR_OVERLOAD);
}

void node_counts_result(struct group_node *node, const struct redis_result *result)
{
    node->counters.timeouts += result->outcome == REDIS_UNKNOWN;
    node->counters.errors += result->outcome == REDIS_ERROR && !was_not_sent(result);
}

void node_counts_split(struct redlock_group *group, node_set granted)
{
    for (unsigned i = 0; i < group->node_count; i++)
        group->nodes[i].counters.split_votes += (granted & (1u << i)) != 0;
}

const struct redlock_node_counters *redlock_group_node_counters(const struct redlock_group *group, unsigned node)
{
    return group != NULL && node < group->node_count ? &group->nodes[node].counters : NULL;
}

unsigned redlock_group_nodes_up(const struct redlock_group *group)
{
    unsigned up = 0;
    for (unsigned i = 0; group != NULL && i < group->node_count; i++)
        up += redis_node_state(group->nodes[i].node) == REDIS_NODE_UP;
    return up;
}

const char *redlock_group_trouble(const struct redlock_group *group)
{
    const char *reason = "";
    for (unsigned i = 0; group != NULL && i < group->node_count && reason[0] == '\0'; i++)
        if (redis_node_state(group->nodes[i].node) != REDIS_NODE_UP)
            reason = redis_node_reason(group->nodes[i].node);
    return reason;
}
