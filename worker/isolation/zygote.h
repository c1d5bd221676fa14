/* Inside the zygote (launcher.h says what it is for): one thread, no libuv, hardly any memory of its own. Its loop:
 *
 *     look at the board, kill whose time is over, set the alarm for the next   zygote_deadlines.c
 *     report what became of children                                          zygote_children.c, zygote_strays.c
 *     wait for an order, a child's end, the alarm, or the worker's death      zygote.c
 *     one order                                                               zygote_orders.c, zygote_child.c
 *
 * It must never wait for the worker, which may be stopped: reports that the socket does not take stay with their
 * children until it does. Nothing here but zygote_start and zygote_end belongs to the worker. */
#ifndef WORKER_ZYGOTE_H
#define WORKER_ZYGOTE_H

#include "worker/isolation/launcher.h"
#include "worker/isolation/zygote_message.h"

/* The places of the zygote's own descriptors. The lowest numbers that a plan can ask for are among them, so what comes
 * with orders lies above these, and children can have it moved down in any order. */
enum {
    ZYGOTE_SOCKET = 3,
    ZYGOTE_SIGNALS,
    ZYGOTE_ALARM,  /* a timerfd on CLOCK_BOOTTIME */
    ZYGOTE_WORKER, /* a pidfd */
    ZYGOTE_NOTHING,
    ZYGOTE_LOG, /* if the log goes to a descriptor that is none of the first three */
};
_Static_assert((int)ZYGOTE_NOTHING >= (int)CHILD_DESCRIPTORS_MAX, "/dev/null is not overwritten while it is needed");

struct zygote_child {
    uint64_t number;
    pid_t pid; /* and its process group */
    enum {
        BIRTH_FAILED, /* there is no process */
        BIRTH_ALIVE,
        BIRTH_LINGERS, /* reaped and killed, but what it left behind is not gone yet */
        BIRTH_ENDED,
    } state;
    bool is_announced; /* the worker was told of its birth */
    bool is_killed;    /* because its time was over */
    int failure;
    struct child_exit end;
    bool has_strays;              /* as of the last look */
    struct instant lingers_until; /* then its end is told whatever is left of it */
};

struct zygote_process {
    struct zygote_options options;
    struct zygote_child *children;
    unsigned count, capacity;
    unsigned alive, lingering;
    bool has_news;   /* a child may have something to tell */
    bool is_blocked; /* by a socket that takes no more */
    struct instant armed;
    bool worker_is_gone, has_said_good_bye;
};

/* --- zygote_children.c: who there is, and what is to be told of them ---------------------------------------------- */

/* With BIRTH_FAILED as its state. */
struct zygote_child *zygote_child_add(struct zygote_process *zygote, uint64_t number);
/* NULL when it is not, or no longer, alive. */
struct zygote_child *zygote_child_find(struct zygote_process *zygote, uint64_t number);
/* The leader that is alive, or not reaped, with this pid. */
struct zygote_child *zygote_child_of_pid(struct zygote_process *zygote, pid_t pid);
/* Reaps all that have died, and what they have left behind. */
void zygote_children_reap(struct zygote_process *zygote);
/* As much as the socket takes. */
void zygote_children_tell(struct zygote_process *zygote);
void zygote_children_kill_all(struct zygote_process *zygote);
/* Reaps who has died; false when there are no children at all, not even strays. */
bool zygote_dead_reap(struct zygote_process *zygote);

/* --- zygote_strays.c: descendants that left their groups --------------------------------------------------------- */

/* What the child of this number is born with, for birth->mark. */
uint64_t zygote_mark(uint64_t number);
/* Those of children that linger; has_strays says of each whether there were any. */
void zygote_strays_kill(struct zygote_process *zygote);
/* Kills all descendants, level by level, and reaps them; false when some are left after `limit_ns`. Only when no child
 * is alive. */
bool zygote_strays_end(struct zygote_process *zygote, int64_t limit_ns);

/* --- zygote_child.c: the last steps of a child -------------------------------------------------------------------- */

struct zygote_birth {
    const struct zygote_options *options;
    const struct zygote_order *order;
    int descriptors[CHILD_DESCRIPTORS_MAX]; /* at least the first three */
    unsigned descriptor_count;
    char **arguments, **environment; /* of a program */
    int program;                     /* its file (O_PATH) */
    pid_t zygote;
    uint64_t mark; /* zygote_strays.c */
    volatile int failure;
};

/* Its pid, or the negative errno. */
pid_t zygote_child_bear(struct zygote_birth *birth);

/* --- zygote_orders.c ---------------------------------------------------------------------------------------------- */

/* One order, if there is one. */
void zygote_order_take(struct zygote_process *zygote);
/* What the worker said before it was gone; nothing is started any more. */
void zygote_last_orders_take(struct zygote_process *zygote);

/* --- zygote_deadlines.c ------------------------------------------------------------------------------------------- */

void zygote_deadlines_keep(struct zygote_process *zygote);
void zygote_alarm_rang(struct zygote_process *zygote);

/* --- zygote_obituary.c -------------------------------------------------------------------------------------------- */

/* What the board says of a worker that died. */
void zygote_obituary_log(const struct zygote_options *options, pid_t worker);
/* After that, and when all children are gone. */
void zygote_mourn(const struct zygote_options *options);

#endif
