#include "worker/events/name_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

void name_set_init(struct name_set *set, unsigned max)
{
    *set = (struct name_set){.max = max, .count = 1, .bucket_count = 2 * max};
    set->texts = memory_zeroed(max, sizeof set->texts[0]);
    set->buckets = memory_zeroed(set->bucket_count, sizeof set->buckets[0]);
}

void name_set_clear(struct name_set *set)
{
    for (unsigned i = 1; i < set->count; i++)
        free(set->texts[i]);
    set->count = 1;
    memset(set->buckets, 0, set->bucket_count * sizeof set->buckets[0]);
}

void name_set_fini(struct name_set *set)
{
    for (unsigned i = 1; i < set->count; i++)
        free(set->texts[i]);
    free(set->texts);
    free(set->buckets);
    *set = (struct name_set){.max = 0};
}

/* Where the name is, or would be. */
static unsigned *bucket_of(const struct name_set *set, const char *name)
{
    size_t bucket = hash_words(0, name, strlen(name)) % set->bucket_count;
    while (set->buckets[bucket] != 0 && strcmp(set->texts[set->buckets[bucket]], name) != 0)
        bucket = (bucket + 1) % set->bucket_count;
    return &set->buckets[bucket];
}

unsigned name_set_find(const struct name_set *set, const char *name)
{
    return *bucket_of(set, name);
}

unsigned name_set_add(struct name_set *set, const char *name)
{
    unsigned *bucket = bucket_of(set, name);
    if (*bucket == 0 && set->count < set->max) {
        set->texts[set->count] = memory_text(name);
        *bucket = set->count++;
    }
    return *bucket;
}

const char *name_set_text(const struct name_set *set, unsigned number)
{
    return number == NAME_SET_OTHERS ? NAME_SET_OTHERS_NAME : set->texts[number];
}

char *name_part_write(char *to, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)name[i];
        *to++ = byte < ' ' || byte == 0x7f || byte == '|' ? '_' : name[i];
    }
    return to;
}
