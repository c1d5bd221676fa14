#include "worker/isolation/runner_message.h"

#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { PATH_BYTES_MAX = 8192, SETTING_BYTES_MAX = 1 << 16, NAME_BYTES_MAX = 256 };

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

void runner_hello_write(const struct runner_hello *hello, struct buffer *out)
{
    size_t start = frame_begin(out, FRAME_HELLO), count = hello->settings != NULL ? hello->settings->count : 0;
    frame_add_string(out, hello->path, PATH_BYTES_MAX);
    frame_add_string(out, hello->plugin, NAME_BYTES_MAX);
    frame_add_number(out, hello->patience_ns);
    if (count > RUNNER_SETTINGS_MAX)
        count = RUNNER_SETTINGS_MAX;
    frame_add_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        frame_add_string(out, hello->settings->items[i].key, SETTING_BYTES_MAX);
        frame_add_string(out, hello->settings->items[i].value, SETTING_BYTES_MAX);
    }
    frame_end(out, start);
}

/* The texts of a configuration are not constant, but no code changes these. */
static char *text_of_setting(struct frame_reader *reader)
{
    return (char *)(uintptr_t)frame_take_string(reader, SETTING_BYTES_MAX);
}

bool runner_hello_read(const struct frame *frame, struct runner_hello *hello, struct config_pairs *settings)
{
    struct frame_reader reader = frame_read(frame);
    hello->path = frame_take_string(&reader, PATH_BYTES_MAX);
    hello->plugin = frame_take_string(&reader, NAME_BYTES_MAX);
    hello->patience_ns = frame_take_number(&reader, 0, INT64_MAX);
    hello->settings = settings;
    settings->count = (size_t)frame_take_number(&reader, 0, RUNNER_SETTINGS_MAX);
    settings->items = memory_zeroed(settings->count + 1, sizeof settings->items[0]);
    for (size_t i = 0; i < settings->count; i++) {
        settings->items[i].key = text_of_setting(&reader);
        settings->items[i].value = text_of_setting(&reader);
    }
    return frame_is_used_up(&reader);
}

/* --- RUN ---------------------------------------------------------------------------------------------------------- */

enum {
    HAS_LOCK = 1,
    HAS_CHECKPOINT = 2,
    REPORTS_PROGRESS = 4,
    KEEPS_RESULT = 8,
    MAY_PUSH = 16,
    MEASURES_MEMORY = 32,
    ALL_FLAGS = 63
};

void runner_order_write(const struct runner_order *order, const struct hf_job *job, struct buffer *out)
{
    size_t start = frame_begin(out, FRAME_RUN);
    invariant(job->resource_count <= ENVELOPE_RESOURCES_MAX);
    frame_add_number(out, order->run_entry);
    frame_add_number(out, (int64_t)order->run);
    frame_add_number(out, order->log_level);
    frame_add_number(out, (order->has_lock ? HAS_LOCK : 0) | (job->checkpoint != NULL ? HAS_CHECKPOINT : 0) |
                              (job->reports_progress ? REPORTS_PROGRESS : 0) | (job->keeps_result ? KEEPS_RESULT : 0) |
                              (job->may_push ? MAY_PUSH : 0) | (order->measures_memory ? MEASURES_MEMORY : 0));
    frame_add_number(out, job->attempt);
    frame_add_number(out, job->backtrace_lines);
    frame_add_string(out, job->jid, ENVELOPE_JID_BYTES_MAX);
    frame_add_string(out, job->class_name, ENVELOPE_CLASS_BYTES_MAX);
    frame_add_string(out, job->queue, ENVELOPE_QUEUE_BYTES_MAX);
    frame_add_string(out, job->fence, JOB_FENCE_SIZE - 1);
    frame_add_string(out, job->traceparent, ENVELOPE_TRACE_BYTES);
    frame_add_number(out, job->seat);
    frame_add_string(out, job->checkpoint != NULL ? job->checkpoint : "", ITERATION_BYTES_MAX);
    frame_add_number(out, job->resource_count);
    for (unsigned i = 0; i < job->resource_count; i++)
        frame_add_string(out, job->resources[i], ENVELOPE_RESOURCE_BYTES_MAX);
    frame_add_text(out, job->args.bytes, job->args.length);
    frame_end(out, start);
}

bool runner_order_read(const struct frame *frame, struct runner_order *order, struct hf_job *job)
{
    struct frame_reader reader = frame_read(frame);
    order->run_entry = (unsigned)frame_take_number(&reader, 0, UINT32_MAX);
    order->run = (uint64_t)frame_take_number(&reader, 0, INT64_MAX);
    order->log_level = (enum hf_log_level)frame_take_number(&reader, HF_LOG_DEBUG, HF_LOG_ERROR + 1);
    int64_t flags = frame_take_number(&reader, 0, ALL_FLAGS);
    order->has_lock = (flags & HAS_LOCK) != 0;
    order->measures_memory = (flags & MEASURES_MEMORY) != 0;
    job->reports_progress = (flags & REPORTS_PROGRESS) != 0;
    job->keeps_result = (flags & KEEPS_RESULT) != 0;
    job->may_push = (flags & MAY_PUSH) != 0;
    job->attempt = (unsigned)frame_take_number(&reader, 0, UINT32_MAX);
    job->backtrace_lines = (unsigned)frame_take_number(&reader, 0, ENVELOPE_BACKTRACE_ALL);
    job->jid = frame_take_string(&reader, ENVELOPE_JID_BYTES_MAX);
    job->class_name = frame_take_string(&reader, ENVELOPE_CLASS_BYTES_MAX);
    job->queue = frame_take_string(&reader, ENVELOPE_QUEUE_BYTES_MAX);
    snprintf(job->fence, sizeof job->fence, "%s", frame_take_string(&reader, JOB_FENCE_SIZE - 1));
    snprintf(job->traceparent, sizeof job->traceparent, "%s", frame_take_string(&reader, ENVELOPE_TRACE_BYTES));
    job->seat = (unsigned)frame_take_number(&reader, 0, REDLOCK_LIMIT_MAX);
    const char *checkpoint = frame_take_string(&reader, ITERATION_BYTES_MAX);
    job->checkpoint = (flags & HAS_CHECKPOINT) != 0 ? checkpoint : NULL;
    job->resource_count = (unsigned)frame_take_number(&reader, 0, ENVELOPE_RESOURCES_MAX);
    for (unsigned i = 0; i < job->resource_count; i++)
        order->resources[i] = frame_take_string(&reader, ENVELOPE_RESOURCE_BYTES_MAX);
    job->resources = order->resources;
    job->args = frame_take_text(&reader, UINT32_MAX);
    return frame_is_used_up(&reader);
}

/* A handler may return any number except ISOLATION_NOT_STARTED. */
enum { CODE_LEAST = -INT_MAX };

/* --- END ---------------------------------------------------------------------------------------------------------- */

void runner_end_write(const struct runner_end *end, const struct job_outcome *outcome, struct buffer *out)
{
    size_t start = frame_begin(out, FRAME_END);
    frame_add_number(out, (int64_t)end->run);
    frame_add_number(out, end->started);
    frame_add_number(out, end->code > CODE_LEAST ? end->code : CODE_LEAST);
    frame_add_number(out, end->memory);
    frame_add_string(out, outcome->failure.error_class, FAILURE_CLASS_MAX - 1);
    frame_add_string(out, outcome->failure.message, FAILURE_MESSAGE_MAX - 1);
    frame_add_number(out, outcome->retry_in_ms);
    frame_add_number(out, (int64_t)outcome->backtrace.count);
    for (size_t i = 0; i < outcome->backtrace.count; i++)
        frame_add_string(out, outcome->backtrace.lines[i], BACKTRACE_LINE_MAX);
    frame_add_number(out, outcome->has_result);
    if (outcome->has_result)
        frame_add_text(out, outcome->result.bytes, outcome->result.length);
    frame_add_number(out, (int64_t)outcome->follow_up_count);
    for (size_t i = 0; i < outcome->follow_up_count; i++)
        frame_add_string(out, outcome->follow_ups[i], JOB_FOLLOW_UP_BYTES_MAX);
    frame_end(out, start);
}

static void failure_read(struct frame_reader *reader, struct failure *failure)
{
    const char *error_class = frame_take_string(reader, FAILURE_CLASS_MAX - 1);
    const char *message = frame_take_string(reader, FAILURE_MESSAGE_MAX - 1);
    if (error_class[0] != '\0')
        failure_set(failure, error_class, "%s", message);
}

static void backtrace_read(struct frame_reader *reader, struct backtrace *backtrace)
{
    size_t count = (size_t)frame_take_number(reader, 0, ENVELOPE_BACKTRACE_ALL);
    if (count == 0)
        return;
    backtrace->lines = memory_zeroed(count, sizeof(char *));
    for (; backtrace->count < count && !reader->is_broken; backtrace->count++)
        backtrace->lines[backtrace->count] = memory_text(frame_take_string(reader, BACKTRACE_LINE_MAX));
}

static void result_read(struct frame_reader *reader, struct job_outcome *outcome)
{
    if (!frame_take_flag(reader))
        return;
    struct text_span result = frame_take_text(reader, JOB_RESULT_BYTES_MAX);
    if (!job_outcome_set_result(outcome, result.bytes, result.length))
        reader->is_broken = true;
}

static void follow_ups_read(struct frame_reader *reader, struct job_outcome *outcome)
{
    int64_t count = frame_take_number(reader, 0, JOB_FOLLOW_UPS_MAX);
    for (int64_t i = 0; i < count && !reader->is_broken; i++) {
        struct text_span task = frame_take_text(reader, JOB_FOLLOW_UP_BYTES_MAX);
        if (!job_outcome_add_follow_up(outcome, task.bytes, task.length, NULL))
            reader->is_broken = true;
    }
}

bool runner_end_read(const struct frame *frame, struct runner_end *end, struct job_outcome *outcome)
{
    struct frame_reader reader = frame_read(frame);
    end->run = (uint64_t)frame_take_number(&reader, 0, INT64_MAX);
    end->started = frame_take_flag(&reader);
    end->code = (int)frame_take_number(&reader, CODE_LEAST, INT_MAX);
    end->memory = frame_take_number(&reader, -1, INT64_MAX);
    failure_read(&reader, &outcome->failure);
    int64_t retry_in_ms = frame_take_number(&reader, -1, JOB_RETRY_IN_MS_MAX);
    if (retry_in_ms >= 0 && !job_outcome_set_retry_in(outcome, retry_in_ms))
        reader.is_broken = true;
    backtrace_read(&reader, &outcome->backtrace);
    result_read(&reader, outcome);
    follow_ups_read(&reader, outcome);
    return frame_is_used_up(&reader);
}

/* --- LOG and EVENT ------------------------------------------------------------------------------------------------ */

void runner_log_write(enum hf_log_level level, const char *text, struct buffer *out)
{
    size_t start = frame_begin(out, FRAME_LOG);
    frame_add_number(out, level);
    frame_add_string(out, text, RUNNER_TEXT_MAX);
    frame_end(out, start);
}

bool runner_log_read(const struct frame *frame, enum hf_log_level *level, const char **text)
{
    struct frame_reader reader = frame_read(frame);
    *level = (enum hf_log_level)frame_take_number(&reader, HF_LOG_DEBUG, HF_LOG_ERROR);
    *text = frame_take_string(&reader, RUNNER_TEXT_MAX);
    return frame_is_used_up(&reader);
}

void runner_event_write(enum hf_log_level level, const char *name, const hf_field *fields, size_t count,
                        struct buffer *out)
{
    size_t start = frame_begin(out, FRAME_EVENT);
    invariant(count <= RUNNER_FIELDS_MAX);
    frame_add_number(out, level);
    frame_add_string(out, name, RUNNER_WORD_MAX);
    frame_add_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        frame_add_string(out, fields[i].key, RUNNER_WORD_MAX);
        frame_add_string(out, fields[i].value, RUNNER_TEXT_MAX);
    }
    frame_end(out, start);
}

/* Reads a word that goes into a log line unquoted. */
static const char *word_read(struct frame_reader *reader)
{
    struct text_span word = frame_take_text(reader, RUNNER_WORD_MAX);
    size_t sound = strspn(word.bytes, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (word.length == 0 || sound != word.length)
        reader->is_broken = true;
    return word.bytes;
}

bool runner_event_read(const struct frame *frame, struct runner_event *event)
{
    struct frame_reader reader = frame_read(frame);
    event->level = (enum hf_log_level)frame_take_number(&reader, HF_LOG_DEBUG, HF_LOG_ERROR);
    event->name = word_read(&reader);
    event->count = (size_t)frame_take_number(&reader, 0, RUNNER_FIELDS_MAX);
    for (size_t i = 0; i < event->count; i++) {
        event->fields[i].key = word_read(&reader);
        event->fields[i].value = frame_take_string(&reader, RUNNER_TEXT_MAX);
    }
    return frame_is_used_up(&reader);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* --- writing ------------------------------------------------------------------------------------------------------ */

size_t frame_begin(struct buffer *out, enum frame_kind kind)
{
    char head[FRAME_HEAD_BYTES] = {0, 0, 0, 0, (char)kind};
    size_t start = out->length;
    buffer_append(out, head, sizeof head);
    return start;
}

void frame_end(struct buffer *out, size_t start)
{
    size_t length = out->length - start - FRAME_HEAD_BYTES;
    invariant(length <= UINT32_MAX);
    uint32_t written = htole32((uint32_t)length);
    memcpy(out->bytes + start, &written, sizeof written);
}

void frame_add_number(struct buffer *out, int64_t number)
{
    uint64_t written = htole64((uint64_t)number);
    buffer_append(out, &written, sizeof written);
}

void frame_add_text(struct buffer *out, const char *bytes, size_t length)
{
    uint32_t written = htole32((uint32_t)length);
    invariant(length <= UINT32_MAX);
    buffer_append(out, &written, sizeof written);
    buffer_append(out, bytes, length);
    buffer_append(out, "", 1);
}

void frame_add_string(struct buffer *out, const char *text, size_t longest)
{
    frame_add_text(out, text, strnlen(text, longest));
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum frame_found frame_find(const char *bytes, size_t length, size_t limit, struct frame *frame, size_t *whole)
{
    uint32_t body = 0;
    *whole = FRAME_HEAD_BYTES;
    if (length < FRAME_HEAD_BYTES)
        return FRAME_PART;
    memcpy(&body, bytes, sizeof body);
    frame->kind = (enum frame_kind)(unsigned char)bytes[4];
    frame->body = bytes + FRAME_HEAD_BYTES;
    frame->length = le32toh(body);
    if (frame->kind < FRAME_HELLO || frame->kind >= FRAME_KINDS || frame->length > limit)
        return FRAME_BROKEN;
    *whole += frame->length;
    return length < *whole ? FRAME_PART : FRAME_WHOLE;
}

struct frame_reader frame_read(const struct frame *frame)
{
    return (struct frame_reader){.at = frame->body, .left = frame->length};
}

/* NULL if there are fewer bytes. */
static const char *bytes_take(struct frame_reader *reader, size_t length)
{
    if (reader->is_broken || reader->left < length) {
        reader->is_broken = true;
        return NULL;
    }
    const char *taken = reader->at;
    reader->at += length;
    reader->left -= length;
    return taken;
}

int64_t frame_take_number(struct frame_reader *reader, int64_t least, int64_t most)
{
    uint64_t read = 0;
    const char *bytes = bytes_take(reader, sizeof read);
    if (bytes == NULL)
        return least;
    memcpy(&read, bytes, sizeof read);
    int64_t number = (int64_t)le64toh(read);
    if (number >= least && number <= most)
        return number;
    reader->is_broken = true;
    return least;
}

bool frame_take_flag(struct frame_reader *reader)
{
    return frame_take_number(reader, 0, 1) == 1;
}

struct text_span frame_take_text(struct frame_reader *reader, size_t longest)
{
    uint32_t read = 0;
    const char *bytes = bytes_take(reader, sizeof read);
    if (bytes != NULL)
        memcpy(&read, bytes, sizeof read);
    size_t length = le32toh(read);
    const char *text = bytes != NULL && length <= longest ? bytes_take(reader, length + 1) : NULL;
    if (text != NULL && memchr(text, '\0', length + 1) == text + length)
        return (struct text_span){text, length};
    reader->is_broken = true;
    return (struct text_span){"", 0};
}

const char *frame_take_string(struct frame_reader *reader, size_t longest)
{
    return frame_take_text(reader, longest).bytes;
}

bool frame_is_used_up(const struct frame_reader *reader)
{
    return !reader->is_broken && reader->left == 0;
}
