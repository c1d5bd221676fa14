/* Dry runs on the queue node: which there are. Each has a key space of its own, hf:2:dry:RUN:, before every key; an
 * index names the runs, with a lease that whoever leads a run renews, and a record each. A run whose lease has ended is
 * dead: the next dry run takes it over, removes what it has left, and has it forgotten.
 *
 * These are the names, and the calls as requests; all of them may be repeated until they are answered. Pure; any
 * thread. If a process dies, index and record stay until DRY_RUNS_RECORD_MS after the last call. */
#ifndef QUEUE_DRY_RUNS_H
#define QUEUE_DRY_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "redis/reply.h"
#include "redis/request.h"

enum {
    DRY_RUNS_SCRIPTS = 4,
    DRY_RUNS_ID_DIGITS = 12, /* small hexadecimal digits */
    DRY_RUNS_OWNER_DIGITS = 16,
    DRY_RUNS_LEASE_S = 60,
};
/* 90 days: the record is what a later dry run finds leftovers by. */
#define DRY_RUNS_RECORD_MS (INT64_C(90) * 24 * 3600 * 1000)

/* For redis_node_options. */
extern const struct redis_script *const dry_runs_scripts[];

/* "hf:2:dry:RUN:", the key space of a run, and what its locks have behind lock.prefix: "dry:RUN:". */
void dry_runs_space(const char *run, struct buffer *out);
void dry_runs_lock_space(const char *run, struct buffer *out);
/* The key of the index: a sorted set of runs by the end of their leases. */
const char *dry_runs_index(void);
/* The run that a key of the queue node belongs to; false when it belongs to none. */
bool dry_runs_key_read(const char *key, char run[DRY_RUNS_ID_DIGITS + 1]) MUST_CHECK;
bool dry_runs_id_is_sound(const char *run);

/* What is written down of a run. */
struct dry_runs_record {
    const char *who;         /* for people: "host:pid" */
    const char *lock_prefix; /* what stands before all its resources on the lock nodes */
};
/* Begins it; without a record it goes on. Answered with 1, or 0: it was taken over. */
void dry_runs_lease_request(struct buffer *out, const char *run, const char *owner,
                            const struct dry_runs_record *record);
/* Answered with a list of runs. */
void dry_runs_ended_request(struct buffer *out, unsigned count);
/* The run that an element of that list is; false when it is none. */
bool dry_runs_ended_read(const struct redis_reply *reply, size_t index, char run[DRY_RUNS_ID_DIGITS + 1]) MUST_CHECK;
void dry_runs_take_request(struct buffer *out, const char *run, const char *owner);
/* False when it was not taken over. The texts lie in the reply. */
bool dry_runs_take_read(const struct redis_reply *reply, struct dry_runs_record *record) MUST_CHECK;
void dry_runs_forget_request(struct buffer *out, const char *run, const char *owner);

#endif
