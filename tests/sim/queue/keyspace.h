/* The memory of a simulated Redis server: keys of the five types that our scripts use, with expiry by a clock that the
 * owner sets. Small and plain rather than fast: every value is one row of items.
 *
 *   string   one item, the bytes in `name`
 *   list     items in order, left to right
 *   hash     items in the order in which their fields came
 *   set      the same, without values
 *   zset     items by score, then by bytes
 *
 * What commands make of it is in redis_commands.c; tests/integration/test_redis_model.c compares that with a server. */
#ifndef SIM_KEYSPACE_H
#define SIM_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    const char *bytes;
    size_t length;
};

enum value_type { VALUE_STRING, VALUE_LIST, VALUE_HASH, VALUE_SET, VALUE_ZSET };

struct item {
    char *name, *value; /* `value` of hashes only */
    size_t name_length, value_length;
    double score;
    uint64_t hash; /* of the name */
};

struct value {
    char *key;
    size_t key_length;
    uint64_t hash;
    enum value_type type;
    int64_t expires_ms; /* 0 = never */
    struct item *items; /* the row begins at `first` of the room, so that both ends are cheap */
    size_t first, count, room;
};

struct keyspace {
    struct value **values;
    size_t count, room;
    int64_t now_us;
};

void keyspace_init(struct keyspace *space, int64_t now_us);
void keyspace_clear(struct keyspace *space); /* as a server that lost its memory; also ends it */

/* NULL when there is none, or when its time is over. */
struct value *keyspace_find(struct keyspace *space, struct text key);
struct value *keyspace_make(struct keyspace *space, struct text key, enum value_type type);
void keyspace_remove(struct keyspace *space, struct value *value);
/* A value without items is none. */
void keyspace_tidy(struct keyspace *space, struct value *value);

struct text text_of(const char *text);
struct text item_name(const struct item *item);
struct text item_value(const struct item *item);
struct item *value_at(struct value *value, size_t index);
/* SIZE_MAX when it is not there. */
size_t value_find(const struct value *value, struct text name);
struct item *value_insert(struct value *value, size_t index, struct text name);
void value_remove(struct value *value, size_t index);
void item_set_value(struct item *item, struct text bytes);
/* Adds a member of a zset in its place. */
void value_insert_scored(struct value *value, double score, struct text name);

#endif
