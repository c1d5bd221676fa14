/* SPDX-License-Identifier: MIT */
/* redlock_nodes.h: the lock group, which is what N independent servers are to each other: making it, looking at it,
 * and changing its members; and finding the holder of one lock, and taking the lock. For the operator's commands, and
 * for programs that use libredlock without them.
 *
 * With three nodes or more a Redlock is only as good as the memory of its nodes. So they form a group: each holds a
 * marker (a string under the key hf:lock:group of its database) that names the group, all its places, its own place,
 * and the server run that is trusted. A client counts a node's vote only when the marker is as it should be; see
 * docs/lock-nodes.md for the rules and the runbook. One node alone needs no group.
 *
 *     struct redlock_nodes *nodes = redlock_nodes_open(&options, reason, sizeof reason);
 *     if (redlock_nodes_look(nodes) != REDLOCK_NODES_DONE)
 *         puts(redlock_nodes_reason(nodes));
 *     for (size_t i = 0; i < options.node_count; i++)
 *         printf("%s: %s, %s\n", ..., redlock_nodes_view(nodes, i)->state, redlock_nodes_view(nodes, i)->advice);
 *     redlock_nodes_close(nodes);
 *
 * NULL is treated as in redlock.h: a NULL session refuses everything (REDLOCK_NODES_REFUSED) and shows nothing, and a
 * session refuses NULL for terms, a successor or a resource. The view, and the key, of a node beyond those of the
 * options are NULL.
 *
 * Every function blocks its thread; a struct redlock_nodes belongs to one thread at a time, and has a loop of its own.
 * A change may be repeated after any end, even after the process was killed: the markers say where to continue. Only
 * one operator at a time may change the members of a group. Each write is compared with what its operator saw, so one
 * of two is stopped, but nothing orders them. */
#ifndef REDLOCK_NODES_H
#define REDLOCK_NODES_H

#include "redlock/redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct redlock_nodes;

enum redlock_nodes_end {
    REDLOCK_NODES_DONE,
    REDLOCK_NODES_TOO_FEW, /* nodes that are needed cannot be reached: the same call may succeed later */
    REDLOCK_NODES_WAITING, /* it takes time, and the caller did not want to wait (any more) */
    REDLOCK_NODES_REFUSED, /* something has to be changed first */
};

/* Connects to all nodes; one that is unreachable is no error here. NULL with a reason when the options are wrong. The
 * options and what they point to must live as long. */
REDLOCK_API struct redlock_nodes *redlock_nodes_open(const struct redlock_options *options, char *reason,
                                                     size_t reason_size);
REDLOCK_API void redlock_nodes_close(struct redlock_nodes *nodes); /* NULL is fine */

/* Why the last call did not end with REDLOCK_NODES_DONE: one problem a line. */
REDLOCK_API const char *redlock_nodes_reason(const struct redlock_nodes *nodes);

/* Called some times a second while a call waits: for what, and for how much longer (-1: unknown). False ends the call
 * with REDLOCK_NODES_WAITING. */
REDLOCK_API void redlock_nodes_watch(struct redlock_nodes *nodes,
                                     bool (*goes_on)(void *context, const char *what, int64_t left_ns), void *context);

/* --- looking ------------------------------------------------------------------------------------------------------ */

enum { REDLOCK_GROUP_ID_DIGITS = 16, REDLOCK_NODE_ID_DIGITS = 8, REDLOCK_RUN_ID_DIGITS = 40 };

/* What is known of a node. */
struct redlock_node_view {
    const char *name;
    char address[300]; /* host:port or path; "" when it was never tried */
    bool is_reached;   /* what follows was found by the last look */
    bool votes;
    const char *state;          /* "votes", "quarantined", "excluded", "unseen" */
    const char *reason;         /* a word: "fine", "new_run", "no_marker", ... */
    const char *advice;         /* a sentence: what that means, and what to do */
    char trouble[256];          /* what was found: why it cannot be reached, whom it doubles; "" = nothing */
    int64_t quarantine_left_ns; /* as this process counts, which has seen the node for the first time */
    char group[REDLOCK_GROUP_ID_DIGITS + 1], id[REDLOCK_NODE_ID_DIGITS + 1]; /* as its marker says; "" = none */
    uint32_t generation;
    char run_id[REDLOCK_RUN_ID_DIGITS + 1];
    char eviction[32]; /* maxmemory-policy */
    int64_t latency_ns;
    int64_t clock_ahead_us; /* of this machine's clock; right to half the latency */
    /* How much faster its clock ran than this machine's, between two bounds: of redlock_nodes_compare_clocks. INT64_MIN
     * and INT64_MAX: not known. */
    int64_t rate_least_ppm, rate_most_ppm;
};

/* What the nodes are together. */
struct redlock_group_view {
    unsigned nodes, reached, voters, quorum;
    bool has_group;
    char group[REDLOCK_GROUP_ID_DIGITS + 1];
    uint32_t generation;
    int64_t max_ttl_ns;
    unsigned vacant; /* places that nobody has: a replacement was begun */
};

/* Asks every node once. REDLOCK_NODES_TOO_FEW when some cannot be reached, REDLOCK_NODES_REFUSED when fewer than a
 * quorum vote, REDLOCK_NODES_WAITING when that is because of quarantines. The views tell more. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_look(struct redlock_nodes *nodes);
/* Looks three times, with half of the time before the second and the third: the views are those of the last look, and
 * bound the rates of all clocks that were reached each time, without a restart of the node. A rate shows in both
 * halves; a step, in one of them, is no rate. The longer, the sharper: a slow answer blurs a rate by its share of the
 * time. A watch that ends the call leaves the last look; no time passes when no node is reached. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_compare_clocks(struct redlock_nodes *nodes, int64_t for_ns);
/* Of the last look, valid until the next call. */
REDLOCK_API const struct redlock_node_view *redlock_nodes_view(const struct redlock_nodes *nodes, size_t index);
REDLOCK_API struct redlock_group_view redlock_nodes_group(const struct redlock_nodes *nodes);

/* --- changing ----------------------------------------------------------------------------------------------------- */

#define REDLOCK_MAX_TTL_DEFAULT_NS REDLOCK_MS(60000)

struct redlock_group_terms {
    int64_t
        max_ttl_ns; /* the longest ttl of any lock, and so the length of every quarantine: 1 s to 10 min; 0 = 60 s */
    bool keep_keys; /* allow keys there: these nodes held locks before they were a group */
};

/* Makes a group of the nodes: three or more, an odd number, all of them reachable, none of them twice, without markers,
 * without keys below options.key_prefix (without any, when there is no prefix), none that evicts keys. They may vote at
 * once, because no lock of a new group can exist; with keep_keys each first goes through its quarantine.
 * All or nothing: if a later node fails, earlier writes are undone, and the reason names what could not be undone. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_init(struct redlock_nodes *nodes,
                                                      const struct redlock_group_terms *terms);

/* Gives the nodes their votes back, all of them or those that are `wanted` (one flag a node, NULL = all): waits until
 * quarantines are over and writes that down; brings members up to date that a change did not reach; lets nodes that
 * lost their marker in again, with a fresh id. Without `wait`, only what needs no time is done. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_heal(struct redlock_nodes *nodes, const bool *wanted, bool wait);

/* Puts another server into the place of the node with this index; the old one may be dead. Takes a little more than one
 * max_ttl. The new server must be empty and may not be one of the others. On REDLOCK_NODES_DONE every configuration has
 * to name it instead of the old one; until then clients work with the nodes that stayed. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_replace(struct redlock_nodes *nodes, size_t index,
                                                         const struct redlock_node *successor);

/* --- one lock ----------------------------------------------------------------------------------------------------- */

enum { REDLOCK_KEY_VALUE_MAX = 512 }; /* bytes that are shown of a value; ours are shorter */

enum redlock_key_kind {
    REDLOCK_KEY_NOTHING,
    REDLOCK_KEY_VALUE,
    REDLOCK_KEY_LONG,      /* a value of more than REDLOCK_KEY_VALUE_MAX bytes: not one of ours */
    REDLOCK_KEY_NO_STRING, /* a list, a hash ...: not a lock at all */
};

enum redlock_taking {
    REDLOCK_TAKING_NOTHING, /* there was nothing to delete */
    REDLOCK_TAKING_DONE,    /* deleted */
    REDLOCK_TAKING_GONE,    /* it was gone before: released, or expired */
    REDLOCK_TAKING_CHANGED, /* another value is there now, and stays */
    REDLOCK_TAKING_REFUSED, /* what is there was not read to its end, and stays */
    REDLOCK_TAKING_FAILED,  /* the node did not answer: it may have been deleted when it had been read, not else */
};

/* What a node has under the key of a lock. */
struct redlock_key_view {
    bool is_answered; /* else only `trouble` says something */
    char trouble[256];
    enum redlock_key_kind kind;
    char value[REDLOCK_KEY_VALUE_MAX + 1]; /* any bytes, with a NUL behind; of REDLOCK_KEY_LONG its length in digits */
    size_t length;
    int64_t remaining_ns;       /* -1: it does not expire */
    uint64_t fence;             /* its counter of fencing tokens; 0 = none */
    enum redlock_taking taking; /* of redlock_nodes_take */
};

enum redlock_holding {
    REDLOCK_HELD,       /* a majority of voters has the value */
    REDLOCK_HELD_MAYBE, /* there would be one with nodes that did not answer, or do not vote now */
    REDLOCK_LEFTOVER,   /* never a majority: left behind by a client that died or gave up, or a split that passes */
};

/* One value, and how many nodes have it. */
struct redlock_holder {
    unsigned node; /* the first that has it: redlock_nodes_key(nodes, node)->value */
    unsigned nodes, votes;
    enum redlock_holding standing;
    int64_t remaining_ns; /* on the node that keeps it longest; -1: for ever */
    uint64_t token;       /* that a majority has as its fence; 0 = not known */
    const char *owner;    /* "host:pid:slot:jid", of a value of ours: part of the value, any bytes; else NULL */
};

/* Looks at all nodes and asks each what it has under the key of the resource (options.key_prefix goes before it).
 * REDLOCK_NODES_TOO_FEW when some did not answer. Changes nothing. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_find(struct redlock_nodes *nodes, const char *resource);
/* Of the last find, valid until the next call. */
REDLOCK_API const struct redlock_key_view *redlock_nodes_key(const struct redlock_nodes *nodes, size_t index);
/* The holders: fills one entry a value, those on most nodes first; returns how many, 0 = none. */
REDLOCK_API unsigned redlock_nodes_holders(const struct redlock_nodes *nodes,
                                           struct redlock_holder holders[REDLOCK_NODES_MAX]);

/* Deletes what the last find has shown of the same resource, on each node by comparison with exactly that value; the
 * views have the outcome. A live holder does not know until it asks: notify it first. Fences stay. REDLOCK_NODES_DONE:
 * no node has it any more, though another value may be there, of the next holder. REDLOCK_NODES_REFUSED when something
 * could not be shown, REDLOCK_NODES_TOO_FEW when a node did not answer. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_take(struct redlock_nodes *nodes, const char *resource);

#ifdef __cplusplus
}
#endif

#endif
