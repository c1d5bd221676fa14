/* A replicated server for tests: a master, a replica of it, and a sentinel that watches them and decides alone. */
#ifndef SUPPORT_SENTINEL_H
#define SUPPORT_SENTINEL_H

#include "tests/support/redis_server.h"

#define SENTINEL_MASTER "mymaster"

/* A replica of `master`; returns when it is in sync. */
struct redis_server *replica_start(struct redis_server *master);
/* Returns when the only replica has confirmed that it has all that the server has written by now. */
void replica_await_sync(struct redis_server *master);

/* Watches `master`, which has replicas, as SENTINEL_MASTER, or nothing when it is NULL; `password` is its own, NULL =
 * none. Returns when it knows a replica. A server that is only slow is not replaced: until sentinel_notices, one would
 * have to be silent for longer than any test takes. */
struct redis_server *sentinel_start(struct redis_server *master, const char *password);
/* The master is dead: from now on a silence of 300 ms is enough. */
void sentinel_notices(struct redis_server *sentinel);
/* The port that it answers for SENTINEL_MASTER. */
unsigned sentinel_master_port(struct redis_server *sentinel);
/* Makes another one the master, without waiting for it. The sentinel may not be ready for it at once. */
void sentinel_fail_over(struct redis_server *sentinel);

/* "127.0.0.1:PORT"; the caller frees it. */
char *server_address(const struct redis_server *server);

#endif
