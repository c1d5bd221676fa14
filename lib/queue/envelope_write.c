/* Writing tasks.
 *
 * A dashboard finds an entry again by generating its JSON anew from what it read, so what we write must equal what
 * Ruby's generator writes: no white space, the five short escapes and \u00xx with small digits for the other control
 * characters, nothing else escaped, shortest reals with a point. What producers wrote is spliced, not touched.
 *
 * Any thread; the only state is that of random_bytes. */
#include "queue/envelope.h"

#include "base/invariant.h"
#include "base/random.h"
#include "queue/json_text.h"
#include "queue/utf8.h"

static const char hex_digits[] = "0123456789abcdef";

/* --- values -------------------------------------------------------------------------------------------------- */

static void escape_append(struct buffer *out, char byte)
{
    static const char short_escapes[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    unsigned char value = (unsigned char)byte;
    char escape[6] = {'\\', byte};
    size_t length = 2;
    if (value < sizeof short_escapes && short_escapes[value] != '\0') {
        escape[1] = short_escapes[value];
    } else if (value < ' ') {
        memcpy(escape, "\\u00", 4);
        escape[4] = hex_digits[value >> 4];
        escape[5] = hex_digits[value & 15];
        length = 6;
    }
    buffer_append(out, escape, length);
}

void envelope_append_string(struct buffer *out, const char *bytes, size_t length)
{
    const char *at = bytes, *end = length > 0 ? bytes + length : bytes, *written = bytes;
    buffer_append(out, "\"", 1);
    while (at < end) {
        size_t character = utf8_length(at, end);
        bool escaped = *at == '"' || *at == '\\' || (unsigned char)*at < ' ';
        if (character > 0 && !escaped) {
            at += character;
            continue;
        }
        buffer_append(out, written, (size_t)(at - written));
        if (escaped)
            escape_append(out, *at);
        else
            buffer_append_text(out, "\xEF\xBF\xBD");
        written = ++at;
    }
    buffer_append(out, written, (size_t)(at - written));
    buffer_append(out, "\"", 1);
}

void envelope_append_time(struct buffer *out, struct wall_time time)
{
    bool negative = time.us < 0;
    uint64_t us = negative ? 0 - (uint64_t)time.us : (uint64_t)time.us;
    buffer_format(out, "%s%llu.%06llu", negative ? "-" : "", (unsigned long long)(us / (uint64_t)US_PER_S),
                  (unsigned long long)(us % (uint64_t)US_PER_S));
    while (out->bytes[out->length - 1] == '0' && out->bytes[out->length - 2] != '.')
        out->length--;
}

/* An integer of so many digits is one of milliseconds: of seconds it would be the year 5138. */
static bool is_ms(struct text_span value)
{
    enum { MS_DIGITS = 12 };
    size_t digits = 0;
    while (digits < value.length && value.bytes[digits] >= '0' && value.bytes[digits] <= '9')
        digits++;
    return digits == value.length && digits >= MS_DIGITS;
}

void envelope_append_time_like(struct buffer *out, struct wall_time time, struct text_span former, bool keep_ms)
{
    if (keep_ms && is_ms(former))
        buffer_format(out, "%lld", (long long)(time.us / (US_PER_S / MS_PER_S)));
    else
        envelope_append_time(out, time);
}

static void append_text_string(struct buffer *out, const char *text)
{
    envelope_append_string(out, text, strlen(text));
}

static void append_span(struct buffer *out, struct text_span span)
{
    buffer_append(out, span.bytes, span.length);
}

void envelope_new_jid(char jid[ENVELOPE_NEW_JID_SIZE])
{
    random_digits(jid, ENVELOPE_NEW_JID_SIZE - 1);
    jid[ENVELOPE_NEW_JID_SIZE - 1] = '\0';
}

/* --- rewriting ----------------------------------------------------------------------------------------------- */

/* Names of changes are taken as they are, between quotes. */
static bool is_plain(const char *name)
{
    for (const char *at = name; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            return false;
    return true;
}

static bool is_named(struct text_span name, const char *text)
{
    return json_text_equal(name, (struct text_span){text, strlen(text)});
}

static const struct envelope_change *change_of(const struct envelope_change *changes, size_t count,
                                               struct text_span name)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(name, changes[i].name))
            return &changes[i];
    return NULL;
}

struct text_span envelope_member_value(const struct envelope *envelope, const char *name)
{
    for (size_t i = 0; i < envelope->member_count; i++)
        if (is_named(envelope->members[i].name, name))
            return envelope->members[i].value;
    return (struct text_span){NULL, 0};
}

/* Appends `separator`, `"name":value`; a member without a value is left out. */
static void append_member(struct buffer *out, const char **separator, struct text_span name, struct text_span value)
{
    if (value.bytes == NULL)
        return;
    buffer_append_text(out, *separator);
    buffer_append(out, "\"", 1);
    append_span(out, name);
    buffer_append(out, "\":", 2);
    append_span(out, value);
    *separator = ",";
}

void envelope_rewrite(const struct envelope *envelope, const struct envelope_change *changes, size_t count,
                      struct buffer *out)
{
    const char *separator = "";
    buffer_append(out, "{", 1);
    for (size_t i = 0; i < envelope->member_count; i++) {
        const struct envelope_member *member = &envelope->members[i];
        const struct envelope_change *change = change_of(changes, count, member->name);
        append_member(out, &separator, member->name, change != NULL ? change->value : member->value);
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = changes[i].name;
        invariant(is_plain(name));
        if (envelope_member_value(envelope, name).bytes == NULL)
            append_member(out, &separator, (struct text_span){name, strlen(name)}, changes[i].value);
    }
    buffer_append(out, "}", 1);
}

/* --- new tasks ----------------------------------------------------------------------------------------------- */

void envelope_write(const struct envelope_draft *draft, struct wall_time now, struct buffer *out)
{
    char jid[ENVELOPE_NEW_JID_SIZE];
    if (draft->jid == NULL)
        envelope_new_jid(jid);
    buffer_append_text(out, "{\"class\":");
    append_text_string(out, draft->class_name);
    buffer_append_text(out, ",\"queue\":");
    append_text_string(out, draft->queue);
    buffer_append_text(out, ",\"args\":");
    append_span(out, draft->args);
    buffer_append_text(out, ",\"jid\":");
    append_text_string(out, draft->jid != NULL ? draft->jid : jid);
    buffer_append_text(out, ",\"created_at\":");
    envelope_append_time(out, now);
    buffer_append_text(out, ",\"enqueued_at\":");
    envelope_append_time(out, now);
    buffer_append_text(out, draft->retry_off ? ",\"retry\":false" : ",\"retry\":true");
    if (draft->resources_json.bytes != NULL) {
        buffer_append_text(out, ",\"resource\":");
        append_span(out, draft->resources_json);
    }
    buffer_append(out, "}", 1);
}
