/* SPDX-License-Identifier: MIT */
/* redlock_nodes.h: the lock group that N independent servers form. Functions create it, inspect it and change its
 * members; others find the holder of one lock, and delete the lock. For the operator's commands, and for programs that
 * use libredlock without them.
 *
 * With three nodes or more a Redlock is only as good as the memory of its nodes, so the nodes form a group. Each holds
 * a marker (a string under the key hf:lock:group of its database). It names the group, all members of the group, the
 * node's own id, and the server run that is trusted. A client counts a node's vote only if its marker is right;
 * docs/lock-nodes.md has the rules and the runbook. A single node needs no group.
 *
 *     char reason[256];
 *     struct redlock_nodes *nodes = redlock_nodes_open(&options, reason, sizeof reason);
 *     if (nodes == NULL)
 *         return fail(reason);
 *     if (redlock_nodes_look(nodes) != REDLOCK_NODES_DONE)
 *         puts(redlock_nodes_reason(nodes));
 *     for (size_t i = 0; i < options.node_count; i++) {
 *         const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
 *         printf("%s: %s, %s\n", view->name, view->state, view->advice);
 *     }
 *     redlock_nodes_close(nodes);
 *
 * NULL is treated as in redlock.h: a NULL session refuses everything (REDLOCK_NODES_REFUSED) and shows nothing, and a
 * session refuses NULL for terms, a successor or a resource. The view and the key of an index beyond the options are
 * NULL.
 *
 * Every function blocks its thread. A struct redlock_nodes belongs to one thread at a time and has a loop of its own. A
 * change may be repeated after any end, even after its process was killed: the markers say where to continue. Only one
 * operator at a time may change the members of a group. Each write is compared with what its operator saw, so one of
 * two operators is stopped, but nothing orders them. */
#ifndef REDLOCK_NODES_H
#define REDLOCK_NODES_H

#include "redlock/redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct redlock_nodes;

enum redlock_nodes_end {
    REDLOCK_NODES_DONE,
    REDLOCK_NODES_TOO_FEW, /* required nodes cannot be reached: the same call may succeed later */
    REDLOCK_NODES_WAITING, /* it needs time, and the caller did not want to wait (any longer) */
    REDLOCK_NODES_REFUSED, /* the operator has to change something first */
};

/* Connects to all nodes; an unreachable one is no error here. NULL, with a reason, if the options are wrong. The
 * options and what they point to must outlive the session. */
REDLOCK_API struct redlock_nodes *redlock_nodes_open(const struct redlock_options *options, char *reason,
                                                     size_t reason_size);
REDLOCK_API void redlock_nodes_close(struct redlock_nodes *nodes); /* NULL is fine */

/* Why the last call did not end with REDLOCK_NODES_DONE: one problem per line. */
REDLOCK_API const char *redlock_nodes_reason(const struct redlock_nodes *nodes);

/* `goes_on` runs a few times a second while a call waits: for `what`, and for how much longer (-1: unknown). If it
 * returns false, the call ends with REDLOCK_NODES_WAITING. */
REDLOCK_API void redlock_nodes_watch(struct redlock_nodes *nodes,
                                     bool (*goes_on)(void *context, const char *what, int64_t left_ms), void *context);

/* --- looking ------------------------------------------------------------------------------------------------------ */

enum { REDLOCK_GROUP_ID_DIGITS = 16, REDLOCK_NODE_ID_DIGITS = 8, REDLOCK_RUN_ID_DIGITS = 40 };

/* What is known of a node. */
struct redlock_node_view {
    const char *name;
    char address[300]; /* host:port or path; "" before the first attempt */
    bool is_reached;   /* the last look found what follows */
    bool votes;
    const char *state;          /* "votes", "quarantined", "excluded", "unseen" */
    const char *reason;         /* a word: "fine", "new_run", "no_marker", ... */
    const char *advice;         /* a sentence: what that means, and what to do */
    char trouble[256];          /* why it cannot be reached, or which node it duplicates; "" = neither */
    int64_t quarantine_left_ms; /* as this process counts, from when it first saw the node */
    char group[REDLOCK_GROUP_ID_DIGITS + 1], id[REDLOCK_NODE_ID_DIGITS + 1]; /* from its marker; "" = none */
    uint32_t generation;
    char run_id[REDLOCK_RUN_ID_DIGITS + 1]; /* a digest of it and of its replication id, if it was a replica */
    char eviction[32];                      /* maxmemory-policy */
    int64_t latency_us;
    int64_t clock_ahead_us; /* of this machine's clock; accurate to half the latency */
    /* From redlock_nodes_compare_clocks: bounds of how much faster its clock ran than this machine's. INT64_MIN and
     * INT64_MAX: not known. */
    int64_t rate_least_ppm, rate_most_ppm;
    /* From redlock_nodes_count_fences: how many the node remembers, and the highest token that was dropped. */
    bool has_fence_count;
    uint64_t fence_count, fence_floor;
};

/* What the nodes are together. */
struct redlock_group_view {
    unsigned nodes, reached, voters, quorum;
    bool has_group;
    char group[REDLOCK_GROUP_ID_DIGITS + 1];
    uint32_t generation;
    int64_t max_ttl_ms;
    unsigned vacant; /* members without a server: a replacement has begun */
    /* Of a single node; "" = none yet: the first client that may lock there gives it one. */
    char node_id[REDLOCK_GROUP_ID_DIGITS + 1];
};

/* Asks every node once. REDLOCK_NODES_TOO_FEW if some cannot be reached, REDLOCK_NODES_REFUSED if fewer than a quorum
 * vote, REDLOCK_NODES_WAITING if only quarantines are the reason for that. The views tell more. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_look(struct redlock_nodes *nodes);
/* After it: also asks how many fences the nodes have. What is not answered stays unknown. */
REDLOCK_API void redlock_nodes_count_fences(struct redlock_nodes *nodes);
/* Looks three times: at once, after half of the time, and at its end. The views are those of the last look. They bound
 * the clock rate of each node that all three looks reached and that did not restart. A rate shows in both halves; a
 * step shows in one, and is no rate. A longer time gives sharper bounds, because a slow answer blurs a rate by its
 * share of the time. If `goes_on` ends the call, the views of the last look stay. If no node is reached, no time
 * passes. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_compare_clocks(struct redlock_nodes *nodes, int64_t for_ms);
/* From the last look; valid until the next call. */
REDLOCK_API const struct redlock_node_view *redlock_nodes_view(const struct redlock_nodes *nodes, size_t index);
REDLOCK_API struct redlock_group_view redlock_nodes_group(const struct redlock_nodes *nodes);

/* --- changing ----------------------------------------------------------------------------------------------------- */

enum { REDLOCK_MAX_TTL_DEFAULT_MS = 60000 };

struct redlock_group_terms {
    int64_t max_ttl_ms; /* the longest ttl of any lock, hence the length of a quarantine: 1 s to 10 min; 0 = 60 s */
    bool keep_keys;     /* allow existing keys: these nodes held locks before they were a group */
};

/* Makes a group of the nodes. There must be an odd number of them, three or more, all reachable, none twice. They must
 * have no markers and no keys below options.key_prefix (no keys at all without a prefix), and must not evict keys. They
 * may vote at once, because a new group has no locks; with keep_keys each first goes through its quarantine.
 * All or nothing: if a node fails, earlier writes are undone, and the reason names what could not be undone. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_init(struct redlock_nodes *nodes,
                                                      const struct redlock_group_terms *terms);

/* Gives nodes their votes back: all of them, or the `wanted` ones (one flag a node, NULL = all). Waits until
 * quarantines are over and records that, updates members that a change did not reach, and readmits nodes that lost
 * their marker, with a fresh id. If changes of the group have met and none of them has a quorum, it gives the numbers
 * about which they differ anew. It waits for `wait_ms` at most: 0 = it does only what needs no time, INT64_MAX = as
 * long as it takes. If that is less than it needs, it ends at once with REDLOCK_NODES_WAITING, and the reason says how
 * long it needs: what a process waits for is known to it alone, so the time of several calls does not add up. Clients
 * that live finish whatever a call has begun when it ends, even by a signal. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_heal(struct redlock_nodes *nodes, const bool *wanted, int64_t wait_ms);

/* Puts another server in the place of the node with this index; the old server may be dead. Takes a little more than
 * one max_ttl. The new server must be empty and must not be one of the other nodes. After REDLOCK_NODES_DONE every
 * configuration has to name it instead of the old one; until then clients work with the nodes that stayed. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_replace(struct redlock_nodes *nodes, size_t index,
                                                         const struct redlock_node *successor);

/* --- one lock ----------------------------------------------------------------------------------------------------- */

enum {
    REDLOCK_KEY_VALUE_MAX = 512, /* bytes of a value that is shown; ours are shorter */
    REDLOCK_READERS_MAX = 64,    /* of one key that are shown, on each node those that last longest */
    REDLOCK_HOLDERS_MAX = 64,
};

enum redlock_key_kind {
    REDLOCK_KEY_NOTHING,
    REDLOCK_KEY_VALUE,
    REDLOCK_KEY_LONG,      /* a value of more than REDLOCK_KEY_VALUE_MAX bytes: not one of ours */
    REDLOCK_KEY_NO_STRING, /* a list, a hash ...: no lock at all */
};

enum redlock_taking {
    REDLOCK_TAKING_NOTHING, /* there was nothing to delete */
    REDLOCK_TAKING_DONE,    /* deleted */
    REDLOCK_TAKING_GONE,    /* it was released, or it expired, since the find */
    REDLOCK_TAKING_CHANGED, /* another value is there now, and stays */
    REDLOCK_TAKING_REFUSED, /* the find could not read all of the value, so it stays */
    REDLOCK_TAKING_FAILED,  /* the node did not answer; a value that the find has read may be deleted */
};

/* One of those who share a lock. */
struct redlock_reader_view {
    char value[REDLOCK_OWNER_BYTES_MAX + 40]; /* any bytes, then a NUL */
    size_t length;
    int64_t remaining_ms;
};

/* What a node has under the key of a lock. */
struct redlock_key_view {
    bool is_answered; /* if not, only `trouble` is meaningful */
    char trouble[256];
    enum redlock_key_kind kind;
    char value[REDLOCK_KEY_VALUE_MAX + 1]; /* any bytes, then a NUL; for REDLOCK_KEY_LONG its length in digits */
    size_t length;
    int64_t remaining_ms;  /* -1: it does not expire */
    uint64_t fence;        /* the node's counter of fencing tokens; 0 = none */
    unsigned reader_count; /* of a shared lock, those that are shown */
    struct redlock_reader_view readers[REDLOCK_READERS_MAX];
    enum redlock_taking taking; /* the outcome of redlock_nodes_take */
};

enum redlock_holding {
    REDLOCK_HELD,       /* a majority of the nodes has the value and votes */
    REDLOCK_HELD_MAYBE, /* nodes that did not answer, or do not vote now, could make it a majority */
    REDLOCK_LEFTOVER,   /* no majority: from a client that died or gave up, or from a split vote that will pass */
};

/* One value, or one reader of a shared lock, and how many nodes have it. */
struct redlock_holder {
    unsigned node;     /* the first node that has it */
    const char *value; /* as that node has it: any bytes; of a key that is no value see its view */
    size_t length;
    bool is_reader;
    unsigned nodes, votes;
    enum redlock_holding standing;
    int64_t remaining_ms; /* on the node that keeps it longest; -1: for ever */
    uint64_t token;       /* the fence of a majority; 0 = not known */
    const char *owner;    /* the "host:pid:slot:jid" in a value of ours, any bytes; NULL in others */
};

/* What to name as the resource for one of the seats of a resource that several may hold (redlock.h: limit). */
enum { REDLOCK_SEAT_NAME_SIZE = REDLOCK_RESOURCE_BYTES_MAX + 32 };
REDLOCK_API void redlock_seat_name(const char *resource, unsigned seat, char name[REDLOCK_SEAT_NAME_SIZE]);
/* Which seats of the resource any node has something for, from the lowest on; returns how many. A node that does not
 * answer, or may not say (MGET), is passed over. Changes nothing. */
REDLOCK_API unsigned redlock_nodes_seats(struct redlock_nodes *nodes, const char *resource,
                                         unsigned seats[REDLOCK_LIMIT_MAX]);
/* Looks at all nodes, and asks each what it has under the key of the resource (with options.key_prefix before it).
 * REDLOCK_NODES_TOO_FEW if some did not answer. Changes nothing. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_find(struct redlock_nodes *nodes, const char *resource);
/* From the last find; valid until the next call. */
REDLOCK_API const struct redlock_key_view *redlock_nodes_key(const struct redlock_nodes *nodes, size_t index);
/* Fills one entry per value, or per reader, the one on most nodes first. Returns how many there are; 0 = nobody holds
 * it. Their texts are valid until the next call that asks the nodes. */
REDLOCK_API unsigned redlock_nodes_holders(const struct redlock_nodes *nodes,
                                           struct redlock_holder holders[REDLOCK_HOLDERS_MAX]);

/* Deletes the values that the last find has shown for the same resource, each on its node and only while it is
 * unchanged. The keys (redlock_nodes_key) have the outcome. Fences stay. Who waits hears of it as of a release; a live
 * holder learns of it only when it asks the nodes: notify it first. REDLOCK_NODES_DONE: no node has the value any
 * more, though that of a next holder may be there. REDLOCK_NODES_REFUSED if the find could not read a value,
 * REDLOCK_NODES_TOO_FEW if a node did not answer. */
REDLOCK_API enum redlock_nodes_end redlock_nodes_take(struct redlock_nodes *nodes, const char *resource);

#ifdef __cplusplus
}
#endif

#endif
