/* TLS in front of a simulated server: the end that a real server has, of OpenSSL alone. */
#ifndef SIM_TLS_FRONT_H
#define SIM_TLS_FRONT_H

#include "tests/sim/world/node.h"

struct tls_front;

struct tls_front *tls_front_create(struct node *node);
/* A line of the server's configuration that begins with tls-, for connections from now on; tls-port listens. */
void tls_front_configure(struct tls_front *front, const char *name, const char *value);
/* The node has hung up on its clients before. NULL is harmless. */
void tls_front_destroy(struct tls_front *front);

#endif
