/* A hash table that keeps the order in which its items came: the keys of a server, the fields of a hash, the members of
 * a set. An item has a position among all that came; a removed one leaves a hole, which is closed now and then. */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *bytes;
    size_t length;
};

struct value;

struct item {
    uint64_t hash;
    uint64_t order;      /* rises with each item that comes: what SCAN goes by */
    struct value *value; /* of a key */
    double score;        /* of a member of a sorted set */
    char *text;          /* of a field of a hash; NUL behind it */
    size_t text_length;
    size_t length;
    char name[]; /* NUL behind it */
};

struct table {
    struct item **items;
    size_t used, room; /* positions, with the holes */
    size_t count;
    uint32_t *index; /* position + 1 by hash; none while there are few */
    size_t index_room;
    uint64_t next_order;
};

static inline struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

static inline bool text_is(struct text text, struct text other)
{
    return text.length == other.length && (text.length == 0 || memcmp(text.bytes, other.bytes, text.length) == 0);
}

static inline struct text item_name(const struct item *item)
{
    return (struct text){item->name, item->length};
}

static inline struct text item_text(const struct item *item)
{
    return (struct text){item->text, item->text_length};
}

void table_clear(struct table *table); /* a zeroed one is empty */

/* NULL when it is not there. */
struct item *table_find(const struct table *table, struct text name);
/* One that is not there yet. */
struct item *table_add(struct table *table, struct text name);
void table_remove(struct table *table, struct item *item);
/* Each item in order: `position` begins with 0. NULL at the end. Removing what was told is allowed on the way, adding
 * is not. */
struct item *table_next(const struct table *table, size_t *position);
/* Where items begin whose order is at least that. */
size_t table_position_of_order(const struct table *table, uint64_t order);
/* Any of them, drawn by a random number. */
struct item *table_any(const struct table *table, uint64_t random);

void item_set_text(struct item *item, struct text text);

#endif
