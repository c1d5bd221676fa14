#include "redlock/membership.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* `group` is the membership of the highest generation that any server of the group knows: a change that has begun is
 * finished, never taken back. */
struct plan {
    const struct membership *given;
    unsigned quorum;
    struct marker group;
    struct membership_step *step;
};

/* Always true: the step is decided. */
PRINTF_LIKE(3, 4)
static bool refuse(struct plan *plan, enum membership_verdict verdict, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    plan->step->verdict = verdict;
    vsnprintf(plan->step->reason, sizeof plan->step->reason, format, values);
    va_end(values);
    return true;
}

static bool write_marker(struct plan *plan, unsigned server, const struct membership_node *node, struct marker marker)
{
    plan->step->verdict = MEMBERSHIP_WRITE;
    plan->step->server = server;
    plan->step->group = marker;
    snprintf(plan->step->expected, sizeof plan->step->expected, "%s", node->text);
    marker_write(&marker, plan->step->text);
    return true;
}

static const struct membership_node *leaving_node(const struct plan *plan)
{
    return plan->given->leaving == MEMBERSHIP_NOBODY ? NULL : &plan->given->node[plan->given->leaving];
}

static bool newcomer_is_outside(const struct plan *plan)
{
    return plan->given->newcomer != leaving_node(plan);
}

/* All configured nodes but the one whose number is given away. */
static bool stays(const struct plan *plan, unsigned index)
{
    return (int)index != plan->given->leaving;
}

static bool is_of_group(const struct plan *plan, const struct membership_node *node)
{
    return node->is_reached && node->has_marker && strcmp(node->marker.group, plan->group.group) == 0;
}

/* The number of the group that its marker names, or -1. */
static int number_of(const struct plan *plan, const struct membership_node *node)
{
    return is_of_group(plan, node) ? marker_number_of(&plan->group, node->marker.self) : -1;
}

static bool is_member(const struct plan *plan, const struct membership_node *node)
{
    return number_of(plan, node) >= 0;
}

static bool is_up_to_date(const struct plan *plan, const struct membership_node *node)
{
    return is_member(plan, node) && marker_same_membership(&node->marker, &plan->group);
}

static bool is_vacant(const struct plan *plan, unsigned number)
{
    return plan->group.members[number][0] == '\0';
}

/* That of the index in the configuration, or the first; -1 = none. */
static int vacancy_of(const struct plan *plan)
{
    if (is_vacant(plan, (unsigned)plan->given->leaving))
        return plan->given->leaving;
    for (unsigned number = 0; number < plan->group.member_count; number++)
        if (is_vacant(plan, number))
            return (int)number;
    return -1;
}

/* --- which group ------------------------------------------------------------------------------------------------ */

static bool is_reached(const struct plan *plan, const struct membership_node *node)
{
    (void)plan;
    return node->is_reached;
}

static bool is_unreached(const struct plan *plan, const struct membership_node *node)
{
    return !is_reached(plan, node);
}

static unsigned count_stayers(const struct plan *plan,
                              bool (*fits)(const struct plan *plan, const struct membership_node *node))
{
    unsigned count = 0;
    for (unsigned i = 0; i < plan->given->nodes; i++)
        count += stays(plan, i) && fits(plan, &plan->given->node[i]);
    return count;
}

/* A quorum of N among the nodes that stay has to know the group, else nothing can be changed safely. */
static bool group_is_missing(struct plan *plan)
{
    const struct membership *given = plan->given;
    unsigned best = 0, stayers = given->nodes - (given->leaving != MEMBERSHIP_NOBODY);
    unsigned reached = count_stayers(plan, is_reached);
    struct plan candidate = *plan;
    for (unsigned i = 0; i < given->nodes; i++) {
        if (!stays(plan, i) || !given->node[i].is_reached || !given->node[i].has_marker)
            continue;
        candidate.group = given->node[i].marker;
        unsigned count = count_stayers(&candidate, is_of_group);
        if (count > best) {
            best = count;
            plan->group = candidate.group;
        }
    }
    if (best >= plan->quorum)
        return false;
    if (best + stayers - reached >= plan->quorum)
        return refuse(plan, MEMBERSHIP_TOO_FEW, "only %u of the %u nodes that stay can be reached: %u are needed",
                      reached, stayers, plan->quorum);
    if (best == 0)
        return refuse(plan, MEMBERSHIP_REFUSED, "these nodes are no lock group yet: run `nodes init`");
    return refuse(plan, MEMBERSHIP_REFUSED,
                  "only %u of %u nodes remember the group %s, and %u are needed: a majority has lost its memory", best,
                  given->nodes, plan->group.group, plan->quorum);
}

/* --- which membership --------------------------------------------------------------------------------------------- */

/* A configured node, or behind those a newcomer outside; NULL if it knows nothing of the group. */
static const struct membership_node *knower(const struct plan *plan, unsigned index)
{
    const struct membership_node *node = plan->given->newcomer;
    if (index < plan->given->nodes)
        node = &plan->given->node[index];
    else if (node == NULL || !newcomer_is_outside(plan))
        return NULL;
    return is_of_group(plan, node) ? node : NULL;
}

/* How many say that this is the membership. */
static unsigned count_of(const struct plan *plan, const struct marker *membership)
{
    unsigned count = 0;
    for (unsigned i = 0; i <= plan->given->nodes; i++)
        count += knower(plan, i) != NULL && marker_same_membership(&knower(plan, i)->marker, membership);
    return count;
}

/* The highest generation; of two such memberships the one that more nodes name. */
static void newest_find(struct plan *plan)
{
    for (unsigned i = 0; i <= plan->given->nodes; i++) {
        const struct membership_node *node = knower(plan, i);
        if (node != NULL && (node->marker.generation > plan->group.generation ||
                             (node->marker.generation == plan->group.generation &&
                              count_of(plan, &node->marker) > count_of(plan, &plan->group))))
            plan->group = node->marker;
    }
}

/* More numbers differ than generations have passed, and each generation changes one number. */
static bool cannot_follow(const struct marker *newer, const struct marker *older)
{
    uint32_t differing = 0;
    for (unsigned number = 0; number < newer->member_count; number++)
        differing += strcmp(newer->members[number], older->members[number]) != 0;
    return differing > newer->generation - older->generation;
}

/* The numbers about which others differ from the newest membership, where it cannot have come from theirs: bit =
 * number. Each of them may have had a quorum, which nodes that were emptied forgot. */
static unsigned contested_numbers(const struct plan *plan)
{
    unsigned contested = 0;
    for (unsigned i = 0; i <= plan->given->nodes; i++) {
        const struct membership_node *node = knower(plan, i);
        bool differs = node != NULL && cannot_follow(&plan->group, &node->marker);
        for (unsigned number = 0; differs && number < plan->group.member_count; number++)
            if (strcmp(node->marker.members[number], plan->group.members[number]) != 0)
                contested |= 1u << number;
    }
    return contested;
}

/* Two changes met, and no quorum knows the newest membership. None of them is chosen: what they contest becomes vacant.
 * Clients that know more than the markers say get some time to finish a change before that. */
static bool changes_are_met(struct plan *plan)
{
    unsigned contested = contested_numbers(plan);
    if (contested == 0 || count_of(plan, &plan->group) >= plan->quorum)
        return false;
    for (unsigned number = 0; number < plan->group.member_count; number++)
        if ((contested >> number & 1u) != 0) {
            plan->group.members[number][0] = '\0';
            plan->group.generation++;
        }
    unsigned sure = count_stayers(plan, is_member), unreached = count_stayers(plan, is_unreached);
    if (sure < plan->quorum)
        return refuse(plan, sure + unreached < plan->quorum ? MEMBERSHIP_REFUSED : MEMBERSHIP_TOO_FEW,
                      "two changes of the group met, and only %u of the nodes that can be reached have a number that "
                      "both leave as it is: %u are needed",
                      sure, plan->quorum);
    if (plan->given->leaving != MEMBERSHIP_NOBODY)
        return refuse(plan, MEMBERSHIP_REFUSED, "two changes of the group met: run `nodes heal --wait` first");
    return plan->given->waited_for != plan->group.generation &&
           refuse(plan, MEMBERSHIP_WAIT,
                  "two changes of the group met: the numbers about which they differ will be given anew");
}

static bool group_is_unclear(struct plan *plan)
{
    newest_find(plan);
    if (plan->group.member_count != plan->given->nodes)
        return refuse(plan, MEMBERSHIP_REFUSED, "the group has %u members, but %u nodes are configured",
                      plan->group.member_count, plan->given->nodes);
    return changes_are_met(plan);
}

static bool number_is_doubled(struct plan *plan)
{
    const struct membership *given = plan->given;
    for (unsigned i = 0; i < given->nodes; i++)
        for (unsigned j = 0; j < i; j++)
            if (is_member(plan, &given->node[i]) &&
                number_of(plan, &given->node[i]) == number_of(plan, &given->node[j]))
                return refuse(plan, MEMBERSHIP_REFUSED,
                              "%s and %s are the same member %s of the group: they are one server, or one is a copy of "
                              "the other",
                              given->node[j].name, given->node[i].name, given->node[i].marker.self);
    return false;
}

/* --- bringing members up to date --------------------------------------------------------------------------------- */

/* Members with an older generation take the membership, in the order of the configuration. */
static bool somebody_is_behind(struct plan *plan)
{
    for (unsigned i = 0; i < plan->given->nodes; i++) {
        const struct membership_node *node = &plan->given->node[i];
        if (!is_member(plan, node) || is_up_to_date(plan, node))
            continue;
        struct marker marker = plan->group;
        memcpy(marker.self, node->marker.self, sizeof marker.self);
        memcpy(marker.run, node->marker.run, sizeof marker.run);
        return write_marker(plan, i, node, marker);
    }
    return false;
}

/* --- the newcomer ------------------------------------------------------------------------------------------------ */

/* Only a server without a marker gets one, so that no server ever has two numbers. A configured node may keep the
 * marker of a number that it no longer has. */
static bool newcomer_is_unfit(struct plan *plan)
{
    const struct membership_node *newcomer = plan->given->newcomer;
    if (!newcomer->is_reached)
        return refuse(plan, MEMBERSHIP_TOO_FEW, "%s cannot be reached", newcomer->name);
    if (newcomer->is_of_other_scheme)
        return refuse(plan, MEMBERSHIP_REFUSED,
                      "%s: another version of Holdfast, with another scheme, made the group that its key %s names. If "
                      "that is the newer one, update this program first; else see docs/operations.md, Upgrades",
                      newcomer->name, MARKER_KEY);
    if (newcomer->bad_marker)
        return refuse(plan, MEMBERSHIP_REFUSED, "%s: what is under its key %s is no marker: remove it", newcomer->name,
                      MARKER_KEY);
    if (newcomer->has_marker && !is_of_group(plan, newcomer))
        return refuse(plan, MEMBERSHIP_REFUSED, "%s belongs to another lock group (%s)", newcomer->name,
                      newcomer->marker.group);
    if (newcomer->has_marker && newcomer_is_outside(plan))
        return refuse(plan, MEMBERSHIP_REFUSED,
                      "%s was a member of this group before (as %s): take an empty server, or empty this one",
                      newcomer->name, newcomer->marker.self);
    return false;
}

/* --- step 1 ------------------------------------------------------------------------------------------------------ */

static bool number_is_taken(const struct plan *plan, unsigned number)
{
    for (unsigned i = 0; i < plan->given->nodes; i++)
        if (stays(plan, i) && number_of(plan, &plan->given->node[i]) == (int)number)
            return true;
    return false;
}

/* Every member that is reached has the number of its index in the configuration. */
static bool numbers_are_in_order(const struct plan *plan)
{
    for (unsigned i = 0; i < plan->given->nodes; i++)
        if (is_member(plan, &plan->given->node[i]) && number_of(plan, &plan->given->node[i]) != (int)i)
            return false;
    return true;
}

/* The number of the node that leaves: the one in its marker; else the only one without a known server; else that of its
 * index in the configuration, as `init` gave them out; else any without a server, if every other node is reached. */
static int leaving_number(const struct plan *plan)
{
    const struct membership_node *leaving = leaving_node(plan);
    unsigned missing = 0, first = 0;
    if (is_member(plan, leaving))
        return number_of(plan, leaving);
    for (unsigned i = plan->group.member_count; i-- > 0;) {
        if (number_is_taken(plan, i))
            continue;
        missing++;
        first = i;
    }
    bool are_all_reached = count_stayers(plan, is_reached) + 1 == plan->given->nodes;
    if (missing > 1 && numbers_are_in_order(plan))
        return plan->given->leaving;
    return missing == 1 || (missing > 1 && are_all_reached) ? (int)first : -1;
}

/* The first member that stays gets another id for that number, or none; the others learn of it next. */
static bool number_give(struct plan *plan, unsigned number, const char *id)
{
    for (unsigned i = 0; i < plan->given->nodes; i++) {
        const struct membership_node *node = &plan->given->node[i];
        if (!stays(plan, i) || !is_up_to_date(plan, node))
            continue;
        struct marker marker = node->marker;
        marker.generation++;
        snprintf(marker.members[number], sizeof marker.members[number], "%s", id);
        return write_marker(plan, i, node, marker);
    }
    return false;
}

/* Takes the number of the node that leaves: `id` is what it becomes. */
static bool take_number(struct plan *plan, const char *id)
{
    const struct membership_node *leaving = leaving_node(plan);
    if (newcomer_is_outside(plan) && is_of_group(plan, leaving) && !is_member(plan, leaving))
        return refuse(plan, MEMBERSHIP_REFUSED, "%s is no member of the group any more: it was replaced before",
                      leaving->name);
    if (!newcomer_is_outside(plan) && leaving->has_marker)
        return refuse(plan, MEMBERSHIP_REFUSED,
                      "%s is no member of the group any more: it was replaced. Put its successor into the "
                      "configuration",
                      leaving->name);
    int number = leaving_number(plan);
    if (number < 0)
        return refuse(plan, MEMBERSHIP_TOO_FEW,
                      "the number of %s in the group is not known while other nodes cannot be reached", leaving->name);
    return number_give(plan, (unsigned)number, id);
}

/* --- step 2 ------------------------------------------------------------------------------------------------------ */

/* A vacancy that was made for another node is not for this one. */
static bool vacancy_is_of_another(struct plan *plan)
{
    const struct membership_node *leaving = leaving_node(plan);
    if (is_member(plan, leaving))
        return refuse(plan, MEMBERSHIP_REFUSED,
                      "another node than %s is being replaced (a number of generation %u is vacant): finish that first",
                      leaving->name, (unsigned)plan->group.generation);
    const struct membership_node *other = NULL;
    int others = 0; /* more than there are vacant numbers */
    for (unsigned i = 0; i < plan->given->nodes; i++) {
        const struct membership_node *node = &plan->given->node[i];
        bool waits = stays(plan, i) && is_of_group(plan, node) && !is_member(plan, node);
        others += waits - is_vacant(plan, i);
        other = waits ? node : other;
    }
    return others >= 0 && other != NULL &&
           refuse(plan, MEMBERSHIP_REFUSED, "the vacant number is that of %s: replace or heal that node first",
                  other->name);
}

static bool newcomer_write(struct plan *plan, struct marker marker, const char *run)
{
    const struct membership_node *newcomer = plan->given->newcomer;
    snprintf(marker.self, sizeof marker.self, "%s", plan->given->new_id);
    snprintf(marker.run, sizeof marker.run, "%s", run);
    plan->step->gives_vote = run[0] != '\0';
    return write_marker(plan, newcomer_is_outside(plan) ? MEMBERSHIP_NEWCOMER : (unsigned)plan->given->leaving,
                        newcomer, marker);
}

static bool fill_vacancy(struct plan *plan, unsigned number)
{
    struct marker marker = plan->group;
    if (plan->given->waited_for != plan->group.generation) {
        plan->step->verdict = MEMBERSHIP_WAIT;
        return true;
    }
    marker.generation++;
    snprintf(marker.members[number], sizeof marker.members[number], "%s", plan->given->new_id);
    return newcomer_write(plan, marker, plan->given->newcomer->run_id);
}

/* --- a node that lost its marker --------------------------------------------------------------------------------- */

static bool readmit(struct plan *plan, int vacancy)
{
    if (marker_number_of(&plan->group, plan->given->new_id) >= 0)
        return newcomer_write(plan, plan->group, "");
    return vacancy >= 0 ? number_give(plan, (unsigned)vacancy, plan->given->new_id)
                        : take_number(plan, plan->given->new_id);
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

/* True when the newcomer has its number, and nothing is left to do. */
static bool newcomer_is_in(struct plan *plan)
{
    const struct membership_node *leaving = leaving_node(plan);
    if (!is_up_to_date(plan, plan->given->newcomer))
        return false;
    if (newcomer_is_outside(plan) && is_member(plan, leaving))
        return refuse(plan, MEMBERSHIP_REFUSED, "%s is a member of this group already", plan->given->newcomer->name);
    if (count_stayers(plan, is_up_to_date) + 1 < plan->quorum)
        return refuse(plan, MEMBERSHIP_TOO_FEW,
                      "%s is a member, but too few of the other nodes can be reached to learn of it",
                      plan->given->newcomer->name);
    plan->step->verdict = MEMBERSHIP_DONE;
    return true;
}

static void plan_make(struct plan *plan)
{
    if (group_is_missing(plan))
        return;
    plan->step->has_group = true;
    bool is_decided = group_is_unclear(plan) || number_is_doubled(plan);
    plan->step->group = plan->group;
    if (is_decided || somebody_is_behind(plan))
        return;
    if (plan->given->leaving == MEMBERSHIP_NOBODY) {
        plan->step->verdict = MEMBERSHIP_DONE;
        return;
    }
    int vacancy = vacancy_of(plan);
    if (newcomer_is_in(plan) || newcomer_is_unfit(plan) || (vacancy >= 0 && vacancy_is_of_another(plan)))
        return;
    unsigned count = count_stayers(plan, is_up_to_date);
    if (count < plan->quorum)
        refuse(plan, MEMBERSHIP_TOO_FEW,
               "only %u of the nodes that stay are reached and belong to the group: %u are needed", count,
               plan->quorum);
    else if (!newcomer_is_outside(plan))
        readmit(plan, vacancy);
    else if (vacancy < 0)
        take_number(plan, "");
    else
        fill_vacancy(plan, (unsigned)vacancy);
}

struct membership_step membership_next(const struct membership *membership)
{
    struct membership_step step = {.verdict = MEMBERSHIP_REFUSED};
    struct plan plan = {.given = membership, .quorum = membership->nodes / 2 + 1, .step = &step};
    plan_make(&plan);
    return step;
}
