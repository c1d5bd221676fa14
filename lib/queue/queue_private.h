/* Private to lib/queue: queue.c (turns of slots), bell.c (waking), leave.c (the end). */
#ifndef QUEUE_QUEUE_PRIVATE_H
#define QUEUE_QUEUE_PRIVATE_H

#include "queue/errand.h"
#include "queue/keys.h"
#include "queue/queue.h"

enum { CLAIM_ID_BYTES = 16 };

/* What a slot's place on the node holds, and the call that is about to change it. */
struct claim_slot {
    unsigned char id[CLAIM_ID_BYTES];
    unsigned char next[CLAIM_ID_BYTES];
    bool has_id;        /* false: the place was never written */
    bool asking;        /* a call is outstanding or gathered */
    bool wants;         /* the call claims */
    bool sets_right;    /* the call gives back what the node had in the place of a lost claim */
    struct errand move; /* postpone and give back */
};

/* A connection as the server calls it. */
struct bell_line {
    long long id; /* 0 = not known */
    char address[160];
};

struct bell {
    struct queue *queue;
    const char *name; /* of the queue */
    struct redis_node *node;
    struct redis_call wait;   /* the blocking move */
    struct redis_call asking; /* CLIENT INFO */
    struct redis_call ending; /* of a wait */
    struct loop_timer rest;   /* after a refusal */
    struct errand put_back;
    bool putting_back;
    bool doubtful;         /* a wait ended without an answer */
    bool introduced;       /* the connection is known, and no other one waits any more */
    bool waits;            /* a wait was sent over `waiting`, and its end is not known */
    struct bell_line line; /* the connection that is up */
    struct bell_line waiting;
};

struct queue {
    struct loop *loop;
    struct redis_node *node;
    struct queue_options options;
    struct queue_keys keys;
    char *identity;
    char **names;
    struct errands errands;
    struct claim_slot *slots;
    unsigned *gathered; /* slots whose turn leaves at the end of this one */
    unsigned gathered_count;
    struct loop_hook gather;
    struct list idle_turns;
    struct list turns;
    struct bell *bells;
    bool listening;
    bool was_up; /* else nothing can have been claimed */
    struct buffer request;
    struct queue_counters counters;
    /* leaving */
    bool leaving;
    struct loop_timer leave_timer;
    struct instant leave_by;
    struct instant settle_by; /* until then the calls of slots are waited for */
    struct redis_call leave_call;
    void (*left)(void *context, bool left);
    /* counting */
    struct redis_call count_call;
    void (*counted)(void *context, const struct queue_backlog *backlog);
    struct errand presence; /* enlists the process */
    bool presenting;
};

void bells_create(struct queue *queue);
void bells_destroy(struct queue *queue);
void bells_arm(struct queue *queue);
/* Ends the blocking moves; true once none can move a task any more. */
bool bells_silence(struct queue *queue);

#endif
