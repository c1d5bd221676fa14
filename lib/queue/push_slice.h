/* Private to lib/queue: some tasks of one source that are pushed by one call; see push.h.
 *
 * A slice is encoded while it fills: its body holds the tasks as arguments of the call that will carry them. Bodies are
 * used again, so that bulk pushing allocates nothing in the steady state. Runs on the loop. */
#ifndef QUEUE_PUSH_SLICE_H
#define QUEUE_PUSH_SLICE_H

#include "queue/digest.h"
#include "queue/keys.h"
#include "queue/push.h"

enum { SLICE_TASKS = 1000, SLICE_TASKS_SCHEDULED = 100, SLICE_BYTES = 1 << 20 };

struct slice {
    struct list link; /* filling, waiting, in flight or spare */
    struct push *push;
    struct push_source *source;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    bool is_scheduled;
    char digest[DIGEST_TEXT_SIZE]; /* "" unless it is a single unique task, and then */
    char jid[ENVELOPE_JID_BYTES_MAX + 1];
    int64_t unique_ms;
    struct buffer body, numbers;
    size_t count, bytes;      /* of the tasks */
    uint64_t serial;          /* its place in the order of pushing, once it is closed */
    struct instant answer_by; /* INSTANT_NEVER until it is sent */
    bool may_be_pushed;       /* a try of it has no outcome */
    bool was_refused;         /* by the last try, for a while perhaps */
    /* Of a unique one: another task has its key, and the next try looks whether that is still there. */
    bool seeks;
    char missed[ENVELOPE_JID_BYTES_MAX + 1]; /* the last look did not find this one; "" = it found it, or none looked */
    struct instant rested;                   /* before then it isn't tried again */
    struct redis_call call;
};

/* A new one, or `spare` used again. */
struct slice *slice_open(struct slice *spare, struct push_source *source, const struct intake_task *task);
void slice_free(struct slice *slice);
/* Whether another task may join it. */
bool slice_takes(const struct slice *slice, const struct intake_task *task);
void slice_add(struct slice *slice, const struct intake_task *task, int64_t score_us, uint64_t number);
bool slice_is_full(const struct slice *slice);
/* In tasks of a common size. */
size_t slice_weight(const struct slice *slice);
/* `record` is the key of the producer's record, `low` the lowest serial without an answer. */
void slice_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                   struct buffer *out);

#endif
