/* The hosts of one dry run exchange data through three keys (hf:2:meeting:) in its key space on the queue node. The
 * coordinator writes the state of the run. Remote hosts send a heartbeat and the records of their workers. The plan can
 * be long: the coordinator writes it only when it changes or is missing, and each remote host reads it once.
 *
 * This file encodes the two calls and reads their answers. Both may be repeated until they are answered.
 * Pure; any thread. If a host dies, its part expires with the keys, `ttl_ms` after the last call. */
#ifndef QUEUE_DRY_RUN_HOSTS_H
#define QUEUE_DRY_RUN_HOSTS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "queue/json.h"
#include "redis/reply.h"
#include "redis/request.h"

/* For redis_node_options. */
extern const struct redis_script *const dry_run_host_scripts[];
enum { DRY_RUN_HOST_SCRIPTS = 2, REMOTE_HOST_BYTES_MAX = 200, HOST_RECORD_ID_MAX = 48 };

/* --- the coordinator ---------------------------------------------------------------------------------------------- */

struct coordinator_call {
    const char *space;
    struct text_span run; /* JSON; of no length: it is as it was written before */
    const char *state;    /* of the run, in a word */
    int64_t ttl_ms;
    const char *taken; /* id of the last records that were taken; "0" at first */
    unsigned batches;  /* of records, at most */
};
void coordinator_request(struct buffer *out, const struct coordinator_call *call);

struct coordinator_handler {
    void (*host)(void *context, const char *name, struct text_span beat);
    void (*records)(void *context, const char *host, struct text_span bytes);
    void *context;
};
/* What the node knows. */
struct coordinator_answer {
    int64_t node_us;                /* its time */
    char taken[HOST_RECORD_ID_MAX]; /* id of the last records that were handed out; as it was, when there are none */
    bool is_there;                  /* the run; else it has to be written with the next call */
};
/* Hands out what was answered: hosts first, then records in their order. False when the reply is no such answer. */
bool coordinator_read(const struct redis_reply *reply, const struct coordinator_handler *handler,
                      struct coordinator_answer *answer);

/* --- a remote host ------------------------------------------------------------------------------------------------ */

struct remote_host_call {
    const char *space, *name; /* of the remote host; up to REMOTE_HOST_BYTES_MAX bytes */
    struct text_span beat;    /* JSON */
    int64_t ttl_ms;
    uint64_t number; /* of the records: from 1 on */
    struct text_span records;
    unsigned waiting_max; /* so many that were brought may wait until they are taken */
};
void remote_host_request(struct buffer *out, const struct remote_host_call *visit);
/* `state` points into the reply; bytes == NULL: there is no such run. `left` is the number of the last records that are
 * there, or were: those with a larger one have to be brought again, because too many wait. False when the reply is no
 * such answer. */
bool remote_host_read(const struct redis_reply *reply, struct text_span *state, uint64_t *left, int64_t *node_us);

#endif
