/* One schedule of locks: lock nodes, client processes whose threads use libredlock as any program does, an operator who
 * makes the group, trouble, and judges. */
#ifndef SIM_LOCK_SCHEDULE_H
#define SIM_LOCK_SCHEDULE_H

#include "redlock/redlock.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/world/node.h"
#include "tests/sim/world/play.h"

enum { LOCK_NODES_MAX = 7, LOCK_CLIENTS_MAX = 5, LOCK_USERS_MAX = 3, LOCK_RESOURCES_MAX = 3 };

/* A thread that wants locks, one after the other. */
struct lock_user {
    struct lock_client *client;
    unsigned number;
    struct chance chance;
    struct redlock_held *held; /* NULL = it has none */
    unsigned resources;        /* a set: of the lock that it has or wants */
    char owner[24];            /* another for each hold */
    uint64_t token;
    struct instant asked; /* the true time */
    unsigned tries, acquired, acquired_before;
};

/* A process, and its successors after it was killed. */
struct lock_client {
    struct lock_schedule *schedule;
    unsigned number;
    struct host *host;
    struct process *process;
    struct redlock_terms terms;
    struct redlock_options options;
    struct redlock_node nodes[LOCK_NODES_MAX];
    struct lock_user users[LOCK_USERS_MAX];
};

struct lock_schedule {
    struct chance chance; /* of what the schedule is like; the world has its own */
    unsigned node_count, client_count, user_count, resource_count;
    struct node *nodes[LOCK_NODES_MAX];
    char names[LOCK_NODES_MAX][16];
    struct lock_client clients[LOCK_CLIENTS_MAX];
    int64_t max_ttl_ns;
    bool is_calm;     /* the trouble has ended: holds are short */
    bool is_quitting; /* users take no more */
    bool is_made;     /* the group */
    bool is_wild;     /* anything may go wrong at any number of nodes: no exclusion is promised */
    bool is_minor;    /* things go wrong at a minority of the nodes, and nowhere else */
};

void lock_schedule_play(uint64_t seed);

/* lock/users.c */
void lock_client_start(struct lock_client *client);

extern const char *const lock_resource_names[LOCK_RESOURCES_MAX];

/* lock/judge.c: each may end the schedule. */
void lock_judge_watch(struct lock_schedule *schedule); /* from now on */
void lock_judge_acquired(struct lock_user *user);
void lock_judge_holds(struct lock_user *user); /* looked at while it is held */
void lock_judge_lost(struct lock_user *user);
void lock_judge_refused(struct lock_user *user, enum redlock_answer answer);
void lock_judge_lease(struct lock_user *user);
/* Whether everybody got a lock since the trouble ended; else who did not. */
bool lock_judge_has_recovered(const struct lock_schedule *schedule, const struct lock_user **who);
void lock_judge_left(struct lock_schedule *schedule);

#endif
