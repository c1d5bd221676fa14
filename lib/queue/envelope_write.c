/* Writing tasks.
 *
 * A dashboard finds an entry again by generating its JSON anew from what it read, so our text must equal that of Ruby's
 * generator: no white space, the five short escapes and \u00xx with small digits for the other control characters,
 * nothing else escaped, shortest reals with a point. What producers wrote is spliced in unchanged.
 *
 * Any thread; the only state is that of random_bytes. */
#include "queue/envelope.h"

#include <string.h>

#include "base/invariant.h"
#include "base/random.h"
#include "base/utf8.h"
#include "queue/json_scan.h"

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
            buffer_append_text(out, UTF8_REPLACEMENT);
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

/* An integer with this many digits is in milliseconds: in seconds it would be the year 5138. */
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

/* The names of changes are written as they are, between quotes. */
static bool is_plain(const char *name)
{
    for (const char *at = name; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            return false;
    return true;
}

/* An escape makes a name longer than its text. */
static bool is_named(struct text_span name, const char *text)
{
    size_t length = strlen(text);
    if (name.length <= length)
        return name.length == length && memcmp(name.bytes, text, length) == 0;
    return json_text_equal(name, (struct text_span){text, length});
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

/* Appends `separator`, `"name":value`; leaves out a member without a value. */
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

/* --- a failure ---------------------------------------------------------------------------------------------------- */

/* The record of a failure. The order of the changes is that of Ruby's worker, because new members are added in it, and
 * a dashboard finds an entry again by generating the same text. Any thread. */

/* Collects changes. Their values lie one behind the other in `values`, which grows, so they are offsets until the
 * end. */
enum { CHANGES_MAX = 13 };
struct changes {
    struct envelope_change items[CHANGES_MAX];
    size_t starts[CHANGES_MAX];
    size_t count;
    struct buffer values;
};

/* What the caller appends to `values` next is the value. */
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

/* Dashboards show retried_at if the count is above zero, else failed_at, and fail if that is no number. So failed_at is
 * written even if this failure does not count. A dead task has a count, so that it does not expire when it is sent
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
    change_begin(&changes, "hf_parked"); /* it no longer waits */
    change_begin(&changes, "hf_list");
    struct buffer *unserved = change_begin(&changes, "hf_unserved_at");
    if (failure->unserved_at.us != 0 && !failure->is_final)
        envelope_append_time(unserved, failure->unserved_at);
    changes_finish(&changes);
    envelope_rewrite(envelope, changes.items, changes.count, out);
    buffer_fini(&changes.values);
}
