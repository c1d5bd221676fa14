/* See task_builder.h. The default values are prepared once as JSON texts; a task then costs one parse and, only if
 * something is missing, one rewrite. Arguments alone are checked first and then put into a task object, which takes the
 * same path: a text like `[1],"queue":[2]` must not become more than arguments. */
#include "queue/task_builder.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "queue/keys.h"

/* The members that may be added, and what they may cost beyond the values: names, quotes, times. */
enum { ADDED_MAX = 13, ADDED_BYTES = 384 };

/* A lesser `at` counts from now, as in Sidekiq; a greater one is in milliseconds by mistake. */
#define AT_RELATIVE_US (INT64_C(1000000000) * US_PER_S)
#define AT_MOST_US     (INT64_C(100000000000) * US_PER_S)

#define UNIQUE_MS (24 * 3600 * MS_PER_S) /* what "unique" alone means */

struct task_builder {
    struct envelope_limits limits; /* of the text: room is left for what is added */
    bool has_class, has_jid;
    char *default_queue;
    int64_t at_us, in_ms, unique_ms, expires_in_us;
    struct buffer head;  /* {"class":"...","args": */
    struct buffer queue; /* JSON values */
    struct buffer jid, retry, resource, tags, expires_in, parent, trace;
    struct buffer times, expires_at, unique, wrapped, rewritten; /* of the task being taken */
    char jid_text[ENVELOPE_JID_BYTES_MAX + 1];                   /* as given, or as drawn last */
    char digest[DIGEST_TEXT_SIZE];                               /* of the task being taken */
    struct envelope envelope;
};

/* --- the defaults ------------------------------------------------------------------------------------------------ */

/* Appends a JSON string; false if the text is not UTF-8 and would change. */
static bool value_text(struct buffer *out, const char *what, const char *text, struct error *error)
{
    struct buffer back = {0};
    size_t from = out->length;
    envelope_append_string(out, text, strlen(text));
    struct text_span value = {out->bytes + from, out->length - from};
    bool same =
        json_string_read(value, &back) && back.length == strlen(text) && memcmp(back.bytes, text, back.length) == 0;
    buffer_fini(&back);
    return same || error_set(error, "%s is not valid UTF-8", what);
}

/* Appends texts separated by commas; in brackets for a list. */
static bool list_text(struct buffer *out, const char *what, const char *const *texts, size_t count, bool is_list,
                      struct error *error)
{
    if (count > 0 && texts == NULL)
        return error_set(error, "%s is counted, but there is no list of them: it is NULL", what);
    if (is_list)
        buffer_append(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (texts[i] == NULL)
            return error_set(error, "%s is NULL", what);
        if (i > 0)
            buffer_append(out, ",", 1);
        if (!value_text(out, what, texts[i], error))
            return false;
    }
    if (is_list)
        buffer_append(out, "]", 1);
    return true;
}

static bool times_take(struct task_builder *builder, const struct hf_task *defaults, struct error *error)
{
    static const int64_t most_ms = AT_MOST_US / 1000;
    int64_t unique_ms = defaults->unique ? defaults->unique_ms : 0;
    if (defaults->at_ms != 0 && defaults->in_ms != 0)
        return error_set(error, "a task runs at a time or in a while, not both");
    if (defaults->at_ms < 0 || defaults->in_ms < 0 || defaults->expires_in_ms < 0 || unique_ms < 0)
        return error_set(error, "a time is negative");
    if (defaults->at_ms > most_ms || defaults->in_ms > most_ms || defaults->expires_in_ms > most_ms ||
        unique_ms > most_ms)
        return error_set(error, "a time is more than 3,000 years away");
    builder->at_us = defaults->at_ms * 1000;
    builder->in_ms = defaults->in_ms;
    builder->unique_ms = defaults->unique && unique_ms == 0 ? UNIQUE_MS : unique_ms;
    builder->expires_in_us = defaults->expires_in_ms * 1000;
    if (defaults->expires_in_ms > 0)
        envelope_append_time(&builder->expires_in, (struct wall_time){builder->expires_in_us});
    return true;
}

static bool jid_take(struct task_builder *builder, const char *jid, struct error *error)
{
    size_t length = strnlen(jid, sizeof builder->jid_text);
    if (length < 1 || length >= sizeof builder->jid_text)
        return error_set(error, "the jid is not 1 to %d bytes long", ENVELOPE_JID_BYTES_MAX);
    memcpy(builder->jid_text, jid, length + 1);
    return value_text(&builder->jid, "the jid", jid, error);
}

static bool trace_take(struct task_builder *builder, const char *trace, struct error *error)
{
    if (trace == NULL)
        return true;
    if (!traceparent_is_sound(trace, strlen(trace)))
        return error_set(error, "the traceparent is not one of W3C Trace Context: 00-TRACE-SPAN-FLAGS, of 32, 16 and 2 "
                                "hexadecimal digits");
    return value_text(&builder->trace, "the traceparent", trace, error);
}

static bool defaults_take(struct task_builder *builder, const struct hf_task *defaults,
                          const struct envelope_limits *limits, const char *parent, struct error *error)
{
    buffer_append_text(&builder->retry, defaults->retry != NULL ? defaults->retry : "true");
    if (!json_check(builder->retry.bytes, builder->retry.length, limits, error)) {
        error_prefix(error, "retry");
        return false;
    }
    buffer_append_text(&builder->head, "{\"class\":");
    if (builder->has_class && !value_text(&builder->head, "the class", defaults->class_name, error))
        return false;
    buffer_append_text(&builder->head, ",\"args\":");
    if (defaults->jid != NULL && !jid_take(builder, defaults->jid, error))
        return false;
    if (!queue_name_is_sound(builder->default_queue))
        return error_set(error, "the queue is not 1 to %d bytes without blanks, not beginning with \"hf:\"",
                         ENVELOPE_QUEUE_BYTES_MAX);
    if (defaults->resource_count > ENVELOPE_RESOURCES_MAX)
        return error_set(error, "more than %d resources", ENVELOPE_RESOURCES_MAX);
    if (defaults->tag_count > HF_TAGS_MAX)
        return error_set(error, "more than %d tags", HF_TAGS_MAX);
    bool has_tags = defaults->tag_count > 0;
    return value_text(&builder->queue, "the queue", builder->default_queue, error) &&
           list_text(&builder->resource, "a resource", defaults->resources, defaults->resource_count,
                     defaults->resource_count > 1, error) &&
           list_text(&builder->tags, "a tag", defaults->tags, defaults->tag_count, has_tags, error) &&
           trace_take(builder, defaults->traceparent, error) &&
           (parent == NULL || value_text(&builder->parent, "the parent", parent, error)) &&
           times_take(builder, defaults, error);
}

/* Checks that a task with all defaults is valid: then no text can fail because of the defaults. */
static bool defaults_try(struct task_builder *builder, const struct envelope_limits *limits, struct error *error)
{
    struct buffer text = {0};
    buffer_append_text(&text, "{\"class\":\"any\",\"args\":[]}");
    struct built_task task;
    const char *given = builder->has_class ? "[]" : buffer_text(&text);
    bool fits = task_build(builder, given, strlen(given), (struct wall_time){0}, &task, error);
    buffer_fini(&text);
    struct envelope whole = {.member_count = 0};
    fits = fits && envelope_parse(&whole, task.payload.bytes, task.payload.length, limits, error);
    envelope_fini(&whole);
    return fits;
}

struct task_builder *task_builder_create(const struct hf_task *defaults, const struct envelope_limits *limits,
                                         const char *parent, struct error *error)
{
    struct task_builder *builder = memory_new(struct task_builder);
    builder->limits = *limits;
    builder->has_class = defaults->class_name != NULL && defaults->json == NULL;
    builder->has_jid = defaults->jid != NULL;
    builder->default_queue = memory_text(defaults->queue != NULL ? defaults->queue : "default");
    bool is_sound = defaults_take(builder, defaults, limits, parent, error);
    size_t added = ADDED_BYTES + builder->queue.length + builder->jid.length + builder->resource.length +
                   builder->tags.length + builder->parent.length + builder->trace.length;
    builder->limits.size = limits->size > added ? limits->size - added : 0;
    builder->limits.keys = limits->keys > ADDED_MAX ? limits->keys - ADDED_MAX : 0;
    if (is_sound && defaults_try(builder, limits, error))
        return builder;
    task_builder_destroy(builder);
    return NULL;
}

void task_builder_destroy(struct task_builder *builder)
{
    if (builder == NULL)
        return;
    struct buffer *const buffers[] = {&builder->head,       &builder->queue,      &builder->jid,    &builder->retry,
                                      &builder->resource,   &builder->tags,       &builder->times,  &builder->wrapped,
                                      &builder->expires_in, &builder->expires_at, &builder->unique, &builder->rewritten,
                                      &builder->parent,     &builder->trace};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        buffer_fini(buffers[i]);
    envelope_fini(&builder->envelope);
    free(builder->default_queue);
    free(builder);
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

/* Makes a whole task of the given class from its arguments. */
static bool arguments_wrap(struct task_builder *builder, struct text_span *text, struct error *error)
{
    if (!json_check(text->bytes, text->length, &builder->limits, error))
        return false;
    if (text->bytes[0] != '[')
        return error_set(error, "the arguments are not a JSON array");
    buffer_clear(&builder->wrapped);
    buffer_append(&builder->wrapped, builder->head.bytes, builder->head.length);
    buffer_append(&builder->wrapped, text->bytes, text->length);
    buffer_append(&builder->wrapped, "}", 1);
    *text = (struct text_span){builder->wrapped.bytes, builder->wrapped.length};
    return true;
}

static bool has_member(const struct envelope *envelope, const char *name)
{
    return envelope_member_value(envelope, name).bytes != NULL;
}

static bool is_word(struct text_span value, const char *word)
{
    return value.length == strlen(word) && memcmp(value.bytes, word, value.length) == 0;
}

/* Workers take other words for true, as Sidekiq does: "no" too. */
static bool retry_is_clear(const struct envelope *envelope)
{
    struct text_span value = envelope_member_value(envelope, "retry");
    return value.bytes == NULL || envelope->retry_off || envelope->retry_counted || is_word(value, "true") ||
           is_word(value, "\"true\"");
}

static bool task_check(struct task_builder *builder, struct error *error)
{
    const struct envelope *envelope = &builder->envelope;
    if (envelope->member_count + ADDED_MAX > ENVELOPE_MEMBERS_MAX)
        return error_set(error, "more than %d members", ENVELOPE_MEMBERS_MAX - ADDED_MAX);
    if (envelope->queue[0] != '\0' && !queue_name_is_sound(envelope->queue))
        return error_set(error, "\"queue\" is not a valid name: it has blanks or begins with \"hf:\"");
    if (!retry_is_clear(envelope))
        return error_set(error, "\"retry\" is not a number, true or false");
    return true;
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

static void identity_add(struct task_builder *builder, struct additions *additions)
{
    if (builder->envelope.jid[0] == '\0' && !builder->has_jid) {
        envelope_new_jid(builder->jid_text);
        buffer_clear(&builder->jid);
        envelope_append_string(&builder->jid, builder->jid_text, strlen(builder->jid_text));
    }
    if (builder->envelope.jid[0] == '\0')
        add(additions, "jid", text_span_of(&builder->jid));
    if (builder->envelope.queue[0] == '\0')
        add(additions, "queue", text_span_of(&builder->queue));
}

/* When the task runs, by its own member, else by the defaults; 0 = now. */
static bool time_find(const struct task_builder *builder, struct wall_time now, int64_t *at_us, struct error *error)
{
    struct text_span own = envelope_member_value(&builder->envelope, "at");
    *at_us = builder->in_ms > 0 ? now.us + builder->in_ms * 1000 : builder->at_us;
    if (own.bytes != NULL && !is_word(own, "null")) {
        if (!json_seconds_read(own, at_us))
            return error_set(error, "\"at\" is not a time in seconds since 1970");
        if (*at_us > AT_MOST_US)
            return error_set(error, "\"at\" is more than 3,000 years away: it counts seconds, not milliseconds");
        if (*at_us < AT_RELATIVE_US)
            *at_us += now.us;
    }
    if (*at_us <= now.us)
        *at_us = 0;
    return true;
}

static bool expiry_add(struct task_builder *builder, int64_t at_us, struct additions *additions, struct error *error)
{
    struct text_span own = envelope_member_value(&builder->envelope, "expires_in");
    int64_t expires_in_us = builder->expires_in_us;
    bool has_own = own.bytes != NULL && !is_word(own, "null"), is_told = has_member(&builder->envelope, "expires_at");
    if (has_own && (!json_seconds_read(own, &expires_in_us) || expires_in_us < 0 || expires_in_us > AT_MOST_US))
        return error_set(error, "\"expires_in\" is not a number of seconds");
    if (is_told || (!has_own && expires_in_us == 0))
        return true;
    if (!has_own)
        add(additions, "expires_in", text_span_of(&builder->expires_in));
    if (at_us == 0)
        return true;
    buffer_clear(&builder->expires_at);
    envelope_append_time(&builder->expires_at, (struct wall_time){at_us + expires_in_us});
    add(additions, "expires_at", text_span_of(&builder->expires_at));
    return true;
}

static void unique_add(struct task_builder *builder, struct additions *additions)
{
    const struct envelope *envelope = &builder->envelope;
    builder->digest[0] = '\0';
    if (builder->unique_ms == 0)
        return;
    buffer_clear(&builder->unique);
    buffer_append_text(&builder->unique, envelope->class_name);
    buffer_append(&builder->unique, "\n", 1);
    buffer_append(&builder->unique, envelope->args.bytes, envelope->args.length);
    digest_text(builder->unique.bytes, builder->unique.length, builder->digest);
    buffer_clear(&builder->unique);
    envelope_append_string(&builder->unique, builder->digest, strlen(builder->digest));
    add(additions, "hf_unique", text_span_of(&builder->unique));
}

static void missing_add(struct task_builder *builder, struct wall_time now, bool is_scheduled,
                        struct additions *additions)
{
    const struct envelope *envelope = &builder->envelope;
    identity_add(builder, additions);
    if (builder->resource.length > 0 && !has_member(envelope, "resource"))
        add(additions, "resource", text_span_of(&builder->resource));
    if (!has_member(envelope, "retry"))
        add(additions, "retry", text_span_of(&builder->retry));
    if (builder->tags.length > 0 && !has_member(envelope, "tags"))
        add(additions, "tags", text_span_of(&builder->tags));
    if (has_member(envelope, "at"))
        add(additions, "at", (struct text_span){NULL, 0});
    if (builder->trace.length > 0 && !has_member(envelope, "traceparent"))
        add(additions, "traceparent", text_span_of(&builder->trace));
    if (builder->parent.length > 0)
        add(additions, "hf_parent", text_span_of(&builder->parent));
    buffer_clear(&builder->times);
    envelope_append_time(&builder->times, now);
    if (!has_member(envelope, "created_at"))
        add(additions, "created_at", text_span_of(&builder->times));
    if (!is_scheduled && !has_member(envelope, "enqueued_at"))
        add(additions, "enqueued_at", text_span_of(&builder->times));
}

/* Returns the strings of the task; what was drawn or given replaces what was missing. */
static void task_tell(const struct task_builder *builder, struct wall_time now, struct built_task *task)
{
    const struct envelope *envelope = &builder->envelope;
    task->class_name = envelope->class_name;
    task->queue = envelope->queue[0] != '\0' ? envelope->queue : builder->default_queue;
    task->jid = envelope->jid[0] != '\0' ? envelope->jid : builder->jid_text;
    task->digest = builder->digest;
    task->unique_ms = builder->unique_ms + (task->at_us > 0 ? (task->at_us - now.us) / 1000 : 0);
}

bool task_build(struct task_builder *builder, const char *bytes, size_t length, struct wall_time now,
                struct built_task *task, struct error *error)
{
    struct text_span text = text_trim(bytes, length);
    struct additions additions = {.count = 0};
    if (builder->has_class && !arguments_wrap(builder, &text, error))
        return false;
    if (!envelope_parse(&builder->envelope, text.bytes, text.length, &builder->limits, error) ||
        !task_check(builder, error) || !time_find(builder, now, &task->at_us, error))
        return false;
    missing_add(builder, now, task->at_us > 0, &additions);
    if (!expiry_add(builder, task->at_us, &additions, error))
        return false;
    unique_add(builder, &additions);
    if (additions.count > 0) {
        buffer_clear(&builder->rewritten);
        envelope_rewrite(&builder->envelope, additions.list, additions.count, &builder->rewritten);
        text = text_span_of(&builder->rewritten);
    }
    task->payload = text;
    task_tell(builder, now, task);
    return true;
}
