/* Which server has which number, and what is written into the markers of members so that all agree on it; trust.h says
 * why. A membership changes by one number at a time. Every member applies every change that this process knows to the
 * membership that it has, so the order in which changes reach it does not matter. */
#include "redlock/trust_private.h"

#include <string.h>

/* --- what is known ------------------------------------------------------------------------------------------- */

/* Deterministic, so that all clients that see the server write the same id. */
static void id_of_server(const struct trust_node *node, char id[MARKER_ID_DIGITS + 1])
{
    memcpy(id, node->run_id, MARKER_ID_DIGITS);
    id[MARKER_ID_DIGITS] = '\0';
}

bool trust_names_member(const struct trust *trust, unsigned index, const char *id)
{
    const struct trust_node *node = &trust->node[index];
    return node->has_marker && strcmp(node->marker.self, id) == 0 &&
           strcmp(node->marker.group, trust->group.group) == 0;
}

bool trust_is_named_elsewhere(const struct trust *trust, unsigned index, const char *id)
{
    for (unsigned i = 0; i < trust->nodes; i++)
        if (i != index && trust_names_member(trust, i, id))
            return true;
    return false;
}

/* Then nobody can record or confirm anything, so the markers are written as they were. More than a minority failed:
 * nothing is promised for an address that leads to two servers at that moment. */
static bool has_majority_lost_markers(const struct trust *trust)
{
    unsigned unmarked = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        unmarked += trust->node[i].seen && trust_proof_of(&trust->node[i]) == PROOF_NO_MARKER;
    return unmarked >= quorum(trust);
}

bool trust_is_recorded(const struct trust *trust, unsigned index)
{
    const struct trust_node *node = &trust->node[index];
    char id[MARKER_ID_DIGITS + 1];
    id_of_server(node, id);
    return strcmp(node->known_id, id) == 0 || strcmp(node->known_run, node->run_id) == 0 ||
           has_majority_lost_markers(trust);
}

/* A marker of another run may be an old one (a loaded dump), and that of a replica is its master's. A doubt was written
 * by a client that knew better. */
static bool is_credible(const struct trust_node *node)
{
    enum trust_proof proof = trust_proof_of(node);
    return !node->is_replica && (proof == PROOF_GOOD || proof == PROOF_DOUBTED);
}

void trust_know_recorded(struct trust *trust, unsigned index, struct instant now)
{
    struct trust_node *node = &trust->node[index];
    char id[MARKER_ID_DIGITS + 1];
    if (!trust->has_group || !node->ever_seen || trust_proof_of(node) != PROOF_NO_MARKER)
        return;
    id_of_server(node, id);
    if (marker_number_of(&trust->group, id) < 0 || trust_is_named_elsewhere(trust, index, id))
        return;
    memcpy(node->known_id, id, sizeof node->known_id);
    if (node->quarantine == TRUST_FINE)
        trust_quarantine(trust, node, TRUST_LOST_MARKER, now);
}

/* Whether the other was inspected since the node was seen without a marker. It may have been emptied as well, or know
 * of a change. */
static bool is_seen_since(const struct trust *trust, unsigned index, unsigned other)
{
    return other != index && trust->node[other].seen &&
           instant_reached(trust->node[other].seen_at, trust->node[index].unmarked_since);
}

void trust_look_at_others(struct trust *trust, unsigned index, struct instant now, node_set *look)
{
    const struct trust_node *node = &trust->node[index];
    if (!node->seen || trust_proof_of(node) != PROOF_NO_MARKER || !trust_needs_healing(node))
        return;
    for (unsigned i = 0; i < trust->nodes; i++) {
        struct trust_node *other = &trust->node[i];
        if (i == index || !other->seen || is_seen_since(trust, index, i))
            continue;
        trust->is_unconfirmed = true;
        if (instant_reached(now, other->look_at)) {
            other->look_at = instant_after(now, TRUST_LOOK_PAUSE_NS);
            *look |= set_of(i);
        }
    }
}

bool trust_is_confirmed(const struct trust *trust, unsigned index)
{
    unsigned confirmed = 0;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct trust_node *other = &trust->node[i];
        confirmed += is_seen_since(trust, index, i) && is_credible(other) &&
                     marker_same_membership(&other->marker, &trust->group);
    }
    return confirmed >= quorum(trust) || has_majority_lost_markers(trust);
}

/* --- a torn membership -------------------------------------------------------------------------------------------- */

/* A membership is torn if the client that recorded a change of it was killed half-way, or could not write everywhere,
 * so that no membership has a quorum any more. Clients that adopted the earlier one go on by themselves; this is for
 * all others, which need not remember anything.
 *
 * Suppose a quorum of members answers, and each lists all others of them: as far as any of them knows, none of them
 * was replaced. A record of a replacement needs a quorum of the other members, and that shares with the quorum that
 * answers a member whose own number stayed. So none of them was replaced at all, and one of them knows every membership
 * that was ever adopted: none is newer than the newest one here, and that one follows all those that it replaces. So
 * the members that are behind take it, as any client would have written it that knew what they know. Of two ids that
 * were recorded for one number at once, the smaller wins when the other cannot, as always.
 *
 * That needs members that forgot nothing. A member that restarted with its marker may have lost the newest ones. It
 * counts only when all nodes are in sight and too few of them kept running with their markers: then no other members
 * exist, as where a majority has no markers. Its own quarantine stays. An operator's change is none of these: it counts
 * two generations up, or leaves a vacancy, and only the operator finishes it. */

static bool are_all_in_sight(const struct trust *trust)
{
    for (unsigned i = 0; i < trust->nodes; i++)
        if (!trust->node[i].seen)
            return false;
    return true;
}

static bool sees_vacancy(const struct trust *trust, const char *group)
{
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *marker = &trust->node[i].marker;
        for (unsigned number = 0; trust->node[i].has_marker && number < marker->member_count; number++)
            if (marker->members[number][0] == '\0' && strcmp(marker->group, group) == 0)
                return true;
    }
    return false;
}

/* The members whose markers list all members. */
static node_set members_listing_all(const struct trust *trust, node_set members, const struct marker *newest)
{
    node_set listing = members;
    for (unsigned i = 0; i < trust->nodes; i++)
        for (unsigned j = 0; j < trust->nodes; j++) {
            const char *other = trust->node[j].marker.self;
            if ((members & set_of(i)) != 0 && (members & set_of(j)) != 0 &&
                marker_number_of(&trust->node[i].marker, other) != marker_number_of(newest, other))
                listing &= (node_set)~set_of(i);
        }
    return listing;
}

/* The only number in which two memberships of one generation differ, when the smaller id is in `newest`; else -1. */
static int contested_number(const struct marker *newest, const struct marker *other)
{
    int contested = -1;
    if (strcmp(newest->group, other->group) != 0 || newest->generation != other->generation ||
        newest->member_count != other->member_count || newest->max_ttl_ms != other->max_ttl_ms)
        return -1;
    for (unsigned number = 0; number < newest->member_count; number++) {
        int order = strcmp(newest->members[number], other->members[number]);
        if (order > 0 || (order < 0 && contested >= 0))
            return -1;
        contested = order < 0 ? (int)number : contested;
    }
    return contested;
}

/* So many have the smaller id that no quorum can take the other one. */
static bool has_lost(const struct trust *trust, const struct marker *newest, const struct marker *other,
                     node_set members)
{
    unsigned takers = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        takers += (members & set_of(i)) != 0 && marker_same_membership(&trust->node[i].marker, newest);
    return contested_number(newest, other) >= 0 && trust->nodes - 1 - takers < quorum(trust);
}

/* The members that answer and list each other, if they are a quorum and all of them may take this membership, the
 * newest; else none. */
static node_set consistent_members(const struct trust *trust, const struct marker *newest, bool counts_restarted)
{
    node_set members = 0;
    unsigned numbers = 0; /* bit = number */
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *marker = &trust->node[i].marker;
        bool counts =
            is_credible(&trust->node[i]) || (counts_restarted && trust_proof_of(&trust->node[i]) == PROOF_OTHER_RUN);
        if (!trust->node[i].seen || !counts || strcmp(marker->group, newest->group) != 0)
            continue;
        int number = marker_number_of(newest, marker->self);
        if (number < 0 && marker->generation < newest->generation)
            continue; /* it was replaced */
        if (number < 0 || (numbers & 1u << number) != 0 ||
            (!marker_follows(newest, marker) && contested_number(newest, marker) < 0))
            return 0;
        members |= set_of(i);
        numbers |= 1u << number;
    }
    members = members_listing_all(trust, members, newest);
    if ((unsigned)__builtin_popcount(members) >= quorum(trust))
        return members;
    return counts_restarted || !are_all_in_sight(trust) ? 0 : consistent_members(trust, newest, true);
}

static bool finish_record(const struct trust *trust, unsigned index, struct marker *wanted)
{
    const struct marker *present = &trust->node[index].marker;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *newest = &trust->node[i].marker;
        if (!trust->node[i].has_marker || newest->member_count != trust->nodes ||
            newest->generation < present->generation || newest->generation <= trust->group.generation ||
            strcmp(newest->group, present->group) != 0 || marker_same_membership(newest, present) ||
            sees_vacancy(trust, newest->group))
            continue;
        node_set members = consistent_members(trust, newest, false);
        if ((members & set_of(i)) == 0 || (members & set_of(index)) == 0 ||
            (newest->generation == present->generation && !has_lost(trust, newest, present, members)))
            continue;
        *wanted = *newest;
        memcpy(wanted->self, present->self, sizeof wanted->self);
        memcpy(wanted->run, present->run, sizeof wanted->run);
        return true;
    }
    return false;
}

/* --- changes of the group's membership ------------------------------------------------------------------------ */

/* If a number has changed twice since, this process cannot tell which change came first, and leaves it to others. */
static bool is_informed(const struct trust *trust, const struct trust_node *node)
{
    return is_credible(node) && marker_follows(&node->marker, &trust->group);
}

/* The new id of the number in the markers, of two the smaller; "" if an operator makes it vacant, NULL if no marker
 * changes it. */
static const char *changed_id(const struct trust *trust, unsigned number)
{
    const char *least = NULL;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const char *id = trust->node[i].marker.members[number];
        if (is_informed(trust, &trust->node[i]) && strcmp(id, trust->group.members[number]) != 0 &&
            (least == NULL || strcmp(id, least) < 0))
            least = id;
    }
    return least;
}

/* An operator is replacing a node. */
static bool has_vacancy(const struct trust *trust)
{
    for (unsigned number = 0; number < trust->group.member_count; number++) {
        const char *changed = changed_id(trust, number);
        if (trust->group.members[number][0] == '\0' || (changed != NULL && changed[0] == '\0'))
            return true;
    }
    return false;
}

/* A change that a quorum cannot take now would cost the votes of those that do. */
static bool has_informed_quorum(const struct trust *trust, unsigned index)
{
    unsigned informed = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        informed += is_seen_since(trust, index, i) && is_informed(trust, &trust->node[i]) &&
                    strcmp(trust->node[i].marker.self, trust->node[index].known_id) != 0;
    return informed >= quorum(trust);
}

/* As changed_id, or what this process sees itself: an empty server at the address of the number. */
static bool next_id(const struct trust *trust, unsigned number, char id[MARKER_ID_DIGITS + 1])
{
    const char *changed = changed_id(trust, number), *present = trust->group.members[number];
    if (changed != NULL) {
        memcpy(id, changed, MARKER_ID_DIGITS + 1);
        return true;
    }
    for (unsigned i = 0; i < trust->nodes; i++)
        if (trust->node[i].reason == TRUST_UNRECORDED && strcmp(trust->node[i].known_id, present) == 0 &&
            !has_vacancy(trust) && has_informed_quorum(trust, i)) {
            id_of_server(&trust->node[i], id);
            return true;
        }
    return false;
}

/* So many members have taken another id for the number that no quorum of the others can take this one: nobody ever
 * adopted it, nor will. */
static bool cannot_win(const struct trust *trust, unsigned number, const char *id)
{
    unsigned others = 0; /* bit = number */
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *marker = &trust->node[i].marker;
        if (is_informed(trust, &trust->node[i]) && strcmp(marker->members[number], id) != 0 &&
            strcmp(marker->members[number], trust->group.members[number]) != 0)
            others |= 1u << marker_number_of(marker, marker->self);
    }
    return trust->nodes - 1 - (unsigned)__builtin_popcount(others) < quorum(trust);
}

/* Not on the server that the change replaces. */
static bool take_change(const struct trust *trust, struct marker *marker, unsigned number)
{
    char id[MARKER_ID_DIGITS + 1], *present = marker->members[number];
    if (strcmp(marker->self, present) == 0 || !next_id(trust, number, id) || marker_number_of(marker, id) >= 0)
        return false;
    bool is_first = strcmp(present, trust->group.members[number]) == 0;
    if (!is_first && (strcmp(id, present) > 0 || !cannot_win(trust, number, present)))
        return false;
    marker->generation += is_first;
    memcpy(present, id, sizeof id);
    return true;
}

/* The member knows an older generation, or the loser of two changes of one number. Its own run stays, so that an
 * untrusted server goes through its quarantine. */
static bool take_group(const struct trust *trust, struct marker *marker)
{
    struct marker group = trust->group;
    if (marker_number_of(&group, marker->self) < 0 || marker->max_ttl_ms != group.max_ttl_ms ||
        marker->member_count != group.member_count)
        return false;
    memcpy(group.self, marker->self, sizeof group.self);
    memcpy(group.run, marker->run, sizeof group.run);
    *marker = group;
    return true;
}

static bool group_wants(const struct trust *trust, unsigned index, struct marker *wanted)
{
    const struct trust_node *node = &trust->node[index];
    bool changed = false;
    *wanted = node->marker;
    if (wanted->generation <= trust->group.generation && !marker_same_membership(wanted, &trust->group))
        return take_group(trust, wanted);
    for (unsigned number = 0; number < trust->group.member_count && is_informed(trust, node); number++)
        changed |= take_change(trust, wanted, number);
    return changed;
}

bool trust_membership_wanted(const struct trust *trust, unsigned index, struct marker *wanted)
{
    const struct trust_node *node = &trust->node[index];
    if (!node->seen || !node->has_marker || (trust->has_group && strcmp(node->marker.group, trust->group.group) != 0))
        return false;
    return (trust->has_group && group_wants(trust, index, wanted)) || finish_record(trust, index, wanted);
}
