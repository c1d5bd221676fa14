/* What goes wrong in a schedule: moves that are drawn before it begins, each with its time, its victim and its end, so
 * that any of them can be left out (HF_WITHOUT) and the others stay as they are.
 *
 *     trouble_draw(&scene, &chance, 8 * NS_PER_S);   the moves are set, from now on
 *     world_run(...);
 *     trouble_end();                                 all is well again from now on
 *
 * Servers may lose what they knew, and their clocks may jump, only where the promise of exclusion bears it: at a
 * minority of the lock nodes at a time, which is the same one through the whole schedule unless `doubt_ns` says for how
 * long such a node counts. `is_wild`: anywhere. */
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include "tests/sim/world/node.h"

enum trouble_kinds { TROUBLE_OF_ALL_KINDS, TROUBLE_OF_KILLS, TROUBLE_OF_LEASES, TROUBLE_OF_OPERATORS };

struct trouble_scene {
    struct node *const *nodes; /* lock nodes */
    unsigned node_count;
    struct node *queue; /* NULL = none */
    unsigned process_count;
    struct process *(*process)(unsigned number); /* that lives there now */
    struct host *(*host)(unsigned number);
    unsigned guest_count;             /* hosts of others, behind those: only their clocks and paths are in trouble */
    void (*restart)(unsigned number); /* after it was killed, or has ended */
    void (*stop)(unsigned number, bool is_quiet); /* ask it to end; NULL = that cannot be asked */
    /* What an operator does; NULL = nothing. `draw` is for its random numbers. */
    void (*operate)(struct chance *draw);
    /* The queue node has come back without the last second. NULL = it keeps all. */
    void (*fell_back)(void);
    /* Another one takes the place of the queue node, which is set here; false = there is none. NULL = never. */
    bool (*fail_over)(bool is_silent);
    enum trouble_kinds kinds;
    int64_t longest_ns; /* how long a trouble lasts at most */
    int64_t lease_ns;   /* of processes at the queue node */
    int64_t ttl_ns;     /* of locks: what stands still does so for longer now and then; 0 = as it happens */
    int64_t drift_ppb;  /* by how much the rates of two clocks may differ */
    int64_t doubt_ns;   /* so long after the trouble of one node that of another may begin; 0 = never */
    /* An empty server takes over the address of a node, and its place in `nodes`, while the old one lives on; and its
     * end. NULL = never. */
    void (*move)(unsigned node);
    void (*move_end)(unsigned node);
    bool is_wild;
    bool takes_majorities;           /* nodes hang together, for longer than a lock lives */
    bool freezes;                    /* hosts are suspended, alone or with a node */
    bool keeps_memory, keeps_clocks; /* no server loses data; no clock jumps */
    /* Clocks of nodes show different times, so tokens stay in order only where a majority of the other nodes can be
     * asked when one votes again that has forgotten. So they can, and none forgets before the last one votes. */
    bool is_apart;
    bool is_minor; /* only at a minority of the lock nodes, and nowhere else */
};

/* Those that every scene has; NULL at the end. */
extern const char *const trouble_names[];

/* The scene must stay. */
void trouble_draw(const struct trouble_scene *scene, struct chance *chance, int64_t for_ns);
void trouble_end(void);
/* Whether the node may lose what it knows: with it no more than a minority are doubted. */
bool trouble_bears(const struct node *node);

#endif
