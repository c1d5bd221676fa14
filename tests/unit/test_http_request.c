/* The reader of HTTP requests: what it accepts, what it refuses, and that no bytes make it read beyond them. */
#include "tests/support/test.h"

#include "worker/http/http_address.h"
#include "worker/http/http_request.h"

enum { BODY_MAX = 64 };

static char bytes[HTTP_HEAD_MAX + BODY_MAX];
static struct http_request request;

static unsigned request_read(const char *text)
{
    memset(&request, 0, sizeof request);
    size_t length = strlen(text);
    assert_true(length <= sizeof bytes);
    memcpy(bytes, text, length);
    return http_request_read(&request, bytes, length, BODY_MAX);
}

/* A request for this target, with a Host. */
static unsigned target_read(const char *target)
{
    char text[512];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    return request_read(text);
}

static unsigned headers_read(const char *headers)
{
    char text[1024];
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: h:1\r\n%s\r\n", headers);
    return request_read(text);
}

TEST(a_request_is_read)
{
    assert_int_equal(
        request_read("GET /a%20b/c?x=1&y=a+b%21 HTTP/1.1\r\nHost: h:1\r\nAccept:  text/plain \r\nX:\r\n\r\n"),
        HTTP_DONE);
    assert_int_equal(request.method, HTTP_GET);
    assert_string_equal(request.path, "/a b/c");
    assert_string_equal(request.query, "x=1&y=a+b%21");
    assert_string_equal(http_request_header(&request, "ACCEPT"), "text/plain");
    assert_string_equal(http_request_header(&request, "x"), "");
    assert_null(http_request_header(&request, "Cookie"));
    assert_true(request.keeps_alive);
}

TEST(half_a_request_is_no_request)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    memset(&request, 0, sizeof request);
    for (size_t length = 0; length < sizeof text - 1; length++) {
        memcpy(bytes + (length > 0 ? length - 1 : 0), text + (length > 0 ? length - 1 : 0), 1);
        assert_int_equal(http_request_read(&request, bytes, length, BODY_MAX), HTTP_MORE);
    }
    bytes[sizeof text - 2] = 'o';
    assert_int_equal(http_request_read(&request, bytes, sizeof text - 1, BODY_MAX), HTTP_DONE);
    assert_memory_equal(request.body, "hello", 5);
    assert_int_equal(request.length, sizeof text - 1);
}

TEST(what_follows_a_request_is_not_its)
{
    static const char two[] = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\n";
    assert_int_equal(request_read(two), HTTP_DONE);
    assert_int_equal(request.length, strstr(two, "GET /2") - two);
}

TEST(paths_that_lead_elsewhere_are_refused)
{
    static const char *const bad[] = {"/..",   "/a/../b", "/%2e%2e/x", "/.",   "/a/./b",  "//",        "/a//b", "/%00",
                                      "/a%0",  "/%zz",    "/%",        "a",    "*",       "/\x7f",     "/%0a",  "/a%7f",
                                      "http:", "http://", "http://h",  "?a=b", "/x/%2E.", "ftp://h/x", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (target_read(bad[i]) != 400)
            fail_msg("accepted: %s", bad[i]);
    static const char *const good[] = {"/",       "/...",         "/a/",         "/.a",
                                       "/%c3%a4", "http://h:1/x", "HTTPS://h/x", "/a?/../%00"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (target_read(good[i]) != HTTP_DONE)
            fail_msg("refused: %s", good[i]);
    assert_int_equal(target_read("http://h:1/x?y"), HTTP_DONE);
    assert_string_equal(request.path, "/x");
    assert_string_equal(request.query, "y");
}

TEST(first_lines_that_are_none_are_refused)
{
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {"\r\n\r\n", 400},
        {"GET\r\n\r\n", 400},
        {"GET /\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 505},
        {"GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
        {"GET / SPDY\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {"GET / HTTP/1.0\r\n\r\n", HTTP_DONE},
        {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", HTTP_DONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (request_read(cases[i].text) != cases[i].status)
            fail_msg("not %u: %s", cases[i].status, cases[i].text);
}

TEST(headers_that_two_readers_could_take_differently_are_refused)
{
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {"Content-Length: 0\r\n", HTTP_DONE},
        {"Content-Length: 64\r\n", HTTP_MORE},
        {"Content-Length: 65\r\n", 413},
        {"Content-Length: 99999999999999999999999999\r\n", 413},
        {"Content-Length: 1\r\nContent-Length: 1\r\n", 400},
        {"Content-Length: +1\r\n", 400},
        {"Content-Length: 1 1\r\n", 400},
        {"Content-Length:\r\n", 400},
        {"Transfer-Encoding: chunked\r\n", 501},
        {"Content-Length: 1\r\nTransfer-Encoding: identity\r\n", 501},
        {"Host: other\r\n", 400},
        {"X : y\r\n", 400},
        {"X\r\n", 400},
        {": y\r\n", 400},
        {"X: y\r\n more\r\n", 400},
        {"X: a\001b\r\n", 400},
        {"X: a\rb\r\n", 400},
        {"X: a\nb: c\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (headers_read(cases[i].text) != cases[i].status)
            fail_msg("not %u: %s", cases[i].status, cases[i].text);
    assert_int_equal(headers_read("Connection: close\r\n"), HTTP_DONE);
    assert_false(request.keeps_alive);
}

TEST(a_head_without_end_is_refused)
{
    memset(&request, 0, sizeof request);
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(http_request_read(&request, bytes, HTTP_HEAD_MAX - 1, BODY_MAX), HTTP_MORE);
    assert_int_equal(http_request_read(&request, bytes, HTTP_HEAD_MAX, BODY_MAX), 431);

    char text[1024] = "GET / HTTP/1.1\r\nHost: h\r\n";
    for (unsigned i = 0; i < HTTP_HEADERS_MAX; i++)
        memcpy(text + strlen(text), "A:b\r\n", 6);
    memcpy(text + strlen(text), "\r\n", 3);
    assert_int_equal(request_read(text), 431);
}

TEST(a_nul_in_the_head_is_refused)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: h\0x\r\n\r\n";
    memset(&request, 0, sizeof request);
    memcpy(bytes, text, sizeof text - 1);
    assert_int_equal(http_request_read(&request, bytes, sizeof text - 1, BODY_MAX), 400);
}

TEST(the_token_is_compared)
{
    assert_int_equal(headers_read("Authorization: Bearer s3cret\r\n"), HTTP_DONE);
    assert_true(http_request_has_token(&request, "s3cret"));
    assert_false(http_request_has_token(&request, "s3creT"));
    assert_false(http_request_has_token(&request, "s3cret1"));
    assert_int_equal(headers_read("Authorization: Basic s3cret\r\n"), HTTP_DONE);
    assert_false(http_request_has_token(&request, "s3cret"));
    assert_int_equal(headers_read(""), HTTP_DONE);
    assert_false(http_request_has_token(&request, ""));
}

TEST(a_page_of_another_origin_is_recognised)
{
    static const struct {
        const char *text;
        bool is_same;
    } cases[] = {
        {"", true}, /* not a browser */
        {"Origin: http://h:1\r\n", true},
        {"Origin: https://H:1\r\n", true},
        {"Origin: http://h\r\n", false},
        {"Origin: http://evil.example\r\n", false},
        {"Origin: http://h:1.evil.example\r\n", false},
        {"Origin: null\r\n", false},
        {"Sec-Fetch-Site: cross-site\r\n", false},
        {"Sec-Fetch-Site: same-site\r\n", false},
        {"Sec-Fetch-Site: same-origin\r\nOrigin: http://h:1\r\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(headers_read(cases[i].text), HTTP_DONE);
        if (http_request_is_same_origin(&request) != cases[i].is_same)
            fail_msg("wrong: %s", cases[i].text);
    }
}

TEST(a_host_is_this_machine_or_an_address_or_a_name)
{
    static const struct {
        const char *host;
        enum http_host is;
    } cases[] = {
        {"localhost", HTTP_HOST_LOCAL},
        {"localhost:9190", HTTP_HOST_LOCAL},
        {"127.0.0.1:9190", HTTP_HOST_LOCAL},
        {"127.0.0.1", HTTP_HOST_LOCAL},
        {"[::1]:9190", HTTP_HOST_LOCAL},
        {"[::1]", HTTP_HOST_LOCAL},
        {"", HTTP_HOST_LOCAL},
        {"10.0.0.5:9190", HTTP_HOST_ADDRESS},
        {"[fd00::1]", HTTP_HOST_ADDRESS},
        {"evil.example", HTTP_HOST_NAME},
        {"localhost.evil.example", HTTP_HOST_NAME},
        {"127.0.0.1.evil.example:9190", HTTP_HOST_NAME},
        {"evil.example:80:127.0.0.1", HTTP_HOST_NAME},
        {"/run/http.sock", HTTP_HOST_NAME},
        {"[::1", HTTP_HOST_NAME},
        {"127.0.0.1:x", HTTP_HOST_NAME},
    };
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].host);
        assert_int_equal(request_read(text), HTTP_DONE);
        if (http_request_host(&request) != cases[i].is)
            fail_msg("wrong: %s", cases[i].host);
    }
    assert_int_equal(request_read("GET / HTTP/1.0\r\n\r\n"), HTTP_DONE);
    assert_int_equal(http_request_host(&request), HTTP_HOST_LOCAL);
}

TEST(fields_of_forms_and_cookies_are_decoded)
{
    struct buffer out = {0};
    static const char form[] = "jid=a%2Fb+c&empty=&nul=%00&bad=%2&last=z";
    assert_true(http_form_value(form, sizeof form - 1, "jid", &out));
    assert_string_equal(buffer_text(&out), "a/b c");
    assert_true(http_form_value(form, sizeof form - 1, "empty", &out));
    assert_true(http_form_value(form, sizeof form - 1, "last", &out));
    assert_string_equal(buffer_text(&out), "a/b cz");
    assert_false(http_form_value(form, sizeof form - 1, "nul", &out));
    assert_false(http_form_value(form, sizeof form - 1, "bad", &out));
    assert_false(http_form_value(form, sizeof form - 1, "id", &out));
    assert_string_equal(buffer_text(&out), "a/b cz");
    buffer_clear(&out);
    assert_int_equal(headers_read("Cookie: a=1; session=xyz; b=2\r\n"), HTTP_DONE);
    assert_true(http_cookie_value(&request, "session", &out));
    assert_string_equal(buffer_text(&out), "xyz");
    assert_false(http_cookie_value(&request, "ession", &out));
    buffer_fini(&out);
}

/* Whatever comes: the length is within the bytes, the path is plain, and a sanitizer sees every byte that
 * is read. The bytes have a block of their own, so that these notice one too many. */
static void mutant_hold(char *mutant, size_t length)
{
    char *block = malloc(length > 0 ? length : 1);
    memcpy(block, mutant, length);
    memset(&request, 0, sizeof request);
    unsigned status = http_request_read(&request, block, length, BODY_MAX);
    if (status == HTTP_DONE) {
        assert_true(request.length <= length);
        assert_true(request.path[0] == '/' && strstr(request.path, "/../") == NULL);
        assert_true(request.header_count <= HTTP_HEADERS_MAX && request.body_length <= BODY_MAX);
        struct buffer out = {0};
        (void)http_form_value(request.query, strlen(request.query), "a", &out);
        (void)http_cookie_value(&request, "a", &out);
        (void)http_request_is_same_origin(&request);
        buffer_fini(&out);
    } else {
        assert_true(status == HTTP_MORE || (status >= 400 && status <= 505));
    }
    free(block);
}

TEST(mutants_of_requests_do_no_harm)
{
    static const char *const seeds[] = {
        "GET /metrics?a=%20b&a HTTP/1.1\r\nHost: h:1\r\nCookie: a=b; a\r\nOrigin: http://h:1\r\n\r\n",
        "POST http://h/x/%41 HTTP/1.0\r\nContent-Length: 7\r\n\r\na=1&b=2",
    };
    static const char letters[] = "\r\n\0 :/%.?=&;aH10\xff\t";
    unsigned random = 7; /* always the same ones */
    for (unsigned round = 0; round < 200000; round++) {
        char mutant[256];
        const char *seed = seeds[round % 2];
        size_t length = strlen(seed);
        memcpy(mutant, seed, length);
        for (unsigned changes = round / 2 % 4 + 1; changes > 0; changes--) {
            random = random * 1664525u + 1013904223u;
            mutant[(random >> 8) % length] = letters[(random >> 20) % (sizeof letters - 1)];
        }
        mutant_hold(mutant, round % 5 == 0 ? (random >> 9) % length : length);
    }
}

TEST(addresses_are_read)
{
    static const struct {
        const char *text, *shown;
        unsigned process;
        bool is_local;
    } good[] = {
        {"127.0.0.1:9190", "127.0.0.1:9190", 0, true}, {"127.0.0.1:9190", "127.0.0.1:9192", 3, true},
        {"localhost:1", "127.0.0.1:1", 1, true},       {"[::1]:9190", "[::1]:9190", 0, true},
        {"0.0.0.0:80", "0.0.0.0:80", 0, false},        {"[::]:80", "[::]:81", 2, false},
        {"/run/h.sock", "/run/h.sock", 0, true},       {"/run/h.sock", "/run/h.sock.2", 2, true},
        {"127.0.0.1:0", "127.0.0.1:0", 4, true},
    };
    struct buffer text = {0};
    struct http_address address;
    struct error error = ERROR_NONE;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(http_address_read(good[i].text, good[i].process, &address, &error));
        assert_string_equal(http_address_text(&address, &text), good[i].shown);
        assert_int_equal(address.is_local, good[i].is_local);
    }
    static const char *const bad[] = {"",      "9190",        ":9190",       "::1:9190",  "[::1]", "[127.0.0.1:1",
                                      "h:1",   "1.2.3:1",     "127.0.0.1:x", "127.0.0.1", "[]:1",  "127.0.0.1:65536",
                                      "tcp:x", "127.0.0.1:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (http_address_read(bad[i], 0, &address, &error))
            fail_msg("accepted: %s", bad[i]);
    assert_false(http_address_read("127.0.0.1:65535", 2, &address, &error));
    buffer_fini(&text);
}

RUN_TESTS
