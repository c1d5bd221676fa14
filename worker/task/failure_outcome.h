/* What becomes of a task that fails, and what is written into it: the members and rules of the Sidekiq job format.
 *
 *     failure_set(&failure, "Net::Timeout", "no answer for %d s", 5);
 *     switch (failure_outcome(&envelope, &rules, wall_now(), &reason)) ...
 *     failure_write(&failure, &record, &text);       the text goes to `retry` or `dead`
 *
 * The task's own bytes are kept; only the members of a failure are set, in the order in which Ruby's worker sets them.
 * Pure, but for the jitter of the delay; any thread, one at a time for each struct. */
#ifndef WORKER_FAILURE_H
#define WORKER_FAILURE_H

#include <stdarg.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/task/task_rules.h"

/* A message is cut behind FAILURE_CHARACTERS_MAX characters when it is written; this many have room in any case. */
enum { FAILURE_CLASS_MAX = 128, FAILURE_CHARACTERS_MAX = 10000, FAILURE_MESSAGE_MAX = 4 * FAILURE_CHARACTERS_MAX + 1 };

struct failure {
    char error_class[FAILURE_CLASS_MAX];
    char message[FAILURE_MESSAGE_MAX];
};

/* First cause wins, like an error. */
void failure_set(struct failure *failure, const char *error_class, const char *format, ...) PRINTF_LIKE(3, 4);
void failure_set_list(struct failure *failure, const char *error_class, const char *format, va_list arguments)
    PRINTF_LIKE(3, 0);
void failure_clear(struct failure *failure);

enum failure_outcome { FAILURE_RETRY, FAILURE_DEAD, FAILURE_VANISHES };

/* What happens to a task that fails at `now`, and why, as a constant text ("its retries are used up"); `reason` may be
 * NULL. The task has not been rewritten yet: the failure that happens now is counted here.
 *
 *  - A task that says `retry` false vanishes.
 *  - One that runs at most once is never retried.
 *  - With retry_for it is retried until that time after its first failure is over; the number does not count. When the
 *    time of its first failure cannot be read it counts from its creation, and without that the number decides.
 *  - Else it is retried while its count stays below the maximum.
 *  - What is not retried is dead, or vanishes when it is to have no grave. */
enum failure_outcome failure_outcome(const struct envelope *envelope, const struct task_rules *rules,
                                     struct wall_time now, const char **reason);
/* count^4 + 15 seconds + jitter, for the failure that is happening now. */
int64_t failure_delay_ns(const struct envelope *envelope);

struct failure_record {
    const struct envelope *envelope;
    const struct task_rules *rules;
    const char *queue; /* where it was claimed from */
    const char *jid;   /* the one it ran under: a task that came without gets it */
    bool started;      /* its handler ran; else the time by which it must have been started is kept */
    /* This failure uses up a retry. Otherwise the count and the times of failures before it stay, and it stays in its
     * queue. */
    bool counts;
    bool is_final;                /* the record goes to `dead` */
    const char *fence;            /* the token that the run had; "" = none */
    struct wall_time unserved_at; /* when it was first met where nobody serves its class; 0 = somebody does here */
    bool keep_ms;                 /* times that came as integers of milliseconds stay such */
    const char *const *backtrace; /* lines, the innermost first; written as far as the rules ask for them */
    size_t backtrace_count;
};
void failure_write(const struct failure *failure, const struct failure_record *record, struct wall_time now,
                   struct buffer *out);

#endif
