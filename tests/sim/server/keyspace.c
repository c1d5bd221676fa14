#include "tests/sim/server/keyspace.h"

#include <stdlib.h>

#include "base/memory.h"

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void row_insert(struct row *row, size_t index, void *pointer)
{
    if (row->first == 0 || row->first + row->count == row->room) {
        size_t room = row->count * 2 + 8, first = room / 4;
        void **pointers = memory_zeroed(room, sizeof *pointers);
        if (row->count > 0)
            memcpy(pointers + first, row->pointers + row->first, row->count * sizeof *pointers);
        free(row->pointers);
        *row = (struct row){.pointers = pointers, .first = first, .count = row->count, .room = room};
    }
    void **pointers = row->pointers + row->first;
    if (index < row->count / 2) {
        memmove(pointers - 1, pointers, index * sizeof *pointers);
        row->first--;
    } else {
        memmove(pointers + index + 1, pointers + index, (row->count - index) * sizeof *pointers);
    }
    row->count++;
    row->pointers[row->first + index] = pointer;
}

static void row_remove(struct row *row, size_t index)
{
    void **pointers = row->pointers + row->first;
    if (index < row->count / 2) {
        memmove(pointers + 1, pointers, index * sizeof *pointers);
        row->first++;
    } else {
        memmove(pointers + index, pointers + index + 1, (row->count - index - 1) * sizeof *pointers);
    }
    row->count--;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void value_free(struct value *value)
{
    if (value->type == VALUE_LIST)
        for (size_t i = 0; i < value->row.count; i++)
            free(value->row.pointers[value->row.first + i]);
    free(value->row.pointers);
    table_clear(&value->table);
    buffer_fini(&value->string);
    free(value);
}

void keyspace_init(struct keyspace *space, int64_t now_us)
{
    *space = (struct keyspace){.now_us = now_us, .random = 1};
}

void keyspace_clear(struct keyspace *space)
{
    size_t position = 0;
    for (struct item *key; (key = table_next(&space->keys, &position)) != NULL;)
        value_free(key->value);
    table_clear(&space->keys);
}

static bool is_over(const struct value *value, int64_t now_us)
{
    return value->expires_ms != 0 && now_us / 1000 > value->expires_ms;
}

bool keyspace_is_expired(const struct keyspace *space, const struct value *value)
{
    return is_over(value, space->now_us);
}

void keyspace_remove(struct keyspace *space, struct value *value)
{
    struct item *key = value->key;
    value_free(value);
    table_remove(&space->keys, key);
}

const struct value *keyspace_peek(const struct keyspace *space, struct text key, int64_t now_us)
{
    const struct item *item = table_find(&space->keys, key);
    return item == NULL || is_over(item->value, now_us) ? NULL : item->value;
}

static void expired_remove(struct keyspace *space, struct value *value)
{
    space->expired++;
    keyspace_remove(space, value);
}

struct value *keyspace_find(struct keyspace *space, struct text key)
{
    struct item *item = table_find(&space->keys, key);
    if (item == NULL)
        return NULL;
    if (!keyspace_is_expired(space, item->value))
        return item->value;
    if (!space->is_replica)
        expired_remove(space, item->value);
    return NULL;
}

struct value *keyspace_make(struct keyspace *space, struct text key, enum value_type type)
{
    struct value *value = memory_new(struct value);
    value->type = type;
    value->key = table_add(&space->keys, key);
    value->key->value = value;
    return value;
}

void keyspace_rename(struct keyspace *space, struct value *value, struct text key)
{
    struct item *before = value->key;
    value->key = table_add(&space->keys, key);
    value->key->value = value;
    table_remove(&space->keys, before);
}

void keyspace_sweep(struct keyspace *space)
{
    size_t position = 0;
    space->deadlines = 0;
    if (space->is_replica)
        return;
    for (struct item *key; (key = table_next(&space->keys, &position)) != NULL;)
        if (keyspace_is_expired(space, key->value))
            expired_remove(space, key->value);
}

/* A server looks for expired keys by time. Nobody sees when, so here it is done before there are too many. */
void keyspace_expire(struct keyspace *space, struct value *value, int64_t expires_ms)
{
    value->expires_ms = expires_ms;
    space->deadlines += expires_ms != 0;
}

/* splitmix64 */
uint64_t keyspace_draw(struct keyspace *space)
{
    uint64_t drawn = space->random += UINT64_C(0x9e3779b97f4a7c15);
    drawn = (drawn ^ (drawn >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    drawn = (drawn ^ (drawn >> 27)) * UINT64_C(0x94d049bb133111eb);
    return drawn ^ (drawn >> 31);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void value_copy(struct value *to, const struct value *from)
{
    size_t position = 0;
    to->expires_ms = from->expires_ms;
    to->version = from->version;
    buffer_append(&to->string, from->string.bytes, from->string.length);
    if (from->type == VALUE_STRING)
        (void)buffer_text(&to->string); /* who reads numbers wants a NUL */

    if (from->type == VALUE_LIST)
        for (size_t i = 0; i < from->row.count; i++)
            value_push(to, value_entry(from, i), false);
    for (struct item *item; (item = table_next(&from->table, &position)) != NULL;) {
        if (from->type == VALUE_ZSET)
            value_set_score(to, item_name(item), item->score);
        else if (from->type == VALUE_SET)
            table_add(&to->table, item_name(item));
        else
            item_set_text(table_add(&to->table, item_name(item)), item_text(item));
    }
}

void keyspace_copy(struct keyspace *to, const struct keyspace *from)
{
    size_t position = 0;
    for (struct item *key; (key = table_next(&from->keys, &position)) != NULL;)
        value_copy(keyspace_make(to, item_name(key), key->value->type), key->value);
    to->now_us = from->now_us;
    to->versions = from->versions;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

size_t value_count(const struct value *value)
{
    switch (value->type) {
    case VALUE_STRING:
        return 1;
    case VALUE_LIST:
        return value->row.count;
    case VALUE_HASH:
    case VALUE_SET:
    case VALUE_ZSET:
        break;
    }
    return value->table.count;
}

struct text value_entry(const struct value *value, size_t index)
{
    const struct entry *entry = value->row.pointers[value->row.first + index];
    return (struct text){entry->bytes, entry->length};
}

void value_push(struct value *value, struct text bytes, bool at_left)
{
    struct entry *entry = memory_zeroed(1, sizeof *entry + bytes.length + 1);
    entry->length = bytes.length;
    if (bytes.length > 0)
        memcpy(entry->bytes, bytes.bytes, bytes.length);
    row_insert(&value->row, at_left ? 0 : value->row.count, entry);
}

void value_remove_entry(struct value *value, size_t index)
{
    free(value->row.pointers[value->row.first + index]);
    row_remove(&value->row, index);
}

struct item *value_scored(const struct value *value, size_t rank)
{
    return value->row.pointers[value->row.first + rank];
}

static bool stands_before(const struct item *item, double score, struct text name)
{
    if (item->score != score)
        return item->score < score;
    size_t common = item->length < name.length ? item->length : name.length;
    int order = memcmp(item->name, name.bytes, common);
    return order != 0 ? order < 0 : item->length < name.length;
}

static size_t rank_find(const struct value *value, double score, struct text name)
{
    size_t low = 0, high = value->row.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stands_before(value_scored(value, middle), score, name))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t value_rank(const struct value *value, const struct item *item)
{
    return rank_find(value, item->score, item_name(item));
}

size_t value_rank_of_score(const struct value *value, double score, bool passes_equal)
{
    size_t low = 0, high = value->row.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        double found = value_scored(value, middle)->score;
        if (found < score || (passes_equal && found == score))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void value_set_score(struct value *value, struct text name, double score)
{
    struct item *item = table_find(&value->table, name);
    if (item != NULL && item->score == score)
        return;
    if (item != NULL)
        row_remove(&value->row, value_rank(value, item));
    else
        item = table_add(&value->table, name);
    item->score = score + 0.0; /* no zero below zero */

    row_insert(&value->row, rank_find(value, score, name), item);
}

void value_remove_scored(struct value *value, struct item *item)
{
    row_remove(&value->row, value_rank(value, item));
    table_remove(&value->table, item);
}
