/* Which lock nodes may vote, as a pure state machine: no clock, no socket, no allocation. The driver (inspection.c)
 * reports what inspections found and when. The machine answers who votes, which markers to write, and whose memory is
 * gone.
 *
 * The basic rule: a grant of a majority excludes everybody else only while no node of that majority forgets it. A node
 * that may have forgotten has no vote until everything that it may have forgotten has expired.
 *
 * Who votes:
 * - With N >= 3, a node whose marker belongs to the group that a quorum of the configured nodes belongs to (the highest
 *   generation that has a quorum), names a member of that group that no other configured node names, and names the run
 *   of the server that answers (E19, E20, H2 to H4).
 * - With N = 1 there is no group. The node votes once it is inspected, unless it has a marker: then it belongs to a
 *   group whose other nodes we do not know (E20). Even N is refused earlier.
 * - A node whose fences are no fences has no vote: a grant needs its fence. Holds are extended there all the same,
 *   because the keys of locks stay as they are.
 * - A replica is excluded while it is one: it forgets what it was told to keep, and takes what its master has.
 * - A node that evicts keys (maxmemory is set and the policy is not noeviction) is excluded while it does (E21). What
 *   cannot be found out (no right to INFO) is not trusted (H9).
 *
 * Quarantine:
 * - The reasons: a new run (restart, or a replica that is a master again: inspect.lua), a marker that is gone although
 *   this process saw it there (wipe), a marker whose run is no server's, the end of an eviction policy, and a clock
 *   that stepped (E36, H10).
 * - A master that frees its replication backlog has another run as well (inspect.lua). It keeps its memory, and does so
 *   only when it was no replica for repl-backlog-ttl. So where this process looked a few seconds ago, the quarantine is
 *   over as it begins: only the marker is written.
 * - It lasts max_ttl x 1.01 + 2 ms + the longest patience, by our own clock, from first sight (H1, H5).
 * - At its end the node is inspected again, because during a long pause of ours it may have been healed and doubted
 *   anew (each doubt has its own text). If nothing new shows, the marker is written by compare-and-set with the run
 *   that was quarantined. The node votes once an inspection has seen that marker, so later clients need not wait again.
 * - What the node forgot also bounds the tokens to come: two majorities may share no other node. A majority that gave a
 *   token includes quorum - 1 others, and every quorum of the others includes one of those. So a quorum of the others,
 *   whose own memory is whole, is inspected since the end of the quarantine, and the highest token that they know is
 *   written with the marker: tokens of the node begin above it. Clocks, whose offsets nobody promises, have no part in
 *   that. Where too few others can be asked within the longest patience, counted from when this process asks them, the
 *   node votes all the same: then only its own clock bounds what was forgotten.
 *
 * A server that was emptied or replaced:
 * - The id of a number says which server has it. Suppose a server has no marker, at an address whose number this
 *   process knows, and another run than it saw there. It may be another server, while the old one lives on for other
 *   clients. So the number gets a new id, made of the run of the new server. That is recorded first: by compare-and-set
 *   the markers of the other members name the new id, with the next generation. Their run and their own id stay.
 * - Once a quorum of the other members names the new id, the group is adopted with it. From then on the old server can
 *   be in no majority: that would need quorum - 1 others that name the old id, and fewer are left. Grants, extensions
 *   and swaps compare the marker on every node, so the others refuse any client that still counts the old server.
 * - Only then the new server gets a marker: first a doubt, because without a marker nothing would show that it was
 *   emptied a second time; one quarantine later, its run. Holders may give their keys back there once the doubt is
 *   written. Before the record that would be wrong: the old server may give a key that expires there to a client that
 *   then finds a majority. After the record that client finds none. One that found a majority before began after the
 *   key expired on the old server, and a replant never outlasts that: its deadline is the time at which that server
 *   would have dropped the key.
 * - A doubt is written on a server without a marker only while a quorum of the others, all inspected since it was first
 *   seen so, name the group's membership. The server may be one of those that recorded a change which this process does
 *   not know: what it forgot must not give the older membership a majority again.
 * - When a majority has no markers, nobody can record or confirm anything. All of them become again the members that
 *   this process knew them as. More than a minority failed then, and only an address that leads to two servers at that
 *   very time could give two clients a majority each.
 * - A member applies each change of a number to what it knows, so changes of several numbers may arrive in any order;
 *   the generation counts them. Of two new ids for one number it keeps the first, until so many members have the
 *   smaller one that no quorum can take the other. A member whose marker is older than the adopted group takes the
 *   group's membership. Nothing is begun while a number is vacant, or while too few members can be reached.
 * - A record that was interrupted leaves no membership with a quorum. Any client that sees a quorum of members that
 *   list each other finishes it, even if it never knew the group (trust_members.c).
 * - A node without a marker whose number this process does not know is excluded until it is recorded or an operator
 *   heals it: a guess could give one number to two servers.
 *
 * Clocks:
 * - Each sample of a node's clock bounds its offset to ours from both sides. Samples that cannot all be true while
 *   clocks keep the promise of lease.h are a step, whether a clock jumped or creeps. All nodes are asked at once then.
 *   While only some of them show the step, our own clock may have stood still: `suspect_ns` says for how long.
 * - If a quorum steps by the same amount within a few seconds, our own clock stood still. Those nodes are not blamed,
 *   `own_clock_stood` is set, and every hold that began before is in doubt. A node that has not answered since then is
 *   expected to show the same step with its next answer.
 * - A node whose samples before and after a step fit together vouches for our clock. When the vouching nodes and the
 *   one that stepped are a quorum, its marker is doubted (its run is no server's), so that clients that did not see the
 *   step get no grant there either.
 * - A node may have stepped before this process first sampled it, or while its only sample was too long on its way to
 *   show it. It is in quarantine until its clock agrees, within a second, with those of a quorum of the nodes, itself
 *   counted. Where the clocks of a majority are right, that takes no time. A node is an outlier when so many disagree
 *   with it that no quorum can agree any more.
 *
 * What becomes of locks: when a node's memory is gone, `forgot` is set once; see lease_forgot. */
#ifndef REDLOCK_TRUST_H
#define REDLOCK_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "redlock/lease.h"
#include "redlock/marker.h"

/* --- clocks (trust_clock.c) --------------------------------------------------------------------------------------- */

/* What is known of one node's clock beside ours: offset = node's time - ours, somewhere between two bounds.
 *
 * The promise about clocks (lease.h): within any time W up to the window, the clock of a node and ours move apart by at
 * most rate x W + LEASE_FORGIVEN_NS. So each sample (the node's time, read there between `asked` and `answered` of our
 * clock) bounds the offset for all time after it. A sample that does not fit the bounds of the last window breaks the
 * promise: one of the two clocks has stepped, or runs at another rate (E36). Each sample is judged by the whole window,
 * because a creeping clock moves little from one sample to the next.
 *
 * All samples of some seconds are kept as one pair of bounds: lines of equal slope keep their order, so the lowest
 * upper one and the highest lower one say what all of them say. The newest sample is kept beside them to date steps. */
enum { TRUST_CLOCK_BUCKETS = 9 }; /* one is for the newest sample alone */

struct trust_promise {
    int64_t rate_ppm;  /* by which the clocks may differ in rate */
    int64_t window_ns; /* within which LEASE_FORGIVEN_NS is forgiven once */
};

/* Bounds of the offset from `origin` on, which move apart by the rate. */
struct trust_bounds {
    struct instant origin;
    int64_t low, high; /* at origin */
};

struct trust_clock {
    bool is_known;
    unsigned count; /* the oldest first; the last is the newest sample alone */
    struct trust_bounds bounds[TRUST_CLOCK_BUCKETS];
    struct instant heard;        /* when the last one was answered */
    struct instant steady_since; /* no step from there on */
};

struct trust_reading {
    struct instant asked, answered; /* before the request was written; when the reply was read */
    int64_t node_us;                /* TIME */
};

/* A length of time, or a rate, between two bounds; forward is > 0. */
struct trust_span {
    int64_t least, most;
};

/* What a reading showed. */
struct trust_clock_news {
    bool is_first;           /* there was nothing to compare it with */
    bool is_step;            /* the promise is broken: `moved` is all forward, or all backward */
    struct trust_span moved; /* how far the node's clock moved against ours, beyond what is allowed */
    int64_t blur_ns;         /* a step of more than this would have shown */
    struct instant from;     /* a step was after this */
};

/* The reading must make sense. */
struct trust_clock_news trust_clock_read(struct trust_clock *clock, const struct trust_promise *promise,
                                         const struct trust_reading *reading);

/* How much faster the node's clock runs than ours, in ppm, as two readings of one run bound it. INT64_MIN and INT64_MAX
 * if they overlap, or make no sense. */
struct trust_span trust_rate_ppm(const struct trust_reading *first, const struct trust_reading *second);

/* The offset of a known clock at a moment. */
struct trust_span trust_clock_offset(const struct trust_clock *clock, const struct trust_promise *promise,
                                     struct instant at);

/* Sorts `count` >= 1 numbers and returns the middle one, the lower of two. */
int64_t trust_median_low(int64_t *numbers, unsigned count);

/* --- nodes -------------------------------------------------------------------------------------------------------- */

enum trust_state {
    TRUST_UNSEEN, /* not inspected since it was connected, or its marker changed since */
    TRUST_VOTES,
    TRUST_QUARANTINED, /* until trust_node_until */
    TRUST_EXCLUDED,    /* until something is changed */
};

enum trust_reason {
    TRUST_FINE,
    TRUST_NOT_INSPECTED,
    TRUST_UNREADABLE, /* the inspection was refused, or gave no run id (H9) */
    TRUST_NO_GROUP,   /* no group has a quorum of the configured nodes: `holdfast nodes init` */
    TRUST_NO_MARKER,  /* and never seen with one */
    TRUST_UNRECORDED, /* another server than before, and empty: its peers must record it first */
    TRUST_BAD_MARKER, /* something else is under the marker's key */
    TRUST_OTHER_SCHEME,
    TRUST_OTHER_GROUP,
    TRUST_OTHER_GENERATION, /* a change of membership has not reached it, or not the others */
    TRUST_NOT_A_MEMBER,     /* it was replaced */
    TRUST_NODE_COUNT,       /* the group has another number of members than nodes are configured (E20) */
    TRUST_DUPLICATE,        /* another configured node is the same server or is the same member (E19) */
    TRUST_REPLICA,
    TRUST_EVICTS,
    TRUST_FENCES_BAD,
    TRUST_NEW_RUN,     /* restarted, or a replica for a while */
    TRUST_LOST_MARKER, /* wiped, or replaced by an empty server */
    TRUST_DOUBTED,     /* its marker is a doubt */
    TRUST_CLOCK_STEPPED,
    TRUST_CLOCK_OUTLIER,
    TRUST_CLOCK_UNCOMPARED, /* since its first sample there are too few clocks to compare its own with */
    TRUST_HAD_EVICTED,
};

/* What one inspection found. */
struct trust_inspection {
    struct trust_reading reading;             /* of its clock */
    char marker_text[MARKER_TEXT_MAX];        /* as it is; "" = none */
    char run_id[MARKER_RUN_DIGITS + 1];       /* as inspect.lua makes it: another one says that memory may be lost */
    char plain_run_id[MARKER_RUN_DIGITS + 1]; /* of INFO */
    bool evicts, is_replica;
    int64_t highest_token;                 /* that it knows of any lock */
    bool has_bad_fences;                   /* its set of fences, or the floor of it, is something else */
    char node_id[MARKER_GROUP_DIGITS + 1]; /* of the only node; "" = none */
    bool is_of_other_scheme;               /* the id of the only node */
};

struct trust_node {
    bool seen;          /* the facts below are from the present connection */
    bool ever_seen;     /* there are facts; older ones count only for adopting the group */
    bool is_unreadable; /* the last inspection was refused */
    struct marker marker;
    bool has_marker, bad_marker, is_of_other_scheme;
    char marker_text[MARKER_TEXT_MAX];
    char run_id[MARKER_RUN_DIGITS + 1], plain_run_id[MARKER_RUN_DIGITS + 1];
    char known_id[MARKER_ID_DIGITS + 1];   /* the number of this address, as far as this process knows; "" = none yet */
    char known_run[MARKER_RUN_DIGITS + 1]; /* of the server that this process saw there with a marker */
    bool evicts, is_replica, has_bad_fences;
    int64_t highest_token;
    enum trust_reason quarantine; /* TRUST_FINE = none; it goes on after its end until the marker is written */
    struct instant quarantined_at;
    bool writes_marker; /* the quarantine is over, and the marker does not say so yet */
    struct trust_clock clock;
    struct trust_span step;                  /* the last one of its clock; all 0 = none */
    struct instant stepped_at, step_from;    /* between these two samples, the later one first */
    struct trust_span shown;                 /* the last step, with the parts of it that showed before */
    struct instant shown_from, shown_to;     /* a common cause with other steps lies between these moments */
    struct instant shown_asked;              /* when the sample that showed its first part was requested */
    struct instant blamed_before;            /* the quarantine for an older step; 0 = none */
    struct trust_span owed;                  /* steps of our own clock that it has yet to show; all 0 = none */
    node_set vouched;                        /* nodes whose clocks show that the step was not ours */
    bool doubt_wanted, doubts;               /* doubt the marker if others vouch; they do, or the marker is gone */
    char stepped_run[MARKER_RUN_DIGITS + 1]; /* in the marker when the step was seen: another doubt is newer */
    int64_t doubted_us;                      /* in the node's time */
    struct instant unmarked_since;           /* when it was first seen without its marker */
    bool records;                            /* its marker must name another membership */
    struct instant write_at;                 /* not before */
    struct instant seen_at;                  /* when the last inspection was requested */
    bool wants_look;                         /* the quarantine is over, and it or others are to be inspected since */
    struct instant look_at;                  /* not before */
    struct instant told_by;                  /* until then others are waited for, which may know higher tokens */
    /* the verdict */
    enum trust_state state;
    enum trust_reason reason;
};

struct trust {
    unsigned nodes;
    int64_t timeout_ns;
    double drift_factor;
    bool has_group;
    bool has_new_marker; /* since the last adopt_group */
    bool is_unconfirmed; /* a server without a marker, or without its vote, waits for inspections of others */
    struct marker group; /* without self and run */
    struct trust_node node[LEASE_NODES_MAX];
};

/* What the driver must do. */
struct trust_step {
    node_set forgot;      /* tell every lock (lease_forgot) before anything else is sent to the node */
    node_set write;       /* trust_marker_to_write has the texts: compare-and-set, then inspect again */
    node_set look;        /* inspect now */
    node_set changed;     /* their state or reason has changed: log it */
    bool own_clock_stood; /* a quorum's clocks moved ahead of ours together: tell every lock (lease_doubt) */
    int64_t suspect_ns;   /* > 0: a blamed clock moved ahead by up to that: tell every lock (lease_suspect) */
};

/* `timeout_ns` is redlock_longest_patience_ns. */
void trust_init(struct trust *trust, unsigned nodes, int64_t timeout_ns, double drift_factor);

struct trust_step trust_saw(struct trust *trust, unsigned node, const struct trust_inspection *inspection,
                            struct instant now);
/* The inspection was answered with an error. */
struct trust_step trust_unreadable(struct trust *trust, unsigned node, struct instant now);
/* The connection is gone, or a script met another marker: the node votes again after an inspection. */
struct trust_step trust_unseen(struct trust *trust, unsigned node, struct instant now);
/* A script read the node's clock between `asked` and `answered`. */
struct trust_step trust_sampled(struct trust *trust, unsigned node, struct instant asked, struct instant answered,
                                int64_t node_us, struct instant now);
/* Ends quarantines and repeats writes, once a second; call it at trust_next or later. */
struct trust_step trust_tick(struct trust *trust, struct instant now);
struct instant trust_next(const struct trust *trust);
/* The end of the node's quarantine: 0 = it has none, INSTANT_NEVER = no group says how long it is. */
struct instant trust_node_until(const struct trust *trust, unsigned node);

node_set trust_voters(const struct trust *trust);
/* Nodes on which a hold may still be extended: the voters, the quarantined ones, and those whose fences are none. One
 * that lost its marker counts once that is replaced by a doubt, because a restart without persistence is the
 * usual way to forget. */
node_set trust_members(const struct trust *trust);
/* Those on which it may be planted again (on lease_forgot's conditions): that needs their fences. */
node_set trust_replanters(const struct trust *trust);
/* 0 while there is no group, and with N = 1. */
int64_t trust_max_ttl_ns(const struct trust *trust);
/* The marker text that scripts on this node must compare with; MARKER_NONE where there must be no marker. */
const char *trust_marker_expected(const struct trust *trust, unsigned node);
enum { TRUST_KEEPS_FENCES = -1 };
/* For a node of step.write, before the next event: what the marker must become; node[].marker_text is what it is.
 * Returns the highest token that others know if that gives the node its vote, else TRUST_KEEPS_FENCES. */
int64_t trust_marker_to_write(const struct trust *trust, unsigned node, char text[MARKER_TEXT_MAX]);
/* The highest token of any lock that nodes other than this one know. */
int64_t trust_highest_token(const struct trust *trust, unsigned but);

/* The latest and the earliest time that the node's clock can show at `at`, in microseconds; 0 = nothing is known. */
int64_t trust_node_time_us(const struct trust *trust, unsigned node, struct instant at);
int64_t trust_node_time_low_us(const struct trust *trust, unsigned node, struct instant at);
/* The median of the clocks at `at`, in microseconds, from which fencing tokens are proposed; 0 = nothing is known. */
int64_t trust_median_us(const struct trust *trust, struct instant at);

/* One word each for logs and --json ("votes", "new_run"). */
const char *trust_state_name(enum trust_state state);
const char *trust_reason_name(enum trust_reason reason);
/* A sentence for people: what to do about the node's reason. */
const char *trust_advice(const struct trust *trust, unsigned node);

#endif
