/* Refuses requests whose author cannot have meant them: unknown members, headers that belong to the connection, and
 * line breaks in a header, which could inject a second request. Sends a JSON body byte for byte as it was pushed. */
#include "jobs/webhook/request.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/arguments/arguments.h"
#include "jobs/kit.h"

/* --- the place ---------------------------------------------------------------------------------------------------- */

/* libcurl's own parser reads the URL, so that the checks see what libcurl will connect to. */

static char *part_copy(CURLU *parsed, CURLUPart part, unsigned flags)
{
    char *text = NULL, *copy = NULL;
    if (curl_url_get(parsed, part, &text, flags) == CURLUE_OK)
        copy = strdup(text);
    curl_free(text);
    return copy;
}

static int has_part(CURLU *parsed, CURLUPart part)
{
    char *text = part_copy(parsed, part, 0);
    free(text);
    return text != NULL;
}

static int parts_read(struct webhook_place *place, CURLU *parsed, const char *url, char *reason, size_t reason_size)
{
    if (parsed == NULL || curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK)
        return kit_refuse(reason, reason_size, "this is no url");
    place->url = strdup(url);
    place->scheme = part_copy(parsed, CURLUPART_SCHEME, 0);
    place->host = part_copy(parsed, CURLUPART_HOST, 0);
    place->port = part_copy(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    if (place->url == NULL || place->scheme == NULL || place->host == NULL || place->port == NULL)
        return kit_refuse(reason, reason_size, "the url has no host, or there is no memory for it");
    if (strcmp(place->scheme, "http") != 0 && strcmp(place->scheme, "https") != 0)
        return kit_refuse(reason, reason_size, "the url is neither http nor https");
    if (has_part(parsed, CURLUPART_USER) || has_part(parsed, CURLUPART_PASSWORD))
        return kit_refuse(reason, reason_size, "the url has a user or a password in it: write a header instead");
    return 1;
}

int webhook_place_read(struct webhook_place *place, const char *url, char *reason, size_t reason_size)
{
    *place = (struct webhook_place){0};
    if (strlen(url) > WEBHOOK_URL_MAX)
        return kit_refuse(reason, reason_size, "the url is longer than 8192 bytes");
    for (const char *at = url; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return kit_refuse(reason, reason_size, "the url has a blank or a control character in it");
    if (strstr(url, "://") == NULL)
        return kit_refuse(reason, reason_size, "the url does not begin with http:// or https://");
    CURLU *parsed = curl_url();
    int is_good = parts_read(place, parsed, url, reason, reason_size);
    curl_url_cleanup(parsed);
    return is_good;
}

void webhook_place_fini(struct webhook_place *place)
{
    free(place->url);
    free(place->scheme);
    free(place->host);
    free(place->port);
    *place = (struct webhook_place){0};
}

int webhook_place_is_same(const struct webhook_place *a, const struct webhook_place *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

int webhook_place_is_among(const struct webhook_place *place, const char *list)
{
    size_t length = strlen(place->host);
    while (*list != '\0') {
        size_t name = strcspn(list, " ,");
        if (name == length && strncasecmp(list, place->host, length) == 0)
            return 1;
        list += name + strspn(list + name, " ,");
    }
    return 0;
}

/* --- the request -------------------------------------------------------------------------------------------- */

struct refusal {
    char *text;
    size_t size;
};

static int refuse(const struct refusal *refusal, const char *why)
{
    return kit_refuse(refusal->text, refusal->size, why);
}

/* --- members ------------------------------------------------------------------------------------------------ */

static int url_read(struct webhook_request *request, struct argument value, const struct refusal *refusal)
{
    char *url = argument_text(value);
    if (url == NULL)
        return refuse(refusal, "the url is no text");
    webhook_place_fini(&request->place);
    int is_good = webhook_place_read(&request->place, url, refusal->text, refusal->size);
    free(url);
    return is_good;
}

static int method_read(struct webhook_request *request, struct argument value, const struct refusal *refusal)
{
    char *method = argument_text(value);
    size_t length = method != NULL ? strlen(method) : 0;
    int is_good = length > 0 && length < sizeof request->method &&
                  strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == length && strcmp(method, "CONNECT") != 0 &&
                  strcmp(method, "TRACE") != 0;
    if (is_good)
        snprintf(request->method, sizeof request->method, "%s", method);
    free(method);
    return is_good || refuse(refusal, "the method is to be up to 16 capital letters, and not CONNECT or TRACE");
}

static int name_is_free(const char *name)
{
    static const char *const taken[] = {"host",    "content-length",    "connection", "keep-alive", "expect",
                                        "upgrade", "transfer-encoding", "te",         "trailer"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcasecmp(name, taken[i]) == 0)
            return 0;
    return strncasecmp(name, "holdfast-", 9) != 0 && strncasecmp(name, "proxy-", 6) != 0;
}

static int name_is_good(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    return name[0] != '\0' && strspn(name, token) == strlen(name);
}

static int value_is_good(const char *value)
{
    for (; *value != '\0'; value++)
        if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
            return 0;
    return 1;
}

static int header_read(struct webhook_request *request, struct argument key, struct argument value,
                       const struct refusal *refusal)
{
    if (request->header_count == WEBHOOK_HEADERS_MAX)
        return refuse(refusal, "there are more than 64 headers");
    struct webhook_header *header = &request->headers[request->header_count];
    header->name = argument_text(key);
    header->value = argument_text(value);
    request->header_count++; /* so that fini frees it */
    if (header->name == NULL || header->value == NULL)
        return refuse(refusal, "a header is to be a name and a text");
    if (strlen(header->name) + strlen(header->value) > WEBHOOK_HEADER_MAX)
        return refuse(refusal, "a header is longer than 8192 bytes");
    if (!name_is_good(header->name) || !value_is_good(header->value))
        return refuse(refusal, "a header contains an illegal character");
    request->header_count--;
    int is_twice = webhook_request_header(request, header->name) != NULL;
    request->header_count++;
    if (is_twice)
        return refuse(refusal, "a header is there twice");
    return name_is_free(header->name) ||
           refuse(refusal, "a header is one that the connection, a proxy or Holdfast itself writes");
}

static int headers_read(struct webhook_request *request, struct argument headers, const struct refusal *refusal)
{
    struct argument key, value;
    if (argument_kind(headers) != '{')
        return refuse(refusal, "the headers are no object");
    for (size_t position = 0; argument_member(headers, &position, &key, &value);)
        if (!header_read(request, key, value, refusal))
            return 0;
    return 1;
}

static int body_read(struct webhook_request *request, struct argument body, const struct refusal *refusal)
{
    free(request->body);
    request->body = NULL;
    request->body_is_json = argument_kind(body) != '"';
    if (argument_kind(body) == 'n')
        return 1;
    request->body = request->body_is_json ? strndup(body.text, body.length) : argument_text(body);
    if (request->body == NULL)
        return refuse(refusal, "the body has a NUL in it, or there is no memory for it");
    request->body_length = strlen(request->body);
    return 1;
}

static int timeout_read(struct webhook_request *request, struct argument value, const struct refusal *refusal)
{
    double seconds = 0;
    if (!argument_number(value, &seconds) || !(seconds >= 0.001) || seconds * 1000 > WEBHOOK_TIMEOUT_MAX_MS)
        return refuse(refusal, "the timeout is to be a number of seconds, up to 300");
    request->timeout_ms = (int64_t)(seconds * 1000);
    return 1;
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

static int member_read(struct webhook_request *request, struct argument key, struct argument value,
                       const struct refusal *refusal)
{
    static const struct {
        const char *name;
        int (*read)(struct webhook_request *request, struct argument value, const struct refusal *refusal);
    } members[] = {{"url", url_read},
                   {"method", method_read},
                   {"headers", headers_read},
                   {"body", body_read},
                   {"timeout", timeout_read}};
    char *name = argument_text(key);
    for (size_t i = 0; name != NULL && i < sizeof members / sizeof members[0]; i++) {
        if (strcmp(name, members[i].name) == 0) {
            free(name);
            return members[i].read(request, value, refusal);
        }
    }
    free(name);
    return refuse(refusal, "expected only the members url, method, headers, body and timeout");
}

static int object_read(struct webhook_request *request, struct argument object, const struct refusal *refusal)
{
    struct argument key, value;
    for (size_t position = 0; argument_member(object, &position, &key, &value);)
        if (!member_read(request, key, value, refusal))
            return 0;
    return request->place.url != NULL || refuse(refusal, "there is no url");
}

int webhook_request_read(struct webhook_request *request, const char *args, size_t length, char *reason,
                         size_t reason_size)
{
    const struct refusal refusal = {reason, reason_size};
    struct argument array = argument_of(args, length), first, second, third;
    *request = (struct webhook_request){.method = "POST"};
    int has_first = argument_element(array, 0, &first), has_second = argument_element(array, 1, &second);
    if (has_first && argument_kind(first) == '{' && !has_second)
        return object_read(request, first, &refusal);
    if (has_first && argument_kind(first) == '"' && !argument_element(array, 2, &third))
        return url_read(request, first, &refusal) && (!has_second || body_read(request, second, &refusal));
    return refuse(&refusal, "expected [{\"url\":...}], [URL] or [URL, BODY]");
}

void webhook_request_fini(struct webhook_request *request)
{
    webhook_place_fini(&request->place);
    for (size_t i = 0; i < request->header_count; i++) {
        free(request->headers[i].name);
        free(request->headers[i].value);
    }
    free(request->body);
}

const char *webhook_request_header(const struct webhook_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}
