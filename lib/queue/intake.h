/* What a producer hands in, made a task that can be pushed.
 *
 * Either a whole task object, or, when the class is given, only its arguments as a JSON array. What a task in a queue
 * must have and the text does not (jid, queue, created_at, enqueued_at, retry) is added at its end; everything that is
 * there stays as it is, byte for byte. A text that no worker would accept is refused with a reason, before it can
 * become somebody else's problem. Pure, but for the kernel's randomness and what envelope.h says; any thread, one at
 * a time per intake. */
#ifndef QUEUE_INTAKE_H
#define QUEUE_INTAKE_H

#include "queue/envelope.h"

struct intake_options {
    struct envelope_limits limits;
    const char *class_name; /* NULL: the texts are whole tasks */
    /* For tasks that do not say otherwise. */
    const char *queue; /* NULL = "default" */
    const char *jid;   /* NULL = a new one each */
    const char *retry; /* a JSON value; NULL = true */
    const char *const *resources;
    unsigned resource_count;
};

struct intake;

/* NULL with a reason when the options cannot be part of a task. */
struct intake *intake_create(const struct intake_options *options, struct error *error) MUST_CHECK;
void intake_destroy(struct intake *intake);

/* A task that was taken; valid until the next. The payload may be the caller's own bytes. */
struct intake_task {
    struct text_span payload;
    const char *class_name, *queue, *jid;
};
bool intake_take(struct intake *intake, const char *text, size_t length, struct wall_time now, struct intake_task *task,
                 struct error *error) MUST_CHECK;

#endif
