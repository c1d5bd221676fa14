/* See intake.h. The values that may be added are prepared once as JSON texts; a task then costs one parse and, only
 * when something is missing, one rewrite. Arguments alone are checked first and then put into a task object, which
 * goes the same way: a text like `[1],"queue":[2]` must not become more than arguments. */
#include "queue/intake.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "queue/keys.h"

/* The members that may be added, and what they may cost beyond the values: names, quotes, times. */
enum { ADDED_MAX = 6, ADDED_BYTES = 256 };

struct intake {
    struct envelope_limits limits; /* of the text: room is left for what is added */
    bool has_class, has_jid;
    char *default_queue;
    struct buffer head;  /* {"class":"...","args": */
    struct buffer queue; /* JSON values */
    struct buffer jid, retry, resource;
    struct buffer times, wrapped, rewritten;   /* of the task being taken */
    char jid_text[ENVELOPE_JID_BYTES_MAX + 1]; /* as given, or as drawn last */
    struct envelope envelope;
};

/* --- the options ------------------------------------------------------------------------------------------------ */

/* As a JSON string; false when that would not say the same, because it is not UTF-8. */
static bool value_text(struct buffer *out, const char *what, const char *text, struct error *error)
{
    struct buffer back = {0};
    size_t from = out->length;
    envelope_append_string(out, text, strlen(text));
    struct text_span value = {out->bytes + from, out->length - from};
    bool same = json_string(value, &back) && back.length == strlen(text) && memcmp(back.bytes, text, back.length) == 0;
    buffer_fini(&back);
    return same || error_set(error, "%s is not valid UTF-8", what);
}

/* One resource as a string, several as an array. */
static bool resources_text(struct intake *intake, const struct intake_options *options, struct error *error)
{
    bool is_list = options->resource_count > 1;
    if (is_list)
        buffer_append(&intake->resource, "[", 1);
    for (unsigned i = 0; i < options->resource_count; i++) {
        if (i > 0)
            buffer_append(&intake->resource, ",", 1);
        if (!value_text(&intake->resource, "a resource", options->resources[i], error))
            return false;
    }
    if (is_list)
        buffer_append(&intake->resource, "]", 1);
    return true;
}

static bool jid_take(struct intake *intake, const char *jid, struct error *error)
{
    size_t length = strnlen(jid, sizeof intake->jid_text);
    if (length < 1 || length >= sizeof intake->jid_text)
        return error_set(error, "the jid is not 1 to %d bytes long", ENVELOPE_JID_BYTES_MAX);
    memcpy(intake->jid_text, jid, length + 1);
    return value_text(&intake->jid, "the jid", jid, error);
}

static bool options_take(struct intake *intake, const struct intake_options *options, struct error *error)
{
    buffer_append_text(&intake->retry, options->retry != NULL ? options->retry : "true");
    buffer_append_text(&intake->head, "{\"class\":");
    if (options->class_name != NULL && !value_text(&intake->head, "the class", options->class_name, error))
        return false;
    buffer_append_text(&intake->head, ",\"args\":");
    if (options->jid != NULL && !jid_take(intake, options->jid, error))
        return false;
    if (!queue_name_is_sound(intake->default_queue))
        return error_set(error, "the queue is not 1 to %d bytes without blanks, not beginning with \"hf:\"",
                         ENVELOPE_QUEUE_BYTES_MAX);
    return value_text(&intake->queue, "the queue", intake->default_queue, error) &&
           resources_text(intake, options, error);
}

/* Whether a task with all that may be added is one: then no text can fail because of the options. */
static bool options_try(struct intake *intake, const struct intake_options *options, struct error *error)
{
    struct buffer text = {0};
    buffer_append_text(&text, "{\"class\":\"any\",\"args\":[]}");
    struct intake_task task;
    const char *given = options->class_name != NULL ? "[]" : buffer_text(&text);
    bool fits = intake_take(intake, given, strlen(given), (struct wall_time){0}, &task, error);
    buffer_fini(&text);
    struct envelope whole = {.member_count = 0};
    fits = fits && envelope_parse(&whole, task.payload.bytes, task.payload.length, &options->limits, error);
    envelope_fini(&whole);
    return fits;
}

struct intake *intake_create(const struct intake_options *options, struct error *error)
{
    struct intake *intake = memory_new(struct intake);
    intake->limits = options->limits;
    intake->has_class = options->class_name != NULL;
    intake->has_jid = options->jid != NULL;
    intake->default_queue = memory_text(options->queue != NULL ? options->queue : "default");
    bool is_sound = options_take(intake, options, error);
    size_t added = ADDED_BYTES + intake->queue.length + intake->jid.length + intake->resource.length;
    intake->limits.size = options->limits.size > added ? options->limits.size - added : 0;
    intake->limits.keys = options->limits.keys > ADDED_MAX ? options->limits.keys - ADDED_MAX : 0;
    if (is_sound && options_try(intake, options, error))
        return intake;
    intake_destroy(intake);
    return NULL;
}

void intake_destroy(struct intake *intake)
{
    if (intake == NULL)
        return;
    struct buffer *const buffers[] = {&intake->head,     &intake->queue, &intake->jid,     &intake->retry,
                                      &intake->resource, &intake->times, &intake->wrapped, &intake->rewritten};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        buffer_fini(buffers[i]);
    envelope_fini(&intake->envelope);
    free(intake->default_queue);
    free(intake);
}

/* --- a task ----------------------------------------------------------------------------------------------------- */

static struct text_span text_trim(const char *text, size_t length)
{
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL && text[length - 1] != '\0')
        length--;
    while (length > 0 && strchr(" \t\r\n", text[0]) != NULL && text[0] != '\0')
        text++, length--;
    return (struct text_span){text, length};
}

/* The arguments of a task of the given class, as a whole task. */
static bool arguments_wrap(struct intake *intake, struct text_span *text, struct error *error)
{
    if (!json_check(text->bytes, text->length, &intake->limits, error))
        return false;
    if (text->bytes[0] != '[')
        return error_set(error, "the arguments are not a JSON array");
    buffer_clear(&intake->wrapped);
    buffer_append(&intake->wrapped, intake->head.bytes, intake->head.length);
    buffer_append(&intake->wrapped, text->bytes, text->length);
    buffer_append(&intake->wrapped, "}", 1);
    *text = (struct text_span){intake->wrapped.bytes, intake->wrapped.length};
    return true;
}

static bool has_member(const struct envelope *envelope, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < envelope->member_count; i++)
        if (envelope->members[i].name.length == length && memcmp(envelope->members[i].name.bytes, name, length) == 0)
            return true;
    return false;
}

static bool task_check(struct intake *intake, struct error *error)
{
    const struct envelope *envelope = &intake->envelope;
    if (has_member(envelope, "at"))
        return error_set(error, "it has \"at\", a time to run at, but would be pushed now: remove \"at\"");
    if (envelope->member_count + ADDED_MAX > ENVELOPE_MEMBERS_MAX)
        return error_set(error, "more than %d members", ENVELOPE_MEMBERS_MAX - ADDED_MAX);
    if (envelope->queue[0] != '\0' && !queue_name_is_sound(envelope->queue))
        return error_set(error, "\"queue\" is no name of a queue: it has blanks or begins with \"hf:\"");
    return true;
}

static struct text_span span_of(const struct buffer *buffer)
{
    return (struct text_span){buffer->bytes, buffer->length};
}

struct additions {
    struct envelope_change list[ADDED_MAX];
    size_t count;
};

static void add(struct additions *additions, const char *name, struct text_span value)
{
    invariant(additions->count < ADDED_MAX);
    additions->list[additions->count++] = (struct envelope_change){name, value};
}

static void identity_add(struct intake *intake, struct additions *additions)
{
    if (intake->envelope.jid[0] == '\0' && !intake->has_jid) {
        envelope_new_jid(intake->jid_text);
        buffer_clear(&intake->jid);
        envelope_append_string(&intake->jid, intake->jid_text, strlen(intake->jid_text));
    }
    if (intake->envelope.jid[0] == '\0')
        add(additions, "jid", span_of(&intake->jid));
    if (intake->envelope.queue[0] == '\0')
        add(additions, "queue", span_of(&intake->queue));
}

static void missing_add(struct intake *intake, struct wall_time now, struct additions *additions)
{
    const struct envelope *envelope = &intake->envelope;
    identity_add(intake, additions);
    if (intake->resource.length > 0 && !has_member(envelope, "resource"))
        add(additions, "resource", span_of(&intake->resource));
    if (!has_member(envelope, "retry"))
        add(additions, "retry", span_of(&intake->retry));
    buffer_clear(&intake->times);
    envelope_append_time(&intake->times, now);
    if (!has_member(envelope, "created_at"))
        add(additions, "created_at", span_of(&intake->times));
    if (!has_member(envelope, "enqueued_at"))
        add(additions, "enqueued_at", span_of(&intake->times));
}

/* The strings of the task; what was drawn or given for it stands in for what was missing. */
static void task_tell(const struct intake *intake, struct intake_task *task)
{
    const struct envelope *envelope = &intake->envelope;
    task->class_name = envelope->class_name;
    task->queue = envelope->queue[0] != '\0' ? envelope->queue : intake->default_queue;
    task->jid = envelope->jid[0] != '\0' ? envelope->jid : intake->jid_text;
}

bool intake_take(struct intake *intake, const char *bytes, size_t length, struct wall_time now,
                 struct intake_task *task, struct error *error)
{
    struct text_span text = text_trim(bytes, length);
    struct additions additions = {.count = 0};
    if (intake->has_class && !arguments_wrap(intake, &text, error))
        return false;
    if (!envelope_parse(&intake->envelope, text.bytes, text.length, &intake->limits, error) ||
        !task_check(intake, error))
        return false;
    missing_add(intake, now, &additions);
    if (additions.count > 0) {
        buffer_clear(&intake->rewritten);
        envelope_rewrite(&intake->envelope, additions.list, additions.count, &intake->rewritten);
        text = span_of(&intake->rewritten);
    }
    task->payload = text;
    task_tell(intake, task);
    return true;
}
