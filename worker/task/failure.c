/* The failure path of the job format. The order of the changes is that of Ruby's worker, because new members are added
 * in it, and a dashboard finds an entry again by generating the same text. */
#include "worker/task/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "queue/utf8.h"
#include "worker/task/backtrace.h"

#define DELAY_BASE_S 15
#define JITTER_S     10
/* count^4 would be longer than a year from here on. */
#define DELAY_COUNT_MAX 75

void failure_set_list(struct failure *failure, const char *error_class, const char *format, va_list arguments)
{
    if (failure->error_class[0] != '\0')
        return;
    snprintf(failure->error_class, sizeof failure->error_class, "%s", error_class);
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
}

void failure_set(struct failure *failure, const char *error_class, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(failure, error_class, format, arguments);
    va_end(arguments);
}

void failure_clear(struct failure *failure)
{
    failure->error_class[0] = '\0';
    failure->message[0] = '\0';
}

/* --- fate ------------------------------------------------------------------------------------------------------- */

static int next_count(const struct envelope *envelope)
{
    return envelope->was_retried ? envelope->retry_count + 1 : 0;
}

/* Why it is not tried again, or NULL. */
static const char *end_of_retries(const struct envelope *envelope, const struct task_rules *rules, struct wall_time now)
{
    if (rules->at_most_once)
        return "it runs at most once";
    if (rules->retry_for_us >= 0) {
        struct wall_time first = envelope->failed_at.us != 0 ? envelope->failed_at : envelope->created_at;
        if (!envelope->was_retried)
            return NULL;
        if (first.us != 0)
            return now.us > first.us + rules->retry_for_us ? "its time for retries is over" : NULL;
    }
    if (next_count(envelope) < (int64_t)rules->retry_max)
        return NULL;
    return rules->retry_max == 0 ? "its first failure is final" : "its retries are used up";
}

enum failure_fate failure_fate(const struct envelope *envelope, const struct task_rules *rules, struct wall_time now,
                               const char **reason)
{
    const char *end = rules->retry_off ? "it asks for no retry" : end_of_retries(envelope, rules, now);
    if (reason != NULL)
        *reason = end != NULL ? end : "it is tried again";
    if (end == NULL)
        return FAILURE_RETRY;
    return rules->retry_off || rules->dead_off ? FAILURE_VANISHES : FAILURE_DEAD;
}

int64_t failure_delay_ns(const struct envelope *envelope)
{
    int64_t count = next_count(envelope);
    if (count < 0)
        count = 0;
    if (count > DELAY_COUNT_MAX)
        count = DELAY_COUNT_MAX;
    int64_t jitter_ns = random_between(0, JITTER_S * (count + 1) * NS_PER_S - 1);
    return (count * count * count * count + DELAY_BASE_S) * NS_PER_S + jitter_ns;
}

/* --- the record ------------------------------------------------------------------------------------------------- */

/* Changes gather here; their values one behind the other in `values`, which grows, so they are places until the end. */
enum { CHANGES_MAX = 10 };
struct changes {
    struct envelope_change items[CHANGES_MAX];
    size_t starts[CHANGES_MAX];
    size_t count;
    struct buffer values;
};

/* The value is what is appended to `values` next. */
static struct buffer *change_begin(struct changes *changes, const char *name)
{
    changes->items[changes->count].name = name;
    changes->starts[changes->count++] = changes->values.length;
    return &changes->values;
}

static void change_text(struct changes *changes, const char *name, const char *text, size_t length)
{
    envelope_append_string(change_begin(changes, name), text, length);
}

static void change_time(struct changes *changes, const char *name, const struct failure_record *record,
                        struct wall_time time)
{
    struct text_span former = envelope_member_value(record->envelope, name);
    envelope_append_time_like(change_begin(changes, name), time, former, record->keep_ms);
}

/* A value of no bytes removes the member. */
static void changes_finish(struct changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        size_t end = i + 1 < changes->count ? changes->starts[i + 1] : changes->values.length;
        size_t length = end - changes->starts[i];
        const char *bytes = length > 0 ? changes->values.bytes + changes->starts[i] : NULL;
        changes->items[i].value = (struct text_span){bytes, length};
    }
}

/* Bytes of the message up to its last permitted character; a byte that belongs to none is replaced by one. */
static size_t message_length(const char *message)
{
    const char *at = message, *end = message + strlen(message);
    for (size_t characters = 0; at < end && characters < FAILURE_CHARACTERS_MAX; characters++) {
        size_t length = utf8_length(at, end);
        at += length > 0 ? length : 1;
    }
    return (size_t)(at - message);
}

/* Of this failure, or none: that of an earlier one would mislead. */
static void backtrace_change(struct changes *changes, const struct failure_record *record)
{
    size_t lines =
        record->backtrace_count < record->rules->backtrace ? record->backtrace_count : record->rules->backtrace;
    struct buffer *value = change_begin(changes, "error_backtrace");
    if (lines == 0)
        return;
    buffer_append(value, "\"", 1);
    backtrace_encode(record->backtrace, lines, value);
    buffer_append(value, "\"", 1);
}

/* Of this run, or none: so that what it wrote with its token can be told from what others wrote. */
static void fence_change(struct changes *changes, const struct failure_record *record)
{
    struct buffer *value = change_begin(changes, "hf_fence");
    if (record->fence[0] != '\0')
        envelope_append_string(value, record->fence, strlen(record->fence));
}

static void try_change(struct changes *changes, const struct failure_record *record, struct wall_time now)
{
    const struct envelope *envelope = record->envelope;
    change_time(changes, envelope->was_retried ? "retried_at" : "failed_at", record, now);
    buffer_format(change_begin(changes, "retry_count"), "%d", next_count(envelope));
}

void failure_write(const struct failure *failure, const struct failure_record *record, struct wall_time now,
                   struct buffer *out)
{
    struct changes changes = {.count = 0};
    const struct task_rules *rules = record->rules;
    const char *queue = record->counts && rules->retry_queue[0] != '\0' ? rules->retry_queue : record->queue;
    change_text(&changes, "queue", queue, strlen(queue));
    change_text(&changes, "jid", record->jid, strlen(record->jid));
    change_text(&changes, "error_message", failure->message, message_length(failure->message));
    change_text(&changes, "error_class", failure->error_class, strlen(failure->error_class));
    if (record->counts)
        try_change(&changes, record, now);
    else if (rules->expiry.us != 0)
        change_time(&changes, "expires_at", record, rules->expiry);
    backtrace_change(&changes, record);
    fence_change(&changes, record);
    change_begin(&changes, "hf_parked"); /* it waits no longer */
    change_begin(&changes, "hf_line");
    changes_finish(&changes);
    envelope_rewrite(record->envelope, changes.items, changes.count, out);
    buffer_fini(&changes.values);
}
