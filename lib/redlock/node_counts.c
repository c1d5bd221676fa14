/* What a node was asked and said, counted where it happens. On the loop. */
#include "redlock/batch.h"
#include "redlock/group.h"

bool group_node_call(struct group_node *node, const struct buffer *request, struct redis_call *call)
{
    struct instant deadline = loop_after(node->group->loop, group_node_patience_ns(node));
    bool is_sent = redis_node_call(node->node, request, deadline, call);
    node->counters.requests += is_sent;
    return is_sent;
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

/* The pass was decided before this answer, as a split vote, and the next one has not begun. */
static bool is_late_for_split(const struct batch_entry *entry)
{
    const struct lease *lease = &entry->lock->lease;
    bool is_between = lease->state == LEASE_WAITING || lease->state == LEASE_FREE;
    return is_between && lease->refusal == LEASE_SPLIT && lease->round == entry->round + 1;
}

/* Also of grants that nobody waits for any more: the node gave them. */
static void grants_count(struct redlock_node_counters *counters, const struct batch *batch, unsigned node,
                         const struct batch_answer *answer)
{
    for (unsigned i = 0; i < batch->lock_count; i++) {
        if (!(batch->entries[i].nodes & (1u << node)))
            continue;
        enum lease_vote vote = batch_words_granted(batch, &batch->entries[i], answer);
        counters->granted += vote == LEASE_YES;
        counters->split_votes += vote == LEASE_YES && is_late_for_split(&batch->entries[i]);
        counters->refused += vote == LEASE_NO;
        counters->errors += vote == LEASE_UNKNOWN;
    }
}

void node_counts_batch(struct group_node *node, const struct batch *batch, const struct redis_result *result,
                       const struct batch_answer *answer, struct instant now)
{
    struct redlock_node_counters *counters = &node->counters;
    node_counts_result(node, result);
    if (result->reply != NULL)
        histogram_record(&counters->latency, instant_since(batch->calls[node->index].asked, now) / NS_PER_US);
    if (answer->kind == ANSWER_EXECUTED && (batch->kind == BATCH_GRANT || batch->kind == BATCH_GRANT_ALL))
        grants_count(counters, batch, node->index, answer);
    else if (result->outcome == REDIS_VALUE && answer->kind != ANSWER_EXECUTED)
        counters->errors++;
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

const struct histogram *redlock_group_extensions(const struct redlock_group *group)
{
    return group != NULL ? &group->extensions : NULL;
}
