/* The terms by which a process runs tasks: what two processes must have in common so that locks keep their tasks apart.
 *
 * A text of one line an item, which a process announces at the queue node (queue_announce):
 *
 *     NAME \t BREAKING \t DISTURBING \n        locks              \t lock group ..., below "hf:" \t lease 15000 ms
 *                                              class transfer     \t a lock on "account:{0}"     \t limit 1, ...
 *
 * Two processes break exclusion on an item that both have with other BREAKING words. So only one of the two may serve
 * it: scripts/enlist.lua lets the one that served it first go on, and the other waits until it has ended. Other
 * DISTURBING words only deserve a warning. Pure; any thread. */
#ifndef QUEUE_TERMS_H
#define QUEUE_TERMS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "queue/json.h"

#define TERMS_OF_LOCKS "locks"  /* the item for everything that locks */
#define TERMS_OF_CLASS "class " /* and the name of a class: the item for its tasks */

/* Appends a line. Control characters become '_'. */
void terms_append(struct buffer *text, const char *name, const char *breaking, const char *disturbing);

struct terms_item {
    struct text_span name, breaking, disturbing;
};
/* The line at `*at`, which moves on; false at the end, or where the text is no terms. */
bool terms_next(const char **at, struct terms_item *item);
/* The item of this name; false if there is none. */
bool terms_find(const char *text, struct text_span name, struct terms_item *item);
bool terms_span_equals(struct text_span one, struct text_span other);
/* Whether one of the lines is this name. */
bool terms_lists(const char *lines, struct text_span name);

/* A process: its terms, and which items it waits for, one a line. */
struct terms_party {
    const char *identity, *terms, *waits;
};

/* An item on which two differ. */
struct terms_difference {
    struct text_span name, here, there; /* the words of one and of the other */
    const char *other;
    bool breaks;          /* not both may serve it */
    const char *sentence; /* for people, with both words and both processes */
};
void terms_compare(const struct terms_party *one, const struct terms_party *other,
                   void (*tell)(void *context, const struct terms_difference *difference), void *context);

#endif
