/* What one schedule is like, drawn from its seed (swarm testing: every schedule has its own mixture of faults, delays
 * and terms, because a bug often needs several things to be extreme at once and others to be absent). */
#ifndef SIM_PARAMETERS_H
#define SIM_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock/lease.h"
#include "tests/sim/chance.h"

enum { SIM_NODES_MAX = 7, SIM_CLIENTS_MAX = 5, SIM_LOCKS_MAX = 2, SIM_RESOURCES_MAX = 3 };

enum fault {
    FAULT_BREAK,  /* a connection breaks; what was under way on it may still be executed, for a while */
    FAULT_STALL,  /* some connections carry nothing in one direction, then go on or break: cut, hang, loss */
    FAULT_CRASH,  /* a node dies and comes back, with or without its memory */
    FAULT_PAUSE,  /* a client stands still, perhaps in the middle of sending */
    FAULT_DELETE, /* somebody deletes a lock by hand on some nodes */
    FAULT_REFUSE, /* a node answers everything with an error */
    FAULT_LEAVE,  /* a client dies; its successor knows nothing */
    FAULT_LOSS,   /* a node is emptied, replaced by an empty one, or its memory goes back in time */
    FAULT_STEP,   /* a node's clock jumps */
    FAULT_FREEZE, /* a client stands still, and its clock with it */
    FAULT_KINDS,
};

/* What kind of trouble a schedule has, which decides what is promised in it (guarantees G1 to G3). */
enum profile {
    PROFILE_STEADY, /* nobody forgets, no clock jumps: exclusion; tokens in order */
    PROFILE_LOSS,   /* a minority of nodes forgets at a time, clock rates are bounded: the same */
    PROFILE_STEPS,  /* clocks of a minority jump, far enough to be seen, and back; it may forget, too: exclusion */
    PROFILE_WILD,   /* clocks of nodes and clients do anything, nobody forgets: no exclusion; tokens in order */
    PROFILE_RUIN,   /* any node forgets at any time, clocks are right: no exclusion; tokens in order of time */
    PROFILES,
};

struct parameters {
    enum profile profile;
    unsigned nodes, clients, locks, resources; /* locks of each client */
    struct lease_terms terms[SIM_CLIENTS_MAX]; /* one for each client */
    int64_t timeout_ns[SIM_CLIENTS_MAX];       /* of a call, as in the driver: its patience */
    int64_t longest_ttl_ns, shortest_ttl_ns, longest_timeout_ns;
    int64_t max_ttl_ns;    /* of the group */
    int64_t quarantine_ns; /* as everybody keeps it at least */
    int64_t pulse_ns;      /* between inspections */
    int64_t fence_ttl_ms;

    bool exclusion;       /* is promised */
    int64_t order_gap_ns; /* acquisitions that are so far apart have tokens in order */

    int64_t node_offset_ns; /* how far from the right time a node's clock may begin */
    int64_t step_least_ns, step_most_ns;
    int64_t save_ns; /* how much of its newest memory a node may lose in a crash */

    int64_t delay_ns, delay_jitter_ns; /* of one message */
    unsigned spike_per_mille;
    int64_t spike_ns;
    int64_t late_ns; /* how long after a break a request may still be executed */

    unsigned faults; /* set of 1 << enum fault; 0 in a calm schedule */
    int64_t fault_gap_ns;
    bool calm;   /* no faults at all */
    bool abrupt; /* no calm part: everything is given up in the middle of the faults, then all heals */
    bool prompt; /* calm, and every answer comes in time: then nothing may ever be lost */

    unsigned pause_per_mille; /* how often a client is paused while it sends */
    bool replies_first;       /* after a pause, replies are fed before deadlines (the loop does the opposite) */
    bool late_votes;          /* replies after their deadline are fed as well */
    bool herd;                /* everybody wants the same thing at the same time */

    struct instant begin, calm_from, progress_from, drain_from;
};

/* `forced`: of that profile; PROFILES leaves it to chance. */
void parameters_draw(struct parameters *parameters, struct chance *chance, enum profile forced);
extern const char *const profile_names[PROFILES];

/* N >= 3 and odd: the nodes are a lock group with markers. */
static inline bool parameters_grouped(const struct parameters *parameters)
{
    return parameters->nodes >= 3 && parameters->nodes % 2 == 1;
}

/* Nodes run at rates that differ by at most the drift that the terms allow for. They are slewed to another such rate,
 * and moved by what is forgiven, at any moment. */
int64_t parameters_node_rate(const struct parameters *parameters, struct chance *chance);

#endif
