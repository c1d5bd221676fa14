#include "worker/commands/task_view.h"

#include <math.h>
#include <string.h>

#include "base/real.h"
#include "queue/base64.h"
#include "queue/envelope.h"
#include "worker/task/deflate.h"

enum { TIME_TEXT_MAX = 40 };

/* Seconds since 1970 stay below this until the year 5138; milliseconds are above it since 1973. */
#define MILLISECONDS_FROM 1e11

const struct envelope_limits task_view_limits = {.size = SIZE_MAX, .depth = JSON_DEPTH_MAX, .keys = SIZE_MAX};

void task_view_read(struct task_view *view, const char *bytes, size_t length)
{
    view->bytes = bytes;
    view->length = length;
    view->reason = ERROR_NONE;
    view->is_task = envelope_parse(&view->envelope, bytes, length, &task_view_limits, &view->reason);
}

void task_view_fini(struct task_view *view)
{
    envelope_fini(&view->envelope);
    buffer_fini(&view->text);
}

/* The raw value of a top-level member; bytes == NULL when there is none, or no task. */
static struct text_span member_of(const struct task_view *view, const char *name)
{
    return view->is_task ? envelope_member_value(&view->envelope, name) : (struct text_span){NULL, 0};
}

const char *task_view_text(struct task_view *view, const char *name)
{
    struct text_span value = member_of(view, name);
    buffer_clear(&view->text);
    if (value.bytes == NULL || value.bytes[0] != '"')
        return NULL;
    struct buffer mended = {0};
    json_mend(value.bytes, value.length, &mended);
    bool is_text = json_string_read(text_span_of(&mended), &view->text);
    buffer_fini(&mended);
    return is_text ? buffer_text(&view->text) : NULL;
}

struct wall_time task_view_time(const struct task_view *view, const char *name)
{
    struct text_span value = member_of(view, name);
    char text[TIME_TEXT_MAX], *after = NULL;
    if (value.bytes != NULL && value.length > 2 && value.bytes[0] == '"')
        value = (struct text_span){value.bytes + 1, value.length - 2};
    if (value.bytes == NULL || value.length >= sizeof text)
        return (struct wall_time){0};
    memcpy(text, value.bytes, value.length);
    text[value.length] = '\0';
    double number = real_read(text, &after);
    if (after == text || *after != '\0' || !isfinite(number) || number <= 0 || number > 1e15)
        return (struct wall_time){0};
    return (struct wall_time){(int64_t)(number * (number >= MILLISECONDS_FROM ? 1e3 : 1e6))};
}

struct wall_time task_view_since(const struct task_view *view)
{
    struct wall_time since = task_view_time(view, "enqueued_at");
    return since.us != 0 ? since : task_view_time(view, "created_at");
}

const char *task_view_class(struct task_view *view)
{
    if (!view->is_task)
        return "";
    const char *class_name = task_view_text(view, "display_class");
    if (class_name == NULL)
        class_name = task_view_text(view, "wrapped");
    return class_name != NULL ? class_name : view->envelope.class_name;
}

void task_view_error(struct task_view *view, struct buffer *out)
{
    const char *text = task_view_text(view, "error_class");
    if (text != NULL)
        buffer_append_text(out, text);
    text = task_view_text(view, "error_message");
    if (text != NULL)
        buffer_format(out, "%s%s", out->length > 0 ? ": " : "", text);
    for (size_t i = 0; i < out->length; i++)
        if (strchr("\t\n\r", out->bytes[i]) != NULL)
            out->bytes[i] = ' ';
}

bool task_view_backtrace(struct task_view *view, struct buffer *out)
{
    return task_view_text(view, "error_backtrace") != NULL && backtrace_read(view->text.bytes, view->text.length, out);
}

static void time_json(const struct task_view *view, struct json_writer *json, const char *name)
{
    struct wall_time moment = task_view_time(view, name);
    json_seconds_if(json, name, moment.us != 0, moment.us);
}

void task_view_json(struct task_view *view, struct json_writer *json)
{
    const struct envelope *envelope = &view->envelope;
    if (!view->is_task) {
        json_text(json, "jid", NULL);
        json_text(json, "class", NULL);
        json_text(json, "invalid", view->reason.text);
        json_bytes(json, "text", view->bytes, view->length);
        return;
    }
    json_text(json, "jid", envelope->jid[0] != '\0' ? envelope->jid : NULL);
    json_text(json, "class", task_view_class(view));
    json_text(json, "queue", envelope->queue[0] != '\0' ? envelope->queue : NULL);
    time_json(view, json, "created_at");
    time_json(view, json, "enqueued_at");
    json_number_if(json, "retry_count", envelope->was_retried, envelope->retry_count);
    json_text(json, "error_class", task_view_text(view, "error_class"));
    json_text(json, "error_message", task_view_text(view, "error_message"));
    json_raw(json, "task", view->bytes, view->length);
}

enum { UNFOLDED_MAX = 1 << 20 };

static bool inflate_into(const struct buffer *packed, struct buffer *out)
{
    struct error error = ERROR_NONE;
    struct envelope_limits limits = {.size = UNFOLDED_MAX, .depth = 8, .keys = 64};
    size_t start = out->length;
    if (!inflate_append(packed->bytes, packed->length, UNFOLDED_MAX, out))
        return false;
    const char *text = out->bytes + start;
    size_t length = out->length - start;
    bool is_list = length > 0 && text[0] == '[' && json_check(text, length, &limits, &error);
    out->length = is_list ? out->length : start;
    return is_list;
}

bool backtrace_read(const char *text, size_t length, struct buffer *out)
{
    struct buffer joined = {0}, packed = {0};
    for (size_t i = 0; i < length; i++)
        if (text[i] != '\n' && text[i] != '\r')
            buffer_append(&joined, text + i, 1);
    bool is_good =
        joined.length > 0 && base64_decode(joined.bytes, joined.length, &packed) && inflate_into(&packed, out);
    buffer_fini(&joined);
    buffer_fini(&packed);
    return is_good;
}
