/* Which group it is, and what becomes of every node: made anew from the facts after every event. */
#include "redlock/trust_private.h"

#include <string.h>

#include "base/invariant.h"

#define WRITE_PAUSE_NS (1 * NS_PER_S)

/* --- quarantines --------------------------------------------------------------------------------------------- */
bool trust_is_about_proof(enum trust_reason reason)
{
    return reason == TRUST_NEW_RUN || reason == TRUST_LOST_MARKER || reason == TRUST_DOUBTED;
}

enum trust_reason trust_reason_of(enum trust_proof proof)
{
    static const enum trust_reason reasons[] = {
        [PROOF_NO_MARKER] = TRUST_LOST_MARKER,
        [PROOF_DOUBTED] = TRUST_DOUBTED,
        [PROOF_OTHER_RUN] = TRUST_NEW_RUN,
    };
    invariant(proof != PROOF_GOOD && proof != PROOF_BAD_MARKER);
    return reasons[proof];
}

/* With N = 1 a quarantine would only be an outage: nobody else is there to vote. */
void trust_quarantine(const struct trust *trust, struct trust_node *node, enum trust_reason reason, struct instant now)
{
    if (!is_group(trust))
        return;
    node->quarantine = reason;
    node->quarantined_at = now;
}

void trust_quarantine_clock(const struct trust *trust, struct trust_node *node, enum trust_reason reason,
                            struct instant now)
{
    bool keeps = node->quarantine != TRUST_FINE && node->quarantine != TRUST_CLOCK_UNCOMPARED &&
                 !trust_is_about_proof(node->quarantine);
    trust_quarantine(trust, node, keeps ? node->quarantine : reason, now);
}

struct instant trust_node_until(const struct trust *trust, unsigned node)
{
    if (trust->node[node].quarantine == TRUST_FINE)
        return (struct instant){0};
    if (!trust->has_group)
        return INSTANT_NEVER;
    return instant_after(trust->node[node].quarantined_at,
                         lease_wait_ns(trust_max_ttl_ns(trust), trust->drift_factor, trust->timeout_ns));
}

/* Once its time is over, a quarantine goes on only until the marker was seen to say so. */
static void end_quarantine(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    if (node->quarantine != TRUST_FINE && !trust_needs_healing(node) &&
        instant_reached(now, trust_node_until(trust, index)))
        node->quarantine = TRUST_FINE;
}

/* --- the group ----------------------------------------------------------------------------------------------- */

/* How many places of the membership in the marker of `index` are named by some node. */
static unsigned places_named(const struct trust *trust, unsigned index)
{
    const struct marker *membership = &trust->node[index].marker;
    unsigned places = 0; /* bit = place */
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *node = &trust->node[i];
        if (node->has_marker && marker_same_membership(&node->marker, membership))
            places |= 1u << marker_place_of(membership, node->marker.self);
    }
    return (unsigned)__builtin_popcount(places);
}

/* No way leads back to an older generation: what was a quorum then may have lost a place since. */
static bool may_adopt(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (!node->has_marker || node->marker.place_count != trust->nodes)
        return false;
    if (trust->has_group && strcmp(node->marker.group, trust->group.group) == 0 &&
        node->marker.generation < trust->group.generation)
        return false;
    return places_named(trust, index) >= quorum(trust);
}

static bool is_of_group(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    return trust->has_group && node->has_marker && marker_same_membership(&node->marker, &trust->group);
}

static void adopt_group(struct trust *trust)
{
    for (unsigned i = 0; i < trust->nodes; i++)
        if (!is_of_group(trust, i) && may_adopt(trust, i)) {
            trust->has_group = true;
            trust->group = trust->node[i].marker;
        }
}

/* --- what speaks against a node ------------------------------------------------------------------------------ */

/* The later of two addresses of one server. */
static bool is_reached_twice(const struct trust *trust, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (trust->node[i].ever_seen && strcmp(trust->node[i].run_id, trust->node[index].run_id) == 0)
            return true;
    return false;
}

/* Another server names the same place. The one whose run is trusted keeps it, of equal ones the first: all clients
 * should take the same one, also those with another order of nodes. */
static bool is_outdone(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    bool is_good = trust_proof_of(node) == PROOF_GOOD;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *other = &trust->node[i];
        if (i == index || !trust_names_place(trust, i, node->marker.self) || strcmp(other->run_id, node->run_id) == 0)
            continue;
        bool other_is_good = trust_proof_of(other) == PROOF_GOOD;
        if (other_is_good != is_good ? other_is_good : i < index)
            return true;
    }
    return false;
}

/* A marker that is not trusted, while a newer generation is seen somewhere, may be a memory of before the change (a
 * dump that was loaded): healing it could bring an older quorum back to life. */
static bool may_be_a_memory(const struct trust *trust, const struct trust_node *node)
{
    if (trust_proof_of(node) == PROOF_GOOD)
        return false;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *other = &trust->node[i];
        if (other->has_marker && strcmp(other->marker.group, trust->group.group) == 0 &&
            other->marker.generation > trust->group.generation)
            return true;
    }
    return false;
}

/* A node without a marker can get only the place that its address is known to have, which nobody else may have. */
static enum trust_reason fault_without_marker(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (!trust->has_group)
        return TRUST_NO_GROUP;
    if (marker_place_of(&trust->group, node->known_id) < 0 || trust_is_named_elsewhere(trust, index, node->known_id))
        return TRUST_NO_MARKER;
    if (!trust_is_recorded(trust, index))
        return TRUST_UNRECORDED;
    return may_be_a_memory(trust, node) ? TRUST_OTHER_GENERATION : TRUST_FINE;
}

static enum trust_reason fault_of_membership(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (node->bad_marker)
        return TRUST_BAD_MARKER;
    if (!node->has_marker)
        return fault_without_marker(trust, index);
    if (node->marker.place_count != trust->nodes)
        return TRUST_NODE_COUNT;
    if (!trust->has_group)
        return TRUST_NO_GROUP;
    if (strcmp(node->marker.group, trust->group.group) != 0)
        return TRUST_OTHER_GROUP;
    if (node->marker.generation < trust->group.generation && marker_place_of(&trust->group, node->marker.self) < 0)
        return TRUST_NOT_A_PLACE;
    if (!marker_same_membership(&node->marker, &trust->group))
        return TRUST_OTHER_GENERATION;
    if (is_outdone(trust, index))
        return TRUST_DUPLICATE;
    return may_be_a_memory(trust, node) ? TRUST_OTHER_GENERATION : TRUST_FINE;
}

/* One node alone has no marker. One of a group has, and the locks of those who know all of its nodes may be on the
 * others. */
static enum trust_reason fault_of_single(const struct trust_node *node)
{
    return node->has_marker ? TRUST_NODE_COUNT : node->bad_marker ? TRUST_BAD_MARKER : TRUST_FINE;
}

static enum trust_reason fault_of(const struct trust *trust, unsigned index)
{
    enum trust_reason fault = TRUST_FINE;
    if (!is_group(trust))
        fault = fault_of_single(&trust->node[index]);
    else
        fault = is_reached_twice(trust, index) ? TRUST_DUPLICATE : fault_of_membership(trust, index);
    return fault == TRUST_FINE && trust->node[index].evicts ? TRUST_EVICTS : fault;
}

/* --- verdicts ------------------------------------------------------------------------------------------------ */

struct verdict {
    enum trust_state state;
    enum trust_reason reason;
};

static struct verdict verdict_of(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (node->is_unreadable)
        return (struct verdict){TRUST_EXCLUDED, TRUST_UNREADABLE};
    if (!node->seen)
        return (struct verdict){TRUST_UNSEEN, TRUST_NOT_INSPECTED};
    enum trust_reason fault = fault_of(trust, index);
    if (fault != TRUST_FINE)
        return (struct verdict){TRUST_EXCLUDED, fault};
    if (node->quarantine != TRUST_FINE)
        return (struct verdict){TRUST_QUARANTINED, node->quarantine};
    invariant(!is_group(trust) || trust_proof_of(node) == PROOF_GOOD);
    return (struct verdict){TRUST_VOTES, TRUST_FINE};
}

/* This process has now seen the node have its place; who was seen there before has it no more. */
static void know_place(struct trust *trust, unsigned index)
{
    struct trust_node *node = &trust->node[index];
    if (!node->has_marker || (node->state != TRUST_VOTES && node->state != TRUST_QUARANTINED))
        return;
    memcpy(node->known_id, node->marker.self, sizeof node->known_id);
    memcpy(node->known_run, node->run_id, sizeof node->known_run);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (i != index && strcmp(trust->node[i].known_id, node->known_id) == 0)
            trust->node[i].known_id[0] = '\0';
}

/* Two reasons to write a doubt. Enough clocks vouch that the node's stepped and not ours: everybody is to know, as
 * long as it is news. A doubt from before the step is replaced by a new one, or whoever waits since then would heal the
 * node too early. And a marker is gone: while there is none, nothing would tell that the node is emptied once more, and
 * holds could not be given their keys back there.
 *
 * Each doubt is another one, also when its write is repeated (its run is the time of the write), so that a newer one
 * never looks like the one that somebody has waited for. */
static void decide_doubt(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    bool is_doubted = trust_proof_of(node) == PROOF_DOUBTED && strcmp(node->marker.run, node->stepped_run) != 0;
    bool is_over = instant_since(node->stepped_at, now) > TRUST_FRESH_NS || !node->has_marker || is_doubted ||
                   node->quarantine == TRUST_FINE || node->writes_marker || node->wants_look;
    node->doubt_wanted = node->doubt_wanted && !is_over;
    bool is_shown = node->doubt_wanted && (unsigned)__builtin_popcount(node->vouched) + 1 >= quorum(trust);
    bool is_bare = trust_proof_of(node) == PROOF_NO_MARKER;
    node->doubts = node->state == TRUST_QUARANTINED && (is_shown || (is_bare && trust_is_confirmed(trust, index)));
}

static bool is_to_write(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    struct marker wanted;
    node->records = !node->writes_marker && !node->doubts && trust_membership_wanted(trust, index, &wanted);
    if ((!node->writes_marker && !node->doubts && !node->records) || !instant_reached(now, node->write_at))
        return false;
    node->write_at = instant_after(now, WRITE_PAUSE_NS);
    node->doubted_us = trust_node_time_us(trust, index, now);
    return true;
}

static bool is_to_look(struct trust_node *node, struct instant now)
{
    if (!node->wants_look || !instant_reached(now, node->look_at))
        return false;
    node->look_at = instant_after(now, TRUST_LOOK_PAUSE_NS);
    return true;
}

/* A quarantine that is over is not the word: whoever was away for long knows nothing of what happened meanwhile. And a
 * marker that is gone says nothing about when: others may have healed the node since, and it may have been emptied once
 * more. So it is healed only from the doubt that was written there, and that was waited for. */
static void decide_healing(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    struct instant until = trust_node_until(trust, index);
    bool is_over = node->state == TRUST_QUARANTINED && trust_needs_healing(node) &&
                   trust_proof_of(node) != PROOF_NO_MARKER && instant_reached(now, until);
    node->writes_marker = is_over && instant_reached(node->seen_at, until);
    node->wants_look = is_over && !node->writes_marker;
}

static void judge_node(struct trust *trust, unsigned index, struct instant now, struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    end_quarantine(trust, index, now);
    struct verdict verdict = verdict_of(trust, index);
    if (verdict.state != node->state || verdict.reason != node->reason)
        step->changed |= bit(index);
    node->state = verdict.state;
    node->reason = verdict.reason;
    decide_healing(trust, index, now);
    decide_doubt(trust, index, now);
    trust_look_at_others(trust, index, now, &step->look);
    if (is_to_look(node, now))
        step->look |= bit(index);
}

void trust_judge(struct trust *trust, struct instant now, struct trust_step *step)
{
    if (trust->has_new_marker)
        adopt_group(trust);
    trust->has_new_marker = trust->is_unconfirmed = false;
    trust_compare_clocks(trust, now);
    for (unsigned i = 0; i < trust->nodes; i++)
        trust_know_recorded(trust, i, now);
    for (unsigned i = 0; i < trust->nodes; i++)
        judge_node(trust, i, now, step);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (is_to_write(trust, i, now))
            step->write |= bit(i);
    for (unsigned i = 0; i < trust->nodes; i++)
        know_place(trust, i);
}
