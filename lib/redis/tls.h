/* TLS for one connection, without a socket: bytes go in and come out, and the owner of the socket moves them.
 *
 *     context = tls_context_create(&options, name);
 *     tls = tls_create(context, host, &error);              a connection was made
 *     tls_advance(tls, &error);                             the handshake; then send what tls_output holds
 *     tls_give(tls, bytes, n);                              what the peer sent
 *     tls_advance(tls, &error) == TLS_OPEN                  the peer has proved who it is
 *     while ((n = tls_read(tls, room, size, &error)) > 0)   what it said
 *     tls_write(tls, bytes, n, &error);                     what goes to the peer; then send what tls_output holds
 *     buffer_drop_front(tls_output(tls), sent);
 *     tls_destroy(tls);
 *
 * TLS 1.2 and 1.3, with the ciphers that OpenSSL offers for them. The peer's certificate has to lead to an authority
 * that is trusted and to be issued to `server_name` (RFC 6125), else there is no connection. Nothing is retried with
 * less.
 *
 * A context holds what was read from the files. It is read again when a file has changed, which is looked at for each
 * new connection: a certificate is renewed by replacing its file. If the new files cannot be used, the context that was
 * read before goes on, each new connection tries them again, and the reason is logged once for each change.
 *
 * Nothing blocks but the reading of these files. Threads: the loop's only. If the process dies, the peer sees the
 * connection close. */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

/* Paths of files in PEM; NULL = none. */
struct redis_tls_options {
    bool is_on;
    const char *ca_file;     /* the authorities that are trusted; NULL: those of the system */
    const char *cert_file;   /* shown to a server that asks for it, with its chain; both this and the key, or none */
    const char *key_file;    /* without a passphrase; refused if everybody may read it */
    const char *server_name; /* that the certificate has to be issued to; NULL: the host of the connection */
};

/* False, with the reason, unless a context can be made of the files as they are now. */
bool redis_tls_check(const struct redis_tls_options *options, struct error *error) MUST_CHECK;

struct tls_context;
/* The strings are copied; no file is read yet. `name` is that of the node, for the log. */
struct tls_context *tls_context_create(const struct redis_tls_options *options, const char *name);
const struct redis_tls_options *tls_context_options(const struct tls_context *context); /* the copies */
void tls_context_destroy(struct tls_context *context); /* NULL is harmless; connections go on */

struct tls;
/* NULL if the files cannot be read and never could. */
struct tls *tls_create(struct tls_context *context, const char *host, struct error *error) MUST_CHECK;
void tls_destroy(struct tls *tls); /* NULL is harmless */

enum tls_state { TLS_SHAKING_HANDS, TLS_OPEN, TLS_FAILED };
enum tls_state tls_advance(struct tls *tls, struct error *error) MUST_CHECK;
void tls_give(struct tls *tls, const char *bytes, size_t length);
/* Bytes that were read, 0 = no more yet, -1 = there will be none: closed in order (no error), or failed. */
ssize_t tls_read(struct tls *tls, char *bytes, size_t size, struct error *error) MUST_CHECK;
bool tls_write(struct tls *tls, const char *bytes, size_t length, struct error *error) MUST_CHECK;
/* What is to be sent. */
struct buffer *tls_output(struct tls *tls);

#endif
