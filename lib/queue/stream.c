/* Streams: what callers' threads add goes to the loop in parcels.
 *
 * The caller's thread makes the tasks (checking and completing them is the expensive part) and packs them; the loop
 * only unpacks them into slices. What both sides touch is counted under the producer's mutex, which outlives every
 * stream: a stream is freed once nothing that was added lacks its end and no parcel is on its way, and the loop's
 * last act on it is to signal under that mutex. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "queue/producer.h"

enum {
    PARCEL_TASKS = 1000,
    PARCEL_BYTES = 1 << 20,
    STREAM_TASKS = 8 * PARCEL_TASKS,
    STREAM_BYTES = 8 * PARCEL_BYTES,
};

/* Offsets are into the texts of the parcel. */
struct packed {
    size_t payload, payload_length, queue, jid, digest;
    int64_t at_us, unique_ms;
    uint64_t number;
};

struct parcel {
    struct loop_message message;
    struct hf_stream *stream;
    struct buffer texts, tasks;
    size_t count;
    bool flushes, drops;
};

struct hf_stream {
    struct push_source source; /* the loop's */
    struct hf_producer *producer;
    struct intake *intake; /* the caller's thread's; NULL when each task has its own */
    struct parcel *parcel; /* likewise; NULL when there is none */
    void (*ended)(void *context, const struct hf_stream_report *report);
    void *context;
    /* Under the producer's mutex. */
    size_t tasks, bytes;
    int parcels; /* on their way, and what else the loop has in hand */
    pthread_cond_t changed;
};

/* --- on the loop -------------------------------------------------------------------------------------------------- */

static enum hf_push_answer answer_of(const struct push_report *report)
{
    static const enum hf_push_answer answers[PUSH_ENDS] = {
        [PUSH_ACKNOWLEDGED] = HF_PUSH_QUEUED,     [PUSH_DUPLICATE] = HF_PUSH_DUPLICATE,
        [PUSH_REFUSED] = HF_PUSH_REFUSED,         [PUSH_UNKNOWN] = HF_PUSH_UNKNOWN,
        [PUSH_DROPPED] = HF_PUSH_DROPPED,         [PUSH_DENIED] = HF_PUSH_DENIED,
        [PUSH_UNREACHABLE] = HF_PUSH_UNREACHABLE,
    };
    if (report->end == PUSH_ACKNOWLEDGED && report->is_scheduled)
        return HF_PUSH_SCHEDULED;
    return answers[report->end];
}

/* `parcels` may be negative: the loop holds on to the stream for a while. */
static void stream_account(struct hf_stream *stream, size_t tasks, size_t bytes, int parcels)
{
    struct hf_producer *producer = stream->producer;
    pthread_mutex_lock(&producer->mutex);
    stream->tasks -= tasks;
    stream->bytes -= bytes;
    stream->parcels -= parcels;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&producer->mutex);
}

/* Counted before it is told, so that who is told finds room. */
static void slice_ended(struct push_source *source, const struct push_report *report)
{
    struct hf_stream *stream = list_owner(source, struct hf_stream, source);
    stream_account(stream, report->count, report->bytes, -1);
    stream->ended(stream->context, &(struct hf_stream_report){.answer = answer_of(report),
                                                              .queue = report->queue,
                                                              .count = report->count,
                                                              .numbers = report->numbers,
                                                              .holder = report->holder,
                                                              .reason = report->reason});
    stream_account(stream, 0, 0, 1);
}

static void parcel_free(struct parcel *parcel)
{
    buffer_fini(&parcel->texts);
    buffer_fini(&parcel->tasks);
    free(parcel);
}

static void parcel_unpack(const struct parcel *parcel, struct push *push, struct push_source *source)
{
    const struct packed *all = (const struct packed *)(const void *)parcel->tasks.bytes;
    const char *texts = parcel->texts.bytes;
    for (size_t i = 0; i < parcel->count; i++) {
        const struct packed *packed = &all[i];
        struct intake_task task = {.payload = {texts + packed->payload, packed->payload_length},
                                   .queue = texts + packed->queue,
                                   .jid = texts + packed->jid,
                                   .digest = texts + packed->digest,
                                   .at_us = packed->at_us,
                                   .unique_ms = packed->unique_ms};
        push_add(push, source, &task, packed->number);
    }
}

static void parcel_deliver(struct loop_message *message)
{
    struct parcel *parcel = list_owner(message, struct parcel, message);
    struct hf_stream *stream = parcel->stream;
    struct push *push = stream->producer->push;
    parcel_unpack(parcel, push, &stream->source);
    if (parcel->drops)
        push_drop(push, &stream->source);
    else if (parcel->flushes)
        push_flush(push, &stream->source);
    parcel_free(parcel);
    stream_account(stream, 0, 0, 1);
}

/* --- on the callers' threads -------------------------------------------------------------------------------------- */

static struct parcel *parcel_of(struct hf_stream *stream)
{
    if (stream->parcel == NULL) {
        stream->parcel = memory_new(struct parcel);
        stream->parcel->stream = stream;
        stream->parcel->message.deliver = parcel_deliver;
    }
    return stream->parcel;
}

static void parcel_post(struct hf_stream *stream)
{
    struct hf_producer *producer = stream->producer;
    struct parcel *parcel = stream->parcel;
    stream->parcel = NULL;
    pthread_mutex_lock(&producer->mutex);
    stream->parcels++;
    pthread_mutex_unlock(&producer->mutex);
    loop_post(producer->loop, &parcel->message);
}

static size_t text_pack(struct parcel *parcel, const char *text)
{
    size_t at = parcel->texts.length;
    buffer_append(&parcel->texts, text, strlen(text) + 1);
    return at;
}

static void task_pack(struct parcel *parcel, const struct intake_task *task, uint64_t number)
{
    struct packed packed = {.payload = parcel->texts.length,
                            .payload_length = task->payload.length,
                            .at_us = task->at_us,
                            .unique_ms = task->unique_ms,
                            .number = number};
    buffer_append(&parcel->texts, task->payload.bytes, task->payload.length);
    packed.queue = text_pack(parcel, task->queue);
    packed.jid = text_pack(parcel, task->jid);
    packed.digest = text_pack(parcel, task->digest);
    buffer_append(&parcel->tasks, &packed, sizeof packed);
    parcel->count++;
}

static bool is_full(const struct hf_stream *stream)
{
    return stream->tasks >= STREAM_TASKS || stream->bytes >= STREAM_BYTES;
}

/* Counts a task in, and waits for room for it. What was packed must be on its way then, or there may never be any. */
static void room_take(struct hf_stream *stream, size_t bytes)
{
    struct hf_producer *producer = stream->producer;
    if (hf_stream_is_full(stream))
        hf_stream_flush(stream);
    pthread_mutex_lock(&producer->mutex);
    while (is_full(stream))
        pthread_cond_wait(&stream->changed, &producer->mutex);
    stream->tasks++;
    stream->bytes += bytes;
    pthread_mutex_unlock(&producer->mutex);
}

bool stream_take(struct hf_stream *stream, struct intake *intake, struct text_span text, uint64_t number,
                 char jid[HF_JID_SIZE], struct error *error)
{
    struct intake_task task;
    if (!intake_take(intake, text.bytes, text.length, wall_now(), &task, error))
        return false;
    if (jid != NULL)
        memcpy(jid, task.jid, strlen(task.jid) + 1);
    room_take(stream, task.payload.length);
    struct parcel *parcel = parcel_of(stream);
    task_pack(parcel, &task, number);
    if (parcel->count == PARCEL_TASKS || parcel->texts.length >= PARCEL_BYTES)
        parcel_post(stream);
    return true;
}

bool hf_stream_add(struct hf_stream *stream, const char *text, size_t length, uint64_t number, char *reason,
                   size_t reason_size)
{
    struct error error = ERROR_NONE;
    if (text == NULL) {
        snprintf(reason, reason_size, "the text is NULL");
        return false;
    }
    if (stream_take(stream, stream->intake, (struct text_span){text, length}, number, NULL, &error))
        return true;
    snprintf(reason, reason_size, "%s", error.text);
    return false;
}

bool hf_stream_is_full(const struct hf_stream *stream)
{
    pthread_mutex_lock(&stream->producer->mutex);
    bool full = is_full(stream);
    pthread_mutex_unlock(&stream->producer->mutex);
    return full;
}

bool hf_stream_is_idle(const struct hf_stream *stream)
{
    pthread_mutex_lock(&stream->producer->mutex);
    bool idle = stream->tasks == 0;
    pthread_mutex_unlock(&stream->producer->mutex);
    return idle;
}

void hf_stream_flush(struct hf_stream *stream)
{
    parcel_of(stream)->flushes = true;
    parcel_post(stream);
}

void hf_stream_drop(struct hf_stream *stream)
{
    parcel_of(stream)->drops = true;
    parcel_post(stream);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct hf_stream *stream_new(struct hf_producer *producer,
                             void (*ended)(void *context, const struct hf_stream_report *report), void *context)
{
    struct hf_stream *stream = memory_new(struct hf_stream);
    push_source_init(&stream->source, slice_ended);
    stream->producer = producer;
    stream->ended = ended;
    stream->context = context;
    pthread_cond_init(&stream->changed, NULL);
    return stream;
}

struct hf_stream *hf_stream_open(struct hf_producer *producer, const struct hf_task *defaults,
                                 void (*ended)(void *context, const struct hf_stream_report *report), void *context,
                                 char *reason, size_t reason_size)
{
    struct error error = ERROR_NONE;
    if (producer == NULL || defaults == NULL || ended == NULL) {
        snprintf(reason, reason_size, "a stream needs a producer, defaults and a function: one of them is NULL");
        return NULL;
    }
    struct hf_task without_text = *defaults;
    without_text.json = NULL;
    struct intake_options options = task_intake(&without_text, &producer->limits);
    struct intake *intake = intake_create(&options, &error);
    if (intake == NULL) {
        snprintf(reason, reason_size, "%s", error.text);
        return NULL;
    }
    struct hf_stream *stream = stream_new(producer, ended, context);
    stream->intake = intake;
    return stream;
}

void hf_stream_close(struct hf_stream *stream)
{
    struct hf_producer *producer = stream->producer;
    hf_stream_flush(stream);
    pthread_mutex_lock(&producer->mutex);
    while (stream->tasks > 0 || stream->parcels > 0)
        pthread_cond_wait(&stream->changed, &producer->mutex);
    pthread_mutex_unlock(&producer->mutex);
    pthread_cond_destroy(&stream->changed);
    intake_destroy(stream->intake);
    free(stream);
}
