/* Finds values by counting brackets outside of texts; jansson decodes them. */
#include "jobs/arguments/arguments.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *blanks_skip(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

struct argument argument_of(const char *text, size_t length)
{
    const char *end = text + length;
    text = blanks_skip(text, end);
    while (end > text && is_blank(end[-1]))
        end--;
    return (struct argument){text, (size_t)(end - text)};
}

char argument_kind(struct argument argument)
{
    char first = argument.length > 0 ? argument.text[0] : '\0';
    if (first == '-' || (first >= '0' && first <= '9'))
        return '0';
    return first != '\0' && strchr("{[\"ntf", first) != NULL ? first : '\0';
}

/* From after the opening quote to after the closing one. NULL: there is none. */
static const char *text_skip(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\')
            at++;
    }
    return NULL;
}

/* The end of the value that begins at `at`: the next comma, colon or closing bracket of its level. NULL: it does not
 * end. */
static const char *value_skip(const char *at, const char *end)
{
    for (size_t depth = 0; at != NULL && at < end;) {
        char c = *at;
        if (depth == 0 && (c == ',' || c == ':' || c == ']' || c == '}'))
            return at;
        if (c == '[' || c == '{')
            depth++;
        if (c == ']' || c == '}')
            depth--;
        at = c == '"' ? text_skip(at + 1, end) : at + 1;
    }
    return NULL;
}

/* Takes the value at `*at`, which one of `ends` must follow; moves `*at` there. */
static int value_take(const char **at, const char *end, const char *ends, struct argument *value)
{
    const char *behind = value_skip(*at, end);
    if (behind == NULL || strchr(ends, *behind) == NULL)
        return 0;
    *value = argument_of(*at, (size_t)(behind - *at));
    *at = behind;
    return value->length > 0;
}

int argument_element(struct argument array, unsigned index, struct argument *element)
{
    const char *at = array.text, *end = array.text + array.length;
    if (argument_kind(array) != '[')
        return 0;
    do {
        at++; /* skips the bracket, then the commas */
        if (!value_take(&at, end, ",]", element))
            return 0;
        if (index == 0)
            return 1;
        index--;
    } while (*at == ',');
    return 0;
}

int argument_member(struct argument object, size_t *position, struct argument *key, struct argument *value)
{
    const char *at = object.text + *position, *end = object.text + object.length;
    if (argument_kind(object) != '{' || at >= end || *at == '}')
        return 0;
    at++; /* skips the brace, then the commas */
    if (!value_take(&at, end, ":", key))
        return 0;
    at++;
    if (!value_take(&at, end, ",}", value))
        return 0;
    *position = (size_t)(at - object.text);
    return 1;
}

struct argument argument_rest(struct argument array, unsigned first)
{
    struct argument element;
    if (!argument_element(array, first, &element))
        return (struct argument){"", 0};
    return argument_of(element.text, (size_t)(array.text + array.length - 1 - element.text));
}

char *argument_text(struct argument argument)
{
    json_t *value = argument_kind(argument) == '"'
                        ? json_loadb(argument.text, argument.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                        : NULL;
    char *text = NULL;
    if (value != NULL && strlen(json_string_value(value)) == json_string_length(value))
        text = strdup(json_string_value(value));
    json_decref(value);
    return text;
}

int argument_whole(struct argument argument, int64_t *value)
{
    char digits[24], *rest;
    if (argument_kind(argument) != '0' || argument.length >= sizeof digits)
        return 0;
    memcpy(digits, argument.text, argument.length);
    digits[argument.length] = '\0';
    errno = 0;
    *value = strtoll(digits, &rest, 10);
    return errno == 0 && *rest == '\0';
}

int argument_number(struct argument argument, double *value)
{
    json_t *number = argument_kind(argument) == '0'
                         ? json_loadb(argument.text, argument.length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL)
                         : NULL;
    int is_number = json_is_number(number);
    if (is_number)
        *value = json_number_value(number);
    json_decref(number);
    return is_number;
}
