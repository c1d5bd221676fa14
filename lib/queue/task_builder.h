/* Completes what a producer hands in to a task that can be pushed.
 *
 * The input is a whole task object or, if the class is given, only its arguments as a JSON array. Required members that
 * the text lacks (jid, queue, created_at, retry, and enqueued_at unless it is scheduled) are added at its end; the rest
 * stays as it is, byte for byte, with the two exceptions below. A text that no worker would accept is refused with a
 * reason.
 *
 * `at` is removed: it says when to run the task, in seconds since 1970, or from now if it is less than 1,000,000,000. A
 * time that is past by our clock means now. A scheduled task that has `expires_in` gets `expires_at`, counted from the
 * time for which it is scheduled.
 *
 * A unique task gets `hf_unique`: SHA-1 over its class, a line feed and the bytes of its arguments.
 *
 * Pure, except for random jids; any thread, one at a time per builder. */
#ifndef QUEUE_TASK_BUILDER_H
#define QUEUE_TASK_BUILDER_H

#include "queue/digest.h"
#include "queue/envelope.h"
#include "queue/holdfast.h"

struct task_builder;

/* `defaults` fill in what the texts lack. If they have a class and no `json`, the texts are arguments; `json` and
 * `args` are ignored otherwise. `parent` is the jid of the task that these follow, which each gets as `hf_parent`;
 * NULL = none. Returns NULL with a reason if the defaults cannot be part of a task. */
struct task_builder *task_builder_create(const struct hf_task *defaults, const struct envelope_limits *limits,
                                         const char *parent, struct error *error) MUST_CHECK;
void task_builder_destroy(struct task_builder *builder);

/* A built task, valid until the next one. The payload may be the caller's own bytes. */
struct built_task {
    struct text_span payload;
    const char *class_name, *queue, *jid;
    int64_t at_us;      /* 0 = now */
    const char *digest; /* "" = not unique */
    int64_t unique_ms;  /* from now */
};
bool task_build(struct task_builder *builder, const char *text, size_t length, struct wall_time now,
                struct built_task *task, struct error *error) MUST_CHECK;

#endif
