#include "redlock/other_clients.h"

#include <string.h>

#include "base/hash.h"

enum { RANDOM_DIGITS = 32 };

bool other_clients_wrote(const char *value)
{
    return strspn(value, "0123456789abcdef") != RANDOM_DIGITS || value[RANDOM_DIGITS] != ':';
}

static struct contested_resource *entry_of(struct other_clients *others, uint64_t key)
{
    return &others->table[key % OTHER_CLIENTS_TABLE];
}

/* NULL if nothing is remembered. */
static const struct contested_resource *find(const struct other_clients *others, uint64_t key, struct instant now)
{
    const struct contested_resource *entry = &others->table[key % OTHER_CLIENTS_TABLE];
    return entry->key == key && instant_before(now, entry->until) ? entry : NULL;
}

/* Half to one and a half of it. Each process counts its own holds: their turns are not to come all at once. */
static int64_t about(int64_t ns, struct instant now)
{
    return ns / 2 + (int64_t)(hash_bytes(0, &now.ns, sizeof now.ns) % (uint64_t)ns);
}

void other_clients_seen(struct other_clients *others, uint64_t key, uint64_t value, struct instant now)
{
    struct contested_resource *entry = entry_of(others, key);
    if (find(others, key, now) == NULL)
        *entry = (struct contested_resource){.key = key};
    if (entry->value != value || entry->value_since.ns == 0) {
        entry->value = value;
        entry->value_since = now;
    }
    if (!entry->is_known) /* what we were to have before we knew is no debt of theirs */
        entry->owed_ns = 0;
    if (!entry->is_theirs)
        entry->since = now;
    entry->is_theirs = entry->is_known = true;
    entry->missed = 0;
    entry->until = others->until = instant_after(now, OTHER_CLIENTS_MEMORY_NS);
}

int64_t other_clients_look_ns(const struct other_clients *others, uint64_t key, struct instant now)
{
    const struct contested_resource *entry = find(others, key, now);
    int64_t ns = entry != NULL ? instant_since(entry->value_since, now) / 4 : 0;
    return ns < OTHER_CLIENTS_LOOK_MIN_NS   ? OTHER_CLIENTS_LOOK_MIN_NS
           : ns > OTHER_CLIENTS_LOOK_MAX_NS ? OTHER_CLIENTS_LOOK_MAX_NS
                                            : ns;
}

void other_clients_passed(struct other_clients *others, uint64_t key, int64_t budget_ns, struct instant now)
{
    if (find(others, key, now) == NULL)
        return;
    struct contested_resource *entry = entry_of(others, key);
    bool was_let = entry->left_free_until.ns != 0;
    if ((!entry->is_theirs && !was_let) || instant_before(now, entry->left_free_until))
        return;
    int64_t theirs_ns = entry->owed_ns + instant_since(entry->since, now);
    if (!entry->is_theirs)
        entry->missed += entry->missed < OTHER_CLIENTS_TURNS;
    if (entry->is_theirs)
        entry->owed_ns = theirs_ns < budget_ns ? theirs_ns : budget_ns;
    else if (entry->is_known && entry->missed < OTHER_CLIENTS_TURNS)
        entry->owed_ns = budget_ns;
    else
        entry->owed_ns = about(budget_ns < OTHER_CLIENTS_RARELY_NS ? OTHER_CLIENTS_RARELY_NS : budget_ns, now);
    entry->is_theirs = false;
    entry->left_free_until = (struct instant){0};
}

bool other_clients_are_next(const struct other_clients *others, uint64_t key, int64_t held_ns, struct instant now)
{
    const struct contested_resource *entry = find(others, key, now);
    return entry != NULL && !entry->is_theirs && held_ns >= entry->owed_ns;
}

void other_clients_had(struct other_clients *others, uint64_t key, int64_t held_ns, bool was_wanted, struct instant now)
{
    struct contested_resource *entry = entry_of(others, key);
    bool is_there = find(others, key, now) != NULL;
    if (!is_there && (!was_wanted || instant_before(now, entry->until)))
        return;
    if (!is_there)
        *entry = (struct contested_resource){.key = key};
    if (!is_there || (!was_wanted && !entry->is_known))
        entry->owed_ns = about(OTHER_CLIENTS_RARELY_NS / 2, now);
    if (!entry->is_known)
        entry->until = others->until = instant_after(now, OTHER_CLIENTS_MEMORY_NS);
    if (was_wanted || entry->is_known)
        entry->owed_ns = held_ns < entry->owed_ns ? entry->owed_ns - held_ns : 0;
}

void other_clients_let(struct other_clients *others, uint64_t key, struct instant now, struct instant until)
{
    if (find(others, key, now) != NULL)
        entry_of(others, key)->left_free_until = until;
}

struct instant other_clients_let_until(const struct other_clients *others, uint64_t key)
{
    const struct contested_resource *entry = &others->table[key % OTHER_CLIENTS_TABLE];
    return entry->key == key ? entry->left_free_until : (struct instant){0};
}
