/* What happened in a run. A run in which one of these never happened did not test what it claims to test, and is
 * invalid ("sometimes" properties). */
#ifndef SIM_COUNTERS_H
#define SIM_COUNTERS_H

#include <stdint.h>

#define SIM_COUNTERS(X)                                                                                                \
    X(virtual_ms)                                                                                                      \
    X(acquired)                                                                                                        \
    X(acquired_several) /* more than one resource */                                                                   \
    X(busy)                                                                                                            \
    X(split)                                                                                                           \
    X(no_quorum)                                                                                                       \
    X(too_slow)                                                                                                        \
    X(cancelled)                                                                                                       \
    X(handed_over)            /* to another lock of the client */                                                      \
    X(handed_over_where_free) /* what was to be replaced had gone */                                                   \
    X(hand_over_failed)                                                                                                \
    X(extended)                                                                                                        \
    X(extension_retried) /* a round started after one that did not succeed */                                          \
    X(danger)                                                                                                          \
    X(recovered) /* extended after DANGER */                                                                           \
    X(lost_deadline)                                                                                                   \
    X(lost_taken)                                                                                                      \
    X(released)                                                                                                        \
    X(expired)                                                                                                         \
    X(foreign)                                                                                                         \
    X(unknown)                                                                                                         \
    X(timed_out)            /* calls */                                                                                \
    X(unsent)               /* calls */                                                                                \
    X(refused_with_error)   /* calls */                                                                                \
    X(late_reply)           /* fed to the lease after its deadline */                                                  \
    X(stale_vote)           /* fed to the lease with the tag of an older round */                                      \
    X(late_request)         /* executed after its connection had broken */                                             \
    X(late_grant)           /* planted after its release had been sent */                                              \
    X(owed_after_reconnect) /* releases sent again */                                                                  \
    X(owed_again)           /* did not find everything the first time */                                               \
    X(owed_after_error)                                                                                                \
    X(partly_taken) /* several resources refused although the first was free */                                        \
    X(broken)                                                                                                          \
    X(stalled)                                                                                                         \
    X(crashed)                                                                                                         \
    X(lost_in_part)                                                                                                    \
    X(wiped)                                                                                                           \
    X(replaced)                                                                                                        \
    X(moved) /* an empty server at the address of one that lives on for others */                                      \
    X(rolled_back)                                                                                                     \
    X(slewed)                                                                                                          \
    X(stepped)                                                                                                         \
    X(hidden_jumps) /* acquisitions on a node whose clock had jumped there and back unseen */                          \
    X(frozen)                                                                                                          \
    X(died)                                                                                                            \
    X(founded) /* groups, in place of one that was lost */                                                             \
    X(healed_by_hand)                                                                                                  \
    X(quarantined)                                                                                                     \
    X(marked)                                                                                                          \
    X(forgot)                                                                                                          \
    X(stood_unmistakably)                                                                                              \
    X(own_clock_stood)                                                                                                 \
    X(other_marker)                                                                                                    \
    X(too_late)                                                                                                        \
    X(raised)                                                                                                          \
    X(replants)                                                                                                        \
    X(replanted)                                                                                                       \
    X(verified)                                                                                                        \
    X(lost_max_hold)                                                                                                   \
    X(lost_clock)                                                                                                      \
    X(ordered_pairs)                                                                                                   \
    X(overlapping_pairs)                                                                                               \
    X(overlaps_out_of_model)                                                                                           \
    X(fenced_off)                                                                                                      \
    X(twin_stale)                                                                                                      \
    X(single_out_of_order)                                                                                             \
    X(single_unavailable)                                                                                              \
    X(paused)                                                                                                          \
    X(paused_beyond_ttl)                                                                                               \
    X(paused_while_sending)                                                                                            \
    X(deleted_by_hand)                                                                                                 \
    X(orphans_excused) /* left behind by a late request: they end with their ttl */

#define SIM_COUNTER_FIELD(name) uint64_t name;
struct counters {
    SIM_COUNTERS(SIM_COUNTER_FIELD)
};

#endif
