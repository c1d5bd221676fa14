#include "tests/sim/queue/keyspace.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static uint64_t hash_of(struct text text)
{
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

struct text item_name(const struct item *item)
{
    return (struct text){item->name, item->name_length};
}

struct text item_value(const struct item *item)
{
    return (struct text){item->value, item->value_length};
}

/* --- keys ---------------------------------------------------------------------------------------------------- */

static void value_free(struct value *value)
{
    for (size_t i = 0; i < value->count; i++) {
        free(value->items[value->first + i].name);
        free(value->items[value->first + i].value);
    }
    free(value->items);
    free(value->key);
    free(value);
}

void keyspace_init(struct keyspace *space, int64_t now_us)
{
    *space = (struct keyspace){.now_us = now_us};
}

void keyspace_clear(struct keyspace *space)
{
    for (size_t i = 0; i < space->count; i++)
        value_free(space->values[i]);
    free(space->values);
    space->values = NULL;
    space->count = space->room = 0;
}

void keyspace_remove(struct keyspace *space, struct value *value)
{
    for (size_t i = 0; i < space->count; i++)
        if (space->values[i] == value) {
            space->values[i] = space->values[--space->count];
            break;
        }
    value_free(value);
}

void keyspace_tidy(struct keyspace *space, struct value *value)
{
    if (value->count == 0)
        keyspace_remove(space, value);
}

struct value *keyspace_find(struct keyspace *space, struct text key)
{
    uint64_t hash = hash_of(key);
    for (size_t i = 0; i < space->count; i++) {
        struct value *value = space->values[i];
        if (value->hash != hash || value->key_length != key.length || memcmp(value->key, key.bytes, key.length) != 0)
            continue;
        if (value->expires_ms == 0 || space->now_us / 1000 <= value->expires_ms)
            return value;
        keyspace_remove(space, value);
        return NULL;
    }
    return NULL;
}

struct value *keyspace_make(struct keyspace *space, struct text key, enum value_type type)
{
    struct value *value = memory_new(struct value);
    value->key = memory_text_of(key.bytes, key.length);
    value->key_length = key.length;
    value->hash = hash_of(key);
    value->type = type;
    if (space->count == space->room) {
        space->room = space->room * 2 + 16;
        space->values = memory_resize(space->values, space->room, sizeof *space->values);
    }
    space->values[space->count++] = value;
    return value;
}

/* --- items --------------------------------------------------------------------------------------------------- */

struct item *value_at(struct value *value, size_t index)
{
    return &value->items[value->first + index];
}

size_t value_find(const struct value *value, struct text name)
{
    uint64_t hash = hash_of(name);
    for (size_t i = 0; i < value->count; i++) {
        const struct item *item = &value->items[value->first + i];
        if (item->hash == hash && item->name_length == name.length && memcmp(item->name, name.bytes, name.length) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Makes room at both ends. */
static void value_grow(struct value *value)
{
    size_t room = value->count * 2 + 8, first = room / 4;
    struct item *items = memory_zeroed(room, sizeof *items);
    if (value->count > 0)
        memcpy(items + first, value->items + value->first, value->count * sizeof *items);
    free(value->items);
    value->items = items;
    value->first = first;
    value->room = room;
}

struct item *value_insert(struct value *value, size_t index, struct text name)
{
    if (value->first == 0 || value->first + value->count == value->room)
        value_grow(value);
    struct item *row = value->items + value->first;
    if (index < value->count / 2) {
        memmove(row - 1, row, index * sizeof *row);
        value->first--;
    } else {
        memmove(row + index + 1, row + index, (value->count - index) * sizeof *row);
    }
    value->count++;
    struct item *item = value_at(value, index);
    *item = (struct item){
        .name = memory_text_of(name.bytes, name.length), .name_length = name.length, .hash = hash_of(name)};
    return item;
}

void value_remove(struct value *value, size_t index)
{
    struct item *row = value->items + value->first;
    free(row[index].name);
    free(row[index].value);
    if (index < value->count / 2) {
        memmove(row + 1, row, index * sizeof *row);
        value->first++;
    } else {
        memmove(row + index, row + index + 1, (value->count - index - 1) * sizeof *row);
    }
    value->count--;
}

void item_set_value(struct item *item, struct text bytes)
{
    char *copy = memory_text_of(bytes.bytes, bytes.length);
    free(item->value);
    item->value = copy;
    item->value_length = bytes.length;
}

static bool stands_before(const struct item *item, double score, struct text name)
{
    if (item->score != score)
        return item->score < score;
    size_t common = item->name_length < name.length ? item->name_length : name.length;
    int order = memcmp(item->name, name.bytes, common);
    return order != 0 ? order < 0 : item->name_length < name.length;
}

void value_insert_scored(struct value *value, double score, struct text name)
{
    size_t low = 0, high = value->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stands_before(value_at(value, middle), score, name))
            low = middle + 1;
        else
            high = middle;
    }
    value_insert(value, low, name)->score = score;
}
