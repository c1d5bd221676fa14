/* Connections through TLS: who is trusted, what is refused and why, and certificates that change. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "redis/node.h"
#include "tests/support/authority.h"
#include "tests/support/hostile_server.h"
#include "tests/support/log_capture.h"
#include "tests/support/node_server_fixture.h"

enum { HOUR_S = 3600 };

static struct authority *authority;
static unsigned tls_port;
static struct redis_tls_options trusting;

static int setup(void **state)
{
    authority = authority_create();
    trusting = (struct redis_tls_options){.is_on = true, .ca_file = authority_file(authority)};
    return node_setup(state);
}

static int teardown(void **state)
{
    (void)node_server_teardown(state);
    authority_destroy(authority);
    return 0;
}

/* With a certificate for `name`, NULL = for 127.0.0.1. `further` are lines of its configuration. */
static void server_begin(const char *name, long ends_in_s, const char *further)
{
    char config[2048];
    authority_issue(authority, "server", name, ends_in_s);
    tls_port = free_port();
    snprintf(config, sizeof config, "tls-port %u\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\n%s\n",
             tls_port, authority_path(authority, "server", "pem"), authority_path(authority, "server", "key"),
             authority_file(authority), further != NULL ? further : "tls-auth-clients no");
    start_server(&(struct redis_server_options){.config = config});
}

static struct redis_node_options options_for(unsigned port)
{
    struct redis_node_options options = node_options_for(port);
    options.tls = trusting;
    return options;
}

static void assert_refused(const struct redis_node_options *options, const char *reason)
{
    probe = (struct node_probe){.loop = NULL};
    node_probe_start(&probe, loop, options);
    node_probe_wait_downs(&probe, 1);
    assert_contains(probe.reason, reason);
    assert_int_equal(probe.ups, 0);
}

/* --- what works --------------------------------------------------------------------------------------------------- */

TEST(test_requests_and_replies_of_any_size)
{
    enum { VALUE_SIZE = 700 * 1000 };
    server_begin(NULL, HOUR_S, NULL);
    struct redis_node_options options = options_for(tls_port);
    assert_comes_up(&options);
    char *value = malloc(VALUE_SIZE + 1);
    memset(value, 'x', VALUE_SIZE);
    value[VALUE_SIZE] = '\0';
    for (int i = 0; i < 3; i++) {
        struct call_probe set = {.completions = 0}, get = {.completions = 0};
        assert_true(call_probe_send(&set, &probe, TEST_PATIENCE_NS, "SET k %s", value));
        assert_true(call_probe_send(&get, &probe, TEST_PATIENCE_NS, "GET k"));
        call_probe_wait(&get, loop);
        assert_int_equal(set.outcome, REDIS_VALUE);
        assert_int_equal(get.outcome, REDIS_VALUE);
        assert_memory_equal(get.text, value, sizeof get.text - 1);
    }
    free(value);
}

TEST(test_an_older_version_of_tls)
{
    server_begin(NULL, HOUR_S, "tls-auth-clients no\ntls-protocols TLSv1.2");
    struct redis_node_options options = options_for(tls_port);
    assert_comes_up(&options);
}

TEST(test_a_name_of_its_own)
{
    server_begin("lock1.example", HOUR_S, NULL);
    trusting.server_name = "lock1.example";
    struct redis_node_options options = options_for(tls_port);
    assert_comes_up(&options);
}

TEST(test_a_certificate_of_the_client)
{
    server_begin(NULL, HOUR_S, "tls-auth-clients yes");
    authority_issue(authority, "client", "client", HOUR_S);
    trusting.cert_file = authority_path(authority, "client", "pem");
    trusting.key_file = authority_path(authority, "client", "key");
    struct redis_node_options options = options_for(tls_port);
    assert_comes_up(&options);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

TEST(test_an_unknown_authority)
{
    server_begin(NULL, HOUR_S, NULL);
    struct authority *another = authority_create();
    trusting.ca_file = authority_file(another);
    struct redis_node_options options = options_for(tls_port);
    assert_refused(&options, "TLS: its certificate is refused: ");
    authority_destroy(another);
}

TEST(test_an_expired_certificate)
{
    server_begin(NULL, -HOUR_S, NULL);
    struct redis_node_options options = options_for(tls_port);
    assert_refused(&options, "TLS: its certificate is refused: certificate has expired");
}

TEST(test_a_certificate_for_another_name)
{
    server_begin("lock1.example", HOUR_S, NULL);
    struct redis_node_options options = options_for(tls_port);
    assert_refused(&options, "TLS: its certificate is refused: IP address mismatch");
    node_probe_stop(&probe);
    options.tls.server_name = "lock2.example";
    assert_refused(&options, "TLS: its certificate is refused: hostname mismatch");
}

TEST(test_no_certificate_where_one_is_asked_for)
{
    server_begin(NULL, HOUR_S, "tls-auth-clients yes");
    struct redis_node_options options = options_for(tls_port);
    assert_refused(&options, "certificate required");
}

TEST(test_a_server_without_tls_and_a_client_without_it)
{
    server_begin(NULL, HOUR_S, NULL);
    struct redis_node_options options = options_for(redis_server_port(server));
    options.connect_timeout_ns = 50 * NS_PER_MS; /* it may wait for the rest of what it takes for a request */
    assert_refused(&options, "TLS");
    node_probe_stop(&probe);
    options = options_for(tls_port);
    options.tls.is_on = false;
    assert_refused(&options, "; does it want TLS?");
}

TEST(test_a_peer_that_stalls_in_the_handshake)
{
    struct hostile_server *mute = hostile_server_start(HOSTILE_MUTE);
    struct redis_node_options options = options_for(hostile_server_port(mute));
    options.connect_timeout_ns = 50 * NS_PER_MS;
    assert_refused(&options, "the handshake of TLS took longer than 50 ms");
    node_probe_stop(&probe);
    hostile_server_destroy(mute);
}

TEST(test_files_that_cannot_be_used)
{
    struct error error = ERROR_NONE;
    assert_false(redis_tls_check(&(struct redis_tls_options){.ca_file = "/nowhere/at/all.pem"}, &error));
    assert_string_equal(error.text, "cannot read the certificates of authorities in /nowhere/at/all.pem: No such file "
                                    "or directory");
    error = ERROR_NONE;
    authority_issue(authority, "a", "a", HOUR_S);
    authority_issue(authority, "b", "b", HOUR_S);
    struct redis_tls_options options = {.ca_file = authority_file(authority),
                                        .cert_file = authority_path(authority, "a", "pem")};
    assert_false(redis_tls_check(&options, &error));
    assert_string_equal(error.text, "a certificate of the client needs its key, and a key its certificate");
    error = ERROR_NONE;
    options.key_file = authority_path(authority, "b", "key");
    assert_false(redis_tls_check(&options, &error));
    assert_contains(error.text, "key values mismatch");
    error = ERROR_NONE;
    options.key_file = authority_path(authority, "a", "key");
    assert_true(redis_tls_check(&options, &error));
    assert_int_equal(chmod(options.key_file, 0604), 0);
    assert_false(redis_tls_check(&options, &error));
    assert_contains(error.text, "everybody may read the key in ");

    server_begin(NULL, HOUR_S, NULL);
    trusting.ca_file = "/nowhere/at/all.pem";
    struct redis_node_options node = options_for(tls_port);
    assert_refused(&node, "cannot read the certificates of authorities in /nowhere/at/all.pem");
}

/* --- what changes ------------------------------------------------------------------------------------------------- */

static void connection_lose(void)
{
    unsigned downs = probe.downs, ups = probe.ups;
    struct call_probe call = {.completions = 0};
    (void)call_probe_send(&call, &probe, TEST_PATIENCE_NS, "CLIENT KILL TYPE normal SKIPME no");
    node_probe_wait_downs(&probe, downs + 1);
    loop_await(loop, probe.ups > ups || strstr(redis_node_reason(probe.node), "TLS") != NULL);
}

/* The server shows another one from now on. */
static void certificate_change(long ends_in_s)
{
    authority_issue(authority, "server", NULL, ends_in_s);
    char *reply =
        redis_server_command(server, "CONFIG SET tls-key-file %s tls-cert-file %s",
                             authority_path(authority, "server", "key"), authority_path(authority, "server", "pem"));
    assert_string_equal(reply, "OK");
    free(reply);
}

/* The client shows the one that is in its file when it connects; one that cannot be read changes nothing. */
TEST(test_a_certificate_that_is_renewed)
{
    size_t length;
    server_begin(NULL, HOUR_S, "tls-auth-clients yes");
    authority_issue(authority, "client", "client", -HOUR_S);
    trusting.cert_file = authority_path(authority, "client", "pem");
    trusting.key_file = authority_path(authority, "client", "key");
    struct redis_node_options options = options_for(tls_port);
    assert_refused(&options, "certificate");
    log_capture_begin();
    authority_issue(authority, "client", "client", HOUR_S);
    node_probe_wait_up(&probe);
    assert_contains(log_capture_end(&length), "info tls_reloaded node=probe");

    log_capture_begin();
    assert_int_equal(truncate(trusting.cert_file, 10), 0);
    connection_lose();
    assert_int_equal(probe.ups, 2);
    connection_lose();
    assert_int_equal(probe.ups, 3);
    const char *told = log_capture_end(&length);
    assert_contains(told, "error tls_reload_failed node=probe reason=\"cannot read the certificate in ");
    assert_null(strstr(strstr(told, "tls_reload_failed") + 1, "tls_reload_failed"));
}

/* It is looked at when a connection is made: an open one goes on, the next one fails and says why, until there is a
 * new one. */
TEST(test_a_certificate_that_expires_meanwhile)
{
    struct call_probe call = {.completions = 0};
    server_begin(NULL, HOUR_S, NULL);
    struct redis_node_options options = options_for(tls_port);
    assert_comes_up(&options);
    certificate_change(-HOUR_S);
    call_probe_run(&call, &probe, "PING");
    assert_int_equal(call.outcome, REDIS_VALUE);
    assert_int_equal(probe.downs, 0);
    connection_lose();
    loop_await(loop, strstr(redis_node_reason(probe.node), "certificate has expired") != NULL);
    assert_int_equal(probe.ups, 1);
    certificate_change(HOUR_S);
    loop_await(loop, probe.ups == 2);
}

RUN_TESTS_WITH(setup, teardown)
