/* A simulated server on a host of its own in the world: what it is sent arrives by the network, waits while the node is
 * paused or slow, and is executed by the server model, whose clock is that of the host. */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "tests/sim/server/server.h"
#include "tests/sim/world/network.h"

struct node {
    char name[16];
    struct host *host;
    struct server *server, *copy; /* what node_copy kept; NULL = nothing */
    struct listener listener;
    bool is_up, is_paused;
    struct instant vanished_at; /* when it died last, and nobody was told: connections seem to be up; 0 = never */
    unsigned weak;              /* how many moves that may cost it its data are under way (trouble.c) */
    int64_t slow_ns;            /* each piece takes so much longer */
    unsigned lost_per_mille;    /* of replies to scripts: the connection breaks behind what was executed */
    bool has_lost;              /* some callers are to be reset */
    struct list callers;
    struct list inbox; /* struct piece, in the order in which they came */
    struct world_event work, tick;
    struct instant free_at;
    const struct host *client; /* whose bytes it executes now; NULL = nobody's of the world */
    int64_t stepped_ns;        /* by how much its clock is wrong */
    struct instant started_at; /* its process, the last time */
    struct instant jumped_at;  /* that changed for the last time; 0 = never */
    struct instant lost_at; /* when it last came back without its data, dropped keys, or its clock jumped; 0 = never */
};

/* Up, empty, and reached by its name and port 6379. */
struct node *node_create(const char *name);
/* With another port, and a password; NULL = none. */
struct node *node_create_with(const char *name, unsigned port, const char *password);
/* Its process dies; what it had not executed is lost. `is_silent`: its host does, and nobody is told. */
void node_stop(struct node *node, bool is_silent);
void node_start(struct node *node, enum server_memory memory);
/* Keeps what it knows now. Later its process, which runs on, knows that again and no more, as after a failover to a
 * replica and the way back: it was a replica, and its clients are sent away. False: it has fallen
 * back already. */
void node_copy(struct node *node);
bool node_fall_back(struct node *node);
void node_pause(struct node *node);
void node_resume(struct node *node);
/* A client without a way to it: what it says is there at once, and so is what it is replied. `ended`: the server has
 * hung up, or died; node_hang_up is not for the caller any more. */
struct node_caller *node_call(struct node *node, void (*replied)(void *context, const char *bytes, size_t length),
                              void (*ended)(void *context), void *context);
void node_say(struct node_caller *caller, const char *bytes, size_t length);
void node_hang_up(struct node_caller *caller);
/* It has done what clients have sent so far, as on one machine. It must not stand still. */
void node_catch_up(struct node *node);
/* After a step of its clock. */
void node_look(struct node *node);
int64_t node_now_us(const struct node *node);
/* Into the history: what it holds as text under that key. */
void node_tell(const struct node *node, const char *key);

#endif
