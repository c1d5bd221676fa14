/* A membership that is torn: whoever recorded a change of it was killed half-way, or could not write everywhere, and no
 * membership has a quorum any more. Clients that adopted the one before go on by themselves (trust_places.c). This is
 * for all others: nobody needs to remember anything.
 *
 * A quorum of members is heard, and each of them lists all others of them: none of them was replaced as far as any of
 * them knows. The record of a replacement needs a quorum of the members beside it, and that meets the members that are
 * heard in one whose own place stayed. So none of them was replaced at all, and every membership that was ever adopted
 * is known to one of them: none is newer than the newest one here, and that one follows all of those that it replaces.
 * So the members that are behind take it, as any client would have written it that knew what they know. Where two ids
 * were recorded for one place at once, the smaller one wins when the other cannot, as always.
 *
 * That needs members that forgot nothing. One that restarted with its marker may have lost the newest ones. It counts
 * only when all nodes are in sight and too few of them did not restart, nor were emptied or replaced: nobody else is
 * left then, as where a majority has no markers. Its own quarantine stays. An operator's change is none of these: it
 * counts two generations up, or leaves a vacancy, and is his to finish. */
#include "redlock/trust_private.h"

static bool are_all_in_sight(const struct trust *trust)
{
    for (unsigned i = 0; i < trust->nodes; i++)
        if (!trust->node[i].seen)
            return false;
    return true;
}

static bool is_heard(const struct trust_node *node, bool counts_restarted)
{
    return node->seen && (trust_may_testify(node) || (counts_restarted && trust_proof_of(node) == PROOF_OTHER_RUN));
}

static bool sees_vacancy(const struct trust *trust, const char *group)
{
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *marker = &trust->node[i].marker;
        for (unsigned place = 0; trust->node[i].has_marker && place < marker->place_count; place++)
            if (marker->places[place][0] == '\0' && strcmp(marker->group, group) == 0)
                return true;
    }
    return false;
}

/* Those of the members that list all of them. */
static node_set who_list_all(const struct trust *trust, node_set members, const struct marker *newest)
{
    node_set listing = members;
    for (unsigned i = 0; i < trust->nodes; i++)
        for (unsigned j = 0; j < trust->nodes; j++) {
            const char *other = trust->node[j].marker.self;
            if ((members & bit(i)) != 0 && (members & bit(j)) != 0 &&
                marker_place_of(&trust->node[i].marker, other) != marker_place_of(newest, other))
                listing &= (node_set)~bit(i);
        }
    return listing;
}

/* The only place in which two memberships of one generation differ, when the smaller id is in `newest`; else -1. */
static int contested_place(const struct marker *newest, const struct marker *other)
{
    int contested = -1;
    if (strcmp(newest->group, other->group) != 0 || newest->generation != other->generation ||
        newest->place_count != other->place_count || newest->max_ttl_ms != other->max_ttl_ms)
        return -1;
    for (unsigned place = 0; place < newest->place_count; place++) {
        int order = strcmp(newest->places[place], other->places[place]);
        if (order > 0 || (order < 0 && contested >= 0))
            return -1;
        contested = order < 0 ? (int)place : contested;
    }
    return contested;
}

/* So many have the smaller id that no quorum can take the other one, as in trust_places.c. */
static bool has_lost(const struct trust *trust, const struct marker *newest, const struct marker *other,
                     node_set members)
{
    unsigned takers = 0;
    for (unsigned i = 0; i < trust->nodes; i++)
        takers += (members & bit(i)) != 0 && marker_same_membership(&trust->node[i].marker, newest);
    return contested_place(newest, other) >= 0 && trust->nodes - 1 - takers < quorum(trust);
}

/* The members that are heard and list each other, when they are a quorum and that is the newest membership, which all
 * of them may take; else nobody. */
static node_set heirs(const struct trust *trust, const struct marker *newest, bool counts_restarted)
{
    node_set members = 0;
    unsigned places = 0; /* bit = place */
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *marker = &trust->node[i].marker;
        if (!is_heard(&trust->node[i], counts_restarted) || strcmp(marker->group, newest->group) != 0)
            continue;
        int place = marker_place_of(newest, marker->self);
        if (place < 0 && marker->generation < newest->generation)
            continue; /* it was replaced */
        if (place < 0 || (places & 1u << place) != 0 ||
            (!marker_follows(newest, marker) && contested_place(newest, marker) < 0))
            return 0;
        members |= bit(i);
        places |= 1u << place;
    }
    members = who_list_all(trust, members, newest);
    if ((unsigned)__builtin_popcount(members) >= quorum(trust))
        return members;
    return counts_restarted || !are_all_in_sight(trust) ? 0 : heirs(trust, newest, true);
}

bool trust_mends(const struct trust *trust, unsigned index, struct marker *wanted)
{
    const struct marker *present = &trust->node[index].marker;
    for (unsigned i = 0; i < trust->nodes; i++) {
        const struct marker *newest = &trust->node[i].marker;
        if (!trust->node[i].has_marker || newest->place_count != trust->nodes ||
            newest->generation < present->generation || newest->generation <= trust->group.generation ||
            strcmp(newest->group, present->group) != 0 || marker_same_membership(newest, present) ||
            sees_vacancy(trust, newest->group))
            continue;
        node_set members = heirs(trust, newest, false);
        if ((members & bit(i)) == 0 || (members & bit(index)) == 0 ||
            (newest->generation == present->generation && !has_lost(trust, newest, present, members)))
            continue;
        *wanted = *newest;
        memcpy(wanted->self, present->self, sizeof wanted->self);
        memcpy(wanted->run, present->run, sizeof wanted->run);
        return true;
    }
    return false;
}
