#include "worker/print/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/real.h"
#include "queue/envelope.h"

static void value_begin(struct json_writer *json, const char *name)
{
    if (json->needs_comma)
        buffer_append(json->out, ",", 1);
    json->needs_comma = true;
    if (name != NULL)
        buffer_format(json->out, "\"%s\":", name);
}

void json_open(struct json_writer *json, const char *name, char opening)
{
    value_begin(json, name);
    buffer_append(json->out, &opening, 1);
    json->needs_comma = false;
}

void json_close(struct json_writer *json, char closing)
{
    buffer_append(json->out, &closing, 1);
    json->needs_comma = true;
}

struct json_writer json_begin(struct buffer *out)
{
    struct json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    return json;
}

void json_finish(struct json_writer *json)
{
    json_close(json, '}');
    json_print(json->out);
}

void json_bytes(struct json_writer *json, const char *name, const char *bytes, size_t length)
{
    value_begin(json, name);
    if (bytes == NULL)
        buffer_append_text(json->out, "null");
    else
        envelope_append_string(json->out, bytes, length);
}

void json_text(struct json_writer *json, const char *name, const char *text)
{
    json_bytes(json, name, text, text != NULL ? strlen(text) : 0);
}

void json_texts(struct json_writer *json, const char *name, char *const *texts, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++)
        json_text(json, NULL, texts[i]);
    json_close(json, ']');
}

void json_number(struct json_writer *json, const char *name, int64_t number)
{
    value_begin(json, name);
    buffer_format(json->out, "%lld", (long long)number);
}

/* A plugin may have set a locale of its own, in which a point is something else. */
static void point_put(char *text)
{
    for (; *text != '\0'; text++)
        if (strchr("0123456789+-e", *text) == NULL)
            *text = '.';
}

void json_decimal(struct json_writer *json, const char *name, double number)
{
    char text[40] = "";
    if (!isfinite(number)) {
        json_nothing(json, name);
        return;
    }
    for (int digits = 6; digits <= 17; digits = digits < 15 ? 15 : digits + 1) {
        snprintf(text, sizeof text, "%.*g", digits, number + 0.0); /* there is only one 0 */
        point_put(text);
        if (real_read(text, NULL) == number)
            break;
    }
    value_begin(json, name);
    buffer_append_text(json->out, text);
}

void json_seconds(struct json_writer *json, const char *name, int64_t us)
{
    value_begin(json, name);
    envelope_append_time(json->out, (struct wall_time){us});
}

void json_truth(struct json_writer *json, const char *name, bool truth)
{
    value_begin(json, name);
    buffer_append_text(json->out, truth ? "true" : "false");
}

void json_nothing(struct json_writer *json, const char *name)
{
    value_begin(json, name);
    buffer_append_text(json->out, "null");
}

void json_number_if(struct json_writer *json, const char *name, bool is_known, int64_t number)
{
    is_known ? json_number(json, name, number) : json_nothing(json, name);
}

void json_seconds_if(struct json_writer *json, const char *name, bool is_known, int64_t us)
{
    is_known ? json_seconds(json, name, us) : json_nothing(json, name);
}

void json_truth_if(struct json_writer *json, const char *name, bool is_known, bool truth)
{
    is_known ? json_truth(json, name, truth) : json_nothing(json, name);
}

void json_number_or_nothing(struct json_writer *json, const char *name, int64_t number)
{
    json_number_if(json, name, number >= 0, number);
}

void json_text_or_nothing(struct json_writer *json, const char *name, const char *text)
{
    json_text(json, name, text != NULL && text[0] != '\0' ? text : NULL);
}

void json_raw(struct json_writer *json, const char *name, const char *bytes, size_t length)
{
    if (bytes == NULL) {
        json_nothing(json, name);
        return;
    }
    value_begin(json, name);
    buffer_append(json->out, bytes, length);
}

/* The code point at `at` if terminals obey it: how many bytes it has, else 0. */
static size_t obeyed(const unsigned char *at, size_t left, unsigned *point)
{
    if (at[0] == 0x7f) {
        *point = 0x7f;
        return 1;
    }
    if (left >= 2 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
        *point = at[1];
        return 2;
    }
    if (left < 3 || at[0] != 0xe2 || (at[1] != 0x80 && at[1] != 0x81))
        return 0;
    *point = 0x2000U + ((at[1] & 0x3fU) << 6) + (at[2] & 0x3fU);
    bool reorders = (*point >= 0x200b && *point <= 0x200f) || (*point >= 0x2028 && *point <= 0x202e) ||
                    (*point >= 0x2060 && *point <= 0x206f);
    return reorders ? 3 : 0;
}

void json_append_defused(struct buffer *out, const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    size_t copied = 0;
    for (size_t i = 0; i < length;) {
        unsigned point = 0;
        size_t size = at[i] >= ' ' ? obeyed(at + i, length - i, &point) : 1;
        if (size > 0) {
            buffer_append(out, bytes + copied, i - copied);
            if (at[i] < ' ')
                buffer_append(out, " ", 1);
            else
                buffer_format(out, "\\u%04x", point);
            copied = i + size;
        }
        i += size > 0 ? size : 1;
    }
    buffer_append(out, bytes + copied, length - copied);
}

/* A double has fifteen decimal digits, and moments to the microsecond one more. */
static bool is_exact(const char *number, size_t length)
{
    char text[40];
    size_t digits = 0;
    if (length >= sizeof text)
        return false;
    memcpy(text, number, length);
    text[length] = '\0';
    for (const char *at = text; *at != '\0' && *at != 'e' && *at != 'E'; at++)
        digits += *at >= '0' && *at <= '9' && (digits > 0 || *at != '0');
    double value = real_read(text, NULL);
    return digits <= (strchr(text, '.') != NULL ? 16 : 15) && isfinite(value) && (value != 0 || digits == 0);
}

static size_t string_length(const char *at, const char *end)
{
    const char *from = at++;
    while (at < end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    return at < end ? (size_t)(at - from) + 1 : (size_t)(end - from);
}

void json_append_exact(struct buffer *out, const char *bytes, size_t length)
{
    const char *at = bytes, *end = bytes + length;
    while (at < end) {
        size_t size = 0;
        while (at + size < end && at[size] != '\0' && strchr("+-.0123456789eE", at[size]) != NULL)
            size++;
        bool is_number = size > 0 && at[0] != 'e'; /* the end of true or false */
        if (size == 0)
            size = *at == '"' ? string_length(at, end) : 1;
        const char *quote = is_number && !is_exact(at, size) ? "\"" : "";
        buffer_append_text(out, quote);
        buffer_append(out, at, size);
        buffer_append_text(out, quote);
        at += size;
    }
}

void json_print(struct buffer *out)
{
    struct buffer text = {0};
    json_append_defused(&text, out->bytes, out->length);
    buffer_append(&text, "\n", 1);
    fwrite(text.bytes, 1, text.length, stdout);
    buffer_fini(&text);
    buffer_fini(out);
}
