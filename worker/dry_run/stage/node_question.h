/* Asks one private node something small, by the way that workers take, and again until it answers, however long that
 * takes: what a fault did to it is seen by that.
 *
 * Runs on the loop. */
#ifndef WORKER_DRY_RUN_NODE_QUESTION_H
#define WORKER_DRY_RUN_NODE_QUESTION_H

#include "base/list.h"
#include "base/loop.h"
#include "redis/node.h"
#include "worker/dry_run/stage/private_nodes.h"

enum node_question_kind {
    NODE_QUESTION_PING,
    NODE_QUESTION_KEYS,  /* how many keys it has */
    NODE_QUESTION_FLUSH, /* not a question: it loses all of them */
    NODE_QUESTION_TIME,  /* by how much its clock is ahead of ours, in microseconds */
};

struct node_answer {
    int64_t took_ns; /* since it was asked first */
    int64_t number;
};

struct node_asker; /* the connection to one node */
struct node_question {
    /* Once; may ask it again. */
    void (*answered)(struct node_question *question, const struct node_answer *answer);
    /* private */
    struct list link;
    struct redis_call call;
    struct node_asker *asker;
    enum node_question_kind kind;
    struct instant asked;
};

struct node_asker *node_asker_create(struct loop *loop, const struct private_nodes *nodes, unsigned number);
/* Its questions must have been cancelled. NULL is fine. */
void node_asker_destroy(struct node_asker *asker);

void node_question_init(struct node_question *question);
/* One that is still open is given up for this one. */
void node_question_ask(struct node_asker *asker, struct node_question *question, enum node_question_kind kind);
void node_question_cancel(struct node_question *question);

#endif
