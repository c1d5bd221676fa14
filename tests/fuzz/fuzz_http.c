/* Any bytes as an HTTP request. A request that comes in pieces is the same as one that comes at once. */
#include "tests/fuzz/fuzz.h"
#include "worker/http/http_request.h"

enum { BODY_MAX = 4096 };

static unsigned pieces_read(struct http_request *request, char *bytes, size_t size, size_t piece)
{
    unsigned status = HTTP_MORE;
    for (size_t length = 0; status == HTTP_MORE && length < size;) {
        length += piece < size - length ? piece : size - length;
        status = http_request_read(request, bytes, length, BODY_MAX);
    }
    return status;
}

static void same_holds(const struct http_request *a, const struct http_request *b)
{
    invariant(a->method == b->method && a->keeps_alive == b->keeps_alive && a->length == b->length);
    invariant(strcmp(a->path, b->path) == 0 && strcmp(a->query, b->query) == 0);
    invariant(a->header_count == b->header_count && a->body_length == b->body_length);
    for (unsigned i = 0; i < a->header_count; i++) {
        invariant(strcmp(a->headers[i].name, b->headers[i].name) == 0);
        invariant(strcmp(a->headers[i].value, b->headers[i].value) == 0);
    }
    invariant(a->body_length == 0 || memcmp(a->body, b->body, a->body_length) == 0);
}

/* Whatever decodes it a second time, or takes it for a file, finds nothing above the root. */
static void path_holds(const char *path)
{
    invariant(path[0] == '/' && strstr(path, "//") == NULL && strstr(path, "/../") == NULL);
    for (; *path != '\0'; path++)
        invariant((unsigned char)*path >= ' ' && *path != 0x7f);
}

static void fields_hold(const struct http_request *request)
{
    struct buffer value = {.bytes = NULL};
    bool found = http_form_value(request->query, strlen(request->query), "a", &value);
    invariant(found || value.length == 0);
    found = http_form_value(request->body, request->body_length, "a", &value) || found;
    invariant(value.length == 0 || memchr(value.bytes, '\0', value.length) == NULL);
    http_cookie_value(request, "a", &value);
    invariant(!http_request_has_token(request, "secret") || http_request_header(request, "AUTHORIZATION") != NULL);
    (void)http_request_is_same_origin(request);
    (void)http_request_host(request);
    buffer_fini(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_request whole = {.path = NULL}, parts = {.path = NULL};
    char *bytes = fuzz_copy(data, size), *again = fuzz_copy(data, size);
    unsigned status = pieces_read(&whole, bytes, size, size);
    invariant(status <= HTTP_DONE || (status >= 400 && status < 600));
    invariant(pieces_read(&parts, again, size, 1 + size % 7) == status);
    if (status == HTTP_DONE) {
        invariant(whole.length <= size && whole.body + whole.body_length == bytes + whole.length);
        same_holds(&whole, &parts);
        path_holds(whole.path);
        fields_hold(&whole);
    }
    free(bytes);
    free(again);
    return 0;
}
