/* Every key name on the queue node, in one place.
 *
 * Sidekiq's own, as its clients and dashboards expect them: `queues` (set of bare names), `queue:NAME` (list; producers
 * push left, we take right), `schedule`, `retry`, `dead` (sorted sets; score = seconds).
 * Ours, below `hf:`:
 *   hf:processes            set of identities that may have claims
 *   hf:claims:IDENTITY      hash, slot number -> 16 bytes of claim id, then nothing, or queue name, newline, payload
 *   hf:bell:IDENTITY:QUEUE  list of payloads: what the blocking move put aside for this process, mostly one
 * `space` is put before every name; it is empty but for dry runs and tests. */
#ifndef QUEUE_KEYS_H
#define QUEUE_KEYS_H

#include "base/buffer.h"

/* What `dead` keeps, as the data model says: half a year, and fewer than ten thousand entries. */
enum { DEAD_AGE_S = 15552000, DEAD_ENTRIES = 10000 };

struct queue_keys {
    char *queues, *schedule, *retry, *dead, *processes, *claims;
    char *queue_prefix; /* "queue:" */
    char *bell_prefix;  /* "hf:bell:IDENTITY:" */
};

void queue_keys_init(struct queue_keys *keys, const char *space, const char *identity);
void queue_keys_fini(struct queue_keys *keys);
/* Appends the key of a queue's list, or of its bell, as one argument of a request. */
void queue_keys_request_queue(const struct queue_keys *keys, const char *queue, struct buffer *out);
void queue_keys_request_bell(const struct queue_keys *keys, const char *queue, struct buffer *out);

/* A queue's name: 1 to 128 printable bytes without blanks, not beginning with "hf:". */
bool queue_name_is_sound(const char *name);

#endif
