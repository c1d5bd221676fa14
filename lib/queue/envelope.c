/* Parsing a task.
 *
 * Design. One pass of the scanner checks the whole text and yields the top-level members. Each is compared with those
 * before it, because a text with two members of one name means different things to different readers, and put into
 * its slot of a small table when it is one that we read. Only then, when the text is known to be sound, the slots are
 * read, one function each.
 *
 * Strings that leave as C strings go into `texts`. An unescaped string with its NUL is never longer than its raw text
 * with the quotes, so the room for all of them is known and taken once, before the first one is written: pointers
 * into `texts` stay valid while it fills, and a used envelope needs no further memory for tasks of the usual size.
 *
 * Invariant: after a successful parse every span lies inside `text` and every string inside `texts`. Pure; any
 * thread, one at a time per envelope. */
#include "queue/envelope.h"

#include "base/invariant.h"
#include "queue/json_scan.h"
#include "queue/json_text.h"

enum field {
    FIELD_CLASS,
    FIELD_ARGS,
    FIELD_JID,
    FIELD_QUEUE,
    FIELD_RESOURCE,
    FIELD_RETRY,
    FIELD_RETRY_COUNT,
    FIELD_DEAD,
    FIELD_COUNT,
};

#define FIELD_NAME(text)                                                                                               \
    {                                                                                                                  \
        .bytes = (text), .length = sizeof(text) - 1                                                                    \
    }
static const struct text_span field_names[FIELD_COUNT] = {
    [FIELD_CLASS] = FIELD_NAME("class"),
    [FIELD_ARGS] = FIELD_NAME("args"),
    [FIELD_JID] = FIELD_NAME("jid"),
    [FIELD_QUEUE] = FIELD_NAME("queue"),
    [FIELD_RESOURCE] = FIELD_NAME("resource"),
    [FIELD_RETRY] = FIELD_NAME("retry"),
    [FIELD_RETRY_COUNT] = FIELD_NAME("retry_count"),
    [FIELD_DEAD] = FIELD_NAME("dead"),
};

/* A string of n bytes is written with at most 6n bytes and two quotes: \u0041. */
enum { ESCAPE_BYTES_MAX = 6 };

static bool span_is(struct text_span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.bytes, text, span.length) == 0;
}

/* Absent, or null, which producers write for "not set". */
static bool is_unset(struct text_span value)
{
    return value.bytes == NULL || span_is(value, "null");
}

/* --- top-level members --------------------------------------------------------------------------------------- */

/* Names are compared as text only once one with an escape has been met, which takes far longer than comparing bytes. */
static bool names_equal(struct text_span a, struct text_span b, bool escapes)
{
    if (escapes)
        return json_text_equal(a, b);
    /* Names of one length mostly differ in their first byte, which saves the call. */
    return a.length == b.length &&
           (a.length == 0 || (a.bytes[0] == b.bytes[0] && memcmp(a.bytes, b.bytes, a.length) == 0));
}

static bool member_add(struct envelope *envelope, const struct json_item *item, bool escapes, struct error *error)
{
    if (envelope->member_count == ENVELOPE_MEMBERS_MAX)
        return error_set(error, "more than %d members in the task", ENVELOPE_MEMBERS_MAX);
    if (item->name.length > ENVELOPE_MEMBER_NAME_MAX)
        return error_set(error, "a member name of more than %d bytes", ENVELOPE_MEMBER_NAME_MAX);
    for (size_t i = 0; i < envelope->member_count; i++)
        if (names_equal(envelope->members[i].name, item->name, escapes))
            return error_set(error, "the member \"%.*s\" occurs twice", (int)item->name.length, item->name.bytes);
    envelope->members[envelope->member_count++] = (struct envelope_member){item->name, item->value};
    return true;
}

static void field_note(struct text_span fields[FIELD_COUNT], const struct json_item *item, bool escapes)
{
    for (enum field field = 0; field < FIELD_COUNT; field++)
        if (names_equal(field_names[field], item->name, escapes)) {
            fields[field] = item->value;
            return;
        }
}

static bool members_scan(struct envelope *envelope, const struct envelope_limits *limits,
                         struct text_span fields[FIELD_COUNT], struct error *error)
{
    struct json_scan scan;
    struct json_item item;
    bool escapes = false;
    json_scan_begin(&scan, envelope->text.bytes, envelope->text.length, limits, error);
    if (!json_scan_open(&scan, '{'))
        return false;
    while (json_scan_next(&scan, &item)) {
        escapes = escapes || item.name_escaped;
        if (!member_add(envelope, &item, escapes, error))
            return false;
        field_note(fields, &item, escapes);
    }
    return json_scan_end(&scan);
}

/* --- strings ------------------------------------------------------------------------------------------------- */

/* Unescapes a string of `shortest` to `longest` bytes without NUL into `texts`, whose room was taken before. Returns
 * it NUL-terminated, or NULL. */
static const char *text_read(struct envelope *envelope, struct text_span value, const char *what, size_t shortest,
                             size_t longest, struct error *error)
{
    struct text_span contents = json_text_contents(value);
    if (contents.bytes == NULL) {
        error_set(error, "%s is not a string", what);
        return NULL;
    }
    struct buffer *texts = &envelope->texts;
    invariant(texts->capacity - texts->length > contents.length);
    char *to = texts->bytes + texts->length;
    size_t length = longest + 1;
    if (contents.length <= longest * ESCAPE_BYTES_MAX && !json_text_unescape(contents, to, &length)) {
        error_set(error, "%s holds half of a surrogate pair", what);
        return NULL;
    }
    if (length < shortest || length > longest) {
        error_set(error, "%s is not %zu to %zu bytes long", what, shortest, longest);
        return NULL;
    }
    if (memchr(to, '\0', length) != NULL) {
        error_set(error, "%s holds a NUL", what);
        return NULL;
    }
    to[length] = '\0';
    texts->length += length + 1;
    return to;
}

static bool class_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (value.bytes == NULL)
        return error_set(error, "\"class\" is missing, which names the handler");
    envelope->class_name = text_read(envelope, value, "\"class\"", 1, ENVELOPE_CLASS_BYTES_MAX, error);
    return envelope->class_name != NULL;
}

static bool args_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (value.bytes == NULL || value.bytes[0] != '[')
        return error_set(error,
                         value.bytes == NULL ? "\"args\" is missing, which is an array" : "\"args\" is not an array");
    envelope->args = value;
    return true;
}

/* A jid is written into lock values, file names and log lines, hence printable ASCII only. */
static bool jid_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    envelope->jid = "";
    if (is_unset(value))
        return true;
    if (value.bytes[0] != '"')
        return error_set(error, "\"jid\" is not a string: ids are strings");
    envelope->jid = text_read(envelope, value, "\"jid\"", 0, ENVELOPE_JID_BYTES_MAX, error);
    if (envelope->jid == NULL)
        return false;
    for (const char *at = envelope->jid; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            return error_set(error, "\"jid\" holds other characters than printable ASCII");
    return true;
}

static bool queue_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    envelope->queue = "";
    if (is_unset(value) || span_is(value, "\"\""))
        return true;
    envelope->queue = text_read(envelope, value, "\"queue\"", 1, ENVELOPE_QUEUE_BYTES_MAX, error);
    return envelope->queue != NULL;
}

/* --- resources ----------------------------------------------------------------------------------------------- */

/* Keeps the list sorted, so that all tasks lock in one order, and each resource once. */
static void resource_insert(struct envelope *envelope, const char *resource)
{
    unsigned place = envelope->resource_count;
    while (place > 0 && strcmp(envelope->resources[place - 1], resource) > 0)
        place--;
    if (place > 0 && strcmp(envelope->resources[place - 1], resource) == 0)
        return;
    memmove(&envelope->resources[place + 1], &envelope->resources[place],
            (envelope->resource_count - place) * sizeof envelope->resources[0]);
    envelope->resources[place] = resource;
    envelope->resource_count++;
}

static bool resource_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    const char *resource = text_read(envelope, value, "\"resource\"", 1, ENVELOPE_RESOURCE_BYTES_MAX, error);
    if (resource == NULL)
        return false;
    if (strncmp(resource, "hf:", 3) == 0)
        return error_set(error, "\"resource\" begins with \"hf:\", which is kept for Holdfast's own keys");
    resource_insert(envelope, resource);
    return true;
}

static bool resources_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (is_unset(value))
        return true;
    if (value.bytes[0] != '[')
        return resource_read(envelope, value, error);
    struct json_scan scan;
    struct json_item item;
    size_t count = 0;
    json_scan_begin(&scan, value.bytes, value.length,
                    &(struct envelope_limits){.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX}, NULL);
    invariant(json_scan_open(&scan, '['));
    while (json_scan_next(&scan, &item)) {
        if (++count > ENVELOPE_RESOURCES_MAX)
            return error_set(error, "\"resource\" lists more than %d resources", ENVELOPE_RESOURCES_MAX);
        if (!resource_read(envelope, item.value, error))
            return false;
    }
    return true;
}

/* --- retry --------------------------------------------------------------------------------------------------- */

/* An integer, or a string of one; anything beyond ENVELOPE_RETRIES_MAX is that, anything below zero is -1. */
static bool count_read(struct text_span value, int *out)
{
    struct text_span contents = json_text_contents(value);
    const char *at = contents.bytes != NULL ? contents.bytes : value.bytes;
    size_t length = contents.bytes != NULL ? contents.length : value.length;
    bool negative = length > 0 && *at == '-';
    int count = 0;
    if (length == (negative ? 1 : 0))
        return false;
    for (size_t i = negative ? 1 : 0; i < length; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        count = count * 10 + (at[i] - '0');
        if (count > ENVELOPE_RETRIES_MAX)
            count = ENVELOPE_RETRIES_MAX;
    }
    *out = negative && count > 0 ? -1 : count;
    return true;
}

/* Ruby takes every value but false and null for "yes"; only a number sets the maximum. "false" in quotes is what some
 * encoders make of false. */
static void retry_read(struct envelope *envelope, struct text_span value)
{
    int count = ENVELOPE_RETRIES_DEFAULT;
    envelope->retry_off =
        value.bytes != NULL && (span_is(value, "false") || span_is(value, "null") || span_is(value, "\"false\""));
    if (value.bytes != NULL && count_read(value, &count) && count < 0)
        count = 0;
    envelope->retry_max = (unsigned)count;
}

static void retry_count_read(struct envelope *envelope, struct text_span value)
{
    int count = 0;
    envelope->was_retried = value.bytes != NULL && count_read(value, &count) && count >= 0;
    envelope->retry_count = envelope->was_retried ? (unsigned)count : 0;
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

static void envelope_reset(struct envelope *envelope, const char *text, size_t length)
{
    envelope->text = (struct text_span){text, length};
    envelope->member_count = 0;
    envelope->resource_count = 0;
    envelope->args = (struct text_span){NULL, 0};
    envelope->class_name = envelope->jid = envelope->queue = "";
    buffer_clear(&envelope->texts);
}

bool envelope_parse(struct envelope *envelope, const char *text, size_t length, const struct envelope_limits *limits,
                    struct error *error)
{
    struct text_span fields[FIELD_COUNT] = {{NULL, 0}};
    envelope_reset(envelope, text, length);
    if (!members_scan(envelope, limits, fields, error))
        return false;
    buffer_reserve(&envelope->texts, fields[FIELD_CLASS].length + fields[FIELD_JID].length +
                                         fields[FIELD_QUEUE].length + fields[FIELD_RESOURCE].length);
    retry_read(envelope, fields[FIELD_RETRY]);
    retry_count_read(envelope, fields[FIELD_RETRY_COUNT]);
    envelope->dead_off = fields[FIELD_DEAD].bytes != NULL && span_is(fields[FIELD_DEAD], "false");
    return class_read(envelope, fields[FIELD_CLASS], error) && args_read(envelope, fields[FIELD_ARGS], error) &&
           jid_read(envelope, fields[FIELD_JID], error) && queue_read(envelope, fields[FIELD_QUEUE], error) &&
           resources_read(envelope, fields[FIELD_RESOURCE], error);
}

void envelope_fini(struct envelope *envelope)
{
    buffer_fini(&envelope->texts);
}
