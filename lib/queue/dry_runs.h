/* The dry runs on the queue node. The keys of each begin with hf:2:dry:RUN:. An index lists the runs with their leases,
 * and each run has a record. The process that leads a run renews its lease. A run whose lease has ended is dead: the
 * next dry run takes it over, removes its keys, and then its record.
 *
 * This file has the names and encodes the calls; all calls may be repeated until they are answered. Pure; any
 * thread. If a process dies, index and record stay until DRY_RUNS_RECORD_MS after the last call. */
#ifndef QUEUE_DRY_RUNS_H
#define QUEUE_DRY_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "queue/json.h"
#include "redis/reply.h"
#include "redis/request.h"

enum {
    DRY_RUNS_SCRIPTS = 4,
    DRY_RUNS_ID_DIGITS = 12, /* lower-case hexadecimal digits */
    DRY_RUNS_OWNER_DIGITS = 16,
    DRY_RUNS_LEASE_S = 60,
};
/* 90 days: a later dry run finds leftovers by the record. */
#define DRY_RUNS_RECORD_MS (INT64_C(90) * 24 * 3600 * 1000)

/* For redis_node_options. */
extern const struct redis_script *const dry_runs_scripts[];

/* "hf:2:dry:RUN:", the key space of a run; and "dry:RUN:", which follows lock.prefix in the names of its locks. */
void dry_runs_space(const char *run, struct buffer *out);
void dry_runs_lock_space(const char *run, struct buffer *out);
/* The key of the index: a sorted set of runs by the end of their leases. */
const char *dry_runs_index(void);
/* Finds the run of a key on the queue node; false if the key belongs to none. */
bool dry_runs_key_read(const char *key, char run[DRY_RUNS_ID_DIGITS + 1]) MUST_CHECK;
bool dry_runs_id_is_sound(const char *run);

/* Begins the run, with what its record says: for people `who`, "host:pid", and the prefix of all its resources on the
 * lock nodes. Without a prefix, renews its lease. Answers 1, or 0: the run was taken over. */
void dry_runs_lease_request(struct buffer *out, const char *run, const char *owner, const char *who,
                            const char *lock_prefix);
/* Answers a list of runs. */
void dry_runs_ended_request(struct buffer *out, unsigned count);
/* Reads a run from an element of that list; false if it is no run. */
bool dry_runs_ended_read(const struct redis_reply *reply, size_t index, char run[DRY_RUNS_ID_DIGITS + 1]) MUST_CHECK;
void dry_runs_take_request(struct buffer *out, const char *run, const char *owner);
/* The prefix of its locks, which points into the reply; NULL if the run was not taken over. */
const char *dry_runs_take_read(const struct redis_reply *reply);
void dry_runs_forget_request(struct buffer *out, const char *run, const char *owner);

/* --- the hosts of one dry run ------------------------------------------------------------------------------------- */

/* The hosts of one dry run exchange data through three keys (hf:2:meeting:) in its key space on the queue node. The
 * coordinator writes the state of the run. Remote hosts send a heartbeat and the records of their workers. The plan can
 * be long: the coordinator writes it only when it changes or is missing, and each remote host reads it once.
 *
 * This file encodes the two calls and reads their answers. Both may be repeated until they are answered.
 * Pure; any thread. If a host dies, its part expires with the keys, DRY_RUN_HOSTS_TTL_MS after the last call. */
/* For redis_node_options. */
extern const struct redis_script *const dry_run_host_scripts[];
enum {
    DRY_RUN_HOST_SCRIPTS = 2,
    REMOTE_HOST_BYTES_MAX = 200, /* of the name of a remote host */
    HOST_RECORD_ID_MAX = 48,
    DRY_RUN_HOSTS_TTL_MS = 120000,
};

/* --- the coordinator ---------------------------------------------------------------------------------------------- */

/* `run` is JSON, empty: unchanged; `state` is that of the run, in a word; `taken` is the id of the last records taken,
 * "0" at first; `batches`: of records, at most. */
void coordinator_request(struct buffer *out, const char *space, struct text_span run, const char *state,
                         const char *taken, unsigned batches);

struct coordinator_handler {
    void (*host)(void *context, const char *name, struct text_span heartbeat);
    void (*records)(void *context, const char *host, struct text_span bytes);
    void *context;
};
/* The node's answer. */
struct coordinator_answer {
    int64_t node_us;                /* its time */
    char taken[HOST_RECORD_ID_MAX]; /* id of the last records delivered; unchanged if there are none */
    bool is_there;                  /* the run exists; else write it with the next call */
};
/* Delivers the answer: hosts first, then records in their order. False if the reply is no such answer. */
bool coordinator_read(const struct redis_reply *reply, const struct coordinator_handler *handler,
                      struct coordinator_answer *answer);

/* --- a remote host ------------------------------------------------------------------------------------------------ */

/* `heartbeat` is JSON; `number` is that of the records, from 1 on; so many records may wait until they are taken. */
void remote_host_request(struct buffer *out, const char *space, const char *name, struct text_span heartbeat,
                         uint64_t number, struct text_span records, unsigned waiting_max);
/* `state` points into the reply; bytes == NULL: there is no such run. `left` is the number of the last stored
 * records. Send records with larger numbers again: the node refused them because too many wait. False if the reply
 * is no such answer. */
bool remote_host_read(const struct redis_reply *reply, struct text_span *state, uint64_t *left, int64_t *node_us);

#endif
