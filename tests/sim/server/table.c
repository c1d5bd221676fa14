#include "tests/sim/server/table.h"

#include <stdlib.h>

#include "base/memory.h"

enum { FEW = 8 };

/* Eight bytes at a time. */
static uint64_t hash_of(struct text text)
{
    uint64_t hash = text.length * UINT64_C(0x9e3779b97f4a7c15), word = 0;
    size_t i = 0;
    for (; i + sizeof word <= text.length; i += sizeof word) {
        memcpy(&word, text.bytes + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        hash ^= hash >> 32;
    }
    if (i < text.length) {
        word = 0;
        memcpy(&word, text.bytes + i, text.length - i);
        hash = (hash ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    return hash ^ hash >> 29;
}

void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->used; i++) {
        if (table->items[i] == NULL)
            continue;
        free(table->items[i]->text);
        free(table->items[i]);
    }
    free(table->items);
    free(table->index);
    *table = (struct table){.next_order = table->next_order};
}

/* --- the index: open addressing, at most half full ---------------------------------------------------------------- */

static void index_put(struct table *table, size_t position)
{
    size_t mask = table->index_room - 1, at = (size_t)table->items[position]->hash & mask;
    while (table->index[at] != 0)
        at = (at + 1) & mask;
    table->index[at] = (uint32_t)position + 1;
}

static void index_build(struct table *table, size_t room)
{
    free(table->index);
    table->index_room = room;
    table->index = memory_zeroed(room, sizeof *table->index);
    for (size_t i = 0; i < table->used; i++)
        if (table->items[i] != NULL)
            index_put(table, i);
}

static size_t index_find(const struct table *table, const struct item *item)
{
    size_t mask = table->index_room - 1, at = (size_t)item->hash & mask;
    while (table->items[table->index[at] - 1] != item)
        at = (at + 1) & mask;
    return at;
}

/* Those behind it move up, so that no search ends too early. */
static void index_take(struct table *table, size_t at)
{
    size_t mask = table->index_room - 1;
    for (size_t next = (at + 1) & mask; table->index[next] != 0; next = (next + 1) & mask) {
        size_t home = (size_t)table->items[table->index[next] - 1]->hash & mask;
        if (((next - home) & mask) < ((next - at) & mask))
            continue;
        table->index[at] = table->index[next];
        at = next;
    }
    table->index[at] = 0;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static bool item_is(const struct item *item, uint64_t hash, struct text name)
{
    return item->hash == hash && item->length == name.length && memcmp(item->name, name.bytes, name.length) == 0;
}

struct item *table_find(const struct table *table, struct text name)
{
    if (table->count == 0)
        return NULL;
    uint64_t hash = hash_of(name);
    if (table->index == NULL) {
        for (size_t i = 0; i < table->used; i++)
            if (table->items[i] != NULL && item_is(table->items[i], hash, name))
                return table->items[i];
        return NULL;
    }
    size_t mask = table->index_room - 1;
    for (size_t at = (size_t)hash & mask; table->index[at] != 0; at = (at + 1) & mask) {
        struct item *item = table->items[table->index[at] - 1];
        if (item_is(item, hash, name))
            return item;
    }
    return NULL;
}

static void holes_close(struct table *table)
{
    size_t used = 0;
    for (size_t i = 0; i < table->used; i++)
        if (table->items[i] != NULL)
            table->items[used++] = table->items[i];
    table->used = used;
    if (table->index != NULL)
        index_build(table, table->index_room);
}

static void room_make(struct table *table)
{
    if (table->used < table->room)
        return;
    if (table->used > table->count + table->count / 2) {
        holes_close(table);
        return;
    }
    table->room = table->room * 2 + 4;
    table->items = memory_resize(table->items, table->room, sizeof(struct item *));
}

struct item *table_add(struct table *table, struct text name)
{
    struct item *item = memory_zeroed(1, sizeof *item + name.length + 1);
    item->hash = hash_of(name);
    item->order = ++table->next_order;
    item->length = name.length;
    if (name.length > 0)
        memcpy(item->name, name.bytes, name.length);
    room_make(table);
    table->items[table->used++] = item;
    table->count++;
    if (table->index != NULL && 2 * table->count <= table->index_room)
        index_put(table, table->used - 1);
    else if (table->count > FEW)
        index_build(table, table->index == NULL ? 4 * FEW : 2 * table->index_room);
    return item;
}

size_t table_position_of_order(const struct table *table, uint64_t order)
{
    size_t low = 0, high = table->used;
    while (low < high) {
        size_t middle = low + (high - low) / 2, probe = middle;
        while (probe < high && table->items[probe] == NULL)
            probe++;
        if (probe < high && table->items[probe]->order < order)
            low = probe + 1;
        else
            high = middle;
    }
    return low;
}

void table_remove(struct table *table, struct item *item)
{
    size_t position = 0;
    if (table->index != NULL) {
        size_t at = index_find(table, item);
        position = table->index[at] - 1;
        index_take(table, at);
    } else {
        while (table->items[position] != item)
            position++;
    }
    table->items[position] = NULL;
    table->count--;
    while (table->used > 0 && table->items[table->used - 1] == NULL)
        table->used--;
    free(item->text);
    free(item);
}

struct item *table_next(const struct table *table, size_t *position)
{
    while (*position < table->used) {
        struct item *item = table->items[(*position)++];
        if (item != NULL)
            return item;
    }
    return NULL;
}

struct item *table_any(const struct table *table, uint64_t random)
{
    if (table->count == 0)
        return NULL;
    size_t position = (size_t)(random % table->used);
    struct item *item = table_next(table, &position);
    if (item == NULL) {
        position = 0;
        item = table_next(table, &position);
    }
    return item;
}

void item_set_text(struct item *item, struct text text)
{
    if (item->text == NULL || text.length > item->text_length) {
        free(item->text);
        item->text = memory_zeroed(1, text.length + 1);
    }
    if (text.length > 0)
        memcpy(item->text, text.bytes, text.length);
    item->text[text.length] = '\0';
    item->text_length = text.length;
}
