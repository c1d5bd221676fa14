#include "worker/http/http_request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "worker/http/http_address.h"

/* --- characters ------------------------------------------------------------------------------------------------- */

static bool is_token_byte(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_token(const char *text)
{
    const char *end = text;
    while (is_token_byte((unsigned char)*end))
        end++;
    return end > text && *end == '\0';
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* The byte at *at, after %XX was decoded; moves on. -1 when that is not valid. */
static int byte_decoded(const char **at, const char *end)
{
    if (**at != '%')
        return (unsigned char)*(*at)++;
    if (end - *at < 3 || hex_digit((*at)[1]) < 0 || hex_digit((*at)[2]) < 0)
        return -1;
    int byte = hex_digit((*at)[1]) * 16 + hex_digit((*at)[2]);
    *at += 3;
    return byte;
}

/* --- the first line --------------------------------------------------------------------------------------------- */

/* In place: it never becomes longer. */
static bool path_decode(char *path)
{
    const char *end = path + strlen(path), *from = path;
    char *to = path;
    while (from < end) {
        int byte = byte_decoded(&from, end);
        if (byte < ' ' || byte == 0x7f)
            return false;
        *to++ = (char)byte;
    }
    *to = '\0';
    return true;
}

static bool segments_are_plain(const char *path)
{
    while (*path == '/') {
        size_t length = strcspn(++path, "/");
        bool is_dots = (length == 1 && path[0] == '.') || (length == 2 && path[0] == '.' && path[1] == '.');
        bool is_empty = length == 0 && path[0] == '/';
        if (is_dots || is_empty)
            return false;
        path += length;
    }
    return *path == '\0';
}

/* A proxy may send the whole address; what follows the host counts. */
static char *authority_skip(char *target)
{
    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return target;
    return strchr(strstr(target, "//") + 2, '/');
}

static bool target_read(struct http_request *request, char *target)
{
    char *path = authority_skip(target);
    if (path == NULL || path[0] != '/')
        return false;
    for (const char *byte = path; *byte != '\0'; byte++)
        if ((unsigned char)*byte <= ' ' || *byte == 0x7f)
            return false;
    char *query = strchr(path, '?');
    request->query = "";
    if (query != NULL) {
        *query = '\0';
        request->query = query + 1;
    }
    request->path = path;
    return path_decode(path) && segments_are_plain(path);
}

static enum http_method method_of(const char *name)
{
    if (strcmp(name, "GET") == 0)
        return HTTP_GET;
    if (strcmp(name, "HEAD") == 0)
        return HTTP_HEAD;
    return strcmp(name, "POST") == 0 ? HTTP_POST : HTTP_OTHER;
}

static unsigned first_line_read(struct http_request *request, char *line)
{
    char *target = strchr(line, ' ');
    char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL)
        return 400;
    *target++ = '\0';
    *version++ = '\0';
    if (!is_token(line))
        return 400;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return strncmp(version, "HTTP/", 5) == 0 ? 505 : 400;
    request->method = method_of(line);
    request->keeps_alive = version[7] == '1';
    return target_read(request, target) ? HTTP_DONE : 400;
}

/* --- headers ---------------------------------------------------------------------------------------------------- */

static unsigned header_read(struct http_request *request, char *line)
{
    char *value = strchr(line, ':');
    if (value == NULL)
        return 400;
    if (request->header_count == HTTP_HEADERS_MAX)
        return 431;
    *value++ = '\0';
    value += strspn(value, " \t");
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
            return 400;
    if (!is_token(line))
        return 400; /* also a line that continues the one before */
    request->headers[request->header_count++] = (struct http_header){line, value};
    return HTTP_DONE;
}

static unsigned headers_named(const struct http_request *request, const char *name)
{
    unsigned count = 0;
    for (unsigned i = 0; i < request->header_count; i++)
        count += strcasecmp(request->headers[i].name, name) == 0;
    return count;
}

static unsigned body_length_read(struct http_request *request, size_t body_max)
{
    const char *text = http_request_header(request, "Content-Length");
    if (headers_named(request, "Transfer-Encoding") > 0)
        return 501;
    if (text == NULL)
        return HTTP_DONE;
    if (headers_named(request, "Content-Length") > 1 || text[0] == '\0')
        return 400;
    for (; *text >= '0' && *text <= '9'; text++) {
        request->body_length = request->body_length * 10 + (size_t)(*text - '0');
        if (request->body_length > body_max)
            return 413;
    }
    return *text == '\0' ? HTTP_DONE : 400;
}

static unsigned headers_judge(struct http_request *request, size_t body_max)
{
    const char *connection = http_request_header(request, "Connection");
    unsigned hosts = headers_named(request, "Host");
    if (hosts > 1 || (hosts == 0 && request->keeps_alive)) /* HTTP/1.0 need not have one */
        return 400;
    if (connection != NULL && strcasecmp(connection, "close") == 0)
        request->keeps_alive = false;
    return body_length_read(request, body_max);
}

/* Cuts the head into lines; each ends with CRLF, the last one is empty. */
static unsigned head_read(struct http_request *request, char *head, size_t length, size_t body_max)
{
    char *end = head + length;
    unsigned status = HTTP_DONE;
    for (char *line = head; status == HTTP_DONE && line < end - 2;) {
        char *line_end = memchr(line, '\r', (size_t)(end - line));
        if (line_end[1] != '\n' || memchr(line, '\0', (size_t)(line_end - line)) != NULL ||
            memchr(line, '\n', (size_t)(line_end - line)) != NULL)
            return 400;
        *line_end = '\0';
        status = line == head ? first_line_read(request, line) : header_read(request, line);
        line = line_end + 2;
    }
    return status == HTTP_DONE ? headers_judge(request, body_max) : status;
}

/* 0 while it is not there. */
static size_t head_length_find(struct http_request *request, const char *bytes, size_t length)
{
    size_t limit = length < HTTP_HEAD_MAX ? length : HTTP_HEAD_MAX;
    const char *end = limit > 0 ? memmem(bytes + request->searched, limit - request->searched, "\r\n\r\n", 4) : NULL;
    request->searched = limit > 3 ? limit - 3 : 0;
    return end != NULL ? (size_t)(end - bytes) + 4 : 0;
}

unsigned http_request_read(struct http_request *request, char *bytes, size_t length, size_t body_max)
{
    if (request->head_length == 0) {
        request->head_length = head_length_find(request, bytes, length);
        if (request->head_length == 0)
            return length >= HTTP_HEAD_MAX ? 431 : HTTP_MORE;
        unsigned status = head_read(request, bytes, request->head_length, body_max);
        if (status != HTTP_DONE)
            return status;
        request->body = bytes + request->head_length;
        request->length = request->head_length + request->body_length;
    }
    return length >= request->length ? HTTP_DONE : HTTP_MORE;
}

/* --- looking at it ---------------------------------------------------------------------------------------------- */

const char *http_request_header(const struct http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

bool http_token_is(const char *token, const char *given)
{
    unsigned char differs = 0;
    if (strlen(given) != strlen(token))
        return false;
    for (size_t i = 0; token[i] != '\0'; i++)
        differs |= (unsigned char)(given[i] ^ token[i]);
    return differs == 0;
}

bool http_request_has_token(const struct http_request *request, const char *token)
{
    const char *given = http_request_header(request, "Authorization");
    return given != NULL && strncasecmp(given, "Bearer ", 7) == 0 && http_token_is(token, given + 7);
}

enum http_host http_request_host(const struct http_request *request)
{
    const char *host = http_request_header(request, "Host");
    struct http_address address;
    struct error error = ERROR_NONE;
    char text[96];
    if (host == NULL || host[0] == '\0')
        return HTTP_HOST_LOCAL;
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    bool has_port = colon != NULL && (bracket == NULL || colon > bracket);
    int length = snprintf(text, sizeof text, "%s%s", host, has_port ? "" : ":80");
    if (length < 0 || (size_t)length >= sizeof text || text[0] == '/' || !http_address_read(text, 0, &address, &error))
        return HTTP_HOST_NAME;
    return address.is_local ? HTTP_HOST_LOCAL : HTTP_HOST_ADDRESS;
}

bool http_request_is_same_origin(const struct http_request *request)
{
    const char *origin = http_request_header(request, "Origin"), *host = http_request_header(request, "Host");
    const char *site = http_request_header(request, "Sec-Fetch-Site");
    if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    if (origin == NULL)
        return true;
    const char *authority = strstr(origin, "://");
    return authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0;
}

static bool field_decode(const char *from, const char *end, struct buffer *out)
{
    size_t before = out->length;
    while (from < end) {
        int byte = *from == '+' ? (from++, ' ') : byte_decoded(&from, end);
        if (byte <= 0) {
            out->length = before;
            return false;
        }
        buffer_append(out, &(char){(char)byte}, 1);
    }
    return true;
}

bool http_form_value(const char *form, size_t length, const char *name, struct buffer *out)
{
    const char *end = form + length;
    size_t name_length = strlen(name);
    while (form < end) {
        const char *field_end = memchr(form, '&', (size_t)(end - form));
        if (field_end == NULL)
            field_end = end;
        if ((size_t)(field_end - form) > name_length && memcmp(form, name, name_length) == 0 &&
            form[name_length] == '=')
            return field_decode(form + name_length + 1, field_end, out);
        form = field_end + (field_end < end);
    }
    return false;
}

bool http_cookie_value(const struct http_request *request, const char *name, struct buffer *out)
{
    const char *at = http_request_header(request, "Cookie");
    size_t name_length = strlen(name);
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ";");
        if (length > name_length && memcmp(at, name, name_length) == 0 && at[name_length] == '=') {
            buffer_append(out, at + name_length + 1, length - name_length - 1);
            return true;
        }
        at += length;
        at += strspn(at, "; ");
    }
    return false;
}
