/* What an inspection changes in the facts about its node, and the events and questions of trust.h. The verdicts are
 * made anew from the facts of all nodes after every event, and nothing else changes them, so no order of events can
 * leave one behind.
 *
 * When a quarantine ends early. A marker whose run is that of the server again shows that another client healed it
 * after a quarantine of its own, so what the node forgot when it restarted or was emptied has expired. It shows nothing
 * about a step of its clock or an eviction, which leave the marker as it is: that client may not have seen them. The
 * same holds for a doubted marker: no client gets a grant there, but holders put their keys back, and a second step may
 * lose those. */
#include "redlock/trust_private.h"

#include <stdio.h>
#include <string.h>

#define WRITE_PAUSE_NS (1 * NS_PER_S)

static int64_t quarantine_ns(const struct trust *trust)
{
    return lease_wait_ns(trust_max_ttl_ns(trust), trust->drift_factor, trust->timeout_ns);
}

struct instant trust_node_until(const struct trust *trust, unsigned node)
{
    if (trust->node[node].quarantine == TRUST_FINE)
        return (struct instant){0};
    if (!trust->has_group)
        return INSTANT_NEVER;
    return instant_after(trust->node[node].quarantined_at, quarantine_ns(trust));
}

/* --- the group ----------------------------------------------------------------------------------------------- */

/* How many numbers of the membership in the marker of `index` some node names as its own. */
static unsigned numbers_named(const struct trust *trust, unsigned index)
{
    const struct marker *membership = &trust->node[index].marker;
    unsigned numbers = 0; /* bit = number */
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *node = &trust->node[i];
        if (node->has_marker && marker_same_membership(&node->marker, membership))
            numbers |= 1u << marker_number_of(membership, node->marker.self);
    }
    return (unsigned)__builtin_popcount(numbers);
}

/* Never an older generation: what was a quorum then may have lost a number since. */
static bool may_adopt(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (!node->has_marker || node->marker.member_count != trust->nodes ||
        (trust->has_group && marker_same_membership(&node->marker, &trust->group)))
        return false;
    if (trust->has_group && strcmp(node->marker.group, trust->group.group) == 0 &&
        node->marker.generation < trust->group.generation)
        return false;
    return numbers_named(trust, index) >= quorum(trust);
}

static void adopt_group(struct trust *trust)
{
    for (unsigned i = 0; i < trust->nodes; i++)
        if (may_adopt(trust, i)) {
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

/* Another server names the same number. The one whose run is trusted keeps it, or else the first: all clients should
 * choose the same one, even those with another order of nodes. */
static bool is_outdone(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    bool is_good = trust_proof_of(node) == PROOF_GOOD;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *other = &trust->node[i];
        if (i == index || !trust_names_member(trust, i, node->marker.self) || strcmp(other->run_id, node->run_id) == 0)
            continue;
        bool other_is_good = trust_proof_of(other) == PROOF_GOOD;
        if (other_is_good != is_good ? other_is_good : i < index)
            return true;
    }
    return false;
}

/* While a newer generation is seen somewhere, an untrusted marker may be older than the change (a loaded dump): healing
 * it could revive an older quorum. */
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

static enum trust_reason fault_of_marker(const struct trust_node *node)
{
    return marker_is_of_other_scheme(node->marker_text) ? TRUST_OTHER_SCHEME : TRUST_BAD_MARKER;
}

static enum trust_reason fault_of_membership(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    if (node->bad_marker)
        return fault_of_marker(node);
    if (node->has_marker && node->marker.member_count != trust->nodes)
        return TRUST_NODE_COUNT;
    if (!trust->has_group)
        return TRUST_NO_GROUP;
    if (!node->has_marker) { /* it can only get the known number of its address, unless another node has it */
        if (marker_number_of(&trust->group, node->known_id) < 0 ||
            trust_is_named_elsewhere(trust, index, node->known_id))
            return TRUST_NO_MARKER;
        if (!trust_is_recorded(trust, index))
            return TRUST_UNRECORDED;
    } else if (strcmp(node->marker.group, trust->group.group) != 0) {
        return TRUST_OTHER_GROUP;
    } else if (!marker_same_membership(&node->marker, &trust->group)) {
        bool was_replaced =
            node->marker.generation < trust->group.generation && marker_number_of(&trust->group, node->marker.self) < 0;
        return was_replaced ? TRUST_NOT_A_MEMBER : TRUST_OTHER_GENERATION;
    } else if (is_outdone(trust, index)) {
        return TRUST_DUPLICATE;
    }
    return may_be_a_memory(trust, node) ? TRUST_OTHER_GENERATION : TRUST_FINE;
}

static enum trust_reason fault_of(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    enum trust_reason fault = TRUST_FINE;
    if (node->is_replica) /* its marker is that of its master */
        fault = TRUST_REPLICA;
    else if (is_group(trust))
        fault = is_reached_twice(trust, index) ? TRUST_DUPLICATE : fault_of_membership(trust, index);
    else if (node->has_marker) /* of a group: locks of clients that know all its nodes may be on the others */
        fault = TRUST_NODE_COUNT;
    else if (node->bad_marker)
        fault = fault_of_marker(node);
    else if (node->is_of_other_scheme)
        fault = TRUST_OTHER_SCHEME;
    return fault == TRUST_FINE && node->evicts ? TRUST_EVICTS : fault;
}

/* Why no fence of the node can be continued; TRUST_FINE = each can. */
static enum trust_reason fences_fault(const struct trust_node *node)
{
    return node->has_bad_fences ? TRUST_FENCES_BAD : TRUST_FINE;
}

/* A hold may still be extended there. */
static bool is_member(const struct trust_node *node)
{
    return node->has_marker &&
           (node->state == TRUST_VOTES || node->state == TRUST_QUARANTINED || node->reason == TRUST_FENCES_BAD);
}

/* --- verdicts ------------------------------------------------------------------------------------------------ */

static enum trust_reason verdict(const struct trust *trust, unsigned index, enum trust_state *state)
{
    const struct trust_node *node = &trust->node[index];
    *state = TRUST_EXCLUDED;
    if (node->is_unreadable)
        return TRUST_UNREADABLE;
    *state = node->seen ? TRUST_EXCLUDED : TRUST_UNSEEN;
    enum trust_reason fault = node->seen ? fault_of(trust, index) : TRUST_NOT_INSPECTED;
    if (fault != TRUST_FINE)
        return fault;
    invariant(!is_group(trust) || node->quarantine != TRUST_FINE || trust_proof_of(node) == PROOF_GOOD);
    if (node->quarantine == TRUST_FINE && fences_fault(node) != TRUST_FINE)
        return fences_fault(node);
    *state = node->quarantine != TRUST_FINE ? TRUST_QUARANTINED : TRUST_VOTES;
    return node->quarantine;
}

/* This process has now seen the node under its number; any other node that it saw there before has lost it. */
static void know_member(struct trust *trust, unsigned index)
{
    struct trust_node *node = &trust->node[index];
    if (!is_member(node))
        return;
    memcpy(node->known_id, node->marker.self, sizeof node->known_id);
    memcpy(node->known_run, node->run_id, sizeof node->known_run);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (i != index && strcmp(trust->node[i].known_id, node->known_id) == 0)
            trust->node[i].known_id[0] = '\0';
}

/* There are two reasons to write a doubt. First, enough clocks vouch that the node's clock stepped and not ours: all
 * clients should know while it is news. A doubt from before the step is replaced, or a client that has waited since
 * then would heal the node too early. Second, a marker is gone: without one nothing would show that the node is emptied
 * once more, and holders could not give their keys back there.
 *
 * Each doubt differs, even when its write is repeated (its run is the time of the write), so that a newer one never
 * looks like one whose quarantine a client has waited out. */
static void decide_doubt(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    bool is_doubted = trust_proof_of(node) == PROOF_DOUBTED && strcmp(node->marker.run, node->stepped_run) != 0;
    bool is_over = instant_since(node->stepped_at, now) > TRUST_FRESH_NS || !node->has_marker || is_doubted ||
                   node->quarantine == TRUST_FINE || node->writes_marker || node->wants_look;
    node->doubt_wanted = node->doubt_wanted && !is_over;
    bool is_shown = node->doubt_wanted && (unsigned)__builtin_popcount(node->vouched) + 1 >= quorum(trust);
    bool is_unmarked = trust_proof_of(node) == PROOF_NO_MARKER;
    node->doubts = node->state == TRUST_QUARANTINED && (is_shown || (is_unmarked && trust_is_confirmed(trust, index)));
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

static bool is_seen_since(const struct trust_node *node, struct instant since)
{
    return node->seen && instant_reached(node->seen_at, since);
}

static bool has_whole_memory(const struct trust_node *node)
{
    return trust_proof_of(node) == PROOF_GOOD && node->quarantine != TRUST_HAD_EVICTED && !node->is_replica &&
           !node->evicts && !node->has_bad_fences;
}

/* Those who are silent are waited for from the first look on. A process that was away for longer begins anew: what was
 * answered meanwhile is not read yet. */
static void follow_patience(const struct trust *trust, struct trust_node *node, struct instant now)
{
    if (instant_since(node->told_by, now) > trust->timeout_ns)
        node->told_by = instant_after(node->look_at = now, trust->timeout_ns);
}

/* A quorum of the others has said which tokens it knows, or nobody else will (trust.h). */
static bool are_tokens_told(const struct trust *trust, unsigned index, struct instant since)
{
    unsigned told = 0, silent = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *other = &trust->node[i];
        told += i != index && is_seen_since(other, since) && has_whole_memory(other);
        silent += i != index && !is_seen_since(other, since);
    }
    return told >= quorum(trust) || silent == 0;
}

/* The end of a quarantine is not enough: after a long pause this process knows nothing of what happened meanwhile, so
 * it inspects once more. Nor does a missing marker say when it was lost: others may have healed the node since, and it
 * may have been emptied again. So a node is healed only from a doubt that was written there and waited for. */
static void decide_healing(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    struct instant until = trust_node_until(trust, index);
    bool is_over = node->state == TRUST_QUARANTINED && trust_needs_healing(node) &&
                   trust_proof_of(node) != PROOF_NO_MARKER && instant_reached(now, until);
    if (is_over)
        follow_patience(trust, node, now);
    bool is_told = is_over && (instant_reached(now, node->told_by) || are_tokens_told(trust, index, until));
    node->writes_marker = is_told && is_seen_since(node, until);
    node->wants_look = is_over && !node->writes_marker;
}

static void judge_node(struct trust *trust, unsigned index, struct instant now, struct trust_step *step)
{
    struct trust_node *node = &trust->node[index];
    /* once its time is over, a quarantine goes on only until the marker says so */
    if (node->quarantine != TRUST_FINE && !trust_needs_healing(node) &&
        instant_reached(now, trust_node_until(trust, index)))
        node->quarantine = TRUST_FINE;
    enum trust_state state = TRUST_UNSEEN;
    enum trust_reason reason = verdict(trust, index, &state);
    if (state != node->state || reason != node->reason)
        step->changed |= set_of(index);
    node->state = state;
    node->reason = reason;
    decide_healing(trust, index, now);
    decide_doubt(trust, index, now);
    trust_look_at_others(trust, index, now, &step->look);
    trust->is_unconfirmed |= node->wants_look;
    if (!node->wants_look || !instant_reached(now, node->look_at))
        return;
    node->look_at = instant_after(now, TRUST_LOOK_PAUSE_NS);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (trust->node[i].ever_seen && !is_seen_since(&trust->node[i], trust_node_until(trust, index)))
            step->look |= set_of(i);
}

static void trust_judge(struct trust *trust, struct instant now, struct trust_step *step)
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
            step->write |= set_of(i);
    for (unsigned i = 0; i < trust->nodes; i++)
        know_member(trust, i);
}

void trust_init(struct trust *trust, unsigned nodes, int64_t timeout_ns, double drift_factor)
{
    invariant(nodes % 2 == 1 && nodes <= LEASE_NODES_MAX && timeout_ns >= 0);
    invariant(drift_factor > 0 && drift_factor < 1);
    *trust = (struct trust){.nodes = nodes, .timeout_ns = timeout_ns, .drift_factor = drift_factor};
    for (unsigned i = 0; i < nodes; i++)
        trust->node[i].reason = TRUST_NOT_INSPECTED;
}

/* --- what an inspection changes ------------------------------------------------------------------------------ */

static void quarantine_by_proof(const struct trust *trust, struct trust_node *node, const struct trust_node *before,
                                bool new_run, struct instant now)
{
    enum trust_proof proof = trust_proof_of(node);
    bool is_fresh =
        new_run || !before->ever_seen || proof != trust_proof_of(before) ||
        ((proof == PROOF_OTHER_RUN || proof == PROOF_DOUBTED) && strcmp(node->marker.run, before->marker.run) != 0);
    if (!is_fresh || proof == PROOF_BAD_MARKER)
        return;
    if (proof == PROOF_GOOD) {
        if (new_run || trust_is_about_proof(before->quarantine))
            node->quarantine = TRUST_FINE;
    } else if (proof == PROOF_DOUBTED && !new_run) {
        trust_quarantine_clock(trust, node, TRUST_DOUBTED, now); /* usually we wrote the doubt */
    } else if (proof != PROOF_NO_MARKER || node->known_id[0] != '\0') {
        trust_quarantine(trust, node, trust_reason_of(proof), now);
    }
}

/* Most inspections of a group at rest need no judging. */
static bool is_old_news(const struct trust *trust, const struct trust_node *node,
                        const struct trust_inspection *inspection)
{
    return trust->has_group && node->seen && node->quarantine == TRUST_FINE && node->evicts == inspection->evicts &&
           node->is_replica == inspection->is_replica && node->has_bad_fences == inspection->has_bad_fences &&
           strcmp(node->marker_text, inspection->marker_text) == 0 && strcmp(node->run_id, inspection->run_id) == 0;
}

static void own_doubt(const struct trust_node *node, char run[MARKER_RUN_DIGITS + 1])
{
    snprintf(run, MARKER_RUN_DIGITS + 1, DOUBT_RUN_PREFIX "%016llx", (unsigned long long)node->doubted_us);
}

/* Another client's new doubt counts as well: that client may be the only one that saw the server without its marker. */
static bool is_lost(const struct trust_node *node, const struct trust_node *before)
{
    char own[MARKER_RUN_DIGITS + 1];
    own_doubt(node, own);
    enum trust_proof proof = trust_proof_of(node), proof_before = trust_proof_of(before);
    if (proof_before == PROOF_NO_MARKER)
        return false;
    return proof == PROOF_NO_MARKER ||
           (proof == PROOF_DOUBTED && before->ever_seen && strcmp(node->marker.run, before->marker.run) != 0 &&
            strcmp(node->marker.run, own) != 0);
}

/* Its run is another one, and its memory is not lost (trust.h). */
static bool freed_backlog(const struct trust_node *before, const struct trust_inspection *inspection)
{
    return before->ever_seen && instant_since(before->seen_at, inspection->reading.asked) < TRUST_FRESH_NS &&
           !before->is_replica && strcmp(before->run_id, inspection->run_id) != 0 &&
           strcmp(before->plain_run_id, inspection->plain_run_id) == 0 &&
           strcmp(inspection->run_id, inspection->plain_run_id) == 0;
}

/* Returns whether the node's memory was, or may have been, lost since it was seen before. */
static bool remember(const struct trust *trust, struct trust_node *node, const struct trust_inspection *inspection,
                     struct instant now)
{
    struct trust_node before = *node;
    memcpy(node->marker_text, inspection->marker_text, sizeof node->marker_text);
    node->has_marker = marker_parse(&node->marker, node->marker_text, strlen(node->marker_text));
    node->bad_marker = node->marker_text[0] != '\0' && !node->has_marker;
    node->is_of_other_scheme = inspection->is_of_other_scheme;
    memcpy(node->run_id, inspection->run_id, sizeof node->run_id);
    memcpy(node->plain_run_id, inspection->plain_run_id, sizeof node->plain_run_id);
    node->evicts = inspection->evicts;
    node->is_replica = inspection->is_replica;
    node->highest_token = inspection->highest_token;
    node->has_bad_fences = inspection->has_bad_fences;
    node->seen = node->ever_seen = true;
    node->seen_at = inspection->reading.asked;
    node->is_unreadable = false;
    bool keeps = freed_backlog(&before, inspection);
    bool new_run = before.ever_seen && strcmp(before.run_id, node->run_id) != 0 && !keeps;
    bool lost = is_group(trust) && is_lost(node, &before);
    if (new_run) {
        node->clock.is_known = node->doubt_wanted = node->doubts = false;
        node->step = node->shown = node->owed = (struct trust_span){0};
    }
    quarantine_by_proof(trust, node, &before, new_run, now);
    if (keeps && before.quarantine == TRUST_FINE && node->quarantine == TRUST_NEW_RUN)
        node->quarantined_at = instant_after(before.seen_at, -quarantine_ns(trust));
    if (before.evicts && !node->evicts && !new_run)
        trust_quarantine(trust, node, TRUST_HAD_EVICTED, now);
    if (new_run || lost || !before.ever_seen)
        node->unmarked_since = now;
    return new_run || lost;
}

/* --- events -------------------------------------------------------------------------------------------------- */

struct trust_step trust_saw(struct trust *trust, unsigned node, const struct trust_inspection *inspection,
                            struct instant now)
{
    invariant(node < trust->nodes);
    if (!marker_is_hex(inspection->run_id, MARKER_RUN_DIGITS))
        return trust_unreadable(trust, node, now);
    struct trust_step step = {.forgot = 0};
    const struct trust_reading *reading = &inspection->reading;
    if (is_old_news(trust, &trust->node[node], inspection)) {
        trust->node[node].seen_at = inspection->reading.asked;
        trust->node[node].highest_token = inspection->highest_token;
        if (trust_take_reading(trust, node, reading, now, &step) || trust->is_unconfirmed)
            trust_judge(trust, now, &step);
        return step;
    }
    trust->has_new_marker = true;
    if (remember(trust, &trust->node[node], inspection, now))
        step.forgot |= set_of(node);
    trust_take_reading(trust, node, reading, now, &step);
    trust_judge(trust, now, &step);
    return step;
}

struct trust_step trust_tick(struct trust *trust, struct instant now)
{
    struct trust_step step = {.forgot = 0};
    trust_judge(trust, now, &step);
    return step;
}

static struct trust_step lose_sight(struct trust *trust, unsigned node, bool is_unreadable, struct instant now)
{
    invariant(node < trust->nodes);
    trust->node[node].seen = false;
    trust->node[node].is_unreadable = is_unreadable;
    return trust_tick(trust, now);
}

struct trust_step trust_unreadable(struct trust *trust, unsigned node, struct instant now)
{
    return lose_sight(trust, node, true, now);
}

struct trust_step trust_unseen(struct trust *trust, unsigned node, struct instant now)
{
    return lose_sight(trust, node, false, now);
}

struct trust_step trust_sampled(struct trust *trust, unsigned node, struct instant asked, struct instant answered,
                                int64_t node_us, struct instant now)
{
    invariant(node < trust->nodes);
    struct trust_step step = {.forgot = 0};
    if (trust_take_reading(trust, node, &(struct trust_reading){asked, answered, node_us}, now, &step))
        trust_judge(trust, now, &step);
    return step;
}

/* --- questions ----------------------------------------------------------------------------------------------- */

struct instant trust_next(const struct trust *trust)
{
    struct instant next = INSTANT_NEVER;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *node = &trust->node[i];
        if (node->writes_marker || node->doubts || node->records)
            next = instant_earlier(next, node->write_at);
        if (node->wants_look)
            next = instant_earlier(next, is_seen_since(node, trust_node_until(trust, i))
                                             ? instant_earlier(node->look_at, node->told_by)
                                             : node->look_at);
        else if (node->state == TRUST_QUARANTINED && !node->writes_marker && trust_proof_of(node) != PROOF_NO_MARKER)
            next = instant_earlier(next, trust_node_until(trust, i));
    }
    return next;
}

node_set trust_voters(const struct trust *trust)
{
    node_set voters = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        if (trust->node[i].state == TRUST_VOTES)
            voters |= set_of(i);
    return voters;
}

node_set trust_members(const struct trust *trust)
{
    node_set members = trust_voters(trust);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (is_member(&trust->node[i]))
            members |= set_of(i);
    return members;
}

node_set trust_replanters(const struct trust *trust)
{
    node_set members = trust_members(trust);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (fences_fault(&trust->node[i]) != TRUST_FINE)
            members &= (node_set)~set_of(i);
    return members;
}

int64_t trust_max_ttl_ns(const struct trust *trust)
{
    return trust->has_group ? trust->group.max_ttl_ms * NS_PER_MS : 0;
}

const char *trust_marker_expected(const struct trust *trust, unsigned node)
{
    return trust->node[node].marker_text[0] != '\0' ? trust->node[node].marker_text : MARKER_NONE;
}

int64_t trust_highest_token(const struct trust *trust, unsigned but)
{
    int64_t highest = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        if (i != but && trust->node[i].highest_token > highest)
            highest = trust->node[i].highest_token;
    return highest;
}

int64_t trust_marker_to_write(const struct trust *trust, unsigned node, char text[MARKER_TEXT_MAX])
{
    const struct trust_node *about = &trust->node[node];
    struct marker marker = trust->group;
    if (about->records) {
        bool is_wanted = trust_membership_wanted(trust, node, &marker);
        invariant(is_wanted);
        marker_write(&marker, text);
        return TRUST_KEEPS_FENCES;
    }
    invariant(about->writes_marker || about->doubts);
    memcpy(marker.self, about->has_marker ? about->marker.self : about->known_id, sizeof marker.self);
    if (about->doubts)
        own_doubt(about, marker.run);
    else
        memcpy(marker.run, about->run_id, sizeof marker.run);
    marker_write(&marker, text);
    return about->doubts ? TRUST_KEEPS_FENCES : trust_highest_token(trust, node);
}

int64_t trust_node_time_us(const struct trust *trust, unsigned node, struct instant at)
{
    const struct trust_clock *clock = &trust->node[node].clock;
    return clock->is_known ? (at.ns + trust_offset(trust, clock, at).most) / NS_PER_US : 0;
}

int64_t trust_node_time_low_us(const struct trust *trust, unsigned node, struct instant at)
{
    const struct trust_clock *clock = &trust->node[node].clock;
    return clock->is_known ? (at.ns + trust_offset(trust, clock, at).least) / NS_PER_US : 0;
}

int64_t trust_median_us(const struct trust *trust, struct instant at)
{
    int64_t offsets[LEASE_NODES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_span offset = trust_offset(trust, &trust->node[i].clock, at);
        if (trust->node[i].clock.is_known)
            offsets[count++] = offset.least / 2 + offset.most / 2;
    }
    return count > 0 ? (at.ns + trust_median_low(offsets, count)) / NS_PER_US : 0;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static const char *const state_names[] = {
    [TRUST_UNSEEN] = "unseen",
    [TRUST_VOTES] = "votes",
    [TRUST_QUARANTINED] = "quarantined",
    [TRUST_EXCLUDED] = "excluded",
};

static const struct {
    const char *name, *advice;
} reasons[] = {
    [TRUST_FINE] = {"fine", "Nothing to do."},
    [TRUST_NOT_INSPECTED] = {"not_inspected",
                             "It is not connected, or not inspected yet. If that lasts, check whether the "
                             "server runs and can be reached."},
    [TRUST_UNREADABLE] = {"unreadable", "The server refuses INFO or the inspecting script: give the user of lock.nodes "
                                        "the right to run INFO, TIME, GET, SET, DEL and EVALSHA. A member of a Redis "
                                        "Cluster can be no lock node."},
    [TRUST_NO_GROUP] =
        {"no_group",
         "The lock nodes are no lock group yet: run `holdfast nodes init` once, with all of them up. If they "
         "were one before, let all locks end first: docs/lock-nodes.md."},
    [TRUST_NO_MARKER] = {"no_marker", "The server lost its marker, or never had one: run `holdfast nodes heal --wait` "
                                      "when it is the right server."},
    [TRUST_UNRECORDED] =
        {"unrecorded", "Another server has this address, and it is empty. A majority of the other lock nodes must "
                       "record that before it is a member again. The workers do that: bring back the nodes that do not "
                       "vote (of three nodes both others are needed)."},
    [TRUST_BAD_MARKER] =
        {"bad_marker", "What is under the key hf:lock:group is no marker. If another program wrote it, give the lock "
                       "node a server of its own: docs/lock-nodes.md."},
    [TRUST_OTHER_SCHEME] = {"other_scheme",
                            "Another version of Holdfast locks on this node, with another scheme. If that is the newer "
                            "one, update this program first; else see docs/operations.md, Upgrades."},
    [TRUST_OTHER_GROUP] = {"other_group", "The server belongs to another lock group: correct the list of lock nodes."},
    [TRUST_OTHER_GENERATION] = {"other_generation",
                                "A lock node is being replaced, and the change has not reached this node or the others "
                                "yet. If that lasts for more than a "
                                "few seconds, run `holdfast nodes replace` again, or `holdfast nodes heal --wait`."},
    [TRUST_NOT_A_MEMBER] = {"not_a_member", "The server was replaced by another one: correct the list of lock nodes."},
    [TRUST_NODE_COUNT] = {"node_count", "The lock group has another number of nodes than are configured: every client "
                                        "must be given all nodes of the group."},
    [TRUST_DUPLICATE] = {"duplicate",
                         "Another configured lock node is the same server, or claims to be the same member: "
                         "correct the list of lock nodes; a copied server has to be emptied."},
    [TRUST_REPLICA] = {"replica",
                       "The server is a replica of another one, which a lock node must not be: make it a master "
                       "(REPLICAOF NO ONE), or correct the list of lock nodes."},
    [TRUST_EVICTS] = {"evicts", "The server may evict locks: set maxmemory-policy to noeviction."},
    [TRUST_FENCES_BAD] = {"bad_fences",
                          "Under hf:fences or hf:fences:floor is something else: find out what wrote it and delete it. "
                          "If it was hf:fences, or the floor, set hf:fences:floor to the time in microseconds (`date "
                          "+%s%6N`), so that new tokens are above all that were given out."},
    [TRUST_NEW_RUN] = {"new_run", "The server was restarted, or was a replica for a while: it votes again by itself "
                                  "when everything that it may have "
                                  "forgotten has expired."},
    [TRUST_LOST_MARKER] = {"lost_marker", "The server was emptied: it votes again by itself when everything that it "
                                          "forgot has expired."},
    [TRUST_DOUBTED] = {"doubted",
                       "Its marker says that it is not trusted: it votes again by itself after one quarantine."},
    [TRUST_CLOCK_STEPPED] = {"clock_stepped",
                             "The server's clock jumped, or runs at another rate than lock.drift_factor "
                             "allows: let it be slewed, by at most half of that. It votes again by "
                             "itself after one quarantine."},
    [TRUST_CLOCK_OUTLIER] = {"clock_outlier",
                             "The server's clock differs by more than a second from those of the other "
                             "lock nodes: check its time synchronisation."},
    [TRUST_CLOCK_UNCOMPARED] = {"clock_uncompared",
                                "Too few lock nodes can be reached whose clocks agree with the server's: it votes "
                                "when a majority of them do, or after one quarantine. Bring the others back, or check "
                                "their time synchronisation."},
    [TRUST_HAD_EVICTED] = {"had_evicted", "The server evicted keys a moment ago: it votes again by itself after "
                                          "one quarantine."},
};

const char *trust_state_name(enum trust_state state)
{
    return state_names[state];
}

const char *trust_reason_name(enum trust_reason reason)
{
    return reasons[reason].name;
}

/* A marker, even one that was seen earlier, shows that there is a group, which a second `init` would split. */
static const char *advice_without_group(const struct trust *trust, unsigned index)
{
    unsigned known = 0, marked = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        known += trust->node[i].seen;
        marked += trust->node[i].has_marker;
    }
    if (marked == 0 && known >= quorum(trust))
        return reasons[TRUST_NO_GROUP].advice;
    if (marked == 0)
        return "Nobody knows whether the lock nodes are a lock group while a majority of them cannot be reached: bring "
               "those back, and look again.";
    if (trust->node[index].has_marker)
        return "Its marker names a lock group, but a majority of the nodes cannot confirm that: they are not reached, "
               "or "
               "were emptied. Bring those back; if they were emptied: docs/lock-nodes.md.";
    return "It has no marker, but other lock nodes name a group, and a majority cannot confirm that: they are not "
           "reached, or were emptied. Bring those back first; if they were emptied: docs/lock-nodes.md.";
}

const char *trust_advice(const struct trust *trust, unsigned index)
{
    enum trust_reason reason = trust->node[index].reason;
    return reason == TRUST_NO_GROUP ? advice_without_group(trust, index) : reasons[reason].advice;
}
