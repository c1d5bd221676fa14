/* What a producer hands in, made a task that can be pushed.
 *
 * Either a whole task object, or, when the class is given, only its arguments as a JSON array. What a task must have
 * and the text does not (jid, queue, created_at, retry, and enqueued_at unless it is scheduled) is added at its end;
 * what is there stays as it is, byte for byte, with two exceptions. A text that no worker would accept is refused
 * with a reason, before it becomes a problem elsewhere.
 *
 * `at` is taken out: it says when the task shall run, in seconds since 1970, or from now when it is less than
 * 1,000,000,000. A time that has come by our clock means now. A scheduled task that has `expires_in` gets `expires_at`,
 * counted from the time it is scheduled for.
 *
 * A task that shall be unique gets `hf_unique`: SHA-1 over its class, a line feed and the bytes of its arguments.
 *
 * Pure, but for the kernel's randomness and what envelope.h says; any thread, one at a time per builder. */
#ifndef QUEUE_TASK_BUILDER_H
#define QUEUE_TASK_BUILDER_H

#include "queue/digest.h"
#include "queue/envelope.h"
#include "queue/holdfast.h"

struct task_builder;

/* `defaults` are for what the texts lack. With a class, and unless it has `json`, the texts are arguments; neither
 * `json` nor `args` is looked at otherwise. `parent` is the jid of the task from which they follow, set in each as
 * `hf_parent`; NULL = none. NULL with a reason when the defaults cannot be part of a task. */
struct task_builder *task_builder_create(const struct hf_task *defaults, const struct envelope_limits *limits,
                                         const char *parent, struct error *error) MUST_CHECK;
void task_builder_destroy(struct task_builder *builder);

/* A task that was taken; valid until the next. The payload may be the caller's own bytes. */
struct built_task {
    struct text_span payload;
    const char *class_name, *queue, *jid;
    int64_t at_us;      /* 0 = now */
    const char *digest; /* "" = it need not be unique */
    int64_t unique_ms;  /* from now */
};
bool task_build(struct task_builder *builder, const char *text, size_t length, struct wall_time now,
                struct built_task *task, struct error *error) MUST_CHECK;

#endif
