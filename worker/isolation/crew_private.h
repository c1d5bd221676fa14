/* Private to crew.c (who gets which run) and crew_member.c (one process). All on the loop.
 *
 * A member is in one state, and member_enter is the only mover:
 *
 *     STARTING -> IDLE <-> BUSY           READY came; RUN was sent; END came
 *     IDLE, STARTING -> LEAVING           BYE was sent
 *     any -> CONDEMNED                    it was killed, or its socket has ended: only its end is awaited
 *     any -> gone                         its end was told: the launcher has reaped it
 *
 * A run ends by END, or when its process is gone; never before. */
#ifndef WORKER_CREW_PRIVATE_H
#define WORKER_CREW_PRIVATE_H

#include "worker/isolation/crew.h"
#include "worker/isolation/runner_message.h"
#include "worker/isolation/output.h"

enum { CREW_SCRATCH_BYTES = 1 << 16 };

/* What members are alike in: any of a pool can run what waits there. */
struct crew_pool {
    struct crew *crew;
    struct list link;
    const struct plugin *plugin;
    int64_t memory_limit, open_files_limit;
    struct list idle;    /* members, the one that ran last first */
    struct list waiting; /* runs, in the order in which they came */
    unsigned members;    /* not counting those that are leaving or condemned */
    unsigned starting;   /* of these */
    unsigned strikes;    /* processes that did not open the plugin, one after the other */
    struct instant not_before;
    struct loop_timer retry; /* then: nothing else may happen that lets those who wait be looked at */
    struct instant told;     /* of it in the log; 0 = not yet */
};

enum member_state { MEMBER_STARTING, MEMBER_IDLE, MEMBER_BUSY, MEMBER_LEAVING, MEMBER_CONDEMNED };

struct crew_member {
    struct crew *crew;
    struct crew_pool *pool;
    struct list link;      /* in crew->members */
    struct list idle_link; /* in pool->idle while MEMBER_IDLE */
    enum member_state state;
    unsigned generation;
    struct child child;
    pid_t pid; /* 0 = not known yet */
    int socket;
    struct loop_watch *watch; /* NULL once the socket has ended, or is not to be listened to */
    struct output *output;    /* what it writes to its standard output and error */
    struct output_budget budget;
    struct buffer in, out; /* what is not a whole frame yet; what the socket did not take yet */
    bool waits_to_write;
    struct isolated_run *run; /* NULL = none */
    uint64_t run_number;
    bool is_asked; /* `verify` is out, for question number `question` */
    int64_t question;
    struct redlock_verify verify;
    struct loop_timer patience; /* with its opening, or its leaving */
    unsigned runs;              /* so far */
    int64_t memory;             /* bytes, when it was looked at last */
    struct instant idle_since;
    bool was_opened, has_struck;       /* its plugin; the pool was told that it was not */
    bool was_dismissed;                /* BYE was sent */
    char complaint[RUNNER_REASON_MAX]; /* why it was killed; "" = it was not, here */
};

struct crew_times {
    int64_t idle_ns;                   /* a process that was idle for so long ends */
    int64_t open_ns, leave_ns;         /* for opening the plugin, and for closing it */
    int64_t back_off_ns, back_off_max; /* after a process that did not open its plugin; doubled each time */
};

struct crew {
    struct isolation_options options;
    struct crew_times times;
    struct list pools, members;
    struct loop_hook serve;
    struct loop_timer idle_look;
    unsigned active, leaving; /* members: the former have a place, the latter are to end */
    unsigned generation;
    char scratch[CREW_SCRATCH_BYTES]; /* what is read from any member, while it is looked at */
};

/* A process has become idle, or has gone, or a run waits: runs and processes are brought together at the end of the
 * turn. */
void crew_look(struct crew *crew);
/* A process of the pool could not be made, or did not open its plugin. */
void pool_struck(struct crew_pool *pool, const char *reason);

/* False when there are no descriptors left. */
bool member_create(struct crew_pool *pool, struct error *error) MUST_CHECK;
/* The idle member runs it. False when it is dead; the run has not begun then. */
bool member_give(struct crew_member *member, struct isolated_run *run);
void member_retire(struct crew_member *member);
/* The questions of its run end unanswered. */
void member_unask(struct crew_member *member);
/* Everything of it in this process; its end need not have come. */
void member_free(struct crew_member *member);

/* What becomes of a run whose process has gone: its code, and the failure in the outcome of its job. `complaint` is why
 * the worker killed the process, "" = it did not. */
int crew_verdict(struct isolated_run *run, uint64_t run_number, const struct board *board, const struct child_exit *end,
                 const char *complaint);

#endif
