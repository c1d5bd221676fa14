/* What happens to a task that fails, and its record: the members and rules of the Sidekiq job format.
 *
 *     failure_set(&failure, "Net::Timeout", "no answer for %d s", 5);
 *     switch (failure_outcome(&envelope, &rules, wall_now(), &reason)) ...
 *     failure_write(&failure, &record, &text);       the text goes to `retry` or `dead`
 *
 * Keeps the task's own bytes and sets only the members of a failure, in the order of Ruby's worker. Pure, except for
 * the jitter of the delay; any thread, one at a time for each struct. */
#ifndef WORKER_FAILURE_OUTCOME_H
#define WORKER_FAILURE_OUTCOME_H

#include <stdarg.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/task/task_rules.h"

/* Writing cuts a message to FAILURE_CHARACTERS_MAX characters; FAILURE_MESSAGE_MAX has room for them in any case. */
enum { FAILURE_CLASS_MAX = 128, FAILURE_CHARACTERS_MAX = 10000, FAILURE_MESSAGE_MAX = 4 * FAILURE_CHARACTERS_MAX + 1 };

/* The error class of what could not be started. */
#define FAILURE_NOT_STARTED "HF::NotStarted"

struct failure {
    char error_class[FAILURE_CLASS_MAX];
    char message[FAILURE_MESSAGE_MAX];
};

/* The first cause wins, as in error.h. */
void failure_set(struct failure *failure, const char *error_class, const char *format, ...) PRINTF_LIKE(3, 4);
void failure_set_list(struct failure *failure, const char *error_class, const char *format, va_list arguments)
    PRINTF_LIKE(3, 0);
void failure_clear(struct failure *failure);

enum failure_outcome { FAILURE_RETRY, FAILURE_DEAD, FAILURE_VANISHES };

/* What happens to a task that fails at `now`, and why, as a constant text ("its retries are used up"); `reason` may be
 * NULL. Counts the present failure, which is not in the task yet.
 *
 *  - A task with `retry` false is discarded.
 *  - A task that runs at most once is never retried.
 *  - With retry_for it is retried for that time after its first failure; the count is ignored. If the time of the first
 *    failure is unreadable, its creation counts; without that, the count decides.
 *  - Else it is retried while its count is below the maximum.
 *  - A task that is not retried goes to `dead`, or is discarded if `dead` is off. */
enum failure_outcome failure_outcome(const struct envelope *envelope, const struct task_rules *rules,
                                     struct wall_time now, const char **reason);
/* count^4 + 15 seconds + jitter, for the present failure. */
int64_t failure_delay_ns(const struct envelope *envelope);

struct failure_record {
    const struct envelope *envelope;
    const struct task_rules *rules;
    const char *queue; /* the queue that it was claimed from */
    const char *jid;   /* the jid of the run: a task without one gets it */
    bool started;      /* its handler ran; else its time of expiry is kept */
    /* This failure uses up a retry. Otherwise the count and times of earlier failures stay, and the task keeps its
     * queue. */
    bool counts;
    bool is_final;                /* the record goes to `dead` */
    const char *fence;            /* the token that the run had; "" = none */
    struct wall_time unserved_at; /* when a worker without its class first took it; 0 = served here */
    bool keep_ms;                 /* times that are integers of milliseconds stay so */
    const char *const *backtrace; /* lines, the innermost first; the rules limit how many are written */
    size_t backtrace_count;
};
void failure_write(const struct failure *failure, const struct failure_record *record, struct wall_time now,
                   struct buffer *out);

#endif
