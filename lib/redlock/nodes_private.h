/* Private to lib/redlock: the session behind redlock_nodes.h.
 *
 *   nodes.c         connections, and questions to one or all of them: what an inspection found, what trust.c makes of
 *                   it, and how that is shown; who holds one lock, and taking it away
 *   nodes_change.c  a new group; healing and replacing: performs what membership.c plans
 *
 * The loop runs only while a call waits for answers or for time. One thread. */
#ifndef REDLOCK_NODES_PRIVATE_H
#define REDLOCK_NODES_PRIVATE_H

#include "base/buffer.h"
#include "base/loop.h"
#include "redis/node.h"
#include "redlock/terms.h"
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
    void (*answered)(struct server *server, const struct redis_result *result);
    /* of the last inspection */
    bool is_reached, is_refused; /* answered; answered with an error */
    bool has_marker, bad_marker;
    struct marker marker;
    struct trust_inspection inspection;
    struct redlock_node_view view;
    char unwritable[256]; /* why a marker could not be written: for the rest of the session it is as good as away */
    /* what trust wants written */
    bool is_due;
    char due_expected[MARKER_TEXT_MAX], due_text[MARKER_TEXT_MAX];
    /* of the last question */
    bool is_done;        /* and as wished */
    struct buffer found; /* a text that was answered */
    char trouble[256];
    struct redlock_key_view key; /* of the last question who holds a lock */
};

struct redlock_nodes {
    struct loop *loop;
    const struct redlock_options *options;
    unsigned count;
    struct server servers[REDLOCK_NODES_MAX + 1]; /* the last one is the newcomer of a replacement */
    unsigned open;                                /* questions without an answer */
    bool is_settling;
    struct loop_timer timer;
    struct trust trust;
    int64_t timeout_ns;          /* of the slowest node */
    int64_t longest_patience_ns; /* that anybody has with it */
    bool (*goes_on)(void *context, const char *what, int64_t left_ns);
    void *context;
    struct buffer reason;
};

/* --- nodes.c ------------------------------------------------------------------------------------------------------ */

void server_open(struct redlock_nodes *nodes, struct server *server, const struct redlock_node *wanted);
void server_close(struct server *server);
/* Returns when every server was tried once. */
void nodes_settle(struct redlock_nodes *nodes);

/* Sends; `answered` runs during nodes_run, or at once when nothing could be sent (outcome REDIS_ERROR). */
void server_ask(struct server *server, const struct buffer *request,
                void (*answered)(struct server *server, const struct redis_result *result));
/* Returns when every question has its answer. */
void nodes_run(struct redlock_nodes *nodes);
/* Lets time pass; connections come and go meanwhile. False when the caller does not want to wait any more. */
bool nodes_pause(struct redlock_nodes *nodes, const char *what, int64_t left_ns, int64_t pause_ns) MUST_CHECK;

/* One line more for redlock_nodes_reason. */
void nodes_tell(struct redlock_nodes *nodes, const char *format, ...) PRINTF_LIKE(2, 3);
void nodes_begin(struct redlock_nodes *nodes); /* a call of the interface: no reason yet */

enum mark_outcome { MARK_DONE, MARK_FOUND_OTHER, MARK_FAILED };
/* Compare-and-set of the marker; server->trouble says why it failed, server->found what was found. */
enum mark_outcome server_mark(struct server *server, const char *expected, const char *text);
/* Looks for a key that is in the way: below `prefix`, or any but those of locks' own making when that is "". Its name
 * is in server->found, empty when there is none. False when it could not be found out. */
bool server_find_key(struct server *server, const char *prefix) MUST_CHECK;

/* Inspects all and tells trust. */
void nodes_inspect(struct redlock_nodes *nodes);
/* Writes the markers that trust wants written, after quarantines that are over: true when one was written. */
bool nodes_write_trusted(struct redlock_nodes *nodes);
/* Two servers of one run id are one; NULL when no other configured node is this server. */
const struct server *nodes_same_server(const struct redlock_nodes *nodes, const struct server *server);

#endif
