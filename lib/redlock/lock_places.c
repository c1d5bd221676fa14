/* The places of a lock whose resource has a limit (places.h): what they are called, and which of them this process has.
 * lock_wait.c decides when to ask at one. Runs on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "redlock/group.h"
#include "redlock/redlock_nodes.h"

static void key_append(const struct redlock_lock *lock, unsigned place, struct buffer *out)
{
    char name[REDLOCK_PLACE_NAME_SIZE];
    redlock_place_name(lock->places->resource, place, name);
    buffer_append(out, lock->group->key_prefix, lock->group->key_prefix_length);
    buffer_append_text(out, name);
}

bool lock_places_begin(struct redlock_lock *lock, const struct redlock_request *request)
{
    struct lock_places *places = lock->places;
    bool is_new = places == NULL;
    if (request->limit <= 1) {
        if (places != NULL)
            places->limit = 0;
        return false;
    }
    if (is_new) {
        places = lock->places = memory_new(struct lock_places);
        places->lock = lock;
    }
    if (lock->group->places_seen == NULL)
        lock->group->places_seen = memory_new(struct places_seen);
    size_t length = strnlen(request->resources[0], REDLOCK_RESOURCE_BYTES_MAX);
    memcpy(places->resource, request->resources[0], length);
    places->resource[length] = '\0';
    places->hash = hash_bytes(0, places->resource, length);
    places->limit = request->limit;
    places->searches = request->place == 0;
    places->row = 0;
    buffer_clear(&places->line_text);
    key_append(lock, 0, &places->line_text);
    places->line_key = (struct local_key){places->line_text.bytes, places->line_text.length};
    lock_place_set(lock, places->searches ? 1 : request->place);
    return is_new;
}

void lock_place_set(struct redlock_lock *lock, unsigned place)
{
    lock->places->place = place;
    buffer_clear(&lock->keys);
    key_append(lock, place, &lock->keys);
    lock->key_ends[0] = (uint16_t)lock->keys.length;
    lock->key_count = 1;
    lock->wait.keys[0] = (struct local_key){lock->keys.bytes, lock->keys.length};
}

struct local_waiter *lock_place_owner(const struct redlock_lock *lock, unsigned place)
{
    struct buffer *key = &lock->places->scratch;
    buffer_clear(key);
    key_append(lock, place, key);
    return local_waiters_owner(lock->group->local_waiters, (struct local_key){key->bytes, key->length});
}

struct local_waiter *lock_line_first(const struct redlock_lock *lock, unsigned index)
{
    const struct redlock_group *group = lock->group;
    struct key_span key = lock_key(lock, index);
    char resource[REDLOCK_RESOURCE_BYTES_MAX + 1], line[REDLOCK_PREFIX_BYTES_MAX + REDLOCK_PLACE_NAME_SIZE];
    size_t length = key.length - group->key_prefix_length;
    memcpy(resource, key.bytes + group->key_prefix_length, length);
    resource[length] = '\0';
    memcpy(line, key.bytes, group->key_prefix_length);
    redlock_place_name(resource, 0, line + group->key_prefix_length);
    return local_waiters_owner(group->local_waiters, (struct local_key){line, strlen(line)});
}

struct key_span lock_place_key(struct redlock_lock *lock, unsigned place)
{
    struct lock_places *places = lock->places;
    if (place == 1) {
        buffer_clear(&places->keys);
        for (unsigned i = 1; i <= places->limit; i++) {
            key_append(lock, i, &places->keys);
            places->key_ends[i] = (uint16_t)places->keys.length;
        }
    }
    size_t start = places->key_ends[place - 1];
    return (struct key_span){places->keys.bytes + start, places->key_ends[place] - start};
}

struct key_span lock_turn_key(const struct redlock_lock *lock, unsigned index)
{
    if (!lock_has_later_place(lock))
        return lock_key(lock, index);
    struct buffer *key = &lock->places->scratch;
    buffer_clear(key);
    key_append(lock, 1, key);
    return (struct key_span){key->bytes, key->length};
}

void lock_places_dispose(struct redlock_lock *lock)
{
    if (lock->places == NULL)
        return;
    buffer_fini(&lock->places->line_text);
    buffer_fini(&lock->places->scratch);
    buffer_fini(&lock->places->keys);
    free(lock->places);
}
