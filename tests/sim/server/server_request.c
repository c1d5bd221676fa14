/* Commands out of bytes: arrays of RESP2, and lines as people type them. */
#include <ctype.h>
#include <stdlib.h>

#include "tests/sim/server/server_private.h"

enum { INLINE_MAX = 64 * 1024, ARGUMENTS_MOST = INT32_MAX, BULK_MOST = 512 * 1024 * 1024 };

/* The number in the line at `*at`, which ends behind its line end; false when the line is not complete. */
static bool line_read(const struct buffer *in, size_t *at, struct text *line)
{
    const char *begin = in->bytes + *at;
    const char *end = in->length > *at ? memchr(begin, '\r', in->length - *at) : NULL;
    if (end == NULL || end + 1 >= in->bytes + in->length)
        return false;
    *line = (struct text){begin, (size_t)(end - begin)};
    *at += line->length + 2;
    return true;
}

static bool number_read(struct text line, long long *number)
{
    char digits[24];
    if (line.length < 2 || line.length > sizeof digits - 1)
        return false;
    memcpy(digits, line.bytes + 1, line.length - 1);
    digits[line.length - 1] = '\0';
    return text_integer((struct text){digits, line.length - 1}, number);
}

static enum request_found broken(const char **error, const char *text)
{
    *error = text;
    return REQUEST_BROKEN;
}

/* One argument; the bytes get their NUL when the whole command is there. */
static enum request_found bulk_read(struct server_connection *connection, size_t *at, struct text *bulk,
                                    const char **error)
{
    const struct buffer *in = &connection->in;
    struct text line;
    long long length;
    size_t begin = *at;
    if (!line_read(in, at, &line))
        return in->length - begin > INLINE_MAX ? broken(error, "too big bulk count string") : REQUEST_NOTHING;
    if (in->bytes[begin] != '$')
        return broken(error,
                      replies_format(&connection->server->replies, "expected '$', got '%c'", in->bytes[begin]).bytes);
    if (!number_read(line, &length) || length < 0 || length > BULK_MOST)
        return broken(error, "invalid bulk length");
    if (connection->user == NULL && length > 16384)
        return broken(error, "unauthenticated bulk length");
    if (in->length - *at < (size_t)length + 2)
        return REQUEST_NOTHING;
    *bulk = (struct text){in->bytes + *at, (size_t)length};
    *at += (size_t)length + 2;
    return REQUEST_COMMAND;
}

static enum request_found array_read(struct server_connection *connection, struct text **arguments, size_t *count,
                                     const char **error)
{
    struct buffer *in = &connection->in;
    size_t at = connection->read;
    struct text line;
    long long number;
    if (!line_read(in, &at, &line))
        return in->length - at > INLINE_MAX ? broken(error, "too big mbulk count string") : REQUEST_NOTHING;
    if (!number_read(line, &number) || number > ARGUMENTS_MOST)
        return broken(error, "invalid multibulk length");
    if (connection->user == NULL && number > 10)
        return broken(error, "unauthenticated multibulk length");
    *count = number < 0 ? 0 : (size_t)number;
    /* No argument takes less than six bytes. */
    size_t room = (in->length - at) / 6 + 1;
    *arguments = replies_take(&connection->server->replies, (*count < room ? *count : room) * sizeof **arguments);
    for (size_t i = 0; i < *count; i++) {
        enum request_found found = bulk_read(connection, &at, &(*arguments)[i], error);
        if (found != REQUEST_COMMAND)
            return found;
    }
    for (size_t i = 0; i < *count; i++)
        in->bytes[(size_t)((*arguments)[i].bytes - in->bytes) + (*arguments)[i].length] = '\0';
    connection->read = at;
    return REQUEST_COMMAND;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static char escaped(const char **at, const char *end)
{
    static const char letters[] = "nrtba", meant[] = "\n\r\t\b\a";
    if (end - *at > 2 && **at == 'x' && isxdigit((unsigned char)(*at)[1]) && isxdigit((unsigned char)(*at)[2])) {
        const char digits[] = {(*at)[1], (*at)[2], '\0'};
        *at += 3;
        return (char)strtoul(digits, NULL, 16);
    }
    const char *found = **at != '\0' ? strchr(letters, **at) : NULL;
    char byte = found != NULL ? meant[found - letters] : **at;
    *at += 1;
    return byte;
}

/* One word, without its quotes; false when they are not closed. */
static bool word_read(const char **at, const char *end, char *out, size_t *length)
{
    char quote = '\0';
    *length = 0;
    while (*at < end && (quote != '\0' || !isspace((unsigned char)**at))) {
        char byte = *(*at)++;
        if (quote == '\0' && (byte == '"' || byte == '\'')) {
            quote = byte;
        } else if (quote != '\0' && byte == quote) {
            if (*at < end && !isspace((unsigned char)**at))
                return false;
            quote = '\0';
        } else if (quote == '"' && byte == '\\' && *at < end) {
            out[(*length)++] = escaped(at, end);
        } else if (quote == '\'' && byte == '\\' && *at < end && **at == '\'') {
            out[(*length)++] = *(*at)++;
        } else {
            out[(*length)++] = byte;
        }
    }
    return quote == '\0';
}

static enum request_found words_read(struct server_connection *connection, struct text **arguments, size_t *count,
                                     const char **error)
{
    const struct buffer *in = &connection->in;
    struct replies *replies = &connection->server->replies;
    const char *at = in->bytes + connection->read, *end = memchr(at, '\n', in->length - connection->read);
    if (end == NULL)
        return in->length - connection->read > INLINE_MAX ? broken(error, "too big inline request") : REQUEST_NOTHING;
    size_t room = (size_t)(end - at) / 2 + 1;
    connection->read = (size_t)(end + 1 - in->bytes);
    end -= end > at && end[-1] == '\r';
    *arguments = replies_take(replies, room * sizeof **arguments);
    *count = 0;
    for (;;) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        if (at >= end)
            return REQUEST_COMMAND;
        char *word = replies_take(replies, (size_t)(end - at) + 1);
        size_t length;
        if (!word_read(&at, end, word, &length))
            return broken(error, "unbalanced quotes in request");
        word[length] = '\0';
        (*arguments)[(*count)++] = (struct text){word, length};
    }
}

enum request_found request_read(struct server_connection *connection, struct text **arguments, size_t *count,
                                const char **error)
{
    *count = 0;
    while (*count == 0) {
        if (connection->read == connection->in.length)
            return REQUEST_NOTHING;
        enum request_found found = connection->in.bytes[connection->read] == '*'
                                       ? array_read(connection, arguments, count, error)
                                       : words_read(connection, arguments, count, error);
        if (found != REQUEST_COMMAND)
            return found;
    }
    return REQUEST_COMMAND;
}
