/* What `holdfast nodes` shows: every lock node with its verdict, and what to do about it. The verdicts come from
 * lib/redlock; `check` and `doctor` print them in their own ways. */
#ifndef WORKER_NODES_H
#define WORKER_NODES_H

#include "redlock/redlock_nodes.h"
#include "worker/commands/command.h"
#include "worker/config/config.h"
#include "worker/config/findings.h"

/* The login of an operator to the lock nodes, instead of that of the configuration. */
struct nodes_login {
    const char *user, *password_file; /* of the options; NULL = not given */
};
#define NODES_LOGIN_HEADLINE "Another login to the lock nodes"
extern const struct option_row nodes_login_options[]; /* --lock-user, --lock-password-file */

/* Complains, and returns an exit code. */
int nodes_login_check(const struct nodes_login *login, const struct command *command) MUST_CHECK;
/* The nodes refer to it. */
void nodes_login_apply(const struct nodes_login *login, struct redlock_node *nodes, size_t count);

/* Makes connections to lock nodes fail after `given_ns` (0 = one second), whatever the configuration has: for commands
 * to which they are only a part. */
void nodes_patience_bound(struct config *config, int64_t given_ns);

/* The lock nodes of a configuration, looked at once, and everything that has to live as long. */
struct nodes_session {
    struct redlock_node list[REDLOCK_NODES_MAX];
    struct redlock_options options;
    struct redlock_nodes *nodes; /* NULL: the configuration has none that could be looked at */
    char reason[256];            /* then: why */
};

/* `login` may be NULL and has to live as long. False when `nodes` is NULL. */
bool nodes_session_open(struct nodes_session *session, const struct config *config,
                        const struct nodes_login *login) MUST_CHECK;
void nodes_session_close(struct nodes_session *session);

/* What the markers of the nodes that were reached say: the group of the highest generation that any of them names, and
 * how many name it. It is no group before a majority confirms it. */
struct nodes_markers {
    unsigned marked;
    char group[REDLOCK_GROUP_ID_DIGITS + 1];
    uint32_t generation;
};
struct nodes_markers nodes_markers_of(const struct redlock_nodes *nodes);

void nodes_print(const struct redlock_nodes *nodes, bool as_json);

/* "quarantined for at most 61 s more: The server was restarted ..."; of a node that does not vote. */
void nodes_verdict_text(const struct redlock_node_view *view, struct buffer *out);

/* What is wrong with the group that the nodes are, or are not. Nodes that cannot be reached are left out, and so
 * is what cannot be known because of them. */
void nodes_judge(const struct redlock_nodes *nodes, struct findings *findings);

#endif
