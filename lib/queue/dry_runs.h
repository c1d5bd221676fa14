/* The dry runs on the queue node. The keys of each begin with hf:2:dry:RUN:. An index lists the runs with their leases,
 * and each run has a record with its hosts. Every host renews the lease of the run. The load begins at all of them at
 * one time of the node's clock, once all are ready; who leaves last removes the keys of the run, and then its record. A
 * run whose lease has ended is dead: the next dry run takes it over, and does the same.
 *
 * This file has the names and encodes the calls; all calls may be repeated until they are answered. Pure; any
 * thread. If all processes of a run die, index and record stay until DRY_RUNS_RECORD_MS after the last call. */
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

enum dry_runs_step { DRY_RUNS_COME, DRY_RUNS_STAY, DRY_RUNS_READY, DRY_RUNS_LEAVE };

/* One host of a run. */
struct dry_runs_host {
    const char *run;
    const char *host; /* as it is called in the record, different from those of all others */
    unsigned hosts;   /* of how many the run is */
    const char *who;  /* "host:pid", for people */
    const char *lock_prefix;
};

void dry_runs_lease_request(struct buffer *out, const struct dry_runs_host *host, enum dry_runs_step step);
struct dry_runs_lease {
    int64_t node_us;   /* the node's time */
    int64_t begins_us; /* when the load begins, by that; 0 = not all are ready */
    unsigned hosts;    /* that there are */
};
/* False if this host has no part in the run: it was taken over, or has other hosts. */
bool dry_runs_lease_read(const struct redis_reply *reply, struct dry_runs_lease *lease) MUST_CHECK;
/* Answers a list of runs. */
void dry_runs_ended_request(struct buffer *out, unsigned count);
/* Reads a run from an element of that list; false if it is no run. */
bool dry_runs_ended_read(const struct redis_reply *reply, size_t index, char run[DRY_RUNS_ID_DIGITS + 1]) MUST_CHECK;
void dry_runs_take_request(struct buffer *out, const char *run, const char *taker);
/* The prefix of its locks, which points into the reply; NULL if the run was not taken over. */
const char *dry_runs_take_read(const struct redis_reply *reply);
void dry_runs_forget_request(struct buffer *out, const char *run, const char *remover);

#endif
