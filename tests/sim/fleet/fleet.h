/* One schedule of a fleet: a queue node, lock nodes, worker processes as production runs them, producers, an operator,
 * trouble, and judges. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include "jobs/job.h"
#include "queue/holdfast.h"
#include "redlock/redlock.h"
#include "tests/sim/world/node.h"
#include "tests/sim/world/play.h"

enum {
    FLEET_NODES_MAX = 5,
    FLEET_WORKERS_MAX = 4,
    FLEET_PRODUCERS_MAX = 2,
    FLEET_TASKS_MAX = 256,
    FLEET_RESOURCES_MAX = 4,
    PLACES_EACH = 16 /* scripts: so often all places are looked at */
};

/* What is known of a task from outside. */
struct fleet_task {
    char jid[32];
    unsigned number, resource; /* FLEET_RESOURCES_MAX = it needs no lock */
    enum hf_push_answer pushed;
    unsigned begun, ended; /* runs of its handler: ended as done */
    bool is_unwanted;      /* an operator cancelled or deleted it */
};

struct fleet_worker {
    unsigned number;
    struct host *host;
    struct process *process;
    unsigned lives;
};

struct fleet {
    struct chance chance; /* of what the schedule is like; the world has its own */
    struct node *queue, *nodes[FLEET_NODES_MAX];
    unsigned node_count, worker_count, producer_count, task_count, resource_count, threads;
    char config[2048];
    struct redlock_node lock_nodes[FLEET_NODES_MAX];
    struct redlock_options lock_options;
    struct fleet_worker workers[FLEET_WORKERS_MAX];
    struct process *producers[FLEET_PRODUCERS_MAX];
    struct fleet_task tasks[FLEET_TASKS_MAX];
    int64_t push_gap_ns, hold_ns;
    enum hf_isolation isolation; /* of handlers */
    bool is_made;                /* the lock group */
    bool is_calm;                /* the trouble has ended */
    bool is_wild, is_minor;      /* as in trouble.h */
    bool is_refusing;            /* the queue node may refuse what is written */
    unsigned scripts;            /* that the queue node executed */
};

extern struct fleet fleet; /* one schedule in a process */

void fleet_play(uint64_t seed);

/* fleet/worker.c */
void fleet_worker_start(struct fleet_worker *worker);
void fleet_signal(struct process *process, int number);

struct hf_job;
int fleet_handler_run(struct hf_job *job, void *state);

/* fleet/zygote.c: in the process that becomes a worker. */
struct zygote;
struct board;
void fleet_zygote_start(struct zygote *zygote, struct board *board);

/* fleet/producer.c */
void fleet_producer_start(unsigned number);

/* fleet/judge.c */
struct hf_job;
void fleet_judge_watch(void);
void fleet_judge_begun(struct fleet_task *task, const struct hf_job *job);
void fleet_judge_ended(struct fleet_task *task, const struct hf_job *job, bool is_done);
bool fleet_is_idle(void); /* nothing is left to do, as the queue node says */
void fleet_judge_end(void);

#endif
