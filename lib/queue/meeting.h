/* Where the hosts of one dry run meet: three keys in its key space on the queue node. The host that leads says there
 * how the run stands; its guests say that they are there, and bring what their workers told.
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
    struct text_span run; /* JSON */
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
/* Hands out what was answered: guests first, then records in their order. `taken` becomes the id of the last ones.
 * False when the reply is no such answer. */
bool meeting_read(const struct redis_reply *reply, const struct meeting_visitor *visitor,
                  char taken[MEETING_RECORD_ID_MAX], int64_t *node_us);

/* --- a guest ------------------------------------------------------------------------------------------------------ */

struct meeting_visit {
    const char *space, *name; /* of the guest; up to MEETING_GUEST_BYTES_MAX bytes */
    struct text_span beat;    /* JSON */
    int64_t ttl_ms;
    uint64_t number; /* of the records: from 1 on */
    struct text_span records;
};
void meeting_visit_request(struct buffer *out, const struct meeting_visit *visit);
/* `run` points into the reply; bytes == NULL: there is no such run. False when the reply is no such answer. */
bool meeting_visit_read(const struct redis_reply *reply, struct text_span *run, int64_t *node_us);

#endif
