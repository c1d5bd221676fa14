/* OpenSSL between two buffers: memory BIOs, so that it sees no descriptor. */
#include "redis/tls.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"

/* --- what went wrong ---------------------------------------------------------------------------------------------- */

/* The reason that OpenSSL recorded first, which is the innermost. Empties its queue, which belongs to the thread. */
static bool failure_set(struct error *error, const char *what, const char *detail)
{
    unsigned long code = ERR_peek_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
        reason = "what it answers is no TLS, or of a version below 1.2";
    if (code != 0 && reason == NULL && ERR_SYSTEM_ERROR(code))
        reason = strerror(ERR_GET_REASON(code));
    ERR_clear_error();
    return error_set(error, "%s%s%s: %s", what, detail[0] != '\0' ? " " : "", detail,
                     reason != NULL ? reason : "no reason is known");
}

/* --- contexts ----------------------------------------------------------------------------------------------------- */

enum { TLS_FILES = 3 };

/* What changes when another file takes the name. */
struct file_version {
    struct timespec changed;
    ino_t inode;
    off_t size;
};

struct tls_context {
    struct redis_tls_options options; /* copies */
    char *name;
    SSL_CTX *loaded;                         /* NULL: never yet */
    struct file_version versions[TLS_FILES]; /* that were tried last */
    bool has_failed;                         /* that attempt, for a reason that may pass without another version */
};

static void versions_look(const struct redis_tls_options *options, struct file_version versions[TLS_FILES])
{
    const char *const paths[TLS_FILES] = {options->ca_file, options->cert_file, options->key_file};
    memset(versions, 0, TLS_FILES * sizeof *versions);
    for (unsigned i = 0; i < TLS_FILES; i++) {
        struct stat facts;
        if (paths[i] != NULL && stat(paths[i], &facts) == 0)
            versions[i] = (struct file_version){.changed = facts.st_ctim, .inode = facts.st_ino, .size = facts.st_size};
    }
}

static bool versions_equal(const struct file_version *a, const struct file_version *b)
{
    for (unsigned i = 0; i < TLS_FILES; i++)
        if (a[i].changed.tv_sec != b[i].changed.tv_sec || a[i].changed.tv_nsec != b[i].changed.tv_nsec ||
            a[i].inode != b[i].inode || a[i].size != b[i].size)
            return false;
    return true;
}

static bool authorities_load(SSL_CTX *made, const char *ca_file, struct error *error)
{
    if (ca_file == NULL)
        return SSL_CTX_set_default_verify_paths(made) == 1 ||
               failure_set(error, "cannot read the certificates of the system's authorities", "");
    return SSL_CTX_load_verify_file(made, ca_file) == 1 ||
           failure_set(error, "cannot read the certificates of authorities in", ca_file);
}

static bool certificate_load(SSL_CTX *made, const struct redis_tls_options *options, struct error *error)
{
    if ((options->cert_file == NULL) != (options->key_file == NULL))
        return error_set(error, "a certificate of the client needs its key, and a key its certificate");
    if (options->cert_file == NULL)
        return true;
    if (SSL_CTX_use_certificate_chain_file(made, options->cert_file) != 1)
        return failure_set(error, "cannot read the certificate in", options->cert_file);
    struct stat key;
    if (stat(options->key_file, &key) == 0 && (key.st_mode & S_IRWXO) != 0)
        return error_set(error, "everybody may read the key in %s: chmod o-rwx", options->key_file);
    if (SSL_CTX_use_PrivateKey_file(made, options->key_file, SSL_FILETYPE_PEM) != 1)
        return failure_set(error, "cannot read, or use with its certificate, the key in", options->key_file);
    return true;
}

/* A key with a passphrase is refused; OpenSSL would ask the terminal for it. */
static int passphrase_refuse(char *text, int size, int is_for_writing, void *unused)
{
    (void)text;
    (void)size;
    (void)is_for_writing;
    (void)unused;
    return -1;
}

static SSL_CTX *files_load(const struct redis_tls_options *options, struct error *error)
{
    ERR_clear_error();
    SSL_CTX *made = SSL_CTX_new(TLS_client_method());
    invariant(made != NULL); /* only memory is needed */
    SSL_CTX_set_default_passwd_cb(made, passphrase_refuse);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(made, 1); /* what came is taken at once, instead of a head and a body of each record */
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION);
    if (SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) == 1 && authorities_load(made, options->ca_file, error) &&
        certificate_load(made, options, error))
        return made;
    SSL_CTX_free(made);
    return NULL;
}

bool redis_tls_check(const struct redis_tls_options *options, struct error *error)
{
    SSL_CTX *made = files_load(options, error);
    SSL_CTX_free(made);
    return made != NULL;
}

static char *copy_text(const char *text)
{
    return text != NULL ? memory_text(text) : NULL;
}

struct tls_context *tls_context_create(const struct redis_tls_options *options, const char *name)
{
    struct tls_context *context = memory_new(struct tls_context);
    context->options = (struct redis_tls_options){.is_on = true,
                                                  .ca_file = copy_text(options->ca_file),
                                                  .cert_file = copy_text(options->cert_file),
                                                  .key_file = copy_text(options->key_file),
                                                  .server_name = copy_text(options->server_name)};
    context->name = memory_text(name);
    return context;
}

const struct redis_tls_options *tls_context_options(const struct tls_context *context)
{
    return &context->options;
}

void tls_context_destroy(struct tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->loaded);
    free((char *)context->options.ca_file);
    free((char *)context->options.cert_file);
    free((char *)context->options.key_file);
    free((char *)context->options.server_name);
    free(context->name);
    free(context);
}

/* A file is looked at before it is read: one that changes meanwhile is read again for the next connection. */
static bool context_renew(struct tls_context *context, struct error *error)
{
    struct file_version now[TLS_FILES];
    versions_look(&context->options, now);
    bool is_same = versions_equal(now, context->versions);
    if (context->loaded != NULL && is_same && !context->has_failed)
        return true;
    memcpy(context->versions, now, sizeof now);
    struct error reason = ERROR_NONE;
    SSL_CTX *made = files_load(&context->options, &reason);
    context->has_failed = made == NULL;
    if (made == NULL && context->loaded == NULL)
        return error_set(error, "%s", reason.text);
    char name[LOG_QUOTE_MAX], quoted[LOG_QUOTE_MAX];
    if (made == NULL) {
        log_event(is_same ? LOG_DEBUG : LOG_ERROR, "tls_reload_failed",
                  "node=%s reason=%s advice=\"what was read before is still used\"", log_value(context->name, name),
                  log_value(reason.text, quoted));
        return true;
    }
    if (context->loaded != NULL)
        log_event(LOG_INFO, "tls_reloaded", "node=%s", log_value(context->name, name));
    SSL_CTX_free(context->loaded);
    context->loaded = made;
    return true;
}

/* --- connections -------------------------------------------------------------------------------------------------- */

struct tls {
    SSL *ssl;
    BIO *from_peer, *to_peer; /* belong to `ssl` */
    struct buffer output;
};

/* An address is compared with the addresses in the certificate and is no name to ask for. */
static bool name_expect(SSL *ssl, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct tls *tls_create(struct tls_context *context, const char *host, struct error *error)
{
    if (!context_renew(context, error))
        return NULL;
    struct tls *tls = memory_new(struct tls);
    tls->ssl = SSL_new(context->loaded);
    tls->from_peer = BIO_new(BIO_s_mem());
    tls->to_peer = BIO_new(BIO_s_mem());
    invariant(tls->ssl != NULL && tls->from_peer != NULL && tls->to_peer != NULL);
    SSL_set_bio(tls->ssl, tls->from_peer, tls->to_peer);
    SSL_set_connect_state(tls->ssl);
    const char *name = context->options.server_name != NULL ? context->options.server_name : host;
    if (name_expect(tls->ssl, name))
        return tls;
    (void)failure_set(error, "cannot expect the name", name);
    tls_destroy(tls);
    return NULL;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    buffer_fini(&tls->output);
    free(tls);
}

/* What an earlier call left would be taken for the reason of the next failure. A look costs less than to clear. */
static void failures_forget(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

static void output_take(struct tls *tls)
{
    size_t length = BIO_ctrl_pending(tls->to_peer);
    if (length == 0)
        return;
    char *room = buffer_reserve(&tls->output, length);
    int taken = BIO_read(tls->to_peer, room, (int)length);
    invariant(taken > 0 && (size_t)taken == length);
    tls->output.length += length;
}

/* True while it only needs more from the peer. */
static bool is_waiting(struct tls *tls, int answer, struct error *error)
{
    int kind = SSL_get_error(tls->ssl, answer);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return true;
    long verified = SSL_get_verify_result(tls->ssl);
    if (kind == SSL_ERROR_ZERO_RETURN)
        return false;
    if (verified == X509_V_OK)
        return failure_set(error, "TLS", "");
    ERR_clear_error();
    return error_set(error, "TLS: its certificate is refused: %s", X509_verify_cert_error_string(verified));
}

enum tls_state tls_advance(struct tls *tls, struct error *error)
{
    ERR_clear_error();
    int answer = SSL_do_handshake(tls->ssl);
    output_take(tls); /* after a failure, too: the alert to the peer */
    if (answer == 1)
        return TLS_OPEN;
    if (is_waiting(tls, answer, error))
        return TLS_SHAKING_HANDS;
    (void)error_set(error, "TLS: the server ended the handshake");
    return TLS_FAILED;
}

void tls_give(struct tls *tls, const char *bytes, size_t length)
{
    invariant(length <= INT_MAX);
    int taken = BIO_write(tls->from_peer, bytes, (int)length);
    invariant(taken > 0 && (size_t)taken == length); /* only memory is needed */
}

ssize_t tls_read(struct tls *tls, char *bytes, size_t size, struct error *error)
{
    invariant(size <= INT_MAX);
    if (BIO_ctrl_pending(tls->from_peer) == 0 && !SSL_has_pending(tls->ssl))
        return 0; /* a call that only returns this costs more */
    failures_forget();
    int got = SSL_read(tls->ssl, bytes, (int)size);
    output_take(tls); /* such as the answer to a change of keys */
    if (got > 0)
        return got;
    return is_waiting(tls, got, error) ? 0 : -1;
}

bool tls_write(struct tls *tls, const char *bytes, size_t length, struct error *error)
{
    invariant(length > 0 && length <= INT_MAX);
    failures_forget();
    int written = SSL_write(tls->ssl, bytes, (int)length);
    output_take(tls);
    return (written > 0 && (size_t)written == length) || failure_set(error, "TLS", "cannot write");
}

struct buffer *tls_output(struct tls *tls)
{
    return &tls->output;
}
