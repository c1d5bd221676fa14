/* Asks the nodes about many locks at once: one script call a node.
 *
 * What gathers in a cycle of the loop leaves together at its end: one call instead of many saves a node about a third
 * of the time of a release. A batch goes to every node that one of its locks needs; there it also compares the keys of
 * the other locks, which is harmless. Grants of several keys, and calls about tokens, leave one lock a call. A batch
 * lives until every node has answered or timed out, and is then reused. batch_codec.c encodes the requests and reads
 * the answers. */
#include "redlock/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/group_private.h"

static void batch_done(struct redis_call *call, const struct redis_result *result);

static struct batch *batch_new(struct redlock_group *group)
{
    struct list *idle = list_take_first(&group->idle_batches);
    if (idle != NULL)
        return list_owner(idle, struct batch, idle_link);
    struct batch *batch = memory_zeroed(1, sizeof *batch + group->node_count * sizeof batch->calls[0]);
    list_init(&batch->link);
    list_init(&batch->idle_link);
    list_append(&group->batches, &batch->link);
    batch->group = group;
    for (unsigned i = 0; i < group->node_count; i++)
        batch->calls[i] = (struct batch_call){.call.done = batch_done, .batch = batch, .node = i};
    return batch;
}

static struct batch *batch_open(struct redlock_group *group, enum batch_kind kind, bool is_shared)
{
    if (group->gathering[kind][is_shared] != NULL)
        return group->gathering[kind][is_shared];
    struct batch *batch = batch_new(group);
    batch->kind = kind;
    batch->is_shared = is_shared;
    batch->lock_count = batch->key_count = batch->old_count = 0;
    batch->nodes = 0;
    batch->is_quiet = kind == BATCH_RELEASE && !is_shared && group_is_unheard(group);
    memset(batch->announced, 0, sizeof batch->announced);
    batch->gone_by = (struct instant){0};
    buffer_clear(&batch->keys);
    buffer_clear(&batch->values);
    buffer_clear(&batch->others);
    group->gathering[kind][is_shared] = batch;
    group->batches_in_flight++;
    loop_at_cycle_end(group->loop, LOOP_BATCH, &group->send);
    return batch;
}

void lock_swap_end_if_over(struct lock_swap *swap)
{
    if (swap->next != NULL || swap->is_sent)
        return;
    list_remove(&swap->link);
    list_append(&swap->group->idle_swaps, &swap->link);
}

static void batch_close(struct batch *batch)
{
    for (unsigned i = 0; i < batch->lock_count; i++)
        if (batch->entries[i].swap != NULL) {
            batch->entries[i].swap->is_sent = false;
            lock_swap_end_if_over(batch->entries[i].swap);
        }
    batch->group->batches_in_flight--;
    list_append(&batch->group->idle_batches, &batch->idle_link);
}

/* --- gathering ------------------------------------------------------------------------------------------------ */

static bool is_grant(enum batch_kind kind)
{
    return kind == BATCH_GRANT || kind == BATCH_GRANT_ALL;
}

/* Whether a lock with this many keys can leave in the same call as what gathered so far. */
static bool batch_has_room(const struct batch *batch, const struct redlock_lock *lock, unsigned key_count)
{
    if (batch->lock_count == 0)
        return true;
    if (batch->kind == BATCH_GRANT &&
        (batch->terms.ttl_ns != lock->terms.ttl_ns || batch->terms.fenced != lock->terms.fenced))
        return false;
    return !batch_is_of_one(batch) && batch->lock_count < BATCH_LOCKS_MAX &&
           batch->key_count + key_count <= BATCH_KEYS_MAX;
}

static struct batch *batch_with_room(enum batch_kind kind, bool is_shared, const struct redlock_lock *lock,
                                     unsigned key_count)
{
    struct redlock_group *group = lock->group;
    struct batch *batch = batch_open(group, kind, is_shared);
    if (batch_has_room(batch, lock, key_count))
        return batch;
    group->gathering[kind][is_shared] = NULL;
    list_append(&group->full_batches[kind], &batch->idle_link);
    return batch_open(group, kind, is_shared);
}

/* Call it after batch_codec_add. */
static void entry_add(struct batch *batch, struct batch_entry entry, int64_t ttl_ns)
{
    entry.first_key = (uint16_t)batch->key_count;
    batch->entries[batch->lock_count++] = entry;
    batch->key_count += entry.key_count;
    batch->nodes |= entry.nodes;
    struct instant gone_by = loop_after(batch->group->loop, GROUP_SILENCE_LIMIT_NS + ttl_ns);
    if (instant_before(batch->gone_by, gone_by))
        batch->gone_by = gone_by;
}

void batch_add(enum batch_kind kind, struct redlock_lock *lock, uint32_t round, node_set nodes)
{
    if (nodes == 0)
        return;
    unsigned notes = kind == BATCH_EXTEND && lock_has_later_seat(lock); /* whose answers are no votes */
    struct batch *batch = batch_with_room(kind, lock->is_shared, lock, lock->key_count + notes);
    struct batch_entry entry = {.lock = lock, .round = round, .key_count = (uint16_t)lock->key_count, .nodes = nodes};
    if (is_grant(kind) && lock->swaps_in != NULL) {
        entry.swap = lock->swaps_in;
        entry.swap->is_sent = true;
    }
    batch->terms = lock->terms;
    batch->gone = lock->lease.gone;
    batch_codec_add(batch, lock);
    entry_add(batch, entry, lock->terms.ttl_ns);
    batch->key_count += notes;
}

/* Readers release in the same way. */
void batch_add_withdrawal(struct redlock_lock *lock, bool is_told)
{
    struct redlock_group *group = lock->group;
    node_set all = (node_set)((1u << group->node_count) - 1u);
    int64_t longest_ns = trust_max_ttl_ns(&group->trust);
    struct batch *batch = batch_with_room(BATCH_RELEASE, true, lock, lock->key_count);
    batch_codec_add_withdrawal(batch, lock, is_told);
    entry_add(batch,
              (struct batch_entry){
                  .lock = lock, .round = BATCH_NO_VOTE, .key_count = (uint16_t)lock->key_count, .nodes = all},
              longest_ns > 0 ? longest_ns : lock->terms.ttl_ns);
}

/* If it were twice in a call, the first would delete the key at the nodes of the second, whose votes would then say
 * that it was gone. */
static bool is_widened(struct batch *batch, const struct lock_swap *swap, node_set nodes, node_set unsure)
{
    for (unsigned i = 0; batch != NULL && i < batch->lock_count; i++) {
        struct batch_entry *entry = &batch->entries[i];
        if (entry->lock == swap->before && entry->round == swap->before_round) {
            entry->nodes |= nodes;
            entry->unsure |= unsure;
            batch->nodes |= nodes;
            return true;
        }
    }
    return false;
}

/* The lock that had the keys may be another by now. */
void batch_add_swapped(struct lock_swap *swap, node_set nodes, node_set unsure, const struct redlock_lock *failed)
{
    if (nodes == 0 || is_widened(swap->group->gathering[BATCH_RELEASE][false], swap, nodes, unsure))
        return;
    struct batch *batch = batch_with_room(BATCH_RELEASE, false, swap->before, swap->key_count);
    batch_codec_add_swapped(batch, swap, failed);
    entry_add(
        batch,
        (struct batch_entry){
            .lock = swap->before, .round = swap->before_round, .key_count = (uint16_t)swap->key_count, .nodes = nodes},
        swap->ttl_ns);
}

/* No release is announced to other processes: the next lock has the keys, or may still get them. */
static void swap_conclude(struct lock_swap *swap, unsigned node, enum swap_answer answer, node_set release,
                          struct instant now)
{
    struct redlock_lock *before = swap->before;
    enum lease_vote vote = swap_vote(answer);
    batch_add_swapped(swap, release, answer == SWAP_UNKNOWN ? release : 0, NULL);
    if (vote != LEASE_UNSENT && before->lease.round == swap->before_round)
        swap->group->take_step(before,
                               lease_vote(&before->lease, &before->terms, node, swap->before_round, vote, 0, now));
}

/* --- counting ------------------------------------------------------------------------------------------------- */

/* The attempt was decided before this answer, as a split vote, and the next one has not begun. */
static bool is_late_for_split(const struct batch_entry *entry)
{
    const struct lease *lease = &entry->lock->lease;
    bool is_between = lease->state == LEASE_WAITING || lease->state == LEASE_FREE;
    return is_between && lease->refusal == REDLOCK_SPLIT && lease->round == entry->round + 1;
}

/* Also counts grants whose lock no longer waits for them: the node gave them. */
static void grants_count(struct redlock_node_counters *counters, const struct batch *batch, unsigned node,
                         const struct batch_answer *answer)
{
    for (unsigned i = 0; i < batch->lock_count; i++) {
        if (!(batch->entries[i].nodes & (1u << node)))
            continue;
        enum lease_vote vote = batch_codec_granted(batch, &batch->entries[i], answer);
        counters->granted += vote == LEASE_YES;
        counters->split_votes += vote == LEASE_YES && is_late_for_split(&batch->entries[i]);
        counters->refused += vote == LEASE_NO;
        counters->errors += vote == LEASE_UNKNOWN;
    }
}

static void node_counts_batch(struct group_node *node, const struct batch *batch, const struct redis_result *result,
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

/* --- sending -------------------------------------------------------------------------------------------------- */

static bool send_to(struct batch *batch, unsigned node, struct instant now)
{
    struct group_node *member = &batch->group->nodes[node];
    if (is_grant(batch->kind) && !group_node_takes_grants(member))
        return false;
    if (batch->kind != BATCH_RELEASE)
        batch_codec_request(batch, node);
    batch->calls[node].asked = now;
    bool is_sent = group_node_call(member, &batch->request, &batch->calls[node].call);
    if (is_sent && is_grant(batch->kind) && batch_codec_puts_fences(batch))
        group_node_put_fences(member, batch->key_count);
    return is_sent;
}

static void answered_one(struct batch *batch)
{
    invariant(batch->unanswered > 0);
    if (--batch->unanswered == 0)
        batch_close(batch);
}

static void swap_not_sent(struct lock_swap *swap, node_set unsent, struct instant now)
{
    for (unsigned node = 0; node < swap->group->node_count; node++)
        if (unsent & (1u << node))
            swap_conclude(swap, node, SWAP_NOT, swap_answered(&swap->swap, node, SWAP_NOT), now);
}

/* Writes all grants before it counts "could not be sent", and for all nodes at once: that may end an attempt, and the
 * release must then know exactly what was sent. */
static void grants_not_sent(struct batch *batch, node_set unsent)
{
    for (unsigned i = 0; i < batch->lock_count; i++) {
        const struct batch_entry *entry = &batch->entries[i];
        if (entry->lock->lease.round == entry->round)
            batch->group->take_step(entry->lock, lease_unsent(&entry->lock->lease, &entry->lock->terms, unsent,
                                                              entry->round, loop_now(batch->group->loop)));
        if (entry->swap != NULL)
            swap_not_sent(entry->swap, unsent, loop_now(batch->group->loop));
    }
    for (; unsent != 0; unsent &= (node_set)(unsent - 1))
        answered_one(batch);
}

static void batch_outcome(struct batch *batch, unsigned node, const struct redis_result *result);

/* Releases of the cycle have left before: a key that its lock has let go of meanwhile would be planted behind them
 * (E30). */
static bool is_planted_in_vain(const struct batch *batch)
{
    return batch->kind == BATCH_REPLANT && batch->entries[0].lock->lease.round != batch->entries[0].round;
}

/* Counted before anything is sent, so that the batch cannot end while it is still being sent. */
static void batch_send(struct batch *batch)
{
    static const struct redis_result down = {
        .outcome = REDIS_ERROR, .error = REDIS_ERROR_DOWN, .reason = "the node is not connected"};
    node_set unsent = 0;
    struct instant now = instant_now();
    if (is_planted_in_vain(batch)) {
        batch_close(batch);
        return;
    }
    if (batch->kind == BATCH_RELEASE)
        batch_codec_request(batch, 0);
    batch->unanswered = (unsigned)__builtin_popcount(batch->nodes);
    for (unsigned i = 0; i < batch->group->node_count; i++)
        if ((batch->nodes & (1u << i)) && !send_to(batch, i, now))
            unsent |= (node_set)(1u << i);
    if (is_grant(batch->kind) && unsent != 0) {
        grants_not_sent(batch, unsent);
        return;
    }
    for (unsigned i = 0; unsent != 0 && i < batch->group->node_count; i++)
        if (unsent & (1u << i))
            batch_outcome(batch, i, &down);
}

static void kind_flush(struct redlock_group *group, enum batch_kind kind)
{
    struct list *full = NULL;
    while ((full = list_take_first(&group->full_batches[kind])) != NULL)
        batch_send(list_owner(full, struct batch, idle_link));
    for (int is_shared = 0; is_shared <= 1; is_shared++) {
        struct batch *batch = group->gathering[kind][is_shared];
        group->gathering[kind][is_shared] = NULL;
        if (batch != NULL)
            batch_send(batch);
    }
}

void batches_flush(struct redlock_group *group)
{
    for (int kind = 0; kind < BATCH_GRANT; kind++)
        kind_flush(group, (enum batch_kind)kind);
}

void batches_flush_grants(struct redlock_group *group)
{
    for (int kind = BATCH_GRANT; kind < BATCH_KINDS; kind++)
        kind_flush(group, (enum batch_kind)kind);
}

/* --- answers -------------------------------------------------------------------------------------------------- */

/* A release that may not have been executed is sent again later. If its connection broke, it leaves on the next one; if
 * the server refused it for a passing reason, it leaves again soon. */
static void release_owe(struct batch *batch, unsigned node, const struct redis_result *result)
{
    bool refused = result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN;
    late_release_add(&batch->group->nodes[node], &batch->request, batch->gone_by,
                     refused ? LATE_SOON : LATE_AFTER_RECONNECT);
}

/* The next releases announce themselves at once. */
static void releases_announce(struct batch *batch, unsigned node, const char *answers)
{
    const char *at = batch->keys.bytes;
    batch->group->heard_until = loop_after(batch->group->loop, GROUP_HEARD_NS);
    for (unsigned i = 0; i < batch->key_count; i++) {
        char *end = NULL;
        unsigned long length = strtoul(at + 1, &end, 10); /* "$LENGTH\r\nKEY\r\n" */
        const char *key = end + 2;
        at = key + length + 2;
        if (answers[i] == '1' && (batch->announced[i / 64] & (UINT64_C(1) << i % 64)) != 0)
            notifications_say_free(batch->group->notifications, (node_set)(1u << node), key, length);
    }
}

static void own_vote(struct batch *batch, const struct batch_entry *entry, unsigned node,
                     const struct batch_answer *answer, struct instant now)
{
    struct redlock_lock *lock = entry->lock;
    if (entry->round == BATCH_NO_VOTE || !(entry->nodes & (1u << node)) || lock->lease.round != entry->round)
        return;
    uint64_t detail = 0;
    enum lease_vote vote = batch_codec_vote(batch, entry, node, answer, &detail);
    batch->group->take_step(lock, lease_vote(&lock->lease, &lock->terms, node, entry->round, vote, detail, now));
}

/* The lock that takes over learns first that it holds. Then the one before it learns that it no longer does. */
static void entry_vote(struct batch *batch, const struct batch_entry *entry, unsigned node,
                       const struct batch_answer *answer, struct instant now)
{
    if (entry->swap == NULL) {
        own_vote(batch, entry, node, answer, now);
        return;
    }
    enum swap_answer swapped = batch_codec_swap_answer(batch, entry, answer);
    node_set release = swap_answered(&entry->swap->swap, node, swapped);
    own_vote(batch, entry, node, answer, now);
    swap_conclude(entry->swap, node, swapped, release, now);
}

static void batch_outcome(struct batch *batch, unsigned node, const struct redis_result *result)
{
    struct group_node *member = &batch->group->nodes[node];
    struct instant now = instant_now();
    struct batch_answer answer = batch_codec_answer(batch, result);
    bool was_refused = group_node_refused(member, result);
    node_counts_batch(member, batch, result, &answer, now);
    if (batch->kind == BATCH_RELEASE && answer.kind != ANSWER_EXECUTED)
        release_owe(batch, node, result);
    if (answer.is_heard)
        releases_announce(batch, node, answer.text);
    if (answer.node_us > 0)
        batch->group->node_sampled(member, batch->calls[node].asked, now, answer.node_us);
    if (answer.kind == ANSWER_OTHER_MARKER)
        batch->group->node_doubted(member);
    for (unsigned i = 0; i < batch->lock_count; i++) {
        batch->entries[i].lock->was_refused |=
            was_refused && batch->entries[i].lock->lease.round == batch->entries[i].round;
        entry_vote(batch, &batch->entries[i], node, &answer, now);
    }
    answered_one(batch);
}

static void batch_done(struct redis_call *call, const struct redis_result *result)
{
    struct batch_call *asked = list_owner(call, struct batch_call, call);
    batch_outcome(asked->batch, asked->node, result);
}

static void batch_dispose(struct batch *batch)
{
    buffer_fini(&batch->keys);
    buffer_fini(&batch->values);
    buffer_fini(&batch->others);
    buffer_fini(&batch->request);
    free(batch);
}

void batches_dispose(struct redlock_group *group)
{
    struct list *link = NULL;
    while ((link = list_take_first(&group->batches)) != NULL)
        batch_dispose(list_owner(link, struct batch, link));
}
