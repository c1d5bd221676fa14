/* Where the hosts of one dry run meet: three keys in its key space on the queue node. The host that leads says there
 * how the run stands; its guests say that they are there, and bring what their workers told. What the run is to do can
 * be long: it is written when it changes, or is gone, and read once by each guest (queue_keys.meeting_prefix "run").
 *
 * These are the two calls, as requests, and what is answered to them. Both may be repeated until they are answered.
 * Pure; any thread. If a host dies, its part expires with the keys, `ttl_ms` after the last call. */
#ifndef QUEUE_MEETING_H
#define QUEUE_MEETING_H

#include <stdbool.h>

#include "base/buffer.h"
#include "queue/json.h"
#include "redis/reply.h"
#include "redis/request.h"

/* For redis_node_options. */
extern const struct redis_script *const meeting_scripts[];
enum { MEETING_SCRIPTS = 2, MEETING_GUEST_BYTES_MAX = 200, MEETING_RECORD_ID_MAX = 48 };

/* --- the host that leads ------------------------------------------------------------------------------------------ */

struct meeting_call {
    const char *space;
    struct text_span run; /* JSON; of no length: it is as it was written before */
    const char *state;    /* of the run, in a word */
    int64_t ttl_ms;
    const char *taken; /* id of the last records that were taken; "0" at first */
    unsigned batches;  /* of records, at most */
};
void meeting_request(struct buffer *out, const struct meeting_call *call);

struct meeting_visitor {
    void (*guest)(void *context, const char *name, struct text_span beat);
    void (*records)(void *context, const char *guest, struct text_span bytes);
    void *context;
};
/* What the node knows. */
struct meeting_answer {
    int64_t node_us;                   /* its time */
    char taken[MEETING_RECORD_ID_MAX]; /* id of the last records that were handed out; as it was, when there are none */
    bool is_there;                     /* the run; else it has to be written with the next call */
};
/* Hands out what was answered: guests first, then records in their order. False when the reply is no such answer. */
bool meeting_read(const struct redis_reply *reply, const struct meeting_visitor *visitor,
                  struct meeting_answer *answer);

/* --- a guest ------------------------------------------------------------------------------------------------------ */

struct meeting_visit {
    const char *space, *name; /* of the guest; up to MEETING_GUEST_BYTES_MAX bytes */
    struct text_span beat;    /* JSON */
    int64_t ttl_ms;
    uint64_t number; /* of the records: from 1 on */
    struct text_span records;
    unsigned waiting_max; /* so many that were brought may wait until they are taken */
};
void meeting_visit_request(struct buffer *out, const struct meeting_visit *visit);
/* `state` points into the reply; bytes == NULL: there is no such run. `left` is the number of the last records that are
 * there, or were: those with a larger one have to be brought again, because too many wait. False when the reply is no
 * such answer. */
bool meeting_visit_read(const struct redis_reply *reply, struct text_span *state, uint64_t *left, int64_t *node_us);

#endif
