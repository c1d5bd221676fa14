#include "redlock/holders.h"

#include <string.h>

#include "redlock/other_clients.h"

enum { RANDOM_DIGITS = 32 };

/* What a node has under the key: its value, or that of each reader. */
struct entry {
    const char *value;
    size_t length;
    bool is_whole, is_string;
    int64_t remaining_ms;
};

static unsigned entry_count(const struct redlock_key_view *key)
{
    if (!key->is_answered || key->kind == REDLOCK_KEY_NOTHING)
        return 0;
    return key->reader_count > 0 ? key->reader_count : 1;
}

static struct entry entry_at(const struct redlock_key_view *key, unsigned index)
{
    if (key->reader_count == 0)
        return (struct entry){key->value, key->length, key->kind == REDLOCK_KEY_VALUE,
                              key->kind != REDLOCK_KEY_NO_STRING, key->remaining_ms};
    const struct redlock_reader_view *reader = &key->readers[index];
    return (struct entry){reader->value, reader->length, true, true, reader->remaining_ms};
}

/* A value that was not read to its end equals nothing. What is no string is not told apart. */
static bool is_same(const struct entry *a, const struct entry *b)
{
    if (!a->is_string && !b->is_string)
        return true;
    return a->is_whole && b->is_whole && a->length == b->length && memcmp(a->value, b->value, a->length) == 0;
}

/* Whether the node has it; `found` is its own then. */
static bool find(const struct redlock_key_view *key, const struct entry *wanted, struct entry *found)
{
    for (unsigned i = 0; i < entry_count(key); i++) {
        *found = entry_at(key, i);
        if (found->value == wanted->value || is_same(found, wanted))
            return true;
    }
    return false;
}

static bool was_before(const struct key_status *statuses, unsigned node, const struct entry *entry)
{
    struct entry found;
    for (unsigned i = 0; i < node; i++)
        if (find(statuses[i].key, entry, &found))
            return true;
    return false;
}

/* Our values are random digits, a colon and the owner's text. Those of other clients have no text for people. */
static const char *owner_of(const struct entry *entry)
{
    bool is_ours = entry->is_whole && entry->length > RANDOM_DIGITS && !other_clients_wrote(entry->value) &&
                   memchr(entry->value, '\0', entry->length) == NULL;
    return is_ours ? entry->value + RANDOM_DIGITS + 1 : NULL;
}

/* The token that a quorum of the nodes that have it have: a grant raises it there before it counts. */
static uint64_t token_of(const struct key_status *statuses, unsigned count, const struct entry *entry)
{
    struct entry found;
    for (unsigned i = 0; i < count; i++) {
        unsigned equal = 0;
        if (statuses[i].key->fence == 0 || !find(statuses[i].key, entry, &found))
            continue;
        for (unsigned j = 0; j < count; j++)
            equal += statuses[j].key->fence == statuses[i].key->fence && find(statuses[j].key, entry, &found);
        if (equal >= count / 2 + 1)
            return statuses[i].key->fence;
    }
    return 0;
}

static struct redlock_holder holder_of(const struct key_status *statuses, unsigned count, unsigned first,
                                       const struct entry *entry)
{
    const unsigned quorum = count / 2 + 1;
    struct redlock_holder holder = {.node = first,
                                    .value = entry->value,
                                    .length = entry->length,
                                    .is_reader = statuses[first].key->reader_count > 0,
                                    .owner = owner_of(entry)};
    struct entry found;
    unsigned unknown = 0;
    for (unsigned i = 0; i < count; i++) {
        bool has_it = find(statuses[i].key, entry, &found);
        holder.nodes += has_it;
        holder.votes += has_it && statuses[i].votes;
        unknown += !statuses[i].key->is_answered || (has_it && !statuses[i].votes);
        int64_t ms = has_it ? found.remaining_ms : 0;
        if (has_it && holder.remaining_ms >= 0 && (ms < 0 || ms > holder.remaining_ms))
            holder.remaining_ms = ms < 0 ? -1 : ms;
    }
    holder.token = token_of(statuses, count, entry);
    if (holder.votes >= quorum)
        holder.standing = REDLOCK_HELD;
    else
        holder.standing = holder.votes + unknown >= quorum ? REDLOCK_HELD_MAYBE : REDLOCK_LEFTOVER;
    return holder;
}

/* The one on most nodes first. When there are too many, those on the fewest nodes are left out. */
static unsigned holder_put(struct redlock_holder holders[REDLOCK_HOLDERS_MAX], unsigned found,
                           const struct redlock_holder *holder)
{
    unsigned position = found < REDLOCK_HOLDERS_MAX ? found : REDLOCK_HOLDERS_MAX - 1;
    if (found == REDLOCK_HOLDERS_MAX && holders[position].nodes >= holder->nodes)
        return found;
    for (; position > 0 && holders[position - 1].nodes < holder->nodes; position--)
        holders[position] = holders[position - 1];
    holders[position] = *holder;
    return found < REDLOCK_HOLDERS_MAX ? found + 1 : found;
}

unsigned holders_judge(const struct key_status *statuses, unsigned count,
                       struct redlock_holder holders[REDLOCK_HOLDERS_MAX])
{
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < entry_count(statuses[i].key); k++) {
            struct entry entry = entry_at(statuses[i].key, k);
            if (was_before(statuses, i, &entry))
                continue;
            struct redlock_holder holder = holder_of(statuses, count, i, &entry);
            found = holder_put(holders, found, &holder);
        }
    return found;
}
