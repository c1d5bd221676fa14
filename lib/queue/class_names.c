#include "queue/class_names.h"

#include <string.h>

enum { NO_NUMBER = 0 };

void class_name_clean(const char *class_name, char out[ENVELOPE_CLASS_BYTES_MAX + 1])
{
    size_t length = 0;
    for (; class_name[length] != '\0' && length < ENVELOPE_CLASS_BYTES_MAX; length++) {
        unsigned char byte = (unsigned char)class_name[length];
        out[length] = byte < ' ' || byte == 0x7f || byte == '|' ? '_' : class_name[length];
    }
    out[length] = '\0';
}

static unsigned bucket_of(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % CLASS_NAMES_BUCKETS;
}

unsigned class_names_number_exact(struct class_names *names, const char *name)
{
    unsigned bucket = bucket_of(name);
    for (; names->buckets[bucket] != NO_NUMBER; bucket = (bucket + 1) % CLASS_NAMES_BUCKETS)
        if (strcmp(names->texts[names->buckets[bucket] - 1], name) == 0)
            return names->buckets[bucket] - 1u;
    bool is_full = names->count >= CLASS_NAMES_MAX - 1;
    if (is_full && strcmp(name, CLASS_NAMES_OTHERS) != 0)
        return class_names_number_exact(names, CLASS_NAMES_OTHERS);
    memcpy(names->texts[names->count], name, strlen(name) + 1);
    names->buckets[bucket] = (unsigned char)++names->count;
    return names->count - 1;
}

unsigned class_names_number(struct class_names *names, const char *class_name)
{
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    class_name_clean(class_name, name);
    return class_names_number_exact(names, name);
}

void class_names_clear(struct class_names *names)
{
    names->count = 0;
    memset(names->buckets, NO_NUMBER, sizeof names->buckets);
}
