/* Where the webhook job does not go: to addresses that are not public, and where a redirect leads. */
#include "tests/unit/webhook_fixture.h"

static const char *const ok[] = {ANSWER("200 OK", "", ""), NULL};
static const struct fake_setting no_settings[] = {{NULL, NULL}};

/* --- addresses ---------------------------------------------------------------------------------------------- */

static int call_host(const char *host)
{
    snprintf(caller.args, sizeof caller.args, "[\"http://%s:%u/hidden?key=s\"]", host, http_server_port(caller.server));
    return call_json(caller.args);
}

TEST(the_inside_is_not_called)
{
    /* All of them would reach the server. */
    static const char *const hosts[] = {"127.0.0.1", "localhost", "127.1",      "0x7f000001",        "2130706433",
                                        "0.0.0.0",   "127.9.9.9", "0177.0.0.1", "[::ffff:127.0.0.1]"};
    caller_begin(no_settings, ok);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (call_host(hosts[i]) != HF_BURY)
            fail_msg("%s was called, or is tried again: %s", hosts[i], caller.job.error);
        assert_string_equal(caller.job.error_class, "WebhookRefused");
        assert_contains(caller.job.error, "not public");
        assert_lacks(caller.job.error, "hidden");
        assert_lacks(caller.job.error, "key");
    }
    assert_int_equal(http_server_requests(caller.server), 0);
}

TEST(hosts_that_are_named_may_be_inside)
{
    static const struct fake_setting settings[] = {{"private_hosts", "hooks.example, 127.0.0.1 127.0.0.20"},
                                                   {NULL, NULL}};
    caller_begin(settings, ok);
    assert_int_equal(call_host("127.0.0.1"), HF_OK);
    assert_int_equal(call_host("127.0.0.10"), HF_BURY);
    assert_int_equal(call_host("127.0.0.2"), HF_BURY);
    assert_int_equal(call_host("localhost"), HF_BURY);
    assert_int_equal(http_server_requests(caller.server), 1);
}

/* --- redirects ---------------------------------------------------------------------------------------------- */

/* Two servers: the first one points to the second with that status. */
struct detour {
    struct http_server *end;
    char answer[256];
    const char *answers[2];
};

static int detour_run(struct detour *detour, const char *status, const char *host, const struct fake_setting *settings)
{
    static const char before[] =
        "[{\"headers\":{\"Authorization\":\"Bearer s\",\"Accept\":\"a/b\"},\"body\":{},\"url\":\"";
    detour->end = http_server_start(ok);
    snprintf(detour->answer, sizeof detour->answer,
             "HTTP/1.1 %s\r\nLocation: http://%s:%u/end\r\nConnection: close\r\n\r\n", status, host,
             http_server_port(detour->end));
    detour->answers[0] = detour->answer;
    detour->answers[1] = NULL;
    caller_begin(settings, detour->answers);
    return call_with(before, "/begin\"}]");
}

static void detour_fini(struct detour *detour)
{
    caller_end();
    http_server_stop(detour->end);
}

TEST(a_redirect_is_followed_when_that_is_set)
{
    static const struct fake_setting followed[] = {
        {"allow_private", "yes"}, {"redirects", "1"}, {"secret", "s"}, {NULL, NULL}};
    struct detour detour;
    assert_int_equal(detour_run(&detour, "307 There", "127.0.0.1", followed), HF_OK);
    const char *request = http_server_request(detour.end, 0);
    assert_contains(request, "POST /end HTTP/1.1\r\n");
    assert_contains(request, "\r\n\r\n{}");
    assert_contains(request, "\r\nAccept: a/b\r\n");
    assert_contains(request, "\r\nHoldfast-Signature: t=");
    assert_lacks(request, "Authorization"); /* another port is another server */
    assert_contains(http_server_request(caller.server, 0), "\r\nAuthorization: Bearer s\r\n");
    detour_fini(&detour);
}

TEST(a_redirect_is_not_followed_otherwise)
{
    struct detour detour;
    assert_int_equal(detour_run(&detour, "307 There", "127.0.0.1", private_allowed), HF_BURY);
    assert_string_equal(caller.job.error_class, "WebhookRedirect");
    assert_int_equal(http_server_requests(detour.end), 0);
    detour_fini(&detour);
}

TEST(a_redirect_that_changes_the_method_is_not_followed)
{
    static const struct fake_setting followed[] = {{"allow_private", "yes"}, {"redirects", "5"}, {NULL, NULL}};
    struct detour detour;
    assert_int_equal(detour_run(&detour, "302 There", "127.0.0.1", followed), HF_BURY);
    assert_contains(caller.job.error, "does not keep the method");
    detour_fini(&detour);
}

TEST(a_redirect_does_not_lead_inside)
{
    static const struct fake_setting followed[] = {{"private_hosts", "127.0.0.1"}, {"redirects", "5"}, {NULL, NULL}};
    struct detour detour;
    assert_int_equal(detour_run(&detour, "308 There", "localhost", followed), HF_BURY);
    assert_string_equal(caller.job.error_class, "WebhookRefused");
    assert_contains(caller.job.error, "localhost");
    assert_int_equal(http_server_requests(detour.end), 0);
    detour_fini(&detour);
}

TEST(redirects_come_to_an_end)
{
    static const struct fake_setting followed[] = {{"allow_private", "yes"}, {"redirects", "3"}, {NULL, NULL}};
    static const char *const again[] = {ANSWER("307 There", "Location: /again\r\n", ""), NULL};
    static const char *const elsewhere[] = {ANSWER("307 There", "Location: file:///etc/passwd\r\n", ""), NULL};
    caller_begin(followed, again);
    assert_int_equal(call(), HF_BURY);
    assert_contains(caller.job.error, "see the setting redirects");
    assert_int_equal(http_server_requests(caller.server), 4);
    caller_begin(followed, elsewhere);
    assert_int_equal(call(), HF_BURY);
    assert_string_equal(caller.job.error_class, "WebhookRedirect");
}

RUN_TESTS_BETWEEN(NULL, caller_end)
