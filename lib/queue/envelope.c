/* Parsing a task.
 *
 * Design. One pass of the scanner checks the whole text and yields the top-level members. A member that we read goes
 * into its slot of a small table. No name may occur twice, because different readers understand that differently: a
 * slot is filled once, and a name without a slot is compared with those before it. Once the whole text is known to be
 * sound, one function for each slot reads it.
 *
 * Strings that leave as C strings go into `texts`. An unescaped string with its NUL is never longer than its raw text
 * with the quotes, so the room for all of them is known and reserved before the first one is written. Pointers into
 * `texts` stay valid while it fills, and a used envelope needs no further memory for tasks of the usual size.
 *
 * Invariant: after a successful parse every span lies inside `text` and every string inside `texts`. Pure; any
 * thread, one at a time per envelope. */
#include "queue/envelope.h"

#include <math.h>

#include "base/invariant.h"
#include "base/real.h"
#include "base/utf8.h"
#include "queue/base64.h"
#include "queue/json_scan.h"
#include "queue/keys.h"

/* Sorted by the length of the name, so that a member is compared only with fields of its length. */
enum field {
    FIELD_AT,
    FIELD_JID,
    FIELD_BID,
    FIELD_ARGS,
    FIELD_DEAD,
    FIELD_CLASS,
    FIELD_QUEUE,
    FIELD_RETRY,
    FIELD_ENCRYPT,
    FIELD_LIST,
    FIELD_FENCE,
    FIELD_RESOURCE,
    FIELD_RETRY_FOR,
    FIELD_FAILED_AT,
    FIELD_BACKTRACE,
    FIELD_UNIQUE,
    FIELD_PARKED,
    FIELD_CREATED_AT,
    FIELD_RETRIED_AT,
    FIELD_EXPIRES_IN,
    FIELD_EXPIRES_AT,
    FIELD_RETRY_COUNT,
    FIELD_RETRY_QUEUE,
    FIELD_ENQUEUED_AT,
    FIELD_ERROR_CLASS,
    FIELD_TRACEPARENT,
    FIELD_ERROR_MESSAGE,
    FIELD_UNSERVED_AT,
    FIELD_ERROR_BACKTRACE,
    FIELD_COUNT,
};

struct field_name {
    struct text_span text;
    bool is_own; /* workers add it */
};

#define FIELD_NAME(name)                                                                                               \
    {                                                                                                                  \
        .text = {.bytes = (name), .length = sizeof(name) - 1 }                                                         \
    }
#define FIELD_OWN(name)                                                                                                \
    {                                                                                                                  \
        .text = {.bytes = (name), .length = sizeof(name) - 1}, .is_own = true                                          \
    }
static const struct field_name field_names[FIELD_COUNT] = {
    [FIELD_AT] = FIELD_NAME("at"),
    [FIELD_JID] = FIELD_OWN("jid"),
    [FIELD_BID] = FIELD_NAME("bid"),
    [FIELD_ARGS] = FIELD_NAME("args"),
    [FIELD_DEAD] = FIELD_NAME("dead"),
    [FIELD_CLASS] = FIELD_NAME("class"),
    [FIELD_QUEUE] = FIELD_OWN("queue"),
    [FIELD_RETRY] = FIELD_NAME("retry"),
    [FIELD_ENCRYPT] = FIELD_NAME("encrypt"),
    [FIELD_LIST] = FIELD_OWN("hf_list"),
    [FIELD_FENCE] = FIELD_OWN("hf_fence"),
    [FIELD_RESOURCE] = FIELD_NAME("resource"),
    [FIELD_RETRY_FOR] = FIELD_NAME("retry_for"),
    [FIELD_FAILED_AT] = FIELD_OWN("failed_at"),
    [FIELD_BACKTRACE] = FIELD_NAME("backtrace"),
    [FIELD_UNIQUE] = FIELD_NAME("hf_unique"),
    [FIELD_PARKED] = FIELD_OWN("hf_parked"),
    [FIELD_CREATED_AT] = FIELD_NAME("created_at"),
    [FIELD_RETRIED_AT] = FIELD_OWN("retried_at"),
    [FIELD_EXPIRES_IN] = FIELD_NAME("expires_in"),
    [FIELD_EXPIRES_AT] = FIELD_OWN("expires_at"),
    [FIELD_RETRY_COUNT] = FIELD_OWN("retry_count"),
    [FIELD_RETRY_QUEUE] = FIELD_NAME("retry_queue"),
    [FIELD_ENQUEUED_AT] = FIELD_OWN("enqueued_at"),
    [FIELD_ERROR_CLASS] = FIELD_OWN("error_class"),
    [FIELD_TRACEPARENT] = FIELD_NAME("traceparent"),
    [FIELD_ERROR_MESSAGE] = FIELD_OWN("error_message"),
    [FIELD_UNSERVED_AT] = FIELD_OWN("hf_unserved_at"),
    [FIELD_ERROR_BACKTRACE] = FIELD_OWN("error_backtrace"),
};

/* For each length, the first field whose name is at least that long. */
enum { FIELD_LENGTH_MAX = 15 };
static const unsigned char field_of_length[FIELD_LENGTH_MAX + 1] = {
    [3] = FIELD_JID,
    [4] = FIELD_ARGS,
    [5] = FIELD_CLASS,
    [6] = FIELD_ENCRYPT,
    [7] = FIELD_ENCRYPT,
    [8] = FIELD_FENCE,
    [9] = FIELD_RETRY_FOR,
    [10] = FIELD_CREATED_AT,
    [11] = FIELD_RETRY_COUNT,
    [12] = FIELD_ERROR_MESSAGE,
    [13] = FIELD_ERROR_MESSAGE,
    [14] = FIELD_UNSERVED_AT,
    [15] = FIELD_ERROR_BACKTRACE,
};

/* What the members of workers may add to the limits. */
#define OWN_BYTES ((size_t)ENVELOPE_OWN_MEMBERS * ENVELOPE_OWN_BYTES_MAX)

/* A string of n bytes is written with at most 6n bytes and two quotes: \u0041. */
enum { ESCAPE_BYTES_MAX = 6 };

/* --- members that say how a task is treated, in every form that producers write; the scanner has checked them ----- */

static bool envelope_span_is(struct text_span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.bytes, text, span.length) == 0;
}

/* Absent, or null, which producers write for "not set". */
static bool envelope_is_unset(struct text_span value)
{
    return value.bytes == NULL || envelope_span_is(value, "null");
}

/* From here on a time is in milliseconds: in seconds it would lie in the year 5138. */
#define MS_FROM 1e11
/* The year 9999, in seconds; anything later is not a time. */
#define SECONDS_MAX 253402300799.0

enum { NUMBER_BYTES_MAX = 40 };

/* The text of the value, without the quotes of a string. */
static struct text_span bare(struct text_span value)
{
    struct text_span contents = json_text_contents(value);
    return contents.bytes != NULL ? contents : value;
}

/* --- retry --------------------------------------------------------------------------------------------------- */

/* Reads an integer, or a string of one; limits its size to ENVELOPE_RETRIES_MAX. */
static bool count_read(struct text_span value, int *out)
{
    struct text_span digits = bare(value);
    bool negative = digits.length > 0 && *digits.bytes == '-';
    int count = 0;
    if (digits.length == (negative ? 1 : 0))
        return false;
    for (size_t i = negative ? 1 : 0; i < digits.length; i++) {
        if (digits.bytes[i] < '0' || digits.bytes[i] > '9')
            return false;
        count = count * 10 + (digits.bytes[i] - '0');
        if (count > ENVELOPE_RETRIES_MAX)
            count = ENVELOPE_RETRIES_MAX;
    }
    *out = negative ? -count : count;
    return true;
}

/* Neither unset nor false. */
static bool envelope_is_truthy(struct text_span value)
{
    return !envelope_is_unset(value) && !envelope_span_is(value, "false");
}

/* Ruby takes every value but false and null for "yes"; only a number sets the maximum. Some encoders write false as
 * "false" in quotes. */
static void envelope_retry_read(struct envelope *envelope, struct text_span retry, struct text_span retry_count)
{
    int max = 0, count = 0;
    bool is_given = retry.bytes != NULL;
    envelope->retry_off = is_given && (!envelope_is_truthy(retry) || envelope_span_is(retry, "\"false\""));
    envelope->retry_counted = is_given && count_read(retry, &max);
    if (!envelope->retry_counted)
        max = ENVELOPE_RETRIES_DEFAULT;
    envelope->retry_max = max > 0 ? (unsigned)max : 0;
    envelope->was_retried = retry_count.bytes != NULL && count_read(retry_count, &count);
    envelope->retry_count = envelope->was_retried ? count : 0;
}

unsigned envelope_attempt(const struct envelope *envelope)
{
    if (!envelope->was_retried)
        return 0;
    return envelope->retry_count > 0 ? (unsigned)envelope->retry_count + 1 : 1;
}

static unsigned envelope_backtrace_read(struct text_span value)
{
    int lines = 0;
    if (value.bytes == NULL)
        return 0;
    if (envelope_span_is(bare(value), "true"))
        return ENVELOPE_BACKTRACE_ALL;
    if (!count_read(value, &lines) || lines < 0)
        return 0;
    return lines < ENVELOPE_BACKTRACE_ALL ? (unsigned)lines : ENVELOPE_BACKTRACE_ALL;
}

/* --- times --------------------------------------------------------------------------------------------------- */

/* Nearly all times have this form: digits, perhaps a point and more digits, so few that the digits as an integer and
 * the power of ten are exact, and their quotient equals the result of strtod. Takes a tenth of its time. */
static bool short_number_read(struct text_span digits, double *out)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    enum { DIGITS_MAX = 15 };
    int64_t number = 0;
    size_t point = digits.length;
    if (digits.length > DIGITS_MAX + 1 || digits.bytes[digits.length - 1] == '.')
        return false;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.bytes[i] >= '0' && digits.bytes[i] <= '9')
            number = number * 10 + (digits.bytes[i] - '0');
        else if (digits.bytes[i] == '.' && point == digits.length)
            point = i;
        else
            return false;
    }
    size_t decimals = point < digits.length ? digits.length - point - 1 : 0;
    *out = (double)number / powers[decimals];
    return true;
}

/* Reads a decimal number, or a string of one; not negative. */
static bool number_read(struct text_span value, double *out)
{
    char text[NUMBER_BYTES_MAX + 1];
    struct text_span digits = value.bytes != NULL ? bare(value) : value;
    if (digits.length < 1 || digits.length > NUMBER_BYTES_MAX || digits.bytes[0] < '0' || digits.bytes[0] > '9')
        return false;
    if (short_number_read(digits, out))
        return true;
    memcpy(text, digits.bytes, digits.length);
    text[digits.length] = '\0';
    /* strtod also accepts hexadecimal digits and names. */
    if (strspn(text, "0123456789.eE+-") != digits.length)
        return false;
    char *rest = NULL;
    *out = real_read(text, &rest);
    return *rest == '\0' && isfinite(*out);
}

/* Seconds (60, 0.5, "60") in microseconds; -1 if the value is negative or not a number. */
static int64_t envelope_seconds_read(struct text_span value)
{
    double seconds = 0;
    if (!number_read(value, &seconds))
        return -1;
    return llround(fmin(seconds, SECONDS_MAX) * (double)US_PER_S);
}

/* A point in time: seconds, or milliseconds if it is 1e11 or more, as a number or as a string of one. */
static struct wall_time envelope_time_read(struct text_span value)
{
    double seconds = 0;
    if (value.bytes == NULL || !number_read(value, &seconds))
        return (struct wall_time){0};
    if (seconds >= MS_FROM)
        seconds /= (double)MS_PER_S;
    return (struct wall_time){seconds <= SECONDS_MAX ? llround(seconds * (double)US_PER_S) : 0};
}

static struct wall_time time_after(struct wall_time from, int64_t us)
{
    return (struct wall_time){from.us + us};
}

/* Whether the record of a failure says that the task was started: by a retry_count, or, if its lock was lost, by
 * failed_at alone. The record of a task that was never started has expires_at if the task expires. */
static bool envelope_was_started(const struct envelope *envelope)
{
    return envelope->was_retried || (envelope->failed_at.us != 0 && envelope->expires_at.us == 0);
}

struct wall_time envelope_expiry(const struct envelope *envelope, int64_t class_us)
{
    const struct wall_time never = {0};
    struct wall_time created = envelope->created_at, enqueued = envelope->enqueued_at;
    if (envelope_was_started(envelope))
        return never;
    if (envelope->expires_at.us != 0)
        return envelope->expires_at;
    if (created.us == 0 && enqueued.us == 0)
        return never;
    if (envelope->expires_in_us > 0)
        return time_after(created.us != 0 ? created : enqueued, envelope->expires_in_us);
    return class_us > 0 ? time_after(enqueued.us != 0 ? enqueued : created, class_us) : never;
}

struct wall_time envelope_expiry_when_due(const struct envelope *envelope, struct wall_time due)
{
    bool is_said = envelope->expires_at.us != 0 || envelope_was_started(envelope);
    return is_said || envelope->expires_in_us <= 0 ? (struct wall_time){0} : time_after(due, envelope->expires_in_us);
}

/* --- top-level members --------------------------------------------------------------------------------------- */

/* Compares names as text only after a name with an escape, because that takes far longer than comparing bytes. */
static bool names_equal(struct text_span a, struct text_span b, bool escapes)
{
    if (escapes)
        return json_text_equal(a, b);
    /* Names of one length usually differ in their first byte, which saves the call. */
    return a.length == b.length &&
           (a.length == 0 || (a.bytes[0] == b.bytes[0] && memcmp(a.bytes, b.bytes, a.length) == 0));
}

/* FIELD_COUNT if it is none of ours. */
static enum field field_find(const struct json_item *item, bool escapes)
{
    size_t length = item->name.length;
    if (escapes) {
        enum field any = 0;
        while (any < FIELD_COUNT && !json_text_equal(field_names[any].text, item->name))
            any++;
        return any;
    }
    if (length > FIELD_LENGTH_MAX)
        return FIELD_COUNT;
    for (enum field field = field_of_length[length]; field < FIELD_COUNT && field_names[field].text.length == length;
         field++)
        if (names_equal(field_names[field].text, item->name, false))
            return field;
    return FIELD_COUNT;
}

/* How much of the text consists of members that workers added, so far. */
struct own_share {
    size_t members, bytes;
};

static void own_share_add(struct own_share *own, const struct json_item *item)
{
    size_t length = item->name.length + item->value.length + strlen("\"\":,");
    own->members++;
    own->bytes += length < ENVELOPE_OWN_BYTES_MAX ? length : ENVELOPE_OWN_BYTES_MAX;
}

static bool is_there(const struct envelope *envelope, const struct json_item *item, bool escapes)
{
    for (size_t i = 0; i < envelope->member_count; i++)
        if (names_equal(envelope->members[i].name, item->name, escapes))
            return true;
    return false;
}

static bool member_add(struct envelope *envelope, const struct json_item *item, size_t own, struct error *error)
{
    if (envelope->member_count - own == ENVELOPE_MEMBERS_MAX)
        return error_set(error, "more than %d members in the task", ENVELOPE_MEMBERS_MAX);
    if (item->name.length > ENVELOPE_MEMBER_NAME_MAX)
        return error_set(error, "a member name of more than %d bytes", ENVELOPE_MEMBER_NAME_MAX);
    envelope->members[envelope->member_count++] = (struct envelope_member){item->name, item->value};
    return true;
}

static size_t sum_bounded(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static bool size_check(size_t length, size_t own, const struct envelope_limits *limits, struct error *error)
{
    return length <= sum_bounded(limits->size, own) ||
           error_set(error, "%zu bytes long, more than the limit of %zu", length, limits->size);
}

static bool members_scan(struct envelope *envelope, const struct envelope_limits *limits,
                         struct text_span fields[FIELD_COUNT], struct error *error)
{
    struct json_scan scan;
    struct json_item item;
    struct own_share own = {0, 0};
    bool escapes = false;
    if (!size_check(envelope->text.length, OWN_BYTES, limits, error))
        return false;
    /* Both limits are checked below, once it is known what workers added. */
    struct envelope_limits outer = {.size = SIZE_MAX, .depth = limits->depth, .keys = SIZE_MAX};
    json_scan_begin(&scan, envelope->text.bytes, envelope->text.length, &outer, error);
    if (!json_scan_open(&scan, '{'))
        return false;
    while (json_scan_next(&scan, &item)) {
        escapes = escapes || item.name_escaped;
        enum field field = field_find(&item, escapes);
        bool is_own = field < FIELD_COUNT && field_names[field].is_own;
        bool is_twice = field < FIELD_COUNT ? fields[field].bytes != NULL : is_there(envelope, &item, escapes);
        if (is_twice)
            return error_set(error, "the member \"%.*s\" occurs twice", (int)item.name.length, item.name.bytes);
        if (!member_add(envelope, &item, own.members + is_own, error))
            return false;
        if (field < FIELD_COUNT)
            fields[field] = item.value;
        if (is_own)
            own_share_add(&own, &item);
    }
    if (!json_scan_end(&scan))
        return false;
    if (scan.keys - own.members > limits->keys)
        return error_set(error, "more object members than the limit of %zu", limits->keys);
    return size_check(envelope->text.length, own.bytes, limits, error);
}

/* --- strings ------------------------------------------------------------------------------------------------- */

/* Unescapes a string of `shortest` to `longest` bytes without NUL into `texts`, which has room for it. Returns it
 * NUL-terminated, or NULL. */
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

bool envelope_jid_is_sound(const char *text, size_t length)
{
    if (length < 1 || length > ENVELOPE_JID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

static bool jid_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (envelope_is_unset(value))
        return true;
    if (value.bytes[0] != '"')
        return error_set(error, "\"jid\" is not a string: ids are strings");
    envelope->jid = text_read(envelope, value, "\"jid\"", 0, ENVELOPE_JID_BYTES_MAX, error);
    if (envelope->jid == NULL)
        return false;
    size_t jid_length = strlen(envelope->jid);
    return jid_length == 0 || envelope_jid_is_sound(envelope->jid, jid_length) ||
           error_set(error, "\"jid\" holds other characters than printable ASCII");
}

static bool queue_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (envelope_is_unset(value) || envelope_span_is(value, "\"\""))
        return true;
    envelope->queue = text_read(envelope, value, "\"queue\"", 1, ENVELOPE_QUEUE_BYTES_MAX, error);
    return envelope->queue != NULL;
}

/* --- resources ----------------------------------------------------------------------------------------------- */

void envelope_resource_insert(const char **resources, unsigned *count, const char *resource)
{
    unsigned position = *count;
    while (position > 0 && strcmp(resources[position - 1], resource) > 0)
        position--;
    if (position > 0 && strcmp(resources[position - 1], resource) == 0)
        return;
    memmove(&resources[position + 1], &resources[position], (*count - position) * sizeof resources[0]);
    resources[position] = resource;
    (*count)++;
}

static bool resource_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    const char *resource = text_read(envelope, value, "\"resource\"", 1, ENVELOPE_RESOURCE_BYTES_MAX, error);
    if (resource == NULL)
        return false;
    if (strncmp(resource, "hf:", 3) == 0)
        return error_set(error, "\"resource\" begins with \"hf:\", which is kept for Holdfast's own keys");
    envelope_resource_insert(envelope->resources, &envelope->resource_count, resource);
    return true;
}

static bool resources_read(struct envelope *envelope, struct text_span value, struct error *error)
{
    if (envelope_is_unset(value))
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

/* --- how it is to be treated --------------------------------------------------------------------------------- */

/* Like text_read, but leaves out an unsuitable value and names it in `ignored`. */
static const char *text_or_none(struct envelope *envelope, struct text_span value, size_t longest,
                                bool (*is_sound)(const char *text), const char *otherwise)
{
    if (envelope_is_unset(value) || envelope_span_is(value, "\"\""))
        return "";
    const char *text = text_read(envelope, value, "", 1, longest, NULL);
    if (text != NULL && is_sound(text))
        return text;
    envelope->ignored = otherwise;
    return "";
}

static bool is_digest(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF") == ENVELOPE_UNIQUE_DIGITS && text[ENVELOPE_UNIQUE_DIGITS] == '\0';
}

static bool is_list(const char *text)
{
    return strncmp(text, "resource:", 9) == 0 || strncmp(text, "seats:", 6) == 0 || strncmp(text, "class:", 6) == 0;
}

static void treatment_read(struct envelope *envelope, const struct text_span fields[FIELD_COUNT])
{
    envelope_retry_read(envelope, fields[FIELD_RETRY], fields[FIELD_RETRY_COUNT]);
    envelope->retry_for_us = envelope_seconds_read(fields[FIELD_RETRY_FOR]);
    envelope->backtrace_given = !envelope_is_unset(fields[FIELD_BACKTRACE]);
    envelope->backtrace = envelope_backtrace_read(fields[FIELD_BACKTRACE]);
    envelope->dead_off = fields[FIELD_DEAD].bytes != NULL && envelope_span_is(fields[FIELD_DEAD], "false");
    envelope->traceparent = fields[FIELD_TRACEPARENT];
    envelope->has_batch = envelope_is_truthy(fields[FIELD_BID]);
    envelope->is_encrypted = envelope_is_truthy(fields[FIELD_ENCRYPT]);
    envelope->created_at = envelope_time_read(fields[FIELD_CREATED_AT]);
    envelope->enqueued_at = envelope_time_read(fields[FIELD_ENQUEUED_AT]);
    envelope->failed_at = envelope_time_read(fields[FIELD_FAILED_AT]);
    envelope->parked_at = envelope_time_read(fields[FIELD_PARKED]);
    envelope->unserved_at = envelope_time_read(fields[FIELD_UNSERVED_AT]);
    envelope->at = envelope_time_read(fields[FIELD_AT]);
    envelope->expires_at = envelope_time_read(fields[FIELD_EXPIRES_AT]);
    int64_t expires_in_us = envelope_seconds_read(fields[FIELD_EXPIRES_IN]);
    envelope->expires_in_us = expires_in_us > 0 ? expires_in_us : 0;
    envelope->retry_queue = text_or_none(envelope, fields[FIELD_RETRY_QUEUE], ENVELOPE_QUEUE_BYTES_MAX,
                                         queue_name_is_sound, "retry_queue is not the name of a queue");
    envelope->unique = text_or_none(envelope, fields[FIELD_UNIQUE], ENVELOPE_UNIQUE_DIGITS, is_digest,
                                    "hf_unique is not 40 hexadecimal digits");
    const char *ignored = envelope->ignored; /* members that only workers write are left out silently */
    envelope->list = text_or_none(envelope, fields[FIELD_LIST], ENVELOPE_LIST_BYTES_MAX, is_list, NULL);
    envelope->ignored = ignored;
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

static void envelope_reset(struct envelope *envelope, const char *text, size_t length)
{
    /* Blanks at the end tell twins in a sorted set apart (scripts/include/entry_add.lua). They do not count. */
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    envelope->text = (struct text_span){text, length};
    envelope->member_count = 0;
    envelope->resource_count = 0;
    envelope->args = (struct text_span){NULL, 0};
    envelope->class_name = envelope->jid = envelope->queue = envelope->retry_queue = envelope->unique = envelope->list =
        "";
    envelope->ignored = NULL;
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
                                         fields[FIELD_QUEUE].length + fields[FIELD_RESOURCE].length +
                                         fields[FIELD_RETRY_QUEUE].length + fields[FIELD_UNIQUE].length +
                                         fields[FIELD_LIST].length);
    treatment_read(envelope, fields);
    return class_read(envelope, fields[FIELD_CLASS], error) && args_read(envelope, fields[FIELD_ARGS], error) &&
           jid_read(envelope, fields[FIELD_JID], error) && queue_read(envelope, fields[FIELD_QUEUE], error) &&
           resources_read(envelope, fields[FIELD_RESOURCE], error);
}

void envelope_fini(struct envelope *envelope)
{
    buffer_fini(&envelope->texts);
}

bool envelope_find_queue(const char *text, size_t length, struct buffer *out)
{
    struct json_scan scan;
    struct json_item item;
    struct text_span queue = {NULL, 0};
    json_scan_begin(&scan, text, length,
                    &(struct envelope_limits){.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX}, NULL);
    if (!json_scan_open(&scan, '{'))
        return false;
    while (json_scan_next(&scan, &item))
        if (json_text_equal(item.name, field_names[FIELD_QUEUE].text))
            queue = item.value;
    return json_scan_end(&scan) && json_string_read(queue, out);
}

/* --- texts that are no task --------------------------------------------------------------------------------------- */

/* Records of texts that are not tasks.
 *
 * `dead` may only hold objects that look like tasks: one other entry makes the dashboards fail for the whole list.
 * So the unreadable text becomes the argument of a task of a class without a handler. The bytes can always be
 * recovered, because they may be all that is left of an order: readable as a JSON string if that is
 * possible, else in base64. Any thread. */

#define INVALID_CLASS "hf.invalid"

/* Whether a JSON string keeps the bytes. NUL could be escaped, but not every reader accepts that. */
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

/* --- the trace ---------------------------------------------------------------------------------------------------- */

bool traceparent_is_sound(const char *text, size_t length)
{
    static const char zeros[] = "00000000000000000000000000000000";
    if (length != ENVELOPE_TRACE_BYTES || memcmp(text, "00-", 3) != 0)
        return false;
    for (size_t i = 3; i < length; i++) {
        bool is_dash = i == 35 || i == 52, is_digit = strchr("0123456789abcdef", text[i]) != NULL && text[i] != '\0';
        if (is_dash ? text[i] != '-' : !is_digit)
            return false;
    }
    return memcmp(text + 3, zeros, 32) != 0 && memcmp(text + 36, zeros, 16) != 0;
}

void envelope_traceparent(const struct envelope *envelope, char traceparent[ENVELOPE_TRACE_BYTES + 1])
{
    struct text_span value = envelope->traceparent; /* sound ones need no escapes */
    bool is_sound = value.length == ENVELOPE_TRACE_BYTES + 2 && traceparent_is_sound(value.bytes + 1, value.length - 2);
    size_t length = is_sound ? ENVELOPE_TRACE_BYTES : 0;
    if (is_sound)
        memcpy(traceparent, value.bytes + 1, length);
    traceparent[length] = '\0';
}
