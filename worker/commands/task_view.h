/* What a task in a queue, a set or a claim says of itself, for commands that show it. Pure.
 *
 *     struct task_view view = {0};
 *     task_view_read(&view, bytes, length);      as often as one likes; `bytes` must stay
 *     task_view_fini(&view);
 *
 * A text that is no task is viewed too: is_task is false, and `reason` says why. Limits on size and depth are those
 * of JSON itself, because a stored task has already passed those of its producer. */
#ifndef WORKER_TASK_VIEW_H
#define WORKER_TASK_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/envelope.h"
#include "worker/print/json_writer.h"

struct task_view {
    const char *bytes;
    size_t length;
    bool is_task;
    struct error reason;
    struct envelope envelope; /* of a task */
    struct buffer text;       /* for task_view_text */
};

extern const struct envelope_limits task_view_limits;

void task_view_read(struct task_view *view, const char *bytes, size_t length);
void task_view_fini(struct task_view *view);

/* A member that is a string, as text until the next call; NULL when it is none. */
const char *task_view_text(struct task_view *view, const char *name);
/* A member that is a time in any of the forms that are about: seconds, integer milliseconds, either in a string. The
 * zero moment when it is none. */
struct wall_time task_view_time(const struct task_view *view, const char *name);
/* enqueued_at, else created_at. */
struct wall_time task_view_since(const struct task_view *view);
/* The class as people know it: display_class, the class that ActiveJob wrapped, or the class. "" for no task. */
const char *task_view_class(struct task_view *view);

/* error_class and error_message on one line, or "". Appended. */
void task_view_error(struct task_view *view, struct buffer *out);
/* The lines of error_backtrace as a JSON array of strings, decoded from base64 and zlib. False when there is none, or
 * it is not in that form. Appended. */
bool task_view_backtrace(struct task_view *view, struct buffer *out);

/* Members jid, class, queue, created_at, enqueued_at, retry_count, error_class, error_message, and `task`: the whole
 * text as JSON; for no task `invalid`, the reason, and `text`. */
void task_view_json(struct task_view *view, struct json_writer *json);

/* error_backtrace: a JSON array of lines, deflated (zlib's format), in base64. Appends the array. Takes base64 with
 * line breaks too, which older producers wrote. False, with `out` as it was, when the text is nothing of the kind or
 * would unfold to more than a mebibyte. */
bool backtrace_read(const char *text, size_t length, struct buffer *out) MUST_CHECK;

#endif
