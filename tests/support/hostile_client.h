/* A client of the hostile server: what it has asked, and what it is answered. The server's own are only the bytes'
 * ways: a thread with sockets (hostile_server.c), or the network of the world (tests/sim/scene/hostile_server.c). */
#ifndef SUPPORT_HOSTILE_CLIENT_H
#define SUPPORT_HOSTILE_CLIENT_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/support/hostile_server.h"

struct hostile_client {
    struct buffer in, out;  /* that came, and that is to be sent */
    struct instant send_at; /* nothing drips before */
    bool was_asked;         /* more than a handshake */
    bool closes;            /* once `out` is sent */
};

void hostile_client_fini(struct hostile_client *client);
/* Answers the requests that are complete in `in`; `says` is for HOSTILE_SAYS. False: the connection is to be reset. */
bool hostile_client_answer(struct hostile_client *client, enum hostile_mode mode, const char *says);
/* How many bytes of `out` may be sent now. */
size_t hostile_client_portion(struct hostile_client *client, enum hostile_mode mode);

#endif
