/* What a task looks like where an operator sends it: what dashboards would write. */
#include "worker/commands/tasks.h"

#include <string.h>

/* Back to its queue: as a promoted one, with one failure forgotten, so that a task that died of its failures gets one
 * more run before it may die again. In `schedule` it did not fail, and its time to be started begins now. */
static void requeue_write(const struct task_entry *entry, const struct task_view *view, struct wall_time now,
                          struct buffer *fresh)
{
    const struct envelope *envelope = &view->envelope;
    struct buffer enqueued_at = {0}, expires_at = {0}, retry_count = {0};
    struct wall_time expiry = envelope_expiry_when_due(envelope, now);
    envelope_append_time(&enqueued_at, now);
    struct envelope_change changes[3] = {{"enqueued_at", text_span_of(&enqueued_at)}, {"at", {NULL, 0}}};
    size_t count = 2;
    if (entry->state == TASK_IN_SCHEDULE && expiry.us != 0) {
        envelope_append_time(&expires_at, expiry);
        changes[count++] = (struct envelope_change){"expires_at", text_span_of(&expires_at)};
    }
    if (entry->state != TASK_IN_SCHEDULE && envelope->was_retried) {
        buffer_format(&retry_count, "%d", envelope->retry_count - 1);
        changes[count++] = (struct envelope_change){"retry_count", text_span_of(&retry_count)};
    }
    envelope_rewrite(envelope, changes, count, fresh);
    buffer_fini(&enqueued_at);
    buffer_fini(&expires_at);
    buffer_fini(&retry_count);
}

static void queue_take(const struct task_view *view, struct buffer *queue)
{
    buffer_append_text(queue, view->envelope.queue[0] != '\0' ? view->envelope.queue : "default");
}

/* A record of a text that was no task holds that text, which may be one by now: limits change. */
static bool invalid_requeue(const struct task_entry *entry, struct task_view *view, struct wall_time now,
                            struct buffer *fresh, struct buffer *queue, struct error *error)
{
    struct buffer text = {0};
    bool is_task = envelope_recover_invalid(entry->task.bytes, entry->task.length, &text, error);
    if (is_task) {
        task_view_read(view, text.bytes, text.length);
        is_task = view->is_task || error_set(error, "it is no task: %s", view->reason.text);
    }
    if (is_task) {
        requeue_write(entry, view, now, fresh);
        queue_take(view, queue);
    }
    buffer_fini(&text);
    task_view_read(view, entry->task.bytes, entry->task.length);
    return is_task;
}

static bool retry_write(const struct task_entry *entry, struct task_view *view, struct wall_time now,
                        struct buffer *fresh, struct buffer *queue, struct error *error)
{
    if (entry->state == TASK_IN_CLAIMS) { /* given back as it was claimed, whatever it is */
        buffer_append(fresh, entry->task.bytes, entry->task.length);
        buffer_append_text(queue, entry->queue);
        return true;
    }
    if (!view->is_task)
        return error_set(error, "it is no task (%s); bury or delete it", view->reason.text);
    if (strcmp(view->envelope.class_name, "hf.invalid") == 0)
        return invalid_requeue(entry, view, now, fresh, queue, error);
    requeue_write(entry, view, now, fresh);
    queue_take(view, queue);
    return true;
}

/* One that failed before keeps the record of that. */
static void bury_write(const struct task_entry *entry, const struct task_view *view, struct wall_time now,
                       struct buffer *fresh)
{
    static const char message[] = "an operator buried it";
    const struct envelope *envelope = &view->envelope;
    char jid[ENVELOPE_NEW_JID_SIZE];
    if (envelope_member_value(envelope, "error_class").bytes != NULL) {
        buffer_append(fresh, entry->task.bytes, entry->task.length);
        return;
    }
    envelope_new_jid(jid);
    const char *queue = entry->queue != NULL ? entry->queue : envelope->queue;
    envelope_write_failure(envelope,
                           &(struct envelope_failure){.queue = queue[0] != '\0' ? queue : "default",
                                                      .jid = envelope->jid[0] != '\0' ? envelope->jid : jid,
                                                      .error_class = "HF::Buried",
                                                      .error_message = {message, sizeof message - 1},
                                                      .is_final = true,
                                                      .fence = ""},
                           now, fresh);
}

bool tasks_rewrite(enum operate_verb verb, const struct task_entry *entry, struct task_view *view, struct wall_time now,
                   struct buffer *fresh, struct buffer *queue, struct error *error)
{
    if (verb == OPERATE_RETRY)
        return retry_write(entry, view, now, fresh, queue, error);
    if (verb == OPERATE_BURY && view->is_task)
        bury_write(entry, view, now, fresh);
    else if (verb == OPERATE_BURY)
        envelope_write_invalid(entry->task.bytes, entry->task.length, entry->queue != NULL ? entry->queue : "",
                               view->reason.text, now, fresh);
    return true;
}
