/* The life of one lock over N nodes, as a pure state machine: no clock, no socket, no allocation, no randomness of
 * its own. The driver (group.c) tells it what happened and when, and performs what the returned step asks for; the
 * simulation (tests/sim) does the same with a virtual clock and network, millions of times.
 *
 *            lease_acquire            quorum in time                      lease_release
 *     FREE ───────────────▶ ACQUIRING ─────────────▶ HELD ───────────────────────────────▶ RELEASING ──▶ FREE
 *                            ▲     │ refused          │ ▲                                     ▲
 *                   delay is │     ▼                  └─┘ extend at ttl/3                      │
 *                   over   WAITING ──▶ FREE            │ deadline, or a majority says "not yours"
 *                                no try left           ▼                                      │
 *                                                     LOST ───────────────────────────────────┘
 *
 * The rules, with the edge cases of the reference that they answer:
 *  - N is the configured number of nodes, quorum N/2 + 1, also for even N (E8, E9); a pass is decided at the first
 *    majority either way, errors of a minority are no errors (E10).
 *  - Validity counts from the moment before the first byte of the winning pass (E6), minus ttl x drift factor + 2 ms
 *    (E7); less than `needed_ns` left is a failure with clean-up (E5).
 *  - A release goes to every node to which a grant was written, whatever was heard from it (E1), and each pass has a
 *    fresh value (E4), so the superseded pass cannot refuse the next or be mistaken for it (E3).
 *  - Every send starts a new round; a reply of an older round is no vote (E29).
 *  - An extension counts only while the old validity lasts (E24). Not hearing enough is no release: it is tried again
 *    until the deadline (E27, E28). A node that said "not yours" is out for the rest of the hold, and nothing
 *    plants a key again (E25). A majority of such nodes ends the hold at once (E49).
 *  - DANGER after `danger_after_ns` without success, LOST at validity minus guard, both by time alone (E34); LOST is
 *    final (E24).
 *  - A release that was asked for stops every extension first (E30); "gone already" is an answer, not an error (E39,
 *    E40, E42).
 * Later: a fencing token is established between ACQUIRING and HELD; a quarantined node's vote arrives as UNKNOWN. */
#ifndef REDLOCK_LEASE_H
#define REDLOCK_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { LEASE_NODES_MAX = 15 };

typedef uint16_t node_set; /* bit i = node i */

/* What was agreed for a lock; shared by many leases, constant while they live. lease_terms_derive fills the lower
 * half from the upper. */
struct lease_terms {
    unsigned nodes; /* N as configured */
    int64_t ttl_ns;
    double drift_factor;
    int64_t pass_limit_ns; /* a pass or an extension round that is undecided by then has failed */
    unsigned tries;        /* passes until an acquire is refused, at least 1 */
    int64_t retry_delay_ns, retry_jitter_ns;

    int64_t drift_ns;        /* ttl x drift factor + 2 ms */
    int64_t needed_ns;       /* validity that must be left after a pass: ttl / 2 */
    int64_t guard_ns;        /* LOST this long before the validity ends: max(50 ms, 1 % of ttl), at most ttl / 10 */
    int64_t extend_after_ns; /* ttl / 3 */
    int64_t extend_retry_ns; /* 5 % of ttl, but not before the round has failed */
    int64_t danger_after_ns; /* 2/3 ttl */
};

void lease_terms_derive(struct lease_terms *terms);
unsigned lease_quorum(const struct lease_terms *terms);

enum lease_state { LEASE_FREE, LEASE_ACQUIRING, LEASE_WAITING, LEASE_HELD, LEASE_LOST, LEASE_RELEASING };

enum lease_vote {
    LEASE_YES,     /* granted, extended, deleted */
    LEASE_NO,      /* refused, not ours, already gone */
    LEASE_FOREIGN, /* release only: somebody else's value is there */
    LEASE_UNKNOWN, /* no answer, an error, or a node that must not vote */
    LEASE_UNSENT,  /* certainly nothing was written: no clean-up is owed for this */
};

enum lease_refusal {
    LEASE_BUSY,      /* one owner holds, or may hold, a majority */
    LEASE_SPLIT,     /* nobody can have a majority: several tried at once */
    LEASE_NO_QUORUM, /* a majority of nodes could not be asked */
    LEASE_TOO_SLOW,  /* a majority granted, but too little validity was left */
    LEASE_CANCELLED, /* lease_release came before the lock was had */
};

enum lease_loss {
    LEASE_LOSS_DEADLINE, /* the validity ran out before an extension succeeded */
    LEASE_LOSS_TAKEN,    /* a majority of nodes says that the lock is not ours (expired there, or deleted by hand) */
};

enum lease_ending {
    LEASE_ENDED_RELEASED, /* a majority deleted our value */
    LEASE_ENDED_EXPIRED,  /* it was gone already on too many nodes */
    LEASE_ENDED_FOREIGN,  /* somebody else had it by then */
    LEASE_ENDED_UNKNOWN,  /* too few nodes answered; what is left expires by its ttl (E51) */
};

struct lease {
    enum lease_state state;
    uint32_t round;   /* of the last send; never goes back, also from one life to the next */
    uint32_t noise;   /* seed of the jitter */
    node_set reached; /* a grant of this pass was, or may have been, written there */
    node_set gone;    /* said in this hold that the value is not ours */
    node_set asked;   /* of this round */
    node_set yes, no, foreign, unknown;
    bool extending; /* HELD: the round is an undecided extension */
    bool in_danger;
    unsigned tries_left;
    unsigned splits;                  /* split votes in a row, for the doubling of their wait */
    struct instant pass_started;      /* before the first byte of this round */
    struct instant valid_until;       /* HELD: end of the validity, guard not taken off */
    struct instant confirmed;         /* HELD: start of the last round that succeeded */
    struct instant act_at;            /* WAITING: next pass; HELD: next extension */
    uint64_t owners[LEASE_NODES_MAX]; /* who refused: a digest of the value found, 0 = not told */
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

/* What the driver must do, in this order: send the releases of the pass that ended under its value; draw a fresh
 * value and send grants; send extensions; tell the news. Votes for grants, extensions and the release of a hold
 * carry `round` as it is after this call; those of an abandoned pass (`abandon`) need no vote. */
struct lease_step {
    node_set abandon; /* release, nobody waits for the outcome */
    node_set grant;
    node_set extend;
    node_set release;
    enum lease_news news;
    enum lease_refusal refusal;
    enum lease_loss loss;
    enum lease_ending ending;
};

/* A lease is born FREE; `noise` is any number. */
void lease_init(struct lease *lease, uint32_t noise);

/* FREE only. `now` is the time before the first byte is written. */
struct lease_step lease_acquire(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* The answer of one node to the send of `round`; `owner` is the digest of the value that refused a grant, or 0. */
struct lease_step lease_vote(struct lease *lease, const struct lease_terms *terms, unsigned node, uint32_t round,
                             enum lease_vote vote, uint64_t owner, struct instant now);
/* Nothing was written to any of `nodes`; told at once, so that a pass that ends by it knows all that it reached. */
struct lease_step lease_unsent(struct lease *lease, const struct lease_terms *terms, node_set nodes, uint32_t round,
                               struct instant now);
/* Whatever is due by time; call it at lease_next or later. Harmless when nothing is due. */
struct lease_step lease_tick(struct lease *lease, const struct lease_terms *terms, struct instant now);
/* Gives the lock up, in any state but FREE and RELEASING. Before HELD it cancels, with news REFUSED at once. */
struct lease_step lease_release(struct lease *lease, const struct lease_terms *terms, struct instant now);

/* When lease_tick has something to do; INSTANT_NEVER if only a reply or a caller can bring news. */
struct instant lease_next(const struct lease *lease, const struct lease_terms *terms);
/* Until when the holder may believe that it holds: the validity minus the guard; 0 when it does not hold. */
struct instant lease_believed_until(const struct lease *lease, const struct lease_terms *terms);

#endif
