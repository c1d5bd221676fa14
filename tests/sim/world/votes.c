#include "tests/sim/world/votes.h"

#include <stdio.h>
#include <string.h>

bool votes_names(const struct server_event *event, struct text value)
{
    for (size_t i = 0; i < event->count; i++)
        if (text_is(event->arguments[i], value))
            return true;
    return false;
}

void votes_note(struct votes *votes, unsigned node, struct text value)
{
    size_t size = sizeof votes->values[node];
    snprintf(votes->values[node], size, "%.*s", (int)value.length, (const char *)value.bytes);
}

static unsigned votes_from(const struct votes *votes, unsigned first, unsigned node_count, const char *value)
{
    unsigned count = 0;
    for (unsigned i = first; i < node_count; i++)
        count += strcmp(votes->values[i], value) == 0;
    return count;
}

bool votes_are_narrow(const struct votes *votes, unsigned node_count)
{
    for (unsigned i = 0; i < node_count; i++)
        if (votes->values[i][0] != '\0' && votes_from(votes, 0, node_count, votes->values[i]) > node_count / 2)
            return votes_from(votes, (node_count - 1) / 2, node_count, votes->values[i]) <= node_count / 2;
    return false;
}
