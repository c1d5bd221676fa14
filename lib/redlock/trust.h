/* Which lock nodes may vote, as a pure state machine: no clock, no socket, no allocation. The driver (inspection.c)
 * tells it what inspections of the nodes found and when; it says who votes, what is to be written into which marker,
 * and whose memory is gone. The simulation does the same.
 *
 * The rule behind all others: a grant of a majority excludes everybody else only while no node of that majority forgets
 * it. A node that may have forgotten gets no vote until everything that it may have forgotten has expired by itself.
 *
 *  - N >= 3: a node votes when its marker belongs to the group that a quorum of the configured nodes belongs to (of
 *    several generations the highest that a quorum has), names a place of that group which no other configured node
 *    names, and names the run of the server that answers (E19, E20, H2 to H4). With N = 1 there is no group: the node
 *    votes once it was inspected, while it has no marker; one that has is of a group whose other nodes we do not know
 *    (E20). Even N is refused before it comes here.
 *  - A new run id (restart), a marker that is gone although this process saw it there (wipe), a marker whose run is
 *    nobody's, the end of an eviction policy, and a clock that stepped (E36, H10): quarantine for max_ttl x 1.01 + 2 ms
 *    + the longest patience, counted on our own clock from the moment of first sight (H1, H5). At its end the node is
 *    inspected once more: in a long pause of ours it may have been healed and doubted again (each doubt has a text of
 *    its own). If nothing new shows, the marker is written by compare-and-set with the run that was quarantined; the
 *    node votes once an inspection has seen it, so that whoever comes later need not wait again.
 *  - The id of a place says which server has it. A server without a marker, at an address whose place this process
 *    knows, and of another run than it saw there, may be another server, while the old one lives on for others. So the
 *    place gets a new id, made of the run of the new server, and that is recorded first: by compare-and-set the markers
 *    of the other members name the new id, with the next generation. Their run and their own id stay.
 *  - Once a quorum of the other members names it, the group is adopted with it. From then on no majority can be found
 *    with the old server: it would need quorum - 1 others that name the old id, and fewer are left. Grants, extensions
 *    and swaps compare the marker on every node, so whoever still counts the old server is refused by the others.
 *  - Only then the new server's marker is written, as that of a server that was emptied in place: a doubt at once,
 *    because without a marker nothing would tell that it was emptied a second time; and one quarantine later its run.
 *    Holders may give their keys back there as soon as the doubt is written. Before the record that would be wrong: the
 *    old server may give the key to somebody when it expires there, who then finds his majority. After it he finds
 *    none; and whoever found one before began after the key expired on the old server, which a replant never outlasts
 *    (its deadline is the time at which that server would have dropped the key).
 *  - A doubt is written on a server without a marker only while a quorum of the others, all inspected since it was seen
 *    so, name the group's membership. The server may have been one of those that recorded a change, and this process
 *    the one that does not know of it: the older membership must not get a majority back by what was forgotten.
 *  - When a majority has no markers, nobody can record or confirm anything. All of them get their places back as this
 *    process knows them. More than a minority failed then, and only an address that leads to two servers at that very
 *    time could give two clients a majority each.
 *  - A member takes each change of a place on top of what it knows, so changes of several places may meet it in any
 *    order; the generation counts them. Of two new ids for one place it keeps the first one, until so many members
 *    have the smaller one that no quorum can take the other. A member whose marker is older than the adopted group
 *    takes the group's membership. Nothing is begun while a place is vacant, or while too few members can be reached.
 *  - A record that was interrupted leaves no membership with a quorum. Whoever sees a quorum of members that list each
 *    other finishes it, also without having known the group before (trust_places.c).
 *  - A node without a marker whose place this process does not know is excluded until it is recorded or an operator
 *    heals it: a guess could give one place to two servers.
 *  - A node that evicts keys (maxmemory is set and the policy is not noeviction) is excluded while it does (E21).
 *  - A clock that steps: every sample of a node's clock bounds its offset to ours from both sides (trust_clock.h).
 *    Samples that cannot all be true, as long as clocks keep what lease.h promises, are a step, be it that a clock
 *    jumped or that it creeps.
 *    All nodes are asked at once then, and
 *    as long as only some of them say so it may be our own clock that stood: `suspect_ns` tells by how much.
 *    When a quorum of the nodes steps by the same within a few seconds it is our own clock that stood still: those are
 *    not blamed, `own_clock_stood` is told, and every hold that began before is in doubt. A node that was not heard
 *    since then is expected to show that step, by its size, whenever it is heard. A node whose samples before and
 *    after a step fit together vouches for our clock; when those that do are a quorum together with the one that
 *    stepped, its marker is doubted (its run is nobody's), so that nobody gets a grant there who did not see the step
 *    himself.
 *  - A node that this process samples for the first time may have stepped before, and so may one whose only sample was
 *    too long on its way to show it. So it is in quarantine from there on until its clock agrees, to a second, with
 *    those of a quorum of the nodes, itself counted. The nodes of a majority whose clocks are right agree as soon as
 *    they are sampled, so this delays nobody whose nodes agree. When so many disagree with it that no quorum can agree
 *    any more, it is an outlier. The quarantine is over, as any, when everything that the node may have forgotten has
 *    expired.
 *  - What cannot be found out (no right to INFO) is not trusted (H9).
 *
 * What becomes of locks: when a node's memory is gone, `forgot` is told once; see lease_forgot. */
#ifndef REDLOCK_TRUST_H
#define REDLOCK_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "redlock/lease.h"
#include "redlock/marker.h"
#include "redlock/trust_clock.h"

enum trust_state {
    TRUST_UNSEEN, /* not inspected since it was connected, or its marker changed since */
    TRUST_VOTES,
    TRUST_QUARANTINED, /* until trust_node_until */
    TRUST_EXCLUDED,    /* until somebody changes something */
};

enum trust_reason {
    TRUST_FINE,
    TRUST_NOT_INSPECTED,
    TRUST_UNREADABLE, /* the inspection was refused, or told no run id (H9) */
    TRUST_NO_GROUP,   /* no group has a quorum of the configured nodes: `holdfast nodes init` */
    TRUST_NO_MARKER,  /* and never seen with one */
    TRUST_UNRECORDED, /* another server than before, and empty: its peers are to know of it first */
    TRUST_BAD_MARKER, /* something else is under the marker's key */
    TRUST_OTHER_GROUP,
    TRUST_OTHER_GENERATION, /* a change of membership has not reached it, or not the others */
    TRUST_NOT_A_PLACE,      /* was replaced */
    TRUST_NODE_COUNT,       /* the group has another number of places than nodes are configured (E20) */
    TRUST_DUPLICATE,        /* another configured node is the same server or has the same place (E19) */
    TRUST_EVICTS,
    TRUST_NEW_RUN,     /* restarted */
    TRUST_LOST_MARKER, /* wiped, or replaced by an empty server */
    TRUST_DOUBTED,     /* its marker says that nobody trusts it yet */
    TRUST_CLOCK_STEPPED,
    TRUST_CLOCK_OUTLIER,
    TRUST_CLOCK_UNCOMPARED, /* too few clocks to compare its own with, since it was first sampled */
    TRUST_HAD_EVICTED,
};

/* What one inspection found. */
struct trust_inspection {
    struct instant asked, answered; /* before the request was written; when the reply was read */
    bool has_marker;
    char marker_text[MARKER_TEXT_MAX]; /* as it is; "" = none */
    char run_id[MARKER_RUN_DIGITS + 1];
    bool evicts;
    int64_t node_us; /* TIME */
};

struct trust_node {
    bool seen;          /* the facts below are from the present connection */
    bool ever_seen;     /* there are facts; those of a node that is not seen count for the adoption of the group only */
    bool is_unreadable; /* the last inspection told nothing */
    struct marker marker;
    bool has_marker, bad_marker;
    char marker_text[MARKER_TEXT_MAX];
    char run_id[MARKER_RUN_DIGITS + 1];
    char known_id[MARKER_ID_DIGITS + 1];   /* the place of this address, as this process knows it; "" = none yet */
    char known_run[MARKER_RUN_DIGITS + 1]; /* of the server that this process saw there with a marker */
    bool evicts;
    enum trust_reason quarantine; /* TRUST_FINE = none; it may outlast its end until the marker is written */
    struct instant quarantined_at;
    bool writes_marker; /* the quarantine is over, and the marker does not say so yet */
    struct trust_clock clock;
    struct trust_span step;               /* the last one of its clock; all 0 = none */
    struct instant stepped_at, step_from; /* between these two samples, the later one first */
    struct trust_span shown;              /* the last step, with the parts of it that showed before */
    struct instant shown_from, shown_to;  /* it has one cause with others only if that was at one of these moments */
    struct instant shown_asked;           /* when the first part of it was asked for */
    struct instant blamed_before;         /* the quarantine for a step that is older than those; 0 = none */
    struct trust_span owed;               /* steps of our own clock that it has still to show; all 0 = none */
    node_set vouched;                     /* whose clocks show that the step was not ours */
    bool doubt_wanted, doubts;            /* the marker is to be doubted, if others vouch; and they do, or it is gone */
    char stepped_run[MARKER_RUN_DIGITS + 1]; /* what the marker said when the step was seen: another doubt is newer */
    int64_t doubted_us;                      /* in the node's time */
    struct instant bare_since;               /* when it was first seen without its marker */
    bool records;                            /* its marker is to name another membership */
    struct instant write_at;                 /* not before */
    struct instant seen_at;                  /* when the last inspection was asked for */
    bool wants_look;                         /* the quarantine is over, and it was not inspected since */
    struct instant look_at;                  /* not before */
    uint32_t incarnation;                    /* counts the times its memory was, or may have been, lost */
    /* the verdict */
    enum trust_state state;
    enum trust_reason reason;
};

struct trust {
    unsigned nodes;
    int64_t timeout_ns;
    double drift_factor;
    bool has_group;
    bool has_new_marker; /* since the group was looked for */
    bool is_unconfirmed; /* a server without a marker waits for inspections of others */
    struct marker group; /* self and run are of no meaning */
    struct trust_node node[LEASE_NODES_MAX];
};

/* What the driver must do. */
struct trust_step {
    node_set forgot;      /* tell every lock (lease_forgot), before anything else is sent to the node */
    node_set write;       /* trust_marker_to_write gives the texts: compare-and-set, then inspect again */
    node_set look;        /* inspect now */
    node_set changed;     /* their state or reason is another one: tell the log */
    bool own_clock_stood; /* nodes' clocks all moved ahead of ours together */
    int64_t suspect_ns;   /* > 0: one that was blamed moved ahead by up to that: tell every lock (lease_suspect) */
};

/* `timeout_ns` is the longest that anybody waits for a node (redlock_longest_patience_ns). */
void trust_init(struct trust *trust, unsigned nodes, int64_t timeout_ns, double drift_factor);

struct trust_step trust_saw(struct trust *trust, unsigned node, const struct trust_inspection *inspection,
                            struct instant now);
/* The inspection was answered with an error. */
struct trust_step trust_unreadable(struct trust *trust, unsigned node, struct instant now);
/* The connection is gone, or a script said that the marker is another one: it votes again after an inspection. */
struct trust_step trust_unseen(struct trust *trust, unsigned node, struct instant now);
/* The node's clock, as a script told it between `asked` and `answered`. */
struct trust_step trust_sampled(struct trust *trust, unsigned node, struct instant asked, struct instant answered,
                                int64_t node_us, struct instant now);
/* Ends quarantines and repeats writes, once a second; call it at trust_next or later. */
struct trust_step trust_tick(struct trust *trust, struct instant now);
struct instant trust_next(const struct trust *trust);
/* The end of the node's quarantine: 0 when it has none, INSTANT_NEVER while no group tells how long it is. */
struct instant trust_node_until(const struct trust *trust, unsigned node);

node_set trust_voters(const struct trust *trust);
/* Nodes whose key a hold may still have extended or planted again (lease_forgot's conditions): the voters and the
 * quarantined ones, also those that lost their marker, once it is replaced by a doubt: a restart without persistence is
 * the usual way to forget. */
node_set trust_members(const struct trust *trust);
/* 0 while there is no group, and with N = 1. */
int64_t trust_max_ttl_ns(const struct trust *trust);
/* The marker text that scripts on this node are to compare with; MARKER_NONE where there must be none. */
const char *trust_marker_expected(const struct trust *trust, unsigned node);
/* For a node of step.write, before anything else is told: node[].marker_text is what the marker is now; this is what it
 * is to be. */
void trust_marker_to_write(const struct trust *trust, unsigned node, char text[MARKER_TEXT_MAX]);

/* The latest time that the node's clock can show at `at`, in microseconds; 0 when nothing is known. */
int64_t trust_node_time_us(const struct trust *trust, unsigned node, struct instant at);
/* The earliest time that the node's clock can show at `at`. */
int64_t trust_node_time_low_us(const struct trust *trust, unsigned node, struct instant at);
/* The median of the clocks at `at`, in microseconds: what fencing tokens are proposed from; 0 = nothing known. */
int64_t trust_median_us(const struct trust *trust, struct instant at);

/* One word each for logs and --json ("votes", "new_run"); and a sentence with what to do. */
const char *trust_state_name(enum trust_state state);
const char *trust_reason_name(enum trust_reason reason);
const char *trust_reason_advice(enum trust_reason reason);
/* For what this node is now: what is to be done about no_group depends on what the other nodes say. */
const char *trust_advice(const struct trust *trust, unsigned node);

#endif
