/* Trust in words: one for logs and --json, and a sentence for whoever has to do something. */
#include "redlock/trust.h"

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
        {"no_group", "The lock nodes are not a lock group yet, or too few of them were reached to know: "
                     "run `holdfast nodes init` once, with all of them up. If they were one before, let all locks end "
                     "first: docs/lock-nodes.md."},
    [TRUST_NO_MARKER] = {"no_marker", "The server lost its marker, or never had one: run `holdfast nodes heal` when it "
                                      "is the right server."},
    [TRUST_BAD_MARKER] = {"bad_marker", "Something else is under the key hf:lock:group: see what wrote it, delete the "
                                        "key and run `holdfast nodes heal`."},
    [TRUST_OTHER_GROUP] = {"other_group", "The server belongs to another lock group: correct the list of lock nodes."},
    [TRUST_OTHER_GENERATION] = {"other_generation", "A replacement of a lock node is not finished: run `holdfast nodes "
                                                    "replace` or `holdfast nodes heal` again."},
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
    [TRUST_CLOCK_STEPPED] = {"clock_stepped", "The server's clock was set: let it be slewed instead. It votes again by "
                                              "itself after one quarantine."},
    [TRUST_CLOCK_OUTLIER] = {"clock_outlier", "The server's clock is more than a second away from those of the other "
                                              "lock nodes: see to its time synchronisation."},
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
