/* Names of resources and ids of tasks may be any bytes: headers escape all but visible ASCII as %XX. */
#include "jobs/webhook/delivery.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- the signature ------------------------------------------------------------------------------------------ */

/* "t=SECONDS,v1=HEX": HMAC-SHA256 of "SECONDS.BODY", to be freed; NULL without memory. */
static char *webhook_signature(const struct webhook_seal *seal, int64_t unix_seconds, const char *body, size_t length)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_length = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "", *text = NULL, *message = malloc(length + 32);
    if (message == NULL)
        return NULL;
    size_t head = (size_t)snprintf(message, 32, "%lld.", (long long)unix_seconds);
    if (length > 0)
        memcpy(message + head, body, length);
    if (HMAC(EVP_sha256(), seal->secret, (int)seal->secret_length, (const unsigned char *)message, head + length,
             digest, &digest_length) != NULL) {
        for (unsigned i = 0; i < digest_length; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        if (asprintf(&text, "t=%lld,v1=%s", (long long)unix_seconds, hex) < 0)
            text = NULL;
    }
    free(message);
    return text;
}

/* --- headers ------------------------------------------------------------------------------------------------ */

/* Takes over the line. After an error `*list` stays NULL. */
static int line_add(struct curl_slist **list, char *line_take)
{
    struct curl_slist *longer = line_take != NULL ? curl_slist_append(*list, line_take) : NULL;
    free(line_take);
    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

static int header_add(struct curl_slist **list, const char *name, const char *value)
{
    char *line = NULL;
    /* For libcurl "NAME:" without a value means to omit that header, and "NAME;" means an empty one. */
    int length = value[0] == '\0' ? asprintf(&line, "%s;", name) : asprintf(&line, "%s: %s", name, value);
    return line_add(list, length >= 0 ? line : NULL);
}

static int escaped_add(struct curl_slist **list, const char *name, const char *value)
{
    char *escaped = malloc(3 * strlen(value) + 1), *at = escaped;
    if (escaped == NULL)
        return 0;
    for (; *value != '\0'; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte > ' ' && byte < 0x7f && byte != '%')
            *at++ = *value;
        else
            at += snprintf(at, 4, "%%%02X", byte);
    }
    *at = '\0';
    int is_added = header_add(list, name, escaped);
    free(escaped);
    return is_added;
}

static int own_add(struct curl_slist **list, const struct webhook_task *task)
{
    char attempt[16];
    snprintf(attempt, sizeof attempt, "%u", task->attempt);
    if (!escaped_add(list, "Holdfast-Task", task->jid) || !header_add(list, "Holdfast-Attempt", attempt))
        return 0;
    for (unsigned i = 0; i < task->resource_count; i++)
        if (!escaped_add(list, "Holdfast-Resource", task->resources[i]))
            return 0;
    return task->fence == NULL || task->fence[0] == '\0' || header_add(list, "Holdfast-Fence", task->fence);
}

static int signature_add(struct curl_slist **list, const struct webhook_seal *seal, int64_t unix_seconds,
                         const struct webhook_request *request)
{
    if (seal->secret == NULL)
        return 1;
    char *signature = webhook_signature(seal, unix_seconds, request->body, request->body_length);
    int is_added = signature != NULL && header_add(list, seal->header, signature);
    free(signature);
    return is_added;
}

static int describes_body(const char *name)
{
    return strcasecmp(name, "content-type") == 0 || strcasecmp(name, "content-encoding") == 0 ||
           strcasecmp(name, "accept") == 0;
}

static int request_add(struct curl_slist **list, const struct webhook_request *request, const struct webhook_seal *seal,
                       int is_elsewhere)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct webhook_header *header = &request->headers[i];
        int is_signature = strcasecmp(header->name, seal->header) == 0;
        if (!is_signature && (!is_elsewhere || describes_body(header->name)) &&
            !header_add(list, header->name, header->value))
            return 0;
    }
    if (webhook_request_header(request, "content-type") != NULL)
        return 1;
    if (request->body == NULL)
        return line_add(list, strdup("Content-Type:")); /* libcurl's default is that of a form */
    return header_add(list, "Content-Type", request->body_is_json ? "application/json" : "text/plain; charset=utf-8");
}

struct curl_slist *webhook_headers(const struct webhook_request *request, const struct webhook_task *task,
                                   const struct webhook_seal *seal, int64_t unix_seconds, int is_elsewhere)
{
    struct curl_slist *list = NULL;
    if (line_add(&list, strdup("Expect:")) && own_add(&list, task) &&
        signature_add(&list, seal, unix_seconds, request) && request_add(&list, request, seal, is_elsewhere))
        return list;
    curl_slist_free_all(list);
    return NULL;
}

/* --- the result --------------------------------------------------------------------------------------------- */

/* The bytes of the character at `at`; 0 if it is invalid, by the judgement of jansson. */
static size_t character_length(const char *at, size_t left)
{
    unsigned char first = (unsigned char)*at;
    size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (length == 1 || length > left)
        return length == 1;
    json_t *text = json_stringn(at, length);
    json_decref(text);
    return text != NULL ? length : 0;
}

static json_t *text_mended(const char *text, size_t length)
{
    static const char replacement[] = "\xef\xbf\xbd";
    json_t *whole = json_stringn(text, length);
    char *mended = whole == NULL ? malloc(3 * length + 1) : NULL, *at = mended;
    if (mended == NULL)
        return whole;
    while (length > 0) {
        size_t good = character_length(text, length), step = good > 0 ? good : 1;
        memcpy(at, good > 0 ? text : replacement, good > 0 ? good : 3);
        at += good > 0 ? good : 3;
        text += step;
        length -= step;
    }
    whole = json_stringn(mended, (size_t)(at - mended));
    free(mended);
    return whole;
}

char *webhook_result(const struct webhook_call *call)
{
    json_t *result =
        json_pack("{s:I, s:o, s:b}", "status", (json_int_t)call->status, "body",
                  text_mended(call->reply != NULL ? call->reply : "", call->reply_length), "cut", call->is_cut);
    char *text = result != NULL ? json_dumps(result, JSON_COMPACT) : NULL;
    json_decref(result);
    return text;
}
