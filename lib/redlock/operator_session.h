/* Private to lib/redlock: the session behind redlock_nodes.h.
 *
 *   operator_session.c  connections and questions; what inspections found, as trust.c judges it; who holds one lock
 *   group_change.c      a new group; healing and replacing: performs what membership.c plans
 *
 * The loop runs only while a call waits for answers or for time. One thread. */
#ifndef REDLOCK_OPERATOR_SESSION_H
#define REDLOCK_OPERATOR_SESSION_H

#include "base/buffer.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/limits.h"
#include "redlock/marker.h"
#include "redlock/membership.h"
#include "redlock/redlock_nodes.h"
#include "redlock/trust.h"

struct server {
    struct redlock_nodes *all;
    char name[REDLOCK_NODE_NAME_SIZE];
    struct redis_node *connection; /* NULL: no such server */
    struct redis_call call;
    struct instant asked;
    bool (*read)(struct server *server, const struct redis_reply *reply);
    /* of the last question */
    bool is_understood, is_refused; /* answered as asked; answered otherwise, such as with an error */
    bool is_done;                   /* and as wished */
    struct buffer found;            /* by a search for keys */
    bool finds_ours;
    char trouble[256];           /* unless it was understood */
    struct redlock_key_view key; /* of the last find */
    uint64_t seats;              /* a set: for which of them it has something */
    /* of the last inspection */
    bool is_reached, has_marker, bad_marker, is_of_other_scheme;
    struct marker marker;
    struct trust_inspection inspection;
    struct redlock_node_view view;
    char unwritable[256]; /* why its marker could not be written: the rest of the session treats it as unreachable */
    bool is_due;          /* trust wants a marker written */
    char due_expected[MARKER_TEXT_MAX], due_text[MARKER_TEXT_MAX];
    int64_t due_highest;
};

struct redlock_nodes {
    struct loop *loop;
    const struct redlock_options *options;
    unsigned count;
    struct server servers[REDLOCK_NODES_MAX + 1]; /* the one behind the last is the newcomer of a replacement */
    unsigned open;                                /* questions without an answer */
    bool is_settling;
    struct loop_timer timer;
    struct trust trust;
    int64_t timeout_ns;          /* of the slowest node */
    int64_t longest_patience_ns; /* that any client has with it */
    bool (*goes_on)(void *context, const char *what, int64_t left_ms);
    void *context;
    struct buffer reason;
};

/* --- nodes.c ------------------------------------------------------------------------------------------------------ */

void server_open(struct redlock_nodes *nodes, struct server *server, const struct redlock_node *wanted);
void server_close(struct server *server);
/* Returns after the first attempt to connect to each server. */
void nodes_settle(struct redlock_nodes *nodes);

/* Lets time pass; connections come and go meanwhile. False when the caller does not want to wait any longer. */
bool nodes_pause(struct redlock_nodes *nodes, const char *what, int64_t left_ns, int64_t pause_ns) MUST_CHECK;

/* Adds a line to redlock_nodes_reason. Always REDLOCK_NODES_REFUSED. */
enum redlock_nodes_end nodes_tell(struct redlock_nodes *nodes, const char *format, ...) PRINTF_LIKE(2, 3);
void nodes_begin(struct redlock_nodes *nodes); /* a call of the interface: no reason yet */

/* Asks, and lets the answer be read. nodes_run returns once all servers that were asked have answered. */
void server_ask(struct server *server, const struct buffer *request,
                bool (*read)(struct server *server, const struct redis_reply *reply));
void nodes_run(struct redlock_nodes *nodes);

enum mark_outcome { MARK_DONE, MARK_FOUND_OTHER, MARK_FAILED };
/* Compare-and-set of the marker, with the highest token that others know if that gives the server a vote, else
 * TRUST_KEEPS_FENCES; server->trouble says why it failed. */
enum mark_outcome server_mark(struct server *server, const char *expected, const char *text, int64_t highest);
/* Searches for a key that begins with `prefix`, and with "hf:" only if `prefix` does. server->found is its name, or
 * empty. False if the search failed. */
bool server_find_key(struct server *server, const char *prefix) MUST_CHECK;

/* What the last inspection found, for plans. */
void server_member(const struct server *server, struct membership_node *node);
/* Inspects all servers, and lets trust judge what was found. */
void nodes_inspect(struct redlock_nodes *nodes);
/* Writes the markers that trust wants written: true when one was. */
bool nodes_write_trusted(struct redlock_nodes *nodes);
/* The other configured node that is the same server, by its run id; NULL = none. */
const struct server *nodes_same_server(const struct redlock_nodes *nodes, const struct server *server);

#endif
