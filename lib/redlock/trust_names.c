/* Trust in words: one for logs and --json, and a sentence for whoever has to do something. */
#include "redlock/trust_private.h"

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
                             "It is not connected, or was not asked yet. If it stays so, see whether the "
                             "server runs and can be reached."},
    [TRUST_UNREADABLE] = {"unreadable", "The server refuses INFO or the inspecting script: give the user of lock.nodes "
                                        "the right to run INFO, TIME, GET, SET, DEL and EVALSHA."},
    [TRUST_NO_GROUP] =
        {"no_group",
         "The lock nodes are no lock group yet: run `holdfast nodes init` once, with all of them up. If they "
         "were one before, let all locks end first: docs/lock-nodes.md."},
    [TRUST_NO_MARKER] = {"no_marker", "The server lost its marker, or never had one: run `holdfast nodes heal --wait` "
                                      "when it is the right server."},
    [TRUST_UNRECORDED] = {"unrecorded",
                          "Another server has this address, and it is empty. A majority of the other lock nodes has to "
                          "record that before it gets the place; the workers see to it: bring back those that do not "
                          "vote (of three nodes both others are needed)."},
    [TRUST_BAD_MARKER] = {"bad_marker", "Something else is under the key hf:lock:group: see what wrote it, delete the "
                                        "key and run `holdfast nodes heal --wait`."},
    [TRUST_OTHER_GROUP] = {"other_group", "The server belongs to another lock group: correct the list of lock nodes."},
    [TRUST_OTHER_GENERATION] = {"other_generation",
                                "A lock node is being replaced, and this one or the others have not "
                                "learnt of it yet: nothing to do while that runs. If it stays for "
                                "longer than a few seconds, run `holdfast nodes replace` again, or "
                                "`holdfast nodes heal --wait`."},
    [TRUST_NOT_A_PLACE] = {"not_a_place", "The server was replaced by another one: correct the list of lock nodes."},
    [TRUST_NODE_COUNT] = {"node_count", "The lock group has another number of nodes than are configured: every client "
                                        "must be given all nodes of the group."},
    [TRUST_DUPLICATE] = {"duplicate", "Another configured lock node is the same server, or claims the same place: "
                                      "correct the list of lock nodes; a copied server has to be emptied."},
    [TRUST_EVICTS] = {"evicts", "The server may evict locks: set maxmemory-policy to noeviction."},
    [TRUST_NEW_RUN] = {"new_run", "The server was restarted: it votes again by itself when everything that it may have "
                                  "forgotten has expired."},
    [TRUST_LOST_MARKER] = {"lost_marker", "The server was emptied: it votes again by itself when everything that it "
                                          "forgot has expired."},
    [TRUST_DOUBTED] = {"doubted",
                       "Its marker says that nobody trusts it: it votes again by itself after one quarantine."},
    [TRUST_CLOCK_STEPPED] = {"clock_stepped",
                             "The server's clock jumped, or runs at another rate than lock.drift_factor "
                             "allows: let it be slewed, by at most half of that. It votes again by "
                             "itself after one quarantine."},
    [TRUST_CLOCK_OUTLIER] = {"clock_outlier", "The server's clock is more than a second away from those of the other "
                                              "lock nodes: see to its time synchronisation."},
    [TRUST_CLOCK_UNCOMPARED] = {"clock_uncompared",
                                "Too few lock nodes can be reached whose clocks agree with the server's: it votes "
                                "when a majority of them do, or after one quarantine. Bring the others back, or see to "
                                "their time synchronisation."},
    [TRUST_HAD_EVICTED] = {"had_evicted", "The server evicted keys until a moment ago: it votes again by itself after "
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

const char *trust_reason_advice(enum trust_reason reason)
{
    return reasons[reason].advice;
}

/* A marker, also one that was seen before, shows that there is a group, which a second `init` would split. */
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
        return "Whether the lock nodes are a lock group cannot be told while a majority of them is not reached: bring "
               "those back, and look again.";
    if (trust->node[index].has_marker)
        return "Its marker names a lock group, but a majority of the nodes to confirm that is not reached, or was "
               "emptied. "
               "Bring those back; if they were emptied: docs/lock-nodes.md.";
    return "It has no marker, but other lock nodes name a group, and a majority to confirm that is not reached, or was "
           "emptied. Bring those back first; if they were emptied: docs/lock-nodes.md.";
}

const char *trust_advice(const struct trust *trust, unsigned index)
{
    enum trust_reason reason = trust->node[index].reason;
    return reason == TRUST_NO_GROUP ? advice_without_group(trust, index) : trust_reason_advice(reason);
}
