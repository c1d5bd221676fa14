/* A server of the time before SET knew GET beside NX (Redis 6.2): it refuses that as a syntax error. It keeps one key,
 * which is all that a lock needs, and serves one connection after the other in a thread of its own. */
#ifndef SUPPORT_OLD_SERVER_H
#define SUPPORT_OLD_SERVER_H

#include <stdbool.h>

struct old_server;

struct old_server *old_server_start(void);
void old_server_destroy(struct old_server *server);

unsigned old_server_port(const struct old_server *server);
bool old_server_has_key(struct old_server *server);
/* Commands that were refused. */
unsigned old_server_refusals(struct old_server *server);

#endif
