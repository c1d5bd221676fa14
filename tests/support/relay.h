/* A relay between clients and a server, for losing replies on purpose: it can swallow what the server says, and it can
 * hang up on the clients while the server still has their connections. It runs in a thread of its own. */
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

#include <stdbool.h>

struct relay;

/* Listens on a free port of 127.0.0.1 and connects to `server_port` for each client. */
struct relay *relay_start(unsigned server_port);
/* The same in two steps, for clients in another network: where relay_listen is called is where the clients are. The
 * relay takes the listener over. */
int relay_listen(void);
struct relay *relay_start_on(int listener, unsigned server_port);
void relay_destroy(struct relay *relay); /* NULL is harmless */
unsigned relay_port(const struct relay *relay);

/* While it swallows, replies do not come through, of no connection; requests do. What the server has said by now still
 * does: returns when that is through. */
void relay_swallow(struct relay *relay, bool swallows);
/* Hangs up on all clients; their connections to the server stay open. Returns when it is done. */
void relay_cut(struct relay *relay);

#endif
