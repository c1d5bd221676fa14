/* The webhook job and certificates: only one that it trusts, for the name that it calls. */
#include "tests/support/private_directory.h"
#include "tests/unit/webhook_fixture.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/socket.h>

/* A server whose certificate it has signed itself, for 127.0.0.1; answers every request with 200. */
struct tls_server {
    SSL_CTX *context;
    int listener;
    unsigned port;
    pthread_t thread;
    char certificate[PRIVATE_DIRECTORY_MAX]; /* its file */
};

static X509 *certificate_make(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    return certificate;
}

static void certificate_write(const X509 *certificate, char path[PRIVATE_DIRECTORY_MAX])
{
    FILE *file = fdopen(private_file_create(path), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
}

static void *serve(void *value)
{
    static const char answer[] = ANSWER("200 OK", "", "sealed");
    struct tls_server *server = value;
    for (int client; (client = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(client)) {
        char bytes[4096];
        SSL *session = SSL_new(server->context);
        SSL_set_fd(session, client);
        if (SSL_accept(session) == 1 && SSL_read(session, bytes, sizeof bytes) > 0) {
            SSL_write(session, answer, sizeof answer - 1);
            SSL_shutdown(session);
        }
        SSL_free(session);
    }
    return NULL;
}

static void server_start(struct tls_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = certificate_make(key);
    server->context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(server->context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server->context, key), 1);
    certificate_write(certificate, server->certificate);
    X509_free(certificate);
    EVP_PKEY_free(key);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct tls_server *server)
{
    shutdown(server->listener, SHUT_RDWR); /* ends accept4() */
    pthread_join(server->thread, NULL);
    close(server->listener);
    SSL_CTX_free(server->context);
    unlink(server->certificate);
}

static int call_tls(const struct tls_server *server, const struct fake_setting *settings, const char *host, hf_job *job)
{
    char args[128];
    struct fake_plugin *plugin = webhook_open(settings);
    snprintf(args, sizeof args, "[\"https://%s:%u/\",{}]", host, server->port);
    *job = (hf_job){.jid = "j", .json = args};
    int code = fake_plugin_run(plugin, job);
    free(job->result);
    job->json = NULL;
    fake_plugin_close(plugin);
    return code;
}

TEST(only_a_trusted_certificate_for_that_name_will_do)
{
    struct tls_server server;
    server_start(&server);
    const struct fake_setting trusting[] = {{"allow_private", "yes"}, {"ca_file", server.certificate}, {NULL, NULL}};
    hf_job job;
    assert_int_equal(call_tls(&server, trusting, "127.0.0.1", &job), HF_OK);
    assert_int_equal(call_tls(&server, private_allowed, "127.0.0.1", &job), HF_FAIL);
    assert_string_equal(job.error_class, "WebhookUnreachable");
    assert_contains(job.error, "certificate");
    assert_int_equal(call_tls(&server, trusting, "localhost", &job), HF_FAIL);
    assert_contains(job.error, "certificate");
    server_stop(&server);
}

TEST(a_server_without_tls_fails)
{
    static const char *const plain[] = {ANSWER("200 OK", "", ""), NULL};
    caller_begin(private_allowed, plain);
    snprintf(caller.args, sizeof caller.args, "[{\"timeout\":0.3,\"url\":\"https://127.0.0.1:%u/\"}]",
             http_server_port(caller.server));
    assert_int_equal(call_json(caller.args), HF_FAIL);
    assert_int_equal(http_server_requests(caller.server), 0);
}

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the worker does */
}

RUN_TESTS_BETWEEN(set_up, caller_end)
