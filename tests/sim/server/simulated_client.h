/* A client of a simulated server (tests/sim/server): says commands, and keeps what the server answers. */
#ifndef SIM_SIMULATED_CLIENT_H
#define SIM_SIMULATED_CLIENT_H

#include "base/buffer.h"
#include "tests/sim/server/server.h"

struct simulated_client {
    struct server_connection *connection; /* NULL when the server hung up */
    struct buffer said;                   /* by the server */
};

void simulated_client_connect(struct simulated_client *client, struct server *server);
void simulated_client_end(struct simulated_client *client);
/* A command as people type it, with quotes where they are needed. */
void simulated_client_say(struct simulated_client *client, const char *line, int64_t now_us);
/* What the server said since the last time: replies one behind the other, "\r\n" as "|". Valid until the next call. */
const char *simulated_client_heard(struct simulated_client *client);

#endif
