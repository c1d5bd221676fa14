/* Taking a line of a log apart, in its own copy of the bytes: the blanks behind words become their ends. */
#include "worker/history/log_line.h"

#include <string.h>
#include <time.h>

#define CUT_MARK           " [cut]"
#define JSON_CUT_MARK      "[cut]\"}"
#define JSON_LIST_CUT_MARK "[cut]\"]}"

/* What is left of the line. */
struct cursor {
    char *at;
    bool is_broken; /* a quote without an end */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* That many digits; -1 when they are not there. */
static int digits_read(const char *text, unsigned count)
{
    int number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_digit(text[i]))
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    return number;
}

/* 2026-11-22T00:39:05.123Z, with up to six digits behind the point, or none and no point. */
static bool time_read(const char *text, struct wall_time *at)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    for (size_t i = 0; shape[i] != '\0'; i++)
        if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i])
            return false;
    struct tm utc = {.tm_year = digits_read(text, 4) - 1900,
                     .tm_mon = digits_read(text + 5, 2) - 1,
                     .tm_mday = digits_read(text + 8, 2),
                     .tm_hour = digits_read(text + 11, 2),
                     .tm_min = digits_read(text + 14, 2),
                     .tm_sec = digits_read(text + 17, 2)};
    const char *rest = text + sizeof shape - 1;
    int64_t fraction_us = 0, unit = US_PER_S / 10;
    if (*rest == '.')
        for (rest++; is_digit(*rest) && unit > 0; rest++, unit /= 10)
            fraction_us += (*rest - '0') * unit;
    if (strcmp(rest, "Z") != 0 || utc.tm_mon < 0 || utc.tm_mon > 11 || utc.tm_mday < 1 || utc.tm_mday > 31)
        return false;
    at->us = (int64_t)timegm(&utc) * US_PER_S + fraction_us;
    return true;
}

/* The next word, ended by a blank or the line; NULL when there is none. */
static char *word_take(struct cursor *cursor)
{
    while (*cursor->at == ' ')
        cursor->at++;
    if (*cursor->at == '\0')
        return NULL;
    char *word = cursor->at;
    cursor->at += strcspn(word, " ");
    if (*cursor->at != '\0')
        *cursor->at++ = '\0';
    return word;
}

/* What is within quotes, in place; NULL when the closing one is missing. */
static char *quoted_take(struct cursor *cursor)
{
    char *from = cursor->at + 1, *to = from;
    for (char *at = from; *at != '\0'; at++) {
        if (*at == '"') {
            cursor->at = at + 1;
            *to = '\0';
            return from;
        }
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        *to++ = *at;
    }
    return NULL;
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !is_digit(text[i]) && text[i] != '_')
            return false;
    return length > 0;
}

/* False when it has no value: a quote without an end. */
static bool pair_keep(struct log_line *line, struct cursor *cursor, struct log_pair pair)
{
    cursor->is_broken = pair.value == NULL;
    if (pair.value != NULL && line->pair_count < LOG_LINE_PAIRS_MAX)
        line->pairs[line->pair_count++] = pair;
    return pair.value != NULL;
}

/* False at the end of the line, and where it makes no sense any more. */
static bool pair_take(struct log_line *line, struct cursor *cursor)
{
    while (*cursor->at == ' ')
        cursor->at++;
    size_t length = strcspn(cursor->at, "= ");
    if (*cursor->at == '\0')
        return false;
    if (cursor->at[length] != '=' || !is_name(cursor->at, length))
        return word_take(cursor) != NULL; /* skips it */
    struct log_pair pair = {.key = cursor->at};
    cursor->at[length] = '\0';
    cursor->at += length + 1;
    pair.value = cursor->at;
    if (*cursor->at == '"')
        pair.value = quoted_take(cursor);
    else if (*cursor->at == ' ' || *cursor->at == '\0')
        pair.value = "";
    else
        word_take(cursor);
    return pair_keep(line, cursor, pair);
}

/* The next string or word of a JSON object: a key, or a value of the last key. Its end is where the line makes no sense
 * any more. */
static bool token_take(struct log_line *line, struct cursor *cursor, const char **key)
{
    cursor->at += strspn(cursor->at, "{}[],: ");
    if (*cursor->at == '\0')
        return false;
    char *token = cursor->at;
    bool is_string = *token == '"';
    if (is_string) {
        token = quoted_take(cursor);
    } else {
        cursor->at += strcspn(token, ",]} ");
        if (*cursor->at != '\0')
            *cursor->at++ = '\0';
    }
    if (!is_string || token == NULL || *cursor->at != ':')
        return pair_keep(line, cursor, (struct log_pair){*key, is_string || strcmp(token, "null") != 0 ? token : "-"});
    *key = token;
    return true;
}

/* The mark stands behind what is left of the last value. */
static bool has_ending(const char *text, size_t length, const char *ending)
{
    size_t own = strlen(ending);
    return length >= own && memcmp(text + length - own, ending, own) == 0;
}

static bool json_parse(struct log_line *line, struct cursor *cursor)
{
    const char *key = "";
    while (token_take(line, cursor, &key))
        ;
    line->level = log_line_value(line, "level");
    line->event = log_line_value(line, "msg");
    if (line->is_cut && line->pair_count > 0 && strcmp(line->pairs[line->pair_count - 1].value, "[cut]") == 0)
        line->pair_count--; /* it stood alone */
    return time_read(log_line_value(line, "time"), &line->at);
}

static bool text_parse(struct log_line *line, struct cursor *cursor)
{
    const char *time = word_take(cursor);
    line->level = word_take(cursor);
    line->event = word_take(cursor);
    if (time == NULL || line->level == NULL || line->event == NULL || !time_read(time, &line->at))
        return false;
    while (pair_take(line, cursor))
        ;
    return true;
}

bool log_line_parse(struct log_line *line, const char *text, size_t length)
{
    bool is_json = length > 0 && text[0] == '{';
    line->pair_count = 0;
    line->is_cut = has_ending(text, length, is_json ? JSON_CUT_MARK : CUT_MARK) ||
                   (is_json && has_ending(text, length, JSON_LIST_CUT_MARK));
    if (length > LOG_LINE_BYTES_MAX || (length > 0 && memchr(text, '\0', length) != NULL))
        return false;
    if (line->is_cut && !is_json)
        length -= strlen(CUT_MARK);
    memcpy(line->bytes, text, length);
    line->bytes[length] = '\0';
    struct cursor cursor = {.at = line->bytes};
    bool is_sound = is_json ? json_parse(line, &cursor) : text_parse(line, &cursor);
    if (!is_sound || !is_name(line->event, strlen(line->event)))
        return false;
    if (line->is_cut && !cursor.is_broken && line->pair_count > 0)
        line->pair_count--;
    line->is_cut |= cursor.is_broken;
    return true;
}

const char *log_line_value(const struct log_line *line, const char *key)
{
    for (unsigned i = 0; i < line->pair_count; i++)
        if (strcmp(line->pairs[i].key, key) == 0)
            return line->pairs[i].value;
    return "";
}

int64_t log_line_thousandths(const struct log_line *line, const char *key)
{
    const char *text = log_line_value(line, key);
    int64_t number = 0;
    unsigned digits = 0, behind = 0;
    for (; is_digit(*text) && digits < 15; text++, digits++)
        number = 10 * number + (*text - '0');
    if (digits == 0 || is_digit(*text))
        return -1;
    bool has_point = *text == '.';
    text += has_point;
    for (; behind < 3; behind++)
        number = 10 * number + (has_point && is_digit(*text) ? *text++ - '0' : 0);
    while (has_point && is_digit(*text))
        text++;
    return *text == '\0' ? number : -1;
}

bool log_line_time(const struct log_line *line, const char *key, struct wall_time *at)
{
    return time_read(log_line_value(line, key), at);
}
