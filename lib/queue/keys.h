/* The names of all keys on the queue node; docs/data-model.md says what they contain.
 *
 * Every name begins with `space`, which is empty except in dry runs and tests. Our own keys contain the number of the
 * scheme, which is their meaning: a change that another version would misread gets a new number. A process is not
 * listed while one of another scheme is (enlist.lua), so in each scheme `processes` is a sorted set of them. */
#ifndef QUEUE_KEYS_H
#define QUEUE_KEYS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/clock.h"

#define QUEUE_SCHEME "hf:2:"
enum { QUEUE_SCHEME_NUMBER = 2, QUEUE_SCHEMES = 9 }; /* which may be met */

/* Of the claim id before the task in a slot. */
enum { CLAIM_ID_BYTES = 16 };

/* The bounds of `dead`, as in the data model: half a year, and fewer than ten thousand entries. */
enum { DEAD_AGE_S = 15552000, DEAD_ENTRIES = 10000 };

struct queue_keys {
    /* Sidekiq's */
    char *queues, *schedule, *retry, *dead, *paused;
    char *listed;                 /* "processes": the processes that dashboards show */
    char *shown, *work, *workers; /* of this process: what dashboards show of it */
    char *signals;
    char *processed, *failed; /* "stat:processed", "stat:failed" */
    char *queue_prefix;       /* "queue:" */
    char *iteration_prefix;   /* "it-" */
    /* ours */
    char *processes, *walked, *cancels, *periodic;
    char *process, *calls; /* of this process */
    char *beat;            /* of this process: "hf:2:beat:IDENTITY" */
    char *heard;           /* of this process: "hf:2:heard:IDENTITY" */
    char *process_prefix;  /* "hf:2:process:" */
    /* Where the blocking claim of an idle process puts a task: "bell" in keys, scripts and comments. */
    char *bell_prefix;      /* of this process: "hf:2:bell:IDENTITY:" */
    char *any_bell_prefix;  /* "hf:2:bell:" */
    char *calls_prefix;     /* "hf:2:calls:" */
    char *heard_prefix;     /* "hf:2:heard:" */
    char *recovered_prefix; /* "hf:2:recovered:" */
    char *unique_prefix;    /* "hf:2:unique:" */
    char *looked_prefix;    /* "hf:2:looked:" */
    char *receipt_prefix;   /* "hf:2:receipt:" */
    char *dropped_prefix;   /* "hf:2:dropped:" */
    char *producer_prefix;  /* "hf:2:producer:" */
    char *result_prefix;    /* "hf:2:result:" */
    /* of the waiting lists, before the name of one */
    char *waiting_prefix; /* "hf:2:waiting:" */
    char *waiters_prefix; /* "hf:2:waiters:" */
    char *freed;          /* "hf:2:freed" */
    char *contended;
    char *unserved, *unserved_prefix; /* "hf:2:unserved", and with ":CLASS" */
    char *successors;                 /* "hf:2:successors" */
    char *space;
};

/* `identity` is "" for a program that is no worker. */
void queue_keys_init(struct queue_keys *keys, const char *space, const char *identity);
void queue_keys_fini(struct queue_keys *keys);
/* Appends the key of a queue's list, or of its bell, as one argument of a request. */
void queue_keys_request_queue(const struct queue_keys *keys, const char *queue, struct buffer *out);
void queue_keys_request_bell(const struct queue_keys *keys, const char *queue, struct buffer *out);
/* Appends the key of the processes of each other scheme. */
void queue_keys_request_others(const struct queue_keys *keys, struct buffer *out);
/* Appends the key `prefix` + `name` as one argument of a request. */
void queue_keys_request(const char *prefix, const char *name, struct buffer *out);

/* Keys that name a time (UTC), each appended as one argument of a request.
 *
 * The total of a day: stat:processed:2026-11-21. */
void queue_keys_request_day(const char *total, struct wall_time time, struct buffer *out);
/* Keys that count runs, as Sidekiq 7 and 8 name them; Sidekiq 8 also counts by ten minutes. */
enum queue_period { QUEUE_MINUTE_7, QUEUE_MINUTE_8, QUEUE_TEN_MINUTES_8 };
void queue_keys_request_period(const struct queue_keys *keys, enum queue_period period, struct wall_time time,
                               struct buffer *out);
/* The histogram of a class for a minute, as Sidekiq 7 or 8 names it. */
void queue_keys_request_histogram(const struct queue_keys *keys, enum queue_period period, const char *class_name,
                                  struct wall_time time, struct buffer *out);

/* What became of locks on a day: hf:2:locks:20261121. */
void queue_keys_request_locks(const struct queue_keys *keys, struct wall_time time, struct buffer *out);

/* A queue's name: 1 to 128 printable bytes without blanks, not beginning with "hf:". */
bool queue_name_is_sound(const char *name);

#endif
