/* A worker of the release before, whose keys are of scheme 1 (hf:processes, hf:claims:IDENTITY, hf:bell:IDENTITY:QUEUE;
 * no leases): what it sends to the queue node, with the very texts of its scripts (tests/support/scheme1). It serves
 * the queue "jobs" with few slots, one turn at a time, and a run is what the test does between two turns. */
#ifndef CHAOS_FORMER_WORKER_H
#define CHAOS_FORMER_WORKER_H

#include "tests/support/fleet.h"

enum { FORMER_SLOTS = 4, FORMER_TASK_MAX = 512 };

struct former_slot {
    char id[17];                /* "" = its place was never written */
    char task[FORMER_TASK_MAX]; /* "" = none */
};

struct former_worker {
    struct fleet *fleet;
    char *claim, *postpone, *give_back, *leave; /* digests */
    struct former_slot slots[FORMER_SLOTS];
    unsigned ids, lost;
};

#define FORMER_IDENTITY "former:1:0123456789ab"

void former_worker_start(struct former_worker *worker, struct fleet *fleet);
/* What each slot had is done; claims the next ones, when wanted. */
void former_worker_turn(struct former_worker *worker, bool wants);
/* Moves a task as its bell did. */
void former_worker_ring(struct former_worker *worker);
void former_worker_retry(struct former_worker *worker, unsigned slot);
void former_worker_give_back(struct former_worker *worker, unsigned slot);
/* Gives back what it has. */
void former_worker_leave(struct former_worker *worker);

#endif
