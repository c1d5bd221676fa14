#include "redlock/holders.h"

#include <string.h>

#include "redlock/other_clients.h"

enum { RANDOM_DIGITS = 32 };

static bool has_value(const struct key_status *status)
{
    return status->key->is_answered && status->key->kind != REDLOCK_KEY_NOTHING;
}

/* A value that was not read to its end equals nothing. */
static bool is_same(const struct redlock_key_view *a, const struct redlock_key_view *b)
{
    return a->kind == REDLOCK_KEY_VALUE && b->kind == REDLOCK_KEY_VALUE && a->length == b->length &&
           memcmp(a->value, b->value, a->length) == 0;
}

static bool is_of(const struct key_status *statuses, unsigned index, unsigned first)
{
    return has_value(&statuses[index]) && (index == first || is_same(statuses[index].key, statuses[first].key));
}

static bool is_first(const struct key_status *statuses, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (is_of(statuses, i, index))
            return false;
    return has_value(&statuses[index]);
}

/* Our values are random digits, a colon and the owner's text. Those of other clients have no text for people. */
static const char *owner_of(const struct redlock_key_view *key)
{
    bool is_ours = key->kind == REDLOCK_KEY_VALUE && key->length > RANDOM_DIGITS && !other_clients_wrote(key->value) &&
                   memchr(key->value, '\0', key->length) == NULL;
    return is_ours ? key->value + RANDOM_DIGITS + 1 : NULL;
}

/* The token that a quorum of the value's nodes have: a grant raises it there before it counts. */
static uint64_t token_of(const struct key_status *statuses, unsigned count, unsigned first, unsigned quorum)
{
    for (unsigned i = first; i < count; i++) {
        unsigned equal = 0;
        if (!is_of(statuses, i, first) || statuses[i].key->fence == 0)
            continue;
        for (unsigned j = first; j < count; j++)
            equal += is_of(statuses, j, first) && statuses[j].key->fence == statuses[i].key->fence;
        if (equal >= quorum)
            return statuses[i].key->fence;
    }
    return 0;
}

static struct redlock_holder holder_of(const struct key_status *statuses, unsigned count, unsigned first)
{
    const unsigned quorum = count / 2 + 1;
    struct redlock_holder holder = {.node = first, .owner = owner_of(statuses[first].key)};
    unsigned unknown = 0;
    for (unsigned i = 0; i < count; i++) {
        bool has_it = is_of(statuses, i, first);
        holder.nodes += has_it;
        holder.votes += has_it && statuses[i].votes;
        unknown += !statuses[i].key->is_answered || (has_it && !statuses[i].votes);
        int64_t ms = statuses[i].key->remaining_ms;
        if (has_it && holder.remaining_ms >= 0 && (ms < 0 || ms > holder.remaining_ms))
            holder.remaining_ms = ms < 0 ? -1 : ms;
    }
    holder.token = token_of(statuses, count, first, quorum);
    if (holder.votes >= quorum)
        holder.standing = REDLOCK_HELD;
    else
        holder.standing = holder.votes + unknown >= quorum ? REDLOCK_HELD_MAYBE : REDLOCK_LEFTOVER;
    return holder;
}

unsigned holders_judge(const struct key_status *statuses, unsigned count,
                       struct redlock_holder holders[REDLOCK_NODES_MAX])
{
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_first(statuses, i))
            continue;
        struct redlock_holder holder = holder_of(statuses, count, i);
        unsigned place = found++;
        for (; place > 0 && holders[place - 1].nodes < holder.nodes; place--)
            holders[place] = holders[place - 1];
        holders[place] = holder;
    }
    return found;
}
