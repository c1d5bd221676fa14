#include "queue/task_result.h"

#include <string.h>

#include "queue/envelope.h"

/* Larger than any result that a run may leave, so every stored result can be read. */
static const struct envelope_limits record_limits = {.size = (2 << 20), .depth = JSON_DEPTH_MAX, .keys = 2 << 20};

static void text_append(struct buffer *out, const char *name, const char *text)
{
    buffer_append_text(out, name);
    envelope_append_string(out, text, strlen(text));
}

static void record_begin(const char *jid, const char *class_name, struct wall_time ended_at, struct buffer *out)
{
    text_append(out, "{\"jid\":", jid);
    text_append(out, ",\"class\":", class_name);
    buffer_append_text(out, ",\"ended_at\":");
    envelope_append_time(out, ended_at);
}

void task_result_write_cancelled(const char *jid, const char *class_name, struct wall_time ended_at, struct buffer *out)
{
    record_begin(jid, class_name, ended_at, out);
    buffer_append_text(out, ",\"cancelled\":true}");
}

void task_result_write(const char *jid, const char *class_name, struct wall_time ended_at, struct text_span result,
                       struct buffer *out)
{
    record_begin(jid, class_name, ended_at, out);
    buffer_append_text(out, ",\"result\":");
    buffer_append(out, result.bytes, result.length);
    buffer_append(out, "}", 1);
}

static bool member_find(struct text_span object, const char *name, struct text_span *value)
{
    return json_object_member(object, (struct text_span){name, strlen(name)}, value) == 1;
}

bool task_result_read(const char *record, size_t length, struct task_result *out)
{
    struct error error;
    struct text_span object = {record, length}, ended_at, cancelled;
    *out = (struct task_result){.result = {NULL, 0}};
    if (!json_check(record, length, &record_limits, &error) || length == 0 || record[0] != '{' ||
        !member_find(object, "ended_at", &ended_at) || !json_seconds_read(ended_at, &out->ended_at.us))
        return false;
    out->was_cancelled = member_find(object, "cancelled", &cancelled) && cancelled.length == strlen("true") &&
                         memcmp(cancelled.bytes, "true", cancelled.length) == 0;
    return out->was_cancelled || member_find(object, "result", &out->result);
}
