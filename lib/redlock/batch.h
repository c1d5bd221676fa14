/* Private to lib/redlock: one script call a node about one or many locks. See batch.c. */
#ifndef REDLOCK_BATCH_H
#define REDLOCK_BATCH_H

#include "redlock/group_private.h"

enum { BATCH_KEYS_MAX = 128, BATCH_LOCKS_MAX = 64 };

struct batch_entry {
    struct redlock_lock *lock;
    uint32_t round;
    uint16_t first_key, key_count;
    node_set nodes;
    struct lock_swap *swap; /* of a grant that takes over; else NULL */
    node_set unsure;        /* of the release of an old value: it may just have been replaced there */
};

struct batch_call {
    struct redis_call call;
    struct batch *batch;
    unsigned node;
    struct instant asked;
};

struct batch {
    struct list link;      /* in group->batches */
    struct list idle_link; /* in group->idle_batches or group->full_batches */
    struct redlock_group *group;
    enum batch_kind kind;
    bool is_shared;
    unsigned lock_count, key_count, unanswered;
    bool is_quiet;                           /* of releases: announces nothing, and learns whether a process listens */
    uint64_t announced[BATCH_KEYS_MAX / 64]; /* of quiet releases: the keys to announce if one does */
    unsigned old_count; /* of a batch of grants: the old values in `others`, "" for the first ones that have none */
    node_set nodes;
    struct lease_terms terms;           /* of a batch of grants: those of all its locks; of one lock: its own */
    node_set gone;                      /* of a batch of one: nodes that did not have its keys when it was added */
    struct instant gone_by;             /* when every key has expired by itself, also one planted late */
    struct buffer keys, values, others; /* encoded arguments; others: a ttl, a channel or an old value a key */
    struct buffer request;
    struct batch_entry entries[BATCH_LOCKS_MAX];
    struct batch_call calls[]; /* one a node */
};

/* The answer of a node to a whole batch. */
struct batch_answer {
    enum answer_kind {
        ANSWER_EXECUTED,
        ANSWER_OTHER_MARKER, /* nothing was done: the node's marker is not the one that we know */
        ANSWER_TOO_LATE,     /* nothing was done: the deadline was over in the node's time */
        ANSWER_NOT_SENT,     /* nothing was done */
        ANSWER_NONE,         /* it may have been executed, in part or later */
    } kind;
    int64_t node_us;                /* the node's time; 0 = unknown */
    const char *text;               /* what follows the code and the time */
    size_t length;                  /* of it */
    bool is_heard;                  /* of quiet releases: a process listens */
    const char *signs;              /* of grants: one a lock, when all have the token at `text` */
    int64_t token;                  /* that one, read */
    const struct redis_reply *list; /* of grants that differ: one a lock; `signs` is NULL */
};

/* One lock a call, and one value for all its keys. */
static inline bool batch_is_of_one(const struct batch *batch)
{
    return batch->kind == BATCH_GRANT_ALL || batch->kind == BATCH_RAISE || batch->kind == BATCH_REPLANT ||
           batch->kind == BATCH_INTENT;
}

/* batch_codec.c */
void batch_codec_add(struct batch *batch, const struct redlock_lock *lock);
void batch_codec_add_withdrawal(struct batch *batch, const struct redlock_lock *lock, bool is_told);
void batch_codec_add_swapped(struct batch *batch, const struct lock_swap *swap, const struct redlock_lock *failed);
void batch_codec_request(struct batch *batch, unsigned node); /* into batch->request */
/* Whether the call writes fences. */
bool batch_codec_puts_fences(const struct batch *batch);
struct batch_answer batch_codec_answer(const struct batch *batch, const struct redis_result *result);
enum lease_vote batch_codec_vote(const struct batch *batch, const struct batch_entry *entry, unsigned node,
                                 const struct batch_answer *answer, uint64_t *detail);
/* The vote of a node that executed a batch of grants: YES is granted, NO is held by another owner, UNKNOWN is refused
 * for another reason. Changes nothing. */
enum lease_vote batch_codec_granted(const struct batch *batch, const struct batch_entry *entry,
                                    const struct batch_answer *answer);
enum swap_answer batch_codec_swap_answer(const struct batch *batch, const struct batch_entry *entry,
                                         const struct batch_answer *answer);

#endif
