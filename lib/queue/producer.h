/* Private to lib/queue: what the parts of libholdfast share; holdfast.h is its manual. */
#ifndef QUEUE_PRODUCER_H
#define QUEUE_PRODUCER_H

#include <pthread.h>

#include "queue/holdfast.h"
#include "queue/push.h"

struct hf_producer {
    struct loop *loop;
    struct push *push; /* the loop's */
    pthread_t thread;
    struct envelope_limits limits;
    pthread_mutex_t mutex; /* for what streams count */
    struct loop_message close_message;
};

/* The part of a task that intake knows as options. `storage` is what their texts live in besides the task's. */
struct intake_options task_intake(const struct hf_task *task, const struct envelope_limits *limits);
/* A task's own text: the object, or its arguments. */
const char *task_text(const struct hf_task *task);

/* A stream without texts of its own, for tasks that each have their own intake. */
struct hf_stream *stream_new(struct hf_producer *producer,
                             void (*ended)(void *context, const struct hf_stream_report *report), void *context);
/* Takes one text by that intake, and tells its jid (may be NULL). */
bool stream_take(struct hf_stream *stream, struct intake *intake, struct text_span text, uint64_t number,
                 char jid[HF_JID_SIZE], struct error *error) MUST_CHECK;

#endif
