/* Addresses that a server listens on: "127.0.0.1:9190", "[::1]:9190", "localhost:9190", or the path of a unix socket,
 * which begins with '/'. Names other than localhost are refused: which address one stands for may change. Pure. */
#ifndef WORKER_HTTP_ADDRESS_H
#define WORKER_HTTP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"

struct http_address {
    struct sockaddr_storage bytes;
    socklen_t length;
    bool is_local; /* only this machine can reach it: loopback, or a unix socket */
};

/* `number` is that of one of several processes, from 1: it listens on the port + number - 1, or on the path with
 * ".NUMBER" behind it. 0 = there is one process. */
bool http_address_read(const char *text, unsigned number, struct http_address *address, struct error *error) MUST_CHECK;
/* As one would write it. */
const char *http_address_text(const struct http_address *address, struct buffer *out);

#endif
