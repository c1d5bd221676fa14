/* For tests at one server: it lives as long as the test program. */
#ifndef SUPPORT_ONE_SERVER_H
#define SUPPORT_ONE_SERVER_H

#include "tests/support/redis_server.h"

extern struct redis_server *server;

/* For the whole group of tests. */
int one_server_set_up(void **state);
int one_server_tear_down(void **state);

#endif
