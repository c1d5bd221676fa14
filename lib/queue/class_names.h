/* Names of classes that something is counted for: a bounded set, each name with a number from 0 on.
 *
 *     unsigned number = class_names_number(&names, "transfer");       names.texts[number] is how fields call it
 *
 * Names come from plugins and tasks; bytes that have a meaning in a field's name ('|' and control characters) become
 * '_'. From the CLASS_NAMES_MAX-th class on all further ones share a number, that of CLASS_NAMES_OTHERS. Begins zeroed.
 * Pure; not thread-safe. */
#ifndef QUEUE_CLASS_NAMES_H
#define QUEUE_CLASS_NAMES_H

#include "queue/envelope.h"

enum { CLASS_NAMES_MAX = 128, CLASS_NAMES_PLACES = 2 * CLASS_NAMES_MAX };

#define CLASS_NAMES_OTHERS "hf.others"

struct class_names {
    unsigned count;
    char texts[CLASS_NAMES_MAX][ENVELOPE_CLASS_BYTES_MAX + 1];
    unsigned char places[CLASS_NAMES_PLACES]; /* private: by the hash of a name its number + 1; 0 = free */
};

unsigned class_names_number(struct class_names *names, const char *class_name);
/* The same for a name that goes into no field: it keeps all its bytes, ENVELOPE_CLASS_BYTES_MAX at most. */
unsigned class_names_number_exact(struct class_names *names, const char *name);
/* There are none. */
void class_names_clear(struct class_names *names);

/* How fields call the class. */
void class_name_clean(const char *class_name, char out[ENVELOPE_CLASS_BYTES_MAX + 1]);

#endif
