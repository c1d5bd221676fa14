/* What is written into the record of a task that did not end well: the members and rules of the Sidekiq job format
 * (reference: failure path). The task's own bytes are kept; only these members are set: queue, error_class,
 * error_message, failed_at or retried_at, retry_count. Pure; any thread. */
#ifndef WORKER_FAILURE_H
#define WORKER_FAILURE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/envelope.h"

enum { FAILURE_CLASS_MAX = 128, FAILURE_MESSAGE_MAX = 4096 };

struct failure {
    char error_class[FAILURE_CLASS_MAX];
    char message[FAILURE_MESSAGE_MAX];
};

/* First cause wins, like an error. */
void failure_set(struct failure *failure, const char *error_class, const char *format, ...) PRINTF_LIKE(3, 4);
void failure_clear(struct failure *failure);

enum failure_fate { FAILURE_RETRY, FAILURE_DEAD, FAILURE_VANISHES };

/* What happens to a task that fails now: `retry` false vanishes; the count at its maximum is dead, or vanishes when it
 * says "dead": false. */
enum failure_fate failure_fate(const struct envelope *envelope);
/* count^4 + 15 seconds + jitter, for the failure that is happening now. */
int64_t failure_delay_ns(const struct envelope *envelope);
/* The record; `counts` = this failure uses up a retry. A task that came without a jid gets the one it ran under. */
void failure_write(const struct failure *failure, const struct envelope *envelope, const char *queue, const char *jid,
                   bool counts, struct wall_time now, struct buffer *out);

#endif
