/* The memory of a simulated Redis server: keys with their values and the time at which they expire, by a clock that the
 * owner sets.
 *
 *   string   `string`
 *   list     `row` of entries, left to right
 *   hash     `table` of fields, each with its text
 *   set      `table` of members
 *   zset     `table` of members, and `row` of the same by score, then by bytes
 *
 * What commands make of it is in redis_commands.h; tests/integration/test_redis_model.c compares that with servers. */
#ifndef SIM_KEYSPACE_H
#define SIM_KEYSPACE_H

#include "base/buffer.h"
#include "tests/sim/server/table.h"

enum value_type { VALUE_STRING, VALUE_LIST, VALUE_HASH, VALUE_SET, VALUE_ZSET };

/* Pointers with room at both ends. */
struct row {
    void **pointers;
    size_t first, count, room;
};

struct entry {
    size_t length;
    char bytes[]; /* NUL behind it */
};

struct value {
    struct item *key;
    enum value_type type;
    int64_t expires_ms; /* 0 = never */
    uint64_t version;   /* of its last change; no two changes of a keyspace have the same */
    struct buffer string;
    struct table table;
    struct row row;
};

struct keyspace {
    struct table keys;
    int64_t now_us;
    uint64_t versions;
    uint64_t random;    /* of what servers draw */
    uint64_t deadlines; /* set since expired keys were last looked for */
    uint64_t expired;   /* keys, since the server began */

    bool is_replica; /* what is expired is hidden, and stays until the primary says that it is gone */
};

void keyspace_init(struct keyspace *space, int64_t now_us);
void keyspace_clear(struct keyspace *space); /* as a server that lost its memory; also ends it */
/* Makes `to`, which is empty, hold the same keys. */
void keyspace_copy(struct keyspace *to, const struct keyspace *from);

/* NULL when there is none, or when its time is over. */
struct value *keyspace_find(struct keyspace *space, struct text key);
/* For who only looks, also at a time that has not come: what will be over by then stays. */
const struct value *keyspace_peek(const struct keyspace *space, struct text key, int64_t now_us);
struct value *keyspace_make(struct keyspace *space, struct text key, enum value_type type);
void keyspace_remove(struct keyspace *space, struct value *value);
void keyspace_rename(struct keyspace *space, struct value *value, struct text key);
/* 0 = never. */
void keyspace_expire(struct keyspace *space, struct value *value, int64_t expires_ms);
bool keyspace_is_expired(const struct keyspace *space, const struct value *value);
/* Removes all that is expired. */
void keyspace_sweep(struct keyspace *space);
uint64_t keyspace_draw(struct keyspace *space);

/* Items of a list, members of a set, fields of a hash; 1 of a string. */
size_t value_count(const struct value *value);

struct text value_entry(const struct value *value, size_t index);
/* At the left or at the right of a list. */
void value_push(struct value *value, struct text bytes, bool at_left);
void value_remove_entry(struct value *value, size_t index);

struct item *value_scored(const struct value *value, size_t rank);
void value_set_score(struct value *value, struct text name, double score);
void value_remove_scored(struct value *value, struct item *item);
size_t value_rank(const struct value *value, const struct item *item);
/* How many members stand before a score; with `passes_equal` also those that have it. */
size_t value_rank_of_score(const struct value *value, double score, bool passes_equal);

#endif
