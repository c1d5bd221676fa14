/* Private to trust*.c: what its parts share. */
#ifndef REDLOCK_TRUST_PRIVATE_H
#define REDLOCK_TRUST_PRIVATE_H

#include <string.h>

#include "base/invariant.h"
#include "redlock/trust.h"

#define TRUST_FRESH_NS      (10 * NS_PER_S) /* an older sample is no evidence */
#define TRUST_LOOK_PAUSE_NS (1 * NS_PER_S)
#define TRUST_APART_NS      (1 * NS_PER_S)  /* clocks that are further apart disagree */
#define TRUST_WINDOW_NS     (60 * NS_PER_S) /* while no group gives its longest ttl */

/* What a node's marker says about its server's run. */
enum trust_proof { PROOF_NO_MARKER, PROOF_BAD_MARKER, PROOF_DOUBTED, PROOF_OTHER_RUN, PROOF_GOOD };

static inline unsigned quorum(const struct trust *trust)
{
    return trust->nodes / 2 + 1;
}

static inline bool is_group(const struct trust *trust)
{
    return trust->nodes > 1;
}

static inline struct trust_promise trust_promise_of(const struct trust *trust)
{
    int64_t ttl_ns = trust_max_ttl_ns(trust);
    return (struct trust_promise){.rate_ppm = (int64_t)(trust->drift_factor * 1e6 + 0.5),
                                  .window_ns = ttl_ns > 0 ? ttl_ns : TRUST_WINDOW_NS};
}

static inline struct trust_span trust_offset(const struct trust *trust, const struct trust_clock *clock,
                                             struct instant at)
{
    struct trust_promise promise = trust_promise_of(trust);
    return trust_clock_offset(clock, &promise, at);
}

/* A doubt: a run id that no server has, followed by what tells it from other doubts. */
#define DOUBT_RUN_PREFIX "ffffffffffffffffffffffff"

static inline enum trust_proof trust_proof_of(const struct trust_node *node)
{
    if (!node->has_marker)
        return node->bad_marker ? PROOF_BAD_MARKER : PROOF_NO_MARKER;
    if (node->marker.run[0] == '\0' || strncmp(node->marker.run, DOUBT_RUN_PREFIX, sizeof DOUBT_RUN_PREFIX - 1) == 0)
        return PROOF_DOUBTED;
    return strcmp(node->marker.run, node->run_id) == 0 ? PROOF_GOOD : PROOF_OTHER_RUN;
}

/* After its quarantine its marker is written: it has one with another run, or we know the number that it had. */
static inline bool trust_needs_healing(const struct trust_node *node)
{
    enum trust_proof proof = trust_proof_of(node);
    return proof == PROOF_DOUBTED || proof == PROOF_OTHER_RUN ||
           (proof == PROOF_NO_MARKER && node->known_id[0] != '\0');
}

static inline bool trust_is_about_proof(enum trust_reason reason)
{
    return reason == TRUST_NEW_RUN || reason == TRUST_LOST_MARKER || reason == TRUST_DOUBTED;
}

static inline enum trust_reason trust_reason_of(enum trust_proof proof)
{
    invariant(proof != PROOF_GOOD && proof != PROOF_BAD_MARKER);
    return proof == PROOF_NO_MARKER ? TRUST_LOST_MARKER : proof == PROOF_DOUBTED ? TRUST_DOUBTED : TRUST_NEW_RUN;
}

/* With N = 1 a quarantine would only be an outage: no other node votes. */
static inline void trust_quarantine(const struct trust *trust, struct trust_node *node, enum trust_reason reason,
                                    struct instant now)
{
    if (!is_group(trust))
        return;
    node->quarantine = reason;
    node->quarantined_at = now;
}

static inline void trust_quarantine_clock(const struct trust *trust, struct trust_node *node, enum trust_reason reason,
                                          struct instant now)
{
    bool keeps = node->quarantine != TRUST_FINE && node->quarantine != TRUST_CLOCK_UNCOMPARED &&
                 !trust_is_about_proof(node->quarantine);
    trust_quarantine(trust, node, keeps ? node->quarantine : reason, now);
}

/* trust_members.c. Whether a node without a marker may have its known number: a quorum of the other members say so, or
 * it is the server that this process saw there with a marker, or a majority has lost its markers. */
bool trust_is_recorded(const struct trust *trust, unsigned index);
/* Takes the number of a server without a marker from the group, where that was recorded. */
void trust_know_recorded(struct trust *trust, unsigned index, struct instant now);
/* Adds the others that must be inspected because the node has lost its marker. */
void trust_look_at_others(struct trust *trust, unsigned index, struct instant now, node_set *look);
/* Whether enough others, inspected since the node was seen without a marker, have the group's membership. */
bool trust_is_confirmed(const struct trust *trust, unsigned index);
/* False when the membership in the node's marker stays as it is. */
bool trust_membership_wanted(const struct trust *trust, unsigned index, struct marker *wanted);
bool trust_names_member(const struct trust *trust, unsigned index, const char *id);
bool trust_is_named_elsewhere(const struct trust *trust, unsigned index, const char *id);

/* trust_clock.c. Returns whether there is anything to judge: most readings only confirm what was known. */
bool trust_take_reading(struct trust *trust, unsigned node, const struct trust_reading *reading, struct instant now,
                        struct trust_step *step);
void trust_compare_clocks(struct trust *trust, struct instant now);

#endif
