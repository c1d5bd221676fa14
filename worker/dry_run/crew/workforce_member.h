/* Private to workforce.c: one of its processes, and what it shares with the one that started it. */
#ifndef WORKER_DRY_RUN_WORKFORCE_MEMBER_H
#define WORKER_DRY_RUN_WORKFORCE_MEMBER_H

#include <stdatomic.h>

#include "worker/dry_run/crew/record_ring.h"
#include "worker/dry_run/crew/workforce.h"
#include "worker/task/board.h"

/* Words that the new process writes. */
struct workforce_share {
    _Alignas(64) atomic_bool is_ready;
    _Atomic uint64_t witness_lost;
};

struct workforce_member {
    const struct workforce_options *options;
    unsigned number; /* from 1 on */
    struct board *board;
    struct workforce_share *share;
    size_t share_size;
    struct record_ring **rings; /* of its loop, and of each of its threads; within `share` */
    unsigned ring_count;
    int gate; /* a byte there: it may go; its end: nobody is there who could say so */
    int log;  /* the log is written there */
};

/* In the new process; ends it. */
_Noreturn void workforce_member_run(const struct workforce_member *member, pid_t parent);

#endif
