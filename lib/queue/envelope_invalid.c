/* Records of texts that are not tasks.
 *
 * `dead` may only hold objects that look like tasks: one other entry makes the dashboards fail for the whole list.
 * So the text that could not be read becomes the argument of a task of a class that nobody handles. The bytes can
 * always be had back, because they may be all that is left of somebody's order: as a JSON string where that is
 * possible, which people can read, else in base64. Any thread. */
#include "queue/envelope.h"

#include "queue/base64.h"
#include "queue/json_text.h"
#include "queue/utf8.h"

#define INVALID_CLASS "hf.invalid"

/* Whether a JSON string keeps the bytes. NUL could be escaped, but not every reader takes that. */
static bool is_text(const char *bytes, size_t length)
{
    const char *at = bytes, *end = length > 0 ? bytes + length : bytes;
    while (at < end) {
        size_t character = utf8_length(at, end);
        if (character == 0 || *at == '\0')
            return false;
        at += character;
    }
    return true;
}

static void append_field(struct buffer *out, const char *name, const char *text)
{
    buffer_append_text(out, name);
    envelope_append_string(out, text, strlen(text));
}

void envelope_write_invalid(const char *text, size_t length, const char *queue, const char *reason,
                            struct wall_time now, struct buffer *out)
{
    bool readable = is_text(text, length);
    char jid[ENVELOPE_NEW_JID_SIZE];
    envelope_new_jid(jid);
    append_field(out, "{\"class\":", INVALID_CLASS);
    append_field(out, ",\"queue\":", queue);
    buffer_append_text(out, ",\"args\":[");
    if (readable) {
        envelope_append_string(out, text, length);
    } else {
        buffer_append(out, "\"", 1);
        base64_encode(text, length, out);
        buffer_append(out, "\"", 1);
    }
    append_field(out, "],\"jid\":", jid);
    buffer_append_text(out, ",\"created_at\":");
    envelope_append_time(out, now);
    buffer_append_text(out, ",\"failed_at\":");
    envelope_append_time(out, now);
    append_field(out, ",\"retry_count\":0,\"error_class\":", "HF::InvalidTask");
    append_field(out, ",\"error_message\":", reason);
    append_field(out, ",\"encoding\":", readable ? "text" : "base64");
    buffer_append(out, "}", 1);
}

static bool is_string(struct text_span value, const char *text)
{
    struct text_span contents = json_text_contents(value);
    return contents.bytes != NULL && json_text_equal(contents, (struct text_span){text, strlen(text)});
}

static bool append_base64(struct text_span argument, struct buffer *out)
{
    struct buffer encoded = {.bytes = NULL};
    bool decoded = json_string_read(argument, &encoded) && base64_decode(encoded.bytes, encoded.length, out);
    buffer_fini(&encoded);
    return decoded;
}

static bool append_recovered(const struct envelope *envelope, struct buffer *out, struct error *error)
{
    if (strcmp(envelope->class_name, INVALID_CLASS) != 0)
        return error_set(error, "class \"%s\": only records of class \"" INVALID_CLASS "\" hold a raw text",
                         envelope->class_name);
    struct text_span encoding = envelope_member_value(envelope, "encoding");
    struct text_span argument = json_array_element(envelope->args, 0);
    bool in_base64 = is_string(encoding, "base64");
    if (!in_base64 && !is_string(encoding, "text"))
        return error_set(error, "\"encoding\" is neither \"text\" nor \"base64\"");
    if (in_base64 ? !append_base64(argument, out) : !json_string_read(argument, out))
        return error_set(error, "the first argument is not the raw text that \"encoding\" promises");
    return true;
}

bool envelope_recover_invalid(const char *record, size_t length, struct buffer *out, struct error *error)
{
    static const struct envelope_limits limits = {.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX};
    struct envelope envelope = {.member_count = 0};
    bool recovered =
        envelope_parse(&envelope, record, length, &limits, error) && append_recovered(&envelope, out, error);
    envelope_fini(&envelope);
    return recovered;
}
