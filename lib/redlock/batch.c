/* Releases and extensions of many locks in one script call a node.
 *
 * What gathers in a turn of the loop leaves together at its end: one call instead of many saves a node about a third
 * of the time of a release. A batch goes to every node that one of its locks needs; the other locks' keys are
 * compared there for nothing, which is harmless. The call answers one character a key; the votes of a lock are those
 * of its keys together. A batch lives until every node answered or timed out, and is then used again. */
#include "redlock/group.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "redlock/scripts.h"

enum { BATCH_KEYS_MAX = 128, BATCH_LOCKS_MAX = 64 };

struct batch_entry {
    struct redlock_lock *lock;
    uint32_t round;
    uint16_t first_key, key_count;
    node_set nodes;
};

struct batch_call {
    struct redis_call call;
    struct batch *batch;
    unsigned node;
};

struct batch {
    struct list link;      /* in group->batches */
    struct list idle_link; /* in group->idle_batches or group->full_batches */
    struct redlock_group *group;
    enum batch_kind kind;
    unsigned lock_count, key_count, unanswered;
    node_set nodes;
    struct instant gone_by;           /* when every key has expired by itself, also one planted late */
    struct buffer keys, values, ttls; /* encoded arguments */
    struct buffer request;
    struct batch_entry entries[BATCH_LOCKS_MAX];
    struct batch_call calls[]; /* one a node */
};

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

static struct batch *batch_open(struct redlock_group *group, enum batch_kind kind)
{
    if (group->gathering[kind] != NULL)
        return group->gathering[kind];
    struct batch *batch = batch_new(group);
    batch->kind = kind;
    batch->lock_count = batch->key_count = 0;
    batch->nodes = 0;
    batch->gone_by = (struct instant){0};
    buffer_clear(&batch->keys);
    buffer_clear(&batch->values);
    buffer_clear(&batch->ttls);
    group->gathering[kind] = batch;
    group->batches_in_flight++;
    loop_at_turn_end(group->loop, LOOP_BATCH, &group->send);
    return batch;
}

static void batch_close(struct batch *batch)
{
    batch->group->batches_in_flight--;
    list_append(&batch->group->idle_batches, &batch->idle_link);
}

/* --- gathering ------------------------------------------------------------------------------------------------ */

static void keys_encode(struct batch *batch, const struct redlock_lock *lock)
{
    for (unsigned i = 0; i < lock->key_count; i++) {
        struct key_span key = lock_key(lock, i);
        redis_request_bytes(&batch->keys, key.bytes, key.length);
        redis_request_bytes(&batch->values, lock->value, lock->value_length);
        if (batch->kind == BATCH_EXTEND)
            redis_request_integer(&batch->ttls, lock->terms.ttl_ns / NS_PER_MS);
    }
}

void batch_add(struct redlock_group *group, enum batch_kind kind, struct redlock_lock *lock, uint32_t round,
               node_set nodes)
{
    if (nodes == 0)
        return;
    struct batch *batch = batch_open(group, kind);
    if (batch->lock_count == BATCH_LOCKS_MAX || batch->key_count + lock->key_count > BATCH_KEYS_MAX) {
        group->gathering[kind] = NULL;
        list_append(&group->full_batches, &batch->idle_link);
        batch = batch_open(group, kind);
    }
    batch->entries[batch->lock_count++] = (struct batch_entry){.lock = lock,
                                                               .round = round,
                                                               .first_key = (uint16_t)batch->key_count,
                                                               .key_count = (uint16_t)lock->key_count,
                                                               .nodes = nodes};
    keys_encode(batch, lock);
    batch->key_count += lock->key_count;
    batch->nodes |= nodes;
    struct instant gone_by = loop_after(group->loop, GROUP_SILENCE_LIMIT_NS + lock->terms.ttl_ns);
    if (instant_before(batch->gone_by, gone_by))
        batch->gone_by = gone_by;
}

/* --- sending -------------------------------------------------------------------------------------------------- */

static void request_assemble(struct batch *batch)
{
    buffer_clear(&batch->request);
    if (batch->kind == BATCH_RELEASE)
        redis_request_script(&batch->request, &redlock_script_release, batch->key_count, batch->key_count);
    else
        redis_request_script(&batch->request, &redlock_script_extend, batch->key_count, 2 * (size_t)batch->key_count);
    buffer_append(&batch->request, batch->keys.bytes, batch->keys.length);
    buffer_append(&batch->request, batch->values.bytes, batch->values.length);
    buffer_append(&batch->request, batch->ttls.bytes, batch->ttls.length);
}

static void batch_outcome(struct batch *batch, unsigned node, const struct redis_result *result);

/* Counted before anything is sent, so that the batch cannot end while it is still being sent. */
static void batch_send(struct batch *batch)
{
    static const struct redis_result down = {
        .outcome = REDIS_ERROR, .error = REDIS_ERROR_DOWN, .reason = "the node is not connected"};
    struct redlock_group *group = batch->group;
    node_set unsent = 0;
    request_assemble(batch);
    batch->unanswered = (unsigned)__builtin_popcount(batch->nodes);
    for (unsigned i = 0; i < group->node_count; i++) {
        struct instant deadline = loop_after(group->loop, group->nodes[i].timeout_ns);
        if ((batch->nodes & (1u << i)) &&
            !redis_node_call(group->nodes[i].node, &batch->request, deadline, &batch->calls[i].call))
            unsent |= (node_set)(1u << i);
    }
    for (unsigned i = 0; unsent != 0 && i < group->node_count; i++)
        if (unsent & (1u << i))
            batch_outcome(batch, i, &down);
}

void batches_flush(struct redlock_group *group)
{
    struct list *full = NULL;
    while ((full = list_take_first(&group->full_batches)) != NULL)
        batch_send(list_owner(full, struct batch, idle_link));
    for (int kind = BATCH_RELEASE; kind <= BATCH_EXTEND; kind++) {
        struct batch *batch = group->gathering[kind];
        group->gathering[kind] = NULL;
        if (batch != NULL)
            batch_send(batch);
    }
}

/* --- answers -------------------------------------------------------------------------------------------------- */

/* All keys of a lock agree, or the worst of them counts: one that is not ours makes the lock not ours. */
static enum lease_vote entry_vote(const struct batch_entry *entry, const char *answers)
{
    enum lease_vote vote = LEASE_YES;
    for (unsigned i = 0; i < entry->key_count; i++) {
        char answer = answers[entry->first_key + i];
        if (answer == '2')
            return LEASE_FOREIGN;
        if (answer != '1')
            vote = LEASE_NO;
    }
    return vote;
}

static bool reply_fits(const struct batch *batch, const struct redis_result *result)
{
    return result->outcome == REDIS_VALUE && result->reply->kind == REDIS_STRING &&
           result->reply->length == batch->key_count;
}

/* A release that may not have been executed is owed: behind a connection that broke it goes out on the next one; a
 * server that refused it for a passing reason gets it again soon. */
static void release_owe(struct batch *batch, unsigned node, const struct redis_result *result)
{
    bool refused = result->outcome == REDIS_ERROR && result->error != REDIS_ERROR_DOWN;
    owed_add(&batch->group->nodes[node], &batch->request, batch->gone_by, refused ? OWED_SOON : OWED_AFTER_RECONNECT);
}

static void batch_outcome(struct batch *batch, unsigned node, const struct redis_result *result)
{
    bool fits = reply_fits(batch, result);
    struct instant now = instant_now();
    group_node_refused(&batch->group->nodes[node], result);
    if (!fits && batch->kind == BATCH_RELEASE)
        release_owe(batch, node, result);
    for (unsigned i = 0; i < batch->lock_count; i++) {
        const struct batch_entry *entry = &batch->entries[i];
        if (entry->round == BATCH_NO_VOTE || !(entry->nodes & (1u << node)) || entry->lock->lease.round != entry->round)
            continue;
        enum lease_vote vote = fits ? entry_vote(entry, result->reply->bytes) : LEASE_UNKNOWN;
        struct lease_step step = lease_vote(&entry->lock->lease, &entry->lock->terms, node, entry->round, vote, 0, now);
        lock_take_step(entry->lock, step);
    }
    invariant(batch->unanswered > 0);
    if (--batch->unanswered == 0)
        batch_close(batch);
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
    buffer_fini(&batch->ttls);
    buffer_fini(&batch->request);
    free(batch);
}

void batches_dispose(struct redlock_group *group)
{
    struct list *link = NULL;
    while ((link = list_take_first(&group->batches)) != NULL)
        batch_dispose(list_owner(link, struct batch, link));
}
