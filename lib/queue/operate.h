/* Requests to the queue node for the operators' commands `holdfast tasks`, `queues`, `pause` and `resume`.
 *
 * Each is one script. It moves bytes as they are, checks the target before it takes anything, and takes only an
 * entry that is unchanged since it was seen. Repeated after a lost reply, it gives its first answer again. For that
 * every call has a random id, from operate_new_id. The connection needs queue_scripts. Any thread. */
#ifndef QUEUE_OPERATE_H
#define QUEUE_OPERATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "queue/json.h"
#include "queue/keys.h"

enum operate_verb {
    OPERATE_RETRY,  /* to its queue */
    OPERATE_BURY,   /* into `dead` */
    OPERATE_DELETE, /* nowhere */
};
const char *operate_verb_name(enum operate_verb verb); /* "retry", "bury", "delete" */

/* Answers of operate_move, one an entry. */
enum operate_answer {
    OPERATE_DONE = 1,
    OPERATE_GONE = 0,    /* it has gone, or has changed */
    OPERATE_CLASH = -1,  /* the target's key holds something foreign */
    OPERATE_LIVING = -2, /* the process that has claimed it is alive */
};

enum operate_kind { OPERATE_SET, OPERATE_LIST, OPERATE_CLAIMS };

struct operate_entry {
    struct text_span seen;  /* the whole content of what lies there */
    struct text_span fresh; /* the text for the queue or `dead` */
    const char *queue;      /* OPERATE_RETRY: where to */
    const char *unique;     /* except OPERATE_RETRY: the digest of its unique key, or NULL */
    const char *jid;        /* with `unique` or `list` */
    const char *list;       /* the waiting list that the task names (hf_list) and leaves, or NULL */
    const char *field;      /* OPERATE_CLAIMS: the slot */
};

struct operate_state {
    enum operate_kind kind;
    const char *key;
    const char *lease_of; /* OPERATE_CLAIMS, and bells: the process whose lease must have ended; NULL = no check */
    size_t list_look;     /* OPERATE_LIST: how many entries from the right end are searched */
};

enum { OPERATE_ID_SIZE = 33, OPERATE_ENTRIES_MAX = 100 };
void operate_new_id(char id[OPERATE_ID_SIZE]);

/* Each writes one request to `out`. After its answers operate_move gives the number of entries trimmed from `dead`. */
void operate_move(const struct queue_keys *keys, const char *id, enum operate_verb verb,
                  const struct operate_state *state, const struct operate_entry *entries, size_t count,
                  struct buffer *out);
/* Pauses or resumes; answers how many processes were notified. */
void operate_pause(const struct queue_keys *keys, bool pause, char *const *names, size_t count, struct buffer *out);
/* Answers the number of tasks that were in the queue; -1: its key holds something foreign. For ten minutes the list
 * is then under keys->dropped_prefix with this id: read the tasks' unique keys from it, release them with
 * operate_free, and UNLINK it. */
void operate_drop(const struct queue_keys *keys, const char *id, const char *name, struct buffer *out);

struct operate_unique {
    char *digest, *jid; /* of a deleted task */
};
/* Releases the unique keys that these tasks still hold; answers how many. */
void operate_free(const struct queue_keys *keys, const struct operate_unique *items, size_t count, struct buffer *out);

#endif
