/* A bounded set of class names, for counters: each name has a number, from 0 on.
 *
 *     unsigned number = class_names_number(&names, "transfer");       names.texts[number] is its name in fields
 *
 * Names come from plugins and tasks; bytes that have a meaning in a field's name ('|' and control characters) become
 * '_'. All classes after the first CLASS_NAMES_MAX share the number CLASS_NAMES_OTHERS. Begins zeroed. Pure; not
 * thread-safe. */
#ifndef QUEUE_CLASS_NAMES_H
#define QUEUE_CLASS_NAMES_H

#include "queue/envelope.h"

enum { CLASS_NAMES_MAX = 128, CLASS_NAMES_BUCKETS = 2 * CLASS_NAMES_MAX };

#define CLASS_NAMES_OTHERS "hf.others"

struct class_names {
    unsigned count;
    char texts[CLASS_NAMES_MAX][ENVELOPE_CLASS_BYTES_MAX + 1];
    unsigned char buckets[CLASS_NAMES_BUCKETS]; /* private: number + 1 at the hash of each name; 0 = free */
};

unsigned class_names_number(struct class_names *names, const char *class_name);
/* The same for a name that is not used in a field: it keeps all its bytes, at most ENVELOPE_CLASS_BYTES_MAX. */
unsigned class_names_number_exact(struct class_names *names, const char *name);
/* Removes all names. */
void class_names_clear(struct class_names *names);

/* The name of the class in fields. */
void class_name_clean(const char *class_name, char out[ENVELOPE_CLASS_BYTES_MAX + 1]);

#endif
