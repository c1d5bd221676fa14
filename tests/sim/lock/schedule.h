/* One schedule of locks: lock nodes, client processes that use libredlock as any program does (threads with the
 * blocking client, or locks on a loop), plain Redlock clients of somebody else, operators, trouble, and judges. */
#ifndef SIM_LOCK_SCHEDULE_H
#define SIM_LOCK_SCHEDULE_H

#include "redlock/redlock.h"
#include "redlock/redlock_loop.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/world/node.h"
#include "tests/sim/world/play.h"
#include "tests/sim/world/votes.h"

enum { LOCK_NODES_MAX = VOTES_NODES_MAX, LOCK_CLIENTS_MAX = 5, LOCK_USERS_MAX = 3, LOCK_RESOURCES_MAX = 3 };

/* What kind of trouble a schedule has, which decides what is promised in it. */
enum lock_profile {
    LOCK_STEADY, /* nobody forgets, no clock jumps: exclusion; tokens in order */
    LOCK_LOSS,   /* a minority of the nodes forgets at a time: the same */
    LOCK_STEPS, /* clocks of a minority jump, and it may forget, too: exclusion; tokens in order where nobody forgets */
    LOCK_WILD,  /* clocks of all nodes jump, nobody forgets: no exclusion; tokens in order */
    LOCK_RUIN,  /* any node forgets at any time, clocks are right: no exclusion; tokens in the order of time */
    LOCK_ANY,   /* both: nothing is promised, but that it ends */
    LOCK_PROFILES
};

enum lock_client_kind {
    LOCK_BLOCKING, /* threads with the blocking client */
    LOCK_LOOP,     /* locks on a loop */
    LOCK_OLD,      /* knows too short a list of nodes: it must get no lock */
    LOCK_FOREIGN,  /* a plain Redlock client of somebody else */
};

/* What a lock on a loop has to report; judge_told.c judges it. */
struct lock_told {
    bool is_held, is_in_danger, may_repeat;
    bool was_away;                                /* its process stood still when it was looked at */
    struct instant until, danger_from, confirmed; /* by the clock of its host; the last by the true time */
    struct world_event watch;
};

/* A user that takes locks, one after the other. */
struct lock_user {
    struct lock_client *client;
    unsigned number;
    struct chance chance;
    struct redlock_held *held; /* of a thread; NULL = it has none */
    struct redlock_lock *lock; /* of the loop */
    struct loop_timer timer;   /* of the loop: what it does next */
    struct redlock_verify verify;
    struct instant believes_until; /* of a plain client, by the clock of its host */
    bool is_lingering;
    struct lock_told told;
    const char *wanted[2];
    unsigned resources; /* a set: of the lock that it has or wants; 0 = it wants none */
    bool searches;      /* which of these seats it has is not known yet */
    bool is_reader;     /* of that lock */
    bool comes_back;    /* for it, when it is refused */
    char owner[24];     /* differs for each hold */
    uint64_t token;
    unsigned hold;        /* of judge_tokens.c, while it has a token */
    struct instant asked; /* the true time */
    /* Since it asked, by node: when its value was last planted or extended, and whether it was deleted. */
    struct instant confirmed_at[LOCK_NODES_MAX];
    struct instant given_at[LOCK_NODES_MAX]; /* when it was given it again, and did not have it */
    struct votes votes;
    unsigned deleted;
    int64_t stood_ns;   /* for how long the clocks of its host had stood when it asked */
    const char *excuse; /* why nothing is promised for this hold; NULL = exclusion is promised */
    unsigned tries, acquired, acquired_before;
};

/* A process, and its successors after it was killed. */
struct lock_client {
    enum lock_client_kind kind;
    unsigned number;
    struct host *host;
    struct process *process;
    struct instant met_at[LOCK_NODES_MAX]; /* by this process: when each node first executed something of it */
    struct redlock_terms terms;
    struct redlock_options options;
    struct redlock_node nodes[LOCK_NODES_MAX];
    struct redlock_group *group; /* of the loop, while the process lives */
    struct loop *loop;
    struct loop_timer timer;
    unsigned busy_users; /* of the loop */
    struct lock_user users[LOCK_USERS_MAX];
};

struct lock_schedule {
    struct chance chance; /* for the parameters of the schedule; the world has another */
    enum lock_profile profile;
    unsigned node_count, client_count, user_count, resource_count;
    unsigned limit;   /* so many may hold the resource, each at its seat: for judges a resource each. 0 = one */
    bool has_readers; /* some of those who want locks share them */
    bool is_crowded;  /* readers overlap without end, and everybody waits */
    bool is_rolling;  /* the only trouble: nodes are away for long, one after the other, and a steward holds on */
    bool is_pressed;  /* no trouble: users of one resource leave no moment between them, and some want all */
    struct node *nodes[LOCK_NODES_MAX];
    struct node *former[LOCK_NODES_MAX]; /* lives on beside the one that has its address now; NULL = there is none */
    struct instant former_ended_at[LOCK_NODES_MAX]; /* not the server that is at the address now */
    struct node *spare;                             /* for a replacement */
    char names[LOCK_NODES_MAX][16];
    unsigned replaced; /* the index of the node that the spare is to replace; node_count = none */
    bool is_replacing, was_replaced;
    unsigned moves;
    unsigned voting; /* the set of nodes that had votes when an operator looked last */
    struct lock_client clients[LOCK_CLIENTS_MAX];
    int64_t max_ttl_ns;
    struct instant deleted_at[LOCK_RESOURCES_MAX]; /* by hand, the last time; INSTANT_NEVER = it goes on */
    unsigned deleting[LOCK_RESOURCES_MAX];         /* by so many hands */
    struct instant healed_at;                      /* by an operator, the last time; INSTANT_NEVER = it goes on */
    bool keeps_memory, keeps_clocks;
    bool is_exclusive; /* exclusion is promised */
    bool is_herd;      /* all want the same at the same time */
    bool is_apart;     /* the clocks of nodes show different times, at the right rate */
    bool is_calm;      /* the trouble has ended: holds are short */
    bool is_quitting;  /* users take no more */
    bool is_made;      /* the group */
    bool is_minor;     /* trouble is at a minority of the nodes, and nowhere else */
};

extern struct lock_schedule lock_schedule; /* of this process */
extern const char *const lock_profile_names[LOCK_PROFILES];

void lock_schedule_play(uint64_t seed);
/* The key of a resource; with a limit, of a seat of the only one that there is. */
const char *lock_key_name(unsigned resource);

/* lock/draw.c */
void lock_draw(uint64_t seed);

/* lock/users.c */
void lock_client_start(struct lock_client *client);
/* What it wants next, and as whom: fills the request, whose texts stay until its next one. */
void lock_user_wants(struct lock_user *user, struct redlock_request *request);
/* It has this seat of what it wanted; 0 = there is only one. */
void lock_user_has(struct lock_user *user, unsigned seat);
int64_t lock_user_hold_ns(struct lock_user *user);
/* It holds a resource that nobody else wants until the trouble is over. */
bool lock_user_is_steward(const struct lock_user *user);
/* It wants all resources, and others leave none of them free. */
bool lock_user_is_pressed(const struct lock_user *user);
int64_t lock_user_rest_ns(struct lock_user *user);

/* lock/loop_users.c, lock/foreign.c: main functions of processes. */
void lock_loop_main(void *client);
void lock_foreign_main(void *client);

/* lock/operator.c */
void lock_operate(struct chance *draw);
void lock_operator_start(void (*main)(void *argument), void *argument);
bool lock_is_operated(void); /* somebody is changing the members */
void lock_group_make(void *argument);
void lock_heal(void); /* unless somebody changes the members */
void lock_group_replace(void *argument);
void lock_group_look(void *argument);
void lock_node_move(unsigned index);
void lock_node_move_end(unsigned index);

/* lock/judge.c: each may end the schedule. */
void lock_judge_watch(struct node *node); /* from now on */
int64_t lock_judge_belief_ns(const struct lock_user *user);
void lock_judge_asked(struct lock_user *user);
void lock_judge_acquired(struct lock_user *user);
void lock_judge_holds(struct lock_user *user); /* looked at while it is held */
void lock_judge_lost(struct lock_user *user);
void lock_judge_patience(void); /* now and then, while some are pressed */
void lock_judge_refused(struct lock_user *user, enum redlock_answer answer);
void lock_judge_lease(struct lock_user *user);
void lock_judge_deleted_by_hand(unsigned resource, bool is_over);
/* Whether every user got a lock since the trouble ended; if not, who did not. */
bool lock_judge_has_recovered(const struct lock_user **who);
void lock_judge_left(void);
/* The user that has or wants a lock with this value; NULL = none any more. */
struct lock_user *lock_user_of_value(struct text value);
/* What a node has for it; NULL = nothing. */
const struct value *lock_value_on(const struct node *node, unsigned resource);
const struct value *lock_named_on(const struct node *node, const char *name);

/* lock/judge_nodes.c: what is done to the keys of others. Returns the set of resources whose keys are changed. */
unsigned lock_judge_executed(unsigned index, const struct server_event *event);
/* A script has given the user again what it has there. */
void lock_judge_given(struct lock_user *user, unsigned index, unsigned resource, const struct server_event *event);
/* The node executes what the process sent long ago, or the process says later what it has decided by now. */
bool lock_judge_lags(const struct node *node, const struct process *process);
void lock_judge_forget_node(unsigned index); /* its keys were changed by hand, or another server has its number */

/* lock/judge_readers.c. What the node has is that of readers. */
bool lock_is_shared(const struct value *value);
/* Until when the node has it, in milliseconds of its clock; 0 = it has not. */
int64_t lock_reader_ends_ms(const struct node *node, unsigned resource, const struct lock_user *user);
/* `is_fresh`: what the node had before is not known. */
void lock_judge_readers(unsigned index, unsigned resource, bool is_fresh, const struct server_event *event);
void lock_judge_readers_forget(unsigned index);
/* The key was free, and the user has it now. */
void lock_judge_turn(unsigned index, unsigned resource, const struct lock_user *user, const struct server_event *event);

/* lock/judge_tokens.c */
void lock_judge_tokens_begin(void);
void lock_judge_token(struct lock_user *user);
void lock_judge_write(struct lock_user *user); /* a write to what the lock protects, which may arrive at any time */

/* lock/judge_told.c: of a lock of the loop. */
void lock_judge_event(struct lock_user *user, const struct redlock_event *event);
void lock_judge_given_back(struct lock_user *user);
void lock_judge_process_died(struct lock_client *client);

#endif
