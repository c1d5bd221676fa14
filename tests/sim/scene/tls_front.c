#include "tests/sim/scene/tls_front.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/memory.h"

enum { PATH_SIZE = 256, PIECE_SIZE = 16 * 1024 };

struct tls_front {
    struct node *node;
    struct listener listener;
    char certificate[PATH_SIZE], key[PATH_SIZE], authorities[PATH_SIZE];
    bool wants_certificate, is_old; /* of the client; no TLS above 1.2 */
};

/* A client. */
struct sealed {
    struct tls_front *front;
    struct peer *peer;
    struct node_caller *caller;
    SSL *ssl;
    BIO *in, *out;
};

/* --- one client --------------------------------------------------------------------------------------------------- */

static void sealed_send(struct sealed *sealed)
{
    char bytes[PIECE_SIZE];
    int got;
    while ((got = BIO_read(sealed->out, bytes, sizeof bytes)) > 0)
        peer_send(sealed->peer, bytes, (size_t)got);
    ERR_clear_error(); /* the queue is the thread's, and the client's code has the same one here */
}

static void sealed_free(struct sealed *sealed)
{
    SSL_free(sealed->ssl);
    free(sealed);
}

static void sealed_close(struct sealed *sealed)
{
    sealed_send(sealed);
    peer_close(sealed->peer);
    sealed_free(sealed);
}

static void replied(void *context, const char *bytes, size_t length)
{
    struct sealed *sealed = context;
    invariant(SSL_write(sealed->ssl, bytes, (int)length) == (int)length);
    sealed_send(sealed);
}

static void ended(void *context)
{
    struct sealed *sealed = context;
    sealed->caller = NULL;
    sealed_close(sealed);
}

static SSL_CTX *context_make(const struct tls_front *front)
{
    SSL_CTX *made = SSL_CTX_new(TLS_server_method());
    invariant(SSL_CTX_use_certificate_file(made, front->certificate, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_use_PrivateKey_file(made, front->key, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_load_verify_file(made, front->authorities) == 1);
    if (front->wants_certificate)
        SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (front->is_old)
        SSL_CTX_set_max_proto_version(made, TLS1_2_VERSION);
    return made;
}

static void *accepted(struct listener *listener, struct peer *peer)
{
    struct sealed *sealed = memory_new(struct sealed);
    sealed->front = list_owner(listener, struct tls_front, listener);
    sealed->peer = peer;
    SSL_CTX *context = context_make(sealed->front);
    sealed->ssl = SSL_new(context);
    SSL_CTX_free(context); /* the connection has it */
    sealed->in = BIO_new(BIO_s_mem());
    sealed->out = BIO_new(BIO_s_mem());
    SSL_set_bio(sealed->ssl, sealed->in, sealed->out);
    SSL_set_accept_state(sealed->ssl);
    sealed->caller = node_call(sealed->front->node, replied, ended, sealed);
    return sealed;
}

static void received(void *owner, const char *bytes, size_t length)
{
    struct sealed *sealed = owner;
    char piece[PIECE_SIZE];
    int got;
    invariant(BIO_write(sealed->in, bytes, (int)length) == (int)length);
    while ((got = SSL_read(sealed->ssl, piece, sizeof piece)) > 0) /* shakes hands first */
        node_say(sealed->caller, piece, (size_t)got);
    if (SSL_get_error(sealed->ssl, got) == SSL_ERROR_WANT_READ) {
        sealed_send(sealed);
        return;
    }
    node_hang_up(sealed->caller);
    sealed_close(sealed);
}

static void gone(void *owner)
{
    struct sealed *sealed = owner;
    node_hang_up(sealed->caller);
    sealed_free(sealed);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct tls_front *tls_front_create(struct node *node)
{
    struct tls_front *front = memory_new(struct tls_front);
    front->node = node;
    front->listener = (struct listener){.host = node->host, .accepted = accepted, .received = received, .gone = gone};
    return front;
}

void tls_front_configure(struct tls_front *front, const char *name, const char *value)
{
    char *path = strcmp(name, "tls-cert-file") == 0      ? front->certificate
                 : strcmp(name, "tls-key-file") == 0     ? front->key
                 : strcmp(name, "tls-ca-cert-file") == 0 ? front->authorities
                                                         : NULL;
    if (path != NULL) {
        snprintf(path, PATH_SIZE, "%s", value);
    } else if (strcmp(name, "tls-port") == 0) {
        front->listener.port = (unsigned)strtoul(value, NULL, 10);
        network_listen(&front->listener);
    } else if (strcmp(name, "tls-auth-clients") == 0) {
        front->wants_certificate = strcmp(value, "yes") == 0;
    } else {
        invariant(strcmp(name, "tls-protocols") == 0 && strcmp(value, "TLSv1.2") == 0);
        front->is_old = true;
    }
}

void tls_front_destroy(struct tls_front *front)
{
    if (front == NULL)
        return;
    if (front->listener.port != 0)
        network_shut(&front->listener, false);
    free(front);
}
