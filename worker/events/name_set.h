/* A bounded set of names that strangers invent, for counters: each name has a number.
 *
 *     struct name_set names;
 *     name_set_init(&names, NAME_SET_MAX);
 *     unsigned number = name_set_add(&names, "transfer");       name_set_text(&names, number) is its name
 *     name_set_fini(&names);
 *
 * Numbers go from 1 on. All names beyond the bound share the number NAME_SET_OTHERS. Pure; not thread-safe. */
#ifndef WORKER_NAME_SET_H
#define WORKER_NAME_SET_H

#include <stddef.h>

/* For most sets; the others are among them. */
enum { NAME_SET_OTHERS = 0, NAME_SET_MAX = 128 };
#define NAME_SET_OTHERS_NAME "hf.others"

struct name_set {
    unsigned max, count; /* of numbers: NAME_SET_OTHERS is always there */
    unsigned bucket_count;
    char **texts;      /* by number */
    unsigned *buckets; /* private: the number at the hash of each name; 0 = free */
};

void name_set_init(struct name_set *set, unsigned max);
void name_set_fini(struct name_set *set); /* zeroed is fine */

unsigned name_set_add(struct name_set *set, const char *name); /* it may be there */
unsigned name_set_find(const struct name_set *set, const char *name);
const char *name_set_text(const struct name_set *set, unsigned number);
/* Removes all names. */
void name_set_clear(struct name_set *set);

/* So much of a name as a part of a field's name: '|', which separates the parts, and control characters become '_'.
 * Returns the end of what was written, which has no NUL. */
char *name_part_write(char *to, const char *name, size_t length);

#endif
