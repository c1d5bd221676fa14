/* The seats of a lock whose resource has a limit (seats.h): what they are called, and which of them this process has.
 * lock_wait.c decides when to ask at one. Runs on the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "redlock/group_private.h"
#include "redlock/redlock_nodes.h"

static void key_append(const struct redlock_lock *lock, unsigned seat, struct buffer *out)
{
    char name[REDLOCK_SEAT_NAME_SIZE];
    redlock_seat_name(lock->seats->resource, seat, name);
    buffer_append(out, lock->group->key_prefix, lock->group->key_prefix_length);
    buffer_append_text(out, name);
}

bool lock_seats_begin(struct redlock_lock *lock, const struct redlock_request *request)
{
    struct lock_seats *seats = lock->seats;
    bool is_new = seats == NULL;
    if (request->limit <= 1) {
        if (seats != NULL)
            seats->limit = 0;
        return false;
    }
    if (is_new) {
        seats = lock->seats = memory_new(struct lock_seats);
        seats->lock = lock;
    }
    if (lock->group->seats_seen == NULL)
        lock->group->seats_seen = memory_new(struct seats_seen);
    size_t length = strnlen(request->resources[0], REDLOCK_RESOURCE_BYTES_MAX);
    memcpy(seats->resource, request->resources[0], length);
    seats->resource[length] = '\0';
    seats->hash = hash_bytes(0, seats->resource, length);
    seats->limit = request->limit;
    seats->searches = request->seat == 0;
    seats->row = 0;
    buffer_clear(&seats->waiting_text);
    key_append(lock, 0, &seats->waiting_text);
    seats->waiting_key = (struct local_key){seats->waiting_text.bytes, seats->waiting_text.length};
    lock_seat_set(lock, seats->searches ? 1 : request->seat);
    return is_new;
}

void lock_seat_set(struct redlock_lock *lock, unsigned seat)
{
    lock->seats->seat = seat;
    buffer_clear(&lock->keys);
    key_append(lock, seat, &lock->keys);
    lock->key_ends[0] = (uint16_t)lock->keys.length;
    lock->key_count = 1;
    lock->wait.keys[0] = (struct local_key){lock->keys.bytes, lock->keys.length};
}

struct local_waiter *lock_seat_owner(const struct redlock_lock *lock, unsigned seat)
{
    struct buffer *key = &lock->seats->scratch;
    buffer_clear(key);
    key_append(lock, seat, key);
    return local_waiters_owner(lock->group->local_waiters, (struct local_key){key->bytes, key->length});
}

struct local_waiter *lock_first_waiter(const struct redlock_lock *lock, unsigned index)
{
    const struct redlock_group *group = lock->group;
    struct key_span key = lock_key(lock, index);
    char resource[REDLOCK_RESOURCE_BYTES_MAX + 1], key_text[REDLOCK_PREFIX_BYTES_MAX + REDLOCK_SEAT_NAME_SIZE];
    size_t length = key.length - group->key_prefix_length;
    memcpy(resource, key.bytes + group->key_prefix_length, length);
    resource[length] = '\0';
    memcpy(key_text, key.bytes, group->key_prefix_length);
    redlock_seat_name(resource, 0, key_text + group->key_prefix_length);
    return local_waiters_owner(group->local_waiters, (struct local_key){key_text, strlen(key_text)});
}

struct key_span lock_seat_key(struct redlock_lock *lock, unsigned seat)
{
    struct lock_seats *seats = lock->seats;
    if (seat == 1) {
        buffer_clear(&seats->keys);
        for (unsigned i = 1; i <= seats->limit; i++) {
            key_append(lock, i, &seats->keys);
            seats->key_ends[i] = (uint16_t)seats->keys.length;
        }
    }
    size_t start = seats->key_ends[seat - 1];
    return (struct key_span){seats->keys.bytes + start, seats->key_ends[seat] - start};
}

struct key_span lock_turn_key(const struct redlock_lock *lock, unsigned index)
{
    if (!lock_has_later_seat(lock))
        return lock_key(lock, index);
    struct buffer *key = &lock->seats->scratch;
    buffer_clear(key);
    key_append(lock, 1, key);
    return (struct key_span){key->bytes, key->length};
}

void lock_seats_dispose(struct redlock_lock *lock)
{
    if (lock->seats == NULL)
        return;
    buffer_fini(&lock->seats->waiting_text);
    buffer_fini(&lock->seats->scratch);
    buffer_fini(&lock->seats->keys);
    free(lock->seats);
}
