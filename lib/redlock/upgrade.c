#include "redlock/upgrade.h"

#include <stdio.h>
#include <string.h>

static bool is_in(node_set set, unsigned node)
{
    return (set & set_of(node)) != 0;
}

/* Its marker tells where its fences are. */
static bool has_scheme(const struct upgrade *upgrade, unsigned node, enum marker_scheme scheme)
{
    return is_in(upgrade->members, node) && upgrade->node[node].marker.scheme == scheme;
}

static struct upgrade_step write_scheme(const struct upgrade *upgrade, enum upgrade_verdict verdict, unsigned node,
                                        enum marker_scheme scheme)
{
    struct upgrade_step step = {.verdict = verdict, .node = node};
    struct marker marker = upgrade->node[node].marker;
    marker.scheme = scheme;
    memcpy(step.expected, upgrade->node[node].text, sizeof step.expected);
    marker_write(&marker, step.text);
    return step;
}

static struct upgrade_step too_few(const struct upgrade *upgrade, unsigned node, const char *why)
{
    struct upgrade_step step = {.verdict = UPGRADE_TOO_FEW, .node = node};
    snprintf(step.reason, sizeof step.reason, "%s %s", upgrade->node[node].name, why);
    return step;
}

static struct upgrade_step begin(const struct upgrade *upgrade, unsigned node)
{
    bool is_first = true;
    for (unsigned i = 0; i < upgrade->nodes; i++) {
        if (i != node && !is_in(upgrade->voters, i))
            return too_few(upgrade, i, "does not vote: while the fences of a node are moved, all others must");
        is_first &= !has_scheme(upgrade, i, MARKER_SET);
    }
    if (!is_first && !upgrade->is_settled)
        return (struct upgrade_step){.verdict = UPGRADE_WAIT};
    return write_scheme(upgrade, UPGRADE_WRITE, node, MARKER_MOVING);
}

/* A node that was begun comes first: it gets its vote back, whatever the others do. */
struct upgrade_step upgrade_next(const struct upgrade *upgrade)
{
    for (unsigned i = 0; i < upgrade->nodes; i++)
        if (is_in(upgrade->wanted, i) && has_scheme(upgrade, i, MARKER_MOVING))
            return write_scheme(upgrade, UPGRADE_MOVE, i, MARKER_SET);
    for (unsigned i = 0; i < upgrade->nodes; i++) {
        if (!is_in(upgrade->wanted, i) || has_scheme(upgrade, i, MARKER_SET))
            continue;
        if (!is_in(upgrade->members, i))
            return too_few(upgrade, i, "is no member of the group now, so its fences cannot be moved");
        return begin(upgrade, i);
    }
    return (struct upgrade_step){.verdict = UPGRADE_DONE};
}
