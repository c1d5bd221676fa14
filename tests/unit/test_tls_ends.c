/* TLS between two ends in memory: what a server sends byte by byte, cut off, spoilt, or with new keys; and servers that
 * are refused, or refuse us. The server's end is OpenSSL alone. */
#include "tests/support/test.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/resource.h>

#include "redis/tls.h"
#include "tests/support/authority.h"
#include "tests/support/log_capture.h"

enum { HOUR_S = 3600 };

static struct authority *authority;
static struct tls_context *context;
static struct tls *client;
static SSL_CTX *server_context;
static SSL *server;
static BIO *to_server, *from_server;
static struct error error;

static int refuse_as_revoked(X509_STORE_CTX *store, void *unused)
{
    (void)unused;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    authority = authority_create();
    authority_issue(authority, "server", "server.example", HOUR_S);
    authority_issue(authority, "client", "client", HOUR_S);
    struct redis_tls_options options = {.is_on = true,
                                        .ca_file = authority_file(authority),
                                        .cert_file = authority_path(authority, "client", "pem"),
                                        .key_file = authority_path(authority, "client", "key")};
    context = tls_context_create(&options, "node");
    server_context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(
        SSL_CTX_use_certificate_file(server_context, authority_path(authority, "server", "pem"), SSL_FILETYPE_PEM), 1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(server_context, authority_path(authority, "server", "key"), SSL_FILETYPE_PEM), 1);
    error = (struct error)ERROR_NONE;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tls_destroy(client);
    client = NULL;
    SSL_free(server);
    server = NULL;
    SSL_CTX_free(server_context);
    tls_context_destroy(context);
    authority_destroy(authority);
    return 0;
}

static void begin(void)
{
    client = tls_create(context, "server.example", &error);
    assert_non_null(client);
    server = SSL_new(server_context);
    to_server = BIO_new(BIO_s_mem());
    from_server = BIO_new(BIO_s_mem());
    SSL_set_bio(server, to_server, from_server);
    SSL_set_accept_state(server);
}

static void client_sends(void)
{
    struct buffer *output = tls_output(client);
    if (output->length > 0)
        assert_int_equal(BIO_write(to_server, output->bytes, (int)output->length), (int)output->length);
    buffer_clear(output);
}

/* What the server has to say, in pieces of this size. */
static void server_sends(size_t piece)
{
    char bytes[4096];
    int got;
    while ((got = BIO_read(from_server, bytes, (int)(piece < sizeof bytes ? piece : sizeof bytes))) > 0)
        tls_give(client, bytes, (size_t)got);
}

static enum tls_state shake_hands(size_t piece)
{
    enum tls_state state = TLS_SHAKING_HANDS;
    for (int i = 0; i < 8 && state == TLS_SHAKING_HANDS; i++) {
        state = tls_advance(client, &error);
        client_sends();
        ERR_clear_error();
        (void)SSL_do_handshake(server);
        server_sends(piece);
    }
    return state;
}

static void assert_reads(const char *expected)
{
    char text[64 * 1024];
    size_t length = 0;
    ssize_t got;
    while ((got = tls_read(client, text + length, sizeof text - 1 - length, &error)) > 0)
        length += (size_t)got;
    assert_int_equal(got, 0);
    text[length] = '\0';
    assert_string_equal(text, expected);
}

static void server_says(const char *text)
{
    assert_int_equal(SSL_write(server, text, (int)strlen(text)), (int)strlen(text));
}

static void assert_server_hears(const char *expected)
{
    char text[256] = "";
    int got = SSL_read(server, text, sizeof text - 1);
    assert_true(got >= 0);
    assert_string_equal(text, expected);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

TEST(bytes_may_come_one_by_one_and_records_together)
{
    begin();
    assert_int_equal(shake_hands(1), TLS_OPEN);
    server_says("+one\r\n");
    server_says("+two\r\n");
    server_says("+three\r\n");
    server_sends(4096); /* three records wait at once */
    char first[3];
    assert_int_equal(tls_read(client, first, sizeof first, &error), 3);
    assert_memory_equal(first, "+on", 3);
    assert_reads("e\r\n+two\r\n+three\r\n");
    server_says("+four\r\n");
    char record[256];
    int length = BIO_read(from_server, record, sizeof record);
    for (int i = 0; i < length - 1; i++) {
        tls_give(client, record + i, 1);
        assert_reads(""); /* nothing of a record before all of it */
    }
    tls_give(client, record + length - 1, 1);
    assert_reads("+four\r\n");
}

/* The peer asks for new keys of both sides while we have something to say: the answer goes out with what we
 * say next. */
TEST(keys_change_in_the_middle_of_what_is_said)
{
    begin();
    assert_int_equal(shake_hands(4096), TLS_OPEN);
    assert_true(tls_write(client, "PING\r\n", 6, &error));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(server, SSL_KEY_UPDATE_REQUESTED), 1);
        server_says("+before\r\n");
        server_sends(5);
        assert_true(tls_write(client, "GET k\r\n", 7, &error)); /* under the old keys: nothing was read yet */
        assert_reads("+before\r\n");
        assert_true(tls_write(client, "GET l\r\n", 7, &error));
        client_sends();
        if (i == 0)
            assert_server_hears("PING\r\n");
        assert_server_hears("GET k\r\n");
        assert_server_hears("GET l\r\n");
    }
}

TEST(an_end_in_order_is_told_from_a_record_that_is_cut_or_spoilt)
{
    begin();
    assert_int_equal(shake_hands(4096), TLS_OPEN);
    char record[256], text[64];
    server_says("$5\r\nhello\r\n");
    int length = BIO_read(from_server, record, sizeof record);
    tls_give(client, record, (size_t)length / 2);
    assert_reads(""); /* half a record gives no half of a reply; the owner of the socket sees its end */
    tls_give(client, record + length / 2, (size_t)(length - length / 2));
    assert_reads("$5\r\nhello\r\n");
    server_says("+spoilt\r\n");
    length = BIO_read(from_server, record, sizeof record);
    record[length - 3] ^= 1;
    tls_give(client, record, (size_t)length);
    assert_int_equal(tls_read(client, text, sizeof text, &error), -1);
    assert_contains(error.text, "TLS: ");
}

TEST(a_peer_that_closes_in_order_is_no_failure)
{
    begin();
    assert_int_equal(shake_hands(4096), TLS_OPEN);
    char text[64];
    server_says("+last\r\n");
    (void)SSL_shutdown(server);
    server_sends(4096);
    assert_int_equal(tls_read(client, text, sizeof text, &error), 7);
    assert_int_equal(tls_read(client, text, sizeof text, &error), -1);
    assert_false(error_is_set(&error));
}

/* Neither side may be talked into less than TLS 1.2. */
TEST(a_server_of_tls_1_1_is_refused)
{
    SSL_CTX_set_security_level(server_context, 0);
    assert_int_equal(SSL_CTX_set_min_proto_version(server_context, TLS1_VERSION), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(server_context, TLS1_1_VERSION), 1);
    begin();
    assert_int_equal(shake_hands(4096), TLS_FAILED);
    assert_contains(error.text, "TLS: ");
    assert_contains(error.text, "version");
}

/* Redis has no setting for lists of revoked certificates; another server, or a proxy before it, may. */
TEST(a_server_that_holds_our_certificate_for_revoked)
{
    SSL_CTX_set_verify(server_context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(server_context, refuse_as_revoked, NULL);
    char text[64];
    begin();
    enum tls_state ended = shake_hands(4096);
    if (ended == TLS_OPEN) /* with TLS 1.3 our side is ready before the server has looked */
        assert_int_equal(tls_read(client, text, sizeof text, &error), -1);
    assert_contains(error.text, "certificate revoked");
}

static unsigned times_in(const char *text, const char *part)
{
    unsigned times = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        times++;
    return times;
}

/* The files have not changed since the attempt that failed. */
TEST(files_that_could_not_be_opened_are_read_again)
{
    struct rlimit before, few;
    size_t length;
    begin();
    authority_issue(authority, "client", "renewed", HOUR_S);
    log_capture_begin();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3; /* all of them are in use */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < 3; i++)
        tls_destroy(tls_create(context, "server.example", &error));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(error_is_set(&error));
    for (int i = 0; i < 3; i++)
        tls_destroy(tls_create(context, "server.example", &error));
    const char *told = log_capture_end(&length);
    assert_int_equal(times_in(told, "tls_reload_failed"), 1);
    assert_int_equal(times_in(told, "tls_reloaded"), 1);
}

RUN_TESTS_WITH(set_up, tear_down)
