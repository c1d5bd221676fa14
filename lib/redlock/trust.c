/* What an inspection changes in the facts about its node, and the events and questions of trust.h. Whose clock stepped
 * is found out in trust_blame.c. The verdicts are made anew from the facts of all nodes after every event
 * (trust_verdict.c) and nothing else changes them, so there is no order of events in which one could be left behind.
 *
 * When a quarantine is over early. A marker that somebody healed (its run is that of the server again) says that he
 * waited through a quarantine of his own, so what the node forgot when it restarted or was emptied has expired. It says
 * nothing about a step of its clock or an eviction, which leave the marker as it is: he may not have seen it when he
 * wrote. That holds for a doubted marker as well: nobody gets a grant there, but holders put their keys back, and those
 * may be lost to a second step. */
#include "redlock/trust_private.h"

#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

void trust_init(struct trust *trust, unsigned nodes, int64_t timeout_ns, double drift_factor)
{
    invariant(nodes % 2 == 1 && nodes <= LEASE_NODES_MAX && timeout_ns >= 0);
    invariant(drift_factor > 0 && drift_factor < 1);
    *trust = (struct trust){.nodes = nodes, .timeout_ns = timeout_ns, .drift_factor = drift_factor};
    for (unsigned i = 0; i < nodes; i++)
        trust->node[i].reason = TRUST_NOT_INSPECTED;
}

/* --- what an inspection changes ------------------------------------------------------------------------------ */

static void take_marker(struct trust_node *node, const struct trust_sight *sight)
{
    size_t length = sight->has_marker ? strnlen(sight->marker_text, MARKER_TEXT_MAX - 1) : 0;
    memcpy(node->marker_text, sight->marker_text, length);
    node->marker_text[length] = '\0';
    node->has_marker = length > 0 && marker_parse(&node->marker, node->marker_text, length, NULL);
    node->bad_marker = sight->has_marker && !node->has_marker;
}

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
        trust_quarantine_clock(trust, node, TRUST_DOUBTED, now); /* by us, most often */
    } else if (proof != PROOF_NO_MARKER || node->known_id[0] != '\0') {
        trust_quarantine(trust, node, trust_reason_of(proof), now);
    }
}

/* Most inspections of a group at rest, which need no judging. */
static bool is_old_news(const struct trust *trust, const struct trust_node *node, const struct trust_sight *sight)
{
    const char *marker = sight->has_marker ? sight->marker_text : "";
    return trust->has_group && node->seen && node->quarantine == TRUST_FINE && node->evicts == sight->evicts &&
           strcmp(node->marker_text, marker) == 0 && strcmp(node->run_id, sight->run_id) == 0;
}

static void own_doubt(const struct trust_node *node, char run[MARKER_RUN_DIGITS + 1])
{
    snprintf(run, MARKER_RUN_DIGITS + 1, DOUBT_RUN_PREFIX "%016llx", (unsigned long long)node->doubted_us);
}

/* A new doubt of somebody else says so as well: he may be the only one who saw the server without its marker. */
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

/* Returns whether the node's memory was, or may have been, lost since it was seen before. */
static bool remember(const struct trust *trust, struct trust_node *node, const struct trust_sight *sight,
                     struct instant now)
{
    struct trust_node before = *node;
    take_marker(node, sight);
    memcpy(node->run_id, sight->run_id, sizeof node->run_id);
    node->evicts = sight->evicts;
    node->seen = node->ever_seen = true;
    node->seen_at = sight->asked;
    node->is_unreadable = false;
    bool new_run = before.ever_seen && strcmp(before.run_id, node->run_id) != 0;
    bool lost = is_group(trust) && is_lost(node, &before);
    if (new_run) {
        node->clock.is_known = node->doubt_wanted = node->doubts = false;
        node->step = node->shown = node->owed = (struct trust_span){0};
    }
    quarantine_by_proof(trust, node, &before, new_run, now);
    if (before.evicts && !node->evicts && !new_run)
        trust_quarantine(trust, node, TRUST_HAD_EVICTED, now);
    if (new_run || lost || !before.ever_seen)
        node->bare_since = now;
    if (new_run || lost)
        node->incarnation++;
    return new_run || lost;
}

/* --- events -------------------------------------------------------------------------------------------------- */

struct trust_step trust_saw(struct trust *trust, unsigned node, const struct trust_sight *sight, struct instant now)
{
    invariant(node < trust->nodes);
    if (!marker_is_hex(sight->run_id, MARKER_RUN_DIGITS))
        return trust_unreadable(trust, node, now);
    struct trust_step step = {.forgot = 0};
    struct trust_reading reading = {sight->asked, sight->answered, sight->node_us};
    if (is_old_news(trust, &trust->node[node], sight)) {
        trust->node[node].seen_at = sight->asked;
        if (trust_take_reading(trust, node, &reading, now, &step) || trust->is_unconfirmed)
            trust_judge(trust, now, &step);
        return step;
    }
    trust->has_new_marker = true;
    if (remember(trust, &trust->node[node], sight, now))
        step.forgot |= bit(node);
    trust_take_reading(trust, node, &reading, now, &step);
    trust_judge(trust, now, &step);
    return step;
}

struct trust_step trust_unreadable(struct trust *trust, unsigned node, struct instant now)
{
    invariant(node < trust->nodes);
    struct trust_step step = {.forgot = 0};
    trust->node[node].seen = false;
    trust->node[node].is_unreadable = true;
    trust_judge(trust, now, &step);
    return step;
}

struct trust_step trust_unseen(struct trust *trust, unsigned node, struct instant now)
{
    invariant(node < trust->nodes);
    struct trust_step step = {.forgot = 0};
    trust->node[node].seen = false;
    trust->node[node].is_unreadable = false;
    trust_judge(trust, now, &step);
    return step;
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

struct trust_step trust_tick(struct trust *trust, struct instant now)
{
    struct trust_step step = {.forgot = 0};
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
            next = instant_earlier(next, node->look_at);
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
            voters |= bit(i);
    return voters;
}

node_set trust_members(const struct trust *trust)
{
    node_set members = trust_voters(trust);
    for (unsigned i = 0; i < trust->nodes; i++)
        if (trust->node[i].state == TRUST_QUARANTINED && trust->node[i].has_marker)
            members |= bit(i);
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

void trust_marker_to_write(const struct trust *trust, unsigned node, char text[MARKER_TEXT_MAX])
{
    const struct trust_node *about = &trust->node[node];
    struct marker marker = trust->group;
    if (about->records) {
        bool is_wanted = trust_membership_wanted(trust, node, &marker);
        invariant(is_wanted);
        marker_write(&marker, text);
        return;
    }
    invariant(about->writes_marker || about->doubts);
    memcpy(marker.self, about->has_marker ? about->marker.self : about->known_id, sizeof marker.self);
    if (about->doubts)
        own_doubt(about, marker.run);
    else
        memcpy(marker.run, about->run_id, sizeof marker.run);
    marker_write(&marker, text);
}

int64_t trust_node_time_us(const struct trust *trust, unsigned node, struct instant at)
{
    const struct trust_clock *clock = &trust->node[node].clock;
    struct trust_promise promise = trust_promise_of(trust);
    return clock->is_known ? (at.ns + trust_clock_high(clock, &promise, at)) / NS_PER_US : 0;
}

int64_t trust_node_time_low_us(const struct trust *trust, unsigned node, struct instant at)
{
    const struct trust_clock *clock = &trust->node[node].clock;
    struct trust_promise promise = trust_promise_of(trust);
    return clock->is_known ? (at.ns + trust_clock_low(clock, &promise, at)) / NS_PER_US : 0;
}

int64_t trust_median_us(const struct trust *trust, struct instant at)
{
    struct trust_promise promise = trust_promise_of(trust);
    int64_t offsets[LEASE_NODES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_clock *clock = &trust->node[i].clock;
        if (clock->is_known)
            offsets[count++] = trust_clock_low(clock, &promise, at) / 2 + trust_clock_high(clock, &promise, at) / 2;
    }
    return count > 0 ? (at.ns + trust_median_low(offsets, count)) / NS_PER_US : 0;
}
