/* The record of a failure. The order of the changes is that of Ruby's worker, because new members are added in it, and
 * a dashboard finds an entry again by generating the same text. Any thread. */
#include "queue/envelope.h"

#include <string.h>

/* Changes gather here; their values one behind the other in `values`, which grows, so they are places until the end. */
enum { CHANGES_MAX = 13 };
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

static void change_text(struct changes *changes, const char *name, const char *text)
{
    envelope_append_string(change_begin(changes, name), text, strlen(text));
}

static void change_time(struct changes *changes, const char *name, const struct envelope *envelope,
                        struct wall_time time, bool keep_ms)
{
    struct text_span former = envelope_member_value(envelope, name);
    envelope_append_time_like(change_begin(changes, name), time, former, keep_ms);
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

static bool is_number(struct text_span value)
{
    return value.bytes != NULL && value.bytes[0] >= '0' && value.bytes[0] <= '9';
}

/* Dashboards show retried_at when the count is above zero, else failed_at, and fail when that is no number. So it is
 * written also when this failure does not count. What is dead has a count, so that it does not expire when it is sent
 * back from there. */
static void try_change(struct changes *changes, const struct envelope *envelope, const struct envelope_failure *failure,
                       struct wall_time now)
{
    bool is_first = failure->counts && !envelope->was_retried, is_later = failure->counts && envelope->was_retried;
    int count = envelope->retry_count + is_later;
    if (is_first || (count <= 0 && !is_number(envelope_member_value(envelope, "failed_at")))) {
        bool is_known = !is_first && envelope->failed_at.us != 0;
        change_time(changes, "failed_at", envelope, is_known ? envelope->failed_at : now, failure->keep_ms);
    }
    if (is_later || (count > 0 && !is_number(envelope_member_value(envelope, "retried_at"))))
        change_time(changes, "retried_at", envelope, now, failure->keep_ms);
    struct buffer *value = change_begin(changes, "retry_count");
    if (failure->counts || envelope->was_retried || failure->is_final)
        buffer_format(value, "%d", count);
}

void envelope_write_failure(const struct envelope *envelope, const struct envelope_failure *failure,
                            struct wall_time now, struct buffer *out)
{
    struct changes changes = {.count = 0};
    change_text(&changes, "queue", failure->queue);
    change_text(&changes, "jid", failure->jid);
    envelope_append_string(change_begin(&changes, "error_message"), failure->error_message.bytes,
                           failure->error_message.length);
    change_text(&changes, "error_class", failure->error_class);
    try_change(&changes, envelope, failure, now);
    if (!failure->counts && !failure->is_final) {
        struct buffer *value = change_begin(&changes, "expires_at");
        if (failure->expires_at.us != 0)
            envelope_append_time_like(value, failure->expires_at, envelope_member_value(envelope, "expires_at"),
                                      failure->keep_ms);
    }
    struct buffer *backtrace = change_begin(&changes, "error_backtrace");
    buffer_append(backtrace, failure->backtrace.bytes, failure->backtrace.length);
    struct buffer *fence = change_begin(&changes, "hf_fence");
    if (failure->fence[0] != '\0')
        envelope_append_string(fence, failure->fence, strlen(failure->fence));
    change_begin(&changes, "hf_parked"); /* it waits no longer */
    change_begin(&changes, "hf_line");
    struct buffer *unserved = change_begin(&changes, "hf_unserved_at");
    if (failure->unserved_at.us != 0 && !failure->is_final)
        envelope_append_time(unserved, failure->unserved_at);
    changes_finish(&changes);
    envelope_rewrite(envelope, changes.items, changes.count, out);
    buffer_fini(&changes.values);
}
