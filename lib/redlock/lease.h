/* The life of one lock over N nodes, as a pure state machine: no clock, no socket, no allocation, no randomness of
 * its own. The driver (lock.c) passes in what happened and when, and performs the step that it gets back; the
 * simulation (tests/sim) does the same with a virtual clock and network, millions of times.
 *
 *            lease_acquire      quorum in time, one token                 lease_release
 *     FREE ───────────────▶ ACQUIRING ─────────────▶ HELD ───────────────────────────────▶ RELEASING ──▶ FREE
 *                            ▲   │  │ tokens differ    ▲ │ ▲                                   ▲
 *                            │   │  └──▶ FENCING ──────┘ └─┘ extend at ttl/3                    │
 *                   delay is │   │ refused  │ refused     │ deadline, or a majority says "not yours", or held too long
 *                   over   WAITING ◀────────┘             ▼                                     │
 *                            │ no try left ──▶ FREE      LOST ──────────────────────────────────┘
 *
 * The rules, with the edge cases of the reference that they answer:
 *  - N is the configured number of nodes, quorum N/2 + 1, also for even N (E8, E9). The first majority either way
 *    decides an attempt; errors of a minority are no errors (E10). A refusal waits for the nodes that can still tell
 *    whether one owner has a majority: after a refusal by a holder the lock waits for its end; a split vote has none
 *    (E48).
 *  - Validity counts from the moment before the first byte of the winning attempt (E6), minus the drift of
 *    lease_drift_ns (E7). If less than `needed_ns` is left, the attempt fails and is cleaned up (E5).
 *  - A release goes to every node to which a grant was written, whatever it answered (E1). Each attempt has a fresh
 *    value (E4), so the superseded attempt cannot refuse the next or be mistaken for it (E3).
 *  - Every send starts a new round; a reply of an older round is no vote (E29).
 *  - An extension counts only while the old validity lasts (E24). Too few answers are no release: it is tried again
 *    until the deadline (E27, E28). A node that said "not yours" does not count until it has the key again, see below.
 *    A majority of such nodes ends the hold at once, also where the key is free (E25, E49).
 *  - DANGER after `danger_after_ns` without success, LOST at validity minus guard, both by time alone (E34); LOST is
 *    final (E24).
 *  - A requested release first stops every extension (E30); "gone already" is an answer, not an error (E39, E40, E42).
 *
 * Fencing (reference 4, F1 to F5). Every node counts, per resource, the tokens that it gave out. A grant raises the
 * counters of all resources of the lock to one number t = max(highest of them + 1, the proposal) and answers t. The
 * lock's token T is established once a majority holds exactly T under our value. If a majority answered the same t,
 * that is at once (F2). Otherwise rounds of their own raise the lower ones to the highest, and a vote counts only if
 * it says T (F1, F3). Two established acquisitions share a node, where the later one was granted at least one more:
 * tokens of a resource are ordered by no clock, no ttl and no delay bound. All resources of a lock have the same T.
 *
 * A key that is given again. A long hold would only lose nodes: one that was away for longer than the ttl, or that was
 * not reached when the lock was acquired, does not have the key. Each extension offers it the key again (`regrant`), on
 * the terms of a grant: only a node that votes, under the marker that we know, until a deadline in the node's time, and
 * the release reaches each node to which it was sent. Besides, the key must be free, and its fence not above our token:
 * else somebody was granted it since. The fence is raised to the token, as by a grant. So a majority that has the key
 * shows as much as one that granted it: nobody else has one, and nobody had one in between. Such a node counts from the
 * next extension on, because what a majority has lost is lost, although the same round gives it again (E25). An
 * unfenced hold offers nothing: no fence could speak of others.
 *
 * Memory loss (reference 5). lease_forgot announces a node that may have forgotten: its vote for an undecided attempt
 * is void. A hold may give it the key again (`replant`) only if the node acknowledged it in this hold and would
 * still keep it otherwise (`kept_until`), and only if the hold is fenced, so that the script can refuse where
 * the counter shows another owner in between. An unfenced hold may only extend keys that still exist. */
#ifndef REDLOCK_LEASE_H
#define REDLOCK_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "redlock/redlock.h"

enum { LEASE_NODES_MAX = 15 };

/* The assumption about clocks, from which everything follows: for any time W up to the longest ttl of the group, the
 * clock of a voting node and ours move apart by at most W x drift factor + LEASE_FORGIVEN_NS. A node whose clock is
 * seen to break that is in quarantine (trust.h). */
#define LEASE_FORGIVEN_NS  (5 * NS_PER_MS) /* the sum of all steps by time services within that time */
#define LEASE_PRECISION_NS (2 * NS_PER_MS) /* a node expires to the millisecond, and rounds the ttl (E7) */

/* After this long all grants of a node for at most `ttl_ns` have expired, even if the node is slow. */
int64_t lease_wait_ns(int64_t ttl_ns, double drift_factor, int64_t timeout_ns);

#define LEASE_TRIES_ENDLESS UINT32_MAX

typedef uint16_t node_set; /* bit i = node i */

static inline node_set set_of(unsigned node)
{
    return (node_set)(1u << node);
}

/* The terms of a lock; many leases share them. Constant while they live, except `silence_limit_ns`, which may change
 * between two rounds. lease_terms_derive fills the lower half from the upper. */
struct lease_terms {
    unsigned nodes; /* N as configured */
    int64_t ttl_ns;
    double drift_factor;
    int64_t attempt_limit_ns; /* an attempt or a release that a quorum has answered ends by then, undecided or not */
    int64_t silence_limit_ns; /* the same if fewer have answered, and of an extension; at least attempt_limit_ns */
    int64_t silence_most_ns;  /* that it may become, however slow the nodes are */
    unsigned tries; /* attempts until an acquire is refused, at least 1; LEASE_TRIES_ENDLESS = lease_last_try ends it */
    int64_t retry_delay_ns, retry_jitter_ns;
    bool fenced;
    int64_t max_hold_ns; /* LOST this long after the acquisition, however often it was extended; 0 = never (E37) */

    int64_t drift_ns;        /* lease_drift_ns */
    int64_t needed_ns;       /* validity that must be left after an attempt: ttl / 2 */
    int64_t guard_ns;        /* LOST this long before the validity ends: max(50 ms, 1 % of ttl), at most ttl / 10 */
    int64_t extend_after_ns; /* ttl / 3 */
    int64_t extend_retry_ns; /* 5 % of ttl, but not before the round has failed */
    int64_t danger_after_ns; /* 2/3 ttl */
};

void lease_terms_derive(struct lease_terms *terms);
unsigned lease_quorum(const struct lease_terms *terms);

enum lease_state { LEASE_FREE, LEASE_ACQUIRING, LEASE_FENCING, LEASE_WAITING, LEASE_HELD, LEASE_LOST, LEASE_RELEASING };

enum lease_vote {
    LEASE_YES,     /* granted, raised, extended, planted again, deleted */
    LEASE_NO,      /* refused, not ours, already gone */
    LEASE_FOREIGN, /* release only: the key has another owner's value */
    LEASE_UNKNOWN, /* no answer, an error, or a node that must not vote */
    LEASE_UNSENT,  /* certainly nothing was written: needs no clean-up */
};

struct lease {
    enum lease_state state;
    uint32_t round;   /* of the last send; never goes back, also from one life to the next */
    uint32_t noise;   /* seed of the jitter */
    node_set reached; /* a grant of this attempt was, or may have been, written there */
    node_set gone;    /* HELD: does not have our value, as far as is known, and does not count */
    node_set forgot;  /* lost its memory in this hold, and did not get the key again */
    node_set asked;   /* of this round */
    node_set yes, no, foreign, unknown;
    bool extending; /* HELD: the round is an undecided extension */
    /* Of this acquire: a majority may have granted an attempt that failed. Then it may have refused others, or does so
     * until its release arrives. */
    bool may_obstruct;
    bool in_danger;
    unsigned tries_left;
    unsigned splits;                   /* split votes in a row, for the doubling of their wait */
    enum redlock_answer refusal;       /* WAITING: how the last attempt ended */
    struct instant attempt_started;    /* before the first byte of this round */
    struct instant validity_from;      /* FENCING: start of the attempt that granted */
    struct instant valid_until;        /* HELD: end of the validity, guard not taken off */
    struct instant hold_until;         /* HELD: when the maximum hold of its terms is over */
    struct instant confirmed;          /* HELD: start of the last round that succeeded */
    struct instant act_at;             /* WAITING: next attempt; HELD: next extension */
    uint64_t token;                    /* FENCING: being established; HELD, LOST: the token of this hold; else 0 */
    uint64_t details[LEASE_NODES_MAX]; /* of this round: the token of a YES, the owner that caused a NO */
    struct instant
        kept_until[LEASE_NODES_MAX]; /* the node, as it acknowledged, keeps the key until then; 0 = never did */
};

enum lease_news {
    LEASE_NEWS_NONE,
    LEASE_NEWS_ACQUIRED,
    LEASE_NEWS_REFUSED,
    LEASE_NEWS_EXTENDED,
    LEASE_NEWS_DANGER,
    LEASE_NEWS_LOST,
    LEASE_NEWS_RELEASED,
};

/* What the driver must do, in this order: release the abandoned attempt under its value; draw a fresh value and send
 * grants; raise counters to lease->token; send extensions; report the news. All votes except those for `abandon`
 * carry `round` as it is after this call. */
struct lease_step {
    node_set abandon; /* release, without waiting for the outcome */
    node_set grant;
    node_set raise;
    node_set extend;
    node_set replant; /* of the same round as `extend`: only before kept_until of the node, in its own time */
    node_set regrant; /* the same, but only at voters, with the deadline of a grant; then lease_regranted */
    node_set release;
    enum lease_news news;
    enum redlock_answer refusal;
    enum redlock_loss loss;
    enum redlock_ending ending;
};

/* A lease is born FREE; `noise` is any number. */
void lease_init(struct lease *lease, uint32_t noise);

/* FREE only. `now` is the time before the first byte is written. */
struct lease_step lease_acquire(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* The answer of one node to the send of `round`. `detail`: of a YES to a grant or a raise the token that the node
 * now holds (0 in an unfenced lock), of a NO to a grant the digest of the value that refused it; otherwise, or if
 * unknown, 0. */
struct lease_step lease_vote(struct lease *lease, const struct lease_terms *terms, unsigned node, uint32_t round,
                             enum lease_vote vote, uint64_t detail, struct instant now);
/* Nothing was written to any of `nodes`. Call it at once, so that an attempt that ends by it knows what it reached. */
struct lease_step lease_unsent(struct lease *lease, const struct lease_terms *terms, node_set nodes, uint32_t round,
                               struct instant now);
/* The node may have lost its memory; harmless in every state. */
struct lease_step lease_forgot(struct lease *lease, const struct lease_terms *terms, unsigned node, struct instant now);
/* HELD: the key was sent to these nodes of `regrant`, so a release must reach them. Call it at once. */
void lease_regranted(struct lease *lease, node_set nodes);
/* Asks a majority now whether the lock is still ours, by an extension round: HELD only, else nothing happens. EXTENDED
 * with `confirmed` not before `now` is the yes. */
struct lease_step lease_verify(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* HELD only: the round that won last was for `ttl_ns`, longer than the terms say. It counts for as much, and so do the
 * extensions from now on: the caller must send them so. */
void lease_lengthen(struct lease *lease, struct lease_terms *terms, int64_t ttl_ns);
/* Our clock is not reliable for the time before now: a hold is LOST, an undecided attempt fails. */
struct lease_step lease_doubt(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* Our clock may have stood still for `stood_ns` before now, unless the clock of a node jumped. This shortens a hold by
 * as much, but leaves it long enough that an extension, which begins at once, can confirm it: keys that a majority
 * still has were never gone. For a lock that is not held yet, the attempt counts as that much longer. */
void lease_suspect(struct lease *lease, const struct lease_terms *terms, int64_t stood_ns, struct instant now);
/* HELD only, else nothing happens: LOST by order of the caller. */
struct lease_step lease_forfeit(struct lease *lease);
/* WAITING only, else nothing happens: the next attempt begins at `at`, earlier or later than planned, because the
 * driver knows better than a fixed delay when it is useful. */
void lease_wait_until(struct lease *lease, struct instant at);
/* The current attempt is the last one. While the lease waits for the next one, it is refused now with the last refusal.
 * Before HELD only, else nothing happens. */
struct lease_step lease_last_try(struct lease *lease);
/* Does whatever is due by time; call it at lease_next or later. Harmless if nothing is due. */
struct lease_step lease_tick(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* Gives the lock up, in any state but FREE and RELEASING. Before HELD it cancels, with news REFUSED at once. */
struct lease_step lease_release(struct lease *lease, const struct lease_terms *terms, struct instant now);

/* When lease_tick has work to do; INSTANT_NEVER if only a reply or a caller can bring news. */
struct instant lease_next(const struct lease *lease, const struct lease_terms *terms);
/* Until when the holder may believe that it holds: the validity minus the guard, and not beyond the maximum hold; 0
 * if it does not hold. */
struct instant lease_believed_until(const struct lease *lease, const struct lease_terms *terms);
/* From when a hold is in danger, unless an extension succeeds before; 0 if it does not hold. */
struct instant lease_danger_from(const struct lease *lease, const struct lease_terms *terms);

#endif
