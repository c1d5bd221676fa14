#include "redlock/reentry.h"

#include <string.h>

#include "base/invariant.h"

/* Of the wanted names, those that the hold has. */
static unsigned names_common(const struct reentry_hold *hold, const struct reentry_request *request)
{
    unsigned common = 0;
    for (unsigned mine = 0, wanted = 0; mine < hold->name_count && wanted < request->name_count;) {
        int order = strcmp(hold->names[mine], request->names[wanted]);
        common += order == 0;
        mine += order <= 0;
        wanted += order >= 0;
    }
    return common;
}

enum reentry reentry_judge(const struct reentry_hold *hold, const struct reentry_request *request, bool in_danger)
{
    unsigned common = names_common(hold, request);
    if (common == 0)
        return REENTRY_NEW;
    if (!hold->is_acquired)
        return REENTRY_UNDECIDED;
    if (common < request->name_count)
        return REENTRY_OVERLAP;
    if (hold->is_shared && !request->is_shared)
        return REENTRY_UPGRADE;
    if (hold->seat > request->limit)
        return REENTRY_BEYOND;
    return in_danger ? REENTRY_DANGER : REENTRY_AGAIN;
}

void reentry_enter(struct reentry_hold *hold)
{
    invariant(hold->is_acquired && hold->entries > 0);
    hold->entries++;
}

bool reentry_leave(struct reentry_hold *hold)
{
    invariant(hold->is_acquired && hold->entries > 0);
    return --hold->entries == 0;
}
