#include "queue/push_slice.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "queue/scripts.h"

enum {
    BYTES_A_TASK = SLICE_BYTES / SLICE_TASKS,
    RECORD_KEPT_MS = 3600 * 1000, /* twice as long as anybody waits for an answer */
};

struct slice *slice_open(struct slice *spare, struct push_source *source, const struct intake_task *task)
{
    struct slice *slice = spare != NULL ? spare : memory_new(struct slice);
    struct slice opened = {.source = source, .body = slice->body, .numbers = slice->numbers};
    opened.is_scheduled = task->at_us != 0;
    opened.unique_ms = task->unique_ms;
    opened.answer_by = INSTANT_NEVER;
    memcpy(opened.queue, task->queue, strlen(task->queue) + 1);
    memcpy(opened.digest, task->digest, strlen(task->digest) + 1);
    if (task->digest[0] != '\0')
        memcpy(opened.jid, task->jid, strlen(task->jid) + 1);
    *slice = opened;
    list_init(&slice->link);
    buffer_clear(&slice->body);
    buffer_clear(&slice->numbers);
    return slice;
}

void slice_free(struct slice *slice)
{
    buffer_fini(&slice->body);
    buffer_fini(&slice->numbers);
    free(slice);
}

bool slice_takes(const struct slice *slice, const struct intake_task *task)
{
    bool is_scheduled = task->at_us != 0;
    return slice->is_scheduled == is_scheduled && (is_scheduled || strcmp(slice->queue, task->queue) == 0);
}

void slice_add(struct slice *slice, const struct intake_task *task, int64_t score_us, uint64_t number)
{
    if (slice->is_scheduled)
        redis_request_seconds(&slice->body, score_us);
    redis_request_bytes(&slice->body, task->payload.bytes, task->payload.length);
    buffer_append(&slice->numbers, &number, sizeof number);
    slice->bytes += task->payload.length;
    slice->count++;
}

bool slice_is_full(const struct slice *slice)
{
    size_t most = slice->is_scheduled ? SLICE_TASKS_SCHEDULED : SLICE_TASKS;
    return slice->digest[0] != '\0' || slice->count >= most || slice->body.length >= SLICE_BYTES;
}

size_t slice_weight(const struct slice *slice)
{
    size_t by_bytes = slice->body.length / BYTES_A_TASK;
    return by_bytes > slice->count ? by_bytes : slice->count;
}

static void account_add(const struct slice *slice, uint64_t low, const char *queue, struct buffer *out)
{
    redis_request_integer(out, (int64_t)slice->serial);
    redis_request_integer(out, (int64_t)low);
    redis_request_integer(out, RECORD_KEPT_MS);
    redis_request_text(out, queue);
}

static void place_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    if (slice->is_scheduled)
        redis_request_text(out, keys->schedule);
    else
        queue_keys_request_queue(keys, slice->queue, out);
}

static void plain_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                          struct buffer *out)
{
    size_t texts = slice->is_scheduled ? 2 * slice->count : slice->count;
    redis_request_script(out, &queue_script_push, slice->is_scheduled ? 2 : 3, 4 + texts);
    redis_request_text(out, record);
    place_add(slice, keys, out);
    if (!slice->is_scheduled)
        redis_request_text(out, keys->queues);
    account_add(slice, low, slice->is_scheduled ? "" : slice->queue, out);
    buffer_append(out, slice->body.bytes, slice->body.length);
}

enum { SEEK_KEYS = 6, SEEK_ARGUMENTS = 6 };

static void seek_keys_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_text(out, keys->processes);
    redis_request_text(out, keys->listed);
    redis_request_text(out, keys->schedule);
    redis_request_text(out, keys->retry);
    queue_keys_request(keys->looked_prefix, slice->digest, out);
    queue_keys_request(keys->looked_prefix, "", out);
}

static void seek_arguments_add(const struct slice *slice, const struct queue_keys *keys, struct buffer *out)
{
    redis_request_text(out, slice->missed);
    redis_request_text(out, slice->digest);
    redis_request_text(out, keys->queue_prefix);
    redis_request_text(out, keys->process_prefix);
    redis_request_text(out, keys->any_bell_prefix);
    redis_request_text(out, keys->space);
}

static void unique_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                           struct buffer *out)
{
    redis_request_script(out, &queue_script_push_unique, 4 + (slice->seeks ? SEEK_KEYS : 0),
                         8 + (slice->seeks ? SEEK_ARGUMENTS : 0));
    redis_request_text(out, record);
    queue_keys_request(keys->unique_prefix, slice->digest, out);
    place_add(slice, keys, out);
    redis_request_text(out, keys->queues);
    if (slice->seeks)
        seek_keys_add(slice, keys, out);
    account_add(slice, low, slice->queue, out);
    redis_request_text(out, slice->jid);
    redis_request_integer(out, slice->unique_ms);
    if (!slice->is_scheduled)
        redis_request_text(out, "");
    buffer_append(out, slice->body.bytes, slice->body.length); /* the task; of one that is scheduled behind its score */
    if (slice->seeks)
        seek_arguments_add(slice, keys, out);
}

void slice_request(const struct slice *slice, const struct queue_keys *keys, const char *record, uint64_t low,
                   struct buffer *out)
{
    buffer_clear(out);
    if (slice->digest[0] != '\0')
        unique_request(slice, keys, record, low, out);
    else
        plain_request(slice, keys, record, low, out);
}
