/* The network of the world: byte streams between a socket of a process and a listener of the world's own (a simulated
 * server). Each direction is in order; streams overtake one another. What can go wrong, goes wrong here:
 *
 *     delay        drawn for each segment from the path between the two hosts
 *     a cut path   one way or both: segments wait, and are sent again after it heals
 *     a reset      the stream ends after any byte of what is under way, for one end or both
 *     silence      the other host is gone and says nothing; TCP_USER_TIMEOUT ends it
 *     short sends  a socket takes only a part of the bytes, and gives only a part of those that came */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/world/world.h"

enum { NETWORK_HOSTS_MAX = 48 };

struct path {
    int64_t least_ns, most_ns; /* how long a segment takes; most take about the least */
    unsigned late_per_mille;   /* of segments that are lost and sent again, 0.2 to 3 s later */
    bool is_cut;
};

void network_begin(void);
struct path *network_path(const struct host *from, const struct host *to);
/* What waits on a path that is not cut any more is sent again. */
void network_heal(void);

/* --- names -------------------------------------------------------------------------------------------------------- */

/* From now on the name leads to that host; NULL = nowhere. Up to 15 characters. */
void network_name(const char *name, const struct host *host);
bool network_resolve(const char *name, unsigned port, struct sockaddr_in *address);

/* --- the ends of servers ------------------------------------------------------------------------------------------ */

struct peer; /* the server's end of a stream */

struct listener {
    struct list link;
    struct host *host;
    unsigned port;
    /* A client has connected: the owner's state for it. It may be closed at once. */
    void *(*accepted)(struct listener *listener, struct peer *peer);
    void (*received)(void *owner, const char *bytes, size_t length);
    void (*gone)(void *owner); /* the client is gone; the peer is no longer valid */
    struct list peers;
};

void network_listen(struct listener *listener);
/* Delivers what clients have sent there, as on one machine. */
void network_arrive(struct listener *listener);
/* Nobody can connect any more. `is_silent`: the host is gone with all that it knew, nobody is told; else clients are
 * told that their stream ends, after what is under way or in its midst. `gone` is not called. */
void network_shut(struct listener *listener, bool is_silent);
void peer_send(struct peer *peer, const char *bytes, size_t length);
void peer_close(struct peer *peer);                      /* `gone` is not called */
void peer_reset(struct peer *peer);                      /* the same: the client does not know what it missed */
const struct host *peer_client(const struct peer *peer); /* NULL = it is gone */

/* --- trouble ------------------------------------------------------------------------------------------------------ */

/* Streams between the two break at any byte; each end is told or not. Of all hosts where one is NULL. */
void network_break(const struct host *client, const struct host *server);

#endif
