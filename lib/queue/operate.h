/* What operators do on the queue node: the requests of `holdfast tasks`, `queues`, `pause` and `resume`.
 *
 * Each is one script that moves bytes as they are, looks at the target before it takes anything, takes only what
 * stands in its place exactly as it was seen, and may be repeated after a lost reply: it then answers what it
 * answered first. For that every call has an id of its own, drawn by operate_new_id. The connection has to know
 * queue_scripts. Any thread. */
#ifndef QUEUE_OPERATE_H
#define QUEUE_OPERATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "queue/json.h"
#include "queue/keys.h"

enum operate_verb {
    OPERATE_RETRY,  /* to its queue */
    OPERATE_BURY,   /* into `dead` */
    OPERATE_DELETE, /* it is removed */
};
const char *operate_verb_name(enum operate_verb verb); /* "retry", "bury", "delete" */

/* Answers of operate_move, one an entry. */
enum operate_answer {
    OPERATE_DONE = 1,
    OPERATE_GONE = 0,    /* it is not there any more, or has changed */
    OPERATE_CLASH = -1,  /* the target's key holds something foreign */
    OPERATE_LIVING = -2, /* the process that has claimed it is alive */
};

enum operate_kind { OPERATE_SET, OPERATE_LIST, OPERATE_CLAIMS };

struct operate_entry {
    struct text_span seen;  /* all that stands in the place */
    struct text_span fresh; /* what goes to the queue or to `dead` */
    const char *queue;      /* OPERATE_RETRY: where to */
    const char *unique;     /* but OPERATE_RETRY: the digest under which it is unique, or NULL */
    const char *jid;        /* with `unique` or `line` */
    const char *line;       /* the waiting list that the task names (hf_line), or NULL: it leaves that too */
    const char *field;      /* OPERATE_CLAIMS: the slot */
};

struct operate_place {
    enum operate_kind kind;
    const char *key;
    const char *lease_of; /* OPERATE_CLAIMS, and bells: the process whose lease must have ended; NULL = none is asked */
    size_t list_look;     /* OPERATE_LIST: how many entries from the right end are looked through */
};

enum { OPERATE_ID_SIZE = 33, OPERATE_ENTRIES_MAX = 100 };
void operate_new_id(char id[OPERATE_ID_SIZE]);

/* Each writes one request to `out`. The answers of operate_move have one number behind them: how many entries of `dead`
 * were trimmed. */
void operate_move(const struct queue_keys *keys, const char *id, enum operate_verb verb,
                  const struct operate_place *place, const struct operate_entry *entries, size_t count,
                  struct buffer *out);
/* Pauses or resumes; answers how many processes were notified. */
void operate_pause(const struct queue_keys *keys, bool pause, char *const *names, size_t count, struct buffer *out);
/* The answer is the number of tasks that were in it; -1: its key holds something foreign. The list is then below
 * keys->dropped_prefix with this id, for ten minutes: read from it what the tasks hold as unique, give that free by
 * operate_free, and UNLINK it. */
void operate_drop(const struct queue_keys *keys, const char *id, const char *name, struct buffer *out);

struct operate_unique {
    char *digest, *jid; /* of a task that is gone */
};
/* Gives free what they hold, if they do; the answer is how many did. */
void operate_free(const struct queue_keys *keys, const struct operate_unique *items, size_t count, struct buffer *out);

#endif
