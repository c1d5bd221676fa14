/* The webhook job against a server on loopback: what it sends, and how it ends. */
#include "tests/support/private_directory.h"
#include "tests/unit/webhook_fixture.h"

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

static const char *const ok[] = {ANSWER("200 OK", "", "thanks"), NULL};

/* --- what is sent ------------------------------------------------------------------------------------------- */

TEST(a_task_is_posted_and_its_answer_is_the_result)
{
    caller_begin(private_allowed, ok);
    assert_int_equal(call_with("[\"", "/hook?x=1\", {\"n\": 1.50, \"t\":\"\\u00e9\"}]"), HF_OK);
    const char *request = http_server_request(caller.server, 0);
    assert_contains(request, "POST /hook?x=1 HTTP/1.1\r\n");
    assert_contains(request, "\r\nContent-Type: application/json\r\n");
    assert_contains(request, "\r\nHoldfast-Task: jid-1\r\n");
    assert_contains(request, "\r\nHoldfast-Attempt: 0\r\n");
    assert_contains(request, "\r\n\r\n{\"n\": 1.50, \"t\":\"\\u00e9\"}"); /* byte for byte */
    assert_lacks(request, "Holdfast-Signature");
    assert_lacks(request, "Holdfast-Resource");
    assert_string_equal(caller.job.result, "{\"status\":200,\"body\":\"thanks\",\"cut\":false}");
}

TEST(all_of_a_request_can_be_said)
{
    static const char *const names[] = {"a b%", "z"};
    caller_begin(private_allowed, ok);
    caller.job.resources = names;
    caller.job.resource_count = 2;
    caller.job.token = "1790000000000007";
    assert_int_equal(call_with("[{\"method\":\"PUT\",\"headers\":{\"X-A\":\"1\",\"Authorization\":\"Bearer s\","
                               "\"X-Empty\":\"\"},\"timeout\":300,\"body\":\"plain\",\"url\":\"",
                               "/\"}]"),
                     HF_OK);
    const char *request = http_server_request(caller.server, 0);
    assert_contains(request, "PUT / HTTP/1.1\r\n");
    assert_contains(request, "\r\nX-A: 1\r\n");
    assert_contains(request, "\r\nX-Empty:\r\n");
    assert_contains(request, "\r\nAuthorization: Bearer s\r\n");
    assert_contains(request, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
    assert_contains(request, "\r\nHoldfast-Resource: a%20b%25\r\n");
    assert_contains(request, "\r\nHoldfast-Resource: z\r\n");
    assert_contains(request, "\r\nHoldfast-Fence: 1790000000000007\r\n");
    assert_contains(request, "\r\n\r\nplain");
    assert_int_equal(call_with("[{\"method\":\"GET\",\"url\":\"", "/get\"}]"), HF_OK);
    request = http_server_request(caller.server, 1);
    assert_contains(request, "GET /get HTTP/1.1\r\n");
    assert_lacks(request, "Content-");
    assert_int_equal(call_with("[\"", "/empty\"]"), HF_OK);
    request = http_server_request(caller.server, 2);
    assert_contains(request, "POST /empty HTTP/1.1\r\n");
    assert_contains(request, "\r\nContent-Length: 0\r\n");
    assert_lacks(request, "Content-Type");
}

TEST(what_is_sent_is_signed)
{
    static const struct fake_setting usual[] = {{"allow_private", "yes"}, {"secret", "s3cret"}, {NULL, NULL}};
    static const struct fake_setting named[] = {
        {"allow_private", "yes"}, {"secret", "s3cret"}, {"signature_header", "X-Sig"}, {NULL, NULL}};
    caller_begin(usual, ok);
    assert_int_equal(call(), HF_OK);
    http_request_expect_signature(http_server_request(caller.server, 0), "Holdfast-Signature", "s3cret");
    caller_begin(named, ok);
    assert_int_equal(call_with("[{\"headers\":{\"x-sig\":\"forged\"},\"url\":\"", "/\"}]"), HF_OK);
    http_request_expect_signature(http_server_request(caller.server, 0), "X-Sig", "s3cret");
    assert_lacks(http_server_request(caller.server, 0), "forged");
}

TEST(a_secret_comes_from_a_file_of_its_own)
{
    char path[PRIVATE_DIRECTORY_MAX], reason[512] = "";
    int fd = private_file_create(path);
    assert_int_equal(write(fd, "from a file\nnot this\n", 21), 21);
    close(fd);
    const struct fake_setting settings[] = {{"allow_private", "yes"}, {"secret_file", path}, {NULL, NULL}};
    caller_begin(settings, ok);
    assert_int_equal(call(), HF_OK);
    http_request_expect_signature(http_server_request(caller.server, 0), "Holdfast-Signature", "from a file");
    caller_end();
    chmod(path, 0644);
    assert_null(fake_plugin_open("webhook", settings, reason));
    assert_contains(reason, "open to others");
    unlink(path);
}

TEST(the_proxy_of_the_environment_does_not_count)
{
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    caller_begin(private_allowed, ok);
    assert_int_equal(call(), HF_OK);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

/* --- how it ends -------------------------------------------------------------------------------------------- */

TEST(the_status_decides)
{
    static const struct {
        const char *answer;
        int code;
    } cases[] = {{ANSWER("201 Created", "", ""), HF_OK},
                 {ANSWER("204 No Content", "", ""), HF_OK},
                 {ANSWER("400 Bad", "", "x"), HF_BURY},
                 {ANSWER("404 Not Found", "", ""), HF_BURY},
                 {ANSWER("410 Gone", "", ""), HF_BURY},
                 {ANSWER("304 Not Modified", "", ""), HF_BURY},
                 {ANSWER("408 Request Timeout", "", ""), HF_FAIL},
                 {ANSWER("429 Too Many", "", ""), HF_FAIL},
                 {ANSWER("500 Oh", "", ""), HF_FAIL},
                 {ANSWER("503 Later", "", ""), HF_FAIL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const answers[] = {cases[i].answer, NULL};
        caller_begin(private_allowed, answers);
        assert_int_equal(call(), cases[i].code);
        assert_false(caller.job.has_retry_in);
        assert_int_equal(caller.job.result != NULL, cases[i].code == HF_OK);
        if (cases[i].code != HF_OK) {
            assert_string_equal(caller.job.error_class, "WebhookAnswer");
            assert_lacks(caller.job.error, "/hook"); /* a path may be a secret */
        }
        caller_end(); /* while its answers are there */
    }
}

#define INTERIM "HTTP/1.1 103 Early Hints\r\n"

/* The final answer says it, not one that precedes it. */
TEST(a_server_says_when_to_come_again)
{
    char dated[160], day[64];
    time_t later = time(NULL) + 40000;
    strftime(day, sizeof day, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&later));
    snprintf(dated, sizeof dated, ANSWER("503 Later", "Retry-After: %s\r\n", ""), day);
    const struct {
        const char *answer;
        int64_t least, most; /* milliseconds; 0: not said */
    } cases[] = {{ANSWER("429 Too Many", "Retry-After: 7\r\n", ""), 7000, 7000},
                 {ANSWER("429 Too Many", "retry-after:40000 \r\n", ""), 40000000, 40000000},
                 {dated, 39900000, 40000000},
                 {INTERIM "Retry-After: 7\r\n\r\n" ANSWER("503 Later", "", ""), 0, 0},
                 {INTERIM "Retry-After: 7\r\n\r\n" ANSWER("503 Later", "Retry-After: 9\r\n", ""), 9000, 9000},
                 {ANSWER("503 Later", "Retry-After: 999999999\r\n", ""), 86400000, 86400000},
                 {ANSWER("503 Later", "Retry-After: soon\r\n", ""), 0, 0},
                 {ANSWER("503 Later", "Retry-After: -5\r\n", ""), 0, 0},
                 {ANSWER("503 Later", "Retry-After: Thu, 01 Jan 2015 00:00:00 GMT\r\n", ""), 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const answers[] = {cases[i].answer, NULL};
        caller_begin(private_allowed, answers);
        assert_int_equal(call(), HF_FAIL);
        assert_int_equal(caller.job.has_retry_in, cases[i].least > 0);
        assert_in_range(caller.job.retry_in_ms, cases[i].least, cases[i].most);
        caller_end(); /* while its answers are there */
    }
}

TEST(what_is_no_http_fails)
{
    static const char *const answers[] = {"SSH-2.0-x\r\n\r\n", "HTTP/1.1 banana\r\n\r\n",
                                          "HTTP/1.1 999 Odd\r\nConnection: close\r\n\r\n",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
                                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const char *const script[] = {answers[i], NULL};
        caller_begin(private_allowed, script);
        if (call() != HF_FAIL)
            fail_msg("accepted: %s", answers[i]);
        assert_string_equal(caller.job.error_class, "WebhookUnreachable");
        assert_null(caller.job.result);
        caller_end(); /* while its answers are there */
    }
}

TEST(a_long_answer_is_cut_and_not_read_to_its_end)
{
    static const char *const answers[] = {"HTTP/1.1 200 OK" HTTP_ENDLESS, NULL};
    caller_begin(private_allowed, answers);
    assert_int_equal(call(), HF_OK);
    assert_contains(caller.job.result, "\"cut\":true");
    assert_in_range(strlen(caller.job.result), 65536, 1 << 20);
    assert_int_equal(call(), HF_OK); /* and the handle is good for another */
}

TEST(a_head_without_end_fails)
{
    enum { LENGTH = 200000 };
    char *answer = malloc(LENGTH + 1);
    size_t at = (size_t)snprintf(answer, LENGTH, "HTTP/1.1 200 OK\r\n");
    while (at + 100 < LENGTH)
        at += (size_t)snprintf(answer + at, LENGTH - at, "X-%zu: %060d\r\n", at, 0);
    const char *const answers[] = {answer, NULL};
    caller_begin(private_allowed, answers);
    assert_int_equal(call(), HF_FAIL);
    assert_contains(caller.job.error, "longer than 64 KiB");
    caller_end();
    free(answer);
}

TEST(bytes_that_are_no_text_are_replaced)
{
    static const char *const answers[] = {ANSWER("200 OK", "", "a\xff\xc3\xa9\xe2\x82z"), NULL};
    caller_begin(private_allowed, answers);
    assert_int_equal(call(), HF_OK);
    assert_contains(caller.job.result, "\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz\"");
}

TEST(nobody_there_fails)
{
    caller_begin(private_allowed, ok);
    assert_int_equal(call_json("[\"http://127.0.0.1:1/secret\"]"), HF_FAIL);
    assert_string_equal(caller.job.error_class, "WebhookUnreachable");
    assert_contains(caller.job.error, "http://127.0.0.1:1 could not be called");
    assert_lacks(caller.job.error, "secret");
}

static const char *const silence[] = {HTTP_SILENCE, NULL};

TEST(a_slow_server_fails_when_the_time_is_over)
{
    caller_begin(private_allowed, silence);
    assert_int_equal(call_with("[{\"timeout\":0.1,\"url\":\"", "/\"}]"), HF_FAIL);
    assert_string_equal(caller.job.error_class, "WebhookTimeout");
}

static void cancel_once_the_server_has_it(hf_job *job)
{
    job->is_cancelled = http_server_requests(job->context) > 0;
}

TEST(a_call_ends_when_the_task_is_cancelled)
{
    caller_begin(private_allowed, silence);
    caller.job.when_asked = cancel_once_the_server_has_it;
    caller.job.context = caller.server;
    assert_int_equal(call_with("[{\"timeout\":300,\"url\":\"", "/\"}]"), HF_CANCELLED);
    assert_int_equal(http_server_requests(caller.server), 1);
}

enum { THREADS = 4, CALLS = 5 };

static void *call_many(void *value)
{
    (void)value;
    for (int i = 0; i < CALLS; i++) {
        hf_job job = {.jid = "j", .json = caller.args};
        if (fake_plugin_run(caller.plugin, &job) != HF_OK)
            abort();
        fake_job_clear(&job);
    }
    return NULL;
}

TEST(threads_call_at_the_same_time)
{
    pthread_t threads[THREADS];
    caller_begin(private_allowed, ok);
    assert_int_equal(call(), HF_OK); /* leaves the arguments */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(http_server_requests(caller.server), 1 + THREADS * CALLS);
}

/* --- arguments and settings --------------------------------------------------------------------------------- */

TEST(senseless_arguments_are_refused)
{
    static const char *const cases[][2] = {
        {"[]", "expected"},
        {"[1]", "expected"},
        {"[\"http://a/\",1,2]", "expected"},
        {"[{\"url\":\"http://a/\"},1]", "expected"},
        {"[{}]", "there is no url"},
        {"[{\"url\":7}]", "no text"},
        {"[\"a.example/x\"]", "http:// or https://"},
        {"[\"ftp://a/\"]", "neither http nor https"},
        {"[\"file:///etc/passwd\"]", "url"},
        {"[\"gopher://a/\"]", "neither http nor https"},
        {"[\"http://u:p@a/\"]", "a user or a password"},
        {"[\"http://u@a/\"]", "a user or a password"},
        {"[\"http://a/\\r\\nX: y\"]", "control character"},
        {"[\"http://a b/\"]", "blank"},
        {"[{\"url\":\"http://a/\",\"tiemout\":1}]", "only the members"},
        {"[{\"url\":\"http://a/\",\"method\":\"post\"}]", "capital letters"},
        {"[{\"url\":\"http://a/\",\"method\":\"CONNECT\"}]", "CONNECT"},
        {"[{\"url\":\"http://a/\",\"method\":\"GET / HTTP/1.1\\r\\n\"}]", "capital letters"},
        {"[{\"url\":\"http://a/\",\"headers\":[]}]", "no object"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"a\":1}}]", "a name and a text"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"a\":\"b\\r\\nc: d\"}}]", "illegal character"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"a b\":\"c\"}}]", "illegal character"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"\":\"c\"}}]", "illegal character"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"a\":\"b\",\"A\":\"c\"}}]", "twice"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"Host\":\"b\"}}]", "connection"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"content-length\":\"1\"}}]", "connection"},
        {"[{\"url\":\"http://a/\",\"headers\":{\"holdfast-task\":\"1\"}}]", "connection"},
        {"[{\"url\":\"http://a/\",\"timeout\":0}]", "timeout"},
        {"[{\"url\":\"http://a/\",\"timeout\":301}]", "timeout"},
        {"[{\"url\":\"http://a/\",\"timeout\":\"1\"}]", "timeout"},
    };
    struct fake_plugin *plugin = webhook_open(private_allowed);
    char reason[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (fake_plugin_check(plugin, cases[i][0], reason))
            fail_msg("accepted: %s", cases[i][0]);
        assert_contains(reason, cases[i][1]);
        hf_job job = {.jid = "j", .json = cases[i][0]};
        assert_int_equal(fake_plugin_run(plugin, &job), HF_BURY);
        assert_string_equal(job.error_class, "HF::BadArguments");
    }
    assert_true(fake_plugin_check(plugin, "[\"https://[2606:4700::1]:8443/x?y#z\", null]", reason));
    assert_true(fake_plugin_check(plugin, "[{\"url\":\"http://a\",\"body\":[],\"timeout\":0.5}]", reason));
    fake_plugin_close(plugin);
}

TEST(wrong_settings_are_refused_with_a_reason)
{
    static const struct fake_setting settings[][3] = {{{"allow_private", "maybe"}},
                                                      {{"redirects", "11"}},
                                                      {{"timeout", "0"}},
                                                      {{"timeout", "301"}},
                                                      {{"signature_header", "a: b"}},
                                                      {{"secret", ""}},
                                                      {{"secret_file", "/none"}},
                                                      {{"secret", "a"}, {"secret_file", "/none"}},
                                                      {{"ca_file", "/none"}}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char reason[512] = "";
        assert_null(fake_plugin_open("webhook", settings[i], reason));
        assert_contains(reason, settings[i][0].key);
    }
}

RUN_TESTS_BETWEEN(NULL, caller_end)
